package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// attemptStep is one delta of a script with the time before it.
type attemptStep struct {
	after time.Duration
	text  string
}

// attemptStream streams steps and then stays silent for tail before it ends. It heeds its context.
func attemptStream(tail time.Duration, steps ...attemptStep) llm.Caller {
	pause := func(ctx context.Context, d time.Duration) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fallbackDep("p", llm.CallerFunc(func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		text := ""
		for _, s := range steps {
			if err := pause(ctx, s.after); err != nil {
				return nil, err
			}
			text += s.text
			if r.Sink == nil {
				continue
			}
			if err := r.Sink(llm.Delta{Text: s.text}); err != nil {
				return nil, err
			}
		}
		if err := pause(ctx, tail); err != nil {
			return nil, err
		}
		return &llm.Response{Parts: []llm.Part{llm.Text(text)}}, nil
	}))
}

func attemptSteps(n int, first, gap time.Duration) []attemptStep {
	steps := []attemptStep{{first, "x"}}
	for range n - 1 {
		steps = append(steps, attemptStep{gap, "x"})
	}
	return steps
}

func TestAttemptTimeoutHasThreeLimits(t *testing.T) {
	const s = time.Second
	cfg := func(total, first, idle time.Duration) middleware.AttemptTimeoutConfig {
		return middleware.AttemptTimeoutConfig{Total: total, FirstToken: first, Idle: idle}
	}
	for _, test := range []struct {
		name  string
		cfg   middleware.AttemptTimeoutConfig
		tail  time.Duration
		steps []attemptStep
		after time.Duration
		says  string // "": it answers
	}{
		{"no first token", cfg(0, 2*s, 0), 0, attemptSteps(1, 10*s, 0), 2 * s, "no first token within 2s"},
		{"no first token, long idle", cfg(0, 2*s, 8*s), 0, attemptSteps(1, 10*s, 0), 2 * s, "no first token within 2s"},
		{"first token in time", cfg(0, 2*s, 0), 30 * s, attemptSteps(1, 1999*time.Millisecond, 0), 32*s - time.Millisecond, ""},
		{"stalls after 20 deltas", cfg(0, 0, 5*s), time.Hour, attemptSteps(20, 0, 300*time.Millisecond), 5700*time.Millisecond + 5*s,
			"silent for 5s after 20 deltas"},
		{"stalls at once after a burst", cfg(0, 10*s, s), time.Hour, attemptSteps(1000, 0, 0), s + s/20, "silent for 1s after 1000 deltas"},
		{"stalls between deltas", cfg(0, 0, 5*s), 0, []attemptStep{{s, "a"}, {4 * s, "b"}, {6 * s, "c"}}, 10 * s, "silent for 5s after 2 deltas"},
		{"stalls before its end", cfg(0, 0, 5*s), 6 * s, []attemptStep{{s, "a"}}, 6 * s, "silent for 5s after 1 deltas"},
		{"idle does not count before the first", cfg(0, 0, 5*s), 0, []attemptStep{{8 * s, "a"}, {s, "b"}}, 9 * s, ""},
		{"a long stream without pauses", cfg(0, s, s), 0, attemptSteps(22, 300*time.Millisecond, 300*time.Millisecond), 6600 * time.Millisecond, ""},
		{"pauses just below idle", cfg(0, 0, s), 0, attemptSteps(10, 0, s-1), 9*s - 9, ""},
		{"a drip cannot outlive the total", cfg(10*s, 2*s, 2*s), 0, attemptSteps(100, s, s), 10 * s, "the attempt took longer than 10s"},
		{"only a total", cfg(10*s, 0, 0), 0, attemptSteps(100, s, s), 10 * s, "the attempt took longer than 10s"},
		{"the default", cfg(0, 0, 0), 0, attemptSteps(100, s, s), 15 * s, "the attempt took longer than 15s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, start := 0, time.Now()
				req := fallbackAsk()
				req.Sink = func(llm.Delta) error { n++; return nil }
				resp, err := middleware.AttemptTimeout(test.cfg).Wrap(attemptStream(test.tail, test.steps...)).Call(t.Context(), req)
				if took := time.Since(start); took != test.after {
					t.Errorf("ended after %v, want %v", took, test.after)
				}
				if test.says == "" {
					if err != nil || n != len(test.steps) || len(resp.Text()) != n {
						t.Errorf("%d deltas, %v, %v", n, resp, err)
					}
					return
				}
				e := fallbackError(t, err)
				if e.Class != llm.Stalled || e.Message != test.says || e.Deployment != "p" || (e.Partial != nil) != (n > 0) {
					t.Errorf("error %+v, want %q", e, test.says)
				}
				if errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v looks like the caller's deadline", err)
				}
			})
		})
	}
}

