package middleware

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/modelchain/llm"
)

// SpendsConfig sets [NewSpends].
type SpendsConfig struct {
	// Store keeps what is spent. It must be set.
	Store SpendStore
	// Timeout is the longest that the Store delays an attempt. 0: 20 ms.
	Timeout time.Duration
	// Meter makes the metrics that tell whether the Store is up. nil: the one registered with package otel.
	Meter metric.MeterProvider
	// Logger gets a record when the Store goes down and one when it is back. nil: slog.Default().
	Logger *slog.Logger
}

// Spends shares the budgets whose BudgetConfig names it with all processes that use the same store: what a workflow may
// spend it spends once, wherever its calls are made.
//
// An attempt waits until the store has reserved for it. What it cost is told afterwards; where that is lost, such as with the
// process, the worst case stays. While the store is down, or where it takes longer than Timeout, a budget goes on with what it
// knows, and what it spends is told when the store is back: each process may then spend what was left when it last knew.
type Spends struct {
	cfg    SpendsConfig
	health *storeHealth
	ctx    context.Context //nolint:containedctx // it is the life of its goroutine
	cancel context.CancelFunc
	ended  sync.WaitGroup
	asks   chan *spendAsk
	wake   alarm

	mu    sync.Mutex
	queue []*spendAsk
}

// spendMost is how many settlements are kept while the store is down. Further ones leave the worst case.
const spendMost = 1 << 16

// spendAsk is one operation. done is nil for those that nobody waits for.
type spendAsk struct {
	of     *Budget
	id     string
	amount llm.Spending // to be reserved, or what it was
	was    llm.Spending // what is settled
	late   bool
	fits   bool // the answer
	done   chan struct{}
}

// NewSpends begins to share. It panics without a Store.
func NewSpends(cfg SpendsConfig) *Spends {
	if cfg.Store == nil {
		panic("llm/middleware: Spends: there is no Store; set one, such as that of package stores/redis")
	}
	cfg.Timeout = durationOr("Spends", "Timeout", cfg.Timeout, 20*time.Millisecond)
	s := &Spends{
		cfg: cfg, health: newStoreHealth("spends", cfg.Meter, cfg.Logger), asks: make(chan *spendAsk), wake: newAlarm(),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.ended.Go(s.run)
	return s
}

// Close tells what there is to tell, for up to a second, and ends the sharing, after which each budget goes on alone. It does
// not end the Store. The error says how much could not be told.
func (s *Spends) Close() error {
	s.cancel()
	s.ended.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.queue); n > 0 {
		return fmt.Errorf("llm/middleware: Spends: %d settlements could not be told; what was reserved counts in full", n)
	}
	return nil
}

func (s *Spends) run() {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for failed := 0; ; {
		select {
		case <-s.ctx.Done():
			s.flushLast()
			return
		case a := <-s.asks:
			s.ask(a)
			continue
		case <-s.wake:
			if failed > 0 {
				continue // the timer says when to try again
			}
		case <-retry.C:
		}
		if s.flush(s.ctx) {
			failed = 0
			continue
		}
		retry.Reset(storePause(failed))
		failed++
	}
}

// flushLast is flush once the sharing has ended.
func (s *Spends) flushLast() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.flush(ctx)
}

// flush tells what there is to tell. false: the store failed.
func (s *Spends) flush(ctx context.Context) bool {
	for {
		select {
		case a := <-s.asks: // an attempt waits
			s.ask(a)
		default:
		}
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.mu.Unlock()
			return true
		}
		a := s.queue[0]
		s.mu.Unlock()
		var got SharedSpend
		err := s.do(ctx, func(ctx context.Context) (err error) {
			got, err = s.cfg.Store.Settle(ctx, a.of.cfg.Workflow, a.id, a.amount, a.late)
			return err
		})
		if err != nil {
			return false
		}
		s.mu.Lock()
		s.queue = s.queue[1:]
		s.mu.Unlock()
		told := a.amount
		if !a.late {
			told = told.Add(negative(a.was))
		}
		a.of.learn(&got, told)
	}
}

func (s *Spends) do(ctx context.Context, op func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	err := guarded(limited, op)
	if ctx.Err() == nil {
		s.health.note(storeOps, err)
	}
	return err
}

// ask reserves what an attempt waits for.
func (s *Spends) ask(a *spendAsk) {
	defer close(a.done)
	c := &a.of.cfg
	var got SharedSpend
	err := s.do(s.ctx, func(ctx context.Context) (err error) {
		ceiling := llm.Spending{Attempts: c.Attempts, Tokens: c.Tokens, CostUSD: c.CostUSD}
		got, a.fits, err = s.cfg.Store.Reserve(ctx, c.Workflow, a.id, a.amount, ceiling)
		return err
	})
	switch {
	case err != nil:
		a.fits, a.late = true, true
	case a.fits:
		a.of.learn(&got, a.amount)
	default:
		a.of.learn(&got, llm.Spending{})
	}
}

// reserve asks the store to reserve. late says that it may not have; then fits is true.
func (s *Spends) reserve(ctx context.Context, b *Budget, want llm.Spending) (id string, late, fits bool) {
	a := &spendAsk{of: b, id: rand.Text(), amount: want, done: make(chan struct{})}
	if s.health.down() {
		s.wake.rouse() // which sees whether it is back
		return a.id, true, true
	}
	timer := time.NewTimer(s.cfg.Timeout)
	defer timer.Stop()
	select {
	case s.asks <- a:
	case <-timer.C:
		return a.id, true, true
	case <-ctx.Done():
		return a.id, true, true
	case <-s.ctx.Done():
		return a.id, true, true
	}
	select {
	case <-a.done:
		return a.id, a.late, a.fits
	case <-timer.C:
	case <-ctx.Done():
	}
	return a.id, true, true
}

// settle tells what was spent, when there is time for it.
func (s *Spends) settle(b *Budget, id string, was, is llm.Spending, late bool) {
	s.mu.Lock()
	if len(s.queue) < spendMost {
		s.queue = append(s.queue, &spendAsk{of: b, id: id, amount: is, was: was, late: late})
	}
	s.mu.Unlock()
	s.wake.rouse()
}
