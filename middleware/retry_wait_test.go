package middleware_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// retryAfter is a rate limit that asks for a wait.
func retryAfter(d time.Duration) *llm.Error { return &llm.Error{Class: llm.RateLimited, RetryAfter: d} }

func TestRetryWaitsAsTheNewestFailureAsksAndNeverLess(t *testing.T) {
	asked := []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 40 * time.Second}
	for range 20 { // the jitter is random
		synctest.Test(t, func(t *testing.T) {
			model := retryScript(retryAfter(asked[0]), retryAfter(asked[1]), retryAfter(asked[2]), retryAfter(asked[3]))
			if _, err := retryAround(middleware.RetryConfig{Max: 4}, model).Call(t.Context(), retryAsk()); err != nil {
				t.Fatal(err)
			}
			for i, gap := range retryGaps(model) {
				if gap < asked[i] || gap > asked[i]+min(asked[i]/10, time.Second) {
					t.Errorf("wait %d is %v, want %v and at most a tenth or a second more", i+1, gap, asked[i])
				}
			}
		})
	}
}

func TestRetryBacksOffWhereTheWaitAskedIsShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := retryScript(retryAfter(time.Millisecond), retryAfter(time.Millisecond), retryAfter(-time.Hour))
		if _, err := retryAround(middleware.RetryConfig{Max: 3}, model).Call(t.Context(), retryAsk()); err != nil {
			t.Fatal(err)
		}
		for i, gap := range retryGaps(model) {
			if least := time.Second / 2 << i; gap < least || gap > 3*least {
				t.Errorf("wait %d is %v, want a back-off of %v to %v", i+1, gap, least, 3*least)
			}
		}
	})
}

func TestRetryBacksOffExponentiallyWithJitterAndNeverAboveCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 50
		longest, capped := time.Duration(0), map[time.Duration]bool{}
		for range calls {
			model := llmtest.Script(llmtest.Fail(llm.Unavailable))
			cfg := middleware.RetryConfig{Max: 5, Base: time.Second, Cap: 6 * time.Second}
			_, _ = retryAround(cfg, model).Call(t.Context(), retryAsk())
			for i, gap := range retryGaps(model) {
				centre := min(time.Second<<i, 4*time.Second)
				if gap < centre/2 || gap > centre*3/2 {
					t.Errorf("wait %d is %v, want %v to %v", i+1, gap, centre/2, centre*3/2)
				}
				if longest = max(longest, gap); i == 4 {
					capped[gap] = true
				}
			}
		}
		if longest > 6*time.Second || longest < 5*time.Second || len(capped) < calls {
			t.Errorf("the longest wait is %v, %d different ones at the cap of 6s; want it used and jittered", longest,
				len(capped))
		}
	})
}

func TestRetryTakesACapBelowBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := retryScript(llm.Unavailable)
		_, err := retryAround(middleware.RetryConfig{Base: time.Hour, Cap: time.Second}, model).Call(t.Context(), retryAsk())
		if gaps := retryGaps(model); err != nil || gaps[0] > time.Second {
			t.Errorf("waits %v, error %v; want none above Cap", gaps, err)
		}
	})
}

func TestRetrySpreadsThoseWhoWereToldTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, back, mu := time.Now(), map[time.Duration]int{}, sync.Mutex{}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := retryAround(middleware.RetryConfig{}, retryScript(retryAfter(10*time.Second))).Call(
					t.Context(), retryAsk()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				back[time.Since(start)/(100*time.Millisecond)]++
				mu.Unlock()
			})
		}
		wg.Wait()
		for tenth, n := range back {
			if n > 20 {
				t.Errorf("%d of 50 callers came back in the same tenth of a second, %d00ms", n, tenth)
			}
		}
	})
}

