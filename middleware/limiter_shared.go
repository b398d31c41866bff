package middleware

import (
	"time"
)

// sharedLine is the part of a limitLine that is about the Store: what the Store granted and no call took yet, and what it is
// to be told. The mutex of the pool guards it.
//
// Calls wait in the line as they do without a Store; the first ones are asked for, and go with what comes. Of what is not there
// yet a process has at most one place in the queue of all processes, so that these take turns too.
type sharedLine struct {
	fleet         *limitFleet
	pool          *limitPool
	line          *limitLine
	name, replica string
	stays         bool // it is there as long as the process

	number uint64
	told   time.Time // when an exchange was last answered
	used   limitCost // what calls took with the Store's consent, less what came back

	credit, next  limitCost // may be taken now, and from nextAt on
	slots         int       // of credit
	nextSlots     int
	nextAt        time.Time // zero: there is no next
	asked         time.Time // since when a call waits for an answer. Zero: none does
	pollAt        time.Time // when to ask again whether a slot is free
	poll          time.Duration
	untold        bool // somebody in the line does not know when its turn comes
	heard         time.Time
	lacks         [numMeters]time.Duration // at heard
	inFlight      int                      // in all replicas, at heard
	share         float64                  // of the limits, at heard
	refused       bool                     // what the provider said, of which the Store does not know yet
	rest          time.Duration
	missing       limitCost
	replicas      int
	isAlone       bool
	lone, loneOut limitCost // what was taken alone, and the part of it that an exchange under way tells
	loneTold      limitCost // what that exchange counts of it
	ahead         limitAhead
}

// take takes c of what the Store granted.
func (s *sharedLine) take(now time.Time, c *limitCost) bool {
	s.ripen(now)
	l := s.line
	if !s.covers(c) || !l.note(now, c) {
		return false
	}
	for i, n := range l.minute {
		if n > 0 {
			s.credit[i] -= c[i]
			s.used[i] += c[i]
		}
	}
	s.slots = max(s.slots-1, 0)
	s.ahead.calls++
	s.ahead.took.add(c, 1)
	return true
}

// covers reports whether c may be taken of what the Store granted.
func (s *sharedLine) covers(c *limitCost) bool {
	for i, n := range s.line.minute {
		if n > 0 && c[i] > s.credit[i] {
			return false
		}
	}
	return s.line.inFlight == 0 || s.slots > 0
}

// ripen makes credit of what may be taken by now.
func (s *sharedLine) ripen(now time.Time) {
	if s.nextAt.IsZero() || now.Before(s.nextAt) {
		return
	}
	s.credit.add(&s.next, 1)
	s.slots += s.nextSlots
	s.next, s.nextSlots, s.nextAt = limitCost{}, 0, time.Time{}
}

// quiet reports whether there is nothing to take and nothing to tell, or nobody to be told.
func (s *sharedLine) quiet() bool {
	if s == nil || s.fleet.health.down() || s.fleet.ctx.Err() != nil {
		return true
	}
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	_, marked := s.fleet.marked[s]
	return !marked && s.asked.IsZero() && s.nextAt.IsZero() && s.slots == 0 && s.credit == limitCost{} && s.loneOut == limitCost{}
}

// news is what there is to tell, and to ask for.
func (s *sharedLine) news(now time.Time) LimitNews {
	l := s.line
	s.ripen(now)
	s.plan(now)
	wants, patience := s.wants(now)
	s.number++
	told := s.used
	told.add(&s.credit, 1)
	told.add(&s.next, 1)
	// Of what went meanwhile the Store is told what this process's own bucket still lacks: the rest came back with time.
	at := l.at(now)
	l.sync(at)
	s.loneTold = limitCost{}
	for i, n := range s.lone {
		if n > 0 {
			s.loneTold[i] = min(n, max(int(float64(l.burst[i])-l.of[i].TokensAt(at)+0.5), 0))
		}
	}
	s.loneOut, s.lone = s.lone, limitCost{}
	told.add(&s.loneTold, 1)
	minute, whole := limitCost(l.minute), limitCost(l.whole)
	n := LimitNews{
		Name: s.name, Replica: s.replica, Number: s.number, Limits: minute.limits(l.inFlight), Burst: whole.limits(0),
		Used: told.limits(0), Refused: s.refused, Rest: s.rest, Missing: s.missing.limits(0), Lease: s.fleet.cfg.SlotLease,
		Wants: wants, Patience: patience,
	}
	if l.inFlight > 0 {
		n.Used.InFlight = l.used + s.slots + s.nextSlots
	}
	s.refused, s.rest, s.missing = false, 0, limitCost{}
	lacks := s.lacksAt(now)
	n.Lacks = LimitLacks{lacks[perRequest], lacks[perInput], lacks[perOutput], lacks[perToken]}
	return n
}

