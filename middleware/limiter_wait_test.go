package middleware_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func TestLimiterRefusesAtOnceWhatDoesNotFitTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script()
		_, chat := limited(perMinute(60), model)
		if _, err := chat.Call(t.Context(), limiterAsk("", 1)); err != nil {
			t.Fatal(err)
		}
		llmtest.Advance(250 * time.Millisecond)
		began := time.Now()
		for _, has := range []time.Duration{time.Millisecond, 700 * time.Millisecond, 750 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), has)
			_, err := chat.Call(ctx, limiterAsk("", 1))
			cancel()
			refusal(t, err, 750*time.Millisecond)
			e := llm.AsError(err)
			if time.Since(began) != 0 || len(e.Attempts) != 1 || e.Attempts[0].Skipped == "" || e.Deployment != "d" ||
				!strings.Contains(err.Error(), `over the limit of "d", 60 requests a minute: its turn is in 750ms, and`) {
				t.Errorf("after %v: %v, %+v", time.Since(began), err, e.Attempts)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 751*time.Millisecond)
		defer cancel()
		if _, err := chat.Call(ctx, limiterAsk("", 1)); err != nil || model.Count() != 2 || time.Since(began) != 750*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestLimiterNeverWaitsLongerThanMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := perMinute(60)
		cfg.Limits.InFlight, cfg.MaxWait = 1, 2*time.Second
		_, chat := limited(cfg, llmtest.Script(llmtest.Step{Delay: 10 * time.Second}))
		began := time.Now()
		limiterGo(
			func() {
				if _, err := chat.Call(t.Context(), limiterAsk("", 1)); err != nil {
					t.Error(err)
				}
			},
			func() { // who ends when is not known, so it waits as long as it may
				_, err := chat.Call(t.Context(), limiterAsk("", 1))
				refusal(t, err, 0)
				if time.Since(began) != 2*time.Second || !strings.Contains(err.Error(), `calls in flight of "d", and calls wait up to 2s`) {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			},
			func() {
				_, err := chat.Call(t.Context(), limiterAsk("", 1))
				refusal(t, err, 0)
			},
			func() { // the third in the queue would have to wait for 3 s
				_, err := chat.Call(t.Context(), limiterAsk("", 1))
				refusal(t, err, 3*time.Second)
			},
		)
	})
}

// limitedFallback is "first", limited by l, before "second", in time.
func limitedFallback(l *middleware.Limiter, first, second llm.Caller, total time.Duration) llm.Caller {
	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{Patience: time.Nanosecond})
	each := llm.New(cooldowns.Stage(), middleware.Retry(middleware.RetryConfig{}), l.Stage(""), middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{}))
	return llm.New(middleware.Deadline(middleware.DeadlineConfig{Total: total})).Then(
		fallbackTo(each.Then(fallbackDep("first", first)), each.Then(fallbackDep("second", second))))
}

