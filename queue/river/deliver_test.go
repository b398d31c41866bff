package riverqueue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func TestWorkQueuedInAnOutageIsAnsweredWhenItEnds(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		p := newProvider(t, outage)
		q := open(t, Config{DSN: dsn})
		c := onionAt(q, p.URL, middleware.BudgetConfig{Attempts: 5})
		receipt := queued(t, c, question())
		before, err := q.Result(t.Context(), receipt.ID)
		must(t, err)
		if before.State != Waiting || before.Err == nil || before.Err.Class != llm.Unavailable || before.Spent.Attempts != 1 {
			t.Fatalf("before it is delivered: %+v", before)
		}
		p.becomes(answer)
		start(t, q, fast(c))
		o := wait(t, q, receipt.ID)
		switch {
		case o.State != Answered || o.Response.Text() != "a week" || o.Err != nil:
			t.Fatalf("the result is %+v", o)
		case o.Response.RequestID != "req-1" || o.Response.Usage != llm.Usage{Input: 7, Output: 2}:
			t.Errorf("the answer lost something: %+v", o.Response)
		case len(o.Response.Attempts) != 1 || len(o.Attempts) != 2 || o.Attempts[0].Class != llm.Unavailable || o.Attempts[1].Err != nil:
			t.Errorf("the ledger is %+v, of the answer %+v", o.Attempts, o.Response.Attempts)
		case o.Spent.Attempts != 2 || o.Spent.Tokens != 9 || o.Deliveries != 1 || o.Lost != 0:
			t.Errorf("spent %+v in %d deliveries", o.Spent, o.Deliveries)
		case o.Ended.IsZero() || o.Ended.Before(o.Since):
			t.Errorf("it came in at %v and ended at %v", o.Since, o.Ended)
		}
		if p.count() != 2 {
			t.Errorf("%d provider calls, want 2", p.count())
		}
	})
}

func TestRedeliveriesStayWithinTheBudget(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		p := newProvider(t, outage)
		q := open(t, Config{DSN: dsn})
		c := onionAt(q, p.URL, middleware.BudgetConfig{Attempts: 4})
		receipt := queued(t, c, question())
		start(t, q, fast(c))
		o := wait(t, q, receipt.ID)
		switch {
		case o.State != Dead || o.Response != nil || o.Err == nil:
			t.Fatalf("the result is %+v", o)
		case p.count() != 4 || o.Spent.Attempts != 4:
			t.Errorf("%d provider calls, %d in the account, want 4", p.count(), o.Spent.Attempts)
		case len(o.Err.Attempts) < 4 || o.Err.Attempts[0].Err == nil || !strings.Contains(o.Err.Attempts[0].Err.Error(), "down for repair"):
			t.Errorf("the ledger does not tell what happened: %+v", o.Err.Attempts)
		}
	})
}

func TestAStandInIsNotRecordedAsTheAnswer(t *testing.T) {
	t.Parallel()
	q := open(t, Config{DSN: t.TempDir() + "/queue.db"})
	m := llmtest.Script(llmtest.Fail(llm.Overloaded))
	leaf := &llm.Deployment{Name: "primary", Caller: m}
	c := llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		r := req.Accounted()
		if _, err := leaf.Call(ctx, r); err == nil {
			t.Error("the model answered")
		}
		return &llm.Response{Parts: []llm.Part{llm.Text("come back")}, Degraded: true, Attempts: r.Attempts()}, nil
	})
	receipt, err := q.Enqueue(t.Context(), keyed("k", "how long?"))
	must(t, err)
	start(t, q, fast(c))
	o := wait(t, q, receipt.ID)
	if o.State != Dead || o.Response != nil || o.Err == nil || o.Err.Class != llm.Overloaded || len(o.Attempts) != 1 ||
		o.Spent.Attempts != 1 || !strings.Contains(o.Err.Error(), "a stand-in of the onion is no answer") {
		t.Errorf("it is %+v, with %v", o, o.Err)
	}
	if r, err := q.Enqueue(t.Context(), keyed("k", "how long?")); err != nil || r.ID == receipt.ID {
		t.Errorf("the key was not given up: %+v, %v", r, err)
	}
}

