package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/llmtest/storetest"
	"github.com/modelchain/llm/middleware"
)

// sharing is a limiter of a process of its own.
func sharing(t *testing.T, store middleware.LimitStore, cfg middleware.LimiterConfig) *middleware.Limiter {
	t.Helper()
	cfg.Store = store
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	l := middleware.NewLimiter(cfg)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// replicas are n processes that share a store, around one model.
func replicas(t *testing.T, n int, store middleware.LimitStore, cfg middleware.LimiterConfig, model llm.Caller) []llm.Caller {
	t.Helper()
	fleet := make([]llm.Caller, n)
	for i := range fleet {
		fleet[i] = llm.New(sharing(t, store, cfg).Stage("")).Then(&llm.Deployment{Name: "d", Caller: model})
	}
	llmtest.Advance(31 * time.Second) // each knows of the others
	return fleet
}

func answer(t *testing.T, chat llm.Caller) {
	t.Helper()
	if _, err := chat.Call(t.Context(), limiterAsk("", 1)); err != nil {
		t.Error(err)
	}
}

// eachOnce checks that calls of the model came one after the other, so far apart.
func eachOnce(t *testing.T, m *llmtest.Model, apart time.Duration) {
	t.Helper()
	calls := m.Calls()
	for i := 1; i < len(calls); i++ {
		if d := calls[i].At.Sub(calls[i-1].At); d != apart {
			t.Errorf("call %d came %v after the one before, want %v", i, d, apart)
		}
	}
}

func TestLimitsAreOneForAllReplicasAndTheyTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script()
		fleet := replicas(t, 3, storetest.NewLimits(), perMinute(60), model)
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() { answer(t, fleet[i%3]) })
			synctest.Wait()
		}
		all.Wait()
		if model.Count() != 12 {
			t.Fatalf("%d calls", model.Count())
		}
		eachOnce(t, model, time.Second)
	})
}

func TestARefusalTellsTheWaitOfAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := replicas(t, 2, storetest.NewLimits(), perMinute(60), llmtest.Script())
		answer(t, fleet[0])
		var all sync.WaitGroup
		all.Go(func() { answer(t, fleet[0]) }) // in a second
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := fleet[1].Call(ctx, limiterAsk("", 1))
		refusal(t, err, 2*time.Second)
		if d := time.Since(began); d != 0 {
			t.Errorf("it was refused after %v", d)
		}
		all.Wait()
		llmtest.Advance(time.Second)
		answer(t, fleet[1])
	})
}

func TestWhatALeavingCallHadGoesToOtherReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script()
		fleet := replicas(t, 2, storetest.NewLimits(), perMinute(6), model)
		answer(t, fleet[0])
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _, _ = fleet[0].Call(ctx, limiterAsk("", 1)) }) // its place is in ten seconds
		llmtest.Advance(time.Second)
		cancel()
		all.Wait()
		llmtest.Advance(time.Second)
		answer(t, fleet[1])
		eachOnce(t, model, 10*time.Second)
	})
}

func TestWhatIsNotUsedComesBackToAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewLimits()
		cfg := middleware.LimiterConfig{Limits: middleware.Limits{Output: 1000}, Burst: time.Minute}
		fleet := replicas(t, 2, store, cfg, llmtest.Script(used(1, 100), used(1, 100)))
		began := time.Now()
		if _, err := fleet[0].Call(t.Context(), limiterAsk("", 900)); err != nil {
			t.Error(err)
		}
		llmtest.Advance(20 * time.Millisecond)
		if _, err := fleet[1].Call(t.Context(), limiterAsk("", 900)); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > 50*time.Millisecond {
			t.Errorf("800 of 900 tokens were not used, and the other waited %v", d)
		}
	})
}

