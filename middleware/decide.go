package middleware

import (
	"slices"
	"time"

	"github.com/modelchain/llm"
)

// An Action is what a failed call leads to: exactly one of five.
type Action uint8

// The actions, in the order in which they are considered, but for the first, which is what is left.
const (
	ActionFailClosed Action = iota // the caller gets the error
	ActionRetry                    // the same deployment again, after Decision.Wait
	ActionFallback                 // another deployment, at once: State.Routes[Decision.Route]
	ActionQueue                    // a queue takes the work, and the caller gets a receipt
	ActionDegrade                  // a stand-in is given, marked as one
)

var actionNames = [...]string{"fail closed", "retry", "fallback", "queue", "degrade"}

// String is the action in words: "fail closed".
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return "no action"
}

// A Decision is what a failure leads to, and why.
type Decision struct {
	Action Action
	// Route is the index in State.Routes for ActionFallback.
	Route int
	// Wait is the pause before ActionRetry, and the wait that is known, if any, for ActionQueue.
	Wait time.Duration
	// Why is the reason for Action. The others say why what comes before it was not chosen; of several routes, the last.
	Why, NoRetry, NoFallback, NoQueue, NoDegrade Reason
}

// Decide says what a failure leads to. It is a pure function, and total: each failure in each state has one action. The
// stages ask it, each about what is its own (Retry about a repetition, Fallback and TokenRouter about routes, Queue, Degrade);
// asked about all of them it says what the whole onion does.
//
// In order: nothing follows on an answer that was handed out in part, on a caller who left, or on an outcome that is not
// known of a request that may act on the world. Else the call is repeated where its class allows it and the wait fits;
// else the first route that is healthy, approved and fits takes over, however long the first deployment asks to wait, and
// gets the last attempt that is left, which is no repetition; else work that time may mend is queued; else a stand-in is
// given; else the call fails closed. Less of a budget never allows more.
func Decide(f Failure, s State) Decision { return s.decide(&f) }

func (s *State) decide(f *Failure) Decision {
	switch {
	case f.Handed:
		return closed(ReasonHanded)
	case f.Class == llm.Canceled:
		return closed(ReasonLeft)
	}
	row := s.row(f.Class)
	if f.Class == llm.Cooling && s.row(f.Behind).Closed { // a rest does not lift what its cause demands
		row.Closed, row.Elsewhere = true, Nowhere
	}
	d := Decision{}
	if d.NoRetry = s.noRetry(f, row); d.NoRetry == ReasonNone {
		d.Action, d.Why, d.Wait = ActionRetry, ReasonRepeats, s.Retry.Pause
		return d
	}
	if d.Route, d.NoFallback = s.route(f, row); d.NoFallback == ReasonNone {
		d.Action, d.Why = ActionFallback, ReasonElsewhere
		return d
	}
	if d.NoQueue = s.noQueue(f, row); d.NoQueue == ReasonNone {
		d.Action, d.Why, d.Wait = ActionQueue, ReasonMayWait, f.Wait
		return d
	}
	if d.NoDegrade = s.noDegrade(f, row); d.NoDegrade == ReasonNone {
		d.Action, d.Why = ActionDegrade, ReasonStandIn
		return d
	}
	switch {
	case row.Closed:
		d.Why = ReasonClosed
	case s.uncertain(f):
		d.Why = ReasonUncertain
	default:
		d.Why = ReasonNothingLeft
	}
	return d
}

// closed is the decision that one reason makes, whatever is open.
func closed(why Reason) Decision {
	return Decision{Why: why, NoRetry: why, NoFallback: why, NoQueue: why, NoDegrade: why}
}

func (s *State) uncertain(f *Failure) bool { return s.ReplayUnsafe && f.Commit != llm.CommitNone }

