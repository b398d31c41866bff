package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// journalBook is a store in memory that can be down.
type journalBook struct {
	mu       sync.Mutex
	attempts map[string]middleware.JournalAttempt
	order    []string // of the keys
	settles  int
	begins   int
	calls    []middleware.JournalCall
	down     func(ctx context.Context, what string) error
}

func (b *journalBook) fails(ctx context.Context, what string) error {
	b.mu.Lock()
	down := b.down
	b.mu.Unlock()
	if down != nil {
		return down(ctx, what)
	}
	return nil
}

func (b *journalBook) goDown(f func(ctx context.Context, what string) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = f
}

func (b *journalBook) enter(a middleware.JournalAttempt, replace bool) {
	key := fmt.Sprintf("%s/%d", a.Call, a.Seq)
	if b.attempts == nil {
		b.attempts = map[string]middleware.JournalAttempt{}
	}
	if _, there := b.attempts[key]; !there {
		b.order = append(b.order, key)
	} else if !replace {
		return
	}
	b.attempts[key] = a
}

func (b *journalBook) Begin(ctx context.Context, a middleware.JournalAttempt) error {
	if err := b.fails(ctx, "begin"); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begins++
	b.enter(a, false)
	return nil
}

func (b *journalBook) Settle(ctx context.Context, a middleware.JournalAttempt) error {
	if err := b.fails(ctx, "settle"); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settles++
	b.enter(a, true)
	return nil
}

func (b *journalBook) Finish(ctx context.Context, c middleware.JournalCall) error {
	if err := b.fails(ctx, "finish"); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, c)
	return nil
}

// rows are the attempts in the order of their first entry.
func (b *journalBook) rows() (out []middleware.JournalAttempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range b.order {
		out = append(out, b.attempts[key])
	}
	return out
}

// text is the attempts in short.
func (b *journalBook) text() string {
	var lines []string
	for _, a := range b.rows() {
		line := fmt.Sprintf("%d %s>%s %s %s", a.Index, a.Requested, a.Deployment, a.Reason, a.State)
		if a.State == middleware.JournalFailed || a.State == middleware.JournalNotMade {
			line += " " + a.Class.String()
		}
		if a.From != "" {
			line += fmt.Sprintf(" after %s %s", a.From, a.After)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (b *journalBook) call(t *testing.T) middleware.JournalCall {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.calls) != 1 {
		t.Fatalf("%d rows of calls, want 1", len(b.calls))
	}
	return b.calls[0]
}

func journalOf(b *journalBook, c llm.Caller, change ...func(*middleware.JournalConfig)) *llm.Pipeline {
	cfg := middleware.JournalConfig{Store: b, Workflow: "support", Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&cfg)
	}
	return llm.New(middleware.Journal(cfg)).Then(c)
}

func wantText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

func TestJournalWritesTheRowBeforeTheProviderIsCalled(t *testing.T) {
	var b journalBook
	d := telemetryLeaf("a", "p", "m", llmtest.Step{Func: func(context.Context, *llm.Request) (*llm.Response, error) {
		wantText(t, "before", b.text(), "1 a>a initial started")
		return &llm.Response{
			Parts: []llm.Part{llm.Text("x")}, RequestID: "req-1", Status: 200, Usage: llm.Usage{Input: 1000, Output: 10},
		}, nil
	}})
	d.Price = llm.Price{Input: 1, Output: 2}
	if _, err := journalOf(&b, d).Call(t.Context(), telemetryAsk()); err != nil {
		t.Fatal(err)
	}
	wantText(t, "after", b.text(), "1 a>a initial answered")
	a := b.rows()[0]
	if a.Workflow != "support" || a.Provider != "p" || a.Model != "m" || a.RequestID != "req-1" || a.Status != 200 ||
		a.Commit != llm.Committed || a.Usage.Input != 1000 || !a.Priced || a.CostUSD != 0.00102 || a.Start.IsZero() {
		t.Errorf("the attempt: %+v", a)
	}
	c := b.call(t)
	if c.Call != a.Call || c.Workflow != "support" || c.Outcome != middleware.OutcomePrimary || c.Requested != "a" ||
		c.Deployment != "a" || c.Class != 0 || c.Detail != "" {
		t.Errorf("the call: %+v", c)
	}
}

func TestJournalTellsRetriesFromFallbacksAndWhatWasPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b journalBook
		skip := llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
			return nil, req.Skipped(&llm.Error{Class: llm.Cooling, Deployment: "z", Message: "rests 40s"})
		})
		c := &telemetrySteps{wait: 2 * time.Second, callers: []llm.Caller{
			skip, telemetryLeaf("a", "p", "m", llmtest.Fail(llm.RateLimited)), telemetryLeaf("a", "p", "m", llmtest.Fail(llm.Overloaded)),
			telemetryLeaf("b", "q", "n"),
		}}
		req := telemetryAsk()
		req.Labels = map[string]string{"workflow": "from the label"}
		if _, err := journalOf(&b, c, func(c *middleware.JournalConfig) { c.Workflow = "" }).Call(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		wantText(t, "rows", b.text(), "1 z>a fallback failed rate_limited after z cooling\n"+
			"2 z>a retry failed overloaded after a rate_limited\n3 z>b fallback answered after a overloaded")
		if a := b.rows()[1]; a.Waited != 2*time.Second || a.Workflow != "from the label" || a.Detail != "a: overloaded" {
			t.Errorf("the second row: %+v", a)
		}
		call := b.call(t)
		if call.Outcome != middleware.OutcomeFallback || call.Requested != "z" || call.Deployment != "b" || call.Took != 6*time.Second ||
			len(call.Skipped) != 1 || call.Skipped[0] != (middleware.JournalSkip{Deployment: "z", Class: llm.Cooling, Why: "rests 40s"}) {
			t.Errorf("the call: %+v", call)
		}
	})
}

