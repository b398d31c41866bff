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

func deadlineOf(cfg middleware.DeadlineConfig, c llm.Caller) *llm.Pipeline {
	return llm.New(middleware.Deadline(cfg)).Then(c)
}

func TestDeadlineEndsTheCallAndSaysWhoseTimeRanOut(t *testing.T) {
	for _, test := range []struct {
		name         string
		total        time.Duration
		caller       time.Duration // 0: no deadline of its own
		attempt      time.Duration // 0: no limit
		after        time.Duration
		class        llm.Class
		says         string
		deadlinePass bool
		bare         bool
	}{
		{"the call's", 0, 0, 0, 30 * time.Second, llm.Exhausted, "the call's 30s ran out", true, false},
		{"the call's, as set", 5 * time.Second, time.Minute, 0, 5 * time.Second, llm.Exhausted, "the call's 5s ran out", true, false},
		{"the caller's", 0, 3 * time.Second, time.Minute, 3 * time.Second, llm.Exhausted, "the caller's deadline passed", true, false},
		{"the attempt's", 0, time.Minute, 2 * time.Second, 2 * time.Second, llm.Stalled, "the attempt took longer than 2s", false, false},
		{"the call's, of a Caller that knows only contexts", 0, 0, 0, 30 * time.Second, llm.Exhausted, "the call's 30s ran out", true, true},
		{"the attempt's, of such a one", 0, 0, time.Second, time.Second, llm.Stalled, "the attempt took longer than 1s", false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var leaf llm.Caller = llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				})
				if !test.bare {
					leaf = fallbackDep("p", leaf)
				}
				chain := llm.New(middleware.Deadline(middleware.DeadlineConfig{Total: test.total}))
				if test.attempt > 0 {
					chain = chain.Append(middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Total: test.attempt}))
				}
				ctx := t.Context()
				if test.caller > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.caller)
					defer cancel()
				}
				start := time.Now()
				_, err := chain.Then(leaf).Call(ctx, fallbackAsk())
				if took := time.Since(start); took != test.after {
					t.Errorf("ended after %v, want %v", took, test.after)
				}
				if llm.ClassOf(err) != test.class || !strings.Contains(fmt.Sprint(err), test.says) ||
					errors.Is(err, context.DeadlineExceeded) != test.deadlinePass {
					t.Errorf("error %v, want %v: %s", err, test.class, test.says)
				}
			})
		})
	}
}

func TestDeadlineLetsThroughWhatIsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside context.Context
		model := llmtest.Script(llmtest.Step{Delay: 29 * time.Second, Func: func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
			inside = ctx
			if end, ok := ctx.Deadline(); !ok || time.Until(end) != time.Second {
				t.Errorf("the attempt sees the deadline %v", end)
			}
			return &llm.Response{Parts: []llm.Part{llm.Text("ok")}}, nil
		}})
		resp, err := deadlineOf(middleware.DeadlineConfig{}, fallbackDep("p", model)).Call(t.Context(), fallbackAsk())
		if err != nil || resp.Text() != "ok" {
			t.Errorf("%v, %v", resp, err)
		}
		if inside.Err() == nil {
			t.Error("the context of the call outlives it")
		}
	})
}

func TestDeadlineKeepsTheLastFailureInTheChain(t *testing.T) {
	down := status(llm.Unavailable, 503, "down")
	for name, p := range map[string]*llmtest.Model{
		"while an attempt is under way": llmtest.Script(llmtest.Fail(down), llmtest.Step{Hang: true}),
		"while a later one fails":       llmtest.Script(llmtest.Fail(down), llmtest.Step{Delay: 29 * time.Second, Err: llm.Overloaded}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				again := llm.New(middleware.Retry(middleware.RetryConfig{}))
				_, err := deadlineOf(middleware.DeadlineConfig{}, again.Then(fallbackDep("p", p))).Call(t.Context(), fallbackAsk())
				if !errors.Is(err, llm.Unavailable) && !errors.Is(err, llm.Overloaded) {
					t.Errorf("%v does not hold the failure", err)
				}
				if e := fallbackError(t, err); p.Count() != 2 || e.Attempts == nil {
					t.Errorf("%d calls, %+v", p.Count(), e)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p := llmtest.Script(llmtest.Fail(down), llmtest.Step{Hang: true})
		_, err := deadlineOf(middleware.DeadlineConfig{}, llm.New(middleware.Retry(middleware.RetryConfig{})).Then(fallbackDep("p", p))).
			Call(t.Context(), fallbackAsk())
		want := "llm: p: exhausted: the call's 30s ran out: context deadline exceeded; the last failure was p: unavailable (HTTP 503): down"
		if err == nil || err.Error() != want || !errors.Is(err, llm.Exhausted) {
			t.Errorf("error\n%v\nwant\n%s", err, want)
		}
	})
}

func TestDeadlineTellsOfTheLastFailureOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmtest.Script(llmtest.Fail(status(llm.Unavailable, 503, "down")), llmtest.Step{Hang: true})
		twice := llm.New(middleware.Deadline(middleware.DeadlineConfig{Total: 5 * time.Second}), middleware.Retry(middleware.RetryConfig{}))
		_, err := deadlineOf(middleware.DeadlineConfig{}, twice.Then(fallbackDep("p", p))).Call(t.Context(), fallbackAsk())
		if !errors.Is(err, llm.Unavailable) || strings.Count(err.Error(), "503") != 1 {
			t.Errorf("error %v", err)
		}
	})
}

