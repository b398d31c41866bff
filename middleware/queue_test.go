package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func queued(q *queueOf, budget middleware.BudgetConfig, steps ...llmtest.Step) (*llm.Pipeline, *llmtest.Model) {
	model := llmtest.Script(steps...)
	stages := []llm.Stage{middleware.Queue(middleware.QueueConfig{Queue: q, Workflow: "reports", Budget: budget})}
	if budget != (middleware.BudgetConfig{}) {
		stages = append(stages, middleware.EachBudget(budget))
	}
	return llm.New(stages...).Then(&llm.Deployment{
		Name: "d", Price: llm.Price{Input: 1e6}, Has: llm.CanText | llm.CanStream, Caller: model,
	}), model
}

func TestWorkThatMayWaitIsQueuedWithWhatIsLeftOfItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, streamed := range []bool{false, true} {
			q := &queueOf{}
			asked := &llm.Error{Class: llm.RateLimited, RetryAfter: 5 * time.Minute, Usage: llm.Usage{Input: 2, Output: 1}}
			p, _ := queued(q, middleware.BudgetConfig{Attempts: 3}, llmtest.Fail(asked))
			r := &reader{}
			req := r.ask()
			if !streamed {
				req.Sink = nil
			}
			req.Spent, req.Labels = llm.Spending{Attempts: 1}, map[string]string{"tenant": "t"}
			resp, err := p.Call(t.Context(), req.Require(llm.CanText))
			receipt, ok := errors.AsType[*middleware.Receipt](err)
			if resp != nil || !ok || !errors.Is(err, llm.Queued) || errors.Is(err, llm.RateLimited) || r.text != "" {
				t.Fatalf("%v, %v, %q", resp, err, r.text)
			}
			e := llm.AsError(err)
			if receipt.ID != "job-1" || receipt.Cause.Class != llm.RateLimited || len(e.Attempts) != 1 || !strings.Contains(err.Error(), "job-1") {
				t.Errorf("%+v: %v with %d rows", receipt, err, len(e.Attempts))
			}
			if e.RetryAfter < 5*time.Minute || e.RetryAfter > 5*time.Minute+time.Second {
				t.Errorf("worth coming back in %v", e.RetryAfter)
			}
			job := q.jobs[0]
			if job.Workflow != "reports" || job.Request.Sink != nil || job.Request.Labels["tenant"] != "t" ||
				job.Requires != llm.CanText || job.Cause.Class != llm.RateLimited || len(job.Cause.Attempts) != 1 {
				t.Errorf("%+v of %+v", job, job.Request)
			}
			if s := job.Request.Spent; s.Attempts != 2 || s.Tokens != 3 || s.CostUSD != 2 {
				t.Errorf("spent %+v", s)
			}
			if len(job.Request.Attempts()) != 0 {
				t.Error("the request that is kept belongs to the call that ended")
			}
		}
	})
}