func TestRetryReturnsAtOnceWhatDoesNotFit(t *testing.T) {
	for _, test := range []struct {
		name string
		err  *llm.Error
		left time.Duration // until the caller's deadline; 0: none
		cfg  middleware.RetryConfig
		says string
	}{
		{"the time left", retryAfter(60 * time.Second), 2 * time.Second, middleware.RetryConfig{}, "does not fit"},
		{"nor a back-off", &llm.Error{Class: llm.Unavailable}, 5 * time.Second,
			middleware.RetryConfig{Base: 20 * time.Second, Cap: time.Minute}, "does not fit"},
		{"MaxWait", retryAfter(61 * time.Second), 0, middleware.RetryConfig{}, "more than the 1m0s of MaxWait"},
		{"a MaxWait of ours", retryAfter(6 * time.Second), 0, middleware.RetryConfig{MaxWait: 5 * time.Second}, "MaxWait"},
		{"a wait beyond counting", retryAfter(1<<63 - 1), 0, middleware.RetryConfig{}, "MaxWait"},
		{"a date", &llm.Error{Class: llm.RateLimited, RetryAfter: 2 * time.Second, CoolUntil: true}, 0,
			middleware.RetryConfig{}, "comes back in 2s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, start, model := t.Context(), time.Now(), retryScript(test.err)
				if test.left > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.left)
					defer cancel()
				}
				test.cfg.Budget = middleware.NewRetryBudget(middleware.RetryBudgetConfig{})
				_, err := retryAround(test.cfg, model).Call(ctx, retryAsk())
				e := llm.AsError(err)
				if time.Since(start) != 0 || model.Count() != 1 {
					t.Errorf("returned after %v and %d calls, want one at once", time.Since(start), model.Count())
				}
				if e.Class != test.err.Class || e.RetryAfter != test.err.RetryAfter {
					t.Errorf("error %+v, want the failure and its wait", e)
				}
				if skips := retrySkips(t, err); len(skips) != 1 || !strings.Contains(skips[0], test.says) {
					t.Errorf("account says %q, want %q", skips, test.says)
				}
				if n := test.cfg.Budget.Tokens(); n != 140 {
					t.Errorf("%d tokens left, want no retry paid", n)
				}
			})
		})
	}
}

func TestRetrySleepsUpToMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := retryScript(retryAfter(time.Minute))
		if _, err := retryAround(middleware.RetryConfig{}, model).Call(t.Context(), retryAsk()); err != nil {
			t.Errorf("a wait of MaxWait was not waited for: %v", err)
		}
	})
}

func TestRetryDoesNotSleepAfterTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, model := time.Now(), llmtest.Script(llmtest.Fail(retryAfter(10*time.Second)))
		if _, err := retryAround(middleware.RetryConfig{Max: 1}, model).Call(t.Context(), retryAsk()); err == nil {
			t.Fatal("no error")
		}
		if took := time.Since(start); took != retryGaps(model)[0] {
			t.Errorf("the call took %v, want no more than the wait of %v between its attempts", took, retryGaps(model)[0])
		}
	})
}

// retryGate lets attempts through until it closes, and records which waits it was asked about. If it is blind, it does
// not see the future.
type retryGate struct {
	llm.OpenGate
	closes time.Time
	blind  bool
	asked  []time.Duration
}

func (g *retryGate) Ask(_ context.Context, _ *llm.Request, _ *llm.Deployment, at time.Time) error {
	g.asked = append(g.asked, time.Until(at))
	if g.blind {
		at = time.Now()
	}
	if !at.Before(g.closes) {
		return &llm.Error{Class: llm.Cooling, Message: "the gate is closed"}
	}
	return nil
}

func TestRetryAsksTheGatesBeforeItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, model := time.Now(), llmtest.Script(llmtest.Fail(retryAfter(10*time.Second)))
		gate := &retryGate{closes: start.Add(10 * time.Second)}
		_, err := retryUnder(gate, retryAround(middleware.RetryConfig{}, model)).Call(t.Context(), retryAsk())
		if time.Since(start) != 0 || model.Count() != 1 || llm.ClassOf(err) != llm.RateLimited {
			t.Errorf("%d calls in %v, error %v; want the failure at once", model.Count(), time.Since(start), err)
		}
		if skips := retrySkips(t, err); len(skips) != 1 || skips[0] != "no retry: the gate is closed" {
			t.Errorf("account says %q, want the gate's word", skips)
		}
		if in := gate.asked[len(gate.asked)-1]; in < 10*time.Second {
			t.Errorf("the gate was asked about a wait of %v, want the whole", in)
		}
	})
}

func TestRetryAsksTheGatesAgainAfterTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := middleware.NewRetryBudget(middleware.RetryBudgetConfig{})
		model := llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.Unavailable, RetryAfter: 10 * time.Second}))
		gate := &retryGate{closes: time.Now().Add(5 * time.Second), blind: true}
		_, err := retryUnder(gate, retryAround(middleware.RetryConfig{Budget: budget}, model)).Call(t.Context(), retryAsk())
		if model.Count() != 1 || llm.ClassOf(err) != llm.Unavailable || len(retrySkips(t, err)) != 1 {
			t.Errorf("%d calls, error %v; want the last failure and a row", model.Count(), err)
		}
		if budget.Tokens() != 140 {
			t.Errorf("%v, want the retry that was not made to cost nothing", budget)
		}
	})
}

func TestRetryReturnsTheFailureWhenARepeatWasNotTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := middleware.NewRetryBudget(middleware.RetryBudgetConfig{})
		model := llmtest.Script(llmtest.Fail(llm.Unavailable), llmtest.Fail(llm.Cooling))
		_, err := retryAround(middleware.RetryConfig{Budget: budget}, model).Call(t.Context(), retryAsk())
		if llm.ClassOf(err) != llm.Unavailable || budget.Tokens() != 140 {
			t.Errorf("error %v with %v, want the failure of the attempt that was made, and nothing paid", err, budget)
		}
	})
}

func TestRetryKeepsCauseAndFailureWhenTheContextEndsInTheWait(t *testing.T) {
	mine, limit := errors.New("shutting down"), llm.Limit(llm.Exhausted, "the call's time is over")
	for _, test := range []struct {
		name  string
		cause error
		class llm.Class
		is    error
	}{
		{"the caller leaves", nil, llm.Canceled, context.Canceled},
		{"with a reason", mine, llm.Canceled, mine},
		{"a limit of ours", limit, llm.Exhausted, limit},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				budget := middleware.NewRetryBudget(middleware.RetryBudgetConfig{})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(3*time.Second, func() { cancel(test.cause) })
				start, model := time.Now(), retryScript(retryAfter(10*time.Second))
				_, err := retryAround(middleware.RetryConfig{Budget: budget}, model).Call(ctx, retryAsk())
				if time.Since(start) != 3*time.Second || model.Count() != 1 {
					t.Errorf("returned after %v and %d calls, want when the context ended", time.Since(start), model.Count())
				}
				e := llm.AsError(err)
				if e.Class != test.class || !errors.Is(err, test.is) || !errors.Is(err, llm.RateLimited) {
					t.Errorf("error %v of class %v, want %v with %v and the failure", err, e.Class, test.class, test.is)
				}
				if e.RetryAfter != 7*time.Second || e.Commit != llm.CommitNone {
					t.Errorf("RetryAfter %v, commit %v; want what is left of the wait, and nothing under way", e.RetryAfter, e.Commit)
				}
				if budget.Tokens() != 140 {
					t.Errorf("%v, want the retry that was not made to cost nothing", budget)
				}
			})
		})
	}
}

func TestRetryDoesNotWaitForACallerWhoLeftDuringTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		calls, start := 0, time.Now()
		leaves := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
			calls++
			cancel()
			return nil, llm.Unavailable
		})
		_, err := middleware.Retry(middleware.RetryConfig{}).Wrap(leaves).Call(ctx, retryAsk())
		if calls != 1 || time.Since(start) != 0 || llm.ClassOf(err) != llm.Canceled || !errors.Is(err, llm.Unavailable) {
			t.Errorf("%d calls in %v, error %v; want canceled at once, with the failure", calls, time.Since(start), err)
		}
	})
}

// retryUnder is c with a gate in force.
func retryUnder(gate llm.Gate, c llm.Caller) llm.Caller {
	return llm.New(llm.Stage{Name: "gate", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			defer req.Enforce(gate).Lift()
			return next.Call(ctx, req)
		})
	}}).Then(c)
}
