package middleware_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// A hedge that is faster counts against nobody: no rest begins, nothing is learned, no budget is charged.
func TestHedgeALosersCancellationCountsAgainstNobody(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{})
		known := middleware.NewEstimates(middleware.EstimatesConfig{})
		budget := middleware.NewRetryBudget(middleware.RetryBudgetConfig{})
		stack := llm.New(cooldowns.Stage(), middleware.Retry(middleware.RetryConfig{Budget: budget, Base: time.Second / 10}),
			middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Total: time.Minute}), middleware.Classify(middleware.ClassifyConfig{}))
		// Both lose while they repeat, one as the first and one as the hedge.
		var steps []llmtest.Step
		for range 20 {
			steps = append(steps, llmtest.Fail(llm.Unavailable), llmtest.Step{Hang: true})
		}
		lost := stack.Then(fallbackDep("lost", llmtest.Script(steps...)))
		first, second := hedgeIn(0, "won"), hedgeIn(2*time.Second, "won")
		for _, c := range []llm.Caller{
			middleware.Hedge(middleware.HedgeConfig{Delay: time.Second, Share: 1}, lost, fallbackDep("b", first)),
			middleware.Hedge(middleware.HedgeConfig{Delay: time.Second, Share: 1}, fallbackDep("a", second), lost),
		} {
			chat := llm.New(middleware.Deadline(middleware.DeadlineConfig{Estimates: known})).Then(c)
			for range 8 {
				hedgeCall(t.Context(), chat, stream).want(t, stream, "won", max(time.Second, hedgeFirstTook(c)))
			}
		}
		if rests := cooldowns.Snapshot(); rests != nil {
			t.Errorf("it rests: %+v", rests)
		}
		if d := known.Of("lost"); d != 0 {
			t.Errorf("the deadline learned %v of attempts that were cut off", d)
		}
		if n := budget.Tokens(); n != 140 {
			t.Errorf("the retry budget has %d of 140 tokens", n)
		}
	})
}

// hedgeFirstTook is how long the first of the two callers above takes, if it is the one that wins.
func hedgeFirstTook(c llm.Caller) time.Duration {
	for d := range llm.Describe(c).Deployments() {
		if d.Name == "a" {
			return 2 * time.Second
		}
		break
	}
	return 0
}

func TestHedgeALoserCostsNothingOfTheBudgetForStandingIn(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		b := hedgeHangs()
		hedged := middleware.Hedge(middleware.HedgeConfig{Delay: time.Second, Share: 1}, fallbackDep("a", hedgeIn(2*time.Second, "a")),
			fallbackDep("b", b))
		for range 50 { // ten would use it up
			hedgeCall(t.Context(), hedged, stream).want(t, stream, "a", 2*time.Second)
		}
		if b.Count() != 50 {
			t.Errorf("b was called in %d of 50 calls", b.Count())
		}
	})
}

func TestHedgeAProbeThatLosesIsNoVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, due, model := cooldownDue(t, middleware.CooldownConfig{}, llmtest.Step{Hang: true}, llmtest.Step{})
		hedged := hedgeAfter(due, fallbackDep("b", hedgeIn(0, "b")))
		hedgeCall(t.Context(), hedged, false).want(t, false, "b", time.Second)
		if s := c.Snapshot(); len(s) != 1 || s[0].Failed != 0 || s[0].Probing {
			t.Errorf("after a probe that lost: %+v", s)
		}
		if e := cooldownCall(t, due); e != nil || model.Count() != 3 || c.Snapshot() != nil {
			t.Errorf("the next call is not the probe: %v, %+v", e, c.Snapshot())
		}
	})
}

func TestHedgeTheProbeOfOneBranchIsNotTakenForAnother(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		c, due, model := cooldownDue(t, middleware.CooldownConfig{}, llmtest.Step{Delay: 5 * time.Second})
		again := llm.New(c.Stage()).Then(fallbackDep("a", model))
		// The first branch probes a; the second comes to a as well, by way of another that fails.
		x, y := fallbackDep("x", llmtest.Script(llmtest.Fail(llm.Unavailable))), fallbackDep("y", llmtest.Script(llmtest.Fail(llm.Unavailable)))
		got := hedgeCall(t.Context(), hedgeAfter(fallbackTo(x, due), fallbackTo(y, again)), stream)
		got.want(t, stream, "ok", 5*time.Second)
		if n := model.Count(); n != 2 || !strings.Contains(fallbackRows(got.resp.Attempts), "a(is being probed after unavailable)") {
			t.Errorf("%d probes were out at a time; rows %q", n-1, fallbackRows(got.resp.Attempts))
		}
	})
}

func TestHedgeARestThatBeginsInOneBranchDoesNotHoldUpTheOther(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		fails := llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
			if _, ok := ctx.Deadline(); ok {
				return nil, llm.Unavailable
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		around := llm.New(c.Stage()).Then(fallbackTo(fallbackDep("a", fails), fallbackDep("b", fails))) // a rest of its own
		time.AfterFunc(time.Second/2, func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, _ = around.Call(ctx, fallbackAsk())
		})
		hedgeCall(t.Context(), hedgeAfter(around, fallbackDep("c", hedgeIn(0, "c"))), stream).want(t, stream, "c", time.Second)
		if len(c.Snapshot()) != 1 {
			t.Fatal("no rest began")
		}
	})
}

