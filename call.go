package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// scope is what a request carries beside its data. Clones share it.
type scope struct {
	call    *call
	derived *derived // nil: nothing
}

// derived is what few requests carry. It is not written once a request has it.
type derived struct {
	counter TokenCounter
	watched *watched                    // whose request this was, before it was derived further
	do      func(context.Context) error // what a Guard's leaf runs
}

func (s scope) extras() derived {
	if s.derived == nil {
		return derived{}
	}
	return *s.derived
}

// A TokenCounter counts the input tokens of a request for one model.
type TokenCounter interface {
	// CountTokens returns the input tokens of req, never too few. It may stop as soon as they are known to exceed limit or to
	// stay within it, and then returns any number on the right side of limit. A limit of 0 or less asks for the full count.
	CountTokens(ctx context.Context, req *Request, limit int) (int, error)
}

// A Gate has a say in the attempts of a call: deadline, cooldown and budget are gates, and so is the telemetry of attempts.
// A stage puts one in force with [Request.Enforce] for as long as it runs. All methods must be safe for concurrent use.
// Embed [OpenGate] for those not needed.
//
// A gate hears of every attempt of its call, also of those that a concurrent branch makes. One that is about some
// deployments looks at d.
type Gate interface {
	// Ask reports whether an attempt at d that starts at that moment, now or later, would be let through. It changes nothing:
	// a stage asks it before it waits. d is nil where the deployment is not known.
	Ask(ctx context.Context, req *Request, d *Deployment, at time.Time) error
	// Start is told that an attempt begins, after Ask let it through, and may still refuse it. The context it returns is the
	// attempt's.
	Start(ctx context.Context, req *Request, d *Deployment, a *Attempt) (context.Context, error)
	// End is told how an attempt that Start let through ended, with the context that Start returned.
	End(ctx context.Context, req *Request, d *Deployment, a *Attempt)
}

// OpenGate lets everything through.
type OpenGate struct{}

// Ask returns nil.
func (OpenGate) Ask(context.Context, *Request, *Deployment, time.Time) error { return nil }

// Start returns ctx.
func (OpenGate) Start(ctx context.Context, _ *Request, _ *Deployment, _ *Attempt) (context.Context, error) {
	return ctx, nil
}

// End does nothing.
func (OpenGate) End(context.Context, *Request, *Deployment, *Attempt) {}

// A Classifier is a Gate that also says what class a failed attempt is of. Of several in force the newest is asked first.
type Classifier interface {
	Gate
	// Classify returns err, of an attempt at d made under ctx, with its class, as a value of its own. nil leaves the verdict
	// to the next one.
	Classify(ctx context.Context, d *Deployment, err error) *Error
}

// gateNode is one gate in force. It is not written once it is in the list, so that an attempt may go on reading the list
// that it began with.
type gateNode struct {
	gate Gate
	next *gateNode
}

// Enforced is a gate in force.
type Enforced struct {
	call *call
	node *gateNode
}

// Accounted is r if its call has an account of attempts, else a copy that begins one. A stage that uses Enforce passes on
// what it returns.
func (r *Request) Accounted() *Request {
	if r == nil {
		return nil
	}
	r, _, _ = begin(r)
	return r
}

// Enforce puts g in force for the attempts of r's call, until Lift:
//
//	defer r.Enforce(g).Lift()
//
// r must be Accounted.
func (r *Request) Enforce(g Gate) Enforced {
	if r == nil || r.scope.call == nil {
		return Enforced{}
	}
	c := r.scope.call
	var n *gateNode
	if i := c.used.Add(1) - 1; i < int32(len(c.nodes)) {
		n = &c.nodes[i]
	} else {
		n = &gateNode{}
	}
	n.gate = g
	for {
		n.next = c.gates.Load()
		if c.gates.CompareAndSwap(n.next, n) {
			return Enforced{c, n}
		}
	}
}

// Lift ends what Enforce began. Attempts under way still tell the gate how they end.
func (e Enforced) Lift() {
	if e.call == nil {
		return
	}
	for {
		all := e.call.gates.Load()
		if e.call.gates.CompareAndSwap(all, without(all, e.node)) {
			return
		}
	}
}

