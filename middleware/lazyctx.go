package middleware

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/modelchain/llm"
)

// lazyCtx is a context with a limit of its own that makes its timer and its place in the tree of contexts only when
// somebody waits for it, asks for its children or finds it ended. context.WithDeadlineCause costs four allocations at once;
// most calls that succeed without touching a network never need them.
//
// parent, end and cause are set before use, and loosen is called then if it is. stop must be called.
type lazyCtx struct {
	parent context.Context //nolint:containedctx // this is a context
	end    time.Time       // when it ends by itself, earlier than parent's deadline. Zero: it does not
	cause  *llm.Error      // why, then
	begun  time.Time       // when it is canceled unless an answer has begun. Zero: it is not

	made atomic.Pointer[madeCtx] // nil, lazyLoose: nobody needed it yet
}

// begunBy is the key of the value that tells when an answer has to have begun: a *time.Time that is not written to.
type begunBy struct{}

// These stand for the made context of one that nobody needed yet: one that may be canceled before its time, and one that
// was stopped.
var lazyLoose, lazyStopped = &madeCtx{}, &madeCtx{}

// madeCtx is the context of the standard library behind a lazyCtx.
type madeCtx struct {
	context.Context //nolint:containedctx // this is a context
	cancel          context.CancelCauseFunc
	release         context.CancelFunc
}

func (m *madeCtx) over(cause error) {
	if m.cancel != nil {
		m.cancel(cause)
	}
	if m.release != nil {
		m.release()
	}
}

// Deadline is the earlier of the parent's and the own.
func (c *lazyCtx) Deadline() (time.Time, bool) {
	if c.end.IsZero() {
		return c.parent.Deadline()
	}
	return c.end, true
}

// Done makes the context.
func (c *lazyCtx) Done() <-chan struct{} { return c.get().Done() }

// Err reads the clock while nobody waits.
func (c *lazyCtx) Err() error {
	if c.unmade() && !c.late() {
		return c.around().Err()
	}
	return c.get().Err()
}

// ErrBefore is Err, if the own time is not over at a moment that is not past; then it takes no look at the clock.
func (c *lazyCtx) ErrBefore(at time.Time) (known bool, err error) {
	if !c.unmade() || c.end.IsZero() || !at.Before(c.end) {
		return false, nil
	}
	return true, c.around().Err()
}

// around is the context that can end c before its time. Lazy ones between, whose time is over later than c's, cannot, so
// there is no need to ask them for the time or to make them.
func (c *lazyCtx) around() context.Context {
	p := c.parent
	if c.end.IsZero() {
		return p
	}
	for l, ok := p.(*lazyCtx); ok && l.made.Load() == nil; l, ok = p.(*lazyCtx) {
		p = l.parent
	}
	return p
}

// Value asks the made context where there is one: that is how context.Cause and child contexts find it.
func (c *lazyCtx) Value(key any) any {
	if key == (begunBy{}) && !c.begun.IsZero() {
		return &c.begun
	}
	if c.unmade() {
		return c.parent.Value(key)
	}
	return c.get().Value(key)
}

// late reports whether the own time is over. If the parent's deadline has passed too, the own one, being earlier, came first.
func (c *lazyCtx) late() bool {
	return !c.end.IsZero() && time.Until(c.end) <= 0 && !errors.Is(c.parent.Err(), context.Canceled)
}

func (c *lazyCtx) get() *madeCtx {
	for {
		old := c.made.Load()
		if old != nil && old != lazyLoose && old != lazyStopped {
			return old
		}
		m := c.make(old)
		if c.made.CompareAndSwap(old, m) {
			return m
		}
		m.over(nil) // somebody was faster
	}
}

func (c *lazyCtx) make(instead *madeCtx) *madeCtx {
	m, base := &madeCtx{}, c.around()
	switch {
	case instead == lazyStopped:
		m.Context, m.cancel = context.WithCancelCause(base)
		m.cancel(nil)
	case c.late():
		m.Context, m.release = context.WithDeadlineCause(context.WithoutCancel(base), c.end, c.cause)
	case c.end.IsZero():
		m.Context, m.cancel = context.WithCancelCause(base)
	default:
		if instead == lazyLoose {
			base, m.cancel = context.WithCancelCause(base)
		}
		m.Context, m.release = context.WithDeadlineCause(base, c.end, c.cause)
	}
	return m
}

func (c *lazyCtx) unmade() bool {
	m := c.made.Load()
	return m == nil || m == lazyLoose
}

// loosen allows cancel.
func (c *lazyCtx) loosen() { c.made.Store(lazyLoose) }

// cancel ends a loose context before its time.
func (c *lazyCtx) cancel(cause error) { c.get().over(cause) }

// stop ends the context and releases what it holds.
func (c *lazyCtx) stop() {
	for {
		m := c.made.Load()
		if m != nil && m != lazyLoose {
			m.over(nil)
			return
		}
		if c.made.CompareAndSwap(m, lazyStopped) {
			return
		}
	}
}

// explain is err, with which a call under c ended. If one of our limits ended c and err does not say so, because it comes
// from a Caller that knows only contexts, it is that limit's error.
func explain(c context.Context, err error) error {
	if _, ok := errors.AsType[*llm.Error](err); ok || c.Err() == nil {
		return err
	}
	if llm.LimitOf(c) == nil {
		return err
	}
	return llm.ContextError(c, err)
}