func TestDeadlineDoesNotWaitForABackOffThatEndsAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmtest.Script(llmtest.Step{Delay: 3 * time.Second, Err: status(llm.Unavailable, 500, "down")})
		slow := llm.New(middleware.Retry(middleware.RetryConfig{Base: time.Minute, Cap: time.Minute}))
		start := time.Now()
		_, err := deadlineOf(middleware.DeadlineConfig{Total: 5 * time.Second}, slow.Then(fallbackDep("p", p))).Call(t.Context(), fallbackAsk())
		if took := time.Since(start); took != 3*time.Second || p.Count() != 1 || llm.ClassOf(err) != llm.Unavailable {
			t.Errorf("after %v and %d calls: %v; want the failure at once", took, p.Count(), err)
		}
	})
}

func TestDeadlineSkipsADeploymentThatWouldNotBeDoneInTime(t *testing.T) {
	estimates := middleware.NewEstimates(middleware.EstimatesConfig{Fixed: map[string]time.Duration{
		"p": 3500 * time.Millisecond, "slow": 2100 * time.Millisecond, // no time for both, so p has it all
	}})
	cfg := middleware.DeadlineConfig{Total: 5 * time.Second, Estimates: estimates}
	failing := llmtest.Script(llmtest.Step{Delay: 4100 * time.Millisecond, Err: llm.Unavailable})
	synctest.Test(t, func(t *testing.T) {
		slow, quick := llmtest.Script(), llmtest.Script()
		resp, err := deadlineOf(cfg, fallbackTo(fallbackDep("p", failing), fallbackDep("slow", slow), fallbackDep("quick", quick))).
			Call(t.Context(), fallbackAsk())
		if err != nil || resp.Deployment != "quick" || slow.Count() != 0 {
			t.Fatalf("%v, %v after %d calls of the slow one", resp, err, slow.Count())
		}
		if got := fallbackRows(resp.Attempts); got != "p slow(needs about 2.1s, 900ms left) quick" {
			t.Errorf("account %q", got)
		}
	})
	synctest.Test(t, func(t *testing.T) { // nobody is left: the real failure, and why the other was not tried
		_, err := deadlineOf(cfg, fallbackTo(fallbackDep("p", failing), fallbackDep("slow", llmtest.Script()))).Call(t.Context(), fallbackAsk())
		if llm.ClassOf(err) != llm.Unavailable || !strings.Contains(err.Error(), "slow not tried: needs about 2.1s, 900ms left") {
			t.Errorf("error %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // without a fallback the leaf itself refuses
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		slow := llmtest.Script()
		_, err := deadlineOf(cfg, fallbackDep("slow", slow)).Call(ctx, fallbackAsk())
		if llm.ClassOf(err) != llm.Exhausted || slow.Count() != 0 || !strings.Contains(err.Error(), "needs about 2.1s, 1s left") {
			t.Errorf("error %v after %d calls", err, slow.Count())
		}
	})
}

func TestDeadlineRefusesAWaitThatLeavesTooLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		estimates := middleware.NewEstimates(middleware.EstimatesConfig{Fixed: map[string]time.Duration{"p": 3 * time.Second}})
		p := llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.RateLimited, RetryAfter: 8 * time.Second}))
		start := time.Now()
		_, err := deadlineOf(middleware.DeadlineConfig{Total: 10 * time.Second, Estimates: estimates},
			llm.New(middleware.Retry(middleware.RetryConfig{})).Then(fallbackDep("p", p))).Call(t.Context(), fallbackAsk())
		if time.Since(start) != 0 || p.Count() != 1 || llm.ClassOf(err) != llm.RateLimited {
			t.Errorf("after %v and %d calls: %v", time.Since(start), p.Count(), err)
		}
		if got := fallbackRows(fallbackError(t, err).Attempts); !strings.Contains(got, "needs about 3s") {
			t.Errorf("account %q", got)
		}
	})
}

