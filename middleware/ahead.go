package middleware

import (
	"context"
	"math"
	"time"

	"github.com/modelchain/llm"
)

// ahead is the gate by which a call whose attempts are bounded knows what comes after the Caller that it is in, so that a
// repetition does not take the last attempt from a deployment that would stand in.
type ahead struct {
	llm.OpenGate
	// options are those that come next for a call that fails as f says, and what f has to ask of them.
	options func(ctx context.Context, r *llm.Request, f *Failure) ([]RouteOption, Demands)
}

// limitAttempts adds to s and f what is known of the attempts left, if there is only one: who else would make it.
func limitAttempts(ctx context.Context, s *State, f *Failure, r *llm.Request) {
	if attemptsLeft(r) != 1 {
		return
	}
	s.Left.Attempts = 1
	for g := range r.Gates() {
		a, ok := g.(*ahead)
		if !ok {
			continue
		}
		next, would := *s, *f
		next.Routes, would.Demands = a.options(ctx, r, f)
		if _, why := next.route(&would, s.row(f.Class)); why == ReasonNone {
			s.Routes, f.Demands = next.Routes, would.Demands
			return
		}
	}
}

// lookAhead puts an ahead in force over the routes from one on. t tells what was tried and asked for so far. nil: nothing.
func (f *fallback) lookAhead(r *llm.Request, from func() int, t *trip) llm.Enforced {
	return r.Enforce(&ahead{options: func(ctx context.Context, r *llm.Request, failed *Failure) ([]RouteOption, Demands) {
		was := trip{f: f, r: r}
		if t != nil {
			was.tried, was.demands = t.tried, t.demands
		}
		demands, now := was.demands.add(was.state(), failed), time.Now()
		var out []RouteOption
		for i := from(); i < len(f.routes); i++ {
			if rt := &f.routes[i]; !was.isDone(rt) {
				out = append(out, RouteOption{
					Name: rt.label, For: rt.classes, Window: rt.window, Denied: rt.refuses(ctx, r, now),
					Unfunded: !rt.budget.covers(demands.class),
				})
			}
		}
		return out, demands
	}})
}

// refuses says why nobody beneath rt would take r now, as far as that can be told before it is called. nil: somebody may.
func (rt *route) refuses(ctx context.Context, r *llm.Request, now time.Time) (why error) {
	if e := rt.over(now); e != nil {
		return e
	}
	for _, l := range rt.leaves {
		if why = l.refuses(ctx, r, now); why == nil {
			return nil
		}
	}
	return why
}

// leaf is a deployment and the cooldowns around it.
type leaf struct {
	*llm.Deployment
	cooldowns []*cooldown
}

func (l *leaf) refuses(ctx context.Context, r *llm.Request, now time.Time) error {
	for _, c := range l.cooldowns {
		if wait := c.rests(now); wait > 0 {
			return &llm.Error{Class: llm.Cooling, Deployment: l.Name, RetryAfter: wait}
		}
	}
	if err := l.Accepts(ctx, r); err != nil {
		return err
	}
	return r.Ask(ctx, l.Deployment, now)
}

// leavesOf are the deployments in an onion that may be called for any failure.
func leavesOf(n llm.Node, around []*cooldown) (found []leaf) {
	if c, ok := n.Config.(cooldownNode); ok {
		around = append(around[:len(around):len(around)], c.stage)
	}
	if n.Deployment != nil {
		return []leaf{{n.Deployment, around}}
	}
	for _, child := range n.Children {
		if _, some := child.Config.(routeConfig); !some {
			found = append(found, leavesOf(child, around)...)
		}
	}
	return found
}

// attemptsLeft is how many attempts r's call has left, by its own bound and the budgets in force. math.MaxInt: nobody counts.
func attemptsLeft(r *llm.Request) int {
	left := math.MaxInt
	if r == nil {
		return left
	}
	if r.MaxAttempts > 0 {
		left = r.MaxAttempts - r.Made()
	}
	for g := range r.Gates() {
		if b, ok := g.(*budgetGate); ok {
			left = min(left, b.attemptsLeft())
		}
	}
	return left
}
