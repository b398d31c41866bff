package middleware

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// lentLimits is what calls take and give back without the mutex of the pool, so that those of many goroutines do not wait for
// each other: what there surely is for a millisecond, in parts of which each processor mostly has one for itself. Whoever locks
// the mutex takes it all back first, and knows then all that was taken.
type lentLimits struct {
	epoch time.Time
	limit limitCost    // of each meter. 0: none
	until atomic.Int64 // in ns since epoch. 0: nothing is lent
	parts []lentPart
	near  sync.Pool // of *lentPart: which one to take

	given [lentMeters]int // to each part. The mutex guards it
}

type lentPart struct {
	left [lentMeters]atomic.Int64
	back [numMeters]atomic.Int64 // of what was reserved. Nobody takes it from here: a full meter would have more than fits in
	_    [7]int64                // no two parts have a cache line together
}

const (
	lentSlots  = numMeters // where calls in flight are counted
	lentMeters = numMeters + 1
	lentCalls  = 8 // like the last one for which a part needs room, or else nothing is lent
)

func newLentLimits(limit limitCost) *lentLimits {
	n := min(runtime.GOMAXPROCS(0), 8)
	o := &lentLimits{epoch: time.Now(), limit: limit, parts: make([]lentPart, n)}
	var next atomic.Uint32
	o.near.New = func() any { return &o.parts[next.Add(1)%uint32(n)] } //nolint:gosec // n is at most 8
	return o
}

func (o *lentLimits) part() *lentPart {
	p, _ := o.near.Get().(*lentPart)
	o.near.Put(p)
	return p
}

// take takes all of c and a slot, or nothing. The part is the one that it is given back to.
func (o *lentLimits) take(now time.Time, c *limitCost) *lentPart {
	if o == nil || int64(now.Sub(o.epoch)) >= o.until.Load() {
		return nil
	}
	p := o.part()
	if p.left[lentSlots].Add(-1) < 0 {
		p.left[lentSlots].Add(1)
		return nil
	}
	for i, n := range c {
		if o.limit[i] == 0 || p.left[i].Add(-int64(n)) >= 0 {
			continue
		}
		for j := range i + 1 {
			if o.limit[j] > 0 {
				p.left[j].Add(int64(c[j]))
			}
		}
		p.left[lentSlots].Add(1)
		return nil
	}
	return p
}

// giveBack ends a permit of which used was used. done: it did. missed: what is lent was taken back at the same time, by one who
// may not have seen what this call gave back.
func (o *lentLimits) giveBack(p *lentPart, reserved, used *limitCost) (done, missed bool) {
	if p == nil || o.until.Load() == 0 {
		return false, false
	}
	for i := range used {
		if used[i] > reserved[i] && o.limit[i] > 0 {
			return false, false
		}
	}
	for i := range used {
		if back := reserved[i] - used[i]; back > 0 && o.limit[i] > 0 {
			p.back[i].Add(int64(back))
		}
	}
	p.left[lentSlots].Add(1)
	return true, o.until.Load() == 0
}

// lend lends what there surely is, while nobody waits and there is plenty, after a call took c, which may go back to the part.
func (l *limitLine) lend(c *limitCost) *lentPart {
	o := l.lent
	if o == nil || !l.isSure || l.waiting > 0 || l.share < 1 {
		return nil
	}
	slots := math.MaxInt32
	if l.inFlight > 0 {
		slots = l.slots() - l.used
	}
	each := [lentMeters]int{lentSlots: slots / len(o.parts)}
	if each[lentSlots] < lentCalls {
		return nil
	}
	for i, n := range l.sure {
		if each[i] = n / len(o.parts); o.limit[i] > 0 && each[i] < lentCalls*c[i] {
			return nil
		}
	}
	o.given = each
	for at := range o.parts {
		for i, n := range each {
			o.parts[at].left[i].Add(int64(n))
		}
	}
	o.until.Store(int64(l.synced.Add(closely).Sub(o.epoch)))
	return o.part()
}

// gather takes back what is lent, and what was given back too late to be seen the last time.
func (l *limitLine) gather() {
	o := l.lent
	if o == nil {
		return
	}
	o.until.Store(0)
	var took [lentMeters]int
	for i, n := range o.given {
		took[i] = n * len(o.parts)
	}
	o.given = [lentMeters]int{}
	for at := range o.parts {
		p := &o.parts[at]
		for i := range p.left {
			took[i] -= swapped(&p.left[i])
		}
		for i := range p.back {
			took[i] -= swapped(&p.back[i])
		}
	}
	for i := range l.sure {
		l.sure[i] = min(l.sure[i]-took[i], l.burst[i])
		l.owed[i] += took[i]
	}
	l.used += took[lentSlots]
	if slices.Min(took[:]) < 0 {
		l.wakeFirst()
	}
}

func swapped(n *atomic.Int64) int {
	if n.Load() == 0 {
		return 0
	}
	return int(n.Swap(0))
}
