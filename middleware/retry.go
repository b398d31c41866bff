package middleware

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/modelchain/llm"
)

// RetryConfig sets [Retry]. The zero value is the default. To have no retries, leave the stage out.
type RetryConfig struct {
	// Max is how often a call is repeated, beyond its first attempt. 0: 2.
	Max int
	// Base is the first wait where the provider asks for none; each further one is twice as long, up to Cap, which holds
	// after jitter too. 0: 1 s and 20 s.
	Base, Cap time.Duration
	// Jitter is by how much of itself such a wait is made longer or shorter at random, from 0 to 1. 0: 0.5.
	Jitter float64
	// MaxWait is the longest wait asked for by a provider that is waited for. A longer one ends the retries, for it is a
	// rest and no pace. 0: 60 s.
	MaxWait time.Duration
	// Budget bounds the retries of all calls together. nil: one of its own for each Caller that is wrapped.
	Budget *RetryBudget
	// Reactions holds the rows that differ from DefaultReactions. nil: none.
	Reactions Reactions
}

// Retry is the stage "retry": it repeats a call that failed, if the failure's class says that the same deployment may
// answer yet. Between attempts it waits as long as the newest failure asks, with a little jitter on top and never less;
// where none is asked, it backs off exponentially.
//
// Before it waits it makes sure that the wait leads to an attempt: the time left covers it, attempts are left, the
// gates of outer stages and the budget let it through. If not, it returns the last failure at once, so that a fallback
// around it gets the time, and a row in the account says why. If the context ends during a wait, the error holds both
// its cause and the last failure.
//
// Streams: a call is repeated only while nothing of it was handed out; place a commit window inside to hold the opening
// back. A [llm.Request] that is ReplayUnsafe is repeated only if the provider cannot have acted on it.
//
// It belongs around one deployment, inside Cooldown and outside the limits on a single attempt. It never shortens a
// wait, never waits after the last attempt and never repeats what a cooldown or a limit refused.
func Retry(cfg RetryConfig) llm.Stage {
	if cfg.Max < 0 {
		panic(fmt.Sprintf("llm/middleware: Retry: Max is %d; use 0 for 2, or leave the stage out", cfg.Max))
	}
	if cfg.Max == 0 {
		cfg.Max = 2
	}
	cfg.Base = durationOr("Retry", "Base", cfg.Base, time.Second)
	cfg.Cap = durationOr("Retry", "Cap", cfg.Cap, 20*time.Second)
	cfg.MaxWait = durationOr("Retry", "MaxWait", cfg.MaxWait, time.Minute)
	if !(cfg.Jitter >= 0 && cfg.Jitter <= 1) {
		panic(fmt.Sprintf("llm/middleware: Retry: Jitter is %v; use 0 for 0.5, or a share up to 1", cfg.Jitter))
	}
	if cfg.Jitter == 0 {
		cfg.Jitter = 0.5
	}
	reactions := cfg.Reactions.table()
	return llm.Stage{Name: "retry", Config: cfg, Wrap: wrapping("Retry", func(next llm.Caller) llm.Caller {
		s := &retry{next: next, deployment: only(next), cfg: cfg, reactions: reactions}
		if s.cfg.Budget == nil {
			s.cfg.Budget = NewRetryBudget(RetryBudgetConfig{})
		}
		return s
	})}
}

// wrapping is wrap, which panics in the name of its stage where there is nothing to wrap.
func wrapping(stage string, wrap llm.Middleware) llm.Middleware {
	return func(next llm.Caller) llm.Caller {
		if isNil(next) {
			panic(fmt.Sprintf("llm/middleware: %s: Wrap(nil); give it the Caller to wrap", stage))
		}
		return wrap(next)
	}
}

// durationOr is d, or zero where d is not set. It panics on a negative d.
func durationOr(stage, field string, d, zero time.Duration) time.Duration {
	if d < 0 {
		panic(fmt.Sprintf("llm/middleware: %s: %s is %v; use 0 for %v, or a positive duration", stage, field, d, zero))
	}
	if d == 0 {
		return zero
	}
	return d
}

type retry struct {
	next       llm.Caller
	deployment *llm.Deployment // nil: none, or several
	cfg        RetryConfig
	reactions  *table
}

func (s *retry) Describe() llm.Node {
	return llm.Node{Name: "retry", Config: s.cfg, Children: []llm.Node{llm.Describe(s.next)}}
}

func (s *retry) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	r, handed := req.Watch()
	resp, err := s.next.Call(ctx, r)
	if err == nil {
		s.cfg.Budget.succeeded()
		return resp, nil
	}
	return s.repeat(ctx, r, handed, err)
}