// without is the list from n on without gone.
func without(n, gone *gateNode) *gateNode {
	switch n {
	case nil:
		return nil
	case gone:
		return n.next
	}
	rest := without(n.next, gone)
	if rest == n.next {
		return n
	}
	return &gateNode{n.gate, rest}
}

// Gates yields the gates in force, the newest first.
func (r *Request) Gates() iter.Seq[Gate] {
	return func(yield func(Gate) bool) {
		if r == nil || r.scope.call == nil {
			return
		}
		for n := r.scope.call.gates.Load(); n != nil; n = n.next {
			if !yield(n.gate) {
				return
			}
		}
	}
}

// WithCounter derives a request that deployments without a counter of their own count by c.
func (r *Request) WithCounter(c TokenCounter) *Request {
	d := r.Clone()
	more := r.scope.extras()
	more.counter = c
	d.scope.derived = &more
	return d
}

// call is what all requests of one call share: its account, which only this package writes, and the gates in force.
type call struct {
	mu     sync.Mutex
	rows   []Attempt    // those that ended or were skipped; not written once they are in here
	waited atomic.Int64 // since the last attempt, in nanoseconds
	gates  atomic.Pointer[gateNode]
	nodes  [3]gateNode  // room for the first gates, so that they need no allocation
	used   atomic.Int32 // of nodes
	made   atomic.Int32 // attempts begun
	edits  atomic.Int32 // how often rows changed
}

// begin returns r if it belongs to a call, else a copy that begins one.
func begin(r *Request) (_ *Request, c *call, outermost bool) {
	if r.scope.call != nil {
		return r, r.scope.call, false
	}
	b := &struct {
		Request
		call
	}{Request: *r}
	b.scope.call = &b.call
	return &b.Request, &b.call, true
}

// start gives a its number, or says why the request allows no more.
func (c *call) start(limit int, a *Attempt) *Error {
	for {
		n := c.made.Load()
		if limit > 0 && int(n) >= limit {
			return c.spent(limit)
		}
		if c.made.CompareAndSwap(n, n+1) {
			a.Index = int(n + 1)
			break
		}
	}
	if c.waited.Load() != 0 {
		a.Waited = time.Duration(c.waited.Swap(0))
	}
	return nil
}

// spent says that no more than limit attempts are made, if there were so many.
func (c *call) spent(limit int) *Error {
	n := int(c.made.Load())
	if limit <= 0 || n < limit {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &Error{Class: Exhausted, Message: fmt.Sprintf("%d of %d attempts used", n, limit)}
	for i := len(c.rows) - 1; i >= 0; i-- {
		if c.rows[i].Skipped == "" && c.rows[i].Err != nil {
			e.Err = c.rows[i].Err
			break
		}
	}
	return e
}

// end enters an attempt that start gave a number to, and returns the account. row holds it alone and is not written from
// now on.
func (c *call) end(row *[1]Attempt) []Attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	if row[0].Skipped != "" {
		row[0].Index = 0
		c.made.Add(-1)
	}
	if c.rows == nil {
		c.rows = row[:]
	} else {
		c.rows = append(c.rows, row[0])
	}
	c.edits.Add(1)
	return c.rows[:len(c.rows):len(c.rows)]
}

func (c *call) skip(a Attempt) {
	c.mu.Lock()
	c.rows = append(c.rows, a)
	c.edits.Add(1)
	c.mu.Unlock()
}

func (c *call) attempts() []Attempt {
	if c.edits.Load() == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rows[:len(c.rows):len(c.rows)]
}

// finish puts the whole account on what leaves the outermost layer.
func (c *call) finish(resp *Response, err error) (*Response, error) {
	if err != nil {
		e := CopyError(err)
		e.Attempts = c.attempts()
		return nil, e
	}
	if resp.call != c {
		cp := *resp
		resp = &cp
	}
	if resp.call != c || c.edits.Load() != 1 || len(resp.Attempts) != 1 { // else it has the only one there was
		resp.Attempts = c.attempts()
	}
	resp.call = nil // the account is closed, and need not be kept with what the request holds
	return resp, nil
}

// Attempts is the account of r's call so far: the attempts that ended and the deployments skipped, in that order.
func (r *Request) Attempts() []Attempt {
	if r == nil || r.scope.call == nil {
		return nil
	}
	return r.scope.call.attempts()
}

