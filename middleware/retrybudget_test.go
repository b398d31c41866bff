package middleware_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// budgetRetry is a retry whose waits are too short to earn tokens.
func budgetRetry(b *middleware.RetryBudget, limit int) middleware.RetryConfig {
	return middleware.RetryConfig{Max: limit, Base: time.Microsecond, Budget: b}
}

func TestRetryBudgetChargesByClassAndGivesBackWhatWasAnswered(t *testing.T) {
	for _, test := range []struct {
		name   string
		errs   []error
		max    int
		tokens int
	}{
		{"failed retries cost", []error{llm.Unavailable, llm.Unavailable, llm.Unavailable}, 2, 140 - 2*14},
		{"less after a rate limit", []error{llm.RateLimited, llm.RateLimited, llm.RateLimited}, 2, 140 - 2*5},
		{"by what was repeated", []error{llm.RateLimited, llm.Unavailable}, 1, 140 - 5},
		{"an answer gives the cost back", []error{llm.Unavailable}, 2, 140},
		{"but only of its own retry", []error{llm.Unavailable, llm.Unavailable}, 2, 140 - 14},
		{"invalid is an answer", []error{llm.Unavailable, llm.Invalid}, 2, 140},
		{"not found is an answer", []error{llm.Unavailable, llm.NotFound}, 2, 140},
		{"refused is an answer", []error{llm.RateLimited, llm.Refused}, 2, 140},
		{"auth is an answer", []error{llm.Unavailable, llm.Auth}, 2, 140},
		{"too long is an answer", []error{llm.Unavailable, llm.TooLong}, 2, 140},
		{"silence is none", []error{llm.Unavailable, llm.Stalled}, 2, 140 - 14},
		{"nor is a bad output", []error{llm.Unavailable, llm.BadOutput, llm.BadOutput}, 2, 140 - 2*14},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				budget := middleware.NewRetryBudget(middleware.RetryBudgetConfig{})
				_, _ = retryAround(budgetRetry(budget, test.max), retryScript(test.errs...)).Call(t.Context(), retryAsk())
				if budget.Tokens() != test.tokens {
					t.Errorf("%v, want %d", budget, test.tokens)
				}
			})
		})
	}
}

// budgetDrained is a budget of which only what two retries do not cost is left.
func budgetDrained(t *testing.T) *middleware.RetryBudget {
	b := middleware.NewRetryBudget(middleware.RetryBudgetConfig{})
	_, _ = retryAround(budgetRetry(b, 100), llmtest.Script(llmtest.Fail(llm.Unavailable))).Call(t.Context(), retryAsk())
	if b.Tokens() != 0 {
		t.Fatalf("%v, want it empty", b)
	}
	return b
}

func TestRetryBudgetFillsBySuccessesAndByTimeUpToItsCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budgetDrained(t)
		chat := retryAround(budgetRetry(b, 1), llmtest.Script())
		for n := 1; n <= 100; n++ {
			if _, err := chat.Call(t.Context(), retryAsk()); err != nil || b.Tokens() != min(2*n, 140) {
				t.Fatalf("%v after %d successes (error %v), want two each", b, n, err)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := budgetDrained(t)
		for s := 1; s <= 200; s++ {
			if llmtest.Advance(time.Second); b.Tokens() != min(s, 140) {
				t.Fatalf("%v after %d seconds, want one each", b, s)
			}
		}
	})
}

func TestRetryBudgetThatIsEmptyEndsTheCallAtOnceAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, start := budgetDrained(t), time.Now()
		model := llmtest.Script(llmtest.Fail(llm.Unavailable))
		_, err := retryAround(middleware.RetryConfig{Budget: b, Base: time.Minute, Cap: time.Minute}, model).Call(
			t.Context(), retryAsk())
		if time.Since(start) > 0 || model.Count() != 1 || llm.ClassOf(err) != llm.Unavailable {
			t.Errorf("%d calls in %v, error %v; want the failure at once", model.Count(), time.Since(start), err)
		}
		if skips := retrySkips(t, err); len(skips) != 1 || !strings.Contains(skips[0], "used up (0 of 140 tokens)") {
			t.Errorf("account says %q, want the budget", skips)
		}
	})
}

func TestRetryBudgetBoundsCallsThatFailOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Fail(llm.Unavailable))
		chat := retryAround(budgetRetry(nil, 2), model)
		for range 100 {
			_, _ = chat.Call(t.Context(), retryAsk())
		}
		if model.Count() != 100+140/14 {
			t.Errorf("%d attempts for 100 failing calls, want ten retries in all", model.Count())
		}
	})
}

func TestRetryBudgetIsPerCallerUnlessShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := middleware.NewRetryBudget(middleware.RetryBudgetConfig{})
		for name, test := range map[string]struct {
			budget  *middleware.RetryBudget
			retries int
		}{"own": {nil, 10}, "shared": {shared, 0}} {
			stage := middleware.Retry(budgetRetry(test.budget, 100))
			fails := llmtest.Fail(llm.Unavailable)
			first, second := llmtest.Script(fails), llmtest.Script(fails)
			_, _ = stage.Wrap(&llm.Deployment{Name: "a", Caller: first}).Call(t.Context(), retryAsk())
			_, _ = stage.Wrap(&llm.Deployment{Name: "b", Caller: second}).Call(t.Context(), retryAsk())
			if first.Count() != 11 || second.Count() != 1+test.retries {
				t.Errorf("%s: %d and %d attempts, want 11 and %d", name, first.Count(), second.Count(), 1+test.retries)
			}
		}
	})
}

