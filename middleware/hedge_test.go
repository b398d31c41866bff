package middleware_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// hedgeAfter hedges after a second.
func hedgeAfter(callers ...llm.Caller) llm.Caller {
	return llm.New().Then(middleware.Hedge(middleware.HedgeConfig{Delay: time.Second, Share: 1}, callers...))
}

// hedgeSaying is a deployment whose model waits, says its words one by one with a gap between, and then ends as s does.
func hedgeSaying(name string, s llmtest.Step, words ...string) *llm.Deployment {
	for _, w := range words {
		s.Deltas = append(s.Deltas, llm.Delta{Text: w})
	}
	return fallbackDep(name, llmtest.Script(s))
}

func TestHedgeStartsTheNextWhenTheFirstHasNoTokenAfterTheDelay(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := hedgeSaying("a", llmtest.Step{Delay: 10 * time.Second}, "a1", "a2")
			b := hedgeSaying("b", llmtest.Step{Delay: time.Second, Gap: time.Second}, "b1 ", "b2")
			text, start, req := "", time.Now(), fallbackAsk()
			if stream {
				req.Sink = func(d llm.Delta) error { text += d.Text; return nil }
			}
			resp, err := hedgeAfter(a, b).Call(t.Context(), req)
			if err != nil || resp.Text() != "b1 b2" || stream && text != "b1 b2" {
				t.Fatalf("%v, %v, %q", resp, err, text)
			}
			want := 2 * time.Second
			if stream {
				want += time.Second
			}
			if took := time.Since(start); took != want {
				t.Errorf("took %v, want %v", took, want)
			}
			t.Log(fallbackRows(resp.Attempts), resp.Attempts[0].Err)
		})
	}
}

var _ = context.Background
