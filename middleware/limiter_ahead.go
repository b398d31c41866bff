package middleware

import "time"

// limitAhead is what a process has of the Store before its calls need it, so that not each of them waits for an exchange.
type limitAhead struct {
	calls int // that took something, and what they took, since a time
	took  limitCost
	since time.Time

	each  limitCost // for a call
	keep  int       // calls for which it may be here, and slots for as many of them as may be under way at once
	slots int
	asked int // calls for which the exchange under way asks
}

// aheadPart is how much of what may go at once, and of calls in flight, a process has ahead at most, as its inverse.
const aheadPart = 32

// plan works out how much to have ahead: enough for the calls that came in the last limitsPause, after which it goes back if
// they do not come, while at least half of all limits is free. So it stands in nobody's way, and slow limits are kept exactly.
func (s *sharedLine) plan(now time.Time) {
	l, a := s.line, s.ahead
	if a.calls == 0 && l.waiting > 0 {
		return // what came has yet to be taken
	}
	s.ahead = limitAhead{since: now}
	if a.calls == 0 || s.heard.IsZero() || s.rateShare() < 1 || !s.nextAt.IsZero() || s.fleet.ctx.Err() != nil {
		return
	}
	often := time.Duration(a.calls) * limitsPause / max(now.Sub(a.since), 1)
	keep := min(2*a.calls, int(min(often, limitsMost)))
	slots, free := 0, s.left(now)
	if l.inFlight > 0 {
		slots = min(keep, l.inFlight/aheadPart)
		if slots == 0 || 2*free.InFlight < l.inFlight {
			return
		}
	}
	for i, n := range free.meters() {
		if l.minute[i] == 0 || a.took[i] == 0 {
			continue
		}
		s.ahead.each[i] = (a.took[i] + a.calls - 1) / a.calls
		keep = min(keep, l.whole[i]/aheadPart/s.ahead.each[i])
		if 2*n < l.whole[i] {
			return
		}
	}
	s.ahead.keep, s.ahead.slots = keep, min(keep, slots)
}

// askAhead is wants with those for which there is less here than planned, beside what is here and needed by nobody.
func (s *sharedLine) askAhead(wants []Limits, have *limitCost, slots int) []Limits {
	a := &s.ahead
	there := a.keep
	for i, n := range a.each {
		if n > 0 {
			there = min(there, have[i]/n)
		}
	}
	a.asked = min(a.keep-there, limitsMost-len(wants))
	for i := range a.asked {
		slot := 0
		if slots+i < a.slots {
			slot = 1
		}
		wants = append(wants, a.each.limits(slot))
	}
	return wants
}

// keepSlot keeps the slot of a call that has ended for the next one.
func (s *sharedLine) keepSlot(alone bool) {
	if !alone && s.slots < s.ahead.slots {
		s.slots++
	}
}
