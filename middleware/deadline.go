package middleware

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelchain/llm"
)

// DeadlineConfig sets [Deadline]. The zero value is the default.
type DeadlineConfig struct {
	// Total is the time for the whole call: attempts, waits and what the reader of a stream takes. 0: 30 s.
	Total time.Duration
	// MinAttempt is the least time left with which an attempt is begun, whatever is estimated. 0: 50 ms, or a tenth of the time
	// that the call has if that is less.
	MinAttempt time.Duration
	// Reserve is the time that a fallback keeps for each deployment after the one it is trying, or more where that is expected
	// to need more. 0: a tenth of the call's time.
	Reserve time.Duration
	// Estimates knows how long answers take. nil: one of its own, which learns from the calls that pass.
	Estimates *Estimates
}

// Deadline is the stage "deadline": one budget of time for a whole call. When it is used up the call's context ends, with
// an error of class Exhausted that says so. A caller's own deadline that is earlier stays in force, and the error says
// that it was the caller's.
//
// Before each attempt, and before each wait for one, the time left must cover what the deployment is expected to need (see
// [Estimates]); otherwise that deployment is skipped, so that a fallback goes on to a faster one. A fallback beneath gives
// each deployment but the last only so much time that those after it still have theirs (see DeadlineConfig.Reserve): one
// that stays silent is Stalled then, or just out of time where the caller's deadline was the shorter one. Where the time
// does not suffice for both, the first has it all. A call that runs out of time during or after failures keeps the last
// of them in its error's chain.
//
// Streams: the time includes that of the reader. A deployment that has begun to stream is not cut off for the next one.
//
// It belongs outside everything that repeats or moves a call, and inside telemetry. It never makes the caller's deadline
// longer, and it cannot end a model's Caller that ignores its context.
func Deadline(cfg DeadlineConfig) llm.Stage {
	const stage = "Deadline"
	cfg.Total = durationOr(stage, "Total", cfg.Total, 30*time.Second)
	scaled := cfg.MinAttempt == 0
	cfg.MinAttempt = durationOr(stage, "MinAttempt", cfg.MinAttempt, min(50*time.Millisecond, cfg.Total/10))
	if cfg.Reserve < 0 {
		panic(fmt.Sprintf("llm/middleware: Deadline: Reserve is %v; use 0 for what the next deployment needs", cfg.Reserve))
	}
	if cfg.MinAttempt >= cfg.Total || cfg.Reserve >= cfg.Total {
		panic(fmt.Sprintf("llm/middleware: Deadline: MinAttempt %v and Reserve %v must be less than Total %v",
			cfg.MinAttempt, cfg.Reserve, cfg.Total))
	}
	if cfg.Estimates == nil {
		cfg.Estimates = NewEstimates(EstimatesConfig{})
	}
	ranOut := limit(llm.Exhausted, "the call's %v ran out", cfg.Total)
	ranOut.Err = context.DeadlineExceeded
	return llm.Stage{Name: "deadline", Config: cfg, Wrap: wrapping("Deadline", func(next llm.Caller) llm.Caller {
		return &deadline{next: next, cfg: cfg, scaled: scaled, ranOut: ranOut}
	})}
}

type deadline struct {
	next   llm.Caller
	cfg    DeadlineConfig
	scaled bool // MinAttempt is a default, and less for a caller with less time
	ranOut *llm.Error
}

func (s *deadline) Describe() llm.Node {
	return llm.Node{Name: "deadline", Config: s.cfg, Children: []llm.Node{llm.Describe(s.next)}}
}

func (s *deadline) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil {
		return s.next.Call(ctx, nil)
	}
	b, began := &timeBudget{cfg: &s.cfg, total: s.cfg.Total, scaled: s.scaled}, time.Now()
	b.whole.end = began.Add(s.cfg.Total)
	limited := ctx
	if theirs, ok := ctx.Deadline(); ok && !theirs.After(b.whole.end) {
		b.whole.end, b.theirs, b.total = theirs, true, max(theirs.Sub(began), 0)
		_, b.budgets = ctx.(*lazyCtx)
	} else {
		b.whole.parent, b.whole.cause = ctx, s.ranOut
		limited = &b.whole
		defer b.whole.stop()
	}
	r := req.Accounted()
	defer r.Enforce(b).Lift()
	resp, err := s.next.Call(limited, r)
	if err != nil {
		return nil, keepLastFailure(r, explain(limited, err))
	}
	return resp, nil
}

