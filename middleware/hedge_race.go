package middleware

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/modelchain/llm"
)

// race is a call that may be hedged.
type race struct {
	h     *hedge
	ctx   context.Context //nolint:containedctx // the call's, of which every branch gets a child
	r     *llm.Request    // whose sink is the caller's; only the goroutine of the call uses it
	fork  llm.Fork        // before the first branch
	began time.Time
	delay time.Duration
	rows  int    // of the account that were there before
	first runner // on the goroutine of the call, as are those that take over from it
	wg    sync.WaitGroup

	mu      sync.Mutex
	trip    trip // on its way from failure to failure
	last    int  // the route called last
	newest  *runner
	running int
	winner  *runner // who had a token first
	token   time.Duration
	resp    *llm.Response // the winner's end
	err     error
	final   *miss // a failure that moves nowhere, after which nothing is started
	closed  bool  // nothing is started any more
	left    bool
	// panicked is what a gate panicked with on another goroutine than that of the call, where it has to come out.
	panicked any

	// The timer has a place in wg while it is armed: what it does next, and when.
	timer    *time.Timer
	armed    bool
	due      time.Time
	givesWay *runner // it ends this one, so that the next has time; nil: it hedges

	// Between the winner, where it runs on another goroutine, and the one of the call. nil while there is no other goroutine.
	deltas chan llm.Delta
	taken  chan error
	over   chan struct{} // the goroutine of the call takes no more
	done   chan struct{} // nothing comes any more
	isDone bool
}

// race calls the first caller, and others beside it while none has produced a token.
func (h *hedge) race(ctx context.Context, e *entry, began time.Time, delay time.Duration) (*llm.Response, error) {
	x := &race{
		h: h, ctx: ctx, r: e.r, fork: e.r.Fork(), began: began, delay: delay, rows: e.began,
		// What is hedged with stands in for one that is slow.
		trip: trip{f: h.f, demands: Demands{class: llm.Stalled, behind: llm.Stalled}},
	}
	defer x.leave() // a panic too ends the branches
	x.mu.Lock()
	x.first.route = &h.f.routes[0]
	x.begin(e.first, &x.first, e.r)
	x.mu.Unlock()
	x.run(&x.first)
	x.pump()
	x.leave()
	if x.panicked != nil {
		panic(x.panicked)
	}
	return x.outcome()
}

// begin makes b a branch that runs. x.mu is held.
func (x *race) begin(ctx context.Context, b *runner, r *llm.Request) {
	b.race, b.older = x, x.newest
	x.newest, x.running = b, x.running+1
	b.ctx.parent = ctx
	b.ctx.loosen()
	if b.req = r; r.Sink != nil {
		b.next = r.Sink
		b.Request = *r
		b.Sink = b.sink
		b.req = &b.Request
	}
	x.arm(x.delay, nil)
}

// start begins the branch of the next route, beside those that run or because one failed. nil: there is none. x.mu is held.
func (x *race) start(hedges bool) *runner {
	t := &x.trip
	t.r, t.gate, t.at = x.r.Branch(x.fork), llm.Enforced{}, x.last
	for o := x.newest; o != nil; o = o.older { // what runs has been tried too
		if only := o.route.only; only != nil && !o.ended && !slices.Contains(t.tried, only.Name) {
			t.tried = append(t.tried, only.Name)
		}
	}
	if x.running > 0 && !t.hasNext(x.ctx) { // the last to fail enters whom it passes over
		return nil
	}
	if hedges && !x.h.bucket.take() {
		x.giveWayLater()
		return nil
	}
	ctx := t.move(x.ctx)
	if ctx == nil {
		if hedges {
			x.h.bucket.giveBack()
		}
		return nil
	}
	x.last = t.at
	b := &runner{route: &t.f.routes[t.at], at: t.at, cost: t.cost, hedges: hedges}
	x.begin(ctx, b, t.r)
	return b
}

// hasNext reports whether move would find a route, and enters nothing into the account.
func (t *trip) hasNext(ctx context.Context) bool {
	now := time.Now()
	if t.r.Ask(ctx, nil, now) != nil {
		return false
	}
	for i := t.at + 1; i < len(t.f.routes); i++ {
		rt := &t.f.routes[i]
		if !t.isDone(rt) && t.unfit(rt, nil) == nil && (rt.only == nil || t.r.Ask(ctx, rt.only, now) == nil) &&
			rt.budget.covers(t.demands.class) {
			return true
		}
	}
	return false
}