func TestWorkIsNotDeliveredBeforeItsTime(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		m := llmtest.Script(llmtest.Text("ok"))
		q := open(t, Config{DSN: dsn})
		due := time.Now().Add(700 * time.Millisecond)
		late, err := q.Enqueue(t.Context(), &middleware.Job{Workflow: "support", Request: question(), NotBefore: due})
		must(t, err)
		now, err := q.Enqueue(t.Context(), &middleware.Job{Workflow: "support", Request: question()})
		must(t, err)
		start(t, q, fast(onion(q, m, middleware.BudgetConfig{Attempts: 1})))
		wait(t, q, now.ID)
		wait(t, q, late.ID)
		calls := m.Calls()
		if len(calls) != 2 || calls[1].At.Before(due.Truncate(time.Millisecond)) {
			t.Errorf("work for %v was delivered at %v", due, calls)
		}
	})
}

func TestAJobThatIsNotTheWorksOwnDeliversNothing(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		m := llmtest.Script()
		q := open(t, Config{DSN: dsn})
		later, err := q.Enqueue(t.Context(), &middleware.Job{Request: question(), NotBefore: time.Now().Add(time.Hour)})
		must(t, err)
		must(t, q.engine.transact(t.Context(), func(tx transaction) error { // as one that River rescues long after the lease did
			_, err := tx.insert(t.Context(), &piece{id: later.ID})
			return err
		}))
		now, err := q.Enqueue(t.Context(), &middleware.Job{Request: question()})
		must(t, err)
		cfg := fast(onion(q, m, middleware.BudgetConfig{Attempts: 1}))
		cfg.Concurrency = 1
		w := start(t, q, cfg)
		wait(t, q, now.ID)
		must(t, w.Stop(t.Context()))
		if o, err := q.Result(t.Context(), later.ID); err != nil || o.State != Waiting || m.Count() != 1 {
			t.Errorf("after %d calls it is %+v, %v", m.Count(), o, err)
		}
	})
}

func TestAPanicIsADeadEndWithItsLedger(t *testing.T) {
	t.Parallel()
	q := open(t, Config{DSN: t.TempDir() + "/queue.db"})
	boom := llm.Stage{Name: "boom", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			next.Call(ctx, req)
			panic("a stage broke")
		})
	}}
	m := llmtest.Script()
	c := llm.New(boom).Then(&llm.Deployment{Name: "primary", Caller: m})
	receipt, err := q.Enqueue(t.Context(), &middleware.Job{Request: question()})
	must(t, err)
	start(t, q, fast(c))
	o := wait(t, q, receipt.ID)
	if o.State != Dead || !strings.Contains(o.Err.Error(), "a stage broke") || o.Spent.Attempts != 1 || m.Count() != 1 {
		t.Errorf("the result is %+v after %d calls", o, m.Count())
	}
	if len(o.Attempts) != 1 || o.Attempts[0].Deployment != "primary" || o.Attempts[0].Commit != llm.CommitUnknown {
		t.Errorf("the ledger is %+v", o.Attempts)
	}
}

func TestWorkWaitsForAWorkflowWithoutAnOnion(t *testing.T) {
	t.Parallel()
	q := open(t, Config{DSN: t.TempDir() + "/queue.db"})
	fresh, err := q.Enqueue(t.Context(), &middleware.Job{Workflow: "gone", Request: question()})
	must(t, err)
	old, err := q.Enqueue(t.Context(), &middleware.Job{Workflow: "gone", Request: question(), Since: time.Now().Add(-25 * time.Hour)})
	must(t, err)
	cfg := fast(nil)
	cfg.Callers = func(name string) (llm.Caller, error) { return nil, errors.New("no workflow " + name) }
	start(t, q, cfg)
	if o := wait(t, q, old.ID); o.State != Dead || !strings.Contains(o.Err.Error(), "no workflow gone") {
		t.Errorf("old work without an onion is %+v", o)
	}
	until(t, func() bool {
		o, err := q.Result(t.Context(), fresh.ID)
		must(t, err)
		return o.State == Waiting && o.Err != nil && strings.Contains(o.Err.Error(), "no workflow gone") &&
			time.Until(o.NotBefore) > noCaller/2
	})
}