func TestJournalSettlesAnAnswerThatIsRejectedAgain(t *testing.T) {
	var b journalBook
	strict := middleware.Validate(func(*llm.Request, *llm.Response) error { return errors.New("SECRET words of the answer") })
	_, err := journalOf(&b, strict.Wrap(telemetryLeaf("a", "p", "m"))).Call(t.Context(), telemetryAsk())
	if !errors.Is(err, llm.BadOutput) {
		t.Fatal(err)
	}
	wantText(t, "rows", b.text(), "1 a>a initial failed bad_output")
	call := b.call(t)
	if call.Outcome != middleware.OutcomeFailed || call.Class != llm.BadOutput {
		t.Errorf("the call: %+v", call)
	}
	if all := fmt.Sprintf("%+v %+v", b.rows(), call); strings.Contains(all, "SECRET") {
		t.Errorf("a text that may quote an answer is written: %s", all)
	}
}

func TestTheRejectionOfAnAnswerIsWrittenLastHoweverSlowTheStoreIs(t *testing.T) {
	for _, ack := range []middleware.JournalAck{middleware.AckAll, middleware.AckBegin, middleware.AckNone} {
		synctest.Test(t, func(t *testing.T) {
			b, settles := &journalBook{}, new(atomic.Int32)
			b.goDown(func(_ context.Context, what string) error {
				if what == "settle" && settles.Add(1) == 1 {
					<-time.NewTimer(100 * time.Millisecond).C
				}
				return nil
			})
			strict := middleware.Validate(func(*llm.Request, *llm.Response) error { return errors.New("no") })
			chat := journalOf(b, strict.Wrap(telemetryLeaf("a", "p", "m")), func(c *middleware.JournalConfig) { c.Ack = ack })
			if _, err := chat.Call(t.Context(), telemetryAsk()); !errors.Is(err, llm.BadOutput) {
				t.Fatal(err)
			}
			llmtest.Advance(time.Second)
			wantText(t, fmt.Sprintf("rows with Ack %d", ack), b.text(), "1 a>a initial failed bad_output")
		})
	}
}

func TestJournalSettlesBothBranchesOfAHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b journalBook
		hedge := middleware.Hedge(middleware.HedgeConfig{Delay: time.Second, Share: 1},
			telemetryLeaf("a", "p", "m", llmtest.Step{Hang: true}), telemetryLeaf("b", "q", "n"))
		if _, err := journalOf(&b, hedge).Call(t.Context(), telemetryAsk()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantText(t, "rows", b.text(), "1 a>a initial failed canceled\n2 a>b hedge answered after a unknown")
	})
}

func TestJournalSettlesWhatACallerThatLeavesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := journalBook{down: func(ctx context.Context, _ string) error { return ctx.Err() }}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := journalOf(&b, telemetryLeaf("a", "p", "m", llmtest.Step{Hang: true})).Call(ctx, telemetryAsk())
		if !errors.Is(err, llm.Canceled) {
			t.Fatal(err)
		}
		wantText(t, "rows", b.text(), "1 a>a initial failed canceled")
		if a, c := b.rows()[0], b.call(t); a.Commit != llm.CommitUnknown || c.Outcome != middleware.OutcomeCanceled {
			t.Errorf("%+v, %+v", a, c)
		}
	})
}

