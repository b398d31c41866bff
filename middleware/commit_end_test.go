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

// slowReader takes a second for each delta.
func slowReader(r *reader) *llm.Request {
	req := r.ask()
	took := req.Sink
	req.Sink = func(d llm.Delta) error {
		<-time.NewTimer(time.Second).C
		return took(d)
	}
	return req
}

// What is held back is handed out by the stage, which nobody ends but itself.
func TestCommitHandsOutNoMoreOnceTheTimeIsUpOrTheCallerLeft(t *testing.T) {
	for name, cfg := range map[string]middleware.CommitConfig{"at the end": {Whole: true}, "when it opens": {Deltas: 30}} {
		for class, leaves := range map[llm.Class]time.Duration{llm.Exhausted: time.Hour, llm.Canceled: 3500 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				model, r := llmtest.Script(llmtest.Step{Deltas: words(40), Gap: time.Millisecond}), &reader{}
				ctx, leave := context.WithCancel(t.Context())
				defer time.AfterFunc(leaves, leave).Stop()
				chat := llm.New(middleware.Deadline(middleware.DeadlineConfig{Total: 5500 * time.Millisecond})).
					Then(fallbackTo(committed(cfg, model), fallbackDep("other", model)))
				_, err := chat.Call(ctx, slowReader(r))
				e := llm.AsError(err)
				if e.Class != class || e.Commit != llm.Committed || e.Partial == nil || e.Deployment != "d" || model.Count() != 1 {
					t.Errorf("%s, %v: %+v after %d calls", name, class, err, model.Count())
				}
				if e.Partial != nil && e.Partial.Text() != r.text {
					t.Errorf("%s, %v: the error says that %q was handed out, and %q was", name, class, e.Partial.Text(), r.text)
				}
				if want := min(6, int(leaves.Round(time.Second)/time.Second)); r.n != want || time.Since(r.from).Round(time.Second) != time.Duration(want)*time.Second {
					t.Errorf("%s, %v: %d deltas in %v, want %d", name, class, r.n, time.Since(r.from), want)
				}
			})
		}
	}
}

func TestCommitHandsOutNothingOfAnAnswerThatCameTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		model := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
			leave()
			return &llm.Response{Parts: []llm.Part{llm.Text("whole")}, Usage: llm.Usage{Output: 7}}, nil
		})
		r := &reader{}
		_, err := committed(middleware.CommitConfig{}, model).Call(ctx, r.ask())
		e := llm.AsError(err)
		if !errors.Is(err, context.Canceled) || e.Partial != nil || e.Commit != llm.Committed || e.Usage.Output != 7 || r.n != 0 {
			t.Errorf("%v, partial %+v, usage %+v, %d deltas", err, e.Partial, e.Usage, r.n)
		}
	})
}

// A sink that fails was handed what it failed at, and nothing of the rest.
func TestCommitTellsWhatASinkThatFailedWasHanded(t *testing.T) {
	for name, cfg := range map[string]middleware.CommitConfig{"at the end": {Whole: true}, "when it opens": {Deltas: 5}} {
		model, r := llmtest.Script(llmtest.Step{Deltas: words(10)}), &reader{}
		req := r.ask()
		hand := req.Sink
		req.Sink = func(d llm.Delta) error {
			if err := hand(d); err != nil || r.n < 3 {
				return err
			}
			return errors.New("the client is gone")
		}
		_, err := committed(cfg, model).Call(t.Context(), req)
		if e := llm.AsError(err); e.Class != llm.Canceled || e.Partial.Text() != r.text || r.n != 3 || e.Deployment != "d" {
			t.Errorf("%s: %v, of which %q was handed out, and %q was", name, err, e.Partial.Text(), r.text)
		}
	}
}
