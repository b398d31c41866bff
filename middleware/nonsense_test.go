package middleware_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

func TestStagesAroundNothingPanicWithTheirName(t *testing.T) {
	accept := func(*llm.Request, *llm.Response) error { return nil }
	for name, stage := range map[string]llm.Stage{
		"AttemptTimeout": middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{}),
		"Classify":       middleware.Classify(middleware.ClassifyConfig{}),
		"Cooldown":       middleware.NewCooldowns(middleware.CooldownConfig{}).Stage(),
		"Deadline":       middleware.Deadline(middleware.DeadlineConfig{}),
		"Retry":          middleware.Retry(middleware.RetryConfig{}),
		"Telemetry":      middleware.Telemetry(middleware.TelemetryConfig{}),
		"Validate":       middleware.Validate(accept),
	} {
		for _, nothing := range []llm.Caller{nil, (*llm.Pipeline)(nil), llm.CallerFunc(nil)} {
			if got := panicOf(func() { stage.Wrap(nothing) }); !strings.Contains(got, name+": Wrap(nil)") {
				t.Errorf("%s around %T: %q", name, nothing, got)
			}
		}
	}
}

func panicOf(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}

func TestReactionsPanicOnValuesThatAreNone(t *testing.T) {
	for _, row := range []middleware.Reaction{{Again: 99}, {Elsewhere: 99}, {Cools: 99}} {
		got := panicOf(func() { middleware.Retry(middleware.RetryConfig{Reactions: middleware.Reactions{llm.Auth: row}}) })
		if !strings.Contains(got, "Reactions[auth]") {
			t.Errorf("%+v: %q", row, got)
		}
	}
}

func TestEstimatesSayWhatTheyAre(t *testing.T) {
	e := middleware.NewEstimates(middleware.EstimatesConfig{})
	e.Learn("d", 1)
	if got := e.String(); got != "0.9 quantile over 10m0s, 1 deployments known" {
		t.Errorf("%q", got)
	}
}
