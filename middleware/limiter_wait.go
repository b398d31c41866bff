package middleware

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/modelchain/llm"
)

// await waits until p, for which there was no room at once, has all it takes. Otherwise p holds nothing.
func (s *limiter) await(ctx context.Context, r *llm.Request, p *permit) *llm.Error {
	w := &limitWaiter{cost: p.cost, wake: newAlarm()}
	w.until, _ = s.patience(ctx, r, p, p.began)
	passed := false
	defer func() { // a gate may panic
		if !passed {
			s.pool.abandon(p, w)
		}
	}()
	if what := s.pool.tooLarge(p); what != "" {
		return s.refuse(&llm.Error{Class: llm.Unsupported, Message: "the request is too large for its rate limit: " + what})
	}
	for {
		now := time.Now()
		ok, again := s.pool.look(now, p, w)
		if ok {
			passed = true
			r.Waited(now.Sub(p.began))
			p.began = now
			return nil
		}
		refusal, until := s.mayWait(ctx, r, p, w, now)
		if refusal != nil {
			return refusal
		}
		if !again.IsZero() && again.Before(until) {
			until = again
		}
		w.sleep(ctx, until)
	}
}

func (pool *limitPool) tooLarge(p *permit) (what string) {
	if l := p.key.line; l != nil {
		what = l.tooLarge(&p.cost)
	}
	if what == "" {
		what = pool.all.tooLarge(&p.cost)
	}
	return what
}

// abandon takes w out of its line and gives back what p has.
func (pool *limitPool) abandon(p *permit, w *limitWaiter) {
	pool.lock()
	defer pool.mu.Unlock()
	if l := w.in; l != nil {
		l.leave(w)
		if l.shared != nil {
			l.shared.fleet.mark(l.shared, false) // what came for it goes back
		}
	}
	pool.drop(p, &limitCost{})
}

// look passes w if it is its turn. again is when it has to look again. Zero: somebody wakes it.
func (pool *limitPool) look(now time.Time, p *permit, w *limitWaiter) (passed bool, again time.Time) {
	pool.lock()
	defer pool.mu.Unlock()
	if pool.pass(now, p, w) {
		return true, again
	}
	if s := w.in.shared; s != nil && !s.alone(now) {
		return false, s.look(now, w)
	}
	if w.in.first() != w {
		return false, again
	}
	w.expect(now, &limitCost{})
	if w.in.hasSlot() {
		again = w.due
	}
	return false, again
}

// pass goes through the lines of the key and of the pool as far as there is room, and queues where there is none.
func (pool *limitPool) pass(now time.Time, p *permit, w *limitWaiter) bool {
	if !p.keyed {
		l := p.key.line
		if w.in == nil && l.waiting > 0 || !l.pass(now, w, &p.keyAlone) {
			if w.in == nil {
				_, ahead := l.push(w, l.number-1)
				w.queued(now, &ahead)
				// What the pool has no room for now does not wait for its key alone.
				if wait, why := pool.all.wait(now, &pool.all.total, &w.cost); now.Add(wait).After(w.due) {
					w.due, w.why = now.Add(wait), why
				}
			}
			return false
		}
		p.keyed = true
	}
	if pool.all.pass(now, w, &p.allAlone) {
		return true
	}
	if w.in == nil {
		var ahead limitCost
		p.key.round, ahead = pool.all.push(w, p.key.round)
		w.queued(now, &ahead)
	}
	return false
}

// expect notes when w's turn comes behind ahead.
func (w *limitWaiter) expect(now time.Time, ahead *limitCost) {
	wait, why := w.in.wait(now, ahead, &w.cost)
	w.due, w.why = now.Add(wait), why
}

// sleep returns at a time, or when w has to look again before.
func (w *limitWaiter) sleep(ctx context.Context, until time.Time) {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.wake:
	case <-ctx.Done():
	}
}

// mayWait says why w does not wait for its turn, or until when it may.
func (s *limiter) mayWait(
	ctx context.Context, r *llm.Request, p *permit, w *limitWaiter, now time.Time,
) (refusal *llm.Error, until time.Time) {
	if e := llm.ContextError(ctx, nil); e != nil {
		return s.refuse(e), until
	}
	until, theirs := s.patience(ctx, r, p, now)
	if w.due.After(until) || !now.Before(until) {
		limit := fmt.Sprintf("calls wait up to %v", s.l.cfg.MaxWait)
		if theirs {
			limit = fmt.Sprintf("there is time to wait for %v", shortly(max(until.Sub(now), 0)))
		}
		return s.over(w, now, limit), until
	}
	if denied := r.Ask(ctx, s.deployment, w.due); denied != nil {
		if again := r.Ask(ctx, s.deployment, now); again != nil {
			return s.refuse(llm.CopyError(again)), until
		}
		why := llm.AsError(denied).Message
		if why == "" {
			why = strings.TrimPrefix(denied.Error(), "llm: ")
		}
		return s.over(w, now, why), until
	}
	return nil, until
}

// patience is until when the call may wait. theirs says that its own time is shorter than MaxWait.
func (s *limiter) patience(ctx context.Context, r *llm.Request, p *permit, now time.Time) (until time.Time, theirs bool) {
	until = p.began.Add(s.l.cfg.MaxWait)
	if end, ok := s.lastMoment(ctx, r, now); ok && end.Before(until) {
		return end, true
	}
	return until, false
}

// over is the refusal of a call that does not wait for its turn.
func (s *limiter) over(w *limitWaiter, now time.Time, limit string) *llm.Error {
	wait := max(w.due.Sub(now), 0)
	e := &llm.Error{Class: llm.RateLimited, RetryAfter: wait}
	if w.why == "" {
		e.Message = fmt.Sprintf("over the limit of calls in flight of %q, and %s", s.pool.name, limit)
	} else {
		e.Message = fmt.Sprintf("over the limit of %q, %s: its turn is in %v, and %s", s.pool.name, w.why, shortly(wait), limit)
	}
	return s.refuse(e)
}

func (s *limiter) refuse(e *llm.Error) *llm.Error {
	if d := s.deployment; d != nil {
		e.Deployment, e.Provider, e.Model = d.Name, d.Provider, d.Model
	}
	e.Owner = e.Class.Owner()
	return e
}

// lastMoment is when an attempt has to begin, so that it has the time that the deployment is expected to need before the call's
// time, or that of a fallback's route, is over.
func (s *limiter) lastMoment(ctx context.Context, r *llm.Request, now time.Time) (time.Time, bool) {
	end, ok := ctx.Deadline()
	if by, is := ctx.Value(begunBy{}).(*time.Time); is && (!ok || by.Before(end)) {
		end, ok = *by, true
	}
	if b := timeBudgetOf(r); ok && b != nil {
		end = end.Add(-b.need(s.deployment, now))
	}
	return end, ok
}