// run runs b, and then whoever takes over from it.
func (x *race) run(b *runner) {
	for b != nil {
		resp, err := b.call()
		b = x.ended(b, resp, err)
	}
}

// ended notes how b ended, and returns who takes over. nil: nobody.
func (x *race) ended(b *runner, resp *llm.Response, err error) (next *runner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	b.ended = true
	x.running--
	switch {
	case err == nil && x.claimed(b):
		x.resp = resp
		if b == &x.first {
			x.h.learn(x.r, x.began, x.token)
		}
	case x.winner == b: // broke after it was handed out
		m := x.missed(b, err)
		x.err = x.trip.withEarlier(delivered(m.cause))
	case x.winner != nil || x.left:
	default:
		next = x.failed(b, err)
	}
	if x.winner == b || x.running == 0 {
		x.end()
	}
	return next
}

// end lets the goroutine of the call go on. x.mu is held.
func (x *race) end() {
	x.closed = true
	x.disarm()
	if x.done != nil && !x.isDone {
		x.isDone = true
		close(x.done)
	}
}

// failed decides what follows on the failure of b, which had no token.
func (x *race) failed(b *runner, err error) (next *runner) {
	m := x.missed(b, err)
	switch {
	case x.closed:
	case x.trip.stays(m) != ReasonNone:
		x.final, x.closed = &m, true
	default:
		x.trip.standInFor(m)
		next = x.start(false)
	}
	switch {
	case !b.hedges || m.called:
	case next != nil: // has what b left unused
		next.hedges = true
	default:
		x.h.bucket.giveBack()
	}
	return next
}

func (x *race) missed(b *runner, err error) miss {
	t := &x.trip
	t.r, t.at, t.cost, t.rows = x.r, b.at, b.cost, x.rows
	m := t.missed(err)
	t.settle(m)
	return m
}

// claim makes b the winner, which has a token, if there is none.
func (x *race) claim(b *runner) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.claimed(b)
}

func (x *race) claimed(b *runner) bool {
	if x.winner != nil || x.left {
		return x.winner == b
	}
	x.winner, x.closed = b, true
	x.disarm()
	if b == &x.first {
		if x.r.Sink != nil && !b.ended && x.h.cfg.Estimates != nil {
			x.token = time.Since(x.began)
		}
	} else if !x.first.ended {
		// As if it had come in just now: no less, or the delay would shrink with each hedge, and no more, or it would grow while
		// the first hangs.
		x.h.learn(x.r, x.began, x.delay-1)
	}
	x.cancelOthers()
	return true
}

func (x *race) cancelOthers() {
	for o := x.newest; o != nil; o = o.older {
		if o != x.winner && !o.ended {
			o.ctx.cancel(x.h.lost)
		}
	}
}

// pump hands out the deltas of a winner on another goroutine, until nothing comes any more.
func (x *race) pump() {
	x.mu.Lock()
	alone := x.done == nil
	x.mu.Unlock()
	for !alone {
		select {
		case d := <-x.deltas:
			x.taken <- x.r.Sink(d)
		case <-x.done:
			return
		}
	}
}

// leave ends what still runs and waits for it.
func (x *race) leave() {
	x.mu.Lock()
	if !x.left {
		x.left, x.closed = true, true
		x.disarm()
		x.cancelOthers()
		if x.over != nil {
			close(x.over)
		}
	}
	x.mu.Unlock()
	x.wg.Wait()
}

// outcome is what the call returns, when all branches have ended.
func (x *race) outcome() (*llm.Response, error) {
	t := &x.trip
	t.r = x.r
	switch {
	case x.resp != nil && x.done == nil:
		return x.resp, nil
	case x.resp != nil:
		resp := *x.resp
		resp.Attempts = x.r.Attempts() // those of the losers too
		return &resp, nil
	case x.err != nil:
		e := llm.CopyError(x.err)
		e.Attempts = x.r.Attempts()
		return nil, e
	case x.final == nil:
		return nil, t.failure(x.ctx)
	}
	others := make([]miss, 0, len(t.misses))
	for i := range t.misses {
		if m := &t.misses[i]; m.err != x.final.err && m.err.Class != llm.Canceled {
			others = append(others, *m)
		}
	}
	others = append(others, *x.final)
	t.misses = others
	return nil, t.withEarlier(x.final.cause)
}
