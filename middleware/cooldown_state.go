package middleware

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelchain/llm"
)

// restCell is the breaker of one deployment, quota or credential.
type restCell struct {
	all     *Cooldowns
	key     CooldownKey
	private bool
	// state is never nil; what it points to is never written. It is replaced under mu.
	state atomic.Pointer[restState]

	// doubt is the streak of failures that were never repeated. nil: none since the last success.
	doubt atomic.Pointer[doubtSpan]

	mu     sync.Mutex
	probes uint64 // ids given so far
	shared sharedCell
}

type doubtSpan struct{ from, to time.Time }

// restState is what a breaker is in. gen counts the changes between serving and resting, and from one rest to the
// next: an outcome counts only in the generation in which its call began.
type restState struct {
	gen     uint64
	resting bool // until a probe succeeds, which may be long after until

	since, until time.Time
	cause        *llm.Error
	failed       int
	confirmed    bool   // by the failure of another call that overlapped the one that began it
	probe        uint64 // the newest probe that is out; 0: none
	lease        time.Time

	sharedState
}

// restPass is what a call brings back to the cells: the generations in which it began, and the probes it is (0: none).
type restPass struct{ gen, id [3]uint64 }

func newRestCell(all *Cooldowns, key CooldownKey, private bool) *restCell {
	c := &restCell{all: all, key: key, private: private}
	c.state.Store(&restState{})
	return c
}

// wait is how long it is until a call can be the probe, should a probe that is out not decide before.
func (st *restState) wait(now time.Time) time.Duration {
	switch {
	case !st.resting:
		return 0
	case now.Before(st.until):
		return st.until.Sub(now)
	case st.probe != 0 && now.Before(st.lease):
		return st.lease.Sub(now)
	}
	return 0
}

// take makes the caller the probe if one is due, or if it began the rest of generation own itself. id is 0 where the cell
// serves.
func (c *restCell) take(now time.Time, own uint64) (gen, id uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := *c.state.Load()
	if !st.resting {
		return st.gen, 0, true
	}
	if st.wait(now) > 0 && !st.isOwn(own) {
		return 0, 0, false
	}
	c.probes++
	st.probe, st.lease, st.foreign = c.probes, now.Add(c.all.cfg.ProbeLease), false
	c.set(st)
	return st.gen, st.probe, true
}

// free notes that a probe ended without a verdict.
func (c *restCell) free(gen, id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := *c.state.Load()
	c.freeShared(id)
	if st.gen == gen && st.probe == id {
		st.probe = 0
		c.set(st)
	}
}

// succeed notes that a probe of generation gen succeeded. Its lease may be over: what counts is that the rest it
// probed is still the newest.
func (c *restCell) succeed(gen uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st := c.state.Load(); st.gen == gen {
		c.set(restState{gen: gen + 1, sharedState: c.news(st, newsEnded)})
		c.all.fleet.mark(c)
	}
}

// clear ends a rest whatever its state.
func (c *restCell) clear() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.state.Load()
	if st.resting {
		c.set(restState{gen: st.gen + 1, sharedState: c.news(st, newsCleared)})
		c.all.fleet.mark(c)
	}
	return st.resting
}

// fail notes the failure of a call that began in generation gen, as the probe called id or as none. began is the generation
// of the rest that it began. 0: none.
func (c *restCell) fail(gen, id uint64, e *llm.Error, long bool) (began uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, st := time.Now(), c.state.Load()
	switch {
	case st.gen == gen && st.probe == id: // it served until now, or its probe failed
		next := restState{gen: gen + 1, resting: true, since: now, cause: forKeeping(e), sharedState: c.news(st, newsRest)}
		if st.resting {
			next.failed = st.failed + 1
		}
		next.until = now.Add(c.all.cfg.rest(e, long, next.failed))
		c.set(next)
		c.all.fleet.mark(c)
		return next.gen
	case id == 0 && st.resting && st.gen == gen+1 && now.Before(st.until): // it overlapped the call that began the rest
		next := *st
		next.confirmed = true
		if until := now.Add(c.all.cfg.rest(e, long, 0)); until.After(st.until) {
			next.until, next.cause, next.sharedState = until, forKeeping(e), c.news(st, newsLonger)
			defer c.all.fleet.mark(c)
		}
		c.state.Store(&next)
	}
	return 0
}

// failOnce notes the failure, which was never repeated, of a call that began in generation gen.
func (c *restCell) failOnce(gen uint64, e *llm.Error, long bool) {
	cfg := &c.all.cfg
	now := time.Now()
	for {
		old := c.doubt.Load()
		span := &doubtSpan{now, now}
		if old != nil && now.Sub(old.to) <= cfg.Rest {
			span.from = old.from
		}
		if !c.doubt.CompareAndSwap(old, span) {
			continue
		}
		if now.Sub(span.from) >= cfg.Patience {
			c.fail(gen, 0, e, long)
		}
		return
	}
}

// answered notes a success. It only reads, unless there was doubt.
func (c *restCell) answered() {
	if c.doubt.Load() != nil {
		c.doubt.Store(nil)
	}
}

// set replaces the state and reports the change. The caller holds mu, which keeps the reports in order.
func (c *restCell) set(st restState) {
	c.state.Store(&st)
	c.doubt.Store(nil)
	if c.private {
		c.all.mu.Lock()
		if st.resting {
			c.all.private[c] = struct{}{}
		} else {
			delete(c.all.private, c)
		}
		c.all.mu.Unlock()
	}
	if c.all.cfg.OnChange != nil {
		c.all.changes.add(c.describe(&st, time.Now()))
	}
}

// rest is how long to rest after e, when failed probes failed before. The first rest is exact: the calls that begin one
// fail at their own times. Later ones are spread, for all replicas that probed together would do so for ever.
func (c *CooldownConfig) rest(e *llm.Error, long bool, failed int) time.Duration {
	const spread = 0.2
	own := c.Rest
	switch {
	case long:
		own = c.Long
		if failed > 0 {
			own += time.Duration(rand.Float64() * spread * float64(own))
		}
	case failed > 0:
		// In floating point, where doubling too often is harmless; the limit leaves room for the spread below Cap.
		grown := float64(c.Rest)
		for range min(failed, 64) {
			grown *= 2
		}
		grown = min(grown, float64(c.Cap)/(1+spread))
		own = max(c.Rest, time.Duration(grown*(1+rand.Float64()*spread)))
	}
	limit := c.MaxWait
	if e.CoolUntil {
		limit = c.MaxUntil
	}
	return max(own, min(noEarlierThan(e.RetryAfter), limit))
}