func TestWhatIsNotQueued(t *testing.T) {
	q := &queueOf{}
	broken := llmtest.Step{Deltas: words(2), Err: llm.Unavailable}
	for name, test := range map[string]struct {
		step   llmtest.Step
		budget middleware.BudgetConfig
		unsafe bool
	}{
		"an answer":                    {step: llmtest.Text("ok")},
		"a request that is wrong":      {step: llmtest.Fail(llm.Invalid)},
		"a refused key":                {step: llmtest.Fail(llm.Auth)},
		"what policy forbids":          {step: llmtest.Fail(llm.Refused)},
		"what no time mends":           {step: llmtest.Fail(llm.TooLong)},
		"a part of the answer":         {step: broken},
		"the last attempt":             {step: llmtest.Fail(llm.Overloaded), budget: middleware.BudgetConfig{Attempts: 1}},
		"an outcome that is not known": {step: llmtest.Fail(&llm.Error{Class: llm.Timeout, Commit: llm.CommitUnknown}), unsafe: true},
	} {
		p, _ := queued(q, test.budget, test.step)
		r := &reader{}
		req := r.ask()
		req.ReplayUnsafe = test.unsafe
		_, err := p.Call(t.Context(), req)
		if errors.Is(err, llm.Queued) || len(q.jobs) > 0 || (err == nil) != (name == "an answer") {
			t.Errorf("%s: %v, %d jobs", name, err, len(q.jobs))
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	p, _ := queued(q, middleware.BudgetConfig{}, llmtest.Fail(llm.Overloaded))
	if _, err := p.Call(ctx, retryAsk()); len(q.jobs) > 0 || !errors.Is(err, llm.Canceled) {
		t.Errorf("for a caller that left: %v, %d jobs", err, len(q.jobs))
	}
}

func TestWorkIsQueuedWhenTheTimeOfItsCallIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queueOf{}
		p, _ := queued(q, middleware.BudgetConfig{Elapsed: time.Second}, llmtest.Step{Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Call(ctx, retryAsk()); !errors.Is(err, llm.Queued) || len(q.jobs) != 1 {
			t.Errorf("%v, %d jobs", err, len(q.jobs))
		}
	})
}

func TestAQueueThatTakesNothingLeavesTheFailure(t *testing.T) {
	p, _ := queued(&queueOf{err: errors.New("disk full")}, middleware.BudgetConfig{}, llmtest.Fail(llm.Overloaded))
	_, err := p.Call(t.Context(), retryAsk())
	if !errors.Is(err, llm.Overloaded) || errors.Is(err, llm.Queued) || !strings.Contains(err.Error(), "could not be queued: disk full") {
		t.Errorf("%v", err)
	}
}

func TestAShortWaitIsLeftToTheCaller(t *testing.T) {
	q := &queueOf{}
	for wait, want := range map[time.Duration]bool{time.Second: false, time.Minute: true, 0: true} {
		q.jobs = nil
		stage := middleware.Queue(middleware.QueueConfig{Queue: q, After: 30 * time.Second})
		_, err := stage.Wrap(llmtest.Script(llmtest.Fail(retryAfter(wait)))).Call(t.Context(), retryAsk())
		if errors.Is(err, llm.Queued) != want || len(q.jobs) > 0 != want {
			t.Errorf("a wait of %v: %v", wait, err)
		}
	}
}

// TestDeliveriesShareOneBudget delivers until the work ends, as a worker does.
func TestDeliveriesShareOneBudget(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps []llmtest.Step
		calls int
		ends  string
	}{
		{"answered at the third", []llmtest.Step{llmtest.Fail(llm.Overloaded), llmtest.Fail(llm.Overloaded), llmtest.Text("done")}, 3, "done"},
		{"never answered", []llmtest.Step{llmtest.Fail(llm.Overloaded)}, 4, "overloaded"},
		{"fails for good", []llmtest.Step{llmtest.Fail(llm.Overloaded), llmtest.Fail(llm.Invalid)}, 2, "invalid"},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := &queueOf{}
			p, model := queued(q, middleware.BudgetConfig{Attempts: 4}, test.steps...)
			if _, err := p.Call(t.Context(), retryAsk()); !errors.Is(err, llm.Queued) {
				t.Fatal(err)
			}
			job, wait := q.jobs[0], time.Duration(0)
			for {
				if in := time.Until(job.NotBefore); in < wait {
					t.Errorf("%s: delivery %d after %v, the one before after %v", test.name, job.Deliveries+1, in, wait)
				} else {
					wait = in
				}
				llmtest.Advance(wait)
				resp, next, err := middleware.Deliver(t.Context(), p, "job-1", job)
				if next != nil {
					if !errors.Is(err, llm.Queued) || resp != nil || next.Deliveries != job.Deliveries+1 || !next.Since.Equal(job.Since) {
						t.Fatalf("%s: %+v, %v", test.name, next, err)
					}
					job = next
					continue
				}
				ends := resp.Text()
				if err != nil {
					ends = llm.ClassOf(err).String()
				}
				if ends != test.ends || model.Count() != test.calls {
					t.Errorf("%s: ended as %q, %v after %d calls", test.name, ends, err, model.Count())
				}
				break
			}
			if len(q.jobs) != 1 {
				t.Errorf("%s: delivered work was queued anew", test.name)
			}
		})
	}
}

func TestWorkThatNoBudgetAllowsEnds(t *testing.T) {
	q := &queueOf{}
	p, model := queued(q, middleware.BudgetConfig{CostUSD: 0.001, Price: llm.Price{Input: 1e6}}, llmtest.Text("never"))
	if _, err := p.Call(t.Context(), retryAsk()); !errors.Is(err, llm.Queued) {
		t.Fatal(err)
	}
	_, next, err := middleware.Deliver(t.Context(), p, "job-1", q.jobs[0])
	if next != nil || !errors.Is(err, llm.Exhausted) || model.Count() != 0 {
		t.Errorf("%+v, %v", next, err)
	}
}

