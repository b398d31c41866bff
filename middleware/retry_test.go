package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// retryAsk is a request that any deployment can serve.
func retryAsk() *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User("hi")}} }

// retryAround is the stage around a deployment "a" of model.
func retryAround(cfg middleware.RetryConfig, model llm.Caller) *llm.Pipeline {
	return llm.New(middleware.Retry(cfg)).Then(&llm.Deployment{Name: "a", Caller: model})
}

// retryScript fails with each of errs in turn, then answers.
func retryScript(errs ...error) *llmtest.Model {
	var steps []llmtest.Step
	for _, err := range errs {
		steps = append(steps, llmtest.Fail(err))
	}
	return llmtest.Script(append(steps, llmtest.Text("done"))...)
}

// retryGaps are the times between the calls that m received.
func retryGaps(m *llmtest.Model) []time.Duration {
	var gaps []time.Duration
	calls := m.Calls()
	for i := 1; i < len(calls); i++ {
		gaps = append(gaps, calls[i].At.Sub(calls[i-1].At))
	}
	return gaps
}

// retrySkips are the reasons in err's or resp's account why no call was made.
func retrySkips(t *testing.T, err error) []string {
	t.Helper()
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		t.Fatalf("error %v (%T), want an *llm.Error", err, err)
	}
	var skips []string
	for _, a := range e.Attempts {
		if a.Skipped != "" {
			skips = append(skips, a.Skipped)
		}
	}
	return skips
}

func TestRetryRepeatsByClassAlone(t *testing.T) {
	for class, attempts := range map[llm.Class]int{
		llm.Unavailable: 4, llm.Overloaded: 4, llm.Timeout: 4, llm.RateLimited: 4, llm.Interrupted: 4,
		llm.BadOutput: 2,
		llm.Unknown:   1, llm.Stalled: 1, llm.Quota: 1, llm.TooLong: 1, llm.NotFound: 1, llm.Unsupported: 1, llm.Invalid: 1,
		llm.Auth: 1, llm.Refused: 1, llm.Cooling: 1, llm.Exhausted: 1, llm.Canceled: 1,
	} {
		t.Run(class.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := llmtest.Script(llmtest.Fail(class))
				_, err := middleware.Retry(middleware.RetryConfig{Max: 3}).Wrap(model).Call(t.Context(), retryAsk())
				if model.Count() != attempts || llm.ClassOf(err) != class {
					t.Errorf("%d attempts, error %v; want %d and the class", model.Count(), err, attempts)
				}
			})
		})
	}
}

func TestRetryRepeatsMaxTimesAndTwiceByDefault(t *testing.T) {
	for limit, attempts := range map[int]int{0: 3, 1: 2, 5: 6} {
		synctest.Test(t, func(t *testing.T) {
			model := llmtest.Script(llmtest.Fail(llm.RateLimited))
			_, err := retryAround(middleware.RetryConfig{Max: limit}, model).Call(t.Context(), retryAsk())
			if model.Count() != attempts || len(llm.AsError(err).Attempts) != attempts {
				t.Errorf("Max %d: %d calls, account %v; want %d", limit, model.Count(), llm.AsError(err).Attempts, attempts)
			}
		})
	}
}

func TestRetryReturnsTheAnswerThatCameLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chat := retryAround(middleware.RetryConfig{}, retryScript(llm.Overloaded, llm.Timeout))
		resp, err := chat.Call(t.Context(), retryAsk())
		if err != nil || resp.Text() != "done" || resp.Calls() != 3 {
			t.Fatalf("answer %+v, error %v; want the third attempt's", resp, err)
		}
		if first := resp.Attempts[0]; first.Waited != 0 || resp.Attempts[1].Waited <= 0 {
			t.Errorf("the account has waits %v and %v, want none and one", first.Waited, resp.Attempts[1].Waited)
		}
	})
}

