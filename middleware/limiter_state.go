package middleware

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// LimiterState is a pool, or a key of one, at a moment.
type LimiterState struct {
	// Pool is the pool, Key the key. "" for Key: the pool as a whole, or calls without a key (then IsKey).
	Pool, Key string
	IsKey     bool
	// Left is what could go at once, below 0 what is owed: requests and tokens, and calls in flight. Where Limits has no limit it
	// is 0. Of limits in a Store it is what was last heard of them.
	Left, Limits Limits
	// InFlight counts the calls under way, Waiting those that wait here for their turn.
	InFlight, Waiting int
	// Share is the part of the limits in force: below 1 after refusals of the provider or on a ramp.
	Share float64
	// Until is until when the provider asked to wait. Zero: it did not.
	Until time.Time
}

// String is the state in a line: `openai: requests 3 left of 600/min, 2 in flight of 10, 4 waiting`.
func (s LimiterState) String() string {
	var parts []string
	add := func(name string, left, limit int) {
		if limit > 0 {
			parts = append(parts, fmt.Sprintf("%s %d left of %d/min", name, left, limit))
		}
	}
	add("requests", s.Left.Requests, s.Limits.Requests)
	add("input tokens", s.Left.Input, s.Limits.Input)
	add("output tokens", s.Left.Output, s.Limits.Output)
	add("tokens", s.Left.Tokens, s.Limits.Tokens)
	flight := fmt.Sprintf("%d in flight", s.InFlight)
	if s.Limits.InFlight > 0 {
		flight += fmt.Sprintf(" of %d", s.Limits.InFlight)
	}
	parts = append(parts, flight, fmt.Sprintf("%d waiting", s.Waiting))
	if s.Share < 1 {
		parts = append(parts, fmt.Sprintf("at %.0f%%", s.Share*100))
	}
	if !s.Until.IsZero() {
		parts = append(parts, "held until "+s.Until.UTC().Format(time.RFC3339))
	}
	name := s.Pool
	if s.IsKey {
		name += "/" + s.Key
	}
	return name + ": " + strings.Join(parts, ", ")
}

// Snapshot lists the pools and their keys, by name, each pool before its keys. Keys without limits of their own that have no
// call are left out.
func (l *Limiter) Snapshot() []LimiterState {
	l.mu.Lock()
	pools := make([]*limitPool, 0, len(l.pools))
	for _, p := range l.pools {
		pools = append(pools, p)
	}
	l.mu.Unlock()
	slices.SortFunc(pools, func(a, b *limitPool) int { return strings.Compare(a.name, b.name) })
	var states []LimiterState
	for _, p := range pools {
		states = append(states, p.snapshot()...)
	}
	return states
}

func (pool *limitPool) snapshot() []LimiterState {
	pool.lock()
	defer pool.mu.Unlock()
	now := time.Now()
	whole := pool.all.state(now, pool.cfg.Limits)
	whole.Pool = pool.name
	keys := make([]LimiterState, 0, len(pool.keys))
	each := func(k *limitKey) {
		s := LimiterState{InFlight: k.calls, Share: 1}
		if k.line != nil {
			s = k.line.state(now, pool.cfg.PerKey)
		} else if k.calls == 0 {
			return
		}
		s.Pool, s.Key, s.IsKey = pool.name, k.name, true
		keys = append(keys, s)
	}
	for _, k := range pool.keys {
		each(k)
	}
	if pool.keys != nil && pool.rest.calls > 0 {
		each(pool.rest)
	}
	slices.SortFunc(keys, func(a, b LimiterState) int { return strings.Compare(a.Key, b.Key) })
	return append([]LimiterState{whole}, keys...)
}

func (l *limitLine) state(now time.Time, limits Limits) LimiterState {
	now = l.at(now)
	l.sync(now)
	s := LimiterState{Limits: limits, InFlight: l.used, Waiting: l.waiting, Share: l.share}
	for i, to := range [numMeters]*int{&s.Left.Requests, &s.Left.Input, &s.Left.Output, &s.Left.Tokens} {
		if l.of[i] != nil {
			*to = int(l.of[i].TokensAt(now))
		}
	}
	if l.inFlight > 0 {
		s.Left.InFlight = max(l.slots()-l.used, 0)
	}
	if l.shared != nil && !l.shared.alone(now) {
		s.Left, s.Share = l.shared.left(now), min(s.Share, l.shared.rateShare())
	}
	if now.Before(l.until) {
		s.Until = l.until
	}
	return s
}
