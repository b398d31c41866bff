package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/modelchain/llm"
)

// What is written.
const (
	journalBegin = "begin"
	journalEnd   = "end"
	keyWrite     = attribute.Key("llm.journal.write")
)

// journalMost is how many writes are under way at most.
const journalMost = 4096

// ErrJournalDown is in the chain of the error of an attempt that was refused because its row could not be written.
var ErrJournalDown = errors.New("the journal cannot be written")

var errJournalRests = errors.New("it failed before, and it is not yet time to try again")

// journalPen writes, and knows whether the store can be written.
type journalPen struct {
	cfg      *JournalConfig
	room     chan struct{} // a place for each write under way
	failures metric.Int64Counter
	refusals metric.Int64Counter

	down atomic.Bool
	next atomic.Int64 // when one is tried again, in nanoseconds
	mu   sync.Mutex   // held to change down
	lost int          // writes that failed since it is
}

func newJournalPen(cfg *JournalConfig) *journalPen {
	provider := cfg.Meter
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	meter := provider.Meter(scopeName, metric.WithSchemaURL(schemaURL))
	counter := func(name, unit, about string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
		if err != nil {
			otel.Handle(err)
		}
		c.Add(context.Background(), 0) // a series that begins with its first event hides that event from rate()
		return c
	}
	return &journalPen{
		cfg: cfg, room: make(chan struct{}, journalMost),
		failures: counter("llm.client.journal.failures", "{write}", "Writes of the journal that failed or came too late."),
		refusals: counter("llm.client.journal.refused", "{attempt}", "Attempts refused because they could not be journaled."),
	}
}

// resting says that the store is down and will not be tried at that moment. nil: it is not.
func (p *journalPen) resting(at time.Time) error {
	if p.down.Load() && at.UnixNano() < p.next.Load() {
		return errJournalRests
	}
	return nil
}

// probe reports whether the one who asks is to try the store that is down.
func (p *journalPen) probe() bool {
	now, next := time.Now().UnixNano(), p.next.Load()
	return now >= next && p.next.CompareAndSwap(next, now+int64(p.cfg.Timeout))
}

// before writes what comes before a call. ctx is the attempt's: who leaves does not wait.
func (p *journalPen) before(ctx context.Context, write func(context.Context) error) error {
	switch {
	case !p.down.Load():
		if p.cfg.Ack == AckNone {
			p.handOver(ctx, journalBegin, write)
			return nil
		}
	case !p.probe():
		p.failed(ctx, journalBegin, errJournalRests)
		return errJournalRests
	}
	return p.begin(ctx, journalBegin, write)()
}

// after writes how something ended, although ctx may be over, and returns what waits for it. nil: nobody needs to.
func (p *journalPen) after(ctx context.Context, write func(context.Context) error) (written func() error) {
	if p.down.Load() && !p.probe() || p.cfg.Ack != AckAll && !p.down.Load() {
		p.handOver(ctx, journalEnd, write)
		return nil
	}
	return p.begin(context.WithoutCancel(ctx), journalEnd, write)
}

// begin begins to write, and returns what waits for it until the time-out is over. Where ctx ended first, the store is not to
// blame.
func (p *journalPen) begin(ctx context.Context, what string, write func(context.Context) error) func() error {
	limited, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	select {
	case p.room <- struct{}{}:
	case <-limited.Done():
		cancel()
		err := fmt.Errorf("%d writes are under way for more than %v", cap(p.room), p.cfg.Timeout)
		p.failed(ctx, what, err)
		return func() error { return err }
	}
	done := make(chan error, 1)
	go func() {
		defer func() { cancel(); <-p.room }()
		done <- guarded(limited, write)
	}()
	return func() error { return p.ended(ctx, limited, what, done) }
}

func (p *journalPen) ended(ctx, limited context.Context, what string, done <-chan error) (err error) {
	select {
	case err = <-done:
	case <-limited.Done():
		select {
		case err = <-done: // it was there too
		default:
			err = fmt.Errorf("not written within %v: %w", p.cfg.Timeout, limited.Err())
		}
	}
	if err == nil {
		p.written(ctx)
		return nil
	}
	if ctx.Err() == nil {
		p.failed(ctx, what, err)
	}
	return err
}

// handOver writes without anybody waiting. Only where too many are under way it waits for a place, and not at all if the
// store is down.
func (p *journalPen) handOver(ctx context.Context, what string, write func(context.Context) error) {
	ctx = context.WithoutCancel(ctx)
	select {
	case p.room <- struct{}{}:
	default:
		if !p.place(ctx, what) {
			return
		}
	}
	go func() {
		defer func() { <-p.room }()
		limited, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
		defer cancel()
		if err := guarded(limited, write); err != nil {
			p.failed(ctx, what, err)
			return
		}
		p.written(ctx)
	}()
}

func (p *journalPen) place(ctx context.Context, what string) bool {
	wait := p.cfg.Timeout
	if p.down.Load() {
		wait = 0
	}
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case p.room <- struct{}{}:
		return true
	case <-limited.Done():
		p.failed(ctx, what, fmt.Errorf("%d writes are under way", cap(p.room)))
		return false
	}
}

// guarded makes a panic of the store an error: it is not the call's goroutine that would end.
func guarded(ctx context.Context, write func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &llm.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return write(ctx)
}

// failed counts a write that failed.
func (p *journalPen) failed(ctx context.Context, what string, err error) {
	p.failures.Add(ctx, 1, attrSet(nil, keyWrite.String(what)))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost++
	if p.down.Load() {
		return
	}
	p.next.Store(time.Now().Add(p.cfg.Timeout).UnixNano())
	p.down.Store(true)
	then := "attempts are refused"
	if p.cfg.Down == DownGoOn {
		then = "attempts go on"
	}
	p.logger().LogAttrs(ctx, slog.LevelError, "llm journal down", slog.String("then", then), slog.String("error", err.Error()))
}

// written notes that the store can be written.
func (p *journalPen) written(ctx context.Context) {
	if !p.down.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.down.Load() {
		return
	}
	p.logger().LogAttrs(ctx, slog.LevelInfo, "llm journal back", slog.Int("failed_writes", p.lost))
	p.lost = 0
	p.down.Store(false)
}

func (p *journalPen) refuse(ctx context.Context) { p.refusals.Add(ctx, 1) }

func (p *journalPen) logger() *slog.Logger {
	if p.cfg.Logger != nil {
		return p.cfg.Logger
	}
	return slog.Default()
}
