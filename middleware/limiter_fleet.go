package middleware

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// limitFleet shares the limits of a Limiter. One goroutine talks to the Store about all lines for which there is something to
// tell or to ask, in one exchange at a time: what comes up meanwhile goes along with the next, so that the more calls there
// are, the less each of them costs.
type limitFleet struct {
	cfg    *LimiterConfig
	health *storeHealth
	ctx    context.Context //nolint:containedctx // it is the life of its goroutine
	cancel context.CancelFunc
	ended  sync.WaitGroup
	wake   alarm
	urgent atomic.Bool // a call waits for the next exchange

	// The goroutine's own.
	most    int // lines in an exchange: fewer while those fail, which may be for their size
	renewed time.Time

	mu     sync.Mutex
	lines  map[*sharedLine]struct{}
	marked map[*sharedLine]struct{} // there is something to tell or to ask
}

const (
	limitsPause   = 10 * time.Millisecond // for which what nobody waits for may be kept, to go along with other things
	limitsRefresh = 30 * time.Second      // at which a pool that nobody uses shows that it is there
	limitsMost    = 256                   // lines in an exchange, and calls asked for at a time in each
	limitsFewest  = 8
	limitsPoll    = 10 * time.Millisecond // to ask again whether a call elsewhere ended, doubling with each time
	limitsPollMax = 160 * time.Millisecond
)

func newLimitFleet(cfg *LimiterConfig) *limitFleet {
	f := &limitFleet{
		cfg: cfg, health: newStoreHealth("limits", cfg.Meter, cfg.Logger), wake: newAlarm(),
		most: limitsMost, lines: map[*sharedLine]struct{}{}, marked: map[*sharedLine]struct{}{},
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.ended.Go(f.run)
	return f
}

// Close gives back what is held here and not used, for up to a second, and ends what shares limits with other processes,
// after which this one goes on alone, on its share. Without a Store it does nothing. It does not end the Store. The error says
// that the Store could not be told; then slots come back with the end of their lease.
func (l *Limiter) Close() error {
	f := l.fleet
	if f == nil {
		return nil
	}
	f.cancel()
	f.ended.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for {
		f.mu.Lock()
		n := len(f.marked)
		f.mu.Unlock()
		if n == 0 {
			return nil
		}
		if err := f.exchange(ctx); err != nil {
			return fmt.Errorf("llm/middleware: Limiter: the store could not be told what was used last: %w", err)
		}
	}
}

// join makes a line one that is shared under a name.
func (f *limitFleet) join(pool *limitPool, l *limitLine, name string, stays bool) {
	if f == nil {
		return
	}
	l.shared = &sharedLine{fleet: f, pool: pool, line: l, name: name, replica: rand.Text(), stays: stays, poll: limitsPoll}
	f.mu.Lock()
	f.lines[l.shared] = struct{}{}
	f.mu.Unlock()
	if stays {
		f.mark(l.shared, false) // to learn of the others
	}
}

// forget ends the sharing of a line of which there is nothing to tell.
func (f *limitFleet) forget(s *sharedLine) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.lines, s)
	delete(f.marked, s)
}

// mark notes that there is something to tell of s, or to ask if that is urgent. It never waits.
func (f *limitFleet) mark(s *sharedLine, urgent bool) {
	if f.ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	first := len(f.marked) == 0
	f.marked[s] = struct{}{}
	f.mu.Unlock()
	if urgent && !f.urgent.Swap(true) || first {
		f.wake.rouse()
	}
}

func (f *limitFleet) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failed := 0; ; {
		select {
		case <-f.ctx.Done():
			return
		case <-f.wake:
			if failed > 0 {
				continue // the timer says when to try again
			}
			if !f.urgent.Load() {
				timer.Reset(limitsPause)
				continue
			}
		case <-timer.C:
		}
		f.urgent.Store(false)
		f.renew(time.Now())
		if err := f.exchange(f.ctx); err != nil {
			timer.Reset(storePause(failed))
			failed++
			continue
		}
		failed = 0
		timer.Reset(f.again())
	}
}

// again is when to look without being asked to.
func (f *limitFleet) again() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.marked) > 0 {
		return limitsPause
	}
	return min(f.cfg.SlotLease/4, limitsRefresh/4)
}

// renew marks what has to be told again lest the Store forget it.
func (f *limitFleet) renew(now time.Time) {
	if now.Sub(f.renewed) < min(f.cfg.SlotLease/8, limitsRefresh/8) {
		return
	}
	f.renewed = now
	f.mu.Lock()
	lines := make([]*sharedLine, 0, len(f.lines))
	for s := range f.lines {
		lines = append(lines, s)
	}
	f.mu.Unlock()
	for _, s := range lines {
		s.pool.mu.Lock()
		every := limitsRefresh
		holds := s.line.inFlight > 0 && s.line.used+s.slots+s.nextSlots > 0
		if holds {
			every = f.cfg.SlotLease / 4
		}
		due := now.Sub(s.told) >= every && (holds || s.stays)
		s.pool.mu.Unlock()
		if due {
			f.mark(s, false)
		}
	}
}

// exchange tells and asks about what is marked.
func (f *limitFleet) exchange(ctx context.Context) error {
	f.mu.Lock()
	lines := make([]*sharedLine, 0, min(len(f.marked), f.most))
	for s := range f.marked {
		if len(lines) == f.most {
			break
		}
		lines = append(lines, s)
		delete(f.marked, s)
	}
	more := len(f.marked) > 0
	f.mu.Unlock()
	if len(lines) == 0 {
		return nil
	}
	sent := time.Now()
	news := make([]LimitNews, len(lines))
	for i, s := range lines {
		s.pool.mu.Lock()
		news[i] = s.news(sent)
		s.pool.mu.Unlock()
	}
	limited, cancel := context.WithTimeout(ctx, f.cfg.StoreTimeout)
	defer cancel()
	var got []SharedLimit
	err := guarded(limited, func(ctx context.Context) (err error) {
		if got, err = f.cfg.Store.Exchange(ctx, news); err == nil && !answered(news, got) {
			err = errors.New("the answer does not fit what was asked")
		}
		return err
	})
	if ctx.Err() == nil {
		f.health.note(storeOps, err)
	}
	for i, s := range lines {
		s.pool.mu.Lock()
		if err != nil {
			s.failed()
		} else {
			s.apply(sent, &news[i], &got[i])
		}
		s.pool.mu.Unlock()
	}
	if err != nil {
		f.most = max(f.most/2, limitsFewest)
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, s := range lines {
			if _, is := f.lines[s]; is {
				f.marked[s] = struct{}{}
			}
		}
		return err
	}
	f.most = min(2*f.most, limitsMost)
	if more {
		f.urgent.Store(true)
		f.wake.rouse()
	}
	return nil
}

// answered reports whether got can be the answer to news.
func answered(news []LimitNews, got []SharedLimit) bool {
	if len(news) != len(got) {
		return false
	}
	for i := range got {
		if g := &got[i]; g.Granted < 0 || g.Granted > len(news[i].Wants) || g.Wait < 0 {
			return false
		}
	}
	return true
}
