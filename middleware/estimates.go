package middleware

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// EstimatesConfig sets [NewEstimates]. The zero value is the default.
type EstimatesConfig struct {
	// Quantile is the share of completed attempts that took no longer than the estimate, below 1. 0: 0.9.
	Quantile float64
	// Fixed holds the estimates of deployments, by name, that are known and not learned. nil: none.
	Fixed map[string]time.Duration
	// Memory is how fast what was learned fades: half of it with each Memory that passes, all of it once nothing new came
	// for so long, so that a deployment which was slow is tried again. 0: 10 min.
	Memory time.Duration
}

// Estimates knows how long an answer of each deployment takes: as configured, or learned from attempts that answered. It
// is shared by giving it to several [Deadline] stages, and safe for concurrent use.
type Estimates struct {
	cfg    EstimatesConfig
	mu     sync.Mutex // held to add a track
	tracks atomic.Pointer[map[string]*track]
	most   atomic.Int64 // no estimate is or was longer
}

// NewEstimates is an Estimates that has learned nothing yet. It panics on a Quantile outside 0 to 1 and on negative
// durations.
func NewEstimates(cfg EstimatesConfig) *Estimates {
	if !(cfg.Quantile >= 0 && cfg.Quantile < 1) {
		panic(fmt.Sprintf("llm/middleware: Estimates: Quantile is %v; use 0 for 0.9, or a share below 1", cfg.Quantile))
	}
	if cfg.Quantile == 0 {
		cfg.Quantile = 0.9
	}
	for name, d := range cfg.Fixed {
		if d < 0 {
			panic(fmt.Sprintf("llm/middleware: Estimates: Fixed[%q] is %v; use a positive duration, or leave it out", name, d))
		}
	}
	cfg.Fixed = maps.Clone(cfg.Fixed)
	cfg.Memory = durationOr("Estimates", "Memory", cfg.Memory, 10*time.Minute)
	e := &Estimates{cfg: cfg}
	for name, d := range cfg.Fixed {
		e.track(name).fixed = d
		e.raise(d)
	}
	return e
}

// String is what they are made from, and of how many deployments something is known.
func (e *Estimates) String() string {
	n := 0
	if all := e.tracks.Load(); all != nil {
		n = len(*all)
	}
	return fmt.Sprintf("%v quantile over %v, %d deployments known", e.cfg.Quantile, e.cfg.Memory, n)
}

// Of is the time that an attempt at the deployment is expected to take at most. 0: nothing is known of it, or too little;
// five answers are enough.
func (e *Estimates) Of(deployment string) time.Duration {
	return e.known(deployment).expects(time.Now(), e.cfg.Memory)
}

// Learn takes in an answer that took as long. [Deadline] does so by itself; a program that remembers yesterday's times can
// start with them.
func (e *Estimates) Learn(deployment string, took time.Duration) {
	e.raise(e.track(deployment).add(took, time.Now().UnixNano(), &e.cfg))
}

// learn is Learn for what comes with every call.
func (e *Estimates) learn(name string, took time.Duration, now int64) {
	if t := e.track(name); !t.isFixed() && !t.hasEnough(now) {
		e.raise(t.add(took, now, &e.cfg))
	}
}

// longest is an upper bound of all estimates.
func (e *Estimates) longest() time.Duration { return time.Duration(e.most.Load()) }

func (e *Estimates) raise(to time.Duration) {
	for {
		most := e.most.Load()
		if int64(to) <= most || e.most.CompareAndSwap(most, int64(to)) {
			return
		}
	}
}

// known is what was learned of a deployment. nil: nothing.
func (e *Estimates) known(deployment string) *track {
	if all := e.tracks.Load(); all != nil {
		return (*all)[deployment]
	}
	return nil
}

// track finds without a lock what is there. Deployments are few, so a new one copies the map.
func (e *Estimates) track(deployment string) *track {
	if t := e.known(deployment); t != nil {
		return t
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string]*track{}
	if old := e.tracks.Load(); old != nil {
		all = maps.Clone(*old)
	}
	t := all[deployment]
	if t == nil {
		t = &track{}
		all[deployment] = t
		e.tracks.Store(&all)
	}
	return t
}

