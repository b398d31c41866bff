package llm

import (
	"context"
	"errors"
	"fmt"
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
	needs   Capabilities                // that a deployment has to declare
	branch  *gateList                   // the gates of a branch. nil: the call's
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

// Accounted is r if its call has an account of attempts, else a copy that begins one. A stage that uses Enforce passes on
// what it returns.
func (r *Request) Accounted() *Request {
	if r == nil {
		return nil
	}
	r, _, _ = begin(r)
	return r
}

// WithCounter derives a request that deployments without a counter of their own count by c.
func (r *Request) WithCounter(c TokenCounter) *Request {
	d := r.Clone()
	if d == nil {
		return nil
	}
	more := r.scope.extras()
	more.counter = c
	d.scope.derived = &more
	return d
}

// Require derives a request that is served only by deployments which declare all of c, also where it cannot be told from the
// request. One that declares nothing is refused too.
func (r *Request) Require(c Capabilities) *Request {
	d := r.Clone()
	if d == nil {
		return nil
	}
	more := r.scope.extras()
	more.needs |= c
	d.scope.derived = &more
	return d
}

// Required is what r requires by [Request.Require].
func (r *Request) Required() Capabilities {
	if r == nil {
		return 0
	}
	return r.scope.extras().needs
}

// call is what all requests of one call share: its account, which only this package writes, and the gates in force.
type call struct {
	// The rows of those that ended or were skipped: the first, and from the second on all. What they point to is not written.
	first atomic.Pointer[[1]Attempt]
	more  atomic.Pointer[[]Attempt] // written under mu
	mu    sync.Mutex

	waited atomic.Int64 // since the last attempt, in nanoseconds
	gates  gateList
	closed atomic.Bool  // the outermost layer has returned the rows to the caller, whose they are now
	made   atomic.Int32 // attempts begun
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
	e := &Error{Class: Exhausted, Message: fmt.Sprintf("%d of %d attempts used", n, limit)}
	for _, a := range slices.Backward(c.attempts()) {
		if a.Skipped == "" && a.Err != nil {
			e.Err = a.Err
			break
		}
	}
	return e
}

// end enters an attempt that start gave a number to, and returns the account. row is not written from now on.
func (c *call) end(row *[1]Attempt) []Attempt {
	if row[0].Skipped != "" {
		row[0].Index = 0
		c.made.Add(-1)
	}
	return c.enter(row)
}

func (c *call) enter(row *[1]Attempt) []Attempt {
	if c.closed.Load() { // a branch that nobody waited for
		return row[:]
	}
	if c.first.CompareAndSwap(nil, row) {
		return row[:]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return row[:]
	}
	var rows []Attempt
	if more := c.more.Load(); more != nil {
		rows = append(*more, row[0]) // beyond what was handed out
	} else {
		rows = slices.Concat(c.first.Load()[:], row[:])
	}
	c.more.Store(&rows)
	return slices.Clip(rows)
}

func (c *call) attempts() []Attempt {
	if c.closed.Load() {
		return nil
	}
	if more := c.more.Load(); more != nil {
		return slices.Clip(*more)
	}
	if first := c.first.Load(); first != nil {
		return first[:]
	}
	return nil
}

// close gives the rows away. A branch may be under way that nobody waits for, and read them or add to them.
func (c *call) close() []Attempt {
	if c.made.Load() == 1 && c.more.Load() == nil {
		rows := c.attempts()
		c.closed.Store(true)
		return rows
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	rows := slices.Clone(c.attempts())
	c.closed.Store(true)
	return rows
}

// finish puts the whole account on what leaves the outermost layer.
func (c *call) finish(resp *Response, err error) (*Response, error) {
	if err != nil {
		e := CopyError(err)
		e.Attempts = c.close()
		return nil, e
	}
	if resp.call != c {
		cp := *resp
		resp = &cp
	}
	resp.Attempts = c.close()
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

// Skipped enters into the account that a deployment was not called, and returns e, which says which one and why.
func (r *Request) Skipped(e *Error) *Error {
	e.Skipped = true
	if r == nil || r.scope.call == nil {
		return e
	}
	r.scope.call.enter(&[1]Attempt{{
		Deployment: e.Deployment, Provider: e.Provider, Model: e.Model, Start: time.Now(), Class: e.Class, Skipped: e.text(), Err: e,
	}})
	return e
}

// Reject turns an answer into the failure e, because a stage finds it unusable, and says so in the account of attempts.
// The answer's usage and request id go over to e, which is returned.
func (r *Response) Reject(e *Error) *Error {
	e.Deployment, e.RequestID, e.Usage, e.Commit, e.Owner = r.Deployment, r.RequestID, r.Usage, Committed, e.Class.Owner()
	if c := r.call; c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		rows := slices.Clone(c.attempts()) // those handed out must not change under their reader
		for i := len(rows) - 1; i >= 0; i-- {
			a := &rows[i]
			if a.Skipped != "" || a.Deployment != r.Deployment || a.RequestID != r.RequestID {
				continue
			}
			a.Class, a.Err, a.Commit = e.Class, e, Committed
			e.Provider, e.Model = a.Provider, a.Model
			c.more.Store(&rows)
			break
		}
	}
	return e
}

// ContextError is the error of an attempt whose ctx has ended, nil while it has not. Whose time ran out is in its class
// and message: that of the [Limit] that ended it, Exhausted for the caller's deadline, Canceled if the caller left. cause,
// which may be nil, is what the attempt itself returned.
func ContextError(ctx context.Context, cause error) *Error {
	if ctx.Err() == nil {
		return nil
	}
	why := context.Cause(ctx)
	e := &Error{Commit: CommitUnknown}
	own, _ := errors.AsType[*Error](why)
	if cause == nil {
		e.Commit = CommitNone
	} else if in, _ := errors.AsType[*Error](cause); in != nil && in != own { // own tells of ctx alone
		*e = *in
		e.limit = false
		if e.Commit == CommitNone && (e.Evidence.Phase == PhaseUnknown || e.Evidence.Phase > PhaseConnect) {
			e.Commit = CommitUnknown
		}
	}
	if limit := LimitOf(ctx); limit != nil {
		e.Class, e.Message, e.Err = limit.Class, limit.Message, limit.Err
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