// noRetry says why the call is not repeated. ReasonNone: it is.
func (s *State) noRetry(f *Failure, row Reaction) Reason {
	r := &s.Retry
	switch {
	case f.Skipped || f.Class == llm.Cooling || f.Class == llm.Exhausted || f.Class == llm.Queued:
		return ReasonNotTried
	case f.Advice == llm.AdviceDontRetry:
		return ReasonAdvice
	case row.Again == Never && (f.Class != llm.Unknown || f.Advice != llm.AdviceRetry):
		return ReasonNotHere
	case row.Again == Once && r.Repeated:
		return ReasonOnce
	case s.uncertain(f):
		return ReasonUncertain
	case r.Left <= 0:
		return ReasonNoneLeft
	case f.CoolUntil && f.Wait > 0:
		return ReasonComesBack
	case r.MaxWait > 0 && f.Wait > r.MaxWait:
		return ReasonLongWait
	}
	if why := s.Left.lacks(&r.Need, max(r.Pause, f.Wait)); why != ReasonNone {
		return why
	}
	if s.Left.Attempts == 1 {
		if _, why := s.route(f, row); why == ReasonNone {
			return ReasonKept
		}
	}
	return allowed(r.Denied, r.Unfunded)
}

// allowed says which of the limits that Room does not know forbids an attempt. ReasonNone: none does.
func allowed(denied error, unfunded bool) Reason {
	switch {
	case denied != nil:
		return ReasonDenied
	case unfunded:
		return ReasonUnfunded
	}
	return ReasonNone
}

// route is the first route that takes over, or why none does.
func (s *State) route(f *Failure, row Reaction) (int, Reason) {
	switch {
	case row.Elsewhere == Nowhere && row.Closed:
		return 0, ReasonClosed
	case row.Elsewhere == Nowhere:
		return 0, ReasonNowhere
	case s.uncertain(f):
		return 0, ReasonUncertain
	}
	demands := f.Demands
	if demands == (Demands{}) {
		demands = demands.add(s, f)
	}
	why := ReasonNoRoute
	for i := range s.Routes {
		if why = s.noRoute(&s.Routes[i], &demands); why == ReasonNone {
			return i, why
		}
	}
	return 0, why
}

// noRoute says why a route does not take over. ReasonNone: it does.
func (s *State) noRoute(r *RouteOption, d *Demands) Reason {
	named := classesOf(r.For)
	switch {
	case r.Tried:
		return ReasonTried
	case d.named&^named != 0:
		return ReasonUnapproved
	case r.For != nil && !named.has(d.class) && !named.has(d.behind):
		return ReasonNotForThis
	case d.larger && r.Window == 0:
		return ReasonWindowUnknown
	case d.larger && r.Window <= d.window:
		return ReasonNotLarger
	case r.Rest > 0:
		return ReasonRests
	}
	if why := s.Left.lacks(&r.Need, 0); why != ReasonNone {
		return why
	}
	return allowed(r.Denied, r.Unfunded)
}

// noQueue says why no queue takes the work. ReasonNone: it does. What it needs later is a part of the budget, and no time now.
func (s *State) noQueue(f *Failure, row Reaction) Reason {
	switch {
	case !s.Queue.Open:
		return ReasonNotOffered
	case row.Closed:
		return ReasonClosed
	case !row.Waits:
		return ReasonWontMend
	case s.uncertain(f):
		return ReasonUncertain
	case f.Wait > 0 && f.Wait < s.Queue.After:
		return ReasonSoon
	case s.Left.Attempts <= 0:
		return ReasonNoAttempts
	case s.Left.Tokens <= 0:
		return ReasonNoTokens
	case !(s.Left.CostUSD > 0):
		return ReasonNoMoney
	}
	return ReasonNone
}

// noDegrade says why no stand-in is given. ReasonNone: one is.
func (s *State) noDegrade(f *Failure, row Reaction) Reason {
	switch {
	case !s.Degrade.Open:
		return ReasonNotOffered
	case row.Closed && (s.Degrade.For == nil || f.Class == llm.Cooling):
		return ReasonClosed
	case s.Degrade.For != nil && !slices.Contains(s.Degrade.For, f.Class):
		return ReasonNotForThis
	case s.uncertain(f):
		return ReasonUncertain
	}
	return ReasonNone
}