func TestDeadlineLearnsHowLongADeploymentTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmtest.Script(llmtest.Step{Delay: 4 * time.Second})
		f := llmtest.Script()
		chat := deadlineOf(middleware.DeadlineConfig{}, fallbackTo(fallbackDep("p", p), fallbackDep("f", f)))
		hurried := func() (*llm.Response, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			return chat.Call(ctx, fallbackAsk())
		}
		if _, err := hurried(); p.Count() != 1 || err != nil {
			t.Errorf("cold: not tried, %v", err)
		}
		for range 10 {
			if _, err := chat.Call(t.Context(), fallbackAsk()); err != nil {
				t.Fatal(err)
			}
		}
		calls := p.Count()
		resp, err := hurried()
		if err != nil || resp.Deployment != "f" || p.Count() != calls {
			t.Errorf("%v, %v: p was tried with 2s left, though it takes 4s", resp, err)
		}
		llmtest.Advance(10 * time.Minute)
		if _, err = hurried(); p.Count() != calls+1 {
			t.Errorf("p is shut out for ever: %v", err)
		}
	})
}

func TestDeadlineDoesNotLearnFromFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		estimates := middleware.NewEstimates(middleware.EstimatesConfig{})
		chat := deadlineOf(middleware.DeadlineConfig{Estimates: estimates},
			fallbackDep("p", llmtest.Script(llmtest.Step{Delay: time.Second, Err: llm.Unavailable})))
		for range 10 {
			if _, err := chat.Call(t.Context(), fallbackAsk()); err == nil {
				t.Fatal("answered")
			}
		}
		if got := estimates.Of("p"); got != 0 {
			t.Errorf("learned %v", got)
		}
	})
}

// What takes as long as the whole call by all experience must still be tried, or it could never be seen to be quicker.
func TestDeadlineNeverShutsOutACallWithAllItsTime(t *testing.T) {
	estimates := middleware.NewEstimates(middleware.EstimatesConfig{})
	for range 10 {
		estimates.Learn("p", time.Minute)
	}
	p := llmtest.Script()
	if _, err := deadlineOf(middleware.DeadlineConfig{Estimates: estimates}, fallbackDep("p", p)).Call(t.Context(), fallbackAsk()); err != nil {
		t.Error(err)
	}
}

func TestDeadlineKeepsTimeForTheLastOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stack := llm.New(middleware.Retry(middleware.RetryConfig{}), middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{}))
		var all []llm.Caller
		for _, name := range []string{"a", "b", "c"} {
			all = append(all, stack.Then(fallbackDep(name, llmtest.Script(llmtest.Step{Hang: true}))))
		}
		all = append(all, stack.Then(fallbackDep("last", llmtest.Script(llmtest.Step{Delay: 2 * time.Second, Text: "from the last"}))))
		resp, err := deadlineOf(middleware.DeadlineConfig{}, fallbackTo(all...)).Call(t.Context(), fallbackAsk())
		if err != nil || resp.Text() != "from the last" {
			t.Fatal(err)
		}
		if a := resp.Attempts; a[0].Took != 15*time.Second || a[1].Took != 9*time.Second || a[2].Took != 3*time.Second {
			t.Errorf("a, b and c had %v, %v and %v", a[0].Took, a[1].Took, a[2].Took)
		}
	})
}

