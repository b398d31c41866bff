package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// fate is what becomes of a random call: how long it takes, what it uses, how it ends.
type fate struct {
	takes        time.Duration
	in, out, end int
	patience     time.Duration
}

const (
	fateAnswer = iota
	fateTurnedAway
	fateUnreached
	fateBroken
	fatePanic
	fateGoexit
	fateHang
	numFates
)

type fateKey struct{}

// randomFate is an answer as often as all else together.
func randomFate(rnd *rand.Rand) fate {
	return fate{
		takes: time.Duration(rnd.ExpFloat64() * float64(2*time.Second)), in: 1 + rnd.IntN(99), out: 1 + rnd.IntN(400),
		end: max(rnd.IntN(2*numFates)-numFates, fateAnswer), patience: time.Duration(rnd.ExpFloat64() * float64(20*time.Second)),
	}
}

// fated is a Caller that does what the fate in its context says, and notes what began and what was used.
type fated struct {
	mu    sync.Mutex
	began []event
	now   int
	most  int
}

// event is a call that began, and what it came to in the end.
type event struct {
	at               time.Time
	requests, tokens int
}

func (f *fated) Call(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
	x, _ := ctx.Value(fateKey{}).(fate)
	e := event{time.Now(), 1, x.in + x.out}
	switch x.end {
	case fateTurnedAway:
		e.tokens = 0
	case fateUnreached:
		e.requests, e.tokens = 0, 0
	}
	f.mu.Lock()
	f.began = append(f.began, e)
	f.now++
	f.most = max(f.most, f.now)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.now--
		f.mu.Unlock()
	}()
	takes := x.takes
	if x.end == fateHang {
		takes = time.Hour
	}
	t := time.NewTimer(takes)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	usage := llm.Usage{Input: x.in, Output: x.out}
	switch x.end {
	case fateTurnedAway:
		return nil, &llm.Error{Class: llm.Invalid}
	case fateUnreached:
		return nil, &llm.Error{Class: llm.Unavailable, Evidence: llm.Evidence{Phase: llm.PhaseConnect}}
	case fateBroken:
		return nil, &llm.Error{Class: llm.Interrupted, Commit: llm.Committed, Usage: usage}
	case fatePanic:
		panic("fate")
	case fateGoexit:
		runtime.Goexit()
	}
	return &llm.Response{Usage: usage}, nil
}

// TestLimitsHoldOverRandomCallsAndNothingLeaks makes random calls of all fates. Over any minute no more goes than a minute's
// limit, and Burst or one call; never more are in flight than may be; and in the end all is as in the beginning.
func TestLimitsHoldOverRandomCallsAndNothingLeaks(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			limits := middleware.Limits{Requests: 60 + rnd.IntN(600), Tokens: 6000 + rnd.IntN(60_000), InFlight: 1 + rnd.IntN(20)}
			cfg := perTenant(limits, middleware.Limits{Requests: limits.Requests/2 + 1, InFlight: limits.InFlight/2 + 1})
			cfg.Burst = time.Duration(1+rnd.IntN(15)) * time.Second
			l, model := middleware.NewLimiter(cfg), &fated{}
			chat := l.Stage("pool").Wrap(model)
			var all sync.WaitGroup
			for range 400 {
				llmtest.Advance(time.Duration(rnd.ExpFloat64() * float64(300*time.Millisecond)))
				x := randomFate(rnd)
				tenant := fmt.Sprint(rnd.IntN(4))
				all.Go(func() {
					defer func() { _ = recover() }()
					ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), fateKey{}, x), x.patience)
					defer cancel()
					_, _ = chat.Call(ctx, limiterAsk(tenant, 400))
				})
			}
			all.Wait()
			const largest = 100 + 400
			burst := cfg.Burst.Minutes()
			model.over(t, time.Minute, limits.Requests+max(int(burst*float64(limits.Requests)), 1), func(e event) int { return e.requests })
			model.over(t, time.Minute, limits.Tokens+max(int(burst*float64(limits.Tokens)), largest), func(e event) int { return e.tokens })
			if model.most > limits.InFlight {
				t.Errorf("seed %d: %d in flight of %d", seed, model.most, limits.InFlight)
			}
			llmtest.Advance(3 * time.Minute)
			for _, s := range l.Snapshot() {
				want := s.Limits.Requests
				if s.InFlight != 0 || s.Waiting != 0 || s.Left.InFlight != s.Limits.InFlight || s.Left.Requests != max(int(burst*float64(want)+1e-9), 1) {
					t.Errorf("seed %d: %v", seed, s)
				}
			}
			if s := l.Snapshot()[0]; s.Left.Tokens != int(burst*float64(limits.Tokens)+1e-9) {
				t.Errorf("seed %d: %v", seed, s)
			}
		})
	}
}