func TestRetryMakesNoMoreAttemptsThanTheRequestAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, start := llmtest.Script(llmtest.Fail(llm.Unavailable)), time.Now()
		req := retryAsk()
		req.MaxAttempts = 1
		_, err := retryAround(middleware.RetryConfig{Max: 3}, model).Call(t.Context(), req)
		if model.Count() != 1 || time.Since(start) != 0 || llm.ClassOf(err) != llm.Unavailable {
			t.Errorf("%d calls in %v, error %v; want one at once and its failure", model.Count(), time.Since(start), err)
		}
		if skips := retrySkips(t, err); len(skips) != 1 || !strings.Contains(skips[0], "1 of 1 attempts") {
			t.Errorf("account says %q, want why there was no retry", skips)
		}
	})
}

func TestRetryRepeatsABadOutputOnceHoweverManyOthersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := retryScript(llm.BadOutput, llm.RateLimited, llm.BadOutput)
		_, err := retryAround(middleware.RetryConfig{Max: 9}, model).Call(t.Context(), retryAsk())
		if model.Count() != 3 || llm.ClassOf(err) != llm.BadOutput {
			t.Errorf("%d calls, error %v; want to end with the second bad output", model.Count(), err)
		}
	})
}

func TestRetryFollowsTheProvidersAdvice(t *testing.T) {
	for _, test := range []struct {
		name  string
		err   *llm.Error
		calls int
	}{
		{"do not vetoes", &llm.Error{Class: llm.RateLimited, RetryAfter: time.Second, Advice: llm.AdviceDontRetry}, 1},
		{"do lifts unknown", &llm.Error{Class: llm.Unknown, Advice: llm.AdviceRetry}, 2},
		{"do lifts nothing else", &llm.Error{Class: llm.Invalid, Advice: llm.AdviceRetry}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := retryScript(test.err)
				_, err := retryAround(middleware.RetryConfig{}, model).Call(t.Context(), retryAsk())
				if model.Count() != test.calls || (err == nil) != (test.calls == 2) {
					t.Errorf("%d calls, error %v; want %d calls", model.Count(), err, test.calls)
				}
			})
		})
	}
}

func TestRetryTakesTheUsersRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := middleware.Reaction{Again: middleware.Always}
		cfg := middleware.RetryConfig{Reactions: middleware.Reactions{
			llm.Stalled: again, llm.RateLimited: {}, llm.Cooling: again, llm.Exhausted: again, llm.Canceled: again,
		}}
		for class, calls := range map[llm.Class]int{
			llm.Stalled: 3, llm.RateLimited: 1, llm.Overloaded: 3,
			llm.Cooling: 1, llm.Exhausted: 1, llm.Canceled: 1, // were never tried, or nobody waits for them
		} {
			model := llmtest.Script(llmtest.Fail(class))
			_, err := middleware.Retry(cfg).Wrap(model).Call(t.Context(), retryAsk())
			if model.Count() != calls || llm.ClassOf(err) != class {
				t.Errorf("%v: %d calls, error %v; want %d", class, model.Count(), err, calls)
			}
		}
	})
}

func TestRetryReturnsWhatItDoesNotRepeatAsItIs(t *testing.T) {
	for _, mine := range []error{
		&llm.Error{Class: llm.Cooling, RetryAfter: time.Second}, &llm.Error{Class: llm.Exhausted}, context.Canceled,
		fmt.Errorf("ours: %w", llm.Invalid),
	} {
		model := llmtest.Script(llmtest.Fail(mine))
		_, err := middleware.Retry(middleware.RetryConfig{}).Wrap(model).Call(t.Context(), retryAsk())
		if err != mine || model.Count() != 1 { //nolint:errorlint // the very same error
			t.Errorf("error %v after %d calls, want the same %v after one", err, model.Count(), mine)
		}
	}
}

