package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func ExampleUpstreamAttempts() {
	model := llmtest.Script(llmtest.Fail(llm.Unavailable))
	chat := llm.New(
		middleware.EachBudget(middleware.BudgetConfig{Attempts: 3}), middleware.Retry(middleware.RetryConfig{Base: 1}),
	).Then(&llm.Deployment{Name: "primary", Caller: model})

	// region: upstream
	ask := func(ctx context.Context, h http.Header) error { // of a request that came in over HTTP
		req := &llm.Request{Messages: []llm.Message{llm.User("Hello")}}
		req.Spent.Attempts = middleware.UpstreamAttempts(h) // a budget of the call begins with them
		_, err := chat.Call(ctx, req)
		return err
	}
	// endregion

	h := http.Header{}
	middleware.WriteAttempts(h, 2) // by the client, which has asked twice before
	err := ask(context.Background(), h)
	fmt.Println(model.Count(), "call:", llm.ClassOf(err))
	// Output: 1 call: unavailable
}

func TestWriteAttemptsLeavesNothingOfAnEarlierRequest(t *testing.T) {
	for _, n := range []int{0, -1} {
		h := http.Header{}
		middleware.WriteAttempts(h, 7)
		middleware.WriteAttempts(h, n)
		if len(h) != 0 || middleware.UpstreamAttempts(h) != 0 {
			t.Errorf("%d: %v", n, h)
		}
	}
}

// What is too large for an int is no reason to begin again with all attempts, nor is what is too small.
func TestUpstreamAttemptsOfAnyLength(t *testing.T) {
	for value, want := range map[string]int{
		"99999999999999999999": 1000, "9223372036854775807": 1000, "-9223372036854775808": 0, "-99999999999999999999": 0, "1e3": 0,
	} {
		for _, header := range []string{middleware.AttemptsHeader, "X-Stainless-Retry-Count", "X-Envoy-Attempt-Count"} {
			h := http.Header{}
			h.Set(header, value)
			if got := middleware.UpstreamAttempts(h); got != want {
				t.Errorf("%s: %s: %d, want %d", header, value, got, want)
			}
		}
	}
}
