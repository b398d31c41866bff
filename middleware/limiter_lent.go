package middleware

import (
	"math"
	"sync/atomic"
	"time"
)

// lentLimits is what calls take and give back without the mutex of the pool, so that those of many goroutines do not wait for
// each other: what there surely is for a millisecond. Whoever locks the mutex takes it all back first, and knows then all that
// was taken.
type lentLimits struct {
	epoch time.Time
	most  limitCost // that can be there. 0: not limited

	until atomic.Int64 // in ns since epoch. 0: nothing is lent
	left  [lentMeters]atomic.Int64

	given [lentMeters]int // the mutex guards it
}

// lentSlots is where calls in flight are counted.
const (
	lentSlots  = numMeters
	lentMeters = numMeters + 1
)

// take takes all of c and a slot, or nothing.
func (o *lentLimits) take(now time.Time, c *limitCost) bool {
	if o == nil || int64(now.Sub(o.epoch)) >= o.until.Load() {
		return false
	}
	if o.left[lentSlots].Add(-1) < 0 {
		o.left[lentSlots].Add(1)
		return false
	}
	for i, n := range c {
		if o.most[i] == 0 || o.left[i].Add(-int64(n)) >= 0 {
			continue
		}
		for j := range i + 1 {
			if o.most[j] > 0 {
				o.left[j].Add(int64(c[j]))
			}
		}
		o.left[lentSlots].Add(1)
		return false
	}
	return true
}

// giveBack ends a permit of which used was used. done: it did. missed: what is lent was taken back at the same time, by one who
// may not have seen what this call gave back.
func (o *lentLimits) giveBack(reserved, used *limitCost) (done, missed bool) {
	if o == nil || o.until.Load() == 0 {
		return false, false
	}
	for i := range used {
		if used[i] > reserved[i] && o.most[i] > 0 {
			return false, false
		}
	}
	for i := range used {
		if back := reserved[i] - used[i]; back > 0 && o.most[i] > 0 {
			o.add(i, back)
		}
	}
	o.left[lentSlots].Add(1)
	return true, o.until.Load() == 0
}

// add gives back n of a meter: what comes back to a full one is lost.
func (o *lentLimits) add(i, n int) {
	for {
		left := o.left[i].Load()
		if o.left[i].CompareAndSwap(left, max(left, min(left+int64(n), int64(o.most[i])))) {
			return
		}
	}
}

// lend lends what there surely is, while nobody waits.
func (l *limitLine) lend() {
	o := l.lent
	if o == nil || !l.isSure || l.waiting > 0 || l.share < 1 {
		return
	}
	for i := range l.sure {
		if o.most[i] > 0 {
			o.lend(i, l.sure[i])
		}
	}
	slots := math.MaxInt32
	if l.inFlight > 0 {
		slots = l.slots() - l.used
	}
	o.lend(lentSlots, slots)
	o.until.Store(int64(l.synced.Add(closely).Sub(o.epoch)))
}

func (o *lentLimits) lend(i, n int) {
	o.given[i] = n
	o.left[i].Add(int64(n))
}

// gather takes back what is lent, and what was given back too late to be seen the last time.
func (l *limitLine) gather() {
	o := l.lent
	if o == nil {
		return
	}
	o.until.Store(0)
	more := false
	for i := range o.left {
		if o.given[i] == 0 && o.left[i].Load() == 0 {
			continue
		}
		took := o.given[i] - int(o.left[i].Swap(0))
		o.given[i] = 0
		more = more || took < 0
		if i == lentSlots {
			l.used += took
			continue
		}
		l.sure[i] = min(l.sure[i]-took, l.burst[i])
		l.owed[i] += took
	}
	if more {
		l.wakeFirst()
	}
}