func TestRetryNeverRepeatsWhatMayHaveActedOnTheWorld(t *testing.T) {
	for _, test := range []struct {
		name   string
		commit llm.CommitState
		unsafe bool
		says   string
		calls  int
	}{
		{"unknown", llm.CommitUnknown, true, "lost; outcome unknown", 1},
		{"committed", llm.Committed, true, "lost; the provider has acted", 1},
		{"not sent", llm.CommitNone, true, "", 2},
		{"safe", llm.CommitUnknown, false, "", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failure := &llm.Error{Class: llm.Unavailable, Commit: test.commit, Message: "lost"}
				model, req := retryScript(failure), retryAsk()
				req.ReplayUnsafe = test.unsafe
				_, err := retryAround(middleware.RetryConfig{}, model).Call(t.Context(), req)
				if model.Count() != test.calls || (err == nil) != (test.calls == 2) {
					t.Fatalf("%d calls, error %v; want %d calls", model.Count(), err, test.calls)
				}
				if err != nil && (!strings.Contains(err.Error(), test.says) || llm.ClassOf(err) != llm.Unavailable) {
					t.Errorf("error %q, want one that says %q", err, test.says)
				}
			})
		})
	}
}

func TestRetryKeepsItsStatePerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		tried := map[string][]time.Time{}
		model := llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			who := req.Labels["who"]
			if tried[who] = append(tried[who], time.Now()); len(tried[who]) < 3 {
				return nil, llm.Unavailable
			}
			return &llm.Response{Parts: []llm.Part{llm.Text("done")}}, nil
		})
		chat := retryAround(middleware.RetryConfig{
			Budget: middleware.NewRetryBudget(middleware.RetryBudgetConfig{Capacity: 100_000}),
		}, model)
		for round := range 2 {
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() {
					req := retryAsk()
					req.Labels = map[string]string{"who": fmt.Sprint(round, i)}
					if _, err := chat.Call(t.Context(), req); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		for who, at := range tried {
			if first := at[1].Sub(at[0]); first < time.Second/2 || first > 3*time.Second/2 {
				t.Errorf("call %s waited %v first, want half a second to one and a half", who, first)
			}
		}
	})
}

func TestRetryRefusesNonsense(t *testing.T) {
	for says, cfg := range map[string]middleware.RetryConfig{
		"Max is -1": {Max: -1}, "Base is -1s": {Base: -time.Second}, "Cap is -1s": {Cap: -time.Second},
		"MaxWait is -1s": {MaxWait: -time.Second}, "Jitter is 1.5": {Jitter: 1.5}, "Jitter is -1": {Jitter: -1},
		"no class": {Reactions: middleware.Reactions{99: {}}},
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, says) {
					t.Errorf("panic %q, want one that says %q", text, says)
				}
			}()
			middleware.Retry(cfg)
		}()
	}
}

func TestRetryShowsItsDefaults(t *testing.T) {
	want := "retry {Max:2 Base:1s Cap:20s Jitter:0.5 MaxWait:1m0s Budget:140 of 140 tokens}\n  a"
	if got := retryAround(middleware.RetryConfig{}, llmtest.Script()).String(); got != want {
		t.Errorf("the onion shows %q, want %q", got, want)
	}
}

func TestRetryHandsANilRequestOnWithoutAPanic(t *testing.T) {
	chat := middleware.Retry(middleware.RetryConfig{}).Wrap(&llm.Deployment{Name: "a", Caller: llmtest.Script()})
	if _, err := chat.Call(t.Context(), nil); llm.ClassOf(err) != llm.Invalid {
		t.Errorf("error %v, want invalid", err)
	}
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script()
		failing := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
			_, _ = model.Call(t.Context(), retryAsk())
			return nil, llm.Unavailable
		})
		if _, err := middleware.Retry(middleware.RetryConfig{}).Wrap(failing).Call(t.Context(), nil); model.Count() != 3 {
			t.Errorf("%d calls, error %v; want three", model.Count(), err)
		}
	})
}