func TestWorkThatOnlyTheJournalRefusedComesAgain(t *testing.T) {
	q := &queueOf{}
	p, model := queued(q, middleware.BudgetConfig{}, llmtest.Fail(llm.Overloaded), llmtest.Text("done"))
	if _, err := p.Call(t.Context(), retryAsk()); !errors.Is(err, llm.Queued) {
		t.Fatal(err)
	}
	down := llm.New(llm.Stage{Name: "down", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			r := req.Accounted()
			defer r.Enforce(&refusing{&llm.Error{Class: llm.Exhausted, Err: middleware.ErrJournalDown}}).Lift()
			return next.Call(ctx, r)
		})
	}})
	_, next, err := middleware.Deliver(t.Context(), down.Then(p), "job-1", q.jobs[0])
	if next == nil || !errors.Is(err, llm.Queued) || model.Count() != 1 {
		t.Errorf("%+v, %v after %d calls", next, err, model.Count())
	}
}

func TestTheBoundOfARequestHoldsOverItsDeliveries(t *testing.T) {
	q := &queueOf{}
	p, model := queued(q, middleware.BudgetConfig{}, llmtest.Fail(llm.Overloaded))
	req := retryAsk()
	req.MaxAttempts = 2
	if _, err := p.Call(t.Context(), req); !errors.Is(err, llm.Queued) {
		t.Fatal(err)
	}
	_, next, err := middleware.Deliver(t.Context(), p, "job-1", q.jobs[0])
	if next != nil || !errors.Is(err, llm.Overloaded) || model.Count() != 2 {
		t.Errorf("%+v, %v after %d calls", next, err, model.Count())
	}
}

func TestWorkIsQueuedWithoutMoneyWhereADeploymentIsFree(t *testing.T) {
	for free, want := range map[bool]bool{false: false, true: true} {
		q := &queueOf{}
		stage := middleware.Queue(middleware.QueueConfig{Queue: q, Budget: middleware.BudgetConfig{CostUSD: 1}})
		req := retryAsk()
		req.Spent.CostUSD = 1
		d := &llm.Deployment{Name: "d", Price: llm.Price{Input: 1, Free: free}, Caller: llmtest.Script(llmtest.Fail(llm.Overloaded))}
		if free {
			d.Price = llm.Price{Free: true}
		}
		if _, err := stage.Wrap(d).Call(t.Context(), req); errors.Is(err, llm.Queued) != want {
			t.Errorf("free %v: %v", free, err)
		}
	}
}

func TestWorkFromTheQueueGetsNoStandIn(t *testing.T) {
	q := &queueOf{}
	p, _ := queued(q, middleware.BudgetConfig{Attempts: 2}, llmtest.Fail(llm.Overloaded))
	onion := llm.New(middleware.Degrade(middleware.DegradeConfig{Answer: middleware.StandIn("later")})).Then(p)
	if _, err := onion.Call(t.Context(), retryAsk()); !errors.Is(err, llm.Queued) {
		t.Fatal(err)
	}
	resp, next, err := middleware.Deliver(t.Context(), onion, "job-1", q.jobs[0])
	if resp != nil || next != nil || !errors.Is(err, llm.Overloaded) {
		t.Errorf("%+v, %+v, %v", resp, next, err)
	}
}

// refusing lets nothing through.
type refusing struct{ err error }

func (g *refusing) Ask(context.Context, *llm.Request, *llm.Deployment, time.Time) error { return g.err }

func (g *refusing) Start(ctx context.Context, _ *llm.Request, _ *llm.Deployment, _ *llm.Attempt) (context.Context, error) {
	return ctx, g.err
}

func (g *refusing) End(context.Context, *llm.Request, *llm.Deployment, *llm.Attempt) {}

func TestWorkIsKeptForItsMaxAge(t *testing.T) {
	q := &queueOf{}
	stage := middleware.Queue(middleware.QueueConfig{Queue: q, MaxAge: time.Hour})
	_, err := stage.Wrap(llmtest.Script(llmtest.Fail(retryAfter(2*time.Hour)))).Call(t.Context(), retryAsk())
	if errors.Is(err, llm.Queued) || len(q.jobs) > 0 || !strings.Contains(fmt.Sprint(err), "MaxAge") {
		t.Errorf("%v", err)
	}
}

