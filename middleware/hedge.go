package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelchain/llm"
)

// HedgeConfig sets [Hedge]. The zero value is the default.
type HedgeConfig struct {
	// Delay is how long a caller may take to its first token before the next one is called beside it. 0: learned, the time
	// within which the first caller had it in 19 of 20 calls.
	Delay time.Duration
	// MinDelay is the least delay that is learned. 0: 50 ms.
	MinDelay time.Duration
	// Share is how many of all calls may be hedged, up to 1, and 10 more at once: each call puts a share of a token into a
	// bucket, and each caller that is called because another is slow takes a whole one. What is called because another failed
	// takes none. 0: 0.05.
	Share float64
	// Estimates knows how long first tokens take: answers that are not streamed under the name of the first caller's first
	// deployment, streams under that name with ", first token" after it. It is none of a Deadline's, which learns whole answers
	// under the same names. nil: one of its own, of the 0.95 quantile.
	Estimates *Estimates
	// Budget sets the bucket that each caller but the first has, as in [FallbackConfig]. The zero value is that of RetryBudget.
	Budget RetryBudgetConfig
	// Reactions holds the rows that differ from DefaultReactions. nil: none.
	Reactions Reactions
}

func (c HedgeConfig) withDefaults() HedgeConfig {
	switch {
	case c.Delay < 0:
		panic(fmt.Sprintf("llm/middleware: Hedge: Delay is %v; use 0 for one that is learned, or a positive duration", c.Delay))
	case c.Delay > 0 && (c.MinDelay != 0 || c.Estimates != nil):
		panic(fmt.Sprintf("llm/middleware: Hedge: Delay is %v, so that nothing is learned; leave MinDelay and Estimates out, or Delay",
			c.Delay))
	case !(c.Share >= 0 && c.Share <= 1):
		panic(fmt.Sprintf("llm/middleware: Hedge: Share is %v; use 0 for 0.05, or a share up to 1", c.Share))
	}
	if c.Share == 0 {
		c.Share = 0.05
	}
	if c.Delay == 0 {
		c.MinDelay = durationOr("Hedge", "MinDelay", c.MinDelay, 50*time.Millisecond)
		if c.Estimates == nil {
			c.Estimates = NewEstimates(EstimatesConfig{Quantile: 0.95})
		}
	}
	return c
}

// Hedge is the combinator "hedge": a [Fallback] that does not always wait for a failure. If the caller that was called last
// has not produced a token after a delay, the same call is made of the next one as well. A token is the first delta of a
// stream, and the answer of a call that is not streamed. Whoever produces one first has won: the others are canceled and
// their attempts are in the account, of class Canceled, with what they used as far as they say so. A cancellation counts
// against nobody.
//
// All that Fallback says holds here too: what may move where, passing over, Routes, budgets, the one error of a call that
// nobody answered, the share of the time. A Route that lists classes is hedged with if it lists Stalled. A failure before any
// token starts the next caller at once if it may move; if not, no further one is started, those that run may still answer,
// and if none does that failure is the error.
//
// The delay that is learned is measured here, repetitions and commit windows within the first caller included. Where another
// was faster, the first is noted as having taken the delay: if only its fast answers counted, it would shrink. Until
// five calls are known no call is hedged, and none while Share is used up. No caller is hedged with that an outer cooldown,
// deadline or Request.MaxAttempts would refuse, though a hedge may take the attempt that a retry would have had. A request
// that is ReplayUnsafe is never hedged. Callers of one deployment are called once.
//
// Streams: only the winner's deltas reach the sink, in order and on the goroutine of the call. The first caller runs on that
// goroutine, so that a delta of its answer passes a comparison and no other goroutine: this is the common case. Those called
// beside it run on goroutines of their own, and if one of them wins, the sink takes each delta before the model produces the
// next, as always, for two changes of goroutine a delta. The price of this is that the winner waits until the first caller
// has let go: a model that ignores its context delays the answer by what it takes to return, and so does a loser at the end,
// for no goroutine outlives the call. A panic beside the goroutine of the call is a failure of its caller.
//
// It belongs where Fallback does, around whole stacks of stages, in its place: Hedge(a, b), or for a last resort that is
// never hedged with Fallback(Hedge(a, b), c). A Fallback may be one of its callers. A call that is not hedged costs a timer,
// a context and a kilobyte more than with Fallback; one that is hedged costs its second attempt, up to Share of all
// tokens on top. It never hands out two answers or parts of both, and never calls again once a token was there.
//
// It panics with fewer than two callers, on what Fallback panics on, on a Share outside 0 to 1, on negative durations and on
// a Delay with settings for learning.
func Hedge(cfg HedgeConfig, callers ...llm.Caller) llm.Caller {
	cfg = cfg.withDefaults()
	if len(callers) < 2 {
		panic(fmt.Sprintf("llm/middleware: Hedge: there are %d callers; give it another one to call beside the first, or use the "+
			"first alone", len(callers)))
	}
	h := &hedge{
		cfg: cfg, bucket: newHedgeBucket(cfg.Share),
		lost: llm.Limit(llm.Canceled, errFaster.Error()),
		f:    newFallback("Hedge", FallbackConfig{Budget: cfg.Budget, Reactions: cfg.Reactions}, callers),
	}
	h.lost.Err = errFaster
	first := &h.f.routes[0]
	h.whole = first.label
	if first.first != nil {
		h.whole = first.first.Name
	}
	h.token = h.whole + ", first token"
	return h
}

