package middleware

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/modelchain/llm"
)

// timeBudgetOf is the innermost budget of time in force. nil: none.
func timeBudgetOf(r *llm.Request) *timeBudget {
	for g := range r.Gates() {
		if b, ok := g.(*timeBudget); ok {
			return b
		}
	}
	return nil
}

// until is when d has to give way to those that come later, for a call that has time until end. Zero: there is no time for
// it and the next one.
func (b *timeBudget) until(end time.Time, d *llm.Deployment, later []*llm.Deployment) time.Time {
	left := time.Until(end)
	now, keep := end.Add(-left), time.Duration(0)
	for _, l := range later {
		keep += b.slice(l, now)
	}
	if len(later) > 1 && !b.suffices(left-keep, d, now) {
		keep = b.slice(later[0], now)
	}
	if !b.suffices(left-keep, d, now) {
		return time.Time{}
	}
	return end.Add(-keep)
}

// slice is the time that is kept for d: more than it needs, for it is asked only when the one before has let go, and what is
// missing then keeps it from being tried at all.
func (b *timeBudget) slice(d *llm.Deployment, now time.Time) time.Duration {
	const toLetGo = 10 * time.Millisecond
	keep := b.cfg.Reserve
	if keep == 0 {
		keep = b.total / 10
	}
	if !b.suffices(keep-keep/9-toLetGo, d, now) {
		need := b.need(d, now)
		keep = need + need/8 + toLetGo
	}
	return keep
}

// room is where a limit within the call's is put: a call that is answered by its first deployment allocates none.
func (b *timeBudget) room() *lazyCtx {
	if b != nil {
		if i := b.taken.Add(1) - 1; i < int32(len(b.rooms)) {
			return &b.rooms[i]
		}
	}
	return &lazyCtx{}
}

// share is what a fallback gives one route of the time that is left: it ends early enough for the next route, unless the
// answer has begun to be handed out.
type share struct {
	ctx   *lazyCtx
	timer *time.Timer // of a stream
}

// newShare is the share of rt, before those that come later, in the call r under ctx, whose caller was handed so much. Without
// a deadline, or without time for both, there is none and nothing is limited.
func newShare(ctx context.Context, r *llm.Request, handed llm.Progress, rt *route) share {
	b := timeBudgetOf(r)
	if b == nil {
		return share{}
	}
	end, ok := ctx.Deadline()
	if !ok {
		return share{}
	}
	at := b.until(end, rt.first, rt.later)
	if at.IsZero() {
		return share{}
	}
	c := b.room()
	c.parent, c.cause = ctx, rt.stalled
	if b.theirs && !b.budgets {
		c.cause = rt.outOfTime
	}
	if r.Sink == nil {
		c.end = at
		return share{ctx: c}
	}
	c.begun = at
	c.loosen()
	return share{ctx: c, timer: untilBegun(c, handed, at)}
}

// untilBegun ends c at a time, unless the answer has begun to be handed out.
func untilBegun(c *lazyCtx, handed llm.Progress, at time.Time) *time.Timer {
	var begun atomic.Bool
	t := time.AfterFunc(time.Until(at), func() {
		if !begun.Load() {
			c.cancel(c.cause)
		}
	})
	handed.OnNext(func() {
		begun.Store(true)
		t.Stop()
	})
	return t
}

// call calls c within the share.
func (s share) call(ctx context.Context, r *llm.Request, c llm.Caller) (*llm.Response, error) {
	if s.ctx == nil {
		return c.Call(ctx, r)
	}
	defer s.ctx.stop()
	if s.timer != nil {
		defer s.timer.Stop()
	}
	resp, err := c.Call(s.ctx, r)
	if err != nil {
		err = explain(s.ctx, err)
	}
	return resp, err
}
