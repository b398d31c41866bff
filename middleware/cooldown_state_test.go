package middleware_test

import (
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

func TestCooldownSnapshotShowsWhatRestsUntilWhenAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		around := func(name string, err error) llm.Caller {
			return c.Stage().Wrap(&llm.Deployment{
				Name: name, Quota: "q", Credential: "k", Caller: llmtest.Script(llmtest.Fail(err), llmtest.Step{Hang: true}),
			})
		}
		if states := c.Snapshot(); states != nil {
			t.Errorf("snapshot %+v while nothing rests", states)
		}
		start := time.Now()
		b, a := around("b", &llm.Error{Class: llm.Overloaded, Message: "busy"}), around("a", llm.Stalled)
		asked := around("c", retryAfter(2*time.Hour))
		unpaid := around("d", llm.Quota)
		llmtest.Advance(time.Second)
		for _, chat := range []llm.Caller{b, a} {
			cooldownCall(t, chat)
		}
		var outcomes []func(error)
		for range 2 {
			decide, _ := cooldownHeld(t, func(m llm.Caller) llm.Caller {
				return c.Stage().Wrap(&llm.Deployment{Name: "other", Quota: "q", Credential: "k", Caller: m})
			})
			outcomes = append(outcomes, decide)
		}
		outcomes[0](retryAfter(2 * time.Hour))
		outcomes[1](llm.Quota)
		want := []middleware.CooldownState{
			{Scope: middleware.Itself, Name: "a", Until: start.Add(61 * time.Second), Class: llm.Stalled, Deployment: "a"},
			{Scope: middleware.Itself, Name: "b", Until: start.Add(61 * time.Second), Class: llm.Overloaded, Deployment: "b"},
			{Scope: middleware.SharedQuota, Name: "q", Until: start.Add(time.Hour + time.Second), Class: llm.RateLimited,
				Deployment: "other", Asked: 2 * time.Hour},
			{Scope: middleware.SharedCredential, Name: "k", Until: start.Add(15*time.Minute + time.Second), Class: llm.Quota,
				Deployment: "other"},
		}
		got := c.Snapshot()
		if len(got) != len(want) || !strings.Contains(got[1].Why, "busy") {
			t.Fatalf("snapshot %+v, want %+v", got, want)
		}
		for i := range want {
			if got[i].Why == "" || !got[i].Since.Equal(start.Add(time.Second)) {
				t.Errorf("state %+v, want why and since when", got[i])
			}
			got[i].Why, got[i].Since = "", time.Time{}
			if got[i] != want[i] {
				t.Errorf("state %+v, want %+v", got[i], want[i])
			}
		}
		for _, chat := range []llm.Caller{asked, unpaid} {
			if !cooldownIsResting(t, chat) {
				t.Error("a deployment of what rests is called")
			}
		}
	})
}

func TestCooldownTellsOfEachChangeInOrderAndWithNoLockHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *middleware.Cooldowns
		var told []string
		c = middleware.NewCooldowns(middleware.CooldownConfig{OnChange: func(s middleware.CooldownState) {
			what := "rests"
			switch {
			case s.Until.IsZero():
				what = "serves"
			case s.Probing:
				what = "probed"
			case !s.Until.After(time.Now()):
				what = "due"
			case s.Failed > 0:
				what = "rests again"
			}
			told = append(told, fmt.Sprint(s.Scope, " ", s.Name, " ", what))
			c.Snapshot() // would not return if a lock were held
			c.Clear(middleware.Itself, "somebody else")
			c.Stage().Wrap(&llm.Deployment{Name: fmt.Sprint("new", len(told)), Caller: llmtest.Script()})
		}})
		chat := cooldownAround(c, "a", llmtest.Script(llmtest.Fail(llm.Unavailable), llmtest.Fail(llm.Invalid),
			llmtest.Fail(llm.Unavailable), llmtest.Text("back"), llmtest.Fail(llm.Unavailable)))
		for range 5 {
			cooldownCall(t, chat)
			llmtest.Advance(3 * time.Minute)
		}
		want := []string{
			"rests", "probed", "due", "probed", "rests again", "probed", "serves", "rests",
		}
		if len(told) != len(want) {
			t.Fatalf("told %q, want %q", told, want)
		}
		for i := range want {
			if told[i] != "itself a "+want[i] {
				t.Errorf("told %q, want %q", told, want)
				break
			}
		}
	})
}

func TestCooldownTellsInOrderWhenTheListenerItselfChangesThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *middleware.Cooldowns
		var told []bool
		within := false
		c = middleware.NewCooldowns(middleware.CooldownConfig{OnChange: func(s middleware.CooldownState) {
			if within {
				t.Error("the listener was called while it was being called")
			}
			within = true
			told = append(told, s.Until.IsZero())
			c.Clear(s.Scope, s.Name)
			within = false
		}})
		if e := cooldownCall(t, cooldownAround(c, "a", llmtest.Script(llmtest.Fail(llm.Unavailable)))); e == nil {
			t.Fatal("no error")
		}
		if len(told) != 2 || told[0] || !told[1] {
			t.Errorf("told of ends %v, want the rest and then its end", told)
		}
	})
}

