package middleware_test

import (
	"context"
	"sync"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

// A team's stage may ask the same fallback several times at once in one call, to choose from the answers.
func TestFallbackMayBeAskedSeveralTimesAtOnceInOneCall(t *testing.T) {
	for name, first := range map[string]llmtest.Step{"answered by the first": {}, "moved": llmtest.Fail(llm.Unavailable)} {
		p, f := llmtest.Script(first), llmtest.Script()
		fan := llm.Stage{Name: "fan", Wrap: func(next llm.Caller) llm.Caller {
			return llm.CallerFunc(func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() {
						if _, err := next.Call(ctx, r); err != nil {
							t.Errorf("%s: %v", name, err)
						}
					})
				}
				wg.Wait()
				return next.Call(ctx, r)
			})
		}}
		chat := llm.New(fan).Then(fallbackTo(fallbackDep("p", p), fallbackDep("f", f)))
		if _, err := chat.Call(t.Context(), fallbackAsk()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
