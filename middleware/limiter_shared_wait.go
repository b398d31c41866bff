package middleware

import (
	"fmt"
	"math"
	"time"
)

// tell says to all who wait when their turn comes.
func (s *sharedLine) tell(now time.Time) {
	s.untold = false
	s.line.each(func(w *limitWaiter, ahead *limitCost) bool {
		if w.untold {
			w.untold = false
			wait, why := s.line.wait(now, ahead, &w.cost)
			w.told, w.toldWhy = now.Add(wait), why
			select {
			case w.wake <- struct{}{}:
			default:
			}
		}
		return true
	})
}

// lacksAt is what is missing by what was heard last.
func (s *sharedLine) lacksAt(now time.Time) (lacks [numMeters]time.Duration) {
	for i := range lacks {
		lacks[i] = max(s.lacks[i]-now.Sub(s.heard), 0)
	}
	return lacks
}

// wait is how long it will be until c may be taken after all of ahead, by what was heard last, and what stands in the way.
func (s *sharedLine) wait(now time.Time, ahead, c *limitCost) (longest time.Duration, why string) {
	l, lacks := s.line, s.lacksAt(now)
	first, covered := true, true
	for i, n := range l.minute {
		if n == 0 || c[i] == 0 {
			continue
		}
		first = first && ahead[i] == 0
		// What was granted is missing already.
		have := s.credit[i] + s.next[i]
		more := ahead[i] + min(c[i], l.whole[i]) - have
		if ahead[i]+c[i] <= have {
			continue
		}
		covered = false
		gain := time.Minute.Seconds() / (float64(n) * s.rateShare())
		d := lacks[i] + time.Duration(float64(more-l.whole[i])*gain*1e9)
		if d > longest {
			longest, why = d, fmt.Sprintf("%d %s a minute of all processes", n, meterNames[i])
		}
	}
	if rest := s.nextAt.Sub(now); first && covered && !s.nextAt.IsZero() && rest > longest {
		longest, why = rest, "its place in the queue of all processes"
	}
	return longest, why
}

// noNews is what a call waits for that the Store has said nothing of.
const noNews = "shared by all processes, of which there is no news yet"

// queued notes when w's turn comes, which has just begun to wait behind ahead.
func (w *limitWaiter) queued(now time.Time, ahead *limitCost) {
	l := w.in
	if s := l.shared; s != nil && !s.alone(now) && (!s.asked.IsZero() || l.first() == w) {
		w.untold, s.untold = true, true
		w.due, w.why = now, noNews
		return
	}
	w.expect(now, ahead)
}

// look notes when the turn of w comes, and has the Store asked if it is the first. again is when it has to look again. Zero:
// somebody wakes it.
func (s *sharedLine) look(now time.Time, w *limitWaiter) (again time.Time) {
	l := s.line
	if l.first() != w {
		if !w.untold && !w.told.IsZero() {
			w.due, w.why = w.told, w.toldWhy
		}
		return again
	}
	switch {
	case s.covers(&w.cost): // this process goes slower than the limits
		w.expect(now, &limitCost{})
		if again = w.due; !again.After(now) {
			again = now.Add(time.Millisecond)
		}
		return again
	case !s.nextAt.IsZero():
		again = s.nextAt
	case s.asked.IsZero() && now.Before(s.pollAt):
		again = s.pollAt
	default:
		s.ask(now)
		w.due, w.why = now, noNews
		return s.asked.Add(s.fleet.cfg.StoreTimeout)
	}
	w.expect(now, &limitCost{})
	return again
}

// rateShare is the part of the rates in force by what was heard last.
func (s *sharedLine) rateShare() float64 {
	if s.share <= 0 || s.share > 1 {
		return 1
	}
	return s.share
}

// left is what could go at once by what was heard last.
func (s *sharedLine) left(now time.Time) Limits {
	l, left := s.line, limitCost{}
	for i, d := range s.lacksAt(now) {
		if n := l.minute[i]; n > 0 {
			left[i] = l.whole[i] - int(math.Ceil(float64(n)*s.rateShare()*d.Minutes()-1e-6))
		}
	}
	return left.limits(max(l.inFlight-max(s.inFlight, l.used), 0))
}
