package riverqueue

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// killed is work whose worker, a process, was killed in the middle of a provider call.
func killed(t *testing.T, dsn string, p *provider, q *Queue, req *llm.Request) *middleware.Receipt {
	t.Helper()
	receipt, err := q.Enqueue(t.Context(), &middleware.Job{Workflow: "support", Request: req})
	must(t, err)
	worker := process(t, dsn, p.URL, 2*time.Second)
	<-p.began
	must(t, worker.Process.Kill())
	worker.Wait()
	return receipt
}

func TestWorkOfAKilledWorkerIsDeliveredAgain(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		p := newProvider(t, hang)
		q := open(t, Config{DSN: dsn})
		receipt := killed(t, dsn, p, q, question())
		if o, err := q.Result(t.Context(), receipt.ID); err != nil || o.State != Running {
			t.Fatalf("its worker is dead, and it is %+v, %v", o, err)
		}
		p.becomes(answer)
		start(t, q, watchful(onionAt(q, p.URL, middleware.BudgetConfig{Attempts: 2})))
		o := wait(t, q, receipt.ID)
		switch {
		case o.State != Answered || o.Lost != 1 || o.Deliveries != 2:
			t.Fatalf("the result is %+v", o)
		case o.Spent.Attempts != 2 || !o.Spent.Estimated || p.count() != 2:
			t.Errorf("spent %+v, with %d provider calls", o.Spent, p.count())
		case len(o.Attempts) != 2 || o.Attempts[0].Deployment != "primary" || o.Attempts[0].Commit != llm.CommitUnknown ||
			o.Attempts[0].Err == nil:
			t.Errorf("the ledger is %+v", o.Attempts)
		}
	})
}

func TestTheAttemptsOfAKilledWorkerCountAgainstTheBudget(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		p := newProvider(t, hang)
		q := open(t, Config{DSN: dsn})
		receipt := killed(t, dsn, p, q, question())
		p.becomes(answer)
		start(t, q, watchful(onionAt(q, p.URL, middleware.BudgetConfig{Attempts: 1})))
		if o := wait(t, q, receipt.ID); o.State != Dead || o.Err.Class != llm.Exhausted || p.count() != 1 {
			t.Errorf("the budget was one attempt; after %d it is %+v", p.count(), o)
		}
	})
}

func TestReplayUnsafeWorkOfAKilledWorkerIsNotSentAgain(t *testing.T) {
	t.Parallel()
	dsn := t.TempDir() + "/queue.db"
	p := newProvider(t, hang)
	q := open(t, Config{DSN: dsn})
	req := question()
	req.ReplayUnsafe = true
	receipt := killed(t, dsn, p, q, req)
	p.becomes(answer)
	start(t, q, watchful(onionAt(q, p.URL, middleware.BudgetConfig{Attempts: 9})))
	if o := wait(t, q, receipt.ID); o.State != Dead || !strings.Contains(o.Err.Error(), "ReplayUnsafe") || p.count() != 1 {
		t.Errorf("after %d calls it is %+v", p.count(), o)
	}
}

// abandoned is work that a worker holds which is not there, lost so often before.
func abandoned(t *testing.T, q *Queue, lost int) *middleware.Receipt {
	t.Helper()
	receipt, err := q.Enqueue(t.Context(), &middleware.Job{Workflow: "support", Request: question()})
	must(t, err)
	_, err = q.engine.exec(t.Context(), `UPDATE llm_work SET state = 'running', owner = 'nobody', lease = 1, lost = ? WHERE id = ?`, lost, receipt.ID)
	must(t, err)
	return receipt
}

func TestWorkThatKillsItsWorkersIsDead(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		m := llmtest.Script()
		q := open(t, Config{DSN: dsn})
		once, often := abandoned(t, q, 0), abandoned(t, q, 3)
		start(t, q, fast(onion(q, m, middleware.BudgetConfig{Attempts: 9})))
		if o := wait(t, q, often.ID); o.State != Dead || o.Lost != 4 || !strings.Contains(o.Err.Error(), "lost with their workers") {
			t.Errorf("work that was lost four times is %+v", o)
		}
		if o := wait(t, q, once.ID); o.State != Answered || o.Spent.Attempts != 2 || !o.Spent.Estimated {
			t.Errorf("work that was lost once is %+v: one attempt is charged where none is known of", o)
		}
		if m.Count() != 1 {
			t.Errorf("%d calls, want that of the work lost once", m.Count())
		}
	})
}

func TestAWorkerThatLostItsHoldBeginsNoAttemptAndRecordsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		q := open(t, Config{DSN: dsn})
		done := make(chan error, 1)
		var second int
		m := llmtest.Script(llmtest.Step{Func: func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
			_, err := q.engine.exec(context.WithoutCancel(ctx), `UPDATE llm_work SET owner = 'another'`)
			return nil, errors.Join(err, llm.Unavailable)
		}}, llmtest.Step{Func: func(context.Context, *llm.Request) (*llm.Response, error) {
			second++
			return nil, llm.Unavailable
		}})
		twice := llm.Stage{Name: "twice", Wrap: func(next llm.Caller) llm.Caller {
			return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
				if resp, err := next.Call(ctx, req); err == nil {
					return resp, nil
				}
				resp, err := next.Call(ctx, req)
				done <- err
				return resp, err
			})
		}}
		receipt, err := q.Enqueue(t.Context(), &middleware.Job{Request: question()})
		must(t, err)
		w := start(t, q, fast(llm.New(twice).Then(&llm.Deployment{Name: "primary", Caller: m})))
		if err := <-done; !errors.Is(err, llm.Canceled) {
			t.Errorf("the attempt without a hold failed with %v", err)
		}
		must(t, w.Stop(t.Context()))
		o, err := q.Result(t.Context(), receipt.ID)
		must(t, err)
		if second != 0 || o.State != Running || o.Deliveries != 0 || o.Spent.Attempts != 0 {
			t.Errorf("%d attempts without a hold; the work of another is %+v", second, o)
		}
	})
}

