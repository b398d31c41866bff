package middleware

import (
	"math"
	"slices"

	"github.com/modelchain/llm"
)

// Replay says of each failed provider call in an account what Decide made of it, in order: why the same deployment was asked
// again, why another one, why none. s is what the call began with, as for Explain; its routes are told by their names. It is for
// people who read an account: the stages knew more, such as what a retry budget had left, which is taken here from what the
// account says was not done.
func Replay(s State, rows []llm.Attempt) (out []Decision) {
	s.Routes = slices.Clone(s.Routes)
	retries := s.Retry.Left
	var demands Demands // of the deployments before
	for i := range rows {
		a := &rows[i]
		if a.Skipped != "" {
			continue
		}
		s.Left = s.Left.after(Need{Tokens: a.Usage.Tokens(), CostUSD: a.CostUSD}, 0)
		if a.Err == nil {
			continue
		}
		f := FailureOf(a.Err, false)
		f.Class, f.Commit = a.Class, a.Commit
		if f.Handed && slices.ContainsFunc(rows[i+1:], isMade) { // what was handed out was held back, for something followed
			f = FailureOf(unseen(a.Err), false)
		}
		if f.Class != llm.Cooling {
			f.Behind = f.Class
		}
		now := s
		if s.Left.Time != math.MaxInt64 {
			now.Left.Time -= a.Start.Add(a.Took).Sub(rows[0].Start)
		}
		now.Routes = slices.Clone(s.Routes)
		now.Retry.Left, now.Retry.Repeated = retries, false
		for j := range rows[:i] {
			if b := &rows[j]; b.Skipped == "" && b.Deployment == a.Deployment {
				now.Retry.Left--
				now.Retry.Repeated = now.Retry.Repeated || b.Class == a.Class
			}
		}
		if at := slices.IndexFunc(s.Routes, func(r RouteOption) bool { return r.Name == a.Deployment }); at >= 0 {
			f.Window = s.Routes[at].Window
			for j := range at + 1 { // a call does not go back
				s.Routes[j].Tried, now.Routes[j].Tried = true, true
			}
		}
		f.Demands = demands.add(&now, &f)
		if next := slices.IndexFunc(rows[i+1:], isMade); next < 0 || rows[i+1+next].Deployment != a.Deployment {
			demands = f.Demands
		}
		for j := i + 1; j < len(rows) && rows[j].Skipped != ""; j++ {
			now.deny(a, &rows[j])
		}
		out = append(out, now.decide(&f))
	}
	return out
}

func isMade(a llm.Attempt) bool { return a.Skipped == "" }

// deny notes that what a skipped row is of was not let through after a.
func (s *State) deny(a, skipped *llm.Attempt) {
	if skipped.Deployment == a.Deployment {
		s.Retry.Denied = skipped.Err
		return
	}
	for i := range s.Routes {
		if r := &s.Routes[i]; r.Name == skipped.Deployment {
			if wait := llm.AsError(skipped.Err).RetryAfter; skipped.Class == llm.Cooling && wait > 0 {
				r.Rest = wait
			} else {
				r.Denied = skipped.Err
			}
		}
	}
}
