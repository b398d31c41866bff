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

// until is when d has to give way to next, for a call that has time until end. Zero: there is no time for both.
func (b *timeBudget) until(end time.Time, d, next *llm.Deployment) time.Time {
	left := time.Until(end)
	keep := b.cfg.Reserve
	if keep == 0 {
		keep = max(b.need(next), left/10)
	}
	if left-keep < b.need(d) {
		return time.Time{}
	}
	return end.Add(-keep)
}

// room is where a share is put: a call that is answered by its first deployment allocates none.
func (b *timeBudget) room() *lazyCtx {
	if b.firstTaken.CompareAndSwap(false, true) {
		return &b.first
	}
	return &lazyCtx{}
}

// share is what a fallback gives one route of the time that is left: it ends early enough for the next route, unless the
// answer has begun to be handed out.
type share struct {
	ctx    *lazyCtx
	stream *streamShare
}

// newShare is the share of rt, which comes before next, in the call r under ctx. Without a deadline, or without time for
// both, there is none and nothing is limited.
func newShare(ctx context.Context, r *llm.Request, rt, next *route) share {
	b := timeBudgetOf(r)
	if b == nil {
		return share{}
	}
	end, ok := ctx.Deadline()
	if !ok {
		return share{}
	}
	at := b.until(end, rt.first, next.first)
	if at.IsZero() {
		return share{}
	}
	c := b.room()
	c.parent, c.cause = ctx, rt.stalled
	if b.theirs {
		c.cause = rt.outOfTime
	}
	if r.Sink != nil {
		return share{ctx: c, stream: newStreamShare(c, r, at)}
	}
	c.end = at
	return share{ctx: c}
}

// streamShare is the request of a share that is lifted with the first delta.
type streamShare struct {
	llm.Request
	next  llm.Sink
	begun atomic.Bool
	timer *time.Timer
}

func newStreamShare(c *lazyCtx, r *llm.Request, at time.Time) *streamShare {
	c.loose = true
	s := &streamShare{Request: *r, next: r.Sink}
	s.Sink = s.sink
	s.timer = time.AfterFunc(time.Until(at), func() {
		if !s.begun.Load() {
			c.cancel(c.cause)
		}
	})
	return s
}

func (s *streamShare) sink(d llm.Delta) error {
	if !s.begun.Load() {
		s.begun.Store(true)
		s.timer.Stop()
	}
	return s.next(d)
}

// call calls c within the share.
func (s share) call(ctx context.Context, r *llm.Request, c llm.Caller) (*llm.Response, error) {
	if s.ctx == nil {
		return c.Call(ctx, r)
	}
	defer s.ctx.stop()
	if s.stream != nil {
		defer s.stream.timer.Stop()
		r = &s.stream.Request
	}
	resp, err := c.Call(s.ctx, r)
	if err != nil {
		err = explain(s.ctx, err)
	}
	return resp, err
}
