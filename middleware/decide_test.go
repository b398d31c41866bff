package middleware_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// open is a state in which everything is open.
func open() middleware.State {
	return middleware.State{
		Left:   middleware.NoLimit(),
		Retry:  middleware.RetryOption{Left: 2, Pause: time.Second, MaxWait: time.Minute},
		Routes: []middleware.RouteOption{{Name: "backup", Window: 100}},
		Queue:  middleware.QueueOption{Open: true}, Degrade: middleware.DegradeOption{Open: true},
	}
}

// noRetry is open without repetitions.
func noRetry() middleware.State {
	s := open()
	s.Retry.Left = 0
	return s
}

// onlyLate is open without repetitions and routes.
func onlyLate() middleware.State {
	s := noRetry()
	s.Routes = nil
	return s
}

func stand(s middleware.State, change func(*middleware.RouteOption)) middleware.State {
	change(&s.Routes[0])
	return s
}

func with(s middleware.State, change func(*middleware.State)) middleware.State {
	change(&s)
	return s
}

func TestDecideHasARowForEachReason(t *testing.T) {
	type (
		F = middleware.Failure
		S = middleware.State
		D = middleware.Decision
		R = middleware.RouteOption
	)
	denied := errors.New("a gate says no")
	overloaded := F{Class: llm.Overloaded}
	seen := map[middleware.Reason]bool{middleware.ReasonNone: true}
	for _, test := range []struct {
		name string
		f    F
		s    S
		act  middleware.Action
		why  middleware.Reason         // of the action
		not  func(D) middleware.Reason // which of the others is meant
		is   middleware.Reason         // what it is
	}{
		{name: "it passes, so it is repeated", f: overloaded, s: open(), act: middleware.ActionRetry, why: middleware.ReasonRepeats},
		{name: "unknown, but the provider says to repeat", f: F{Advice: llm.AdviceRetry}, s: open(), act: middleware.ActionRetry, why: middleware.ReasonRepeats},
		{"never tried", F{Class: llm.Cooling, Behind: llm.Overloaded}, open(), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonNotTried},
		{"the provider says not to", F{Class: llm.Overloaded, Advice: llm.AdviceDontRetry}, open(), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonAdvice},
		{"stalled, so not here again", F{Class: llm.Stalled}, open(), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonNotHere},
		{"bad output twice", F{Class: llm.BadOutput}, with(open(), func(s *S) { s.Retry.Repeated = true }), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonOnce},
		{"no repetition left", overloaded, noRetry(), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonNoneLeft},
		{"the last attempt is the other one's", overloaded, with(open(), func(s *S) { s.Left.Attempts = 1 }), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonKept},
		{name: "the last attempt, and nobody else", f: overloaded, s: with(open(), func(s *S) { s.Left.Attempts, s.Routes = 1, nil }), act: middleware.ActionRetry, why: middleware.ReasonRepeats},
		{"it comes back at midnight", F{Class: llm.RateLimited, Wait: time.Second, CoolUntil: true}, open(), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonComesBack},
		{"a long wait does not veto a healthy fallback", F{Class: llm.RateLimited, Wait: time.Hour}, open(), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonLongWait},
		{"a gate denies the repetition", overloaded, with(open(), func(s *S) { s.Retry.Denied = denied }), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonDenied},
		{"the retry budget is empty", overloaded, with(open(), func(s *S) { s.Retry.Unfunded = true }), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonUnfunded},
		{"a wait that is longer than the time left", F{Class: llm.RateLimited, Wait: 20 * time.Second}, with(open(), func(s *S) { s.Left.Time = 9 * time.Second }), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonNoTime},
		{"the wait fits, what the attempt takes does not", overloaded, with(open(), func(s *S) { s.Left.Time, s.Retry.Need.Time = 3*time.Second, 2*time.Second }), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonNoTime},

		{"a class that fails everywhere", F{Class: llm.Invalid}, open(), middleware.ActionFailClosed, middleware.ReasonClosed, noThere, middleware.ReasonClosed},
		{"nobody else", overloaded, onlyLate(), middleware.ActionQueue, middleware.ReasonMayWait, noThere, middleware.ReasonNoRoute},
		{"tried before", overloaded, stand(noRetry(), func(r *R) { r.Tried = true }), middleware.ActionQueue, middleware.ReasonMayWait, noThere, middleware.ReasonTried},
		{"quota, which nobody approved", F{Class: llm.Quota}, open(), middleware.ActionQueue, middleware.ReasonMayWait, noThere, middleware.ReasonUnapproved},
		{"quota, approved", F{Class: llm.Quota}, stand(open(), func(r *R) { r.For = []llm.Class{llm.Quota} }), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonNotHere},
		{"a rest for quota", F{Class: llm.Cooling, Behind: llm.Quota}, open(), middleware.ActionQueue, middleware.ReasonMayWait, noThere, middleware.ReasonUnapproved},
		{"approved for something else", overloaded, stand(noRetry(), func(r *R) { r.For = []llm.Class{llm.Timeout} }), middleware.ActionQueue, middleware.ReasonMayWait, noThere, middleware.ReasonNotForThis},
		{"too long for an unknown window", F{Class: llm.TooLong, Window: 10}, stand(open(), func(r *R) { r.Window = 0 }), middleware.ActionDegrade, middleware.ReasonStandIn, noThere, middleware.ReasonWindowUnknown},
		{"too long for the same window", F{Class: llm.TooLong, Window: 100}, open(), middleware.ActionDegrade, middleware.ReasonStandIn, noThere, middleware.ReasonNotLarger},
		{"too long, but there is a larger window", F{Class: llm.TooLong, Window: 10}, open(), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonNotHere},
		{"the other one rests", overloaded, stand(noRetry(), func(r *R) { r.Rest = time.Second }), middleware.ActionQueue, middleware.ReasonMayWait, noThere, middleware.ReasonRests},
		{"a gate denies the other one", overloaded, stand(noRetry(), func(r *R) { r.Denied = denied }), middleware.ActionQueue, middleware.ReasonMayWait, noThere, middleware.ReasonDenied},
		{"moves are used up", overloaded, stand(noRetry(), func(r *R) { r.Unfunded = true }), middleware.ActionQueue, middleware.ReasonMayWait, noThere, middleware.ReasonUnfunded},
		{"no time for the other one", overloaded, with(noRetry(), func(s *S) { s.Left.Time, s.Routes[0].Need.Time = time.Second, time.Second }), middleware.ActionQueue, middleware.ReasonMayWait, noThere, middleware.ReasonNoTime},
		{"no attempt left", overloaded, with(open(), func(s *S) { s.Left.Attempts = 0 }), middleware.ActionDegrade, middleware.ReasonStandIn, noThere, middleware.ReasonNoAttempts},
		{"too few tokens left", overloaded, with(noRetry(), func(s *S) { s.Left.Tokens, s.Routes[0].Need.Tokens = 10, 11 }), middleware.ActionQueue, middleware.ReasonMayWait, noThere, middleware.ReasonNoTokens},
		{"too little money left", overloaded, with(noRetry(), func(s *S) { s.Left.CostUSD, s.Routes[0].Need.CostUSD = 1, 2 }), middleware.ActionQueue, middleware.ReasonMayWait, noThere, middleware.ReasonNoMoney},
		{"nobody knows the price", overloaded, with(noRetry(), func(s *S) { s.Left.CostUSD, s.Routes[0].Need.Unpriced = 1, true }), middleware.ActionQueue, middleware.ReasonMayWait, noThere, middleware.ReasonUnpriced},
		{"a free one when the money is spent", overloaded, with(noRetry(), func(s *S) { s.Left.CostUSD = 0 }), middleware.ActionFallback, middleware.ReasonElsewhere, noHere, middleware.ReasonNoneLeft},

		{"no queue", overloaded, with(onlyLate(), func(s *S) { s.Queue.Open = false }), middleware.ActionDegrade, middleware.ReasonStandIn, noLater, middleware.ReasonNotOffered},
		{"time does not mend it", F{Class: llm.NotFound}, onlyLate(), middleware.ActionDegrade, middleware.ReasonStandIn, noLater, middleware.ReasonWontMend},
		{"the caller may wait as well", F{Class: llm.RateLimited, Wait: time.Second}, with(onlyLate(), func(s *S) { s.Queue.After = time.Minute }), middleware.ActionDegrade, middleware.ReasonStandIn, noLater, middleware.ReasonSoon},
		{"work without an attempt left is not queued", overloaded, with(onlyLate(), func(s *S) { s.Left.Attempts = 0 }), middleware.ActionDegrade, middleware.ReasonStandIn, noLater, middleware.ReasonNoAttempts},
		{"nor without tokens", overloaded, with(onlyLate(), func(s *S) { s.Left.Tokens = 0 }), middleware.ActionDegrade, middleware.ReasonStandIn, noLater, middleware.ReasonNoTokens},
		{"nor without money", overloaded, with(onlyLate(), func(s *S) { s.Left.CostUSD = 0 }), middleware.ActionDegrade, middleware.ReasonStandIn, noLater, middleware.ReasonNoMoney},
		{"nor of a class that closes", F{Class: llm.Auth}, onlyLate(), middleware.ActionFailClosed, middleware.ReasonClosed, noLater, middleware.ReasonClosed},

		{"no stand-in", F{Class: llm.NotFound}, with(onlyLate(), func(s *S) { s.Degrade.Open = false }), middleware.ActionFailClosed, middleware.ReasonNothingLeft, noStand, middleware.ReasonNotOffered},
		{"a stand-in for other classes", F{Class: llm.NotFound}, with(onlyLate(), func(s *S) { s.Degrade.For = []llm.Class{llm.Quota} }), middleware.ActionFailClosed, middleware.ReasonNothingLeft, noStand, middleware.ReasonNotForThis},
		{"a stand-in for a class that closes, by name", F{Class: llm.Auth}, with(onlyLate(), func(s *S) { s.Degrade.For = []llm.Class{llm.Auth} }), middleware.ActionDegrade, middleware.ReasonStandIn, noLater, middleware.ReasonClosed},

		{"handed out", F{Class: llm.Overloaded, Handed: true}, open(), middleware.ActionFailClosed, middleware.ReasonHanded, noStand, middleware.ReasonHanded},
		{"the caller left", F{Class: llm.Canceled}, open(), middleware.ActionFailClosed, middleware.ReasonLeft, noHere, middleware.ReasonLeft},
		{"unknown outcome of a request that acts", F{Class: llm.Overloaded, Commit: llm.CommitUnknown}, with(open(), func(s *S) { s.ReplayUnsafe = true }), middleware.ActionFailClosed, middleware.ReasonUncertain, noHere, middleware.ReasonUncertain},
		{"committed work of a request that acts", F{Class: llm.BadOutput, Commit: llm.Committed}, with(open(), func(s *S) { s.ReplayUnsafe = true }), middleware.ActionFailClosed, middleware.ReasonUncertain, noStand, middleware.ReasonUncertain},
		{"a request that acts, turned away", overloaded, with(open(), func(s *S) { s.ReplayUnsafe = true }), middleware.ActionRetry, middleware.ReasonRepeats, nil, 0},
		{"a row that closes", overloaded, with(open(), func(s *S) { s.Reactions = middleware.Reactions{llm.Overloaded: {Closed: true}} }), middleware.ActionFailClosed, middleware.ReasonClosed, noStand, middleware.ReasonClosed},
		{"a rest that a row which closes began", F{Class: llm.Cooling, Behind: llm.Quota}, with(open(), func(s *S) { s.Reactions = middleware.Reactions{llm.Quota: {Cools: middleware.Itself, Closed: true}} }), middleware.ActionFailClosed, middleware.ReasonClosed, noStand, middleware.ReasonClosed},
		{"nothing at all", F{}, S{}, middleware.ActionFailClosed, middleware.ReasonNothingLeft, noThere, middleware.ReasonNowhere},
	} {
		d := middleware.Decide(test.f, test.s)
		if d.Action != test.act || d.Why != test.why || test.not != nil && test.not(d) != test.is {
			t.Errorf("%s: %v", test.name, d)
		}
		for _, r := range []middleware.Reason{d.Why, d.NoRetry, d.NoFallback, d.NoQueue, d.NoDegrade} {
			seen[r] = true
		}
	}
	for r := middleware.ReasonNone; r.String() != "no reason"; r++ {
		if !seen[r] {
			t.Errorf("no row leads to reason %d: %v", r, r)
		}
	}
}