// timeBudget is the time of one call: its context, the gate of its attempts, and room for the limits within, of which a
// call without failures has two: a fallback's share and the attempt's.
type timeBudget struct {
	llm.OpenGate
	cfg    *DeadlineConfig
	total  time.Duration
	whole  lazyCtx // its end is that of the call
	theirs bool    // which is the caller's, so that whole is not used
	// budgets says that it is that of a Budget around it: who does not answer in it is slow, and the caller in no hurry.
	budgets bool
	scaled  bool // MinAttempt is a default, and less for a caller with less time
	taken   atomic.Int32
	rooms   [2]lazyCtx
}

// least is the time with which an attempt is begun at all.
func (b *timeBudget) least() time.Duration {
	if b.scaled {
		return min(b.cfg.MinAttempt, b.total/10)
	}
	return b.cfg.MinAttempt
}

// need is the time that an attempt at d must have. What was learned never asks for so much that no call could begin, or
// it could not be unlearned.
func (b *timeBudget) need(d *llm.Deployment, at time.Time) time.Duration {
	if d == nil {
		return b.least()
	}
	t := b.cfg.Estimates.known(d.Name)
	expected := t.expects(at, b.cfg.Estimates.cfg.Memory)
	if !t.isFixed() {
		expected = min(expected, b.cfg.Total*9/10)
	}
	return max(expected, b.least())
}

// suffices reports whether an attempt at d that begins at a time would be done in left. Mostly there is more than any
// deployment needs.
func (b *timeBudget) suffices(left time.Duration, d *llm.Deployment, at time.Time) bool {
	return left >= max(b.cfg.Estimates.longest(), b.least()) || left >= b.need(d, at)
}

// Ask refuses what would not be done in time.
func (b *timeBudget) Ask(_ context.Context, _ *llm.Request, d *llm.Deployment, at time.Time) error {
	left := b.whole.end.Sub(at)
	if b.suffices(left, d, at) {
		return nil
	}
	need, e := b.need(d, at), &llm.Error{Class: llm.Exhausted}
	if d != nil {
		e.Deployment, e.Provider, e.Model = d.Name, d.Provider, d.Model
	}
	if in := time.Until(at); in > 0 {
		e.Message = fmt.Sprintf("needs about %v, %v left after a wait of %v", shortly(need), shortly(max(left, 0)), shortly(in))
	} else {
		e.Message = fmt.Sprintf("needs about %v, %v left", shortly(need), shortly(max(left, 0)))
	}
	return e
}

// End learns from attempts that answered.
func (b *timeBudget) End(_ context.Context, _ *llm.Request, d *llm.Deployment, a *llm.Attempt) {
	if a.Err != nil || a.Skipped != "" {
		return
	}
	b.cfg.Estimates.learn(d.Name, a.Answering(), a.Start.Add(a.Took).UnixNano())
}

// keepLastFailure is err with the last real failure of its call in the chain, if the time ran out after one.
func keepLastFailure(r *llm.Request, err error) error {
	e, ok := err.(*llm.Error) //nolint:errorlint // only the error itself may be replaced by a copy
	if !ok || e.Class != llm.Exhausted {
		return err
	}
	rows := r.Attempts()
	if rows == nil {
		rows = e.Attempts
	}
	for i := len(rows) - 1; i >= 0; i-- {
		a := &rows[i]
		if a.Skipped != "" || a.Err == nil || a.Class == llm.Exhausted || a.Class == llm.Canceled {
			continue
		}
		if errors.Is(e, a.Class) {
			return err
		}
		own := *e
		own.Err = &endedAfter{why: e.Err, last: a.Err}
		return &own
	}
	return err
}

// endedAfter is why a call ended, and the failure that it had not got over.
type endedAfter struct{ why, last error }

func (e *endedAfter) Error() string {
	last := "the last failure was " + strings.TrimPrefix(e.last.Error(), "llm: ")
	if e.why == nil {
		return last
	}
	return e.why.Error() + "; " + last
}

func (e *endedAfter) Unwrap() []error {
	if e.why == nil {
		return []error{e.last}
	}
	return []error{e.why, e.last}
}

// shortly is d as people say it.
func shortly(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
