package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
)

// scope is what a request carries beside its data: the call it belongs to, and what outer stages put in force for the
// attempts beneath them. Clones share it.
type scope struct {
	call       *call
	gates      *gateNode
	classifier Classifier
	counter    TokenCounter
}

// A Classifier turns any error of an attempt made under ctx into an Error with its class. It never returns nil for a
// non-nil err and never writes to err.
type Classifier func(ctx context.Context, err error) *Error

// A TokenCounter counts the input tokens of a request for one model.
type TokenCounter interface {
	// CountTokens returns the input tokens of req, never too few. It may stop as soon as they are known to exceed limit or to
	// stay within it, and then returns any number on the right side of limit. A limit of 0 or less asks for the full count.
	CountTokens(ctx context.Context, req *Request, limit int) (int, error)
}

// A Gate is put in force by an outer stage for every attempt beneath it: deadline, cooldown and budget are gates, and so
// is the telemetry of attempts. All methods must be safe for concurrent use. Embed [OpenGate] for those not needed.
type Gate interface {
	// Ask reports whether an attempt at d that starts in a while from now would be let through. It changes nothing: a stage
	// asks it before it waits. d is nil where the deployment is not known.
	Ask(ctx context.Context, req *Request, d *Deployment, in time.Duration) error
	// Start is told that an attempt begins, after Ask(…, 0) let it through, and may still refuse it. The context it returns
	// is the attempt's.
	Start(ctx context.Context, req *Request, d *Deployment, a *Attempt) (context.Context, error)
	// End is told how an attempt that Start let through ended, with the context that Start returned.
	End(ctx context.Context, req *Request, d *Deployment, a *Attempt)
}

// OpenGate lets everything through.
type OpenGate struct{}

// Ask returns nil.
func (OpenGate) Ask(context.Context, *Request, *Deployment, time.Duration) error { return nil }

// Start returns ctx.
func (OpenGate) Start(ctx context.Context, _ *Request, _ *Deployment, _ *Attempt) (context.Context, error) {
	return ctx, nil
}

// End does nothing.
func (OpenGate) End(context.Context, *Request, *Deployment, *Attempt) {}

type gateNode struct {
	gate Gate
	next *gateNode
}

// WithGate derives a request whose attempts pass g too.
func (r *Request) WithGate(g Gate) *Request {
	c := &struct {
		Request
		gateNode
	}{*r, gateNode{g, r.scope.gates}}
	c.scope.gates = &c.gateNode
	return &c.Request
}

// Gates yields the gates in force, the newest first.
func (r *Request) Gates() iter.Seq[Gate] {
	return func(yield func(Gate) bool) {
		if r == nil {
			return
		}
		for n := r.scope.gates; n != nil; n = n.next {
			if !yield(n.gate) {
				return
			}
		}
	}
}

// WithClassifier derives a request whose failed attempts are classified by c.
func (r *Request) WithClassifier(c Classifier) *Request {
	d := r.Clone()
	d.scope.classifier = c
	return d
}

// WithCounter derives a request that deployments without a counter of their own count by c.
func (r *Request) WithCounter(c TokenCounter) *Request {
	d := r.Clone()
	d.scope.counter = c
	return d
}