func noHere(d middleware.Decision) middleware.Reason  { return d.NoRetry }
func noThere(d middleware.Decision) middleware.Reason { return d.NoFallback }
func noLater(d middleware.Decision) middleware.Reason { return d.NoQueue }
func noStand(d middleware.Decision) middleware.Reason { return d.NoDegrade }

func TestADecisionSaysWhyAndWhyNot(t *testing.T) {
	s := noRetry()
	s.Routes[0].Rest = time.Second
	got := middleware.Decide(middleware.Failure{Class: llm.Overloaded}, s).String()
	want := "queue: time may mend it, and the work may wait (no retry: no repetition is left; no fallback: it rests)"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestDemandsOfEarlierFailuresStand(t *testing.T) {
	s := noRetry()
	quota := middleware.Failure{Class: llm.Quota}
	later := middleware.Failure{Class: llm.Overloaded}
	later.Demands = later.Demands.And(quota, nil).And(later, nil)
	if d := middleware.Decide(later, s); d.NoFallback != middleware.ReasonUnapproved {
		t.Errorf("after quota: %v", d)
	}
	s.Routes[0].For = []llm.Class{llm.Quota, llm.Overloaded}
	if d := middleware.Decide(later, s); d.Action != middleware.ActionFallback {
		t.Errorf("after quota, approved: %v", d)
	}
	long := middleware.Failure{Class: llm.TooLong, Window: 100}
	later.Demands = middleware.Demands{}.And(long, nil).And(middleware.Failure{Class: llm.Overloaded}, nil)
	s.Routes[0].For = nil
	if d := middleware.Decide(later, s); d.NoFallback != middleware.ReasonNotLarger {
		t.Errorf("after too long: %v", d)
	}
}

// drawFailure and drawState draw from everything that can be said.
func drawFailure(r *rand.Rand) middleware.Failure {
	return middleware.Failure{
		Class: llm.Class(r.IntN(llm.NumClasses)), Behind: llm.Class(r.IntN(llm.NumClasses)), Commit: llm.CommitState(r.IntN(3)),
		Handed: r.IntN(8) == 0, Wait: time.Duration(r.IntN(3)) * 10 * time.Second, CoolUntil: r.IntN(8) == 0,
		Advice: llm.Advice(r.IntN(3)), Window: r.IntN(3) * 100,
	}
}

func drawClasses(r *rand.Rand) (list []llm.Class) {
	if r.IntN(2) == 0 {
		return nil
	}
	for range r.IntN(4) {
		list = append(list, llm.Class(r.IntN(llm.NumClasses)))
	}
	return list
}

func drawNeed(r *rand.Rand) middleware.Need {
	return middleware.Need{
		Time: time.Duration(r.IntN(3)) * 5 * time.Second, Tokens: r.IntN(3) * 10, CostUSD: float64(r.IntN(3)), Unpriced: r.IntN(8) == 0,
	}
}

func drawState(r *rand.Rand) middleware.State {
	s := middleware.State{
		ReplayUnsafe: r.IntN(4) == 0, Left: middleware.NoLimit(),
		Retry: middleware.RetryOption{
			Left: r.IntN(3), Repeated: r.IntN(2) == 0, Pause: time.Duration(r.IntN(3)) * 10 * time.Second,
			MaxWait: time.Duration(r.IntN(2)) * 15 * time.Second, Need: drawNeed(r), Unfunded: r.IntN(8) == 0,
		},
		Queue:   middleware.QueueOption{Open: r.IntN(2) == 0, After: time.Duration(r.IntN(2)) * 15 * time.Second},
		Degrade: middleware.DegradeOption{Open: r.IntN(2) == 0, For: drawClasses(r)},
	}
	if r.IntN(2) == 0 {
		s.Left = middleware.Room{
			Time: time.Duration(r.IntN(4)) * 8 * time.Second, Attempts: r.IntN(3), Tokens: r.IntN(3) * 10, CostUSD: float64(r.IntN(3)),
		}
	}
	for range r.IntN(4) {
		s.Routes = append(s.Routes, middleware.RouteOption{
			For: drawClasses(r), Window: r.IntN(4) * 100, Tried: r.IntN(6) == 0, Rest: time.Duration(r.IntN(6)/5) * time.Second,
			Need: drawNeed(r), Unfunded: r.IntN(6) == 0,
		})
	}
	return s
}

// order is how much an action still does for the answer. A retry and a fallback both make one more call.
func order(a middleware.Action) int {
	if a == middleware.ActionFallback {
		a = middleware.ActionRetry
	}
	return slices.Index([]middleware.Action{
		middleware.ActionFailClosed, middleware.ActionDegrade, middleware.ActionQueue, middleware.ActionRetry,
	}, a)
}

func TestDecideIsTotalAndPure(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	actions := map[middleware.Action]int{}
	for range 200_000 {
		f, s := drawFailure(r), drawState(r)
		d := middleware.Decide(f, s)
		actions[d.Action]++
		if order(d.Action) < 0 || d.Why == middleware.ReasonNone || strings.Contains(d.String(), "no reason") {
			t.Fatalf("%+v in %+v: %v", f, s, d)
		}
		if d.Action == middleware.ActionFallback && d.Route >= len(s.Routes) {
			t.Fatalf("%+v in %+v: route %d of %d", f, s, d.Route, len(s.Routes))
		}
		if again := middleware.Decide(f, s); again != d {
			t.Fatalf("%+v in %+v: %v, and then %v", f, s, d, again)
		}
		if f.Handed && d.Action != middleware.ActionFailClosed || s.ReplayUnsafe && f.Commit != llm.CommitNone && d.Action != middleware.ActionFailClosed {
			t.Fatalf("%+v in %+v is not closed: %v", f, s, d)
		}
	}
	if len(actions) != 5 {
		t.Errorf("not every action was drawn: %v", actions)
	}
}

func TestLessOfABudgetNeverAllowsMore(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	lessened := 0
	for range 200_000 {
		f, s := drawFailure(r), drawState(r)
		less := s
		less.Routes = slices.Clone(s.Routes)
		switch r.IntN(8) {
		case 0:
			less.Left.Time -= time.Duration(r.IntN(20)) * time.Second
		case 1:
			less.Left.Attempts = max(less.Left.Attempts-1-r.IntN(3), 0)
		case 2:
			less.Left.Tokens -= r.IntN(20)
		case 3:
			less.Left.CostUSD = min(less.Left.CostUSD, 2) - float64(r.IntN(3))
		case 4:
			less.Retry.Left--
		case 5:
			less.Retry.Unfunded = true
		case 6:
			for i := range less.Routes {
				less.Routes[i].Unfunded = true
			}
		case 7:
			for i := range less.Routes {
				less.Routes[i].Need.Time += time.Second
			}
			less.Retry.Need.Time += time.Second
		}
		before, after := middleware.Decide(f, s), middleware.Decide(f, less)
		if order(after.Action) > order(before.Action) {
			t.Fatalf("%+v\nwith  %+v: %v\nwith less %+v: %v", f, s, before, less, after)
		}
		if order(after.Action) < order(before.Action) {
			lessened++
		}
	}
	if lessened < 1000 {
		t.Errorf("less made a difference in %d cases", lessened)
	}
}

func BenchmarkDecide(b *testing.B) {
	s := open()
	s.Routes = []middleware.RouteOption{{For: []llm.Class{llm.Timeout}}, {Rest: 1}, {For: []llm.Class{llm.Overloaded, llm.Unavailable}}}
	s.Retry.Left = 0
	closed := with(onlyLate(), func(s *middleware.State) { s.Queue.Open, s.Degrade.Open = false, false })
	for name, s := range map[string]middleware.State{"retry": open(), "the third route": s, "fail closed": closed} {
		b.Run(name, func(b *testing.B) {
			f := middleware.Failure{Class: llm.Overloaded}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n += int(middleware.Decide(f, s).Action)
			}
			if n < 0 {
				b.Fatal(fmt.Sprint(n))
			}
		})
	}
}