func TestAttemptTimeoutIdleIsLateByATwentiethAtMost(t *testing.T) {
	for gap := 7 * time.Millisecond; gap < 300*time.Millisecond; gap += 13 * time.Millisecond {
		for _, n := range []int{1, 2, 3, 17, 64} {
			synctest.Test(t, func(t *testing.T) {
				var last time.Time
				req := fallbackAsk()
				req.Sink = func(llm.Delta) error { last = time.Now(); return nil }
				stage := middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Idle: time.Second})
				_, err := stage.Wrap(attemptStream(time.Hour, attemptSteps(n, 0, gap)...)).Call(t.Context(), req)
				silent := time.Since(last)
				if llm.ClassOf(err) != llm.Stalled || silent < time.Second || silent > 1050*time.Millisecond ||
					gap >= 50*time.Millisecond && silent != time.Second {
					t.Errorf("%d deltas %v apart: silent for %v, %v", n, gap, silent, err)
				}
			})
		}
	}
}

func TestAttemptTimeoutIdleStopsWhileTheReaderHasADelta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, reads := time.Now(), 0
		slow := fallbackAsk()
		slow.Sink = func(llm.Delta) error {
			reads++
			llmtest.Advance(time.Minute)
			return nil
		}
		stage := middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Idle: time.Second, FirstToken: time.Second})
		if _, err := stage.Wrap(attemptStream(0, attemptSteps(3, 0, 900*time.Millisecond)...)).Call(t.Context(), slow); err != nil || reads != 3 {
			t.Errorf("a slow reader is blamed on the provider: %v after %d", err, reads)
		}
		_, err := stage.Wrap(attemptStream(time.Hour, attemptSteps(2, 0, 0)...)).Call(t.Context(), slow)
		if took := time.Since(start); llm.ClassOf(err) != llm.Stalled || took != 5*time.Minute+1800*time.Millisecond+time.Second {
			t.Errorf("silence after a slow reader: %v, %v", took, err)
		}
		// The reader's time does count for the total.
		start = time.Now()
		total := middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Total: 90 * time.Second, Idle: time.Second})
		_, err = total.Wrap(attemptStream(0, attemptSteps(3, 0, time.Millisecond)...)).Call(t.Context(), slow)
		if e := fallbackError(t, err); e.Message != "the attempt took longer than 1m30s" || time.Since(start) != 2*time.Minute+time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestAttemptTimeoutOfAWholeAnswerIsItsTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := fallbackDep("p", llmtest.Script(llmtest.Step{Delay: 8 * time.Second}))
		limits := middleware.AttemptTimeoutConfig{FirstToken: time.Second, Idle: time.Second}
		if _, err := middleware.AttemptTimeout(limits).Wrap(answer).Call(t.Context(), fallbackAsk()); err != nil {
			t.Errorf("limits on a stream ended a call without one: %v", err)
		}
		limits.Total = 5 * time.Second
		start := time.Now()
		_, err := middleware.AttemptTimeout(limits).Wrap(answer).Call(t.Context(), fallbackAsk())
		if e := fallbackError(t, err); time.Since(start) != 5*time.Second || e.Message != "the attempt took longer than 5s" {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestAttemptTimeoutMovesOnToTheNextDeployment(t *testing.T) {
	words := []llm.Delta{{Text: "a"}, {Text: "b"}}
	for _, test := range []struct {
		name   string
		cfg    middleware.AttemptTimeoutConfig
		p      llmtest.Step
		stream bool
		after  time.Duration
	}{
		{"hangs", middleware.AttemptTimeoutConfig{Total: time.Second}, llmtest.Step{Hang: true}, false, time.Second},
		{"is silent", middleware.AttemptTimeoutConfig{Total: 10 * time.Second}, llmtest.Step{Delay: time.Minute}, false, 10 * time.Second},
		{"sends headers and no token", middleware.AttemptTimeoutConfig{FirstToken: 2 * time.Second},
			llmtest.Step{Delay: 10 * time.Second, Deltas: words}, true, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := llm.New(middleware.Retry(middleware.RetryConfig{}), middleware.AttemptTimeout(test.cfg))
				p, start, text := llmtest.Script(test.p), time.Now(), ""
				req := fallbackAsk()
				if test.stream {
					req.Sink = func(d llm.Delta) error { text += d.Text; return nil }
				}
				resp, err := llm.New().Then(fallbackTo(c.Then(fallbackDep("p", p)), c.Then(fallbackDep("f", llmtest.Script())))).
					Call(t.Context(), req)
				if err != nil || resp.Deployment != "f" || p.Count() != 1 || time.Since(start) != test.after || test.stream && text != "ok" {
					t.Errorf("%v, %v after %v and %d calls of p", resp, err, time.Since(start), p.Count())
				}
			})
		})
	}
}

