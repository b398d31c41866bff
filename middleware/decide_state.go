package middleware

import (
	"math"
	"math/bits"
	"time"

	"github.com/modelchain/llm"
)

// A Failure is a call that failed, as [Decide] sees it. [FailureOf] makes it of an error.
type Failure struct {
	Class llm.Class
	// Behind is the class of the failure that began a rest, where Class is Cooling. Else it is Class.
	Behind llm.Class
	Commit llm.CommitState
	// Handed says that a part of the answer was handed out.
	Handed bool
	// Skipped says that no provider was called: a limit of ours refused the attempt.
	Skipped bool
	// Wait is what was asked for. 0: not said. CoolUntil says that it leads to a date on which the deployment comes back.
	Wait      time.Duration
	CoolUntil bool
	Advice    llm.Advice
	// Window is that of the deployment that failed, in tokens. 0: unknown.
	Window int
	// Demands is what this failure and earlier ones of the call ask of who stands in. The zero value: what this one asks.
	Demands Demands
}

// FailureOf is err, which Decide is asked about, of a call of which a part was handed out or not.
func FailureOf(err error, handed bool) Failure {
	e := llm.AsError(err)
	return failureOf(e, handed || e.Partial != nil)
}

// failureOf is FailureOf for a stage that has counted what was handed out: what e calls Partial may have been held back.
func failureOf(e *llm.Error, handed bool) Failure {
	return Failure{
		Class: e.Class, Behind: behind(e), Commit: e.Commit, Handed: handed, Skipped: e.Skipped,
		Wait: e.RetryAfter, CoolUntil: e.CoolUntil, Advice: e.Advice,
	}
}

// Demands is what the failures of a call ask of a route that stands in. The zero value asks for nothing.
type Demands struct {
	class, behind llm.Class // what it stands in for
	named         classSet  // what it has to name
	larger        bool      // than window
	window        int
}

// And is d and what f asks for, by the rows of r that differ from DefaultReactions.
func (d Demands) And(f Failure, r Reactions) Demands {
	return d.add(&State{Reactions: r}, &f)
}

func (d Demands) add(s *State, f *Failure) Demands {
	d.class, d.behind = f.Class, f.Behind
	if f.Class != llm.Cooling {
		d.behind = f.Class
	}
	demanding := d.class
	if s.row(d.behind).Elsewhere == Approved { // a rest does not lift what its cause demands
		demanding = d.behind
	}
	switch s.row(demanding).Elsewhere {
	case Approved:
		d.named |= 1 << demanding
	case Larger:
		d.larger, d.window = true, f.Window
	}
	return d
}

// classSet is a set of classes.
type classSet uint32

func classesOf(list []llm.Class) (set classSet) {
	for _, c := range list {
		set |= 1 << c
	}
	return set
}

func (s classSet) has(c llm.Class) bool { return s&(1<<c) != 0 }

// without is the first class of s that is not in other.
func (s classSet) without(other classSet) llm.Class {
	return llm.Class(bits.TrailingZeros32(uint32(s &^ other)))
}

// A Room is what is left of a budget. The zero value is nothing.
type Room struct {
	Time             time.Duration
	Attempts, Tokens int
	CostUSD          float64
}

// NoLimit is the Room of who has no budget.
func NoLimit() Room {
	return Room{math.MaxInt64, math.MaxInt, math.MaxInt, math.Inf(1)}
}

// lacks says what of r does not suffice for n after a wait. ReasonNone: all of it does.
func (r *Room) lacks(n *Need, wait time.Duration) Reason {
	switch {
	case r.Time <= 0 || wait >= r.Time-max(n.Time, 0):
		return ReasonNoTime
	case r.Attempts <= 0:
		return ReasonNoAttempts
	case r.Tokens < n.Tokens:
		return ReasonNoTokens
	case n.Unpriced && !math.IsInf(r.CostUSD, 1):
		return ReasonUnpriced
	case n.CostUSD > 0 && !(n.CostUSD <= r.CostUSD):
		return ReasonNoMoney
	}
	return ReasonNone
}

// A Need is what an attempt is estimated to take. The zero value: nothing is known, or it is nothing.
type Need struct {
	Time    time.Duration
	Tokens  int
	CostUSD float64
	// Unpriced says that nobody knows the price, which does not fit a ceiling of money.
	Unpriced bool
}

// A RetryOption is a retry of the call that failed. The zero value: nobody repeats.
type RetryOption struct {
	// Left is how many repetitions are left.
	Left int
	// Repeated says that a failure of the same class was repeated before.
	Repeated bool
	// Pause is the wait before it, at least Failure.Wait, and MaxWait the longest that may be asked for. 0: no bound.
	Pause, MaxWait time.Duration
	Need           Need
	// Denied is why a gate would not let it through. nil: it would.
	Denied error
	// Unfunded says that the retry budget is used up.
	Unfunded bool
}

// A RouteOption is a deployment, or several behind one Caller, that may stand in.
type RouteOption struct {
	Name string
	// For lists the classes that it is approved to stand in for. nil: all but those that need approval.
	For []llm.Class
	// Window is its largest window, in tokens. 0: unknown.
	Window int
	// Tried says that this call has tried it.
	Tried bool
	// Rest is how long it rests yet. 0: it is healthy.
	Rest time.Duration
	Need Need
	// Denied is why a gate would not let it through, or why it does not suit the request or the workflow. nil: nothing.
	Denied error
	// Unfunded says that its budget for standing in is used up.
	Unfunded bool
}

// A QueueOption is a queue for work that may wait. The zero value: there is none.
type QueueOption struct {
	Open bool
	// After is the wait from which on work is queued. A shorter one that is known is left to the caller.
	After time.Duration
}

// A DegradeOption is a stand-in for the answer. The zero value: there is none.
type DegradeOption struct {
	Open bool
	// For lists the classes that it is given for. nil: all that are not Closed.
	For []llm.Class
}

// State is what is left and what is open when a call has failed. The zero value leaves nothing open, which fails closed.
type State struct {
	// Reactions holds the rows that differ from DefaultReactions. nil: none.
	Reactions Reactions
	// ReplayUnsafe says that the request may act on the world.
	ReplayUnsafe bool
	Left         Room
	Retry        RetryOption
	Routes       []RouteOption // in order
	Queue        QueueOption
	Degrade      DegradeOption

	rows *table // in the place of Reactions, where a stage asks
}

func (s *State) row(c llm.Class) Reaction {
	if s.rows != nil {
		return s.rows.of(c)
	}
	if row, ok := s.Reactions[c]; ok {
		return row
	}
	return defaults.of(c)
}