// failed is what becomes of an exchange without an answer: what it may have been granted is not told by the next one. Slots that
// no call has may be another process's by then.
func (s *sharedLine) failed() {
	s.slots, s.nextSlots = 0, 0
	s.lone.add(&s.loneOut, 1)
	s.loneOut, s.loneTold = limitCost{}, limitCost{}
}

// wants is what the first who wait need beside what is there, and how long the first of them waits for it, and behind them what
// is taken ahead. What nobody needs is given back.
func (s *sharedLine) wants(now time.Time) (wants []Limits, patience time.Duration) {
	l := s.line
	have, slots := s.credit, s.slots+s.nextSlots
	have.add(&s.next, 1)
	more := l.each(func(w *limitWaiter, _ *limitCost) bool {
		var lacks limitCost
		missing := false
		for i, n := range l.minute {
			if n > 0 {
				lacks[i] = max(w.cost[i]-have[i], 0)
				have[i] = max(have[i]-w.cost[i], 0)
				missing = missing || lacks[i] > 0
			}
		}
		slot := 0
		if l.inFlight > 0 {
			if slots > 0 {
				slots--
			} else {
				slot, missing = 1, true
			}
		}
		if missing {
			if wants == nil {
				patience = max(w.until.Sub(now), 0)
			}
			wants = append(wants, lacks.limits(slot))
		}
		return len(wants) < limitsMost
	})
	if !more && len(wants) == 0 {
		spare := have
		spare.add(&s.ahead.each, -s.ahead.keep)
		s.giveBack(spare, slots-s.ahead.slots)
	}
	if s.ahead.asked = 0; !s.nextAt.IsZero() {
		return nil, 0 // there is a place in the queue
	}
	if wants = s.askAhead(wants, &have, slots); s.ahead.asked > 0 {
		patience = 0
	}
	return wants, patience
}

// giveBack gives up what nobody needs: of what comes later all or nothing.
func (s *sharedLine) giveBack(spare limitCost, slots int) {
	all := slots >= s.nextSlots
	for i := range spare {
		all = all && spare[i] >= s.next[i]
	}
	if all {
		spare.add(&s.next, -1)
		slots -= s.nextSlots
		s.next, s.nextSlots, s.nextAt = limitCost{}, 0, time.Time{}
	}
	for i := range spare {
		s.credit[i] -= min(max(spare[i], 0), s.credit[i])
	}
	s.slots -= min(max(slots, 0), s.slots)
}

// apply takes in the answer to what was sent at a time.
func (s *sharedLine) apply(sent time.Time, n *LimitNews, got *SharedLimit) {
	l, now := s.line, time.Now()
	s.used.add(&s.loneTold, 1)
	s.loneOut, s.loneTold = limitCost{}, limitCost{}
	s.told, s.heard, s.lacks, s.replicas = now, now, got.Lacks.meters(), got.Replicas
	s.inFlight, s.share = got.InFlight, got.Share
	if until := now.Add(got.Rest); got.Rest > 0 && until.After(l.until) {
		l.until = until
	}
	for i := range got.Granted {
		c := n.Wants[i].meters()
		if i == got.Granted-1 && got.Wait > 0 {
			s.next, s.nextSlots, s.nextAt = c, n.Wants[i].InFlight, now.Add(got.Wait)
			break
		}
		s.credit.add(&c, 1)
		s.slots += n.Wants[i].InFlight
	}
	if !s.asked.IsZero() && !s.asked.After(sent) {
		s.asked = time.Time{}
	}
	needed := len(n.Wants) - s.ahead.asked
	if got.Granted > 0 || needed == 0 {
		s.poll = limitsPoll
	} else {
		s.poll = min(2*s.poll, limitsPollMax)
	}
	s.pollAt = now.Add(s.poll)
	switch {
	case got.Granted >= needed && s.nextAt.IsZero():
		s.pollAt = now // nothing is known to stand in the way of more
		if l.waiting > 0 && s.lacking() {
			s.ask(now)
		}
	case s.ahead.asked > 0: // there is less than was thought, so that they were asked for without patience
		s.pollAt, s.ahead = now, limitAhead{}
		s.ask(now)
	}
	if got.Granted > 0 && l.waiting == 0 || s.ahead.keep > 0 {
		s.fleet.mark(s, false) // to give back what nobody takes
	}
	if l.waiting == 0 {
		return
	}
	if s.untold {
		s.tell(now)
	}
	l.wakeFirst()
}

// lacking reports whether somebody waits for whom there is nothing yet.
func (s *sharedLine) lacking() bool {
	l := s.line
	if l.inFlight > 0 && l.waiting > s.slots {
		return true
	}
	for i, n := range l.minute {
		if n > 0 && l.total[i] > s.credit[i] {
			return true
		}
	}
	return false
}

// ask has the Store asked, for who waits from now on.
func (s *sharedLine) ask(now time.Time) {
	if s.asked.IsZero() {
		s.asked = now
	}
	s.fleet.mark(s, true)
}
