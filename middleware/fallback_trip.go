package middleware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelchain/llm"
)

var (
	errCycle = errors.New("the fallback is reached again through itself")
	errTried = errors.New("already tried by this call")
)

// tried is the gate that keeps a call, once it has moved, from a deployment that it has tried. It has a say only beneath
// the route that it was put in force for: in contexts that it marked.
type tried struct {
	llm.OpenGate
	by    *fallback
	names []string
}

// mark is the one value that a context carries for this package. A gate is heard in the whole call, and only what is handed
// down from caller to callee tells one branch of it from another.
func (t *tried) mark(ctx context.Context) context.Context { return context.WithValue(ctx, t, t) }

func (t *tried) marks(ctx context.Context) bool { return ctx.Value(t) != nil }

func (t *tried) Ask(ctx context.Context, _ *llm.Request, d *llm.Deployment, _ time.Time) error {
	if d != nil && slices.Contains(t.names, d.Name) && t.marks(ctx) {
		return &llm.Error{Class: llm.Exhausted, Deployment: d.Name, Provider: d.Provider, Model: d.Model, Err: errTried}
	}
	return nil
}

// trip is a call on its way from route to route, after its first failure.
type trip struct {
	f      *fallback
	r      *llm.Request
	handed llm.Progress
	gate   llm.Enforced // over what was tried
	at     int          // the route tried last
	rows   int          // of the account, those already looked at
	misses []miss
	tried  []string
	cost   int // what the move to the route tried last took from its budget

	// What the next route has to stand in for.
	class     llm.Class
	behind    llm.Class   // what class is about: the failure that began a rest
	real      bool        // a provider has really failed
	approvals []llm.Class // that it must name
	larger    bool        // than window
	window    int
}

// miss is a route without an answer.
type miss struct {
	route  *route
	err    *llm.Error
	cause  error // err as it was returned
	at     time.Time
	asked  bool // the route was called, and not passed over
	called bool // a provider was really called
}

// goOn moves the call, whose first route failed with err, until it is answered or cannot move.
func (t *trip) goOn(ctx context.Context, err error) (*llm.Response, error) {
	defer func() { t.gate.Lift() }()
	for {
		m := t.missed(err)
		t.settle(m)
		switch {
		case t.handed.Deltas() > 0:
			return nil, t.withEarlier(delivered(err))
		case m.err.Class == llm.Canceled || t.f.reactions.of(m.err.Class).Elsewhere == Nowhere:
			return nil, t.withEarlier(err)
		case t.r.ReplayUnsafe && m.err.Commit != llm.CommitNone:
			return nil, t.withEarlier(uncertain(err))
		}
		t.standInFor(m)
		next := t.move(ctx)
		if next == nil {
			return nil, t.failure(ctx)
		}
		var resp *llm.Response
		rt := &t.f.routes[t.at]
		if resp, err = t.f.call(next, t.r, t.handed, rt); err == nil {
			rt.budget.deposit(t.cost)
			return resp, nil
		}
	}
}

// settle gives back what the move to m's route cost, unless the route was called in vain.
func (t *trip) settle(m miss) {
	if m.called {
		m.route.budget.settle(t.cost, m.err)
	} else {
		m.route.budget.deposit(t.cost)
	}
	t.cost = 0
}

// missed notes that the route tried last failed with err.
func (t *trip) missed(err error) miss {
	rt := &t.f.routes[t.at]
	m := miss{route: rt, err: llm.AsError(err), cause: err, at: time.Now(), asked: true}
	rows := t.r.Attempts()
	account := false
	for _, a := range rows[min(t.rows, len(rows)):] {
		if !rt.opaque && !slices.Contains(rt.names, a.Deployment) {
			continue // of another branch of the call
		}
		account = true
		if a.Skipped == "" {
			m.called = true
			if !slices.Contains(t.tried, a.Deployment) {
				t.tried = append(t.tried, a.Deployment)
			}
		}
	}
	t.rows = len(rows)
	if !account { // a Caller that keeps none
		m.called = m.err.Class != llm.Cooling && m.err.Class != llm.Exhausted && !errors.Is(err, errCycle)
	}
	t.misses = append(t.misses, m)
	return m
}

