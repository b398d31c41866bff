package middleware

import "time"

// setPart sets the part of the limits that is this process's.
func (b *buckets) setPart(now time.Time, part float64) {
	b.sync(now)
	b.part = part
	for i, l := range b.of {
		if l != nil {
			b.burst[i] = max(int(float64(b.whole[i])*part+1e-9), 1)
			l.SetBurstAt(now, b.burst[i])
		}
	}
	b.setShare(now, b.share)
}

// note takes what another has found to be there. Only where this process is to go slower than the limits is it asked too.
func (b *buckets) note(now time.Time, c *limitCost) bool {
	now = b.at(now)
	if !b.open(now) {
		return false
	}
	if b.share < 1 {
		return b.take(now, c)
	}
	b.sync(now)
	for i := range b.of {
		b.charge(i, now, c[i])
	}
	b.taken = now
	return true
}
