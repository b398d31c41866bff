// Support-workflow runs the policy card of a support assistant against providers on loopback that fail in turn, and prints for
// each failure what was done about it and why. Its journal, its queue and the records of its tool are SQLite files.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/policy"
	riverqueue "github.com/modelchain/llm/queue/river"
	sqlstore "github.com/modelchain/llm/stores/sql"
)

const workflow = "support-answer"

//go:embed support.yaml routes.yaml
var cards embed.FS

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "support-workflow:", err)
		os.Exit(1)
	}
}

// An App is the assistant with all that it needs.
type App struct {
	providers *Providers
	dir       string
	store     *sqlstore.Store
	queue     *riverqueue.Queue
	set       atomic.Pointer[policy.Set]
	out       io.Writer
}

func run(ctx context.Context, out io.Writer) (err error) {
	a := &App{out: out}
	if a.dir, err = os.MkdirTemp("", "support"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(a.dir)) }()
	if a.providers, err = StartProviders(); err != nil {
		return err
	}
	defer a.providers.Close()
	if a.store, err = sqlstore.OpenSQLite(ctx, filepath.Join(a.dir, "journal.db"), sqlstore.Config{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.store.Close()) }()
	if a.queue, err = riverqueue.Open(ctx, riverqueue.Config{DSN: filepath.Join(a.dir, "queue.db")}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.queue.Close()) }()
	if err := a.writeCards(); err != nil {
		return err
	}
	worker, err := a.queue.Start(ctx, riverqueue.WorkerConfig{Callers: func(name string) (llm.Caller, error) {
		return a.set.Load().Caller(name)
	}, Poll: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, worker.Stop(ctx)) }()

	for i, s := range scenarios() {
		if err := a.load(); err != nil {
			return err
		}
		if i == 0 {
			text, err := a.set.Load().Explain(workflow)
			if err != nil {
				return err
			}
			a.say("%s\n", text)
		}
		if err := a.play(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.Injected, err)
		}
	}
	if err := a.refund(ctx); err != nil {
		return err
	}
	return a.report(ctx)
}

// writeCards puts the policy into the directory, with the address of the providers.
func (a *App) writeCards() error {
	for _, name := range []string{"support.yaml", "routes.yaml"} {
		text, err := cards.ReadFile(name)
		if err != nil {
			return err
		}
		filled := strings.ReplaceAll(string(text), "{{url}}", a.providers.URL)
		if err := os.WriteFile(filepath.Join(a.dir, name), []byte(filled), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// load reads the policy anew, so that no route rests because of what was injected before.
func (a *App) load() error {
	set, err := policy.Load(a.dir, policy.Options{
		LookupEnv: func(string) (string, bool) { return "a-key-for-the-demo", true },
		Journal:   a.store.Journal(), Queue: a.queue,
		Telemetry: middleware.TelemetryConfig{Logger: quiet},
	})
	if err == nil {
		a.set.Store(set)
	}
	return err
}

// A Scenario is what is injected into one question.
type Scenario struct {
	Injected        string
	Primary, Backup []llmtest.Turn
	Streamed        bool
	Later           []llmtest.Turn // what the primary says to a worker of the queue
}

// play asks one question and tells what became of it.
func (a *App) play(ctx context.Context, s Scenario) error {
	a.providers.Say(s.Primary, s.Backup)
	set := a.set.Load()
	chat, err := set.Caller(workflow)
	if err != nil {
		return err
	}
	req := &llm.Request{
		System:   "Answer as a JSON object with the field answer.",
		Messages: []llm.Message{llm.User("Where is my order?")},
		Labels:   map[string]string{"workflow": workflow},
	}
	var shown strings.Builder
	if s.Streamed {
		req.Sink = func(d llm.Delta) error {
			shown.WriteString(d.Text)
			return nil
		}
	}
	a.say("injected: %s\n", s.Injected)
	resp, failed := chat.Call(ctx, req)
	if err := a.tell(set, resp, failed); err != nil {
		return err
	}
	switch receipt, queued := errors.AsType[*middleware.Receipt](failed); {
	case failed == nil && resp.Refused():
		a.say("  the user sees: a refusal, which is an answer: %s\n", resp.Refusal)
	case failed == nil:
		a.say("  the user sees: %s\n", resp.Text())
	case queued:
		a.say("  the user sees: a receipt\n")
		a.providers.Say(s.Later, nil)
		result, err := a.queue.Wait(ctx, receipt.ID)
		if err != nil {
			return err
		}
		a.say("  the queue, later: %s after %d calls in all: %s\n", result.State, result.Spent.Attempts, result.Response.Text())
	case shown.Len() > 0:
		a.say("  the user sees: %s… and that it broke off\n", shown.String())
	default:
		a.say("  the user sees: an error\n")
	}
	a.say("\n")
	return nil
}

// tell says of each failure in the account of a call what was done and why, and how the call ended.
func (a *App) tell(set *policy.Set, resp *llm.Response, failed error) error {
	state, err := set.State(workflow)
	if err != nil {
		return err
	}
	var rows []llm.Attempt
	if failed != nil {
		rows = llm.AsError(failed).Attempts
	} else {
		rows = resp.Attempts
	}
	decisions := middleware.Replay(state, rows)
	for i := range rows {
		switch {
		case rows[i].Skipped != "":
		case rows[i].Err == nil:
			a.say("  %s answered\n", rows[i].Deployment)
		default:
			a.say("  %s: %v → %v\n", rows[i].Deployment, rows[i].Class, decisions[0])
			decisions = decisions[1:]
		}
	}
	a.say("  outcome: %s\n", middleware.OutcomeOf(resp, failed))
	return nil
}

// report prints what the journal counted.
func (a *App) report(ctx context.Context) error {
	alerts, err := a.store.Journal().Alerts(ctx, time.Time{})
	if err != nil {
		return err
	}
	for _, w := range alerts {
		a.say("journal of %s: %d primary_success, %d retry_recovery, %d fallback_recovery, %d degraded, %d failed_closed, %d queued\n",
			w.Workflow, w.Primary, w.Retry, w.Fallback, w.Degraded, w.Failed, w.Queued)
	}
	return nil
}

func (a *App) say(format string, args ...any) { _, _ = fmt.Fprintf(a.out, format, args...) }
