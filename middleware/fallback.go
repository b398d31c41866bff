package middleware

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/modelchain/llm"
)

// FallbackConfig sets [Fallback]. The zero value is the default.
type FallbackConfig struct {
	// Budget sets the bucket that each route but the first has: a move to it that was in vain takes tokens, and there is none
	// without them, so that a route which fails as well is soon spared. The zero value is that of RetryBudget.
	Budget RetryBudgetConfig
	// Reactions holds the rows that differ from DefaultReactions. nil: none.
	Reactions Reactions
}

// A Route is an alternate of [Fallback] that stands in for some failures only.
type Route struct {
	Caller llm.Caller
	// For lists the classes of failure that it stands in for. Naming Quota approves it for that. nil: every class that may go
	// elsewhere, apart from those that need approval. The first route of a Fallback is called whatever it lists.
	For []llm.Class
	// Until is when its approval ends: from then on it is passed over, unless it is the first. The zero time: never.
	Until time.Time
	// Ended says in the account why it is passed over then. "": that its approval ended, and when.
	Ended string
}

// Call forwards.
func (r Route) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	return r.Caller.Call(ctx, req)
}

// Describe is the Caller's node, beneath one that shows For if that is set.
func (r Route) Describe() llm.Node {
	if r.For == nil && r.Until.IsZero() {
		return llm.Describe(r.Caller)
	}
	return llm.Node{Name: "route", Config: routeConfig{r.For, r.Until}, Children: []llm.Node{llm.Describe(r.Caller)}}
}

type routeConfig struct {
	For   []llm.Class
	Until time.Time
}

// Fallback is the combinator "fallback": it calls the first of callers and, if that fails in a way that another deployment
// may mend, the next. Each caller keeps stages of its own, so all retries of one deployment come before the next one.
//
// Where a failure may move is what its class's Reaction says: nowhere, and the failure is returned at once; to a larger
// window only; to a [Route] that names it; anywhere. A deployment that rests, does not suit the request or has not enough
// time left is passed over at no cost. Before each move it makes sure that the call has time and attempts left.
//
// If all fail there is one error. Its message lists the deployments in order, each with its last error or why it was not
// tried; its class and facts are those of the last real failure of a provider, which is also in its chain; RetryAfter is
// the smallest remaining wait that is known. A deployment that was passed over, or says that it cannot serve this request,
// does not hide the failure of one that can. If none was tried, the class is Cooling if one rests, else TooLong if one is
// too small.
//
// Streams: once a delta was handed out, the call does not move. A request that is ReplayUnsafe moves only if the provider
// cannot have acted on it.
//
// It belongs inside deadline and telemetry, outside everything that is about one deployment. A deployment that is listed
// twice, or reached again through a nested fallback or a cycle, is tried once. It never waits and never repeats. Callers
// whose failures nobody classifies (no Deployment, no Classify stage) fail as Unknown, which does not move.
//
// It panics without callers, on a nil one, on a Route for a class that moves nowhere, and on a Budget that NewRetryBudget
// refuses.
func Fallback(cfg FallbackConfig, callers ...llm.Caller) llm.Caller {
	return newFallback("Fallback", cfg, callers)
}

// newFallback panics in the name of a combinator.
func newFallback(name string, cfg FallbackConfig, callers []llm.Caller) *fallback {
	if len(callers) == 0 {
		panic("llm/middleware: " + name + ": there are no callers; give it at least one, the preferred first")
	}
	f := &fallback{name: name, cfg: cfg, reactions: cfg.Reactions.table(), routes: make([]route, len(callers))}
	for i, c := range callers {
		f.routes[i] = f.newRoute(i, c)
	}
	for i := range f.routes {
		f.routes[i].double = slices.ContainsFunc(f.routes[:i], f.routes[i].same)
	}
	for i := range f.routes {
		if next := f.afterStall(i); next != nil {
			f.routes[i].giveWayTo(next)
		}
	}
	for i := range f.routes {
		for rt := f.routes[i].next; rt != nil; rt = rt.next {
			f.routes[i].later = append(f.routes[i].later, rt.first)
		}
	}
	return f
}

type fallback struct {
	name      string // of the combinator
	cfg       FallbackConfig
	reactions *table
	routes    []route
}

// route is one of the callers and what is known of it beforehand.
type route struct {
	llm.Caller
	node    llm.Node
	label   string
	only    *llm.Deployment // the one beneath. nil: none, or several
	first   *llm.Deployment // the first beneath. nil: none
	names   []string        // of all beneath
	window  int             // the largest beneath. 0: unknown
	budget  *RetryBudget    // of moves to it
	until   time.Time       // zero: it has no end
	ended   string          // says so
	classes []llm.Class     // that it lists. nil: none, which is all
	double  bool            // the same as an earlier one
	leaves  []leaf          // the deployments beneath
	opaque  bool            // beneath are Callers that do not say what they are made of

	// What ends its share of the time, so that next has some, by whose deadline it is. next is nil if none would follow.
	next               *route
	later              []*llm.Deployment // the first ones beneath next, the one after it, and so on
	stalled, outOfTime *llm.Error
}

