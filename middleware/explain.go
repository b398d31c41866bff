package middleware

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelchain/llm"
)

// Explain prints what Decide says of every class in a state: one line a class, with the actions in the order in which a call
// that goes on failing that way meets them, and the reason of the last. Beneath come the cases that close a call whatever its
// class. s is what a call begins with: its room, the repetitions of each deployment, the routes, the queue and the stand-in.
func Explain(s State) string {
	rows := [][]string{{"failure", "actions, in order", "reason of the last"}}
	add := func(name string, f Failure) {
		actions, last := course(f, s)
		rows = append(rows, []string{name, strings.Join(actions, " → "), last})
	}
	for c := range llm.Class(llm.NumClasses) {
		f := Failure{Class: c, Behind: c, Commit: usualCommit(c)}
		if c == llm.Cooling {
			f.Behind = llm.Overloaded
		}
		add(c.String(), f)
	}
	add("quota, resting", Failure{Class: llm.Cooling, Behind: llm.Quota})
	s.ReplayUnsafe = true
	add("any, outcome unknown of a request that acts", Failure{Class: llm.Unavailable, Commit: llm.CommitUnknown})
	add("any, after a part of the answer", Failure{Class: llm.Interrupted, Handed: true})
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%-*s  %-*s  %s\n", width(rows, 0), r[0], width(rows, 1), r[1], r[2])
	}
	return b.String()
}

// usualCommit is how far the provider got with most failures of a class, which counts where a request may act on the world.
func usualCommit(c llm.Class) llm.CommitState {
	switch c {
	case llm.Unknown, llm.Timeout, llm.Stalled:
		return llm.CommitUnknown
	case llm.Interrupted, llm.BadOutput:
		return llm.Committed
	}
	return llm.CommitNone
}

// width is that of a column.
func width(rows [][]string, column int) (most int) {
	for _, r := range rows {
		most = max(most, utf8.RuneCountInString(r[column]))
	}
	return most
}

// course is what a call meets that goes on failing as f says, and why the last of it.
func course(f Failure, s State) (actions []string, why string) {
	s.Routes = slices.Clone(s.Routes)
	repeats, retries := 0, s.Retry.Left
	flush := func() {
		if repeats > 0 {
			actions = append(actions, fmt.Sprintf("retry ×%d", repeats))
		}
		repeats = 0
	}
	for {
		d := Decide(f, s)
		switch d.Action {
		case ActionRetry:
			repeats++
			s.Retry.Left--
			s.Retry.Repeated = true
			s.Left = s.Left.after(s.Retry.Need, s.Retry.Pause)
			continue
		case ActionFallback:
			flush()
			r := &s.Routes[d.Route]
			name := r.Name
			if name == "" {
				name = fmt.Sprintf("route %d", d.Route+1)
			}
			actions = append(actions, "fallback to "+name)
			s.Left = s.Left.after(r.Need, 0)
			f.Demands = f.Demands.add(&s, &f)
			r.Tried = true
			s.Retry.Left, s.Retry.Repeated = retries, false
			continue
		}
		flush()
		return append(actions, d.Action.String()), d.Why.String()
	}
}

// after is what is left once an attempt was made after a pause.
func (r Room) after(n Need, pause time.Duration) Room {
	if r.Time != math.MaxInt64 {
		r.Time -= pause + n.Time
	}
	if r.Attempts != math.MaxInt {
		r.Attempts--
	}
	if r.Tokens != math.MaxInt {
		r.Tokens -= n.Tokens
	}
	r.CostUSD -= n.CostUSD
	return r
}
