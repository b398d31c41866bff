package middleware_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func perTenant(all, each middleware.Limits) middleware.LimiterConfig {
	return middleware.LimiterConfig{Limits: all, PerKey: each, Key: middleware.ByLabel("tenant")}
}

// tenants are whose the calls of m were.
func tenants(m *llmtest.Model) string {
	var of []string
	for _, c := range m.Calls() {
		of = append(of, c.Request.Labels["tenant"])
	}
	return strings.Join(of, "")
}

func TestKeysTakeTurnsHoweverManyCallsEachHas(t *testing.T) {
	for name, cfg := range map[string]middleware.LimiterConfig{
		"by the minute": perTenant(middleware.Limits{Requests: 60}, middleware.Limits{}),
		"in flight":     perTenant(middleware.Limits{InFlight: 1}, middleware.Limits{}),
		"each limited":  perTenant(middleware.Limits{Requests: 60}, middleware.Limits{Requests: 600}),
	} {
		synctest.Test(t, func(t *testing.T) {
			model := llmtest.Script(llmtest.Step{Delay: time.Second})
			_, chat := limited(cfg, model)
			var calls []func()
			for _, tenant := range "aaaaabbbc" {
				calls = append(calls, func() {
					if _, err := chat.Call(t.Context(), limiterAsk(string(tenant), 1)); err != nil {
						t.Error(err)
					}
				})
			}
			limiterGo(calls...)
			if got := tenants(model); got != "aabcababa" {
				t.Errorf("%s: %s", name, got)
			}
		})
	}
}

func TestAKeyOverItsLimitHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Step{Delay: time.Millisecond})
		_, chat := limited(perTenant(middleware.Limits{Requests: 6000, InFlight: 5}, middleware.Limits{Requests: 60}), model)
		began := time.Now()
		var calls []func()
		for _, tenant := range "aaabc" {
			calls = append(calls, func() {
				if _, err := chat.Call(t.Context(), limiterAsk(string(tenant), 1)); err != nil {
					t.Error(err)
				}
			})
		}
		limiterGo(calls...)
		if got, at := tenants(model), callTimes(model, began); got != "abcaa" || at != "0s 0s 0s 1s 2s" {
			t.Errorf("%s at %s", got, at)
		}
	})
}

func TestAKeyThatIsRefusedByThePoolHasItsOwnBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, chat := limited(perTenant(middleware.Limits{Requests: 60}, middleware.Limits{Requests: 120, InFlight: 3}), llmtest.Script())
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, err := chat.Call(ctx, limiterAsk("a", 1))
			cancel()
			if err != nil {
				refusal(t, err, time.Second)
			}
		}
		s := l.Snapshot()[1]
		if s.Key != "a" || s.Left.Requests != 1 || s.InFlight != 0 || s.Left.InFlight != 3 {
			t.Errorf("%v", s)
		}
	})
}

func TestNobodyEscapesALimitByFloodingKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := perTenant(middleware.Limits{}, middleware.Limits{Requests: 1})
		cfg.MaxKeys = 10
		model := llmtest.Script()
		l, chat := limited(cfg, model)
		ask := func(tenant string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := chat.Call(ctx, limiterAsk(tenant, 1))
			return err
		}
		if err := ask("me"); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			_ = ask(fmt.Sprint("other ", i))
		}
		refusal(t, ask("me"), time.Minute) // it is remembered
		if n := model.Count(); n != 11 {   // ten keys, and one for all the others
			t.Errorf("%d went through in a minute", n)
		}
		if n := len(l.Snapshot()) - 1; n != 10 {
			t.Errorf("%d keys are kept", n)
		}
		llmtest.Advance(time.Minute)
		for i := range 5 { // all have recovered, so there is room for new ones
			if err := ask(fmt.Sprint("new ", i)); err != nil {
				t.Error(err)
			}
		}
		if err := ask("me"); err != nil {
			t.Error(err)
		}
		refusal(t, ask("me"), time.Minute)
	})
}

func TestAKeyWithCallsUnderWayIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := perTenant(middleware.Limits{}, middleware.Limits{InFlight: 1})
		cfg.MaxKeys, cfg.MaxWait = 2, time.Second
		l, chat := limited(cfg, llmtest.Script(llmtest.Step{Delay: time.Hour}, llmtest.Step{}))
		var calls []func()
		calls = append(calls, func() { _, _ = chat.Call(t.Context(), limiterAsk("me", 1)) })
		for i := range 50 {
			calls = append(calls, func() {
				if _, err := chat.Call(t.Context(), limiterAsk(fmt.Sprint(i), 1)); err != nil {
					t.Error(err)
				}
			})
		}
		calls = append(calls, func() {
			_, err := chat.Call(t.Context(), limiterAsk("me", 1))
			refusal(t, err, 0)
		})
		limiterGo(calls...)
		if n := len(l.Snapshot()) - 1; n > 2 {
			t.Errorf("%d keys are kept", n)
		}
	})
}

