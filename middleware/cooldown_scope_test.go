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

func TestCooldownRestsWhatTheClassSharesAndNothingElse(t *testing.T) {
	auth := middleware.Reactions{llm.Auth: {Cools: middleware.SharedCredential}}
	for _, test := range []struct {
		class     llm.Class
		reactions middleware.Reactions
		rests     string
	}{
		{llm.Unavailable, nil, "a"},
		{llm.RateLimited, nil, "a same-quota"},
		{llm.Quota, nil, "a same-key"},
		{llm.Auth, nil, ""},
		{llm.Auth, auth, "a same-key"},
		{llm.Overloaded, middleware.Reactions{llm.Overloaded: {Cools: middleware.SharedQuota}}, "a same-quota"},
	} {
		t.Run(fmt.Sprint(test.class, test.reactions), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := middleware.NewCooldowns(middleware.CooldownConfig{Reactions: test.reactions})
				around := func(name, quota, credential string, m llm.Caller) llm.Caller {
					return c.Stage().Wrap(&llm.Deployment{Name: name, Quota: quota, Credential: credential, Caller: m})
				}
				a := around("a", "q", "k", llmtest.Script(llmtest.Fail(test.class), llmtest.Text("back")))
				cooldownCall(t, a)
				others := []struct {
					name string
					chat llm.Caller
				}{
					{"a", a},
					{"same-quota", around("b", "q", "", llmtest.Script())},
					{"same-key", around("c", "", "k", llmtest.Script())},
					// Names of different kinds are not the same name.
					{"q", around("q", "", "", llmtest.Script())}, {"k", around("k", "k", "q", llmtest.Script())},
					{"none", around("d", "", "", llmtest.Script())},
				}
				var rests []string
				for _, o := range others {
					if cooldownIsResting(t, o.chat) {
						rests = append(rests, o.name)
					}
				}
				if got := strings.Join(rests, " "); got != test.rests {
					t.Errorf("%q rest, want %q", got, test.rests)
				}
			})
		})
	}
}

func TestCooldownOfOneKeyLeavesTheOthersServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, served := middleware.NewCooldowns(middleware.CooldownConfig{}), 0
		for i, step := range []llmtest.Step{llmtest.Fail(llm.RateLimited), llmtest.Text("ok"), llmtest.Text("ok")} {
			key := fmt.Sprint("key-", i)
			chat := c.Stage().Wrap(&llm.Deployment{Name: "m/" + key, Quota: key, Credential: key, Caller: llmtest.Script(step)})
			for range 2 {
				if cooldownCall(t, chat) == nil {
					served++
				}
			}
		}
		if served != 4 {
			t.Errorf("%d calls were served, want all of two keys", served)
		}
	})
}

// Two deployments of one quota: what one is told, the other keeps to.
func TestCooldownOfAQuotaIsWaitedForByAllAndProbedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.NewCooldowns(middleware.CooldownConfig{Rest: 3 * time.Second})
		model := llmtest.Script(llmtest.Fail(retryAfter(3*time.Second)), llmtest.Step{Delay: time.Second})
		around := func(name string) llm.Caller {
			return c.Stage().Wrap(&llm.Deployment{Name: name, Quota: "q", Caller: model})
		}
		a, b := around("a"), around("b")
		cooldownCall(t, a)
		e := cooldownCall(t, b)
		if e == nil || e.Class != llm.Cooling || e.Deployment != "b" || !strings.Contains(e.Message, `of quota "q"`) {
			t.Errorf("error %v of b, want cooling for the quota", e)
		}
		if cause := llm.AsError(e.Err); cause.Deployment != "a" {
			t.Errorf("cause %+v, want the failure of a", cause)
		}
		llmtest.Advance(4 * time.Second)
		probe := make(chan *llm.Error, 1)
		go func() { probe <- cooldownCall(t, a) }()
		synctest.Wait()
		if !cooldownIsResting(t, b) {
			t.Error("b was called while a probed the quota of both")
		}
		if e := <-probe; e != nil || model.Count() != 2 {
			t.Errorf("error %v, %d calls; want the probe's to be the second", e, model.Count())
		}
		if e := cooldownCall(t, b); e != nil {
			t.Errorf("b after the probe of a: %v", e)
		}
	})
}

func TestCooldownSaysTheLongestOfSeveralRests(t *testing.T) {
	for _, test := range []struct{ own, quota *llm.Error }{
		{&llm.Error{Class: llm.Unavailable, RetryAfter: time.Hour}, retryAfter(2 * time.Minute)},
		{&llm.Error{Class: llm.Unavailable, RetryAfter: 2 * time.Minute}, retryAfter(time.Hour)},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := middleware.NewCooldowns(middleware.CooldownConfig{})
			around := func(m llm.Caller) llm.Caller {
				return c.Stage().Wrap(&llm.Deployment{Name: "a", Quota: "q", Caller: m})
			}
			first, _ := cooldownHeld(t, around)
			second, _ := cooldownHeld(t, around)
			first(test.own)
			second(test.quota)
			e := cooldownCall(t, around(llmtest.Script()))
			if e == nil || e.RetryAfter < time.Hour || llm.AsError(e.Err).RetryAfter != time.Hour {
				t.Errorf("error %v with cause %v, want the hour", e, e.Err)
			}
		})
	}
}