// flaky is an engine whose transactions fail so often, at their end.
type flaky struct {
	engine
	fails chan struct{}
}

func (f *flaky) transact(ctx context.Context, do func(transaction) error) error {
	return f.engine.transact(ctx, func(tx transaction) error {
		if err := do(tx); err != nil {
			return err
		}
		select {
		case <-f.fails:
			return errors.New("the disk is full")
		default:
			return nil
		}
	})
}

func TestAnAnswerOutlivesADatabaseThatFails(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		m := llmtest.Script()
		q := open(t, Config{DSN: dsn})
		receipt, err := q.Enqueue(t.Context(), &middleware.Job{Request: question()})
		must(t, err)
		f := &flaky{q.engine, make(chan struct{}, 2)}
		f.fails <- struct{}{}
		f.fails <- struct{}{}
		q.engine = f
		start(t, q, fast(onion(q, m, middleware.BudgetConfig{Attempts: 9})))
		if o := wait(t, q, receipt.ID); o.State != Answered || o.Spent.Attempts != 1 || m.Count() != 1 || len(f.fails) != 0 {
			t.Errorf("after %d calls and %d failures to come it is %+v", m.Count(), len(f.fails), o)
		}
	})
}

func TestWhatWasSpentIsDurableWithTheNextDelivery(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		q := open(t, Config{DSN: dsn})
		receipt := abandoned(t, q, 0)
		p, err := find(t.Context(), q.engine, `id = ?`, receipt.ID)
		must(t, err)
		p.spent.Attempts = 5
		jobs := func() (n int) {
			must(t, q.engine.rows(t.Context(), `SELECT COUNT(*) FROM river_job`, nil, func(scan func(...any) error) error { return scan(&n) }))
			return n
		}
		before := jobs()
		broken := errors.New("power cut")
		err = q.engine.transact(t.Context(), func(tx transaction) error {
			must(t, settle(t.Context(), tx, p.wait(p.notBefore), "nobody"))
			return broken
		})
		if !errors.Is(err, broken) || jobs() != before {
			t.Fatalf("%v; a transaction that did not commit left %d jobs of %d", err, jobs(), before)
		}
		must(t, q.engine.transact(t.Context(), func(tx transaction) error { return settle(t.Context(), tx, p, "nobody") }))
		after, err := find(t.Context(), q.engine, `id = ?`, receipt.ID)
		must(t, err)
		if jobs() != before+1 || after.spent.Attempts != 5 || after.job == p.job || after.state != Waiting {
			t.Errorf("%d jobs of %d; the row is %+v", jobs(), before, after)
		}
	})
}

func TestWorkWhoseJobWasClearedAwayIsDelivered(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		q := open(t, Config{DSN: dsn})
		receipt, err := q.Enqueue(t.Context(), &middleware.Job{Request: question()})
		must(t, err)
		_, err = q.engine.exec(t.Context(), `DELETE FROM river_job`)
		must(t, err)
		start(t, q, fast(onion(q, llmtest.Script(), middleware.BudgetConfig{Attempts: 1})))
		if o := wait(t, q, receipt.ID); o.State != Answered || o.Lost != 0 || o.Spent.Attempts != 1 {
			t.Errorf("it is %+v", o)
		}
	})
}

func TestEachPieceIsDeliveredByOneProcess(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		p := newProvider(t, answer)
		q := open(t, Config{DSN: dsn})
		process(t, dsn, p.URL, time.Minute)
		process(t, dsn, p.URL, time.Minute)
		const pieces = 40
		ids := make([]string, pieces)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				r, err := q.Enqueue(t.Context(), &middleware.Job{Request: question()})
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = r.ID
			})
		}
		all.Wait()
		for _, id := range ids {
			if o := wait(t, q, id); o.State != Answered || o.Deliveries != 1 || o.Spent.Attempts != 1 {
				t.Errorf("%+v", o)
			}
		}
		if p.count() != pieces {
			t.Errorf("%d pieces made %d provider calls", pieces, p.count())
		}
	})
}

func TestTokensNeverComeBackToTheBudget(t *testing.T) {
	t.Parallel()
	h := &hold{from: &piece{}}
	for _, c := range []struct {
		usage llm.Usage
		want  int
	}{
		{llm.Usage{Input: 5, Output: 7}, 12}, {llm.Usage{Input: -5, Output: 7}, 19}, {llm.Usage{Input: math.MaxInt, Output: 1}, math.MaxInt},
		{llm.Usage{Input: math.MaxInt, Output: math.MaxInt}, math.MaxInt},
	} {
		h.End(t.Context(), nil, nil, &llm.Attempt{Usage: c.usage})
		if got := h.total().Tokens; got != c.want {
			t.Errorf("after %+v it is %d tokens, want %d", c.usage, got, c.want)
		}
	}
}
