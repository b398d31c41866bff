package middleware

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/modelchain/llm"
)

// TokenRouterConfig sets [TokenRouter]. Normal is required.
type TokenRouterConfig struct {
	// Normal takes the requests that fit its first deployment, Long those that do not. A nil Long means that there is
	// nothing larger: then requests are only checked.
	Normal, Long llm.Caller
	// Counter counts for every deployment that has no Counter of its own; package tokens makes one for the first model of
	// Normal. nil: all deployments with a window have their own. If it can Learn, as those of package tokens can, it is told
	// what providers counted.
	Counter llm.TokenCounter
	// Output is how many tokens are kept free for the answer of a request without MaxTokens. 0: none.
	Output int
	// Margin is the share of the first window that is kept free while Long has a larger one, since counts are estimates: a
	// request that fits, but only just, prefers the larger. 0: 0.05. Negative: none.
	Margin float64
	// Reactions holds the rows that differ from DefaultReactions. nil: none.
	Reactions Reactions
}

// TokenRouter is the combinator "token router": it counts before the call and sends what does not fit the first
// deployment of Normal, the tokens asked for the answer included, straight to Long. More tiers are routers in Long.
//
// What fits neither the first deployment nor Long goes to Normal if another deployment there holds it; what fits nowhere
// fails as TooLong before any call, with the numbers. A window that is not known holds everything. A counter that fails
// leaves the verdict to the provider.
//
// If a provider of Normal still says that a request is too long, or what else the Reactions move to a larger window, Long
// is tried if its window is larger or not known; not for a request that is ReplayUnsafe, unless the provider turned it
// away, and not without attempts and time for it.
//
// Streams: the call moves only while nothing was handed out.
//
// It belongs inside deadline and telemetry and outside fallback. It passes its counter on to the deployments beneath
// where one might not hold the request, and does nothing else with calls: a request whose bytes fit costs the adding up
// of its lengths. It never cuts a request to size.
//
// It panics without Normal, without a counter for a deployment that has a window, and on a negative Output or a Margin of
// 1 or more.
func TokenRouter(cfg TokenRouterConfig) llm.Caller {
	switch {
	case isNil(cfg.Normal):
		panic("llm/middleware: TokenRouter: Normal is nil; set it to the Caller for requests that fit, such as a Fallback")
	case cfg.Output < 0:
		panic(fmt.Sprintf("llm/middleware: TokenRouter: Output is %d; use 0 to keep nothing free", cfg.Output))
	case !(cfg.Margin < 1):
		panic(fmt.Sprintf("llm/middleware: TokenRouter: Margin is %v; use a share of the window below 1", cfg.Margin))
	}
	t := &tokenRouter{reactions: cfg.Reactions.table(), normal: newBranch(cfg.Normal)}
	if !isNil(cfg.Long) {
		t.long = newBranch(cfg.Long)
	}
	t.longFor = []llm.Class{} // none, which nil is not
	for c := range llm.Class(llm.NumClasses) {
		if t.reactions.of(c).Elsewhere == Larger {
			t.longFor = append(t.longFor, c)
		}
	}
	if cfg.Margin == 0 {
		cfg.Margin = 0.05
	}
	t.cfg = cfg
	for _, d := range slices.Concat(t.normal.leaves, t.long.leaves) {
		if d.Window > 0 && d.Counter == nil && cfg.Counter == nil {
			panic(fmt.Sprintf("llm/middleware: TokenRouter: nothing counts for the window of deployment %q; set Counter, for example to "+
				"tokens.For(%q)", d.Name, d.Model))
		}
	}
	t.first, t.smallest = &llm.Deployment{}, math.MaxInt
	if len(t.normal.leaves) > 0 {
		t.first = t.normal.leaves[0]
	}
	for _, d := range t.normal.leaves {
		if d.Window > 0 && d.Counter == nil {
			t.smallest = min(t.smallest, d.Window)
		}
	}
	if t.long.larger(t.first) {
		t.margin = int(max(cfg.Margin, 0) * float64(t.first.Window))
	}
	return t
}

type tokenRouter struct {
	cfg          TokenRouterConfig
	reactions    *table
	longFor      []llm.Class // that a larger window mends
	normal, long branch
	first        *llm.Deployment // without a window if Normal has no deployments that show
	margin       int             // kept free in the first window
	smallest     int             // window in Normal that Counter counts for
}

// branch is Normal or Long and the deployments beneath.
type branch struct {
	llm.Caller
	leaves []*llm.Deployment
}

func newBranch(c llm.Caller) branch {
	return branch{c, slices.Collect(llm.Describe(c).Deployments())}
}

// larger reports whether b may hold what d does not.
func (b *branch) larger(d *llm.Deployment) bool {
	if b.Caller == nil {
		return false
	}
	return len(b.leaves) == 0 || slices.ContainsFunc(b.leaves, func(l *llm.Deployment) bool {
		return l.Name != d.Name && (l.Window == 0 || l.Window > d.Window)
	})
}

func (t *tokenRouter) Describe() llm.Node {
	cfg := t.cfg
	cfg.Normal, cfg.Long = nil, nil
	n := llm.Node{Name: "token router", Config: cfg, Children: []llm.Node{llm.Describe(t.normal.Caller)}}
	if t.long.Caller != nil {
		n.Children = append(n.Children, llm.Describe(t.long.Caller))
	}
	return n
}

