package middleware

import (
	"cmp"
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
	cost   int // what the move to the route tried last costs its budget if it was in vain

	demands Demands // of the next route
	real    bool    // a provider has really failed
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
		switch t.stays(m) {
		case ReasonNone:
		case ReasonHanded:
			return nil, t.withEarlier(delivered(err))
		case ReasonUncertain:
			return nil, t.withEarlier(uncertain(err))
		default:
			return nil, t.withEarlier(err)
		}
		t.standInFor(m)
		next := t.move(ctx)
		if next == nil {
			return nil, t.failure(ctx)
		}
		var resp *llm.Response
		if resp, err = t.f.call(next, t.r, t.handed, t.at, t); err == nil {
			return resp, nil
		}
	}
}

// settle charges the move to m's route, if the route was called in vain.
func (t *trip) settle(m miss) {
	if m.called && t.cost > 0 {
		m.route.budget.charge(t.cost, m.err)
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
		t.demandOf(&a, m.called)
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

// demandOf keeps what a, a row of the route tried last, demands of the next one by name, also where a fallback within has moved
// on since and failed with something else. called says that a provider was really called before it.
func (t *trip) demandOf(a *llm.Attempt, called bool) {
	if a.Err == nil || a.Skipped != "" && (t.real || called) {
		return
	}
	if class := behind(llm.AsError(a.Err)); t.f.reactions.of(class).Elsewhere == Approved {
		t.demands.named |= 1 << class
	}
}

// stays says why the call does not move after m, whatever other routes there are. ReasonNone: it may.
func (t *trip) stays(m miss) Reason {
	f := m.failure(t.handed.Deltas() > 0)
	if d := t.state().decide(&f); d.NoFallback != ReasonNoRoute {
		return d.NoFallback
	}
	return ReasonNone
}

// failure is m as Decide sees it.
func (m *miss) failure(handed bool) Failure {
	f := failureOf(m.err, handed)
	f.Window = m.route.window
	return f
}

// state is what Decide is asked about: routes, and nothing else.
func (t *trip) state() *State {
	return &State{rows: t.f.reactions, ReplayUnsafe: t.r != nil && t.r.ReplayUnsafe, Left: NoLimit()}
}

// standInFor makes m what the next route has to suit. Where a provider has really failed, a route that was passed over
// after it changes nothing.
func (t *trip) standInFor(m miss) {
	if t.real && !m.called {
		return
	}
	t.real = t.real || m.called
	f := m.failure(false)
	t.demands = t.demands.add(t.state(), &f)
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
		why := t.unfit(rt, nil)
		if why == nil {
			denied := over
			if denied == nil && rt.only != nil {
				denied = t.r.Ask(ctx, rt.only, time.Now())
			}
			why = t.unfit(rt, denied)
		}
		if why == nil {
			if t.cost, why = rt.afford(t); why == nil {
				t.at = i
				return ctx
			}
		}
		t.passOver(rt, why)
	}
	return nil
}

// isDone reports whether there is nothing to call rt for.
func (t *trip) isDone(rt *route) bool {
	return rt.double || rt.only != nil && slices.Contains(t.tried, rt.only.Name)
}

// unfit says why rt, which a gate denies or not, does not stand in for the failures so far. nil: it does.
func (t *trip) unfit(rt *route, denied error) *llm.Error {
	if e := rt.over(time.Now()); e != nil {
		denied = e
	}
	option := RouteOption{For: rt.classes, Window: rt.window, Denied: denied}
	why := t.state().noRoute(&option, &t.demands)
	e := &llm.Error{Class: llm.Unsupported, Message: why.String()}
	switch why {
	case ReasonNone:
		return nil
	case ReasonUnapproved:
		e.Message = fmt.Sprintf("it is not approved for %v", t.demands.named.without(classesOf(rt.classes)))
	case ReasonNotForThis:
		e.Message = fmt.Sprintf("it does not stand in for %v", t.demands.behind)
	case ReasonWindowUnknown:
		e.Class = llm.TooLong
	case ReasonNotLarger:
		e.Class, e.Message = llm.TooLong, fmt.Sprintf("its window of %d is not larger", rt.window)
	case ReasonDenied:
		return llm.AsError(denied)
	}
	return e
}

// over says that the approval of rt has ended. nil: it has not.
func (rt *route) over(now time.Time) *llm.Error {
	if rt.until.IsZero() || now.Before(rt.until) {
		return nil
	}
	why := cmp.Or(rt.ended, "its approval ended on "+rt.until.UTC().Format(time.RFC3339))
	return &llm.Error{Class: llm.Unsupported, Message: why}
}

// afford is what a move to rt costs if it is in vain, or says why its budget has not got that.
func (rt *route) afford(t *trip) (cost int, why *llm.Error) {
	if !rt.budget.covers(t.demands.class) {
		return 0, &llm.Error{Class: llm.Exhausted, Message: fmt.Sprintf("its budget for standing in is used up (%v)", rt.budget)}
	}
	return rt.budget.cost(t.demands.class), nil
}

// passOver notes that rt is not called, and why.
func (t *trip) passOver(rt *route, why *llm.Error) {
	e := *why
	e.Owner, e.Attempts = e.Class.Owner(), nil
	e.Deployment = rt.label
	if rt.only != nil {
		e.Provider, e.Model = rt.only.Provider, rt.only.Model
	}
	t.r.Skipped(&e)
	t.rows = len(t.r.Attempts())
	t.misses = append(t.misses, miss{route: rt, err: &e, cause: &e, at: time.Now()})
}