// over checks that within any window no more than most of what began counts.
func (f *fated) over(t *testing.T, window time.Duration, most int, of func(event) int) {
	t.Helper()
	slices.SortStableFunc(f.began, func(a, b event) int { return a.at.Compare(b.at) })
	if len(f.began) < 20 {
		t.Errorf("only %d calls began", len(f.began))
	}
	sum, from := 0, 0
	for _, e := range f.began {
		sum += of(e)
		for ; e.at.Sub(f.began[from].at) >= window; from++ {
			sum -= of(f.began[from])
		}
		if sum > most {
			t.Errorf("%d within %v, want at most %d", sum, window, most)
			return
		}
	}
}

// TestReservationsAreConserved compares what is left with what was there, less all that was used, while nothing flows in.
func TestReservationsAreConserved(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			const limit = 1_000_000
			l := middleware.NewLimiter(middleware.LimiterConfig{
				Limits: middleware.Limits{Requests: limit, Input: limit, Output: limit, Tokens: limit}, Burst: time.Minute,
				Key: middleware.ByLabel("tenant"), PerKey: middleware.Limits{Tokens: limit}, Counter: fixedCount(50),
			})
			chat := l.Stage("pool").Wrap(&fated{})
			want := middleware.Limits{Requests: limit, Input: limit, Output: limit, Tokens: limit}
			for range 200 { // all in one moment of the clock
				x := fate{in: 1 + rnd.IntN(99), out: 1 + rnd.IntN(400), end: rnd.IntN(fateHang)}
				var one sync.WaitGroup
				one.Go(func() {
					defer func() { _ = recover() }()
					_, _ = chat.Call(context.WithValue(t.Context(), fateKey{}, x), limiterAsk("a", 200))
				})
				one.Wait()
				in, out := x.in, x.out
				switch x.end {
				case fateUnreached:
					continue
				case fateTurnedAway:
					in, out = 0, 0
				case fatePanic, fateGoexit:
					in, out = 50, 200
				}
				want.Requests--
				want.Input -= in
				want.Output -= out
				want.Tokens -= in + out
			}
			if s := l.Snapshot(); s[0].Left != want || s[1].Left.Tokens != want.Tokens {
				t.Errorf("seed %d: %v and %v, want %+v", seed, s[0], s[1], want)
			}
		})
	}
}

// TestManyGoroutinesAndCancels is for the race detector: whatever happens, nothing is left behind.
func TestManyGoroutinesAndCancels(t *testing.T) {
	cfg := perTenant(middleware.Limits{Requests: 600_000, Tokens: 60_000_000, InFlight: 8}, middleware.Limits{Requests: 60_000, InFlight: 3})
	cfg.MaxKeys, cfg.MaxWait = 5, 20*time.Millisecond
	l := middleware.NewLimiter(cfg)
	var inFlight, most, answered atomic.Int32
	chat := l.Stage("pool").Wrap(llm.CallerFunc(func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		defer inFlight.Add(-1)
		for n := inFlight.Add(1); n > most.Load(); n = inFlight.Load() {
			most.Store(n)
		}
		runtime.Gosched()
		if r.MaxTokens%7 == 0 {
			return nil, errors.New("no")
		}
		return &llm.Response{Usage: llm.Usage{Input: 10, Output: r.MaxTokens}}, ctx.Err()
	}))
	var all sync.WaitGroup
	for g := range 32 {
		all.Go(func() {
			for i := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%3 == 0 {
					time.AfterFunc(time.Duration(i)*time.Microsecond, cancel)
				}
				if resp, err := chat.Call(ctx, limiterAsk(fmt.Sprint((g+i)%9), 1+i)); err == nil && resp != nil {
					answered.Add(1)
				}
				if i%50 == 0 {
					_ = l.Snapshot()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if most.Load() > 8 || answered.Load() == 0 {
		t.Errorf("%d in flight of 8, %d answered", most.Load(), answered.Load())
	}
	for _, s := range l.Snapshot() {
		if s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("%v", s)
		}
	}
}