func TestAttemptTimeoutEndsWithTheCaller(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		t.Run(fmt.Sprint("streamed ", streamed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(100*time.Millisecond, cancel)
				p, start := llmtest.Script(llmtest.Step{Hang: true}), time.Now()
				req := fallbackAsk()
				if streamed {
					req.Sink = func(llm.Delta) error { return nil }
				}
				c := llm.New(middleware.Retry(middleware.RetryConfig{}), middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{
					Total: time.Second, FirstToken: time.Second, Idle: time.Second,
				}))
				_, err := c.Then(fallbackDep("p", p)).Call(ctx, req)
				if took := time.Since(start); took != 100*time.Millisecond || !errors.Is(err, context.Canceled) || llm.ClassOf(err) != llm.Canceled {
					t.Errorf("%v after %v", err, took)
				}
				llmtest.Advance(2 * time.Second)
				if p.Count() != 1 {
					t.Errorf("%d calls after the caller left", p.Count())
				}
			})
		})
	}
}

func TestAttemptTimeoutLetsTheAttemptsContextLiveUntilCallReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside []context.Context
		model := fallbackDep("p", llm.CallerFunc(func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
			inside = append(inside, ctx)
			for range 3 {
				llmtest.Advance(900 * time.Millisecond)
				if ctx.Err() != nil {
					t.Error("the context ended in the middle")
				}
				if r.Sink != nil {
					if err := r.Sink(llm.Delta{Text: "x"}); err != nil {
						return nil, err
					}
				}
			}
			return &llm.Response{Parts: []llm.Part{llm.Text("xxx")}}, nil
		}))
		stage := middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Total: 3 * time.Second, FirstToken: time.Second, Idle: time.Second})
		for _, sink := range []llm.Sink{nil, func(llm.Delta) error { return nil }} {
			req := fallbackAsk()
			req.Sink = sink
			if _, err := stage.Wrap(model).Call(t.Context(), req); err != nil {
				t.Error(err)
			}
		}
		for _, ctx := range inside {
			if !errors.Is(ctx.Err(), context.Canceled) {
				t.Errorf("afterwards: %v", ctx.Err())
			}
		}
	})
}

