package llm_test

import (
	"context"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/tokens"
)

// allocModel answers at once with a Response that its Deployment copies, after as many deltas as it says.
func allocModel(deltas int) llm.CallerFunc {
	resp := &llm.Response{Parts: []llm.Part{llm.Text("ok")}, Stop: llm.StopEnd}
	return func(_ context.Context, req *llm.Request) (*llm.Response, error) {
		if req.Sink != nil {
			for range deltas {
				if err := req.Sink(llm.Delta{Text: "word "}); err != nil {
					return nil, err
				}
			}
		}
		return resp, nil
	}
}

// allocOnion is the whole onion around two deployments of model.
func allocOnion(model llm.Caller) llm.Caller {
	perDeployment := llm.New(
		middleware.NewCooldowns(middleware.CooldownConfig{}).Stage(),
		middleware.Retry(middleware.RetryConfig{}),
		middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Total: 20 * time.Second}),
		middleware.Classify(middleware.ClassifyConfig{}),
	)
	return llm.New(
		middleware.Telemetry(middleware.TelemetryConfig{}),
		middleware.Deadline(middleware.DeadlineConfig{}),
	).Then(middleware.TokenRouter(middleware.TokenRouterConfig{
		Counter: tokens.For("gpt-4o"),
		Normal: middleware.Fallback(middleware.FallbackConfig{},
			perDeployment.Then(&llm.Deployment{Name: "primary", Model: "gpt-4o", Window: 128_000, Caller: model}),
			perDeployment.Then(&llm.Deployment{Name: "fallback", Model: "gpt-4o", Window: 128_000, Caller: model})),
		Long: perDeployment.Then(&llm.Deployment{Name: "long", Model: "gpt-4.1", Window: 1_000_000, Caller: model}),
	}))
}

// allocs is what a call of c allocates.
func allocs(t *testing.T, c llm.Caller, req *llm.Request) float64 {
	t.Helper()
	return testing.AllocsPerRun(200, func() {
		if _, err := c.Call(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSuccessfulCallThroughTheOnionAllocatesAtMostTenTimes(t *testing.T) {
	req := &llm.Request{Messages: []llm.Message{llm.User("hello")}, MaxTokens: 100}
	if n := allocs(t, allocOnion(allocModel(0)), req); n > 10 {
		t.Errorf("%v allocations a call, want at most 10", n)
	}
}

func TestDeltaThroughTheOnionAllocatesNothing(t *testing.T) {
	seen := 0
	req := &llm.Request{Messages: []llm.Message{llm.User("hello")}, Sink: func(llm.Delta) error {
		seen++
		return nil
	}}
	few, many := allocs(t, allocOnion(allocModel(1)), req), allocs(t, allocOnion(allocModel(1001)), req)
	if seen < 200*1000 {
		t.Fatalf("the sink saw %d deltas", seen)
	}
	if many-few >= 1 {
		t.Errorf("1000 more deltas cost %v more allocations, want none", many-few)
	}
}