// standInFor makes m what the next route has to suit. Where a provider has really failed, a route that was passed over
// after it changes nothing.
func (t *trip) standInFor(m miss) {
	if t.real && !m.called {
		return
	}
	t.real = t.real || m.called
	t.class, t.behind = m.err.Class, behind(m.err)
	demands := t.class
	if t.f.reactions.of(t.behind).Elsewhere == Approved { // a rest does not lift what its cause demands
		demands = t.behind
	}
	switch t.f.reactions.of(demands).Elsewhere {
	case Approved:
		t.approvals = append(t.approvals, demands)
	case Larger:
		t.larger, t.window = true, m.route.window
	}
}

// behind is the class of the failure that began a rest, and of any other error its own.
func behind(e *llm.Error) llm.Class {
	for e.Class == llm.Cooling {
		cause, ok := errors.AsType[*llm.Error](e.Err)
		if !ok {
			break
		}
		e = cause
	}
	return e.Class
}

// move finds the next route and makes the context for it. nil: there is none.
func (t *trip) move(ctx context.Context) context.Context {
	t.gate.Lift()
	gate := &tried{by: t.f, names: slices.Clone(t.tried)}
	t.gate = t.r.Enforce(gate)
	ctx = gate.mark(ctx)
	over := t.r.Ask(ctx, nil, time.Now())
	for i := t.at + 1; i < len(t.f.routes); i++ {
		rt := &t.f.routes[i]
		if t.isDone(rt) {
			continue
		}
		why := t.unfit(rt)
		switch {
		case why != nil:
		case over != nil:
			why = llm.AsError(over)
		case rt.only != nil:
			if denied := t.r.Ask(ctx, rt.only, time.Now()); denied != nil {
				why = llm.AsError(denied)
			}
		}
		if why == nil {
			cost, ok := rt.budget.withdraw(t.class)
			if ok {
				t.at, t.cost = i, cost
				return ctx
			}
			why = &llm.Error{Class: llm.Exhausted, Message: fmt.Sprintf("its budget for standing in is used up (%v)", rt.budget)}
		}
		t.passOver(rt, why)
	}
	return nil
}

// isDone reports whether there is nothing to call rt for.
func (t *trip) isDone(rt *route) bool {
	return rt.double || rt.only != nil && slices.Contains(t.tried, rt.only.Name)
}

// unfit says why rt does not stand in for the failures so far. nil: it does.
func (t *trip) unfit(rt *route) *llm.Error {
	for _, c := range t.approvals {
		if !rt.forSet[c] {
			return &llm.Error{Class: llm.Unsupported, Message: fmt.Sprintf("it is not approved for %v", c)}
		}
	}
	switch {
	case !rt.forAll && !rt.forSet[t.class] && !rt.forSet[t.behind]:
		return &llm.Error{Class: llm.Unsupported, Message: fmt.Sprintf("it does not stand in for %v", t.behind)}
	case t.larger && rt.window == 0:
		return &llm.Error{Class: llm.TooLong, Message: "its window is unknown, a larger one is needed"}
	case t.larger && rt.window <= t.window:
		return &llm.Error{Class: llm.TooLong, Message: fmt.Sprintf("its window of %d is not larger", rt.window)}
	}
	return nil
}

// passOver notes that rt is not called, and why.
func (t *trip) passOver(rt *route, why *llm.Error) {
	e := *why
	e.Owner, e.Attempts = e.Class.Owner(), nil
	e.Deployment = rt.label
	if rt.only != nil {
		e.Provider, e.Model = rt.only.Provider, rt.only.Model
	}
	t.r.Skip(&e)
	t.rows = len(t.r.Attempts())
	t.misses = append(t.misses, miss{route: rt, err: &e, cause: &e, at: time.Now()})
}