// repeat goes on after the first failure.
func (s *retry) repeat(ctx context.Context, r *llm.Request, handed llm.Progress, err error) (*llm.Response, error) {
	var pace *backoff.ExponentialBackOff
	var once [llm.NumClasses]bool
	for n := 1; ; n++ {
		last := llm.AsError(err)
		switch {
		case handed.Deltas() > 0:
			return nil, delivered(err)
		case !s.again(last, &once):
			return nil, err
		case r != nil && r.ReplayUnsafe && last.Commit != llm.CommitNone:
			return nil, deniedFirst(n, uncertain(err), "its outcome is not known")
		case n > s.cfg.Max:
			return nil, err
		case ctx.Err() != nil:
			return nil, endedWaiting(ctx, err, 0)
		}
		if pace == nil {
			pace = s.newPace()
		}
		wait := s.wait(pace, last)
		cost, denied := s.allowed(ctx, r, last, wait)
		if denied != nil {
			return nil, deniedFirst(n, err, denied.Error())
		}
		start := time.Now()
		if !sleepUnlessDone(ctx, wait) {
			s.cfg.Budget.deposit(cost)
			return nil, endedWaiting(ctx, err, time.Since(start))
		}
		// Another call may have put the deployment to rest meanwhile.
		if denied := r.Ask(ctx, s.deployment, time.Now()); denied != nil {
			s.cfg.Budget.deposit(cost)
			if ctx.Err() != nil {
				return nil, endedWaiting(ctx, err, time.Since(start))
			}
			skipRetry(r, last, llm.AsError(denied))
			return nil, deniedFirst(n, err, denied.Error())
		}
		r.Waited(time.Since(start))
		resp, failure := s.next.Call(ctx, r)
		if failure != nil && llm.ClassOf(failure) == llm.Cooling {
			s.cfg.Budget.deposit(cost) // it was not tried, so the failure before stands
			return nil, err
		}
		s.cfg.Budget.settle(cost, failure)
		if failure == nil {
			return resp, nil
		}
		err = failure
	}
}

// again reports whether e's kind of failure is repeated. once marks the classes that were repeated already.
func (s *retry) again(e *llm.Error, once *[llm.NumClasses]bool) bool {
	switch e.Class {
	case llm.Cooling, llm.Exhausted, llm.Canceled:
		return false
	}
	if e.Advice == llm.AdviceDontRetry {
		return false
	}
	switch row := s.reactions.of(e.Class); {
	case row.Again == Always || e.Class == llm.Unknown && e.Advice == llm.AdviceRetry:
		return true
	case row.Again == Once && !once[e.Class]:
		once[e.Class] = true
		return true
	}
	return false
}

// allowed takes the cost of a retry after wait from the budget, or says why it would not be let through, in the account too.
func (s *retry) allowed(ctx context.Context, r *llm.Request, last *llm.Error, wait time.Duration) (cost int, denied error) {
	deny := func(format string, args ...any) error {
		e := &llm.Error{Class: llm.Exhausted, Message: fmt.Sprintf(format, args...), RetryAfter: last.RetryAfter}
		skipRetry(r, last, e)
		return e
	}
	switch {
	case last.CoolUntil && last.RetryAfter > 0:
		return 0, deny("it comes back in %v", last.RetryAfter)
	case last.RetryAfter > s.cfg.MaxWait:
		return 0, deny("it asks for a wait of %v, more than the %v of MaxWait", last.RetryAfter, s.cfg.MaxWait)
	}
	if denied := r.Ask(ctx, s.deployment, time.Now().Add(wait)); denied != nil {
		skipRetry(r, last, llm.AsError(denied))
		return 0, denied
	}
	cost, ok := s.cfg.Budget.withdraw(last.Class)
	if !ok {
		return 0, deny("the retry budget is used up (%v)", s.cfg.Budget)
	}
	return cost, nil
}

// deniedFirst is err, after n attempts, with why no retry followed. After a retry that failed as well it says nothing.
func deniedFirst(n int, err error, why string) error {
	if n > 1 {
		return err
	}
	e := llm.CopyError(err)
	e.RetryDenied = strings.TrimPrefix(why, "llm: ")
	return e
}

// skipRetry enters into the account why no retry followed on last.
func skipRetry(r *llm.Request, last, denied *llm.Error) {
	e := *denied
	e.Deployment, e.Provider, e.Model = last.Deployment, last.Provider, last.Model
	e.Owner, e.Attempts = e.Class.Owner(), nil
	detail := e.Message
	if detail == "" && e.Err != nil {
		detail = e.Err.Error()
	}
	e.Message = "no retry: " + detail
	r.Skip(&e)
}

// delivered is err after output was handed out, which it must say: nobody outside may repeat the call either.
func delivered(err error) error {
	if llm.AsError(err).Partial != nil {
		return err
	}
	e := llm.CopyError(err)
	e.Partial, e.Commit = &llm.Response{}, llm.Committed
	return e
}

// uncertain is err of a request that acts on the world, and says why it was not repeated.
func uncertain(err error) error {
	e := llm.CopyError(err)
	if strings.HasSuffix(e.Message, "so it is not sent again") { // said by a stage inside
		return e
	}
	why := "outcome unknown, the provider may have acted on the request, so it is not sent again"
	if e.Commit == llm.Committed {
		why = "the provider has acted on the request, so it is not sent again"
	}
	if e.Message == "" {
		e.Message = e.Evidence.Message
	}
	if e.Message != "" {
		e.Message += "; "
	}
	e.Message += why
	return e
}
