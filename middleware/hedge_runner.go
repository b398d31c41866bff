package middleware

import (
	"math"
	"runtime/debug"
	"time"

	"github.com/modelchain/llm"
)

// runner is one caller's part in a race.
type runner struct {
	llm.Request // of a stream
	race        *race
	req         *llm.Request // what it is called with
	next        llm.Sink     // the caller's
	route       *route
	at          int
	cost        int        // what it costs its route's budget if it is in vain
	hedges      bool       // it was begun beside another, for a token
	aside       bool       // it runs on another goroutine than that of the call
	won         bool       // for its own goroutine
	gaveWay     *llm.Error // what ends it so that the next has time
	ctx         lazyCtx

	// Under race.mu.
	older *runner
	ended bool
}

func (b *runner) call() (*llm.Response, error) {
	defer b.ctx.stop()
	if x := b.race; attemptsLeft(b.req) < math.MaxInt {
		defer x.h.f.lookAhead(b.req, x.following, nil).Lift()
	}
	resp, err := orNothing(b.route.Call(&b.ctx, b.req))
	if err != nil {
		err = explain(&b.ctx, err)
	}
	return resp, err
}

// following is the route that is next to begin.
func (x *race) following() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last + 1
}

func (b *runner) sink(d llm.Delta) error {
	if !b.won {
		if !b.race.claim(b) {
			return b.race.h.lost
		}
		b.won = true
	}
	if b.aside {
		return b.race.hand(d)
	}
	return b.next(d)
}

// hand has the goroutine of the call hand out d, and returns what the sink said.
func (x *race) hand(d llm.Delta) error {
	select {
	case x.deltas <- d:
	case <-x.over:
		return x.h.lost
	}
	select {
	case err := <-x.taken:
		return err
	case <-x.over:
		return x.h.lost
	}
}

// beside runs b, or what it is time for, and whoever takes over from it, on a goroutine of its own, which has a place in wg.
func (x *race) beside(b *runner) {
	defer x.wg.Done()
	defer x.catch()
	if b == nil {
		b = x.timeIsUp()
	}
	for b != nil {
		b.aside = true
		b = x.guarded(b)
	}
}

// guarded runs b. A panic of what is no Deployment must not end the program, which nobody could prevent here.
func (x *race) guarded(b *runner) (next *runner) {
	returned := false
	defer func() {
		if returned {
			return
		}
		e := &llm.Error{Class: llm.BadOutput, Owner: llm.OwnerTransient, Commit: llm.CommitUnknown, Message: "the Caller panicked"}
		v := recover()
		if v != nil {
			e.Err = &llm.PanicError{Value: v, Stack: debug.Stack()}
		} else {
			e.Message = "the Caller ended its goroutine"
		}
		next = x.ended(b, nil, e)
		if v == nil && next != nil { // the goroutine ends, whoever would take over
			x.wg.Add(1)
			go x.beside(next)
		}
	}()
	resp, err := b.call()
	returned = true
	return x.ended(b, resp, err)
}

// arm sets the timer to hedge, or to end a branch that gives way. x.mu is held, by who has a place in wg or is the call.
func (x *race) arm(in time.Duration, givesWay *runner) {
	x.due, x.givesWay = time.Now().Add(in), givesWay
	if x.armed {
		if !x.timer.Stop() {
			return // it is about to look, and sees that it is not due
		}
	} else {
		x.armed = true
		x.wg.Add(1)
	}
	if x.timer == nil {
		x.timer = time.AfterFunc(in, x.look)
	} else {
		x.timer.Reset(in)
	}
}

func (x *race) disarm() {
	if x.armed && x.timer.Stop() {
		x.armed = false
		x.wg.Done()
	}
}

// catch keeps a panic for the goroutine of the call.
func (x *race) catch() {
	if v := recover(); v != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.panicked = v
		x.end()
		x.cancelOthers() // and the call ends
	}
}

// look is what the timer does, in whose place in wg it runs.
func (x *race) look() { x.beside(nil) }

// timeIsUp begins another branch, if it is time for that.
func (x *race) timeIsUp() *runner {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.armed = false
	if x.closed {
		return nil
	}
	if left := time.Until(x.due); left > 0 {
		x.arm(left, x.givesWay)
		return nil
	}
	if b := x.givesWay; b != nil {
		b.ctx.cancel(b.gaveWay)
		return nil
	}
	b := x.start(true)
	if b != nil && x.done == nil {
		x.deltas, x.taken = make(chan llm.Delta), make(chan error)
		x.over, x.done = make(chan struct{}), make(chan struct{})
	}
	return b
}

// giveWayLater has the one branch that runs end in time for the next, as a fallback would, since no hedge may be made.
func (x *race) giveWayLater() {
	b := x.newest
	for b != nil && b.ended {
		b = b.older
	}
	budget := timeBudgetOf(x.r)
	end, ok := x.ctx.Deadline()
	if b == nil || x.running != 1 || b.route.next == nil || budget == nil || !ok {
		return
	}
	if at := budget.until(end, b.route.first, b.route.later); !at.IsZero() {
		b.gaveWay = b.route.stalled
		if budget.theirs && !budget.budgets {
			b.gaveWay = b.route.outOfTime
		}
		x.arm(time.Until(at), b)
	}
}
