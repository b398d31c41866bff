package llm

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"
)

// A Gate has a say in the attempts of a call: deadline, cooldown and budget are gates, and so is the telemetry of attempts.
// A stage puts one in force with [Request.Enforce] for as long as it runs. All methods must be safe for concurrent use.
// Embed [OpenGate] for those not needed.
//
// A gate hears of every attempt of its call, also of those that a concurrent branch makes, unless the branch keeps its gates
// to itself (see [Request.Fork]). One that is about some deployments looks at d.
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

// gateList is the gates in force for a call, or for a branch of it.
type gateList struct {
	head  atomic.Pointer[gateNode]
	nodes [3]gateNode  // room for the first gates, so that they need no allocation
	used  atomic.Int32 // of nodes
}

// gates are those that attempts of s pass. s has a call.
func (s scope) gates() *gateList {
	if s.derived != nil && s.derived.branch != nil {
		return s.derived.branch
	}
	return &s.call.gates
}

// A Fork is a point in a call from which branches begin. It costs nothing.
type Fork struct{ gates *gateNode }

// Fork notes which gates are in force for r. Whoever is about to make several attempts side by side takes it before the first
// of them begins, and derives with [Request.Branch] what the others are called with.
func (r *Request) Fork() Fork {
	if r == nil || r.scope.call == nil {
		return Fork{}
	}
	return Fork{r.scope.gates().head.Load()}
}

// Branch derives a request for attempts that run beside others of its call, which began at f. They share the account and pass
// the gates that were in force then. Gates put in force for the branch hear of it alone, and it passes none of the other
// branches': one that was let through as the probe of a deployment is not taken for another.
//
// r must be Accounted.
func (r *Request) Branch(f Fork) *Request {
	d := r.Clone()
	if d == nil || d.scope.call == nil {
		return d
	}
	b := &struct {
		derived
		gateList
	}{derived: r.scope.extras()}
	b.head.Store(f.gates)
	b.branch = &b.gateList
	d.scope.derived = &b.derived
	return d
}

// Enforced is a gate in force.
type Enforced struct {
	in   *gateList
	node *gateNode
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
	in := r.scope.gates()
	var n *gateNode
	if i := in.used.Add(1) - 1; i < int32(len(in.nodes)) {
		n = &in.nodes[i]
	} else {
		n = &gateNode{}
	}
	n.gate = g
	for {
		n.next = in.head.Load()
		if in.head.CompareAndSwap(n.next, n) {
			return Enforced{in, n}
		}
	}
}

// Lift ends what Enforce began. Attempts under way still tell the gate how they end.
func (e Enforced) Lift() {
	if e.in == nil {
		return
	}
	for {
		all := e.in.head.Load()
		if e.in.head.CompareAndSwap(all, without(all, e.node)) {
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
		for n := r.scope.gates().head.Load(); n != nil; n = n.next {
			if !yield(n.gate) {
				return
			}
		}
	}
}

// Ask reports whether an attempt at d that starts at that moment, now or later, could be made: the caller is still there,
// the time left covers the wait, attempts are left, and every gate lets it through. A stage asks before it waits, so that
// no wait is for nothing. d may be nil.
func (r *Request) Ask(ctx context.Context, d *Deployment, at time.Time) error {
	if errAt(ctx, at) != nil {
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
	if err := r.scope.call.spent(r.MaxAttempts); err != nil {
		return err
	}
	for n := r.scope.gates().head.Load(); n != nil; n = n.next {
		if err := n.gate.Ask(ctx, r, d, at); err != nil {
			return err
		}
	}
	return nil
}

// errAt is ctx.Err, for which a context of package middleware needs no look at the clock if its time is not over at a moment
// that is not past.
func errAt(ctx context.Context, at time.Time) error {
	c, ok := ctx.(interface {
		ErrBefore(at time.Time) (known bool, err error)
	})
	if ok {
		if known, err := c.ErrBefore(at); known {
			return err
		}
	}
	return ctx.Err()
}
