package middleware_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func TestLimiterTellsAPersonHowItStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, chat := limited(middleware.LimiterConfig{
			Limits: middleware.Limits{Requests: 60, InFlight: 2}, Key: middleware.ByLabel("tenant"), PerKey: middleware.Limits{Requests: 30},
		}, llmtest.Script(llmtest.Step{Delay: time.Second}))
		for _, tenant := range []string{"acme", "b", "acme"} {
			go func() { _, _ = chat.Call(t.Context(), limiterAsk(tenant, 1)) }()
			synctest.Wait()
		}
		want := "[d: requests 0 left of 60/min, 1 in flight of 2, 1 waiting" +
			" d/acme: requests 0 left of 30/min, 1 in flight, 1 waiting d/b: requests 0 left of 30/min, 1 in flight, 0 waiting]"
		if got := fmt.Sprint(l.Snapshot()); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		llmtest.Advance(time.Minute)
	})
}

func TestLimiterPanicsOnNonsense(t *testing.T) {
	limits := middleware.Limits{Requests: 1}
	for want, cfg := range map[string]middleware.LimiterConfig{
		"there is no limit":       {},
		"use 0 for no limit":      {Limits: middleware.Limits{Input: -1}},
		"need a Key":              {Limits: limits, PerKey: limits},
		"use 0 for the default":   {Limits: limits, Output: -1},
		"Burst is 2m0s":           {Limits: limits, Burst: 2 * time.Minute},
		"Ramp is -1ns":            {Limits: limits, Ramp: -1},
		"MaxWait is -1ns":         {Limits: limits, MaxWait: -1},
		"PerKey is {Requests:-1 ": {Key: middleware.ByLabel("x"), PerKey: middleware.Limits{Requests: -1}},
	} {
		if got := panicOf(func() { middleware.NewLimiter(cfg) }); !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", cfg, got, want)
		}
	}
	if got := panicOf(func() { new(middleware.Limiter).Stage("") }); !strings.Contains(got, "make it with NewLimiter") {
		t.Errorf("%q", got)
	}
	if got := panicOf(func() { middleware.NewLimiter(middleware.LimiterConfig{Limits: limits}).Stage("").Wrap(nil) }); !strings.Contains(got, "Limiter: Wrap(nil)") {
		t.Errorf("%q", got)
	}
}