func TestIdleKeysAreForgottenAsNewOnesCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, chat := limited(perTenant(middleware.Limits{}, middleware.Limits{Requests: 60}), llmtest.Script())
		for i := range 1000 {
			if _, err := chat.Call(t.Context(), limiterAsk(fmt.Sprint(i), 1)); err != nil {
				t.Fatal(err)
			}
			llmtest.Advance(time.Second)
		}
		if n := len(l.Snapshot()) - 1; n < 59 || n > 62 {
			t.Errorf("%d keys are kept, want those of the last minute", n)
		}
	})
}

func TestLongKeysAreToldApartAndNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, chat := limited(perTenant(middleware.Limits{}, middleware.Limits{Requests: 60}), llmtest.Script())
		long := strings.Repeat("k", 1<<20)
		began := time.Now()
		for _, key := range []string{long, long + "a", long + "b", "", "short"} {
			if _, err := chat.Call(t.Context(), limiterAsk(key, 1)); err != nil {
				t.Fatal(err)
			}
		}
		states := l.Snapshot()
		if len(states) != 6 || time.Since(began) != 0 {
			t.Errorf("%d states after %v", len(states), time.Since(began))
		}
		for _, s := range states {
			if len(s.Key) > 256 {
				t.Errorf("a key of %d bytes is kept", len(s.Key))
			}
		}
	})
}

// TestNoKeyStarvesUnderAFlood has one key with a call now and then beside others that always have more than there is room for.
func TestNoKeyStarvesUnderAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, chat := limited(perTenant(middleware.Limits{Requests: 600}, middleware.Limits{}), llmtest.Script())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		for _, flood := range []string{"a", "b", "c"} {
			for range 50 {
				go func() {
					for ctx.Err() == nil {
						_, _ = chat.Call(ctx, limiterAsk(flood, 1))
					}
				}()
			}
		}
		llmtest.Advance(10 * time.Second)
		longest := time.Duration(0)
		for range 100 {
			began := time.Now()
			if _, err := chat.Call(ctx, limiterAsk("small", 1)); err != nil {
				t.Fatal(err)
			}
			longest = max(longest, time.Since(began))
			llmtest.Advance(time.Second)
		}
		if longest > 600*time.Millisecond { // a turn of four keys takes 0.4 s
			t.Errorf("the small one waited up to %v", longest)
		}
		cancel()
		synctest.Wait()
	})
}

// A call that gave up far back in the queue is not what its key waits behind later.
func TestTheTurnsOfCallsThatGaveUpArePassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script()
		_, chat := limited(perTenant(middleware.Limits{Requests: 60}, middleware.Limits{}), model)
		ctx, cancel := context.WithCancel(t.Context())
		for range 30 {
			go func() { _, _ = chat.Call(ctx, limiterAsk("a", 1)) }()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		var calls []func()
		for _, tenant := range "bac" {
			calls = append(calls, func() {
				if _, err := chat.Call(t.Context(), limiterAsk(string(tenant), 1)); err != nil && llm.ClassOf(err) != llm.Canceled {
					t.Error(err)
				}
			})
		}
		limiterGo(calls...)
		if got := tenants(model); got != "abac" && got != "abca" {
			t.Errorf("%s", got)
		}
	})
}

func TestKeysWithLongCallsDoNotKeepTheOthersFromBeingForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := perTenant(middleware.Limits{}, middleware.Limits{InFlight: 1})
		cfg.MaxKeys = 20
		steps := append([]llmtest.Step(nil), make([]llmtest.Step, 10)...)
		for i := range steps {
			steps[i].Delay = time.Minute
		}
		l, chat := limited(cfg, llmtest.Script(append(steps, llmtest.Step{})...))
		var calls []func()
		for i := range 30 {
			calls = append(calls, func() {
				if _, err := chat.Call(t.Context(), limiterAsk(fmt.Sprint(i), 1)); err != nil {
					t.Error(err)
				}
			})
		}
		calls = append(calls, func() {
			held := map[string]bool{}
			for _, s := range l.Snapshot() {
				held[s.Key] = true
			}
			if len(held) > 21 || !held["29"] || !held["0"] || held["10"] {
				t.Errorf("%d keys are held: %v", len(held), held)
			}
		})
		limiterGo(calls...)
	})
}
