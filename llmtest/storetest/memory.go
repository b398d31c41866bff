// Package storetest holds shared stores to their rules, and has them in memory for tests.
package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/modelchain/llm/middleware"
)

// Cooldowns is a middleware.CooldownStore in memory: Cooldowns in one test that use the same one are like processes that
// share a server. It is safe for concurrent use.
type Cooldowns struct {
	mu       sync.Mutex
	rests    map[middleware.CooldownKey]*heldCooldown
	watchers map[*cooldownWatcher]struct{}
	err      error
	ops      int
}

type heldCooldown struct {
	gen           int64 // microseconds of the clock
	resting       bool
	since, until  int64
	failure       int64 // when the newest one was
	token         string
	lease, forget int64
	failed        int
	cause         middleware.CooldownCause
	key           middleware.CooldownKey
}

type cooldownWatcher struct {
	wake  chan struct{}
	queue []middleware.SharedCooldown
	err   error
}

// NewCooldowns is an empty one.
func NewCooldowns() *Cooldowns {
	return &Cooldowns{
		rests: map[middleware.CooldownKey]*heldCooldown{}, watchers: map[*cooldownWatcher]struct{}{},
	}
}

// Fail makes every operation end with err, as those of a server that is down, and who watches too. nil: no more.
func (s *Cooldowns) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	if err == nil {
		return
	}
	for w := range s.watchers {
		w.err = err
		w.rouse()
	}
}

// Lose empties it, as a server that was flushed. Nobody is told.
func (s *Cooldowns) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.rests)
}

// Operations is how many there were, apart from watching.
func (s *Cooldowns) Operations() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ops
}

// micros rounds up: a rest must not end early.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

const forgetAfter = int64(time.Hour / time.Microsecond)

// change runs f on the state of key, with the time, and tells who watches if f reports a change.
func (s *Cooldowns) change(
	ctx context.Context, key middleware.CooldownKey, f func(h *heldCooldown, now int64) bool,
) (middleware.SharedCooldown, error) {
	if err := ctx.Err(); err != nil {
		return middleware.SharedCooldown{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops++
	if s.err != nil {
		return middleware.SharedCooldown{}, s.err
	}
	now := time.Now().UnixMicro()
	h := s.rests[key]
	if h == nil || h.forget <= now {
		delete(s.rests, key)
		h = &heldCooldown{key: key}
	}
	changed := f(h, now)
	if h.gen != 0 {
		h.forget = max(now, h.until) + forgetAfter
		s.rests[key] = h
	}
	got := h.shared(now)
	if changed {
		for w := range s.watchers {
			w.queue = append(w.queue, got)
			w.rouse()
		}
	}
	return got, nil
}

func (w *cooldownWatcher) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (h *heldCooldown) shared(now int64) middleware.SharedCooldown {
	at := func(us int64) time.Time {
		if us == 0 {
			return time.Time{}
		}
		return time.UnixMicro(us)
	}
	return middleware.SharedCooldown{
		CooldownKey: h.key, Gen: uint64(h.gen), Now: at(now), Since: at(h.since), Until: at(h.until), Resting: h.resting,
		Token: h.token, Lease: at(h.lease), Failed: h.failed, Cause: h.cause,
	}
}

// toldFrom is by how much an end has to be later for that to be told.
const toldFrom = time.Second

// begin makes h a new rest.
func (h *heldCooldown) begin(now int64, n *middleware.CooldownNews) {
	h.gen = max(now, h.gen+1, int64(n.Base)+1)
	h.resting, h.since, h.failure = true, now-micros(n.Ago), now-micros(n.Ago)
	h.until, h.token, h.lease = now+micros(n.Left), "", 0
	h.failed, h.cause = n.Failed, n.Cause
}

// note is what Rest does. It reports whether that changed anything.
func (h *heldCooldown) note(now int64, n *middleware.CooldownNews) bool {
	switch failure, until := now-micros(n.Ago), now+micros(n.Left); {
	case !h.resting:
		if h.gen != 0 && h.gen > int64(n.Base) && h.gen > failure {
			return false
		}
		h.begin(now, n)
		return true
	case n.Fresh && h.gen <= int64(n.Base):
		longest := max(h.until, until)
		h.begin(now, n)
		h.until = longest
		return true
	default:
		h.failure = max(h.failure, failure)
		if until <= h.until {
			return false
		}
		told := until-h.until >= micros(toldFrom)
		h.until, h.cause = until, n.Cause
		return told
	}
}

// Rest is as middleware.CooldownStore says.
func (s *Cooldowns) Rest(
	ctx context.Context, key middleware.CooldownKey, news middleware.CooldownNews,
) (middleware.SharedCooldown, error) {
	return s.change(ctx, key, func(h *heldCooldown, now int64) bool { return h.note(now, &news) })
}

// Probe is as middleware.CooldownStore says.
func (s *Cooldowns) Probe(
	ctx context.Context, key middleware.CooldownKey, news middleware.CooldownNews, token string, lease time.Duration,
) (middleware.SharedCooldown, error) {
	return s.change(ctx, key, func(h *heldCooldown, now int64) bool {
		news.Left = 0
		changed := !h.resting && h.note(now, &news)
		if !h.resting || h.until > now || h.token != "" && h.token != token && h.lease > now {
			return changed
		}
		h.token, h.lease = token, now+micros(lease)
		return true
	})
}

// Free is as middleware.CooldownStore says.
func (s *Cooldowns) Free(ctx context.Context, key middleware.CooldownKey, token string) (middleware.SharedCooldown, error) {
	return s.change(ctx, key, func(h *heldCooldown, _ int64) bool {
		if h.token == "" || h.token != token {
			return false
		}
		h.token, h.lease = "", 0
		return true
	})
}

// End is as middleware.CooldownStore says.
func (s *Cooldowns) End(
	ctx context.Context, key middleware.CooldownKey, base uint64, ago time.Duration, force bool,
) (middleware.SharedCooldown, error) {
	return s.change(ctx, key, func(h *heldCooldown, now int64) bool {
		if !h.resting || !force && (h.gen > int64(base) || h.failure > now-micros(ago)) {
			return false
		}
		*h = heldCooldown{gen: max(now, h.gen+1), key: h.key}
		return true
	})
}

// Read is as middleware.CooldownStore says.
func (s *Cooldowns) Read(ctx context.Context, keys []middleware.CooldownKey) ([]middleware.SharedCooldown, error) {
	got := make([]middleware.SharedCooldown, 0, len(keys))
	for _, key := range keys {
		c, err := s.change(ctx, key, func(*heldCooldown, int64) bool { return false })
		if err != nil {
			return nil, err
		}
		got = append(got, c)
	}
	return got, nil
}

// Watch is as middleware.CooldownStore says.
func (s *Cooldowns) Watch(ctx context.Context, watching func(), changed func(middleware.SharedCooldown)) error {
	w := &cooldownWatcher{wake: make(chan struct{}, 1)}
	s.mu.Lock()
	err := s.err
	s.watchers[w] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, w)
	}()
	if err != nil {
		return err
	}
	watching()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
		}
		s.mu.Lock()
		queue, err := w.queue, w.err
		w.queue = nil
		s.mu.Unlock()
		for _, c := range queue {
			changed(c)
		}
		if err != nil {
			return err
		}
	}
}
