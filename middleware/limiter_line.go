package middleware

import (
	"time"
)

// limitLine is limits and those who wait for them: one after the other within a key, and by turns between keys. The first one
// waits for its time, the others for being first. The mutex of the pool guards it.
type limitLine struct {
	buckets
	shared         *sharedLine // nil: the limits are this process's alone
	lent           *lentLimits // nil: nothing is lent
	inFlight, used int         // the limit, and how many there are

	// The turns: of each key one waits in a round. rounds[0] is round number; an empty one is skipped.
	rounds  []limitRound
	number  int64
	waiting int
	total   limitCost // of all who wait
}

type limitRound struct {
	first, last *limitWaiter
	cost        limitCost
}

// limitWaiter is a call that waits in a line.
type limitWaiter struct {
	prev, next *limitWaiter
	in         *limitLine // nil: in none
	round      int64
	cost       limitCost
	due        time.Time // its turn, as it was known last
	why        string    // what it waits for. "": for others to end
	wake       alarm     // look again
	until      time.Time // the longest that it waits

	// Where the Store is asked: whether that has to say when its turn comes, and what it said.
	untold  bool
	told    time.Time
	toldWhy string
}

// slots is how many may be in flight.
func (l *limitLine) slots() int {
	if l.share < 1 || l.part < 1 {
		return max(int(float64(l.inFlight)*l.share*l.part+1e-9), 1)
	}
	return l.inFlight
}

func (l *limitLine) hasSlot() bool { return l.inFlight == 0 || l.used < l.slots() }

// enter takes c if nobody waits. alone is whether no Store was asked that should be.
func (l *limitLine) enter(now time.Time, c *limitCost, alone *bool) bool {
	return l.waiting == 0 && l.grab(now, c, alone)
}

func (l *limitLine) grab(now time.Time, c *limitCost, alone *bool) bool {
	if !l.hasSlot() {
		return false
	}
	switch s := l.shared; {
	case s == nil:
		if !l.take(now, c) {
			return false
		}
	case !s.alone(now):
		if !s.take(now, c) {
			return false
		}
		*alone = false
	default:
		if !l.take(now, c) {
			return false
		}
		s.takenAlone(c)
		*alone = true
	}
	l.used++
	return true
}

// pass takes what w waits for, if it is its turn.
func (l *limitLine) pass(now time.Time, w *limitWaiter, alone *bool) bool {
	if w.in == nil {
		return l.enter(now, &w.cost, alone)
	}
	if l.first() != w || !l.grab(now, &w.cost, alone) {
		return false
	}
	l.leave(w)
	return true
}

// exit gives a permit back, of which used was used.
func (l *limitLine) exit(reserved, used *limitCost, alone bool) {
	l.used--
	l.settle(reserved, used)
	if s := l.shared; s != nil {
		s.settle(reserved, used, alone)
		s.keepSlot(alone)
	}
	l.wakeFirst()
}

// wait is how long it will be until c can be taken after all of ahead, and what stands in the way until then.
func (l *limitLine) wait(now time.Time, ahead, c *limitCost) (longest time.Duration, why string) {
	s := l.shared
	if s == nil || s.alone(now) {
		return l.buckets.wait(now, ahead, c)
	}
	longest, why = s.wait(now, ahead, c)
	if now = l.at(now); l.share < 1 || now.Before(l.until) {
		if d, w := l.buckets.wait(now, ahead, c); d > longest {
			longest, why = d, w
		}
	}
	return longest, why
}

// each calls f with all who wait, in order, and what is ahead of them, while it returns true. more: it did not.
func (l *limitLine) each(f func(w *limitWaiter, ahead *limitCost) bool) (more bool) {
	var ahead limitCost
	for i := range l.rounds {
		for w := l.rounds[i].first; w != nil; w = w.next {
			if !f(w, &ahead) {
				return true
			}
			ahead.add(&w.cost, 1)
		}
	}
	return false
}

func (l *limitLine) first() *limitWaiter {
	for len(l.rounds) > 0 {
		if w := l.rounds[0].first; w != nil {
			return w
		}
		l.rounds[0] = limitRound{}
		l.rounds = l.rounds[1:]
		l.number++
	}
	l.rounds = nil
	return nil
}

func (l *limitLine) wakeFirst() {
	if l.waiting == 0 {
		return
	}
	l.first().wake.rouse()
}

// push puts w at the end of the first round after the one its key had last, and returns which that is. ahead is what goes
// before it.
func (l *limitLine) push(w *limitWaiter, after int64) (number int64, ahead limitCost) {
	l.first()
	number = max(after+1, l.number)
	i := int(number - l.number)
	if i >= len(l.rounds)-1 {
		ahead = l.total
	} else {
		for j := range l.rounds[:i+1] {
			ahead.add(&l.rounds[j].cost, 1)
		}
	}
	for len(l.rounds) <= i {
		l.rounds = append(l.rounds, limitRound{})
	}
	r := &l.rounds[i]
	w.in, w.round, w.prev = l, number, r.last
	if r.last != nil {
		r.last.next = w
	} else {
		r.first = w
	}
	r.last = w
	r.cost.add(&w.cost, 1)
	l.total.add(&w.cost, 1)
	l.waiting++
	return number, ahead
}

// leave takes w out. Who is first now has to look.
func (l *limitLine) leave(w *limitWaiter) {
	if w.in != l {
		return
	}
	r := &l.rounds[w.round-l.number]
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		r.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		r.last = w.prev
	}
	r.cost.add(&w.cost, -1)
	l.total.add(&w.cost, -1)
	w.in, w.prev, w.next = nil, nil, nil
	l.waiting--
	l.wakeFirst()
}