// until looks at rows until they are as they should be.
func until(t *testing.T, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatal("it did not come about within a minute")
		}
	}
}

func TestStopWaitsForWhatRuns(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		entered, leave := make(chan struct{}), make(chan struct{})
		m := llmtest.Script(llmtest.Step{Func: func(context.Context, *llm.Request) (*llm.Response, error) {
			close(entered)
			<-leave
			return &llm.Response{Parts: []llm.Part{llm.Text("late")}, Stop: llm.StopEnd}, nil
		}})
		q := open(t, Config{DSN: dsn})
		receipt, err := q.Enqueue(t.Context(), &middleware.Job{Request: question()})
		must(t, err)
		w := start(t, q, fast(onion(q, m, middleware.BudgetConfig{Attempts: 1})))
		<-entered
		stopped := make(chan error)
		go func() { stopped <- w.Stop(t.Context()) }()
		close(leave)
		must(t, <-stopped)
		o, err := q.Result(t.Context(), receipt.ID)
		must(t, err)
		if o.State != Answered || o.Response.Text() != "late" {
			t.Errorf("after Stop the result is %+v", o)
		}
	})
}

func TestAStopThatCannotWaitPutsWorkBackWithWhatItSpent(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		p := newProvider(t, hang)
		q := open(t, Config{DSN: dsn})
		c := onionAt(q, p.URL, middleware.BudgetConfig{Attempts: 2})
		careful := question()
		careful.ReplayUnsafe = true
		unsafe, err := q.Enqueue(t.Context(), &middleware.Job{Request: careful})
		must(t, err)
		safe, err := q.Enqueue(t.Context(), &middleware.Job{Request: question()})
		must(t, err)
		w := start(t, q, fast(c))
		<-p.began
		<-p.began
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		must(t, w.Stop(gone))
		o, err := q.Result(t.Context(), safe.ID)
		must(t, err)
		if o.State != Waiting || o.Spent.Attempts != 1 || !o.Spent.Estimated || len(o.Attempts) != 1 || o.Deliveries != 0 {
			t.Fatalf("after Stop it is %+v", o)
		}
		if o, err = q.Result(t.Context(), unsafe.ID); err != nil || o.State != Dead {
			t.Errorf("work that must not be sent again is %+v, %v", o, err)
		}
		p.becomes(answer)
		start(t, q, fast(c))
		if o := wait(t, q, safe.ID); o.State != Answered || o.Spent.Attempts != 2 || p.count() != 3 {
			t.Errorf("then it is %+v after %d calls", o, p.count())
		}
	})
}

func TestEachPieceIsDeliveredByOneWorker(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		m := llmtest.Script()
		const pieces = 40
		var ids []string
		queues := []*Queue{open(t, Config{DSN: dsn}), open(t, Config{DSN: dsn}), open(t, Config{DSN: dsn})}
		for range pieces {
			r, err := queues[0].Enqueue(t.Context(), &middleware.Job{Request: question()})
			must(t, err)
			ids = append(ids, r.ID)
		}
		for _, q := range queues {
			start(t, q, fast(onion(q, m, middleware.BudgetConfig{Attempts: 3})))
		}
		for _, id := range ids {
			if o := wait(t, queues[1], id); o.State != Answered || o.Deliveries != 1 || o.Spent.Attempts != 1 {
				t.Errorf("%+v", o)
			}
		}
		if m.Count() != pieces {
			t.Errorf("%d pieces made %d calls", pieces, m.Count())
		}
		if slices.Sort(ids); len(slices.Compact(ids)) != pieces {
			t.Error("two pieces have the same id")
		}
	})
}