func TestJournalSettlesStreamsThatBreakAndSinksThatPanic(t *testing.T) {
	var b journalBook
	cut := llmtest.Step{Deltas: []llm.Delta{{Text: "one"}}, Err: llm.Interrupted}
	req := telemetryAsk()
	req.Sink = func(llm.Delta) error { return nil }
	if _, err := journalOf(&b, telemetryLeaf("a", "p", "m", cut)).Call(t.Context(), req); err == nil {
		t.Fatal("no error")
	}
	if a, c := b.rows()[0], b.call(t); a.Commit != llm.Committed || a.FirstDelta == 0 || !c.Partial || a.Class != llm.Interrupted {
		t.Errorf("%+v, %+v", a, c)
	}

	b = journalBook{}
	req.Sink = func(llm.Delta) error { panic("sink") }
	if got := panicOf(func() { _, _ = journalOf(&b, telemetryLeaf("a", "p", "m")).Call(t.Context(), req) }); got != "sink" {
		t.Errorf("the panic: %s", got)
	}
	wantText(t, "rows", b.text(), "1 a>a initial failed unknown")
	if c := b.call(t); c.Outcome != middleware.OutcomeFailed {
		t.Errorf("the call: %+v", c)
	}
}

func TestJournalTellsWhatADegradeAndAQueueMakeOfACall(t *testing.T) {
	leaf := func() llm.Caller { return telemetryLeaf("a", "p", "m", llmtest.Fail(llm.Overloaded)) }
	for name, c := range map[string]struct {
		stage   llm.Stage
		outcome middleware.Outcome
		receipt string
	}{
		"degrade": {
			stage: middleware.Degrade(middleware.DegradeConfig{Answer: middleware.StandIn("later")}), outcome: middleware.OutcomeDegraded,
		},
		"queue": {
			stage: middleware.Queue(middleware.QueueConfig{Queue: journalQueue{}}), outcome: middleware.OutcomeQueued, receipt: "job-7",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b journalBook
			_, err := journalOf(&b, c.stage.Wrap(leaf())).Call(t.Context(), telemetryAsk())
			if got := b.call(t); got.Outcome != c.outcome || got.Receipt != c.receipt {
				t.Errorf("%+v, the error %v", got, err)
			}
			wantText(t, "rows", b.text(), "1 a>a initial failed overloaded")
		})
	}
}

func TestJournalTellsADeliveryFromTheCallThatWasQueued(t *testing.T) {
	var first, back journalBook
	queued := middleware.Queue(middleware.QueueConfig{Queue: journalQueue{}})
	if _, err := journalOf(&first, queued.Wrap(telemetryLeaf("a", "p", "m", llmtest.Fail(llm.Overloaded)))).
		Call(t.Context(), telemetryAsk()); !errors.Is(err, llm.Queued) {
		t.Fatal(err)
	}
	again := journalOf(&back, queued.Wrap(telemetryLeaf("a", "p", "m", llmtest.Fail(llm.Overloaded))))
	if _, next, err := middleware.Deliver(t.Context(), again, "job-7", &middleware.Job{Request: telemetryAsk(), Since: time.Now()}); next == nil {
		t.Fatal(err)
	}
	a, b := first.call(t), back.call(t)
	if a.Delivery || !b.Delivery || a.Outcome != b.Outcome || a.Receipt != b.Receipt {
		t.Errorf("the call %+v, the delivery %+v", a, b)
	}
}

// journalQueue takes everything.
type journalQueue struct{}

func (journalQueue) Enqueue(_ context.Context, j *middleware.Job) (*middleware.Receipt, error) {
	return &middleware.Receipt{ID: "job-7", NotBefore: j.NotBefore}, nil
}

func TestAnInnerJournalAddsNothing(t *testing.T) {
	var outer, inner journalBook
	if _, err := journalOf(&outer, journalOf(&inner, telemetryLeaf("a", "p", "m"))).Call(t.Context(), telemetryAsk()); err != nil {
		t.Fatal(err)
	}
	if len(inner.rows()) != 0 || len(inner.calls) != 0 || len(outer.rows()) != 1 {
		t.Errorf("outer %s, inner %s", outer.text(), inner.text())
	}
}