// errFaster is why an attempt ended that nobody has to answer for.
var errFaster = errors.New("another deployment was faster")

type hedge struct {
	cfg          HedgeConfig
	f            *fallback // knows the callers, and what follows on a failure
	bucket       *hedgeBucket
	lost         *llm.Error // what ends the losers
	whole, token string     // what the times of the first caller are kept under
}

func (h *hedge) Describe() llm.Node {
	n := h.f.Describe()
	n.Name, n.Config = "hedge", h.cfg
	return n
}

func (h *hedge) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	e, err := h.f.enter(ctx, req)
	if err != nil {
		return nil, err
	}
	defer e.gate.Lift()
	h.bucket.earn()
	now := time.Now()
	if delay := h.delay(e.r, now); delay > 0 && !e.r.ReplayUnsafe && attemptsLeft(e.r) > 1 && h.bucket.has() {
		return h.race(ctx, &e, now, delay)
	}
	return h.alone(ctx, &e, now)
}

// alone is a call that is not hedged.
func (h *hedge) alone(ctx context.Context, e *entry, began time.Time) (*llm.Response, error) {
	var token time.Duration
	if e.r.Sink != nil && h.cfg.Estimates != nil {
		e.handed.OnNext(func() { token = time.Since(began) })
	}
	resp, err := h.f.call(e.first, e.r, e.handed, 0, nil)
	if err != nil {
		return e.goOn(ctx, h.f, err)
	}
	h.learn(e.r, began, token)
	return resp, nil
}

func (h *hedge) name(r *llm.Request) string {
	if r.Sink != nil {
		return h.token
	}
	return h.whole
}

// delay is after what time r is hedged. 0: not known.
func (h *hedge) delay(r *llm.Request, now time.Time) time.Duration {
	e := h.cfg.Estimates
	if e == nil {
		return h.cfg.Delay
	}
	if d := e.known(h.name(r)).expects(now, e.cfg.Memory); d > 0 {
		return max(d, h.cfg.MinDelay)
	}
	return 0
}

// learn notes that the first caller, called when r's call began, took so long to a token. 0: until now.
func (h *hedge) learn(r *llm.Request, began time.Time, token time.Duration) {
	e := h.cfg.Estimates
	if e == nil {
		return
	}
	if token == 0 {
		token = time.Since(began)
	}
	e.learn(h.name(r), token, began.Add(token).UnixNano())
}