func TestDeadlineLeavesTimeForTheNextDeployment(t *testing.T) {
	const letGo = 5 * time.Millisecond // what a model takes to notice that its time is over
	hang := llmtest.Script(llmtest.Step{Hang: true})
	silent := llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		defer llmtest.Advance(letGo)
		return hang.Call(ctx, req)
	})
	estimates := middleware.NewEstimates(middleware.EstimatesConfig{Fixed: map[string]time.Duration{"f": 6 * time.Second}})
	for _, test := range []struct {
		name string
		cfg  middleware.DeadlineConfig
		left time.Duration // what f has
	}{
		{"a tenth while nothing is known", middleware.DeadlineConfig{Total: 20 * time.Second}, 2 * time.Second},
		{"what it is expected to need and more", middleware.DeadlineConfig{Total: 20 * time.Second, Estimates: estimates}, 6760 * time.Millisecond},
		{"what it needs in place of less", middleware.DeadlineConfig{Total: 20 * time.Second, Reserve: time.Second, Estimates: estimates}, 6760 * time.Millisecond},
		{"the least there is", middleware.DeadlineConfig{Total: 500 * time.Millisecond}, 66250 * time.Microsecond},
		{"what is reserved", middleware.DeadlineConfig{Total: 20 * time.Second, Reserve: 7 * time.Second, Estimates: estimates}, 7 * time.Second},
	} {
		for _, streamed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, streamed %t", test.name, streamed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					start := time.Now()
					f := llmtest.Script(llmtest.Step{Delay: test.cfg.Total / 20, Text: "from f"})
					chat := deadlineOf(test.cfg, fallbackTo(fallbackDep("p", silent), fallbackDep("f", f)))
					req, text := fallbackAsk(), ""
					if streamed {
						req.Sink = func(d llm.Delta) error { text += d.Text; return nil }
					}
					resp, err := chat.Call(t.Context(), req)
					if err != nil || resp.Text() != "from f" || streamed && text != "from f" {
						t.Fatalf("%v, %v, %q", resp, err, text)
					}
					if left := test.cfg.Total - f.Calls()[0].At.Sub(start) + letGo; left != test.left {
						t.Errorf("f has %v, want %v", left, test.left)
					}
					if a := resp.Attempts[0]; a.Class != llm.Stalled || !strings.Contains(a.Err.Error(), "still time for f") {
						t.Errorf("p's attempt is %v: %v", a.Class, a.Err)
					}
				})
			})
		}
	}
}

func TestDeadlineEndsAShareWithItsRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ofP context.Context
		p := llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
			ofP = ctx
			return nil, llm.Unavailable
		})
		f := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
			if ofP.Err() == nil {
				t.Error("what p left behind goes on while f is asked")
			}
			return &llm.Response{Parts: []llm.Part{llm.Text("ok")}}, nil
		})
		chat := deadlineOf(middleware.DeadlineConfig{}, fallbackTo(fallbackDep("p", p), fallbackDep("f", f)))
		if _, err := chat.Call(t.Context(), fallbackAsk()); err != nil {
			t.Error(err)
		}
	})
}

func TestDeadlineMovesPastACallerThatKnowsOnlyContexts(t *testing.T) {
	plain := llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	for _, sink := range []llm.Sink{nil, func(llm.Delta) error { return nil }} {
		synctest.Test(t, func(t *testing.T) {
			req := fallbackAsk()
			req.Sink = sink
			resp, err := deadlineOf(middleware.DeadlineConfig{}, fallbackTo(plain, fallbackDep("f", llmtest.Script()))).Call(t.Context(), req)
			if err != nil || resp.Deployment != "f" {
				t.Errorf("streamed %t: %v, %v", sink != nil, resp, err)
			}
		})
	}
}

func TestDeadlineSharesNothingWhereNothingCanFollow(t *testing.T) {
	once, unsafe := fallbackAsk(), fallbackAsk()
	once.MaxAttempts, unsafe.ReplayUnsafe = 1, true
	estimates := middleware.NewEstimates(middleware.EstimatesConfig{Fixed: map[string]time.Duration{
		"p": 6 * time.Second, "f": 6 * time.Second,
	}})
	p := func() llm.Caller {
		return fallbackDep("p", llmtest.Script(llmtest.Step{Delay: 9500 * time.Millisecond}))
	}
	f := func() llm.Caller { return fallbackDep("f", llmtest.Script()) }
	for name, test := range map[string]struct {
		req       *llm.Request
		routes    []llm.Caller
		estimates *middleware.Estimates
	}{
		"one attempt is allowed":             {req: once, routes: []llm.Caller{p(), f()}},
		"it may have acted on the world":     {req: unsafe, routes: []llm.Caller{p(), f()}},
		"there is no other":                  {req: fallbackAsk(), routes: []llm.Caller{p()}},
		"the other is the same":              {req: fallbackAsk(), routes: []llm.Caller{p(), p()}},
		"the other does not stand in for it": {req: fallbackAsk(), routes: []llm.Caller{p(), middleware.Route{Caller: f(), For: []llm.Class{llm.Quota}}}},
		"there is not time enough for both":  {req: fallbackAsk(), routes: []llm.Caller{p(), f()}, estimates: estimates},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := middleware.DeadlineConfig{Total: 10 * time.Second, Estimates: test.estimates}
				resp, err := deadlineOf(cfg, fallbackTo(test.routes...)).Call(t.Context(), test.req)
				if err != nil || resp.Deployment != "p" {
					t.Errorf("%v, %v; want p's answer after 9.5s of 10s", resp, err)
				}
			})
		})
	}
}

