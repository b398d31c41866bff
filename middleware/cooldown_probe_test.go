package middleware_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// cooldownDue is a deployment whose rest is over and that awaits its probe. Its model does steps from then on.
func cooldownDue(t *testing.T, cfg middleware.CooldownConfig, steps ...llmtest.Step) (
	*middleware.Cooldowns, llm.Caller, *llmtest.Model,
) {
	t.Helper()
	c := middleware.NewCooldowns(cfg)
	model := llmtest.Script(append([]llmtest.Step{llmtest.Fail(llm.Unavailable)}, steps...)...)
	chat := cooldownAround(c, "a", model)
	cooldownCall(t, chat)
	llmtest.Advance(cooldownEnds(t, c))
	return c, chat, model
}

func TestCooldownLetsExactlyOneOfAHundredCallersProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, chat, model := cooldownDue(t, middleware.CooldownConfig{}, llmtest.Step{Delay: 20 * time.Second})
		start := time.Now()
		var answered, refused atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				switch e := cooldownCall(t, chat); {
				case e == nil:
					answered.Add(1)
				case e.Class == llm.Cooling && time.Since(start) == 0 && e.RetryAfter == 30*time.Second &&
					e.Message == "is being probed after unavailable" && errors.Is(e, llm.Unavailable):
					refused.Add(1)
				default:
					t.Errorf("a caller got %v after %v", e, time.Since(start))
				}
			})
		}
		if wg.Wait(); answered.Load() != 1 || refused.Load() != 99 || model.Count() != 2 {
			t.Errorf("%d answered, %d refused at once, %d calls upstream; want 1, 99 and the failed one with a probe",
				answered.Load(), refused.Load(), model.Count())
		}
	})
}

// The same without order: callers that meet at the very moment when the probe is due.
func TestCooldownLetsOneOfManyProbeWhoComeInTheSameInstant(t *testing.T) {
	const callers, rounds = 16, 50
	for range rounds {
		c, all := middleware.NewCooldowns(middleware.CooldownConfig{Rest: time.Nanosecond}), make(chan struct{})
		var arrived, probes atomic.Int64
		arrive := func() {
			if arrived.Add(1) == callers {
				close(all)
			}
		}
		model := llmtest.Script(llmtest.Fail(llm.Unavailable), llmtest.Step{
			Func: func(context.Context, *llm.Request) (*llm.Response, error) {
				probes.Add(1)
				arrive()
				<-all // until every caller has passed or was refused
				return nil, llm.Invalid
			},
		})
		chat, start := cooldownAround(c, "a", model), make(chan struct{})
		cooldownCall(t, chat)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				<-start
				if cooldownIsResting(t, chat) {
					arrive()
				}
			})
		}
		close(start)
		if wg.Wait(); probes.Load() != 1 {
			t.Fatalf("%d of %d callers were probes, want one", probes.Load(), callers)
		}
	}
}

func TestCooldownProbeThatHangsGivesWayWhenItsLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, chat, model := cooldownDue(t, middleware.CooldownConfig{ProbeLease: 10 * time.Second}, llmtest.Step{Hang: true},
			llmtest.Text("back"))
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() { defer close(gone); _, _ = chat.Call(ctx, retryAsk()) }()
		llmtest.Advance(10*time.Second - time.Nanosecond)
		if !cooldownIsResting(t, chat) {
			t.Error("a second probe went out within the lease of the first")
		}
		llmtest.Advance(time.Second)
		if e := cooldownCall(t, chat); e != nil || model.Count() != 3 {
			t.Errorf("error %v, %d calls; want the next caller to be the probe", e, model.Count())
		}
		cancel()
		<-gone
		if e := cooldownCall(t, chat); e != nil {
			t.Errorf("the probe that was overtaken changed something: %v", e)
		}
	})
}

func TestCooldownSendsAHangingUpstreamOneProbePerLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, chat, model := cooldownDue(t, middleware.CooldownConfig{}, llmtest.Step{Hang: true})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 300 { // a call every second for five minutes
			wg.Go(func() { _, _ = chat.Call(ctx, retryAsk()) })
			llmtest.Advance(time.Second)
		}
		if probes := model.Count() - 1; probes != 10 {
			t.Errorf("%d probes in five minutes, want one each half minute", probes)
		}
		cancel()
		wg.Wait()
	})
}

func TestCooldownProbeIsFreedByWhateverIsNoVerdict(t *testing.T) {
	boom := func(any) {}
	for name, outcome := range map[string]llm.CallerFunc{
		"panic":   func(context.Context, *llm.Request) (*llm.Response, error) { panic(&boom) },
		"goexit":  func(context.Context, *llm.Request) (*llm.Response, error) { runtime.Goexit(); return nil, nil },
		"nothing": func(context.Context, *llm.Request) (*llm.Response, error) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) { cooldownNoVerdict(t, outcome) })
	}
	for _, class := range []llm.Class{
		llm.Canceled, llm.Exhausted, llm.Invalid, llm.Refused, llm.Unknown, llm.TooLong, llm.Unsupported, llm.Auth,
		llm.BadOutput, llm.Cooling,
	} {
		t.Run(class.String(), func(t *testing.T) {
			cooldownNoVerdict(t, func(context.Context, *llm.Request) (*llm.Response, error) { return nil, class })
		})
	}
}

