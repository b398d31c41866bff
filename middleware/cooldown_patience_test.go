package middleware_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// patient is a deployment in cooldown and retry.
func patient(c *middleware.Cooldowns, model llm.Caller) llm.Caller {
	return llm.New(c.Stage(), middleware.Retry(middleware.RetryConfig{})).Then(&llm.Deployment{Name: "d", Caller: model})
}

func TestCooldownDoesNotBeginWithAFailureThatNobodyHadRoomToRepeat(t *testing.T) {
	for name, call := range map[string]func(context.Context, llm.Caller) error{
		"a caller in a hurry": func(ctx context.Context, c llm.Caller) error {
			ctx, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
			defer cancel()
			_, err := c.Call(ctx, retryAsk())
			return err
		},
		"one attempt allowed": func(ctx context.Context, c llm.Caller) error {
			req := retryAsk()
			req.MaxAttempts = 1
			_, err := c.Call(ctx, req)
			return err
		},
		"an outcome that is not known": func(ctx context.Context, c llm.Caller) error {
			req := retryAsk()
			req.ReplayUnsafe = true
			_, err := c.Call(ctx, req)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := middleware.NewCooldowns(middleware.CooldownConfig{})
				down := &llm.Error{Class: llm.Unavailable, Commit: llm.CommitUnknown}
				ok, fail := llmtest.Text("ok"), llmtest.Fail(down)
				model := llmtest.Script(fail, ok, fail, fail, fail, fail, ok)
				chat := patient(c, model)
				if err := call(t.Context(), chat); !errors.Is(err, llm.Unavailable) || llm.AsError(err).RetryDenied == "" {
					t.Fatalf("got %v, denied because of %q", err, llm.AsError(err).RetryDenied)
				}
				llmtest.Advance(6 * time.Second)
				if err := call(t.Context(), chat); err != nil {
					t.Fatalf("one flaky answer made the deployment rest: %v", err)
				}
				for range 3 { // at 6 s, 9 s and 12 s, without a success in between
					if err := call(t.Context(), chat); !errors.Is(err, llm.Unavailable) {
						t.Fatalf("a streak shorter than Patience made it rest: %v", err)
					}
					llmtest.Advance(3 * time.Second)
				}
				if err := call(t.Context(), chat); !errors.Is(err, llm.Cooling) {
					t.Errorf("after a streak longer than Patience: %v", err)
				}
			})
		})
	}
}

func TestCooldownForgetsAStreakThatIsLongPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		chat := patient(c, llmtest.Script(llmtest.Fail(llm.Unavailable)))
		req := retryAsk()
		req.MaxAttempts = 1
		for range 3 {
			if _, err := chat.Call(t.Context(), req); !errors.Is(err, llm.Unavailable) {
				t.Errorf("single failures, minutes apart: %v", err)
			}
			llmtest.Advance(2 * time.Minute)
		}
	})
}

func TestCooldownBeginsAtOnceWithAWaitThatTheProviderAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		chat := patient(c, llmtest.Script(llmtest.Fail(retryAfter(10*time.Minute))))
		req := retryAsk()
		req.MaxAttempts = 1
		if _, err := chat.Call(t.Context(), req); !errors.Is(err, llm.RateLimited) {
			t.Error(err)
		}
		if _, err := chat.Call(t.Context(), req); !errors.Is(err, llm.Cooling) || llm.AsError(err).RetryAfter < 10*time.Minute {
			t.Errorf("got %v, to come back in %v", err, llm.AsError(err).RetryAfter)
		}
	})
}

func TestCooldownLetsARetryBudgetThatIsUsedUpEndAnOutageNotABlip(t *testing.T) {
	for name, test := range map[string]struct {
		lasts    time.Duration
		answered int64
		rests    bool
	}{
		"a blip":    {500 * time.Millisecond, 10, false},
		"an outage": {time.Hour, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, begin := middleware.NewCooldowns(middleware.CooldownConfig{}), time.Now()
				var answered atomic.Int64
				chat := patient(c, llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
					if time.Since(begin) < test.lasts {
						return nil, llm.Unavailable
					}
					return &llm.Response{Parts: []llm.Part{llm.Text("ok")}}, nil
				}))
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						if _, err := chat.Call(t.Context(), retryAsk()); err == nil {
							answered.Add(1)
						}
					})
				}
				wg.Wait()
				if answered.Load() != test.answered || len(c.Snapshot()) > 0 != test.rests {
					t.Errorf("%d of 50 answered, it rests: %v", answered.Load(), c.Snapshot())
				}
			})
		})
	}
}

// A writer that flushes after so many deltas, and one that pauses once: the model itself needs 1.2 s.
func TestDeadlineTellsAModelsTimeFromItsReaders(t *testing.T) {
	for _, pause := range []struct {
		every, at int
		d         time.Duration
	}{{10, 0, time.Second}, {16, 0, time.Second}, {10, 1, time.Second}, {16, 1, time.Second}, {64, 0, time.Second}, {1000, 15, 20 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			estimates := middleware.NewEstimates(middleware.EstimatesConfig{})
			step := llmtest.Step{Gap: 10 * time.Millisecond, Text: "x", Deltas: words(120)}
			chat := deadlineOf(middleware.DeadlineConfig{Total: time.Hour, Estimates: estimates}, fallbackDep("d", llmtest.Script(step)))
			for range 10 {
				req, n := fallbackAsk(), 0
				req.Sink = func(llm.Delta) error {
					if n++; n%pause.every == pause.at {
						llmtest.Advance(pause.d)
					}
					return nil
				}
				if _, err := chat.Call(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
			if got := estimates.Of("d"); got < 1190*time.Millisecond || got > 1400*time.Millisecond {
				t.Errorf("pauses of %v after %d deltas mod %d: %v", pause.d, pause.at, pause.every, got)
			}
		})
	}
}

func TestDeadlineDoesNotTakeASlowReaderForASlowDeployment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		estimates := middleware.NewEstimates(middleware.EstimatesConfig{})
		step := llmtest.Step{Text: "abc"}
		for _, s := range []string{"a", "b", "c"} {
			step.Deltas = append(step.Deltas, llm.Delta{Text: s})
		}
		chat := deadlineOf(middleware.DeadlineConfig{Total: time.Hour, Estimates: estimates}, fallbackDep("d", llmtest.Script(step)))
		for range 6 {
			req := fallbackAsk()
			req.Sink = func(llm.Delta) error { llmtest.Advance(10 * time.Second); return nil }
			if _, err := chat.Call(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		if got := estimates.Of("d"); got > 2*time.Millisecond {
			t.Errorf("a deployment that answers at once is expected to need %v", got)
		}
	})
}