// Made is the number of provider calls begun for r's call, those under way included.
func (r *Request) Made() int {
	if r == nil || r.scope.call == nil {
		return 0
	}
	return int(r.scope.call.made.Load())
}

// Waited notes that the call waited d for its next attempt.
func (r *Request) Waited(d time.Duration) {
	if r == nil || r.scope.call == nil {
		return
	}
	r.scope.call.waited.Add(int64(d))
}

// Skip enters into the account that a deployment was not called, and returns e, which says which one and why.
func (r *Request) Skip(e *Error) *Error {
	if r == nil || r.scope.call == nil {
		return e
	}
	r.scope.call.skip(Attempt{
		Deployment: e.Deployment, Provider: e.Provider, Model: e.Model, Start: time.Now(), Class: e.Class, Skipped: e.text(), Err: e,
	})
	return e
}

// Ask reports whether an attempt at d that starts at that moment, now or later, could be made: the caller is still there,
// the time left covers the wait, attempts are left, and every gate lets it through. A stage asks before it waits, so that
// no wait is for nothing. d may be nil.
func (r *Request) Ask(ctx context.Context, d *Deployment, at time.Time) error {
	if ctx.Err() != nil {
		return ContextError(ctx, nil)
	}
	if end, ok := ctx.Deadline(); ok && !at.Before(end) {
		if in := time.Until(at); in > 0 {
			return &Error{
				Class: Exhausted, Message: fmt.Sprintf("a wait of %v does not fit the %v left", round(in), round(time.Until(end))),
			}
		}
	}
	if r == nil || r.scope.call == nil {
		return nil
	}
	c := r.scope.call
	if err := c.spent(r.MaxAttempts); err != nil {
		return err
	}
	for n := c.gates.Load(); n != nil; n = n.next {
		if err := n.gate.Ask(ctx, r, d, at); err != nil {
			return err
		}
	}
	return nil
}

// Reject turns an answer into the failure e, because a stage finds it unusable, and says so in the account of attempts.
// The answer's usage and request id go over to e, which is returned.
func (r *Response) Reject(e *Error) *Error {
	e.Deployment, e.RequestID, e.Usage, e.Commit, e.Owner = r.Deployment, r.RequestID, r.Usage, Committed, e.Class.Owner()
	if c := r.call; c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := len(c.rows) - 1; i >= 0; i-- {
			if c.rows[i].Skipped != "" || c.rows[i].Deployment != r.Deployment || c.rows[i].RequestID != r.RequestID {
				continue
			}
			c.rows = slices.Clone(c.rows) // those handed out must not change under their reader
			c.edits.Add(1)
			a := &c.rows[i]
			a.Class, a.Err, a.Commit = e.Class, e, Committed
			e.Provider, e.Model = a.Provider, a.Model
			break
		}
	}
	return e
}

// ContextError is the error of an attempt whose ctx has ended, nil while it has not. Whose time ran out is in its class
// and message: Stalled for a limit on the attempt, Exhausted for the call's or the caller's deadline, Canceled if the
// caller left. cause, which may be nil, is what the attempt itself returned.
func ContextError(ctx context.Context, cause error) *Error {
	if ctx.Err() == nil {
		return nil
	}
	e := &Error{Commit: CommitUnknown}
	if cause == nil {
		e.Commit = CommitNone
	} else if in, ok := errors.AsType[*Error](cause); ok {
		*e = *in
		if e.Commit == CommitNone && (e.Evidence.Phase == PhaseUnknown || e.Evidence.Phase > PhaseConnect) {
			e.Commit = CommitUnknown
		}
	}
	why := context.Cause(ctx)
	if own, ok := errors.AsType[*Error](why); ok {
		e.Class, e.Message, e.Err = own.Class, own.Message, own.Err
	} else if c, ok := errors.AsType[Class](why); ok {
		e.Class, e.Message, e.Err = c, "", why
	} else if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Class, e.Message, e.Err = Exhausted, "the caller's deadline passed", why
	} else {
		e.Class, e.Message, e.Err = Canceled, "the caller left", why
	}
	e.Owner = e.Class.Owner()
	return e
}

func round(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(time.Microsecond)
}

func errNilRequest() *Error {
	return &Error{Class: Invalid, Owner: OwnerRequest, Message: "the request is nil; pass a *llm.Request with messages"}
}