func TestCallsInFlightAreCountedInAllReplicasAndTheyTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		var who []string
		model := llm.CallerFunc(func(_ context.Context, r *llm.Request) (*llm.Response, error) {
			mu.Lock()
			now++
			most = max(most, now)
			who = append(who, r.Labels["tenant"])
			mu.Unlock()
			takes := time.NewTimer(time.Second)
			defer takes.Stop()
			<-takes.C
			mu.Lock()
			now--
			mu.Unlock()
			return &llm.Response{Parts: []llm.Part{llm.Text("ok")}}, nil
		})
		store := storetest.NewLimits()
		fleet := replicas(t, 3, store, middleware.LimiterConfig{Limits: middleware.Limits{InFlight: 2}}, model)
		began := time.Now()
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				if _, err := fleet[i%3].Call(t.Context(), limiterAsk(fmt.Sprint(i%3), 1)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most != 2 {
			t.Errorf("%d at once, want 2", most)
		}
		if d := time.Since(began); d > 18*time.Second {
			t.Errorf("30 calls of a second, two at a time, took %v", d)
		}
		first := slices.Compact(slices.Sorted(slices.Values(who[:8])))
		if len(first) != 3 {
			t.Errorf("of the first calls, %v, one replica has none", who[:8])
		}
	})
}

func TestKeysAreLimitedAndTakeTurnsInAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script()
		fleet := replicas(t, 2, storetest.NewLimits(), perTenant(middleware.Limits{Requests: 600}, middleware.Limits{Requests: 60}), model)
		var all sync.WaitGroup
		for i := range 24 {
			all.Go(func() {
				if _, err := fleet[i%2].Call(t.Context(), limiterAsk(fmt.Sprint("t", i%3), 1)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		last := map[string]time.Time{}
		for _, c := range model.Calls() {
			tenant := c.Request.Labels["tenant"]
			if d := c.At.Sub(last[tenant]); d < time.Second {
				t.Errorf("%v between two calls of %s", d, tenant)
			}
			last[tenant] = c.At
		}
		if model.Count() != 24 {
			t.Errorf("%d calls", model.Count())
		}
	})
}

func TestKeysTakeTurnsInALimitThatIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script()
		fleet := replicas(t, 1, storetest.NewLimits(), perTenant(middleware.Limits{Requests: 60}, middleware.Limits{}), model)
		var calls []func()
		for tenant := range strings.SplitSeq("aaaaaaab", "") {
			calls = append(calls, func() {
				if _, err := fleet[0].Call(t.Context(), limiterAsk(tenant, 1)); err != nil {
					t.Error(err)
				}
			})
		}
		limiterGo(calls...)
		if got := tenants(model); !strings.HasPrefix(got, "aab") {
			t.Errorf("%s: the one call of b waits for all of a's", got)
		}
	})
}

// hanging is a store that does not answer while it is told to hang, whatever becomes of what it is asked.
type hanging struct {
	*storetest.Limits
	mu     sync.Mutex
	hangs  bool
	counts bool // it takes in what it does not answer
}

func (s *hanging) hang(on, counts bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs, s.counts = on, counts
}

func (s *hanging) Exchange(ctx context.Context, news []middleware.LimitNews) ([]middleware.SharedLimit, error) {
	s.mu.Lock()
	hangs, counts := s.hangs, s.counts
	s.mu.Unlock()
	if !hangs {
		return s.Limits.Exchange(ctx, news)
	}
	if counts {
		if _, err := s.Limits.Exchange(ctx, news); err != nil {
			return nil, err
		}
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAStoreThatHangsDelaysNoCallForLong(t *testing.T) {
	for _, counts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, alarms := &hanging{Limits: storetest.NewLimits()}, &fleetAlarms{}
			cfg := perMinute(600)
			from := alarms.config(nil)
			cfg.Logger, cfg.Meter = from.Logger, from.Meter
			model := llmtest.Script()
			fleet := replicas(t, 5, store, cfg, model)
			store.hang(true, counts)
			began := time.Now()
			answer(t, fleet[0])
			if d := time.Since(began); d > 20*time.Millisecond {
				t.Errorf("a call was delayed by %v", d)
			}
			llmtest.Advance(2 * time.Minute)
			alarms.expect(t, 5, 0, 0)
			began = time.Now()
			answer(t, fleet[1])
			answer(t, fleet[0])
			if d := time.Since(began); d > 20*time.Millisecond {
				t.Errorf("calls were delayed by %v", d)
			}
			// Ten a second for five is two a second for each.
			began = time.Now()
			for range 10 {
				answer(t, fleet[2])
			}
			if d := time.Since(began); d < 4*time.Second || d > 5*time.Second {
				t.Errorf("ten calls of one of five took %v", d)
			}
			store.hang(false, false)
			llmtest.Advance(5 * time.Second)
			before := model.Count()
			began = time.Now()
			for range 30 {
				answer(t, fleet[3])
			}
			if d := time.Since(began); d < 1900*time.Millisecond || d > 2100*time.Millisecond {
				t.Errorf("when it was back, %d calls took %v, want 10 at once and 10 a second", model.Count()-before, d)
			}
			alarms.expect(t, 5, 5, 1) // one of each replica
		})
	}
}