func TestCooldownTellsOneAtATimeInOrderFromManyCalls(t *testing.T) {
	var told []middleware.CooldownState // unguarded: the race detector watches
	c := middleware.NewCooldowns(middleware.CooldownConfig{
		OnChange: func(s middleware.CooldownState) { told = append(told, s) },
	})
	var wg sync.WaitGroup
	for i := range 4 {
		name := fmt.Sprint("d", i)
		chat := cooldownAround(c, name, llmtest.Script(llmtest.Fail(llm.Unavailable)))
		for range 2 {
			wg.Go(func() {
				for range 50 {
					_, _ = chat.Call(t.Context(), retryAsk())
					c.Clear(middleware.Itself, name)
				}
			})
		}
	}
	wg.Wait()
	resting := map[string]bool{}
	for _, s := range told {
		if rests := !s.Until.IsZero(); rests == resting[s.Name] {
			t.Fatalf("two reports of %s in a row say that it rests: %v", s.Name, rests)
		}
		resting[s.Name] = !s.Until.IsZero()
	}
	if len(told) < 100 {
		t.Errorf("%d reports", len(told))
	}
}

func TestCooldownSurvivesAListenerThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		c := middleware.NewCooldowns(middleware.CooldownConfig{OnChange: func(middleware.CooldownState) {
			if told++; told <= 2 {
				panic("listener")
			}
		}})
		chat := cooldownAround(c, "a", llmtest.Script(llmtest.Fail(llm.Unavailable), llmtest.Text("back")))
		for range 2 { // when the rest begins, and when the probe goes out
			llmtest.Advance(time.Minute)
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic was lost")
					}
				}()
				cooldownCall(t, chat)
			}()
		}
		if e := cooldownCall(t, chat); e != nil || told != 5 {
			t.Errorf("error %v, told %d times; want a probe to answer and the listener to hear of it", e, told)
		}
	})
}

func TestCooldownClearEndsARestAndOverrulesTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told middleware.CooldownState
		s := cooldownScene{t, middleware.NewCooldowns(middleware.CooldownConfig{
			OnChange: func(s middleware.CooldownState) { told = s },
		})}
		if s.c.Clear(middleware.Itself, "a") {
			t.Error("there was nothing to clear")
		}
		s.end(&llm.Error{Class: llm.Unavailable, RetryAfter: 72 * time.Hour, CoolUntil: true})
		if s.c.Clear(middleware.SharedQuota, "a") || s.c.Clear(middleware.Itself, "b") || !s.c.Clear(middleware.Itself, "a") {
			t.Error("Clear does not say what it cleared")
		}
		if told.Name != "a" || !told.Until.IsZero() {
			t.Errorf("the listener was last told %+v, want the end of the rest", told)
		}
		if e := s.answer(); e != nil || len(s.c.Snapshot()) != 0 {
			t.Errorf("error %v after Clear", e)
		}
		s.end(llm.Unavailable)
		llmtest.Advance(time.Minute)
		probe := s.begin()
		s.c.Clear(middleware.Itself, "a")
		probe(llm.Unavailable)
		if e := s.answer(); e != nil {
			t.Errorf("the probe of a rest that was cleared decided: %v", e)
		}
	})
}

func TestCooldownRefusesNonsense(t *testing.T) {
	construct := func(cfg middleware.CooldownConfig) func() { return func() { middleware.NewCooldowns(cfg) } }
	for says, do := range map[string]func(){
		"Rest is -1s":                 construct(middleware.CooldownConfig{Rest: -time.Second}),
		"Cap is -1s":                  construct(middleware.CooldownConfig{Cap: -time.Second}),
		"Cap 1s is below Rest 1m0s":   construct(middleware.CooldownConfig{Cap: time.Second}),
		"Long is -1s":                 construct(middleware.CooldownConfig{Long: -time.Second}),
		"MaxWait is -1s":              construct(middleware.CooldownConfig{MaxWait: -time.Second}),
		"MaxUntil is -1s":             construct(middleware.CooldownConfig{MaxUntil: -time.Second}),
		"ProbeLease is -1s":           construct(middleware.CooldownConfig{ProbeLease: -time.Second}),
		"no class":                    construct(middleware.CooldownConfig{Reactions: middleware.Reactions{99: {}}}),
		"make them with NewCooldowns": func() { new(middleware.Cooldowns).Stage() },
		"not usable":                  func() { (*middleware.Cooldowns)(nil).Stage() },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, says) {
					t.Errorf("panic %q, want one that says %q", text, says)
				}
			}()
			do()
		}()
	}
}

func TestCooldownShowsItsDefaultsAndCaps(t *testing.T) {
	c := middleware.NewCooldowns(middleware.CooldownConfig{})
	want := "cooldown {Rest:1m0s Cap:5m0s Long:15m0s MaxWait:1h0m0s MaxUntil:24h0m0s Patience:5s ProbeLease:30s}\n  a"
	if got := llm.New(c.Stage()).Then(&llm.Deployment{Name: "a", Caller: llmtest.Script()}).String(); got != want {
		t.Errorf("the onion shows %q, want %q", got, want)
	}
	c = middleware.NewCooldowns(middleware.CooldownConfig{Rest: time.Hour})
	if got := llm.Describe(c.Stage().Wrap(llmtest.Script())).String(); !strings.Contains(got, "Cap:1h0m0s") {
		t.Errorf("the onion shows %q, want a Cap that is not below Rest", got)
	}
}

func TestCooldownHandsANilRequestOnWithoutAPanic(t *testing.T) {
	c := middleware.NewCooldowns(middleware.CooldownConfig{})
	chat := c.Stage().Wrap(&llm.Deployment{Name: "a", Caller: llmtest.Script()})
	if _, err := chat.Call(t.Context(), nil); llm.ClassOf(err) != llm.Invalid {
		t.Errorf("error %v, want invalid", err)
	}
}
