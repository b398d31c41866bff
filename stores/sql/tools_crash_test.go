package sqlstore

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelchain/llm/tools"
)

// A crashTest kills processes that share one database.
type crashTest struct {
	*testing.T
	order toolOrder
	store *Store
	took  atomic.Int64 // a run that nothing disturbs, the fastest seen, in ns
	kills atomic.Int64 // processes that died by SIGKILL
	turns atomic.Int64
}

func newCrashTest(t *testing.T, p place) *crashTest {
	c := &crashTest{T: t, store: mustOpen(t, p, Config{})}
	c.order = toolOrder{Postgres: c.store.kind == postgres, Place: p.name, World: toolWorld(t.TempDir())}
	o := c.order
	o.Turn, o.Tool = "undisturbed", unkeyed
	c.took.Store(math.MaxInt64)
	if out, _ := c.run(o); c.took.Load() == math.MaxInt64 {
		t.Fatalf("the output is %q", out)
	}
	return c
}

// run runs another process to its end.
func (c *crashTest) run(o toolOrder) (out string, killed bool) {
	cmd, err := o.process(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	b, err := cmd.CombinedOutput()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.String() == "signal: killed" {
		c.kills.Add(1)
		return string(b), true
	}
	if err != nil {
		c.Errorf("%s %s, point %d, after %v: %v\n%s", o.Turn, o.Tool, o.Point, o.After, err, b)
	}
	if _, after, ok := strings.Cut(string(b), "took "); ok {
		line, _, _ := strings.Cut(after, "\n")
		ns, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			c.Error(err)
		}
		for old := c.took.Load(); ns < old && !c.took.CompareAndSwap(old, ns); old = c.took.Load() {
		}
	}
	return string(b), false
}

// A crash is a turn and the ways in which the processes that work on it die, one after the other.
type crash struct {
	tool string
	how  []toolOrder // of which Point and After count
}

func (c *crashTest) all(crashes []crash) {
	work := make(chan crash)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for w := range work {
				c.one(w)
			}
		})
	}
	for _, w := range crashes {
		work <- w
	}
	close(work)
	workers.Wait()
}

// one kills the processes of a crash, goes on with the turn, and checks that there is one effect and one result.
func (c *crashTest) one(w crash) {
	turn := fmt.Sprint("turn", c.turns.Add(1))
	key, errorf := toolKey(c.T, turn, w.tool), func(format string, args ...any) {
		c.Errorf("%s, %+v: "+format, append([]any{w.tool, w.how}, args...)...)
	}
	told := "" // the result that a process handed over
	for i, how := range w.how {
		o := c.order
		o.Turn, o.Tool, o.Point, o.After = turn, w.tool, how.Point, how.After
		out, killed := c.run(o)
		if i == 0 && how.Point > 0 && !killed {
			errorf("it came to no such point: %s", out)
		}
		if _, after, ok := strings.Cut(out, "result "); ok {
			receipt, _, _ := strings.Cut(after, "\n")
			if told != "" && told != receipt {
				errorf("the result was %q, then %q", told, receipt)
			}
			told = receipt
		}
		c.bury(turn, key)
	}

	// Nobody is at work on it now. What is certain?
	rec, err := c.store.Tools().Get(c.Context(), key)
	if err != nil && !errors.Is(err, tools.ErrNoRecord) {
		errorf("%v", err)
		return
	}
	before := c.effects(turn)
	begun := rec.State == tools.Started || rec.State.Over()
	switch {
	case len(before) > 1, len(before) == 1 && !begun, rec.State.Over() && len(before) != 1:
		errorf("the record is %q, and the effects are %q", rec.State, before)
	case told != "" && !rec.State.Over():
		errorf("the result %q was handed over, and the record is %q", told, rec.State)
	}

	e := c.order.World.executor(c.store.Tools(), func() {})
	msg, err := e.Run(c.Context(), turn, toolAnswer(w.tool))
	if w.tool == unkeyed && rec.State == tools.Started {
		for range 2 {
			d, ok := errors.AsType[*tools.DoubtError](err)
			if !ok || d.Key != key || d.Again || len(c.effects(turn)) != len(before) {
				errorf("in doubt after %d effects, %d later: %v", len(before), len(c.effects(turn)), err)
				return
			}
			_, err = e.Run(c.Context(), turn, toolAnswer(w.tool))
		}
		if len(before) == 1 { // a person looks
			err = e.MarkDone(c.Context(), key, tools.Text(before[0]))
		} else {
			err = e.MarkNotDone(c.Context(), key)
		}
		if err != nil {
			errorf("%v", err)
		}
		msg, err = e.Run(c.Context(), turn, toolAnswer(w.tool))
	}
	for range 2 {
		if err != nil {
			errorf("%v", err)
			return
		}
		done := c.effects(turn)
		if len(done) != 1 || receiptOf(msg) != done[0] || told != "" && told != done[0] || len(before) == 1 && before[0] != done[0] {
			errorf("the effects are %q, before %q, the result %q, before %q", done, before, receiptOf(msg), told)
		}
		msg, err = e.Run(c.Context(), turn, toolAnswer(w.tool))
	}
}

func (c *crashTest) effects(turn string) []string {
	done, err := c.order.World.effects(turn)
	if err != nil {
		c.Error(err)
	}
	return done
}