func TestRetryBudgetServesManyAtOnceWhenFewFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flaky := budgetModel(rand.New(rand.NewPCG(1, 2)), func() float64 { return 0.05 })
		chat := retryAround(middleware.RetryConfig{}, flaky)
		var ok atomic.Int64
		var wg sync.WaitGroup
		for range 500 {
			llmtest.Advance(4 * time.Millisecond) // so that they are not in step
			wg.Go(func() {
				for range 5 {
					if _, err := chat.Call(t.Context(), retryAsk()); err == nil {
						ok.Add(1)
					}
				}
			})
		}
		if wg.Wait(); ok.Load() < 2475 {
			t.Errorf("%d of 2500 calls, 500 at a time, succeeded at 5 %% failures, want 99 %%", ok.Load())
		}
	})
}

func TestRetryBudgetCountsRightUnderContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := middleware.NewRetryBudget(middleware.RetryBudgetConfig{Capacity: 14_000})
		chat := retryAround(budgetRetry(b, 1), llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
			return nil, llm.Unavailable
		}))
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				for range 5 {
					_, _ = chat.Call(t.Context(), retryAsk())
				}
			})
		}
		if wg.Wait(); b.Tokens() != 14_000-500*14 {
			t.Errorf("%v, want 500 retries to have cost 14 each", b)
		}
	})
}

func TestRetryBudgetTakesItsNumbersFromTheConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := middleware.NewRetryBudget(middleware.RetryBudgetConfig{
			Capacity: 10, Cost: 7, AfterRateLimit: 3, Success: 4, PerSecond: 2,
		})
		want := func(n int, after string) {
			t.Helper()
			if b.Tokens() != n {
				t.Errorf("%v after %s, want %d", b, after, n)
			}
		}
		fail := func(c llm.Class) {
			_, _ = retryAround(budgetRetry(b, 1), llmtest.Script(llmtest.Fail(c))).Call(t.Context(), retryAsk())
		}
		want(10, "nothing")
		fail(llm.Unavailable)
		want(3, "a retry")
		fail(llm.RateLimited)
		want(0, "a retry after a rate limit")
		_, _ = retryAround(budgetRetry(b, 1), llmtest.Script()).Call(t.Context(), retryAsk())
		want(4, "a success")
		llmtest.Advance(time.Second)
		want(6, "a second")
	})
}

func TestRetryBudgetRefusesNonsense(t *testing.T) {
	for says, cfg := range map[string]middleware.RetryBudgetConfig{
		"Capacity is -1": {Capacity: -1}, "Cost is -1": {Cost: -1}, "AfterRateLimit is -1": {AfterRateLimit: -1},
		"Success is -1": {Success: -1}, "PerSecond is -1": {PerSecond: -1}, "Capacity is 2000000": {Capacity: 2_000_000},
		"costs 14, more than the Capacity of 10": {Capacity: 10},
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, says) {
					t.Errorf("panic %q, want one that says %q", text, says)
				}
			}()
			middleware.NewRetryBudget(cfg)
		}()
	}
}

// budgetModel answers in two seconds or fails in a fifth of one, at random.
func budgetModel(random *rand.Rand, failing func() float64) llm.Caller {
	var mu sync.Mutex
	answer, failure := llmtest.Script(llmtest.Step{Delay: 2 * time.Second}), llmtest.Step{
		Delay: 200 * time.Millisecond, Err: llm.Unavailable,
	}
	return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		mu.Lock()
		fails := random.Float64() < failing()
		mu.Unlock()
		if fails {
			return llmtest.Script(failure).Call(ctx, req)
		}
		return answer.Call(ctx, req)
	})
}

// budgetTally counts what became of the calls of one phase of a simulation.
type budgetTally struct {
	mu                  sync.Mutex
	calls, ok, attempts int
}

func (b *budgetTally) add(resp *llm.Response, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if err == nil {
		b.ok++
		b.attempts += resp.Calls()
		return
	}
	for _, a := range llm.AsError(err).Attempts {
		if a.Skipped == "" {
			b.attempts++
		}
	}
}

func (b *budgetTally) each() float64    { return float64(b.attempts) / float64(b.calls) }
func (b *budgetTally) rescued() float64 { return float64(b.ok) / float64(b.calls) }

// The numbers that a budget exists for: an outage must not become a storm, and ordinary failures must still be mended.
func TestRetryBudgetStopsStormsAndStillRescues(t *testing.T) {
	for _, perSecond := range []int{2, 20, 200} {
		t.Run(fmt.Sprint(perSecond, " calls a second"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var outage atomic.Bool
				chat := retryAround(middleware.RetryConfig{}, budgetModel(rand.New(rand.NewPCG(3, 4)), func() float64 {
					if outage.Load() {
						return 1
					}
					return 0.2
				}))
				var wg sync.WaitGroup
				phase := func(calls int) *budgetTally {
					tally := &budgetTally{}
					for range calls {
						llmtest.Advance(time.Second / time.Duration(perSecond))
						wg.Go(func() { tally.add(chat.Call(t.Context(), retryAsk())) })
					}
					return tally
				}
				phase(5 * perSecond) // until the first answers are in
				flaky := phase(max(perSecond*20, 2000))
				llmtest.Advance(10 * time.Second)
				outage.Store(true)
				down := phase(max(perSecond*20, 2000))
				wg.Wait()
				if flaky.rescued() < 0.98 {
					t.Errorf("at 20 %% failures %.1f %% of the calls succeed with %.2f attempts each, want 98 %%",
						100*flaky.rescued(), flaky.each())
				}
				if down.each() > 1.2 || down.each() <= 1 {
					t.Errorf("in an outage %.3f attempts a call, want at most 1.2, but some", down.each())
				}
				t.Logf("rescued %.1f %% with %.2f attempts a call, %.3f in the outage", 100*flaky.rescued(), flaky.each(),
					down.each())
			})
		})
	}
}
