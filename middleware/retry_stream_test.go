package middleware_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// go-grpc-middleware once lost this check because no test said why it was there: the caller would read both attempts.
func TestRetryNeverRepeatsOnceItsCallerWasHandedOutput(t *testing.T) {
	mine := errors.New("ours")
	broken := llmtest.Step{Deltas: []llm.Delta{{Text: "Hel"}}, Err: errors.Join(mine, &llm.Error{Class: llm.Unavailable})}
	for name, leaf := range map[string]llm.Caller{
		"deployment":           &llm.Deployment{Name: "a", Caller: llmtest.Script(broken)},
		"a leaf of other make": llmtest.Script(broken),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				text, start := "", time.Now()
				req := retryAsk()
				req.Sink = func(d llm.Delta) error { text += d.Text; return nil }
				_, err := middleware.Retry(middleware.RetryConfig{}).Wrap(leaf).Call(t.Context(), req)
				if text != "Hel" || time.Since(start) != 0 {
					t.Errorf("the caller got %q after %v, want the one start at once", text, time.Since(start))
				}
				if e := llm.AsError(err); e.Partial == nil || !errors.Is(err, llm.Unavailable) {
					t.Errorf("error %+v, want one that says Partial and keeps the cause", e)
				}
				if name == "a leaf of other make" && !errors.Is(err, mine) {
					t.Errorf("error %v lost what was around the cause", err)
				}
			})
		})
	}
}

func TestRetryRepeatsAStreamWhileNothingWasHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chat, text := retryAround(middleware.RetryConfig{Max: 1}, retryScript(llm.Interrupted)), ""
		for d, err := range llm.Stream(t.Context(), chat, retryAsk()) {
			if err != nil {
				t.Fatal(err)
			}
			text += d.Text
		}
		if text != "done" {
			t.Errorf("the caller read %q, want one clean stream", text)
		}
	})
}

func TestRetryCountsOnlyWhatItsOwnCallerWasHanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(
			llmtest.Step{Deltas: []llm.Delta{{Text: "Hel"}}, Err: llm.Interrupted}, llmtest.Text("Hello"),
		)
		holds := llm.Stage{Name: "holds", Wrap: func(next llm.Caller) llm.Caller {
			return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
				r := req.Clone()
				r.Sink = func(llm.Delta) error { return nil }
				resp, err := next.Call(ctx, r)
				if err == nil {
					err = llm.EmitWhole(req, resp)
				}
				return resp, err
			})
		}}
		text := ""
		req := retryAsk()
		req.Sink = func(d llm.Delta) error { text += d.Text; return nil }
		chat := llm.New(middleware.Retry(middleware.RetryConfig{}), holds).Then(&llm.Deployment{Name: "a", Caller: model})
		if _, err := chat.Call(t.Context(), req); err != nil || text != "Hello" || model.Count() != 2 {
			t.Errorf("%d calls, text %q, error %v; want what the hold kept back to be repeated", model.Count(), text, err)
		}
	})
}

func TestRetryDoesNotRepeatWhatTheSinkBroke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, mine := llmtest.Script(), errors.New("disk full")
		req := retryAsk()
		req.Sink = func(llm.Delta) error { return mine }
		_, err := retryAround(middleware.RetryConfig{}, model).Call(t.Context(), req)
		if !errors.Is(err, mine) || llm.ClassOf(err) != llm.Canceled || model.Count() != 1 {
			t.Errorf("error %v after %d calls, want the sink's after one", err, model.Count())
		}
	})
}

func TestRetryHasNoLimitOnHowLongAnAttemptTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Step{Delay: 30 * time.Minute, Err: llm.Interrupted}, llmtest.Text("done"))
		if _, err := retryAround(middleware.RetryConfig{}, model).Call(t.Context(), retryAsk()); err != nil {
			t.Errorf("a long stream that was cut was not repeated: %v", err)
		}
	})
}
