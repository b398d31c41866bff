package middleware

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

func TestDeadlineLearnsFromABusyDeploymentBySamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		estimates := NewEstimates(EstimatesConfig{})
		c := llm.New(Deadline(DeadlineConfig{Estimates: estimates})).Then(&llm.Deployment{
			Name: "d", Caller: llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
				llmtest.Advance(time.Millisecond)
				return &llm.Response{Parts: []llm.Part{llm.Text("ok")}}, nil
			}),
		})
		calls := func(n int) int64 {
			for range n {
				if _, err := c.Call(t.Context(), &llm.Request{System: "hi"}); err != nil {
					t.Fatal(err)
				}
			}
			return estimates.known("d").total.Load()
		}
		if n := calls(trackFew); n != trackFew {
			t.Errorf("learned from %d of the first %d", n, trackFew)
		}
		if n := calls(500) - trackFew; n < 90 || n > 110 {
			t.Errorf("learned from %d of 500 calls in half a second", n)
		}
		if got := estimates.Of("d"); got != 2*time.Millisecond {
			t.Errorf("estimate %v", got)
		}
	})
}