func (f *fallback) newRoute(i int, c llm.Caller) route {
	rt := route{Caller: c}
	if r, ok := c.(*Route); ok && r != nil {
		c = *r
	}
	if r, ok := c.(Route); ok {
		rt.Caller, rt.classes, rt.until, rt.ended = r.Caller, slices.Clone(r.For), r.Until, r.Ended
		for _, class := range r.For {
			if f.reactions.of(class).Elsewhere == Nowhere {
				panic(fmt.Sprintf("llm/middleware: %s: caller %d is a Route for %v, which moves nowhere; leave the class out, or "+
					"override its row in %[1]sConfig.Reactions", f.name, i+1, class))
			}
		}
	}
	if isNil(rt.Caller) {
		panic(fmt.Sprintf("llm/middleware: %s: caller %d of %d is nil", f.name, i+1, len(f.routes)))
	}
	rt.node = llm.Describe(c)
	node := llm.Describe(rt.Caller)
	rt.leaves = leavesOf(node, nil)
	rt.label, rt.only, rt.opaque = fmt.Sprintf("caller %d (%s)", i+1, node.Name), only(rt.Caller), isOpaque(node)
	for d := range node.Deployments() {
		if d.Name == "" {
			panic(fmt.Sprintf("llm/middleware: %s: a Deployment of caller %d has no Name; give it one", f.name, i+1))
		}
		if rt.first == nil {
			rt.first = d
		}
		rt.window = max(rt.window, d.Window)
		rt.names = append(rt.names, d.Name)
	}
	if rt.only != nil {
		rt.label = rt.only.Name
	}
	budget := f.cfg.Budget
	if budget.Shared != nil {
		budget.Name += "/" + rt.label
	}
	rt.budget = NewRetryBudget(budget)
	return rt
}

// same reports whether o is the same Caller, or another around the same deployment.
func (rt *route) same(o route) bool {
	if rt.only != nil && o.only != nil {
		return rt.only.Name == o.only.Name
	}
	a, b := reflect.ValueOf(rt.Caller), reflect.ValueOf(o.Caller)
	return a.Comparable() && b.Comparable() && rt.Caller == o.Caller
}

// afterStall is the route that would follow if the one at i stalled. nil: none.
func (f *fallback) afterStall(i int) *route {
	t := trip{f: f}
	t.standInFor(miss{route: &f.routes[i], err: &llm.Error{Class: llm.Stalled}, called: true})
	if f.reactions.of(llm.Stalled).Elsewhere == Nowhere {
		return nil
	}
	for j := i + 1; j < len(f.routes); j++ {
		if rt := &f.routes[j]; !rt.double && t.unfit(rt, nil) == nil {
			return rt
		}
	}
	return nil
}

func (rt *route) giveWayTo(next *route) {
	rt.next = next
	rt.stalled = limit(llm.Stalled, "no answer while there was still time for %s", next.label)
	rt.outOfTime = limit(llm.Exhausted, "no answer within the caller's deadline that leaves time for %s", next.label)
	rt.outOfTime.Err = context.DeadlineExceeded
}

func (f *fallback) Describe() llm.Node {
	n := llm.Node{Name: "fallback", Config: f.cfg}
	for i := range f.routes {
		n.Children = append(n.Children, f.routes[i].node)
	}
	return n
}

func (f *fallback) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	e, err := f.enter(ctx, req)
	if err != nil {
		return nil, err
	}
	defer e.gate.Lift()
	resp, err := f.call(e.first, e.r, e.handed, 0, nil)
	if err == nil {
		return resp, nil
	}
	return e.goOn(ctx, f, err)
}

// entry is a call as it comes in.
type entry struct {
	r      *llm.Request
	handed llm.Progress
	began  int             // rows of the account that were there
	first  context.Context //nolint:containedctx // for the first route
	gate   llm.Enforced    // that finds a cycle
}

func (f *fallback) enter(ctx context.Context, req *llm.Request) (e entry, err error) {
	if req == nil {
		return e, &llm.Error{Class: llm.Invalid, Owner: llm.OwnerRequest, Message: "the request is nil"}
	}
	e.r, e.handed = req.Watch()
	e.began, e.first = len(e.r.Attempts()), ctx
	if f.isBeneathItself(ctx, e.r) {
		return e, &llm.Error{Class: llm.Exhausted, Err: errCycle}
	}
	// Who is called for the first time and knows all that is beneath cannot be in a cycle.
	if f.routes[0].opaque || e.began > 0 || e.r.Made() > 0 {
		t := &tried{by: f}
		e.gate, e.first = e.r.Enforce(t), t.mark(ctx)
	}
	return e, nil
}

// goOn moves a call whose first route failed with err.
func (e *entry) goOn(ctx context.Context, f *fallback, err error) (*llm.Response, error) {
	t := &trip{f: f, r: e.r, handed: e.handed, rows: e.began}
	return t.goOn(ctx, err)
}

// isBeneathItself reports whether f called whom f is now called by. The gates of a call are those of all its branches, some
// of which may ask f at the same time, so the context has to tell.
func (f *fallback) isBeneathItself(ctx context.Context, r *llm.Request) bool {
	const most = 100 // for who loses the context on the way
	n := 0
	for g := range r.Gates() {
		if t, ok := g.(*tried); ok && t.by == f {
			if n++; n > most || t.marks(ctx) {
				return true
			}
		}
	}
	return false
}

// call calls the route at i. t is nil for the first.
func (f *fallback) call(
	ctx context.Context, r *llm.Request, handed llm.Progress, i int, t *trip,
) (*llm.Response, error) {
	rt := &f.routes[i]
	left := attemptsLeft(r)
	if left < math.MaxInt && i+1 < len(f.routes) {
		defer f.lookAhead(r, func() int { return i + 1 }, t).Lift()
	}
	var s share
	if rt.next != nil && !r.ReplayUnsafe && left > 1 {
		s = newShare(ctx, r, handed, rt)
	}
	return orNothing(s.call(ctx, r, rt.Caller))
}

// orNothing makes a failure of a Caller that returned nothing.
func orNothing(resp *llm.Response, err error) (*llm.Response, error) {
	if resp == nil && err == nil {
		err = &llm.Error{
			Class: llm.BadOutput, Owner: llm.OwnerTransient, Commit: llm.CommitUnknown,
			Message: "the Caller returned neither answer nor error",
		}
	}
	return resp, err
}
