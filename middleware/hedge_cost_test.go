package middleware_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// hedgeInstant answers at once, after so many deltas.
func hedgeInstant(deltas int) llm.Caller {
	answer := &llm.Response{Parts: []llm.Part{llm.Text("ok")}, Stop: llm.StopEnd}
	return llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
		for range deltas {
			if err := req.Sink(llm.Delta{Text: "word "}); err != nil {
				return nil, err
			}
		}
		return answer, nil
	})
}

func hedgeCosts(deltas int) map[string]llm.Caller {
	a, b := fallbackDep("a", hedgeInstant(deltas)), fallbackDep("b", hedgeInstant(deltas))
	known := middleware.NewEstimates(middleware.EstimatesConfig{})
	for range 5 {
		known.Learn("a", time.Second)
		known.Learn("a, first token", time.Second)
	}
	return map[string]llm.Caller{
		"fallback": llm.New().Then(fallbackTo(a, b)),
		"fixed":    llm.New().Then(middleware.Hedge(middleware.HedgeConfig{Delay: time.Minute}, a, b)),
		"learned":  llm.New().Then(middleware.Hedge(middleware.HedgeConfig{Estimates: known}, a, b)),
	}
}

func hedgeAsk(deltas int) *llm.Request {
	req := fallbackAsk()
	if deltas > 0 {
		req.Sink = func(llm.Delta) error { return nil }
	}
	return req
}

func TestHedgeACallThatIsNotHedgedCostsAtMostFourAllocationsMore(t *testing.T) {
	for _, deltas := range []int{0, 1, 1001} {
		n := map[string]float64{}
		for name, c := range hedgeCosts(deltas) {
			req := hedgeAsk(deltas)
			n[name] = testing.AllocsPerRun(200, func() {
				if _, err := c.Call(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			})
		}
		if most := max(n["fixed"], n["learned"]) - n["fallback"]; most > 4 {
			t.Errorf("%d deltas: %v allocations more than with a fallback (%v)", deltas, most, n)
		}
	}
}

func BenchmarkHedge(b *testing.B) {
	for _, deltas := range []int{0, 1, 1001} {
		for name, c := range hedgeCosts(deltas) {
			b.Run(fmt.Sprintf("%s/%d", name, deltas), func(b *testing.B) {
				req := hedgeAsk(deltas)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.Call(b.Context(), req); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkHedgeWon is a stream of 1001 deltas that the hedge wins, less a millisecond of delay.
func BenchmarkHedgeWon(b *testing.B) {
	hangs := fallbackDep("a", llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	req := hedgeAsk(1)
	hedged := middleware.Hedge(middleware.HedgeConfig{Delay: time.Nanosecond, Share: 1}, hangs, fallbackDep("b", hedgeInstant(1001)))
	for b.Loop() {
		if _, err := hedged.Call(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}