func TestWithoutAStoreEachReplicaHasItsShareOfCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewLimits()
		gate := make(chan struct{})
		model := llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return &llm.Response{Parts: []llm.Part{llm.Text("ok")}}, nil
		})
		fleet := replicas(t, 4, store, middleware.LimiterConfig{Limits: middleware.Limits{InFlight: 8}, MaxWait: time.Second}, model)
		store.Fail(errors.New("down"))
		var all sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		for range 5 {
			all.Go(func() {
				if _, err := fleet[0].Call(t.Context(), limiterAsk("", 1)); err != nil {
					mu.Lock()
					defer mu.Unlock()
					refused++
				}
			})
		}
		llmtest.Advance(2 * time.Second)
		mu.Lock()
		if refused != 3 {
			t.Errorf("%d of 5 calls were refused, want all but a quarter of the 8", refused)
		}
		mu.Unlock()
		close(gate)
		all.Wait()
		store.Fail(nil)
		llmtest.Advance(5 * time.Second)
		for range 8 {
			answer(t, fleet[0])
		}
	})
}

func TestAStoreThatWasLostKnowsWhatReplicasKnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewLimits()
		model := llmtest.Script()
		fleet := replicas(t, 2, store, perMinute(6), model)
		answer(t, fleet[0])
		store.Lose()
		answer(t, fleet[0])
		answer(t, fleet[1])
		eachOnce(t, model, 10*time.Second)
	})
}

func TestALimiterThatIsClosedGivesBackAndGoesOnAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewLimits()
		cfg := perMinute(60)
		l := sharing(t, store, cfg)
		chat := l.Stage("p").Wrap(llmtest.Script())
		ctx, cancel := context.WithCancel(t.Context())
		answer(t, chat)
		var all sync.WaitGroup
		all.Go(func() { _, _ = chat.Call(ctx, limiterAsk("", 1)) })
		synctest.Wait()
		cancel()
		all.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		began := time.Now()
		answer(t, sharing(t, store, cfg).Stage("p").Wrap(llmtest.Script()))
		if d := time.Since(began); d != time.Second {
			t.Errorf("another waited %v for what was given back", d)
		}
		before := store.Exchanges()
		answer(t, chat)
		if n := store.Exchanges(); n != before {
			t.Errorf("%d exchanges of a limiter that is closed", n-before)
		}
	})
}

// Keys are forgotten as they are without a Store, also while it is down and after Close.
func TestKeysThatAreSharedAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewLimits()
		cfg := perTenant(middleware.Limits{}, middleware.Limits{Requests: 60})
		cfg.MaxKeys = 10
		l := sharing(t, store, cfg)
		chat := l.Stage("p").Wrap(llmtest.Script())
		flood := func(what string) {
			t.Helper()
			for i := range 30 {
				if _, err := chat.Call(t.Context(), limiterAsk(fmt.Sprint(what, i), 1)); err != nil {
					t.Error(err)
				}
				llmtest.Advance(2 * time.Second)
			}
			for _, s := range l.Snapshot() {
				if strings.Contains(s.Key, "beyond") {
					t.Errorf("%s: %v", what, s)
				}
			}
			if s := l.Snapshot(); len(s) > 11 || s[len(s)-1].Key[:len(what)] != what {
				t.Errorf("%s: of the last calls no key is known: %v", what, s)
			}
		}
		flood("shared")
		store.Fail(errors.New("down"))
		flood("while it is down")
		store.Fail(nil)
		llmtest.Advance(time.Minute)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		flood("which was closed")
	})
}

func TestARefusalSlowsAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.RateLimited, RetryAfter: 3 * time.Second}), llmtest.Text("ok"))
		fleet := replicas(t, 3, storetest.NewLimits(), perMinute(600), model)
		began := time.Now()
		if _, err := fleet[0].Call(t.Context(), limiterAsk("", 1)); !errors.Is(err, llm.RateLimited) {
			t.Error(err)
		}
		llmtest.Advance(20 * time.Millisecond)
		for range 9 {
			answer(t, fleet[1])
		}
		calls := model.Calls()
		if d := calls[1].At.Sub(began); d < 3*time.Second || d > 3300*time.Millisecond {
			t.Errorf("another replica called %v after the provider asked for 3s", d)
		}
		// Ten a second, halved, and a twentieth of the ten more after two seconds.
		if d := calls[9].At.Sub(calls[1].At); d < 1300*time.Millisecond || d > 1600*time.Millisecond {
			t.Errorf("eight more calls took %v, want a good half of the rate", d)
		}
	})
}

func TestWhatAProviderSaysIsLeftHoldsForAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := &llm.Error{Class: llm.Unavailable}
		failed.Evidence.Header = http.Header{"X-Ratelimit-Remaining-Requests": {"2"}}
		model := llmtest.Script(llmtest.Fail(failed), llmtest.Text("ok"))
		fleet := replicas(t, 2, storetest.NewLimits(), perMinute(600), model)
		if _, err := fleet[0].Call(t.Context(), limiterAsk("", 1)); !errors.Is(err, llm.Unavailable) {
			t.Error(err)
		}
		llmtest.Advance(time.Millisecond)
		began := time.Now()
		for range 4 {
			answer(t, fleet[1])
		}
		if d := time.Since(began); d < 150*time.Millisecond || d > 200*time.Millisecond {
			t.Errorf("four calls took %v, with two left and ten a second", d)
		}
	})
}

// TestSharedLimitsHoldOverRandomCallsAndNothingLeaks makes random calls of all fates in several replicas.
func TestSharedLimitsHoldOverRandomCallsAndNothingLeaks(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			limits := middleware.Limits{Requests: 60 + rnd.IntN(600), Tokens: 6000 + rnd.IntN(60_000), InFlight: 1 + rnd.IntN(20)}
			cfg := perTenant(limits, middleware.Limits{Requests: limits.Requests/2 + 1, InFlight: limits.InFlight/2 + 1})
			cfg.Burst = time.Duration(1+rnd.IntN(15)) * time.Second
			store, model := storetest.NewLimits(), &fated{}
			var fleet []*middleware.Limiter
			var chats []llm.Caller
			for range 1 + rnd.IntN(6) {
				l := sharing(t, store, cfg)
				fleet = append(fleet, l)
				chats = append(chats, l.Stage("pool").Wrap(model))
			}
			var all sync.WaitGroup
			for range 400 {
				llmtest.Advance(time.Duration(rnd.ExpFloat64() * float64(300*time.Millisecond)))
				x := randomFate(rnd)
				tenant, chat := fmt.Sprint(rnd.IntN(4)), chats[rnd.IntN(len(chats))]
				all.Go(func() {
					defer func() { _ = recover() }()
					ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), fateKey{}, x), x.patience)
					defer cancel()
					_, _ = chat.Call(ctx, limiterAsk(tenant, 400))
				})
			}
			all.Wait()
			burst := cfg.Burst.Minutes()
			// Between the end of a call and the exchange that tells it pass ten milliseconds, in which another may have used it.
			model.over(t, time.Minute-time.Second, limits.Requests+max(int(burst*float64(limits.Requests)), 1), func(e event) int { return e.requests })
			model.over(t, time.Minute-time.Second, limits.Tokens+max(int(burst*float64(limits.Tokens)), 500), func(e event) int { return e.tokens })
			if model.most > limits.InFlight {
				t.Errorf("seed %d: %d in flight of %d", seed, model.most, limits.InFlight)
			}
			llmtest.Advance(3 * time.Minute)
			for _, l := range fleet {
				for _, s := range l.Snapshot() {
					if s.InFlight != 0 || s.Waiting != 0 {
						t.Errorf("seed %d: %v", seed, s)
					}
				}
			}
			for _, chat := range chats { // all that there is may be had in each of them
				began := time.Now()
				for range limits.InFlight {
					ctx := context.WithValue(t.Context(), fateKey{}, fate{in: 1, end: fateUnreached})
					if _, err := chat.Call(ctx, limiterAsk("0", 1)); err == nil || llm.AsError(err).Skipped {
						t.Errorf("seed %d: %v", seed, err)
					}
				}
				if d := time.Since(began); d > time.Second {
					t.Errorf("seed %d: what is free took %v", seed, d)
				}
			}
		})
	}
}