func TestDeadlineDoesNotCutAStreamThatHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmtest.Script(llmtest.Step{Deltas: []llm.Delta{{Text: "a"}, {Text: "b"}, {Text: "c"}}, Gap: 14 * time.Second})
		f := llmtest.Script()
		text := ""
		for d, err := range llm.Stream(t.Context(), deadlineOf(middleware.DeadlineConfig{}, fallbackTo(fallbackDep("p", p), fallbackDep("f", f))),
			fallbackAsk()) {
			if err != nil {
				t.Fatal(err)
			}
			text += d.Text
		}
		if text != "abc" || f.Count() != 0 {
			t.Errorf("%q after %d calls of f", text, f.Count())
		}
	})
}

func TestDeadlineBlamesNoDeploymentForACallerInAHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{})
		p := llm.New(cooldowns.Stage()).Then(fallbackDep("p", llmtest.Script(llmtest.Step{Hang: true})))
		resp, err := deadlineOf(middleware.DeadlineConfig{}, fallbackTo(p, fallbackDep("f", llmtest.Script()))).Call(ctx, fallbackAsk())
		if err != nil || resp.Deployment != "f" || resp.Attempts[0].Class != llm.Exhausted {
			t.Errorf("%v, %v", resp, err)
		}
		if rests := cooldowns.Snapshot(); len(rests) != 0 {
			t.Errorf("%v rests", rests)
		}
	})
}

func TestDeadlineMinAttemptShrinksWithTheCallersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		p := llmtest.Script()
		if _, err := deadlineOf(middleware.DeadlineConfig{}, fallbackDep("p", p)).Call(ctx, fallbackAsk()); err != nil {
			t.Error(err)
		}
		_, err := deadlineOf(middleware.DeadlineConfig{MinAttempt: 30 * time.Millisecond}, fallbackDep("p", p)).Call(ctx, fallbackAsk())
		if llm.ClassOf(err) != llm.Exhausted || p.Count() != 1 {
			t.Errorf("what is set holds: %v after %d calls", err, p.Count())
		}
	})
}

func TestDeadlineOfACallThatTheCallerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := deadlineOf(middleware.DeadlineConfig{}, fallbackDep("p", llmtest.Script(llmtest.Step{Hang: true}))).Call(ctx, fallbackAsk())
		if llm.ClassOf(err) != llm.Canceled || !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestDeadlinePassesANilRequestOn(t *testing.T) {
	for _, stage := range []llm.Stage{
		middleware.Deadline(middleware.DeadlineConfig{}), middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{}),
		middleware.Classify(middleware.ClassifyConfig{}), middleware.Validate(func(*llm.Request, *llm.Response) error { return nil }),
	} {
		if _, err := stage.Wrap(fallbackDep("p", llmtest.Script())).Call(t.Context(), nil); llm.ClassOf(err) != llm.Invalid {
			t.Errorf("%s: %v", stage.Name, err)
		}
	}
}

func TestDeadlineShowsItsSettings(t *testing.T) {
	chat := deadlineOf(middleware.DeadlineConfig{}, llm.New(middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{}),
		middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Idle: time.Second})).Then(fallbackDep("p", llmtest.Script())))
	want := "deadline {Total:30s MinAttempt:50ms Estimates:0.9 quantile over 10m0s, 0 deployments known}\n" +
		"  attempt_timeout {Total:15s}\n    attempt_timeout {Idle:1s}\n      p (test/m-p)"
	if got := chat.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestDeadlinePanicsOnNonsense(t *testing.T) {
	for want, cfg := range map[string]middleware.DeadlineConfig{
		"Total is -1s":      {Total: -time.Second},
		"MinAttempt is -1s": {MinAttempt: -time.Second},
		"Reserve is -1s":    {Reserve: -time.Second},
		"MinAttempt 31s and Reserve 0s must be less than Total 30s": {MinAttempt: 31 * time.Second},
		"Reserve 5s must be less than Total 5s":                     {Total: 5 * time.Second, Reserve: 5 * time.Second},
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.HasPrefix(got, "llm/middleware: Deadline: ") || !strings.Contains(got, want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			middleware.Deadline(cfg)
		}()
	}
}

func TestDeadlineCosts(t *testing.T) {
	f := fallbackDep("f", llmtest.Script())
	if n := costs(t, middleware.Deadline(middleware.DeadlineConfig{}).Wrap, fallbackAsk()); n > 2 {
		t.Errorf("%v allocations, want 2 at most", n)
	}
	if n := costs(t, func(c llm.Caller) llm.Caller {
		return middleware.Deadline(middleware.DeadlineConfig{}).Wrap(fallbackTo(c, f))
	}, fallbackAsk()); n > 2 {
		t.Errorf("around a fallback: %v allocations, want 2 at most", n)
	}
}
