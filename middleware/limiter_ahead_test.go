package middleware_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/llmtest/storetest"
	"github.com/modelchain/llm/middleware"
)

// within takes a time for each call.
func within(d time.Duration) llm.Caller {
	step := used(10, 1)
	step.Delay = d
	return llmtest.Script(step)
}

func TestCallsThatComeOftenDoNotEachWaitForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewLimits()
		cfg := middleware.LimiterConfig{Limits: middleware.Limits{Requests: 600_000, Tokens: 600_000_000, InFlight: 1000}}
		mine, other := sharing(t, store, cfg), sharing(t, store, cfg)
		chat := llm.New(mine.Stage("")).Then(&llm.Deployment{Name: "d", Caller: within(100 * time.Microsecond)})
		llm.New(other.Stage("")).Then(&llm.Deployment{Name: "d", Caller: llmtest.Script()})
		llmtest.Advance(31 * time.Second)
		before := store.Exchanges()
		for range 2000 {
			answer(t, chat)
		}
		if n := store.Exchanges() - before; n > 60 {
			t.Errorf("2000 calls in 200 ms needed %d exchanges, want one each 10 ms beside the first few", n)
		}
		llmtest.Advance(31 * time.Second)
		for who, l := range map[string]*middleware.Limiter{"here": mine, "elsewhere": other} {
			want := middleware.Limits{Requests: 10_000, Tokens: 100_000_000, InFlight: 1000}
			if got := l.Snapshot()[0]; got.Left != want {
				t.Errorf("%s there is left %+v after all calls have ended, want %+v", who, got.Left, want)
			}
		}
	})
}

// What a second allows is 10 requests: there is nothing to spare.
func TestNothingIsTakenAheadOfSlowLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := replicas(t, 2, storetest.NewLimits(), perMinute(600), llmtest.Script())
		began := time.Now()
		for range 5 {
			answer(t, fleet[0])
		}
		for range 5 {
			answer(t, fleet[1])
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("ten calls of two replicas waited %v", d)
		}
	})
}

// A process has its share ahead when the others take all the rest.
func TestLimitsHoldWhereReplicasTakeAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const replicasOf, callers, lasts = 4, 40, 3 * time.Second
		cfg := middleware.LimiterConfig{Limits: middleware.Limits{Requests: 60_000, InFlight: 320}}
		var calls, now, most atomic.Int64
		model := llm.CallerFunc(func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
			calls.Add(1)
			n := now.Add(1)
			defer now.Add(-1)
			for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
			}
			return within(20*time.Millisecond).Call(ctx, r)
		})
		fleet := replicas(t, replicasOf, storetest.NewLimits(), cfg, model)
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		var all sync.WaitGroup
		for i := range replicasOf * callers {
			all.Go(func() {
				for err := error(nil); err == nil; {
					_, err = fleet[i%replicasOf].Call(ctx, limiterAsk("", 1))
				}
			})
		}
		all.Wait()
		if n := calls.Load(); n > 4000 || n < 3900 {
			t.Errorf("%d calls in %v, want all of the 4000 that a burst of 1000 and 1000 a second allow", n, lasts)
		}
		if n := most.Load(); n > 160 {
			t.Errorf("%d calls at once of %d callers", n, replicasOf*callers)
		}
	})
}

// What calls took ahead and do not need goes back within hundredths of a second, so that others have it, keys are forgotten and
// no slot outlives its lease.
func TestWhatIsKeptAheadGoesBackOnceCallsStop(t *testing.T) {
	for name, cfg := range map[string]middleware.LimiterConfig{
		"slots":              {Limits: middleware.Limits{InFlight: 64}},
		"requests":           {Limits: middleware.Limits{Requests: 60_000}, Burst: time.Minute},
		"slots and requests": {Limits: middleware.Limits{Requests: 60_000, InFlight: 320}, Burst: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := storetest.NewLimits()
			chat := replicas(t, 1, store, cfg, within(time.Millisecond))[0]
			const callers, each = 4, 100
			limiterGo(slices.Repeat([]func(){func() {
				for range each {
					answer(t, chat)
				}
			}}, callers)...)
			llmtest.Advance(30 * time.Millisecond)
			got, err := store.Exchange(t.Context(), []middleware.LimitNews{{
				Name: "/d", Replica: "another", Number: 1, Limits: cfg.Limits, Burst: middleware.Limits{Requests: cfg.Limits.Requests},
			}})
			if most := callers * each * time.Millisecond; err != nil || got[0].InFlight != 0 || got[0].Lacks.Requests > most {
				t.Errorf("%s: the store has %+v (%v) after the last call; want no slot taken, and at most %v of requests", name, got, err, most)
			}
		})
	}
}

func TestKeysThatHadSomethingAheadAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := sharing(t, storetest.NewLimits(), middleware.LimiterConfig{
			PerKey: middleware.Limits{Requests: 6000, InFlight: 64}, Key: middleware.ByLabel("tenant"), MaxKeys: 4,
		})
		chat := llm.New(l.Stage("")).Then(&llm.Deployment{Name: "d", Caller: within(time.Millisecond)})
		call := func(tenant string) {
			if _, err := chat.Call(t.Context(), limiterAsk(tenant, 1)); err != nil {
				t.Error(err)
			}
		}
		for _, tenant := range []string{"a", "b", "c", "d"} {
			for _, n := range []int{15, 2, 2} {
				for range n {
					call(tenant)
				}
				llmtest.Advance(2 * time.Millisecond)
			}
		}
		llmtest.Advance(24 * time.Hour)
		call("e")
		if all := l.Snapshot(); !slices.ContainsFunc(all, func(s middleware.LimiterState) bool { return s.Key == "e" }) {
			t.Errorf("a new key a day later is none of its own: %v", all)
		}
	})
}

// A slot that is granted with a wait, for a rate, is held as long as one of a call.
func TestASlotThatWaitsForItsTimeIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Int64
		takes := map[string]time.Duration{"quick": 0, "slow": 100 * time.Second}
		model := llm.CallerFunc(func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
			defer now.Add(-1)
			if n := now.Add(1); n > 1 {
				t.Errorf("%d at once", n)
			}
			return within(takes[r.Labels["tenant"]]).Call(ctx, r)
		})
		cfg := middleware.LimiterConfig{Limits: middleware.Limits{Requests: 2, InFlight: 1}, MaxWait: 5 * time.Minute}
		fleet := replicas(t, 2, storetest.NewLimits(), cfg, model)
		call := func(chat llm.Caller, who string) {
			if _, err := chat.Call(t.Context(), limiterAsk(who, 1)); err != nil {
				t.Error(err)
			}
		}
		call(fleet[0], "quick")
		var all sync.WaitGroup
		all.Go(func() { call(fleet[0], "slow") }) // in half a minute, for which it has the slot
		llmtest.Advance(20 * time.Second)
		all.Go(func() { call(fleet[1], "slow") })
		all.Wait()
	})
}
