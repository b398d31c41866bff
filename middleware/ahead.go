package middleware

import (
	"math"
	"time"

	"github.com/modelchain/llm"
)

// ahead is the gate by which a call whose attempts are bounded knows what comes after the route that it is in, so that a
// repetition does not take the last attempt from a deployment that would stand in.
type ahead struct {
	llm.OpenGate
	f    *fallback
	from int
	trip *trip // nil: in the first route
}

// limitAttempts adds to s and f what is known of the attempts left, if there is only one: who else would make it.
func limitAttempts(s *State, f *Failure, r *llm.Request) {
	if attemptsLeft(r) != 1 {
		return
	}
	s.Left.Attempts = 1
	now := time.Now()
	for g := range r.Gates() {
		a, ok := g.(*ahead)
		if !ok {
			continue
		}
		t := trip{f: a.f}
		if a.trip != nil {
			t.tried, f.Demands = a.trip.tried, a.trip.demands.add(s, f)
		}
		for i := a.from; i < len(a.f.routes); i++ {
			if rt := &a.f.routes[i]; !t.isDone(rt) {
				s.Routes = append(s.Routes, RouteOption{Name: rt.label, For: rt.classes, Window: rt.window, Rest: rt.rests(now)})
			}
		}
		return
	}
}

// rests is how long rt rests yet, as far as that can be told before it is called.
func (rt *route) rests(now time.Time) (longest time.Duration) {
	for _, c := range rt.cooldowns {
		longest = max(longest, c.rests(now))
	}
	return longest
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