func TestAttemptTimeoutSurvivesAPanicOfTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := fallbackAsk()
		req.Sink = func(llm.Delta) error { panic("reader") }
		defer func() {
			if recover() != "reader" {
				t.Error("the reader's panic is lost")
			}
			llmtest.Advance(time.Minute) // and nothing comes after it
		}()
		_, _ = middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Idle: time.Second}).Wrap(attemptStream(0, attemptStep{0, "x"})).
			Call(t.Context(), req)
	})
}

func TestAttemptTimeoutPanicsOnNonsense(t *testing.T) {
	for want, cfg := range map[string]middleware.AttemptTimeoutConfig{
		"Total is -1s": {Total: -time.Second}, "FirstToken is -1s": {FirstToken: -time.Second}, "Idle is -1s": {Idle: -time.Second},
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.HasPrefix(got, "llm/middleware: AttemptTimeout: "+want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			middleware.AttemptTimeout(cfg)
		}()
	}
}

func TestAttemptTimeoutCosts(t *testing.T) {
	all := middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Total: time.Minute, FirstToken: time.Minute, Idle: time.Minute})
	if n := costs(t, all.Wrap, fallbackAsk()); n > 1 {
		t.Errorf("%v allocations, want 1", n)
	}
	outer := middleware.Deadline(middleware.DeadlineConfig{Total: 5 * time.Second})
	both := costs(t, func(c llm.Caller) llm.Caller { return outer.Wrap(all.Wrap(c)) }, fallbackAsk())
	if n := both - costs(t, outer.Wrap, fallbackAsk()); n > 0 {
		t.Errorf("%v allocations inside a deadline that comes first, want none", n)
	}
	stream := func(deltas int) float64 {
		dep := fallbackDep("p", llm.CallerFunc(func(_ context.Context, r *llm.Request) (*llm.Response, error) {
			for range deltas {
				if err := r.Sink(llm.Delta{Text: "x"}); err != nil {
					return nil, err
				}
			}
			return &llm.Response{Parts: []llm.Part{llm.Text("x")}}, nil
		}))
		req, chat := fallbackAsk(), llm.New(all).Then(dep)
		req.Sink = func(llm.Delta) error { return nil }
		return testing.AllocsPerRun(50, func() {
			if _, err := chat.Call(context.Background(), req); err != nil { //nolint:usetesting // Background has no machinery
				t.Fatal(err)
			}
		})
	}
	if few, many := stream(1), stream(1000); many > few {
		t.Errorf("%v allocations for one delta, %v for a thousand", few, many)
	}
}

func BenchmarkAttemptTimeoutDelta(b *testing.B) {
	for name, chain := range map[string]llm.Chain{
		"leaf":            llm.New(),
		"attempt_timeout": llm.New(middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Total: time.Minute, FirstToken: time.Minute, Idle: time.Minute})),
	} {
		b.Run(name, func(b *testing.B) {
			n := 0
			chat := chain.Then(fallbackDep("p", llm.CallerFunc(func(_ context.Context, r *llm.Request) (*llm.Response, error) {
				for b.Loop() {
					if err := r.Sink(llm.Delta{Text: "x"}); err != nil {
						return nil, err
					}
				}
				return &llm.Response{Parts: []llm.Part{llm.Text("x")}}, nil
			})))
			req := fallbackAsk()
			req.Sink = func(llm.Delta) error { n++; return nil }
			b.ReportAllocs()
			if _, err := chat.Call(b.Context(), req); err != nil || n == 0 {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkLimits(b *testing.B) {
	answer := &llm.Response{Parts: []llm.Part{llm.Text("ok")}, Stop: llm.StopEnd}
	dep := fallbackDep("p", llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return answer, nil }))
	for name, chain := range map[string]llm.Chain{
		"leaf":            llm.New(),
		"attempt_timeout": llm.New(middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{})),
		"deadline":        llm.New(middleware.Deadline(middleware.DeadlineConfig{})),
		"classify":        llm.New(middleware.Classify(middleware.ClassifyConfig{})),
	} {
		b.Run(name, func(b *testing.B) {
			chat, req := chain.Then(dep), fallbackAsk()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := chat.Call(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