func TestAnAttemptThatAnOuterGateTurnsAwayWasNotMade(t *testing.T) {
	var b journalBook
	in := journalOf(&b, telemetryLeaf("a", "p", "m"))
	gated := llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		defer req.Enforce(telemetryRefuser{}).Lift()
		return in.Call(ctx, req)
	})
	if _, err := llm.New().Then(gated).Call(t.Context(), telemetryAsk()); !errors.Is(err, llm.Exhausted) {
		t.Fatal(err)
	}
	wantText(t, "rows", b.text(), "0 a>a initial not_made exhausted")
}

func TestJournalPanicsOnNonsense(t *testing.T) {
	for want, cfg := range map[string]middleware.JournalConfig{
		"there is no Store": {},
		"Timeout -1s":       {Store: &journalBook{}, Timeout: -time.Second},
		"Ack 9":             {Store: &journalBook{}, Ack: 9},
		"Down 9":            {Store: &journalBook{}, Down: 9},
	} {
		if got := panicOf(func() { middleware.Journal(cfg) }); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := panicOf(func() { middleware.Journal(middleware.JournalConfig{Store: &journalBook{}}).Wrap(nil) }); !strings.Contains(
		got, "Journal: Wrap(nil)") {
		t.Error(got)
	}
}

// journalRig is a journal with metrics and records.
func journalRig(t *testing.T, down middleware.JournalDown) (*telemetryRig, func(*middleware.JournalConfig)) {
	r := newTelemetryRig(t)
	return r, func(c *middleware.JournalConfig) {
		c.Down, c.Logger, c.Meter = down, r.config.Logger, r.config.Meter
	}
}

func TestAPanicIsToldWithoutItsValue(t *testing.T) {
	b := &journalBook{}
	chat := journalOf(b, &llm.Deployment{Name: "a", Caller: llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
		panic("the prompt was secret")
	})})
	if _, err := chat.Call(t.Context(), telemetryAsk()); err == nil {
		t.Fatal("a panic is no failure")
	}
	if d := b.rows()[0].Detail; d != "a: bad_output: it panicked" {
		t.Errorf("of the attempt: %q", d)
	}
	if d := b.call(t).Detail; d != "bad_output: a: bad_output: it panicked" {
		t.Errorf("of the call: %q", d)
	}
}

// The end of the last attempt and that of the call wait for the disk together, and the call waits for both.
func TestTheLastEndsOfACallAreWrittenTogetherAndWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settle, finish := make(chan struct{}), make(chan struct{})
		var order []string
		b := &journalBook{down: func(_ context.Context, what string) error {
			switch what {
			case "settle":
				<-settle
			case "finish":
				<-finish
			}
			return nil
		}}
		returned := make(chan error, 1)
		go func() {
			_, err := journalOf(b, &llm.Deployment{Name: "a", Caller: llmtest.Script(llmtest.Text("x"))}).Call(t.Context(), telemetryAsk())
			returned <- err
		}()
		for _, step := range []struct {
			name string
			do   func()
		}{{"finish", func() { finish <- struct{}{} }}, {"settle", func() { settle <- struct{}{} }}} {
			synctest.Wait()
			if len(returned) > 0 {
				t.Fatalf("the call returned before its %s was durable", step.name)
			}
			step.do() // which somebody must be waiting for
			order = append(order, step.name)
		}
		if err := <-returned; err != nil || len(order) != 2 || b.text() != "1 a>a initial answered" {
			t.Errorf("%v, %v: %s", err, order, b.text())
		}
	})
}

func TestTheNextAttemptWaitsForTheEndOfTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settle := make(chan struct{})
		b := &journalBook{down: func(_ context.Context, what string) error {
			if what == "settle" {
				<-settle
			}
			return nil
		}}
		first, second := llmtest.Script(llmtest.Fail(llm.Overloaded)), llmtest.Script(llmtest.Text("x"))
		returned := make(chan error, 1)
		chat := journalOf(b, middleware.Fallback(middleware.FallbackConfig{}, &llm.Deployment{Name: "a", Caller: first},
			&llm.Deployment{Name: "b", Caller: second}))
		go func() {
			_, err := chat.Call(t.Context(), telemetryAsk())
			returned <- err
		}()
		synctest.Wait()
		if first.Count() != 1 || second.Count() != 0 || len(b.rows()) != 1 {
			t.Errorf("%d and %d calls with the rows\n%s", first.Count(), second.Count(), b.text())
		}
		settle <- struct{}{}
		settle <- struct{}{}
		if err := <-returned; err != nil || second.Count() != 1 {
			t.Errorf("%v after %d calls", err, second.Count())
		}
	})
}