// track is a histogram of durations: buckets of a millisecond up to 8 ms, then eight to each doubling, so an estimate is
// at most an eighth too long. Its numbers may be off by what runs at the same moment, which an estimate can bear.
type track struct {
	fixed    time.Duration // above 0: configured, what is learned does not count
	counts   [trackBuckets]atomic.Uint32
	total    atomic.Int64
	estimate atomic.Int64
	newest   atomic.Int64 // when the last one came, in ns of Unix time
	halved   atomic.Int64 // when half was last forgotten
	fading   atomic.Bool
}

const (
	trackBuckets = 160 // the last holds an hour and more
	trackEnough  = 5
	trackFull    = 1024 // answers after which half is forgotten even before its time
	trackFew     = 64   // answers up to which each one counts
	trackPause   = 5 * time.Millisecond
)

func bucketOf(d time.Duration) int {
	ms := uint64(max(d, 0) / time.Millisecond)
	shift := max(bits.Len64(ms)-4, 0)
	return min(shift*8+int(ms>>shift), trackBuckets-1)
}

// bucketEnd is the shortest duration beyond bucket i.
func bucketEnd(i int) time.Duration {
	if i < 16 {
		return time.Duration(i+1) * time.Millisecond
	}
	shift := i/8 - 1
	return time.Duration(i%8+9) << shift * time.Millisecond
}

func (t *track) isFixed() bool { return t != nil && t.fixed > 0 }

// expects is the estimate at a time. 0: none, or one that is older than memory.
func (t *track) expects(at time.Time, memory time.Duration) time.Duration {
	switch {
	case t == nil:
		return 0
	case t.fixed > 0:
		return t.fixed
	case at.UnixNano()-t.newest.Load() >= int64(memory):
		return 0
	}
	return time.Duration(t.estimate.Load())
}

// hasEnough reports whether an answer that comes now need not be looked at: of more than two hundred a second a part tells
// as much as all, and calls in parallel do not write to the same memory all the time.
func (t *track) hasEnough(now int64) bool {
	return t.total.Load() > trackFew && now-t.newest.Load() < int64(trackPause)
}

// add takes in an answer and returns the new estimate.
func (t *track) add(took time.Duration, now int64, cfg *EstimatesConfig) time.Duration {
	if t.halved.Load() == 0 {
		t.halved.CompareAndSwap(0, now)
	}
	last := t.newest.Load()
	if last != 0 && now-last >= int64(cfg.Memory) {
		t.fade(now, true)
	} else if t.total.Load() >= trackFull || now-t.halved.Load() >= int64(cfg.Memory) {
		t.fade(now, false)
	}
	t.counts[bucketOf(took)].Add(1)
	n := t.total.Add(1)
	t.newest.Store(now)
	// While there are few, each one may move the estimate.
	if n <= trackFew || n%16 == 0 {
		t.estimate.Store(int64(t.quantile(cfg.Quantile)))
	}
	return time.Duration(t.estimate.Load())
}

// fade forgets all, or half.
func (t *track) fade(now int64, all bool) {
	if !t.fading.CompareAndSwap(false, true) {
		return
	}
	defer t.fading.Store(false)
	t.halved.Store(now)
	var odd uint32 // handed on to the next bucket, so that single slow answers are not the first to go
	for i := range t.counts {
		c := t.counts[i].Load()
		if c == 0 {
			continue
		}
		var kept uint32
		if !all {
			kept, odd = (c+odd)/2, (c+odd)%2
		}
		t.counts[i].Add(kept - c)
		t.total.Add(int64(kept) - int64(c))
	}
}

func (t *track) quantile(q float64) time.Duration {
	var counts [trackBuckets]uint32 // as they are now: total may be ahead of them or behind
	n := int64(0)
	for i := range counts {
		counts[i] = t.counts[i].Load()
		n += int64(counts[i])
	}
	if n < trackEnough {
		return 0
	}
	rank := int64(math.Ceil(q * float64(n)))
	for i := range counts {
		if rank -= int64(counts[i]); rank <= 0 {
			return bucketEnd(i)
		}
	}
	return bucketEnd(trackBuckets - 1)
}
