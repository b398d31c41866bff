package middleware

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelchain/llm"
)

// journalCall is the gate of one call.
type journalCall struct {
	llm.OpenGate
	*journal
	id, workflow string
	start        time.Time

	mu       sync.Mutex
	seq      int
	open     []journalOpen
	answered []journalAnswer
	refused  error          // why an attempt of this call was
	ends     []func() error // each waits for a row that says how an attempt ended
	over     bool           // nobody will wait for further ones
}

// later has what comes next wait for a write. nil: for none.
func (c *journalCall) later(written func() error) {
	if written == nil {
		return
	}
	written = sync.OnceValue(written)
	c.mu.Lock()
	c.ends = append(c.ends, written)
	over := c.over
	c.mu.Unlock()
	if over {
		_ = written() // counted; the answer is not withheld
	}
}

// settle waits for the ends that are being written. So that of the last attempt and that of the call share a wait for the disk.
func (c *journalCall) settle() {
	c.mu.Lock()
	ends := c.ends
	c.mu.Unlock()
	for _, written := range ends {
		_ = written()
	}
}

// journalOpen is an attempt under way.
type journalOpen struct {
	a     *llm.Attempt // as the deployment keeps it
	began llm.Attempt  // as it was when it began
	row   JournalAttempt
}

// journalAnswer is an attempt that was settled as answered: a validator may still reject it.
type journalAnswer struct {
	was     llm.Attempt
	d       *llm.Deployment
	row     JournalAttempt
	written chan struct{} // closed when the store is done with it
}

// Ask refuses what would be refused anyway, so that nobody waits for it.
func (c *journalCall) Ask(_ context.Context, _ *llm.Request, _ *llm.Deployment, at time.Time) error {
	if c.cfg.Down == DownGoOn {
		return nil
	}
	if time.Until(at) > 0 { // who is about to wait hears of a store that has just gone down
		c.settle()
	}
	c.mu.Lock()
	refused := c.refused
	c.mu.Unlock()
	if refused != nil {
		return refused
	}
	if err := c.pen.resting(at); err != nil {
		return c.refusal(err)
	}
	return nil
}

// Start writes the row of an attempt.
func (c *journalCall) Start(ctx context.Context, r *llm.Request, _ *llm.Deployment, a *llm.Attempt) (context.Context, error) {
	c.settle()
	row := c.begin(r, a)
	err := c.pen.before(ctx, func(ctx context.Context) error { return c.cfg.Store.Begin(ctx, row) })
	left := llm.ContextError(ctx, nil)
	if left == nil && (err == nil || c.cfg.Down == DownGoOn) {
		return ctx, nil
	}
	why := left
	if left == nil {
		why = c.refusal(err)
		c.pen.refuse(ctx)
	}
	c.mu.Lock()
	c.take(a)
	if left == nil {
		c.refused = why
	}
	c.mu.Unlock()
	if !errors.Is(err, errJournalRests) { // else the store has not heard of it
		unmade := row // the store may still read row
		unmade.State, unmade.Index, unmade.Class, unmade.Detail = JournalNotMade, 0, why.Class, why.Message
		c.pen.handOver(ctx, journalEnd, func(ctx context.Context) error { return c.cfg.Store.Settle(ctx, unmade) })
	}
	return ctx, why
}

// begin is the row of an attempt that begins.
func (c *journalCall) begin(r *llm.Request, a *llm.Attempt) JournalAttempt {
	rows := r.Attempts()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.open {
		rows = append(rows, c.open[i].began)
	}
	rows = append(rows, *a)
	c.seq++
	row := JournalAttempt{
		Call: c.id, Seq: c.seq, Workflow: c.workflow, Index: a.Index, Requested: requested(rows),
		Deployment: a.Deployment, Provider: a.Provider, Model: a.Model, Start: a.Start, Waited: a.Waited, State: JournalStarted,
	}
	var from *llm.Attempt
	if row.Reason, from = c.origin(rows, len(rows)-1); from != nil {
		row.From, row.After = from.Deployment, from.Class
	}
	c.open = append(c.open, journalOpen{a, *a, row})
	return row
}

// take takes an attempt out of those under way. mu is held.
func (c *journalCall) take(a *llm.Attempt) (journalOpen, bool) {
	for i, o := range c.open {
		if o.a == a {
			c.open = append(c.open[:i:i], c.open[i+1:]...)
			return o, true
		}
	}
	return journalOpen{}, false
}

// End settles an attempt.
func (c *journalCall) End(ctx context.Context, _ *llm.Request, d *llm.Deployment, a *llm.Attempt) {
	c.mu.Lock()
	o, known := c.take(a)
	if !known {
		c.mu.Unlock()
		return
	}
	row := o.row.settled(d, a)
	settle := func(ctx context.Context) error { return c.cfg.Store.Settle(ctx, row) }
	if row.State == JournalAnswered {
		written := make(chan struct{})
		c.answered = append(c.answered, journalAnswer{*a, d, o.row, written})
		settle = func(ctx context.Context) error {
			defer close(written)
			return c.cfg.Store.Settle(ctx, row)
		}
	}
	c.mu.Unlock()
	c.later(c.pen.after(ctx, settle))
}

// amend settles again what was rejected since it answered.
func (c *journalCall) amend(ctx context.Context, rows []llm.Attempt) {
	c.mu.Lock()
	answered := c.answered
	c.answered = nil
	c.mu.Unlock()
	for _, s := range answered {
		if i := rowOf(rows, &s.was); i >= 0 && rows[i].Err != nil {
			c.settle()
			row := s.row.settled(s.d, &rows[i])
			c.later(c.pen.after(ctx, func(ctx context.Context) error {
				select { // of two ends of a row the last one holds, also where nobody waited for the first
				case <-s.written:
				case <-ctx.Done():
				}
				return c.cfg.Store.Settle(ctx, row)
			}))
		}
	}
}

// refusal is the error of an attempt that has no row.
func (c *journalCall) refusal(err error) *llm.Error {
	return &llm.Error{
		Class: llm.Exhausted, Owner: llm.Exhausted.Owner(), Message: "without a row in the journal no provider is called",
		Skipped: true, Err: fmt.Errorf("%w: %w", ErrJournalDown, err),
	}
}