// call is the account of one call. Only this package writes it.
type call struct {
	mu     sync.Mutex
	rows   []Attempt
	made   int // attempts begun
	open   int // of those, not ended yet
	waited time.Duration
	do     func(context.Context) error // what a Guard's leaf runs
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

// start opens the row of an attempt, or says why the request allows no more.
func (c *call) start(limit int, a *Attempt) (row int, err *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.spent(limit); err != nil {
		return 0, err
	}
	c.made++
	c.open++
	a.Index, a.Waited, c.waited = c.made, c.waited, 0
	if c.rows == nil {
		c.rows = make([]Attempt, 0, 1)
	}
	c.rows = append(c.rows, *a)
	return len(c.rows) - 1, nil
}

func (c *call) spent(limit int) *Error {
	if limit <= 0 || c.made < limit {
		return nil
	}
	e := &Error{Class: Exhausted, Message: fmt.Sprintf("%d of %d attempts used", c.made, limit)}
	for i := len(c.rows) - 1; i >= 0; i-- {
		if c.rows[i].Skipped == "" && c.rows[i].Err != nil {
			e.Err = c.rows[i].Err
			break
		}
	}
	return e
}

func (c *call) end(row int, a *Attempt) {
	c.mu.Lock()
	if a.Skipped != "" {
		a.Index = 0
		c.made--
	}
	c.rows[row] = *a
	c.open--
	c.mu.Unlock()
}

func (c *call) skip(a Attempt) {
	c.mu.Lock()
	c.rows = append(c.rows, a)
	c.mu.Unlock()
}

// attempts is the account so far, which the reader may keep: a row is written in place only while its attempt runs.
func (c *call) attempts() []Attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open > 0 {
		return slices.Clone(c.rows)
	}
	return c.rows[:len(c.rows):len(c.rows)]
}

// finish puts the whole account on what leaves the outermost layer.
func (c *call) finish(resp *Response, err error) (*Response, error) {
	if err != nil {
		e := *AsError(err)
		if _, direct := err.(*Error); !direct { //nolint:errorlint // only the outermost value may be replaced
			e = Error{Class: e.Class, Owner: e.Class.Owner(), Err: err, RetryAfter: e.RetryAfter, Partial: e.Partial}
		}
		e.Attempts = c.attempts()
		return nil, &e
	}
	if resp.call != c {
		cp := *resp
		resp = &cp
	}
	resp.Attempts = c.attempts()
	return resp, nil
}

// Attempts is the account of r's call so far.
func (r *Request) Attempts() []Attempt {
	if r == nil || r.scope.call == nil {
		return nil
	}
	return r.scope.call.attempts()
}

// Waited notes that the call waited d for its next attempt.
func (r *Request) Waited(d time.Duration) {
	if r == nil || r.scope.call == nil {
		return
	}
	c := r.scope.call
	c.mu.Lock()
	c.waited += d
	c.mu.Unlock()
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

// Ask reports whether an attempt at d that starts in a while from now could be made: the caller is still there, the time
// left covers the wait, attempts are left, and every gate lets it through. A stage asks before it waits, so that no wait
// is for nothing. d may be nil.
func (r *Request) Ask(ctx context.Context, d *Deployment, in time.Duration) error {
	if ctx.Err() != nil {
		return ContextError(ctx, nil)
	}
	if end, ok := ctx.Deadline(); ok && in > 0 {
		if left := time.Until(end); left <= in {
			return &Error{Class: Exhausted, Message: fmt.Sprintf("a wait of %v does not fit the %v left", round(in), round(left))}
		}
	}
	if r == nil {
		return nil
	}
	if c := r.scope.call; c != nil && r.MaxAttempts > 0 {
		c.mu.Lock()
		err := c.spent(r.MaxAttempts)
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
	for n := r.scope.gates; n != nil; n = n.next {
		if err := n.gate.Ask(ctx, r, d, in); err != nil {
			return err
		}
	}
	return nil
}

// Reject turns an answer into the failure e, because a stage finds it unusable, and says so in the account of attempts.
// The answer's usage and request id go over to e, which is returned.
func (r *Response) Reject(e *Error) *Error {
	e.Deployment, e.Usage, e.Commit, e.Owner = r.Deployment, r.Usage, Committed, e.Class.Owner()
	if c := r.call; c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := len(c.rows) - 1; i >= 0; i-- {
			if c.rows[i].Skipped != "" || c.rows[i].Deployment != r.Deployment || c.rows[i].RequestID != r.RequestID {
				continue
			}
			c.rows = slices.Clone(c.rows) // those handed out must not change under their reader
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
