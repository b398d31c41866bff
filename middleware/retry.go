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
// gates of outer stages and the budget let it through. The last attempt of a call is left to a fallback that would use it.
// If not, it returns the last failure at once, so that a fallback around it gets the time, and a row in the account says
// why. If the context ends during a wait, the error holds both its cause and the last failure.
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
	var once classSet
	for n := 1; ; n++ {
		last := llm.AsError(err)
		failure := failureOf(last, handed.Deltas() > 0)
		state := State{
			rows: s.reactions, ReplayUnsafe: r != nil && r.ReplayUnsafe, Left: NoLimit(),
			Retry: RetryOption{Left: s.cfg.Max - n + 1, Repeated: once.has(last.Class), MaxWait: s.cfg.MaxWait},
		}
		limitAttempts(ctx, &state, &failure, r)
		switch d := state.decide(&failure); {
		case d.NoRetry == ReasonHanded:
			return nil, delivered(err)
		case d.NoRetry == ReasonUncertain:
			return nil, deniedFirst(n, uncertain(err), "its outcome is not known")
		case d.Action == ActionRetry && ctx.Err() != nil:
			return nil, endedWaiting(ctx, err, 0)
		case d.Action == ActionRetry:
		default:
			return nil, deniedFirst(n, err, s.denied(r, last, d.NoRetry, nil))
		}
		if pace == nil {
			pace = s.newPace()
		}
		wait := s.wait(pace, last)
		state.Retry.Pause, state.Retry.Denied = wait, r.Ask(ctx, s.deployment, time.Now().Add(wait))
		cost := 0
		if state.Retry.Denied == nil {
			var ok bool
			cost, ok = s.cfg.Budget.withdraw(last.Class)
			state.Retry.Unfunded = !ok
		}
		if d := state.decide(&failure); d.Action != ActionRetry {
			return nil, deniedFirst(n, err, s.denied(r, last, d.NoRetry, state.Retry.Denied))
		}
		once |= 1 << last.Class
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
			return nil, deniedFirst(n, err, s.denied(r, last, ReasonDenied, denied))
		}
		r.Waited(time.Since(start))
		resp, failed := s.next.Call(ctx, r)
		if failed != nil && (llm.AsError(failed).Skipped || llm.ClassOf(failed) == llm.Cooling) {
			s.cfg.Budget.deposit(cost) // it was not tried, so the failure before stands
			return nil, err
		}
		s.cfg.Budget.settle(cost, failed)
		if failed == nil {
			return resp, nil
		}
		err = failed
	}
}

// denied enters into the account that a retry which last's class allows was not made, and returns why. "": there was no such
// retry.
func (s *retry) denied(r *llm.Request, last *llm.Error, why Reason, gate error) string {
	e := &llm.Error{Class: llm.Exhausted, RetryAfter: last.RetryAfter}
	switch why {
	case ReasonComesBack:
		e.Message = fmt.Sprintf("it comes back in %v", last.RetryAfter)
	case ReasonLongWait:
		e.Message = fmt.Sprintf("it asks for a wait of %v, more than the %v of MaxWait", last.RetryAfter, s.cfg.MaxWait)
	case ReasonKept:
		e.Message = why.String()
	case ReasonUnfunded:
		e.Message = fmt.Sprintf("the retry budget is used up (%v)", s.cfg.Budget)
	case ReasonDenied:
		e = llm.AsError(gate)
	default:
		return ""
	}
	skipRetry(r, last, e)
	return strings.TrimPrefix(e.Error(), "llm: ")
}

// deniedFirst is err, after n attempts, with why no retry followed. After a retry that failed as well it says nothing.
func deniedFirst(n int, err error, why string) error {
	if n > 1 || why == "" {
		return err
	}
	e := llm.CopyError(err)
	e.RetryDenied = why
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
	r.Skipped(&e)
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
	e := llm.AsError(err)
	if strings.HasSuffix(e.Message, "so it is not sent again") { // said by a stage inside
		return err
	}
	why := "outcome unknown, the provider may have acted on the request, so it is not sent again"
	if e.Commit == llm.Committed {
		why = "the provider has acted on the request, so it is not sent again"
	}
	return saying(err, "; ", why)
}
