package middleware

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelchain/llm"
)

// silence watches one stream for its first token and for pauses, with one timer and without a look at the clock or an
// allocation for each delta. The timer looks again and again whether the count of deltas has moved. After each look the
// next delta notes the time it was taken, which makes the limit exact unless more deltas follow before the next look.
type silence struct {
	llm.Request
	ctx   lazyCtx
	stage *attemptTimeout
	next  llm.Sink
	began time.Time
	n     uint64 // what count was set to last, for the goroutine of the call

	// count is two for each delta that was taken, one more while one is with the reader.
	count atomic.Uint64
	// want asks for the time; at is when the delta with the count atCount was taken, counted from began.
	want    atomic.Bool
	at      atomic.Int64
	atCount atomic.Uint64

	mu      sync.Mutex // of what follows
	timer   *time.Timer
	stopped bool
	// seen is the count at the last look that found it changed, at seenAt.
	seen   uint64
	seenAt time.Duration
}

// looks is how often the timer looks while one Idle passes.
const looks = 20

func (w *silence) sink(d llm.Delta) error {
	w.count.Store(w.n + 1)
	err := w.next(d)
	w.n += 2
	w.count.Store(w.n)
	if w.n == 2 || w.want.Load() {
		w.note(w.n)
	}
	return err
}

// note keeps the time of the delta just taken.
func (w *silence) note(count uint64) {
	w.want.Store(false)
	w.at.Store(int64(time.Since(w.began)))
	w.atCount.Store(count)
	if count == 2 && w.stage.cfg.Idle > 0 {
		w.mu.Lock()
		w.set(w.stage.cfg.Idle / looks)
		w.mu.Unlock()
	}
}

// start sets the timer for the first token.
func (w *silence) start() {
	if w.stage.cfg.FirstToken > 0 {
		w.mu.Lock()
		w.set(w.stage.cfg.FirstToken)
		w.mu.Unlock()
	}
}

func (w *silence) set(in time.Duration) {
	switch {
	case w.stopped:
	case w.timer == nil:
		w.timer = time.AfterFunc(in, w.look)
	default:
		w.timer.Reset(in)
	}
}

func (w *silence) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// look ends the attempt if its time is over, or sets the timer anew.
func (w *silence) look() {
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return
	}
	cause := w.over(time.Since(w.began))
	w.mu.Unlock()
	if cause != nil {
		w.ctx.cancel(cause)
	}
}

func (w *silence) over(now time.Duration) error {
	idle, count := w.stage.cfg.Idle, w.count.Load()
	if count == 0 {
		return w.stage.noToken
	}
	if idle == 0 {
		return nil
	}
	step := max(idle/looks, 1)
	w.want.Store(true)
	since := w.seenAt
	switch {
	case count%2 == 1: // with the reader
		w.set(step)
		return nil
	case count == w.atCount.Load():
		since = time.Duration(w.at.Load())
	case count != w.seen:
		w.seen, w.seenAt, since = count, now, now
	}
	if left := since + idle - now; left > 0 {
		w.set(min(left, step))
		return nil
	}
	return limit(llm.Stalled, "silent for %v after %d deltas", idle, count/2)
}
