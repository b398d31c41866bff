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

// alone reports whether calls go by this process's own share, as the Store does not answer in time.
func (s *sharedLine) alone(now time.Time) bool {
	is := s.fleet.health.down() || s.fleet.ctx.Err() != nil ||
		!s.asked.IsZero() && now.Sub(s.asked) >= s.fleet.cfg.StoreTimeout
	if is != s.isAlone {
		s.isAlone = is
		part := 1.0
		if is {
			part = 1 / float64(max(s.replicas, 1))
		}
		s.line.setPart(s.line.at(now), part)
	}
	return is
}

// takenAlone notes what went without the Store's consent.
func (s *sharedLine) takenAlone(c *limitCost) {
	for i, n := range s.line.minute {
		if n > 0 {
			s.lone[i] += c[i]
		}
	}
	s.fleet.mark(s, false)
}

// settle puts used in the place of reserved, which was taken alone or not.
func (s *sharedLine) settle(reserved, used *limitCost, alone bool) {
	for i, n := range s.line.minute {
		switch more := used[i] - reserved[i]; {
		case n == 0 || more == 0:
		case !alone:
			s.used[i] += more
		case more > 0:
			s.lone[i] += more
		default: // what the Store was told of it comes back with time
			s.lone[i] = max(s.lone[i]+more, 0)
		}
	}
	if s.line.waiting > 0 {
		s.pollAt = time.Time{} // who waits here for a slot asks at once
	}
	s.fleet.mark(s, false)
}
