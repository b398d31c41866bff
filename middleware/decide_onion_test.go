package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// queueOf takes all work, or fails with err.
type queueOf struct {
	jobs []*middleware.Job
	err  error
}

func (q *queueOf) Enqueue(_ context.Context, job *middleware.Job) (*middleware.Receipt, error) {
	if q.err != nil {
		return nil, q.err
	}
	q.jobs = append(q.jobs, job)
	return &middleware.Receipt{ID: fmt.Sprint("job-", len(q.jobs)), Workflow: job.Workflow, NotBefore: job.NotBefore}, nil
}

// plan is an onion drawn at random, and what Decide knows of it.
type plan struct {
	fails    []*llm.Error // of each deployment; nil: it answers
	windows  []int
	names    [][]llm.Class
	rests    []bool
	attempts int // 0: no ceiling
	time     time.Duration
	unsafe   bool
	queue    bool
	degrade  bool
}

func drawPlan(r *rand.Rand) plan {
	p := plan{
		attempts: r.IntN(6), time: []time.Duration{0, 9 * time.Second}[r.IntN(2)], unsafe: r.IntN(4) == 0,
		queue: r.IntN(2) == 0, degrade: r.IntN(2) == 0,
	}
	for i := range 1 + r.IntN(4) {
		var e *llm.Error
		if i == 0 || r.IntN(3) > 0 {
			e = &llm.Error{
				Class: llm.Class(r.IntN(int(llm.Queued))), Advice: llm.Advice(r.IntN(8) % 3), CoolUntil: r.IntN(8) == 0,
				RetryAfter: []time.Duration{0, 0, 2 * time.Second, 30 * time.Second, time.Hour}[r.IntN(5)],
				Commit:     llm.CommitState(r.IntN(3)), Evidence: llm.Evidence{Phase: llm.PhaseHeaders},
			}
			if e.Class == llm.Canceled || e.Class == llm.Cooling || e.Class == llm.Exhausted {
				e.Class = llm.Overloaded // what a provider does not say
			}
		}
		p.fails = append(p.fails, e)
		p.windows = append(p.windows, 100*(1+r.IntN(3)))
		var named []llm.Class
		if i > 0 && r.IntN(2) == 0 {
			named = []llm.Class{
				llm.Overloaded, llm.Unavailable, llm.Timeout, llm.RateLimited, llm.Quota, llm.BadOutput, llm.TooLong,
			}[r.IntN(3):][:3]
		}
		p.names = append(p.names, named)
		p.rests = append(p.rests, r.IntN(6) == 0)
	}
	return p
}

const planRetries = 2

// foretell is what Decide says of the plan: the calls, in order, and how they end.
func (p *plan) foretell(committed func(i int) llm.CommitState) (calls []string, last middleware.Failure) {
	var demands middleware.Demands
	at, left, real := 0, planRetries, false
	repeated := map[llm.Class]bool{}
	for {
		f := middleware.Failure{Class: llm.Cooling, Behind: llm.Overloaded, Wait: time.Minute, Window: p.windows[at]}
		if !p.rests[at] {
			if p.attempts > 0 && len(calls) >= p.attempts {
				return calls, last
			}
			calls = append(calls, fmt.Sprint("d", at))
			e := p.fails[at]
			if e == nil {
				return calls, middleware.Failure{}
			}
			f = middleware.FailureOf(e, false)
			f.Commit, f.Window = committed(at), p.windows[at]
		}
		if called := !p.rests[at]; called || !real {
			real = real || called
			if left == planRetries || !called { // the first failure here; repetitions fail alike
				demands = demands.And(f, nil)
			}
		}
		f.Demands = demands
		s := middleware.State{
			ReplayUnsafe: p.unsafe, Left: middleware.NoLimit(),
			Retry: middleware.RetryOption{Left: left, Repeated: repeated[f.Class], Pause: f.Wait, MaxWait: time.Minute},
		}
		if p.attempts > 0 {
			s.Left.Attempts = p.attempts - len(calls)
		}
		if p.time > 0 {
			s.Left.Time = p.time
		}
		for i := at + 1; i < len(p.fails); i++ {
			o := middleware.RouteOption{For: p.names[i], Window: p.windows[i]}
			if p.rests[i] {
				o.Rest = time.Minute
			}
			s.Routes = append(s.Routes, o)
		}
		last = f
		switch d := middleware.Decide(f, s); d.Action {
		case middleware.ActionRetry:
			left--
			repeated[f.Class] = true
		case middleware.ActionFallback:
			at, left, repeated = at+1+d.Route, planRetries, map[llm.Class]bool{}
		default:
			return calls, last
		}
	}
}

// onion is the plan, built.
func (p *plan) onion(q *queueOf) llm.Caller {
	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{})
	routes := make([]llm.Caller, 0, len(p.fails))
	for i, e := range p.fails {
		steps := []llmtest.Step{llmtest.Text("answer")}
		if e != nil {
			steps[0] = llmtest.Fail(e)
		}
		if p.rests[i] {
			steps = append([]llmtest.Step{llmtest.Fail(&llm.Error{Class: llm.Overloaded, RetryAfter: 10 * time.Minute})}, steps...)
		}
		d := &llm.Deployment{Name: fmt.Sprint("d", i), Window: p.windows[i], Caller: llmtest.Script(steps...)}
		if p.rests[i] {
			_, _ = cooldowns.Stage().Wrap(d).Call(context.Background(), retryAsk())
		}
		chain := llm.New(cooldowns.Stage(), middleware.Retry(middleware.RetryConfig{Base: 10 * time.Millisecond}))
		routes = append(routes, middleware.Route{Caller: chain.Then(d), For: p.names[i]})
	}
	var stages []llm.Stage
	if p.degrade {
		stages = append(stages, middleware.Degrade(middleware.DegradeConfig{Answer: middleware.StandIn("stand-in")}))
	}
	budget := middleware.BudgetConfig{Attempts: p.attempts}
	if p.queue {
		stages = append(stages, middleware.Queue(middleware.QueueConfig{Queue: q, Budget: budget}))
	}
	if p.attempts > 0 {
		stages = append(stages, middleware.EachBudget(budget))
	}
	if p.time > 0 {
		stages = append(stages, middleware.Deadline(middleware.DeadlineConfig{Total: p.time}))
	}
	return llm.New(stages...).Then(middleware.Fallback(middleware.FallbackConfig{}, routes...))
}

