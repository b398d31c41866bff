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

func hedgeLeaf(name, model string, steps ...llmtest.Step) *llm.Deployment {
	return telemetryLeaf(name, "p", model, steps...)
}

// A hedge is no fallback: nobody failed.
func TestHedgeIsNoFailureInTelemetry(t *testing.T) {
	slow, quick, fails := llmtest.Step{Delay: 3 * time.Second}, llmtest.Step{}, llmtest.Fail(llm.Unavailable)
	for name, tt := range map[string]struct {
		a, b     llmtest.Step
		model    string // of b
		canceled string // who lost, where nobody failed
		want     middleware.Outcome
	}{
		"the hedge wins":                {llmtest.Step{Hang: true}, quick, "n", "a", "primary_success"},
		"the first wins":                {slow, llmtest.Step{Hang: true}, "n", "b", "primary_success"},
		"of the same model":             {slow, llmtest.Step{Hang: true}, "m", "b", "primary_success"},
		"the hedge fails":               {slow, fails, "n", "", "primary_success"},
		"of the same model, it fails":   {slow, fails, "m", "", "primary_success"},
		"the first fails in the end":    {llmtest.Step{Delay: 2 * time.Second, Err: llm.Unavailable}, slow, "n", "", "fallback_recovery"},
		"the first fails, no hedge yet": {fails, quick, "n", "", "fallback_recovery"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTelemetryRig(t)
				hedged := middleware.Hedge(middleware.HedgeConfig{Delay: time.Second}, hedgeLeaf("a", "m", tt.a), hedgeLeaf("b", tt.model, tt.b))
				resp, err := r.pipeline(hedged).Call(t.Context(), telemetryAsk())
				if err != nil || len(resp.Attempts) != 2 {
					t.Fatal(resp, err)
				}
				telemetryWant(t, "call", r.call().Attributes(), map[string]string{"llm.call.outcome": string(tt.want), "error.type": "-"})
				if n := len(r.logs.at("WARN")); (n > 0) != strings.Contains(name, "no hedge") {
					t.Errorf("%d warnings: %q", n, r.logs.lines)
				}
				for _, s := range r.named("chat") {
					var who, errorType string
					for _, kv := range s.Attributes() {
						switch string(kv.Key) {
						case "llm.deployment":
							who = kv.Value.AsString()
						case "error.type":
							errorType = kv.Value.AsString()
						}
					}
					if (who == tt.canceled) != (errorType == "canceled") || who == tt.canceled && s.Status().Code != codes.Unset {
						t.Errorf("span of %s: error.type %q, status %v", who, errorType, s.Status())
					}
				}
			})
		})
	}
}

func TestHedgeARetryBesideAHedgeIsARetryInTelemetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTelemetryRig(t)
		a := hedgeLeaf("a", "m", llmtest.Step{Delay: 2 * time.Second, Err: llm.Unavailable}, llmtest.Step{})
		b := hedgeLeaf("b", "n", llmtest.Step{Hang: true})
		retried := middleware.Retry(middleware.RetryConfig{}).Wrap(a)
		hedged := middleware.Hedge(middleware.HedgeConfig{Delay: time.Second}, retried, b)
		if _, err := r.pipeline(hedged).Call(t.Context(), telemetryAsk()); err != nil {
			t.Fatal(err)
		}
		reasons := map[string]int{}
		for _, s := range r.named("chat") {
			for _, kv := range s.Attributes() {
				if kv.Key == "llm.attempt.reason" {
					reasons[kv.Value.AsString()]++
				}
			}
		}
		if reasons["initial"] != 1 || reasons["hedge"] != 1 || reasons["retry"] != 1 {
			t.Errorf("%v", reasons)
		}
	})
}
