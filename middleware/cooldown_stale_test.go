package middleware_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// cooldownScene is an outage of a deployment "a" with calls under way.
type cooldownScene struct {
	t *testing.T
	c *middleware.Cooldowns
}

func (s cooldownScene) around(m llm.Caller) llm.Caller { return cooldownAround(s.c, "a", m) }

func (s cooldownScene) begin() (decide func(error)) {
	decide, _ = cooldownHeld(s.t, s.around)
	return decide
}

// end is a call that ends at once with err.
func (s cooldownScene) end(err error) *llm.Error {
	return cooldownCall(s.t, s.around(llmtest.Script(llmtest.Fail(err))))
}
func (s cooldownScene) answer() *llm.Error { return cooldownCall(s.t, s.around(llmtest.Script())) }

func (s cooldownScene) state() middleware.CooldownState {
	for _, state := range s.c.Snapshot() {
		return state
	}
	return middleware.CooldownState{}
}

func TestCooldownIsNotDecidedByWhatBeganBeforeTheOutage(t *testing.T) {
	play := func(name string, scene func(s cooldownScene)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scene(cooldownScene{t, middleware.NewCooldowns(middleware.CooldownConfig{})})
			})
		})
	}
	play("a late success does not end the rest", func(s cooldownScene) {
		slow := s.begin()
		s.end(llm.Unavailable)
		slow(nil)
		if e := s.answer(); e == nil || e.Class != llm.Cooling {
			s.t.Errorf("error %v, want it to rest on", e)
		}
	})
	play("nor while a probe is due or out", func(s cooldownScene) {
		slow, slower := s.begin(), s.begin()
		s.end(llm.Unavailable)
		llmtest.Advance(time.Minute)
		slow(nil)
		if len(s.c.Snapshot()) != 1 {
			s.t.Error("a success from before the outage ended the rest")
		}
		probe := s.begin()
		slower(nil)
		if !s.state().Probing {
			s.t.Errorf("state %+v, want the probe to decide", s.state())
		}
		probe(nil)
		if len(s.c.Snapshot()) != 0 {
			s.t.Error("the probe did not decide")
		}
	})
	play("a late failure does not begin another", func(s cooldownScene) {
		slow := s.begin()
		s.end(llm.Unavailable)
		llmtest.Advance(time.Minute)
		if e := s.answer(); e != nil {
			s.t.Fatal(e)
		}
		slow(llm.Unavailable)
		if e := s.answer(); e != nil {
			s.t.Errorf("error %v, want it to serve after its recovery", e)
		}
	})
	play("nor prolong one that is over or was renewed", func(s cooldownScene) {
		slow, slower := s.begin(), s.begin()
		s.end(llm.Unavailable)
		llmtest.Advance(time.Minute)
		slow(retryAfter(time.Hour))
		if s.state().Until.After(time.Now()) {
			s.t.Errorf("state %+v, want a probe to be due", s.state())
		}
		s.end(llm.Overloaded)
		slower(retryAfter(time.Hour))
		if state := s.state(); state.Failed != 1 || time.Until(state.Until) > 3*time.Minute {
			s.t.Errorf("state %+v, want the rest that the probe began", state)
		}
	})
	play("nor stop a probe", func(s cooldownScene) {
		slow := s.begin()
		s.end(llm.Unavailable)
		llmtest.Advance(time.Minute)
		probe := s.begin()
		slow(llm.Unavailable)
		probe(nil)
		if e := s.answer(); e != nil {
			s.t.Errorf("error %v, want the probe to have decided", e)
		}
	})
	play("an overtaken probe cannot renew it", func(s cooldownScene) {
		s.end(llm.Unavailable)
		llmtest.Advance(time.Minute)
		first := s.begin()
		llmtest.Advance(30 * time.Second)
		second := s.begin()
		first(llm.Unavailable)
		if !s.state().Probing || s.state().Failed != 0 {
			s.t.Errorf("state %+v, want the second probe to be out", s.state())
		}
		second(nil)
		if len(s.c.Snapshot()) != 0 {
			s.t.Error("the second probe did not decide")
		}
	})
	// Else a deployment whose calls take longer than the lease would never serve again.
	play("an overtaken probe can end it", func(s cooldownScene) {
		s.end(llm.Unavailable)
		llmtest.Advance(time.Minute)
		first := s.begin()
		llmtest.Advance(30 * time.Second)
		second := s.begin()
		first(nil)
		if e := s.answer(); e != nil {
			s.t.Errorf("error %v, want it to serve", e)
		}
		second(llm.Unavailable)
		if e := s.answer(); e != nil {
			s.t.Errorf("error %v, want the probe of a rest that is over to decide nothing", e)
		}
	})
	play("nor one that the probe after it renewed", func(s cooldownScene) {
		s.end(llm.Unavailable)
		llmtest.Advance(time.Minute)
		first := s.begin()
		llmtest.Advance(31 * time.Second)
		s.end(llm.Unavailable)
		first(nil)
		if e := s.answer(); e == nil || e.Class != llm.Cooling {
			s.t.Errorf("error %v, want it to rest as the newer probe decided", e)
		}
	})
	play("a slow probe that nobody overtook counts", func(s cooldownScene) {
		s.end(llm.Unavailable)
		llmtest.Advance(time.Minute)
		probe := s.begin()
		llmtest.Advance(time.Hour)
		probe(llm.Unavailable)
		if s.state().Failed != 1 {
			s.t.Errorf("state %+v, want the probe to have failed", s.state())
		}
	})
}