// cooldownNoVerdict checks that a probe with that outcome neither ends the rest nor renews it nor stands in the way.
func cooldownNoVerdict(t *testing.T, outcome llm.CallerFunc) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		step := llmtest.Step{Func: outcome}
		model := llmtest.Script(llmtest.Fail(llm.Unavailable), step, step, llmtest.Fail(llm.Unavailable))
		chat := c.Stage().Wrap(model)
		cooldownCall(t, chat)
		llmtest.Advance(time.Minute)
		before := c.Snapshot()[0]
		for range 2 {
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				_, _ = chat.Call(t.Context(), retryAsk())
			}()
			<-done
			if now := c.Snapshot(); len(now) != 1 || now[0] != before {
				t.Fatalf("snapshot %+v, want %+v as before", now, before)
			}
		}
		if e := cooldownCall(t, chat); e == nil || e.Class != llm.Unavailable || model.Count() != 4 {
			t.Errorf("error %v, %d calls; want the third caller to be the probe", e, model.Count())
		}
		if s := c.Snapshot()[0]; s.Failed != 1 {
			t.Errorf("%+v, want the one probe that failed", s)
		}
	})
}

func TestCooldownDoublesAfterEachFailedProbeUpToCapWithJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		model := llmtest.Script(llmtest.Fail(llm.RateLimited))
		chat := cooldownAround(c, "a", model)
		cooldownCall(t, chat)
		const minute, limit = time.Minute, 5 * time.Minute
		for n, least := range []time.Duration{minute, 2 * minute, 4 * minute, limit * 4 / 5, limit * 4 / 5} {
			most := min(least*6/5, limit)
			if n == 0 {
				most = minute
			} else if n > 2 {
				most = limit
			}
			if ends := cooldownEnds(t, c); ends < least || ends > most {
				t.Errorf("after %d failed probes it rests for %v, want %v to %v", n, ends, least, most)
			}
			llmtest.Advance(cooldownEnds(t, c))
			if e := cooldownCall(t, chat); e == nil || e.Class != llm.RateLimited || model.Count() != n+2 {
				t.Errorf("probe %d: error %v after %d calls", n+1, e, model.Count())
			}
		}
		for range 100 { // doubling a hundred times does not overflow
			llmtest.Advance(cooldownEnds(t, c))
			cooldownCall(t, chat)
		}
		if ends := cooldownEnds(t, c); ends < limit*4/5 || ends > limit {
			t.Errorf("after %d failed probes it rests for %v", c.Snapshot()[0].Failed, ends)
		}
	})
}

func TestCooldownSpreadsTheProbesOfReplicasWhoseFirstOnesFailedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var earliest, latest time.Duration
		for _, class := range []llm.Class{llm.Unavailable, llm.Quota} {
			for i := range 100 {
				c := middleware.NewCooldowns(middleware.CooldownConfig{})
				chat := cooldownAround(c, "a", llmtest.Script(llmtest.Fail(class)))
				cooldownCall(t, chat)
				llmtest.Advance(cooldownEnds(t, c))
				cooldownCall(t, chat)
				ends := cooldownEnds(t, c)
				if i == 0 {
					earliest, latest = ends, ends
				}
				earliest, latest = min(earliest, ends), max(latest, ends)
			}
			if latest-earliest < earliest/8 {
				t.Errorf("%v: a hundred replicas probe again after %v to %v, want them spread", class, earliest, latest)
			}
		}
	})
}

func TestCooldownNeverRestsLessAfterAFailedProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, chat, _ := cooldownDue(t, middleware.CooldownConfig{Cap: time.Minute}, llmtest.Fail(llm.Unavailable))
		if cooldownCall(t, chat); cooldownEnds(t, c) != time.Minute {
			t.Errorf("it rests for %v, want the minute that is Rest and Cap", cooldownEnds(t, c))
		}
	})
}

func TestCooldownProbeThatFailsHeedsItsProvidersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, chat, _ := cooldownDue(t, middleware.CooldownConfig{}, llmtest.Fail(retryAfter(20*time.Minute)))
		cooldownCall(t, chat)
		if ends := cooldownEnds(t, c); ends < 20*time.Minute {
			t.Errorf("it rests for %v, want the 20 minutes asked", ends)
		}
	})
}

func TestCooldownForgetsFailedProbesWhenOneSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := llmtest.Fail(llm.Unavailable)
		c, chat, _ := cooldownDue(t, middleware.CooldownConfig{}, fails, fails, llmtest.Text("back"), fails)
		for range 2 {
			cooldownCall(t, chat)
			llmtest.Advance(cooldownEnds(t, c))
		}
		if e := cooldownCall(t, chat); e != nil {
			t.Fatal(e)
		}
		cooldownCall(t, chat)
		if ends := cooldownEnds(t, c); ends != time.Minute || c.Snapshot()[0].Failed != 0 {
			t.Errorf("the rest of a new outage is %v, want a minute", ends)
		}
	})
}

// A penalty that only a success can lift never ends for a deployment that is not called.
func TestCooldownEndsWithoutASuccessBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		fails := llmtest.Fail(llm.Unavailable)
		model := llmtest.Script(fails, fails, fails, fails, fails, llmtest.Text("back"))
		chat := cooldownAround(c, "a", model)
		for model.Count() < 5 {
			cooldownCall(t, chat)
			llmtest.Advance(10 * time.Second)
		}
		llmtest.Advance(24 * time.Hour)
		if e := cooldownCall(t, chat); e != nil {
			t.Errorf("a day after five failures: %v", e)
		}
	})
}