func TestTheWaitInTheQueueStaysWithinItsCapHoweverOftenWorkComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queueOf{}
		stage := middleware.Queue(middleware.QueueConfig{Queue: q, Base: 30 * time.Second, Cap: time.Minute, MaxAge: 1000 * time.Hour})
		onion := stage.Wrap(&llm.Deployment{Name: "d", Caller: llmtest.Script(llmtest.Fail(llm.Overloaded))})
		if _, err := onion.Call(t.Context(), retryAsk()); !errors.Is(err, llm.Queued) {
			t.Fatal(err)
		}
		job := q.jobs[0]
		for range 70 {
			_, next, err := middleware.Deliver(t.Context(), onion, "job-1", job)
			if next == nil {
				t.Fatal(err)
			}
			if in := time.Until(next.NotBefore); in < time.Minute || in > 66*time.Second {
				t.Fatalf("delivery %d comes in %v", next.Deliveries, in)
			}
			job = next
		}
	})
}

// What a queue carries over is what the budget has charged, also where no provider says what was used.
func TestTheQueueCarriesOverWhatTheBudgetCharged(t *testing.T) {
	for name, test := range map[string]struct {
		step  llmtest.Step
		price llm.Price
	}{
		"reported":                  {llmtest.Fail(&llm.Error{Class: llm.Overloaded, Usage: llm.Usage{Input: 5, Output: 2}}), llm.Price{Input: 1, Output: 2}},
		"turned away":               {llmtest.Fail(llm.Overloaded), llm.Price{Input: 1, Output: 2}},
		"not reported":              {llmtest.Fail(&llm.Error{Class: llm.Timeout, Commit: llm.CommitUnknown}), llm.Price{Input: 1, Output: 2}},
		"not reported, stand-in":    {llmtest.Fail(&llm.Error{Class: llm.Timeout, Commit: llm.CommitUnknown}), llm.Price{}},
		"a part, not reported":      {llmtest.Fail(&llm.Error{Class: llm.Timeout, Commit: llm.CommitUnknown, Usage: llm.Usage{Output: 9}}), llm.Price{Input: 1}},
		"an amount below any sense": {llmtest.Fail(&llm.Error{Class: llm.Overloaded, Usage: llm.Usage{Input: -5}}), llm.Price{Input: 1}},
	} {
		cfg := middleware.BudgetConfig{Attempts: 9, Tokens: 1e6, CostUSD: 1, Price: llm.Price{Input: 3, Output: 4}}
		q, budget := &queueOf{}, middleware.NewBudget(cfg)
		onion := llm.New(middleware.Queue(middleware.QueueConfig{Queue: q, Budget: cfg}), budget.Stage()).
			Then(&llm.Deployment{Name: "d", Price: test.price, Caller: llmtest.Script(test.step)})
		if _, err := onion.Call(t.Context(), retryAsk()); !errors.Is(err, llm.Queued) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, want := q.jobs[0].Request.Spent, budget.Spent(); got != want {
			t.Errorf("%s: the queue carries over %+v, the budget has charged %+v", name, got, want)
		}
	}
}

func TestAmountsThatAreNoneMakeNoRoomInTheQueue(t *testing.T) {
	for _, spent := range []llm.Spending{{Attempts: -5, Tokens: -5, CostUSD: -5}, {CostUSD: math.NaN()}} {
		q := &queueOf{}
		stage := middleware.Queue(middleware.QueueConfig{Queue: q, Budget: middleware.BudgetConfig{Attempts: 1, CostUSD: 1}})
		req := retryAsk()
		req.Spent = spent
		d := &llm.Deployment{Name: "d", Price: llm.Price{Input: 1}, Caller: llmtest.Script(llmtest.Fail(llm.Overloaded))}
		if _, err := stage.Wrap(d).Call(t.Context(), req); errors.Is(err, llm.Queued) {
			t.Errorf("%+v: %v", spent, err)
		}
	}
	q := &queueOf{}
	req := retryAsk()
	req.Spent.Attempts = -5
	unbounded := middleware.Queue(middleware.QueueConfig{Queue: q}).Wrap(llmtest.Script(llmtest.Fail(llm.Overloaded)))
	if _, err := unbounded.Call(t.Context(), req); !errors.Is(err, llm.Queued) {
		t.Errorf("without a ceiling: %v", err)
	}
}