func TestCooldownIsSharedByChainsOfTheSameDeploymentAndCooldowns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, model := middleware.NewCooldowns(middleware.CooldownConfig{}), llmtest.Script(llmtest.Fail(llm.Unavailable))
		cooldownCall(t, cooldownAround(c, "a", model))
		guard := llm.NewGuard("a", llm.New(c.Stage()))
		_, err := llm.Do(t.Context(), guard, func(context.Context) (int, error) { return 1, nil })
		if !cooldownIsResting(t, cooldownAround(c, "a", llmtest.Script())) || llm.ClassOf(err) != llm.Cooling {
			t.Errorf("another chain or a guard (error %v) calls the deployment that rests", err)
		}
		if cooldownIsResting(t, cooldownAround(c, "b", llmtest.Script())) {
			t.Error("another deployment rests too")
		}
		other := middleware.NewCooldowns(middleware.CooldownConfig{})
		if cooldownIsResting(t, cooldownAround(other, "a", llmtest.Script())) {
			t.Error("Cooldowns that are not shared know of the rest")
		}
	})
}

func TestCooldownAroundNoneOrSeveralDeploymentsHasARestOfItsOwn(t *testing.T) {
	fails := llmtest.Script(llmtest.Fail(llm.Unavailable))
	for name, inside := range map[string]func() llm.Caller{
		"none":    func() llm.Caller { return fails },
		"several": func() llm.Caller { return cooldownTwo{&llm.Deployment{Name: "a", Caller: fails}} },
	} {
		synctest.Test(t, func(t *testing.T) {
			c := middleware.NewCooldowns(middleware.CooldownConfig{})
			first, second := c.Stage().Wrap(inside()), c.Stage().Wrap(inside())
			if cooldownCall(t, first); !cooldownIsResting(t, first) || len(c.Snapshot()) != 1 {
				t.Errorf("%s: it does not rest, snapshot %+v", name, c.Snapshot())
			}
			if e := cooldownCall(t, second); e == nil || e.Class != llm.Unavailable {
				t.Errorf("%s: error %v, want the other stage to serve", name, e)
			}
			if cooldownIsResting(t, cooldownAround(c, "a", llmtest.Script())) {
				t.Errorf("%s: the deployment a rests for what is not its own", name)
			}
		})
	}
}

// cooldownTwo is a combinator over its Caller and another.
type cooldownTwo struct{ llm.Caller }

func (c cooldownTwo) Describe() llm.Node {
	other := &llm.Deployment{Name: "other"}
	return llm.Node{Name: "two", Children: []llm.Node{llm.Describe(c.Caller), other.Describe()}}
}

func TestCooldownCountsAStreamWhenItEnds(t *testing.T) {
	mine := errors.New("disk full")
	for _, test := range []struct {
		name  string
		step  llmtest.Step
		sink  llm.Sink
		rests bool
	}{
		{"broken after output", llmtest.Step{Deltas: []llm.Delta{{Text: "Hel"}}, Err: llm.Unavailable},
			func(llm.Delta) error { return nil }, true},
		{"whole", llmtest.Text("Hello"), func(llm.Delta) error { return nil }, false},
		{"a sink that fails", llmtest.Text("Hello"), func(llm.Delta) error { return mine }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chat := cooldownAround(middleware.NewCooldowns(middleware.CooldownConfig{}), "a", llmtest.Script(test.step))
				req := retryAsk()
				req.Sink = test.sink
				_, _ = chat.Call(t.Context(), req)
				if cooldownIsResting(t, chat) != test.rests {
					t.Errorf("it rests: %v, want %v", !test.rests, test.rests)
				}
			})
		})
	}
}

func TestCooldownIsNotForACallerWhoLeavesOrRunsOutOfTime(t *testing.T) {
	for name, limit := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"leaves": func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, start := middleware.NewCooldowns(middleware.CooldownConfig{}), time.Now()
				model := llmtest.Script(llmtest.Step{Hang: true}, llmtest.Text("here"))
				chat := llm.New(c.Stage(), middleware.Retry(middleware.RetryConfig{})).Then(
					&llm.Deployment{Name: "a", Caller: model})
				ctx, cancel := limit(t.Context())
				defer cancel()
				time.AfterFunc(50*time.Millisecond, cancel)
				_, err := chat.Call(ctx, retryAsk())
				if time.Since(start) != 50*time.Millisecond || name == "leaves" && !errors.Is(err, context.Canceled) {
					t.Errorf("error %v after %v, want it when the caller's time ended", err, time.Since(start))
				}
				if e := cooldownCall(t, chat); e != nil || len(c.Snapshot()) != 0 {
					t.Errorf("error %v, snapshot %+v; want nothing to rest", e, c.Snapshot())
				}
			})
		})
	}
}