func TestCooldownTellsOnceHoweverManyCallsFailTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		s := cooldownScene{t, middleware.NewCooldowns(middleware.CooldownConfig{
			OnChange: func(middleware.CooldownState) { told++ },
		})}
		var under []func(error)
		for range 10 {
			under = append(under, s.begin())
		}
		for _, decide := range under {
			llmtest.Advance(time.Second)
			decide(llm.Unavailable)
		}
		if told != 1 {
			t.Errorf("the listener was told %d times of one outage", told)
		}
	})
}

func TestCooldownStopsTheRetriesOfCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		model := llmtest.Script(llmtest.Fail(retryAfter(5 * time.Second)))
		chat := llm.New(c.Stage(), middleware.Retry(middleware.RetryConfig{})).Then(&llm.Deployment{Name: "a", Caller: model})
		done := make(chan *llm.Error, 1)
		go func() { done <- cooldownCall(t, chat) }()
		llmtest.Advance(time.Second) // it waits for its retry
		cooldownCall(t, cooldownAround(c, "a", llmtest.Script(llmtest.Fail(llm.Unavailable))))
		e := <-done
		if e == nil || e.Class != llm.RateLimited || model.Count() != 1 {
			t.Errorf("error %v after %d calls, want the failure and no retry", e, model.Count())
		}
		last := e.Attempts[len(e.Attempts)-1]
		if last.Class != llm.Cooling || !strings.HasPrefix(last.Skipped, "no retry: rests for 5") {
			t.Errorf("the account ends with %+v, want why there was no retry", last)
		}
	})
}

func TestCooldownLetsTheProbeRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		fails := llmtest.Fail(llm.Unavailable)
		model := llmtest.Script(fails, fails, fails, fails, llmtest.Text("back"))
		chat := llm.New(c.Stage(), middleware.Retry(middleware.RetryConfig{})).Then(&llm.Deployment{Name: "a", Caller: model})
		cooldownCall(t, chat)
		llmtest.Advance(time.Minute)
		if e := cooldownCall(t, chat); e != nil || model.Count() != 5 {
			t.Errorf("error %v after %d calls, want the probe's own retry to answer", e, model.Count())
		}
	})
}

func TestCooldownStopsTheRetriesOfAProbeWhenSomethingElseRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		fails := llmtest.Fail(llm.Unavailable)
		model := llmtest.Script(fails, fails, llmtest.Text("back"))
		stages := llm.New(c.Stage(), middleware.Retry(middleware.RetryConfig{Max: 1, Base: 4 * time.Second}))
		chat := stages.Then(&llm.Deployment{Name: "a", Quota: "q", Caller: model})
		_, _ = chat.Call(t.Context(), func() *llm.Request { r := retryAsk(); r.MaxAttempts = 1; return r }())
		llmtest.Advance(time.Minute)
		done := make(chan *llm.Error, 1)
		go func() { done <- cooldownCall(t, chat) }()
		llmtest.Advance(time.Second) // the probe waits for its retry
		cooldownCall(t, c.Stage().Wrap(&llm.Deployment{
			Name: "b", Quota: "q", Caller: llmtest.Script(llmtest.Fail(llm.RateLimited)),
		}))
		if e := <-done; e == nil || e.Class != llm.Unavailable || model.Count() != 2 {
			t.Errorf("error %v after %d calls, want the probe to stop when its quota rests", e, model.Count())
		}
	})
}

func TestCooldownStopsTheRetriesOfAProbeThatWasOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cooldownScene{t, middleware.NewCooldowns(middleware.CooldownConfig{})}
		model := llmtest.Script(llmtest.Fail(llm.Unavailable), llmtest.Fail(retryAfter(40*time.Second)))
		chat := llm.New(s.c.Stage(), middleware.Retry(middleware.RetryConfig{})).Then(
			&llm.Deployment{Name: "a", Caller: model})
		s.end(llm.Unavailable)
		llmtest.Advance(time.Minute)
		done := make(chan *llm.Error, 1)
		go func() { done <- cooldownCall(t, chat) }()
		llmtest.Advance(35 * time.Second) // the probe waits for its second retry
		probe := s.begin()
		if e := <-done; e == nil || e.Class != llm.RateLimited || model.Count() != 2 {
			t.Errorf("error %v after %d calls, want one probe at a time", e, model.Count())
		}
		if probe(nil); len(s.c.Snapshot()) != 0 {
			t.Error("the newer probe did not decide")
		}
	})
}

func TestCooldownWithinACooldownOfTheSameNameRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		model := llmtest.Script(llmtest.Fail(llm.Unavailable), llmtest.Text("back"))
		chat := llm.New(c.Stage(), c.Stage().As("again")).Then(&llm.Deployment{Name: "a", Caller: model})
		if cooldownCall(t, chat); !cooldownIsResting(t, chat) {
			t.Error("it does not rest")
		}
		llmtest.Advance(time.Minute)
		if e := cooldownCall(t, chat); e != nil || len(c.Snapshot()) != 0 {
			t.Errorf("error %v, want the probe to pass both stages", e)
		}
	})
}

func TestCooldownOutsideIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		model := llmtest.Script(llmtest.Fail(llm.Unavailable))
		wrongly := llm.New(middleware.Retry(middleware.RetryConfig{}), c.Stage()).Then(
			&llm.Deployment{Name: "a", Caller: model})
		_, _ = wrongly.Call(t.Context(), retryAsk())
		start, before := time.Now(), model.Count()
		_, err := wrongly.Call(context.WithoutCancel(t.Context()), retryAsk())
		if llm.ClassOf(err) != llm.Cooling || time.Since(start) != 0 || model.Count() != before {
			t.Errorf("error %v after %v, want the rest to be no reason to wait or to repeat", err, time.Since(start))
		}
	})
}