func TestAFallbackGoesOnAtOnceWhereTheWaitWouldTakeTheNextOnesTime(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		for total, want := range map[time.Duration]string{4 * time.Second: "first", 1100 * time.Millisecond: "second"} {
			synctest.Test(t, func(t *testing.T) {
				first, second := llmtest.Script(), llmtest.Script()
				l := middleware.NewLimiter(perMinute(60)) // a wait of 1 s, of which a tenth of total is kept for the next
				chat := limitedFallback(l, first, second, total)
				ask := func() (*llm.Response, error) {
					r := limiterAsk("", 1)
					if streamed {
						r.Sink = func(llm.Delta) error { return nil }
					}
					return chat.Call(t.Context(), r)
				}
				if _, err := ask(); err != nil {
					t.Fatal(err)
				}
				for range 3 { // a refusal of ours cools nothing
					began := time.Now()
					resp, err := ask()
					waited := time.Since(began)
					if err != nil || resp.Deployment != want || waited != map[string]time.Duration{"first": time.Second}[want] {
						t.Errorf("streamed %t, %v: %v after %v, want %s", streamed, total, err, waited, want)
						continue
					}
					if want == "second" && (len(resp.Attempts) != 2 || resp.Attempts[0].Class != llm.RateLimited || resp.Attempts[0].Skipped == "") {
						t.Errorf("%+v", resp.Attempts)
					}
					if want == "second" {
						llmtest.Advance(time.Minute) // the second is limited too
						if _, err := ask(); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
}

// An attempt that begins so late that the next route's time cuts it off is worth no wait.
func TestAWaitLeavesTimeForTheAttemptBeforeTheNextRoutes(t *testing.T) {
	for needs, want := range map[time.Duration]string{2500 * time.Millisecond: "first", 2800 * time.Millisecond: "second"} {
		synctest.Test(t, func(t *testing.T) {
			l := middleware.NewLimiter(perMinute(60))
			each := llm.New(l.Stage(""))
			estimates := middleware.NewEstimates(middleware.EstimatesConfig{Fixed: map[string]time.Duration{"first": needs}})
			chat := llm.New(middleware.Deadline(middleware.DeadlineConfig{Total: 4 * time.Second, Estimates: estimates})).Then(fallbackTo(
				each.Then(fallbackDep("first", llmtest.Script())), each.Then(fallbackDep("second", llmtest.Script()))))
			for i, from := range []string{"first", want} { // 1 s to wait, 3.6 s until it is the second's turn
				if resp, err := chat.Call(t.Context(), limiterAsk("", 1)); err != nil || resp.Deployment != from {
					t.Errorf("%v, call %d: %v, want %s", needs, i, err, from)
				}
			}
		})
	}
}

func TestLimiterHoldsASlotUntilTheCallEndsHoweverItEnds(t *testing.T) {
	cfg := middleware.LimiterConfig{Limits: middleware.Limits{InFlight: 1}, Fixed: true}
	stream := llmtest.Step{Deltas: []llm.Delta{{Text: "a"}, {Text: "b"}}, Gap: time.Second}
	for name, test := range map[string]struct {
		step  llmtest.Step
		sink  func(llm.Delta) error
		leave time.Duration
		holds time.Duration
	}{
		"a stream":          {step: stream, holds: time.Second},
		"a failure":         {step: llmtest.Step{Delay: time.Second, Err: llm.Unavailable}, holds: time.Second},
		"a panic":           {step: llmtest.Step{Delay: time.Second, Panic: "boom"}, holds: time.Second},
		"a caller who left": {step: llmtest.Step{Hang: true}, leave: time.Second, holds: time.Second},
		"a sink that fails": {step: stream, sink: func(llm.Delta) error { return errors.New("full") }},
		"a sink that panics": {step: stream, sink: func(llm.Delta) error {
			panic("sink")
		}},
		"a goroutine that ends": {step: stream, sink: func(llm.Delta) error {
			runtime.Goexit()
			return nil
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			model := llmtest.Script(test.step, llmtest.Step{})
			l, chat := limited(cfg, model)
			began := time.Now()
			limiterGo(func() {
				defer func() { _ = recover() }()
				ctx := t.Context()
				if test.leave > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.leave)
					defer cancel()
				}
				r := limiterAsk("", 1)
				if r.Sink = func(llm.Delta) error { return nil }; test.sink != nil {
					r.Sink = test.sink
				}
				_, _ = chat.Call(ctx, r)
			}, func() {
				if _, err := chat.Call(t.Context(), limiterAsk("", 1)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			if got := model.Calls()[1].At.Sub(began); got != test.holds {
				t.Errorf("%s: the slot was held for %v, want %v", name, got, test.holds)
			}
			if s := l.Snapshot()[0]; s.InFlight != 0 || s.Waiting != 0 {
				t.Errorf("%s: %v", name, s)
			}
		})
	}
}

func TestAWaiterWhoLeavesHurtsNobodyBehind(t *testing.T) {
	for _, gone := range []int{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			model := llmtest.Script()
			l, chat := limited(perMinute(60), model)
			began := time.Now()
			var calls []func()
			for i := range 5 {
				ctx, cancel := context.WithCancel(t.Context())
				if i == gone {
					time.AfterFunc(500*time.Millisecond, cancel)
				}
				calls = append(calls, func() {
					defer cancel()
					_, err := chat.Call(ctx, limiterAsk("", 1))
					if i != gone && err != nil {
						t.Errorf("%d: %v", i, err)
					}
					if e := llm.AsError(err); i == gone && (!errors.Is(err, context.Canceled) || !e.Skipped || time.Since(began) != 500*time.Millisecond) {
						t.Errorf("%v after %v", err, time.Since(began))
					}
				})
			}
			limiterGo(calls...)
			if got := callTimes(model, began); got != "0s 1s 2s 3s" {
				t.Errorf("without %d, called at %s", gone, got)
			}
			if s := l.Snapshot()[0]; s.InFlight != 0 || s.Waiting != 0 {
				t.Errorf("%v", s)
			}
		})
	}
}

// closing is a gate that lets nothing through from a moment on, or panics.
type closing struct {
	llm.OpenGate
	from   time.Time
	panics bool
}

func (g closing) Ask(context.Context, *llm.Request, *llm.Deployment, time.Time) error {
	switch {
	case g.panics:
		panic("gate")
	case !time.Now().Before(g.from):
		return &llm.Error{Class: llm.Cooling, Message: "closed"}
	}
	return nil
}

func TestLimiterAsksTheGatesBeforeItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, chat := limited(middleware.LimiterConfig{Limits: middleware.Limits{InFlight: 1}}, llmtest.Script(llmtest.Step{Delay: time.Second}))
		call := func(g closing) (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = errors.New("it panicked")
				}
			}()
			r := limiterAsk("", 1).Accounted()
			defer r.Enforce(g).Lift()
			_, err = chat.Call(t.Context(), r)
			return err
		}
		open := closing{from: time.Now().Add(time.Hour)}
		began := time.Now()
		limiterGo(
			func() {
				if err := call(open); err != nil {
					t.Error(err)
				}
			},
			func() {
				if err := call(closing{from: began}); llm.ClassOf(err) != llm.Cooling || time.Since(began) != 0 {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			},
			func() {
				if err := call(closing{panics: true}); err == nil || time.Since(began) != 0 {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			},
			func() {
				if err := call(open); err != nil || time.Since(began) != 2*time.Second {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			},
		)
		if s := l.Snapshot()[0]; s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("%v", s)
		}
	})
}
