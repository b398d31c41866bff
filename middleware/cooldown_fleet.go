package middleware

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"
)

// fleet shares the rests of a Cooldowns. A nil one shares nothing.
//
// One goroutine tells and asks the Store, another hears from it; calls leave marks on cells and go on. Both end with Close.
type fleet struct {
	all    *Cooldowns
	store  CooldownStore
	limit  time.Duration
	health *storeHealth
	ctx    context.Context //nolint:containedctx // it is the life of its goroutines
	cancel context.CancelFunc
	ended  sync.WaitGroup

	wake   alarm
	probes chan *probeAsk

	mu       sync.Mutex
	marked   map[*restCell]struct{} // the Store is to be told or asked about them
	watching bool
	syncs    []chan struct{} // closed once nothing is marked
}

// rereadEvery is how often the Store is asked what it knows, should a push have been lost.
const rereadEvery = 30 * time.Second

// readMost is how many keys are asked for at once.
const readMost = 256

func newFleet(all *Cooldowns) *fleet {
	f := &fleet{
		all: all, store: all.cfg.Store, limit: all.cfg.StoreTimeout,
		health: newStoreHealth("cooldowns", all.cfg.Meter, all.cfg.Logger),
		wake:   newAlarm(), probes: make(chan *probeAsk), marked: map[*restCell]struct{}{},
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.ended.Go(f.tell)
	f.ended.Go(f.hear)
	return f
}

// Close ends what shares rests with other processes, after which this one goes on alone. It does not end the Store.
func (c *Cooldowns) Close() error {
	if f := c.fleet; f != nil {
		f.cancel()
		f.ended.Wait()
	}
	return nil
}

// Sync waits until the Store knows what is known here, and the other way round, and pushes what changes: a program that
// begins with it makes no call to what already rests. Without a Store it returns at once. It returns an error if ctx ends or
// Close is called before.
func (c *Cooldowns) Sync(ctx context.Context) error {
	f := c.fleet
	if f == nil {
		return nil
	}
	done := make(chan struct{})
	f.mu.Lock()
	f.syncs = append(f.syncs, done)
	f.mu.Unlock()
	f.rereadAll(false)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("llm/middleware: Cooldowns: the store was not in step: %w", context.Cause(ctx))
	case <-f.ctx.Done():
		return fmt.Errorf("llm/middleware: Cooldowns: closed: %w", f.ctx.Err())
	}
}

// mark notes that the Store is to be told about c, or asked. It never waits. The caller may hold the mu of c.
func (f *fleet) mark(c *restCell) {
	if f == nil || c.private {
		return
	}
	f.mu.Lock()
	f.marked[c] = struct{}{}
	f.mu.Unlock()
	f.wake.rouse()
}

// reread notes that the Store is to be asked what it knows of c.
func (f *fleet) reread(c *restCell) {
	if f == nil || c.private {
		return
	}
	c.mu.Lock()
	c.shared.reread = true
	c.mu.Unlock()
	f.mark(c)
}

// rereadAll is reread of all. anew says that the Store's clock may be another.
func (f *fleet) rereadAll(anew bool) {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	for _, c := range f.all.cells {
		if anew {
			c.mu.Lock()
			c.shared.seen = time.Time{}
			c.mu.Unlock()
		}
		f.reread(c)
	}
	f.wake.rouse() // also if there is none
}

// hear takes over what the Store pushes.
func (f *fleet) hear() {
	for failed := 0; f.ctx.Err() == nil; failed++ {
		err := f.store.Watch(f.ctx, func() {
			failed = 0
			f.health.note(storeWatch, nil)
			f.mu.Lock()
			f.watching = true
			f.mu.Unlock()
			f.rereadAll(true)
		}, func(s SharedCooldown) {
			f.all.mu.Lock()
			c := f.all.cells[s.CooldownKey]
			f.all.mu.Unlock()
			if c != nil {
				c.adopt(&s, nil, "")
				f.report()
			}
		})
		if f.ctx.Err() != nil {
			return
		}
		f.mu.Lock()
		f.watching = false
		f.mu.Unlock()
		if err == nil {
			err = errors.New("watching ended")
		}
		f.health.note(storeWatch, err)
		f.pause(storePause(failed))
	}
}

func (f *fleet) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-f.ctx.Done():
	}
}

// tell brings the Store and the cells together.
func (f *fleet) tell() {
	failed := 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case a := <-f.probes:
			f.askProbe(a)
			continue
		case <-f.wake:
			if failed > 0 {
				continue // the timer says when to try again
			}
		case <-timer.C:
			f.rereadAll(false)
		}
		if !f.flush() {
			timer.Reset(storePause(failed))
			failed++
			continue
		}
		failed = 0
		timer.Reset(rereadEvery - mathrand.N(rereadEvery/4))
	}
}

// report tells a listener, whose panic is not this goroutine's end.
func (f *fleet) report() {
	defer func() {
		if v := recover(); v != nil {
			log := f.all.cfg.Logger
			if log == nil {
				log = slog.Default()
			}
			log.LogAttrs(context.Background(), slog.LevelError, "llm cooldown listener panicked", slog.Any("panic", v))
		}
	}()
	f.all.changes.deliver(f.all.cfg.OnChange)
}

// A probeAsk is a call that waits for whether it may be the fleet's probe.
type probeAsk struct {
	cell  *restCell
	token string
	done  chan struct{}
	heard bool // the Store answered
}

// storeWait is how long a call waits for the Store, all in all.
type storeWait struct{ timer *time.Timer }

// A grant says whether a call may be the probe.
type grant uint8

const (
	granted grant = iota
	refused       // another process was faster
	unheard       // the Store, which is not known to be down, did not answer in time
)

// grants says whether p, which is the probe here and began the rests called own, may be that of the fleet. A Store that is down
// has no say. One that is only late has one: else each process of a fleet on busy machines would send a probe. It has none
// when it was late several times in a row, so that the rest ends some time.
func (f *fleet) grants(p *probeGate, own [3]uint64, wait *storeWait) grant {
	if f == nil {
		return granted
	}
	for i, c := range p.s.cells {
		if c == nil || c.private || p.id[i] == 0 || f.health.down() {
			continue
		}
		if wait.timer == nil {
			wait.timer = time.NewTimer(f.limit)
		}
		heard := f.asks(c, p.id[i], wait.timer)
		c.mu.Lock()
		c.shared.unheard++
		if heard {
			c.shared.unheard = 0
		}
		late := c.shared.unheard
		c.mu.Unlock()
		switch {
		case c.state.Load().probe != p.id[i]:
			return refused
		case late > 0 && late < storeTrips && own[i] == 0 && !f.health.down() && f.ctx.Err() == nil:
			return unheard
		}
	}
	return granted
}

// asks puts the question for the probe called id to the Store, and reports whether it answered in time.
func (f *fleet) asks(c *restCell, id uint64, timer *time.Timer) bool {
	a := &probeAsk{cell: c, token: rand.Text(), done: make(chan struct{})}
	c.mu.Lock()
	c.shared.token, c.shared.tokenOf = a.token, id
	c.mu.Unlock()
	select {
	case f.probes <- a:
		select {
		case <-a.done:
		case <-timer.C:
			timer.Reset(0) // it stays over
		case <-f.ctx.Done():
		}
	case <-timer.C:
		timer.Reset(0)
	case <-f.ctx.Done():
	}
	select {
	case <-a.done: // also where that came at the same time
		return a.heard
	default:
		return false
	}
}