func TestABuiltOnionDoesWhatDecideSays(t *testing.T) {
	ends := map[middleware.Outcome]int{}
	for seed := range uint64(3000) {
		synctest.Test(t, func(t *testing.T) {
			p := drawPlan(rand.New(rand.NewPCG(seed, 5)))
			q := &queueOf{}
			req := retryAsk()
			req.ReplayUnsafe = p.unsafe
			resp, err := p.onion(q).Call(t.Context(), req)
			rows := fallbackAccount(resp, err)
			var calls []string
			commits := map[string]llm.CommitState{}
			for _, a := range rows {
				if a.Skipped == "" {
					calls = append(calls, a.Deployment)
					commits[a.Deployment] = a.Commit
				}
			}
			want, last := p.foretell(func(i int) llm.CommitState { return commits[fmt.Sprint("d", i)] })
			if got := strings.Join(calls, " "); got != strings.Join(want, " ") {
				t.Fatalf("seed %d: the onion calls %q, Decide says %q\n%+v\n%v", seed, got, want, p, err)
			}
			p.replayed(t, seed, rows)
			outcome := middleware.OutcomeOf(resp, err)
			ends[outcome]++
			if last == (middleware.Failure{}) {
				if err != nil {
					t.Fatalf("seed %d: %v where Decide says that %s answers", seed, err, want[len(want)-1])
				}
				return
			}
			// What is left is about the failure of the call, which may be an earlier one than the last.
			f := middleware.FailureOf(err, false)
			if receipt, ok := errors.AsType[*middleware.Receipt](err); ok {
				f = middleware.FailureOf(receipt.Cause, false)
			} else if err == nil {
				f = p.decisive(q, req)
			}
			s := middleware.State{
				ReplayUnsafe: p.unsafe, Left: middleware.NoLimit(),
				Queue: middleware.QueueOption{Open: p.queue}, Degrade: middleware.DegradeOption{Open: p.degrade},
			}
			if p.attempts > 0 {
				s.Left.Attempts = p.attempts - len(calls)
			}
			does := map[middleware.Outcome]middleware.Action{
				middleware.OutcomeQueued: middleware.ActionQueue, middleware.OutcomeDegraded: middleware.ActionDegrade,
				middleware.OutcomeFailed: middleware.ActionFailClosed,
			}
			if d := middleware.Decide(f, s); does[outcome] != d.Action {
				t.Fatalf("seed %d: the onion ends in %v, Decide says %v\n%+v\n%v", seed, outcome, d, p, err)
			}
		})
	}
	for _, o := range []middleware.Outcome{
		middleware.OutcomeFallback, middleware.OutcomeDegraded, middleware.OutcomeQueued, middleware.OutcomeFailed,
	} {
		if ends[o] < 30 {
			t.Errorf("only %d plans ended in %v: %v", ends[o], o, ends)
		}
	}
}

// replayed finds that what Replay says of each failure in an account is what came next.
func (p *plan) replayed(t *testing.T, seed uint64, rows []llm.Attempt) {
	s := middleware.State{
		ReplayUnsafe: p.unsafe, Left: middleware.NoLimit(), Retry: middleware.RetryOption{Left: planRetries, MaxWait: time.Minute},
	}
	if p.attempts > 0 {
		s.Left.Attempts = p.attempts
	}
	if p.time > 0 {
		s.Left.Time = p.time
	}
	for i := 1; i < len(p.fails); i++ {
		o := middleware.RouteOption{Name: fmt.Sprint("d", i), For: p.names[i], Window: p.windows[i]}
		if p.rests[i] {
			o.Rest = time.Minute
		}
		s.Routes = append(s.Routes, o)
	}
	var made []llm.Attempt
	for _, a := range rows {
		if a.Skipped == "" {
			made = append(made, a)
		}
	}
	decisions := middleware.Replay(s, rows)
	for i, d := range decisions {
		said, came := "", ""
		switch d.Action {
		case middleware.ActionRetry:
			said = made[i].Deployment
		case middleware.ActionFallback:
			said = s.Routes[d.Route].Name
		}
		if i+1 < len(made) {
			came = made[i+1].Deployment
		}
		if said != came {
			t.Fatalf("seed %d: after failure %d Replay says %v, which is %q, and %q came\n%+v", seed, i+1, d, said, came, p)
		}
	}
	failed := len(made)
	if failed > 0 && made[failed-1].Err == nil {
		failed--
	}
	if len(decisions) != failed {
		t.Fatalf("seed %d: %d decisions of %d failures", seed, len(decisions), failed)
	}
}

// decisive is the failure of the same call without a stand-in, which hides it.
func (p *plan) decisive(q *queueOf, req *llm.Request) middleware.Failure {
	bare := *p
	bare.degrade, bare.queue = false, false
	_, err := bare.onion(q).Call(context.Background(), req)
	return middleware.FailureOf(err, false)
}

func fallbackAccount(resp *llm.Response, err error) []llm.Attempt {
	if err != nil {
		return llm.AsError(err).Attempts
	}
	return resp.Attempts
}