func TestHedgeAPanicBesideTheCallIsAFailure(t *testing.T) {
	panics := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { panic("boom") })
	exits := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { runtime.Goexit(); return nil, nil })
	for name, b := range map[string]llm.Caller{
		"panic of a model": fallbackDep("b", panics), "panic of a stage": panics,
		"goexit of a model": fallbackDep("b", exits), "goexit of a stage": exits,
	} {
		t.Run(name, func(t *testing.T) {
			hedgeBoth(t, func(t *testing.T, stream bool) {
				a := fallbackDep("a", hedgeIn(time.Minute, "a"))
				hedgeCall(t.Context(), hedgeAfter(a, b, fallbackDep("c", hedgeIn(time.Second, "c"))), stream).
					want(t, stream, "c", 2*time.Second)
				got := hedgeCall(t.Context(), hedgeAfter(fallbackDep("a", llmtest.Script(llmtest.Step{Delay: time.Minute, Err: llm.Unavailable})), b), stream)
				if llm.ClassOf(got.err) != llm.Unavailable || got.took != time.Minute {
					t.Errorf("%v after %v", got.err, got.took)
				}
			})
		})
	}
}

// hedgeEnds calls c on a goroutine that may end in any way, and says in which.
func hedgeEnds(t *testing.T, c llm.Caller, sink llm.Sink) (how any) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		how = "goexit"
		defer func() {
			if v := recover(); v != nil {
				how = v
			}
		}()
		req := fallbackAsk()
		req.Sink = sink
		_, err := c.Call(t.Context(), req)
		how = err
	})
	wg.Wait()
	return how
}

func TestHedgeAPanicOfTheSinkComesOutWhereTheCallWasMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := false
		stubborn := fallbackDep("b", hedgeStubborn(time.Minute, &gone))
		for name, c := range map[string]llm.Caller{
			"of the first": hedgeAfter(fallbackDep("a", hedgeIn(2*time.Second, "1", "2")), stubborn),
			"of the hedge": hedgeAfter(stubborn, fallbackDep("a", hedgeIn(2*time.Second, "1", "2"))),
		} {
			for want, sink := range map[string]llm.Sink{
				"boom":   func(llm.Delta) error { panic("boom") },
				"goexit": func(llm.Delta) error { runtime.Goexit(); return nil },
			} {
				gone = false
				if how := hedgeEnds(t, c, sink); how != any(want) || !gone {
					t.Errorf("%s: the call ended with %v, want %s; the other had ended: %t", name, how, want, gone)
				}
			}
		}
	})
}

func TestHedgeAGatesPanicComesOutWhereTheCallWasMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := hedgeUnder(&hedgeRefusal{name: "b", panics: true}, hedgeAfter(fallbackDep("a", hedgeIn(2*time.Second, "a")), fallbackDep("b", hedgeIn(0, "b"))))
		if how := hedgeEnds(t, c, nil); how != any("a gate of the user's") {
			t.Errorf("the call ended with %v", how)
		}
		c = hedgeUnder(&hedgeRefusal{name: "c", panics: true}, hedgeAfter(fallbackDep("a", hedgeHangs()),
			fallbackDep("b", llmtest.Script(llmtest.Fail(llm.Unavailable))), fallbackDep("c", hedgeIn(0, "c"))))
		if how := hedgeEnds(t, c, nil); how != any("a gate of the user's") {
			t.Errorf("beside the call: it ended with %v", how)
		}
	})
}

// Both answer in the same instant, as real goroutines do.
func TestHedgeOfTwoThatAnswerAtOnceExactlyOneIsHandedOut(t *testing.T) {
	won := map[string]int{}
	for i := range 400 {
		both := make(chan struct{})
		meet := func(name string) llm.Caller {
			return fallbackDep(name, llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
				if name == "a" {
					<-both
				} else {
					close(both)
					for range i { // so that either may be first
						runtime.Gosched()
					}
				}
				return hedgeIn(0, name, name, name).Call(ctx, req)
			}))
		}
		hedged := middleware.Hedge(middleware.HedgeConfig{Delay: time.Microsecond, Share: 1}, meet("a"), meet("b"))
		got := hedgeCall(t.Context(), hedged, i%2 == 0)
		if got.err != nil {
			t.Fatal(got.err)
		}
		name := got.resp.Deployment
		if whole := strings.Repeat(name, 3); got.resp.Text() != whole || i%2 == 0 && got.text != whole {
			t.Fatalf("%s answered %q, streamed %q", name, got.resp.Text(), got.text)
		}
		won[name]++
	}
	if won["a"] == 0 || won["b"] == 0 {
		t.Errorf("the answers are of %v", won)
	}
}