// bury waits until nothing of a dead process is at work, and ends its lease, for which one would wait otherwise. A server may
// still take a step for a process that is gone.
func (c *crashTest) bury(turn, key string) {
	for left := 1; c.store.kind == postgres && left > 0; {
		err := c.store.read().one(c.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = ?", []any{turn}, &left)
		if err != nil {
			c.Error(err)
			return
		}
	}
	if err := c.store.do(c.Context(), func(ctx context.Context, t tx) error {
		_, err := t.exec(ctx, "UPDATE llm_tool_call SET until_us = 0 WHERE key = ?", key)
		return err
	}); err != nil {
		c.Error(err)
	}
}

// systematic is a crash at each point for each tool, and then at each point of the process that goes on where that died.
func systematic(times int) (out []crash) {
	for i := range times {
		for point := 1; point <= toolPoints; point++ {
			for _, tool := range []string{unkeyed, keyed, reconciled} {
				how := []toolOrder{{Point: point}}
				if i > 0 {
					how = append(how, toolOrder{Point: 1 + (point+i)%6})
				}
				out = append(out, crash{tool, how})
			}
		}
	}
	return out
}

// atRandom is a crash at any moment of a run, and in every third one another of the process that goes on.
func (c *crashTest) atRandom(n int) (out []crash) {
	moment := func() time.Duration { return 1 + time.Duration(rand.N(c.took.Load())) }
	for i := range n {
		how := []toolOrder{{After: moment()}}
		if i%3 == 0 {
			how = append(how, toolOrder{After: moment()})
		}
		out = append(out, crash{[]string{unkeyed, keyed, reconciled}[rand.N(3)], how})
	}
	return out
}

func TestNoKillRepeatsAnEffectOrLosesAResult(t *testing.T) {
	for _, c := range []struct {
		name   string
		open   func(testing.TB) place
		points int // rounds of them
		kills  int
	}{{"sqlite", sqlitePlace, 2, 200}, {"postgres", postgresPlace, 1, 50}} {
		t.Run(c.name, func(t *testing.T) {
			ct := newCrashTest(t, c.open(t))
			began := time.Now()
			ct.all(systematic(c.points))
			bySystem := ct.kills.Load()
			for int(ct.kills.Load()) < c.kills && !t.Failed() {
				ct.all(ct.atRandom(min(20, c.kills-int(ct.kills.Load()))))
			}
			t.Logf("%d kills, %d of them at chosen points, over %d turns in %v; a run takes %v",
				ct.kills.Load(), bySystem, ct.turns.Load(), time.Since(began), time.Duration(ct.took.Load()))
		})
	}
}

// A racer is a process that runs what it is told.
type racer struct {
	in  io.Writer
	out *bufio.Scanner
}

func (o toolOrder) racer(t *testing.T) racer {
	t.Helper()
	cmd, err := o.process(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	r := racer{in, bufio.NewScanner(out)}
	t.Cleanup(func() {
		in.Close()
		io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("a racer: %v", err)
		}
	})
	if got := r.line(t); got != "ready" {
		t.Fatalf("the racer says %q", got)
	}
	return r
}

func (r racer) line(t *testing.T) string {
	t.Helper()
	if !r.out.Scan() {
		t.Fatalf("a racer is gone: %v", r.out.Err())
	}
	return r.out.Text()
}

func TestTwoProcessesThatRaceRunACallOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		open   func(testing.TB) place
		rounds int
	}{{"sqlite", sqlitePlace, 50}, {"postgres", postgresPlace, 20}} {
		t.Run(c.name, func(t *testing.T) {
			p := c.open(t)
			s := mustOpen(t, p, Config{})
			o := toolOrder{Postgres: s.kind == postgres, Place: p.name, World: toolWorld(t.TempDir())}
			racers := []racer{o.racer(t), o.racer(t)}
			winners := map[string]int{}
			for round := range c.rounds {
				turn, tool := fmt.Sprint("turn", round), []string{unkeyed, keyed, reconciled}[round%3]
				key := toolKey(t, turn, tool)
				if tool == reconciled { // they race to take over what a dead process left
					left := tools.Record{Key: key, Turn: turn, Tool: tool, Owner: "dead"}
					_, err := s.Tools().Claim(t.Context(), left, time.Hour)
					err = cmp.Or(err, s.Tools().Move(t.Context(), tools.Move{Key: key, Owner: "dead", To: tools.Started, Lease: 1}))
					if err != nil {
						t.Fatal(err)
					}
				}
				for _, r := range racers {
					if _, err := fmt.Fprintln(r.in, turn, tool); err != nil {
						t.Fatal(err)
					}
				}
				first, second := racers[0].line(t), racers[1].line(t)
				done, err := o.World.effects(turn)
				if err != nil || len(done) != 1 || first != "result "+done[0] || second != first {
					t.Fatalf("round %d, %s: the effects are %q, %v; the processes say %q and %q", round, tool, done, err, first, second)
				}
				rec, err := s.Tools().Get(t.Context(), key)
				if err != nil || rec.State != tools.Committed {
					t.Fatalf("the record is %+v, %v", rec, err)
				}
				owner, _, _ := strings.Cut(rec.Owner, "#")
				winners[owner]++
			}
			t.Logf("winners: %v", winners)
		})
	}
}