func (t *tokenRouter) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil {
		return nil, &llm.Error{Class: llm.Invalid, Owner: llm.OwnerRequest, Message: "the request is nil"}
	}
	fits, over := t.surelyFits(ctx, req)
	if fits {
		return t.callNormal(ctx, req)
	}
	m := newMeasure(t, req, over)
	where := m.route(ctx)
	if where == toNormal {
		return t.callNormal(ctx, m.request())
	}
	r := m.request().Accounted()
	if where == fitsNowhere {
		return nil, m.tooLong(r)
	}
	r.Skipped(m.unfit(t.first, t.margin))
	return t.call(ctx, r, &t.long)
}

// notLonger says why a call that failed in Normal does not move to Long. ReasonNone: it does.
func (t *tokenRouter) notLonger(err error, handed llm.Progress, r *llm.Request) Reason {
	f := failureOf(llm.AsError(err), handed.Deltas() > 0)
	s := State{rows: t.reactions, ReplayUnsafe: r.ReplayUnsafe, Left: NoLimit(), Routes: t.longOption(err, nil)}
	return s.decide(&f).NoFallback
}

// longOption is Long as Decide sees it, after err. What is too small is denied.
func (t *tokenRouter) longOption(err, denied error) []RouteOption {
	if e := llm.AsError(err); denied == nil && !t.long.larger(t.refused(e)) {
		denied = &llm.Error{Class: llm.TooLong, Message: "its window is not larger"}
	}
	return []RouteOption{{For: t.longFor, Window: math.MaxInt, Denied: denied}}
}

// lookAhead tells those in Normal what Long would take over.
func (t *tokenRouter) lookAhead(r *llm.Request) llm.Enforced {
	if attemptsLeft(r) == math.MaxInt {
		return llm.Enforced{}
	}
	return r.Enforce(&ahead{options: func(ctx context.Context, r *llm.Request, f *Failure) ([]RouteOption, Demands) {
		s := State{rows: t.reactions}
		return t.longOption(f.Class, r.Ask(ctx, only(t.long.Caller), time.Now())), Demands{}.add(&s, f)
	}})
}

// call calls b and tells the counter of the deployment that answered what the provider counted.
func (t *tokenRouter) call(ctx context.Context, req *llm.Request, b *branch) (*llm.Response, error) {
	resp, err := b.Call(ctx, req)
	if err == nil && resp != nil {
		t.learn(ctx, req, resp, b)
	}
	return resp, err
}

// output is how many tokens are kept free for the answer.
func (t *tokenRouter) output(req *llm.Request) int {
	if req.MaxTokens > 0 {
		return req.MaxTokens
	}
	return t.cfg.Output
}

// surelyFits reports whether req fits the first window with the margin, and every other window beneath Normal that is not
// counted by a counter of its own. Nothing beneath needs the counter then. Else over is what Counter counted more than,
// as far as it was asked.
func (t *tokenRouter) surelyFits(ctx context.Context, req *llm.Request) (fits bool, over int) {
	room := t.smallest
	if room < math.MaxInt {
		room -= req.MaxTokens
	}
	if t.first.Window > 0 {
		first := t.first.Window - t.margin - t.output(req)
		switch c := t.first.Counter; {
		case first <= 0:
			return false, 0
		case c == nil:
			room = min(room, first)
		default:
			if n, err := c.CountTokens(ctx, req, first); err != nil || n > first {
				return false, 0
			}
		}
	}
	if room <= 0 || room == math.MaxInt {
		return room > 0, 0
	}
	n, err := t.cfg.Counter.CountTokens(ctx, req, room)
	switch {
	case err != nil:
		return false, 0
	case n > room:
		return false, room
	}
	return true, 0
}

// callNormal calls Normal and, if that turns out too small, Long.
func (t *tokenRouter) callNormal(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if t.long.Caller == nil {
		return t.call(ctx, req, &t.normal)
	}
	r, handed := req.Watch()
	look := t.lookAhead(r)
	resp, err := t.call(ctx, r, &t.normal)
	look.Lift()
	if err == nil {
		return resp, nil
	}
	switch t.notLonger(err, handed, r) {
	case ReasonNone:
	case ReasonHanded:
		return nil, delivered(err)
	case ReasonUncertain:
		return nil, uncertain(err)
	default:
		return nil, err
	}
	if denied := r.Ask(ctx, only(t.long.Caller), time.Now()); denied != nil {
		r.Skipped(t.notMoved(denied))
		return nil, err
	}
	return t.call(ctx, r, &t.long)
}

// refused is the deployment of Normal that said too long; where the error does not name it, the largest that is known.
func (t *tokenRouter) refused(e *llm.Error) *llm.Deployment {
	d := t.first
	for _, l := range t.normal.leaves {
		if l.Name == e.Deployment {
			return l
		}
		if l.Window > d.Window {
			d = l
		}
	}
	return d
}

// notMoved says why Long was not called after Normal.
func (t *tokenRouter) notMoved(denied error) *llm.Error {
	e := *llm.AsError(denied)
	e.Message = "too long for the deployments before; not called instead: " + strings.TrimPrefix(denied.Error(), "llm: ")
	e.Err, e.Attempts = denied, nil
	if len(t.long.leaves) > 0 {
		d := t.long.leaves[0]
		e.Deployment, e.Provider, e.Model = d.Name, d.Provider, d.Model
	}
	return &e
}
