package middleware_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// fallbackFan is a team's stage that asks several times in one call, to choose from the answers: once for each of after, so
// much later.
func fallbackFan(after []time.Duration, got func(i int, resp *llm.Response, err error)) llm.Chain {
	return llm.New(llm.Stage{Name: "fan", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
			var wg sync.WaitGroup
			for i, d := range after {
				wg.Go(func() {
					<-time.NewTimer(d).C
					resp, err := next.Call(ctx, r)
					got(i, resp, err)
				})
			}
			wg.Wait()
			return &llm.Response{}, nil
		})
	}})
}

func TestFallbackMayBeAskedSeveralTimesAtOnceInOneCall(t *testing.T) {
	for name, first := range map[string]llmtest.Step{"answered by the first": {}, "moved": llmtest.Fail(llm.Unavailable)} {
		t.Run(name, func(t *testing.T) {
			var answers atomic.Int32
			fan := fallbackFan(make([]time.Duration, 20), func(_ int, _ *llm.Response, err error) {
				if err != nil {
					t.Error(err)
				}
				answers.Add(1)
			})
			chat := fan.Then(fallbackTo(fallbackDep("p", llmtest.Script(first)), fallbackDep("f", llmtest.Script())))
			if _, err := chat.Call(t.Context(), fallbackAsk()); err != nil || answers.Load() != 20 {
				t.Errorf("%d answers, then %v", answers.Load(), err)
			}
		})
	}
}

func TestFallbackBranchesOfOneCallDoNotShutEachOtherOut(t *testing.T) {
	for _, test := range []struct {
		name  string
		p     []llmtest.Step // in the order they are asked
		f     llmtest.Step
		after []time.Duration
		want  []string
	}{
		{"what one has moved past, another may try", []llmtest.Step{llmtest.Fail(llm.Unavailable), {}}, llmtest.Step{Delay: 9 * time.Second},
			[]time.Duration{0, time.Second}, []string{"f", "p"}},
		{"what answered one may answer another", []llmtest.Step{{Delay: 9 * time.Second, Err: llm.Unavailable}, llmtest.Fail(llm.Unavailable)},
			llmtest.Step{}, []time.Duration{0, time.Second}, []string{"f", "f"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fan := fallbackFan(test.after, func(i int, resp *llm.Response, err error) {
					if err != nil || resp.Deployment != test.want[i] {
						t.Errorf("branch %d: %v, %v; want %s", i, resp, err, test.want[i])
					}
				})
				chat := fan.Then(fallbackTo(fallbackDep("p", llmtest.Script(test.p...)), fallbackDep("f", llmtest.Script(test.f))))
				if _, err := chat.Call(t.Context(), fallbackAsk()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A primary that is down sends all of its calls to the next at the same time. As long as that answers, none may be lost.
func TestAnyNumberOfCallsMovesAtOnceToARouteThatAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 200
		down := llmtest.Script(llmtest.Fail(llm.Unavailable))
		slow := llmtest.Script(llmtest.Step{Delay: time.Second, Text: "here"})
		onion := middleware.Fallback(middleware.FallbackConfig{}, fallbackDep("a", down), fallbackDep("b", slow))
		var wg sync.WaitGroup
		var lost atomic.Int32
		for range calls {
			wg.Go(func() {
				if _, err := onion.Call(t.Context(), fallbackAsk()); err != nil {
					lost.Add(1)
				}
			})
		}
		wg.Wait()
		if lost.Load() > 0 {
			t.Errorf("%d of %d calls were lost while b answers", lost.Load(), calls)
		}
	})
}
