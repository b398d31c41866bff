package llmtest

import (
	"cmp"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/modelchain/llm/llmtest/internal/wire"
)

// route is a Route and where it is in its script. The Provider's routing guards it.
type route struct {
	*Route
	n      int // requests so far
	turn   int // the turn that is next
	did    int // how often it was done already
	opened time.Time
	used   struct{ requests, tokens int }
}

func newRoute(r *Route) *route { return &route{Route: r} }

// meets reports whether a request meets the conditions of the route.
func (r *route) meets(asked Exchange) bool {
	x := &asked
	if prefix, ok := strings.CutSuffix(r.Model, "*"); ok {
		if !strings.HasPrefix(x.Model, prefix) {
			return false
		}
	} else if r.Model != "" && r.Model != x.Model {
		return false
	}
	if r.API != "" && r.API != x.API {
		return false
	}
	for name, value := range r.Header {
		if x.Header.Get(name) != value {
			return false
		}
	}
	return r.Match == nil || r.Match(asked)
}

// limits are what a quota has left.
type limits struct {
	requests, tokens *wire.Bucket
	per              time.Duration // 0: there is no quota
}

// choose finds what is done with a request.
func (p *Provider) choose(x *exchange) (Turn, limits) {
	p.routing.Lock()
	defer p.routing.Unlock()
	var asked Exchange
	x.note(func() { asked = x.row.clone() })
	for _, r := range p.routes {
		if !r.meets(asked) {
			continue
		}
		r.n++
		turn := r.next(x, asked)
		if turn.Wait == (Latency{}) {
			turn.Wait = r.Wait
		}
		turn, left := r.count(x, turn)
		x.note(func() { x.row.Route, x.row.Did = cmp.Or(r.Name, r.Model), cmp.Or(turn.Name, string(turn.act())) })
		return turn, left
	}
	panic("llmtest: no route is for all") // the last one is
}

func (r *route) next(x *exchange, asked Exchange) Turn {
	for _, o := range r.Outages {
		if asked.Since >= o.From && (o.To == 0 || asked.Since < o.To) {
			if o.Turn.Do == "" && o.Turn.OneOf == nil {
				o.Turn.Do = DoUnavailable
			}
			return drawn(x.rand, o.Turn)
		}
	}
	if r.Func != nil {
		return drawn(x.rand, r.Func(asked, r.n))
	}
	if len(r.Turns) == 0 {
		return Turn{}
	}
	t := r.Turns[r.turn]
	if r.did++; r.did >= max(t.Times, 1) && r.turn < len(r.Turns)-1 {
		r.turn, r.did = r.turn+1, 0
	}
	return drawn(x.rand, t)
}

// drawn is t, or what is drawn of those that it is one of.
func drawn(r *rand.Rand, t Turn) Turn {
	for len(t.OneOf) > 0 {
		total := 0.0
		for i := range t.OneOf {
			total += cmp.Or(t.OneOf[i].Weight, 1)
		}
		at, all := r.Float64()*total, t.OneOf
		t = all[len(all)-1]
		for i := range all {
			if at -= cmp.Or(all[i].Weight, 1); at < 0 {
				t = all[i]
				break
			}
		}
	}
	return t
}

// count takes a request from the quota. What is beyond it is turned away until the window ends.
func (r *route) count(x *exchange, t Turn) (Turn, limits) {
	q := r.Quota
	if q.Requests == 0 && q.Tokens == 0 {
		return t, limits{}
	}
	per := cmp.Or(q.Per, time.Minute)
	if r.opened.IsZero() || x.row.At.Sub(r.opened) >= per {
		r.opened, r.used.requests, r.used.tokens = x.row.At, 0, 0
	}
	reset := per - x.row.At.Sub(r.opened)
	needs := x.answer(&t).Usage
	tokens := needs.Input + needs.Output
	noRequests := q.Requests > 0 && r.used.requests >= q.Requests
	noTokens := q.Tokens > 0 && r.used.tokens+tokens > q.Tokens
	if noRequests || noTokens {
		t = Turn{Do: cmp.Or(q.Then, DoRateLimited), RetryAfter: reset, Wait: r.Wait}
		x.spent = !noRequests
	} else {
		r.used.requests++
		r.used.tokens += tokens
	}
	left := limits{per: per}
	if q.Requests > 0 {
		left.requests = &wire.Bucket{Max: q.Requests, Left: q.Requests - r.used.requests, Reset: reset}
	}
	if q.Tokens > 0 {
		left.tokens = &wire.Bucket{Max: q.Tokens, Left: q.Tokens - r.used.tokens, Reset: reset}
		if noTokens && !noRequests { // what is left is too little
			left.tokens.Left = 0
		}
	}
	return t, left
}
