package llm_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

// readSlowly makes a call whose reader takes a second for each delta, and returns what it was handed in which time.
func readSlowly(ctx context.Context, c llm.Caller) (deltas int, took time.Duration, err error) {
	began, req := time.Now(), ask()
	req.Sink = func(llm.Delta) error {
		deltas++
		<-time.NewTimer(time.Second).C
		return nil
	}
	_, err = c.Call(ctx, req)
	return deltas, time.Since(began), err
}

// What has come already is not handed out for longer than the call lasts, however much it is.
func TestAStreamThatCameAtOnceEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			var body strings.Builder
			for range words {
				body.WriteString(`data: {"choices":[{"delta":{"content":"word"}}]}` + "\n\n")
			}
			body.WriteString(`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
			_, _ = io.WriteString(w, body.String())
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
		defer cancel()
		n, took, err := readSlowly(ctx, &llm.Deployment{Name: "d", Model: "m", Caller: model("http://primary", llmtest.ServePipe(t, provider))})
		if e := llm.AsError(err); n != 6 || took != 6*time.Second || e.Class != llm.Exhausted || e.Partial.Text() != strings.Repeat("word", 6) {
			t.Errorf("%d deltas in %v, %v, partial %q", n, took, err, e.Partial.Text())
		}
	})
}

func TestAnAnswerInOnePieceEndsWithItsTime(t *testing.T) {
	answer := &llm.Response{Usage: llm.Usage{Output: 9}, RequestID: "r1", Parts: []llm.Part{
		{Kind: llm.PartReasoning, Text: "hm"}, llm.Text("one"), llm.Text("two"), llm.Text("three"),
	}}
	for left, want := range map[time.Duration]int{time.Hour: 4, 1500 * time.Millisecond: 2, 0: 0} {
		synctest.Test(t, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			defer time.AfterFunc(left, leave).Stop()
			// It ignores its context and its sink.
			ignorant := llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
				if left == 0 {
					<-ctx.Done()
				}
				return answer, nil
			})
			n, _, err := readSlowly(ctx, &llm.Deployment{Name: "d", Has: llm.CanText | llm.CanReasoning, Caller: ignorant})
			e := llm.AsError(err)
			switch {
			case n != max(want, 1) && left == 0, n != want && left > 0, (err == nil) != (want == 4):
				t.Errorf("left after %v: %d deltas, %v", left, n, err)
			case err != nil && (!errors.Is(err, llm.Canceled) || e.Partial == nil || e.Usage.Output != 9 || e.RequestID != "r1"):
				t.Errorf("left after %v: %+v", left, e)
			}
		})
	}
}
