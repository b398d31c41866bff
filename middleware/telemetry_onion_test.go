package middleware_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// The story that the library is for, as an operator sees it: the primary's retries are spent, it rests, a probe brings it
// back.
func TestTelemetryOfTheOnionFromOutageToRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTelemetryRig(t)
		cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{})
		r.config.Cooldowns = cooldowns
		limited := llmtest.Fail(&llm.Error{Class: llm.RateLimited, Evidence: llm.Evidence{Status: 429}})
		each := llm.New(
			cooldowns.Stage(), middleware.Retry(middleware.RetryConfig{}), middleware.Classify(middleware.ClassifyConfig{}),
		)
		p := llm.New(middleware.Telemetry(r.config), middleware.Deadline(middleware.DeadlineConfig{})).Then(
			middleware.Fallback(middleware.FallbackConfig{},
				each.Then(telemetryLeaf("primary", "openai", "big", limited, limited, limited, llmtest.Text("back"))),
				each.Then(telemetryLeaf("spare", "anthropic", "other")),
			))
		call := func() {
			t.Helper()
			if _, err := p.Call(t.Context(), telemetryAsk()); err != nil {
				t.Fatal(err)
			}
		}
		state := func(what string, want float64) {
			t.Helper()
			telemetryEqual(t, what, r.sums("llm.client.cooldown.state", "llm.deployment"),
				map[string]float64{"primary": want, "spare": 0})
		}
		state("before", 0)
		call()
		state("spent", 1)
		call()
		<-time.NewTimer(2 * time.Minute).C
		state("due", 2)
		call()
		state("back", 0)

		calls := r.named("llm.call")
		for i, want := range []map[string]string{
			{"llm.call.outcome": "fallback_recovery", "llm.call.attempts": "4", "llm.call.served_by": "spare"},
			{"llm.call.outcome": "fallback_recovery", "llm.call.attempts": "1", "llm.call.served_by": "spare"},
			{"llm.call.outcome": "primary_success", "llm.call.attempts": "1", "llm.call.served_by": "primary"},
		} {
			telemetryWant(t, "call", calls[i].Attributes(), want)
			if calls[i].Status().Code != codes.Unset {
				t.Errorf("call %d: %+v", i+1, calls[i].Status())
			}
		}
		var reasons []string
		for _, s := range r.named("chat") {
			got := telemetryAttrs(s.Attributes())
			reasons = append(reasons, got["llm.deployment"]+" "+got["llm.attempt.reason"])
		}
		want := "primary initial, primary retry, primary retry, spare fallback, spare fallback, primary initial"
		if got := strings.Join(reasons, ", "); got != want {
			t.Errorf("attempts: %s\nwant:     %s", got, want)
		}
		telemetryEqual(t, "fallbacks", r.sums("llm.client.fallbacks", "llm.fallback.from", "llm.fallback.to", "llm.reason"),
			map[string]float64{"primary spare rate_limited": 1, "primary spare cooling": 1})
		events := calls[1].Events()
		if len(events) != 1 || telemetryAttrs(events[0].Attributes)["llm.reason"] != "cooling" {
			t.Errorf("events of the second call: %+v", events)
		}
	})
}
