package sqlstore

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/tools"
)

// toolWorld is a directory that tools act on: what happened there survives the process that did it, and can be counted.
type toolWorld string

// act is an effect: a line in a file of the turn's, with a receipt that no other effect has.
func (w toolWorld) act(turn string) (receipt string, err error) {
	f, err := os.OpenFile(filepath.Join(string(w), turn), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	receipt = rand.Text()
	_, err = f.WriteString(receipt + "\n") // one call, so that it is there whole or not at all
	return receipt, cmp.Or(err, f.Sync(), f.Close())
}

// actOnce is the effect of a backend that does the work of one key once: a link is made whole, and by one process alone.
func (w toolWorld) actOnce(turn, key string) (receipt string, err error) {
	receipt = rand.Text()
	name, fresh := filepath.Join(string(w), turn+" "+key), filepath.Join(string(w), "fresh "+receipt)
	if err := os.WriteFile(fresh, []byte(receipt), 0o600); err != nil {
		return "", err
	}
	if err := os.Link(fresh, name); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	b, err := os.ReadFile(name)
	return string(b), err
}

// effects lists the receipts of a turn: of each effect of act, and of actOnce for each key.
func (w toolWorld) effects(turn string) (receipts []string, err error) {
	names, err := filepath.Glob(filepath.Join(string(w), turn+" *"))
	if err != nil {
		return nil, err
	}
	for _, name := range append(names, filepath.Join(string(w), turn)) {
		b, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		receipts = append(receipts, strings.Fields(string(b))...)
	}
	return receipts, nil
}

// The tools of the world, by how they are proof against a crash.
const (
	unkeyed    = "unkeyed"
	keyed      = "keyed"
	reconciled = "reconciled"
)

// executor has the three tools; at is called at each point where a process may die.
func (w toolWorld) executor(store tools.Store, at func()) *tools.Executor {
	run := func(act func(c tools.Call) (string, error)) func(context.Context, tools.Call) (tools.Result, error) {
		return func(_ context.Context, c tools.Call) (tools.Result, error) {
			at()
			receipt, err := act(c)
			at()
			return tools.Text(receipt), err
		}
	}
	plain := run(func(c tools.Call) (string, error) { return w.act(c.Turn) })
	return tools.New(tools.Config{Store: mortal{store, at}, Tools: []tools.Tool{
		{Spec: llm.Tool{Name: unkeyed}, Run: plain},
		{Spec: llm.Tool{Name: keyed}, Effect: tools.Keyed, Run: run(func(c tools.Call) (string, error) { return w.actOnce(c.Turn, c.Key) })},
		{Spec: llm.Tool{Name: reconciled}, Run: plain, Reconcile: func(_ context.Context, c tools.Call) (tools.Result, error) {
			at()
			done, err := w.effects(c.Turn)
			if err == nil && len(done) == 0 {
				err = tools.ErrNotDone
			}
			return tools.Text(strings.Join(done, " and ")), err
		}},
	}})
}

// mortal is a store whose process may die before and after each step.
type mortal struct {
	tools.Store
	at func()
}

func (m mortal) Claim(ctx context.Context, r tools.Record, lease time.Duration) (tools.Record, error) {
	m.at()
	defer m.at()
	return m.Store.Claim(ctx, r, lease)
}

func (m mortal) Move(ctx context.Context, mv tools.Move) error {
	m.at()
	defer m.at()
	return m.Store.Move(ctx, mv)
}

func toolAnswer(tool string) *llm.Response {
	return &llm.Response{Stop: llm.StopToolCalls, Parts: []llm.Part{{Kind: llm.PartToolCall, Call: &llm.ToolCall{
		ID: "call_" + rand.Text(), Name: tool, Arguments: json.RawMessage(`{"amount": 12.50}`),
	}}}}
}

func toolKey(t testing.TB, turn, tool string) string {
	t.Helper()
	key, err := tools.Key(turn, tool, json.RawMessage(`{"amount":12.5}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func receiptOf(msg llm.Message) string { return msg.Parts[0].Result.Parts[0].Text }

// A toolOrder tells another process what to do.
type toolOrder struct {
	Postgres   bool
	Place      string // path or DSN
	World      toolWorld
	Turn, Tool string        // "": turns and tools are read from standard input, a line each
	Point      int           // the process kills itself when it comes to this point, counted from 1. 0: never
	After      time.Duration // or this long after it began. 0: never
}

// toolPoints is how often at is called in a run that nothing disturbs: before and after Claim, Started, the effect, Committed,
// and after Run, the handing over of the result, and Acknowledge.
const toolPoints = 11

const envToolOrder = "LLM_TEST_TOOL_ORDER"

// open opens the database of the order.
func (o toolOrder) open(ctx context.Context) (*Store, error) {
	if o.Postgres {
		return OpenPostgres(ctx, o.Place, Config{})
	}
	return OpenSQLite(ctx, o.Place, Config{})
}

// TestProcessThatRunsTools is the other process of the tests of tools. By itself it does what the others do, without dying.
func TestProcessThatRunsTools(t *testing.T) {
	var o toolOrder
	var out io.Writer = os.Stdout
	text := os.Getenv(envToolOrder)
	if text == "" {
		out = io.Discard
		o = toolOrder{Place: sqlitePlace(t).name, World: toolWorld(t.TempDir()), Turn: "t", Tool: unkeyed}
	} else if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	s, err := o.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	points := 0
	at := func() {
		if points++; points == o.Point {
			die()
		}
	}
	e := o.World.executor(s.Tools(), at)
	if o.Turn == "" {
		fmt.Fprintln(out, "ready")
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			turn, tool, _ := strings.Cut(lines.Text(), " ")
			msg, err := e.Run(t.Context(), turn, toolAnswer(tool))
			if err != nil {
				fmt.Fprintln(out, "error", strings.ReplaceAll(err.Error(), "\n", " "))
				continue
			}
			fmt.Fprintln(out, "result", receiptOf(msg))
		}
		return
	}
	if o.After > 0 {
		time.AfterFunc(o.After, die)
	}
	began := time.Now()
	msg, err := e.Run(t.Context(), o.Turn, toolAnswer(o.Tool))
	took := time.Since(began)
	at()
	if _, ok := errors.AsType[*tools.DoubtError](err); ok && o.Tool == unkeyed {
		fmt.Fprintln(out, "doubt")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(out, "result", receiptOf(msg))
	at()
	if err := e.Acknowledge(t.Context(), o.Turn); err != nil {
		t.Error(err)
	}
	at()
	if points == toolPoints { // it did all of it itself
		fmt.Fprintln(out, "took", took.Nanoseconds())
	}
	done, err := o.World.effects(o.Turn)
	if err != nil || len(done) != 1 || done[0] != receiptOf(msg) {
		t.Errorf("the effects are %q, %v, and the result is %q", done, err, receiptOf(msg))
	}
}

// die is SIGKILL: nothing runs after it.
func die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

// process is another process with this order.
func (o toolOrder) process(ctx context.Context) (*exec.Cmd, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestProcessThatRunsTools$", "-test.count=1")
	cmd.Env = append(os.Environ(), envToolOrder+"="+string(text), "PGAPPNAME="+o.Turn)
	return cmd, nil
}
