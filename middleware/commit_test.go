package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// words are n deltas of five bytes.
func words(n int) (ds []llm.Delta) {
	for i := range n {
		ds = append(ds, llm.Delta{Text: fmt.Sprintf("w%03d ", i)})
	}
	return ds
}

// reader takes a stream's text and what else came.
type reader struct {
	text string
	n    int
	at   []time.Duration // of each delta, from start
	from time.Time
}

func (r *reader) ask() *llm.Request {
	req := retryAsk()
	r.from = time.Now()
	req.Sink = func(d llm.Delta) error {
		r.n++
		r.text += d.Text
		r.at = append(r.at, time.Since(r.from))
		return nil
	}
	return req
}

func committed(cfg middleware.CommitConfig, model llm.Caller) *llm.Pipeline {
	return llm.New(middleware.Retry(middleware.RetryConfig{}), middleware.Commit(cfg)).
		Then(&llm.Deployment{Name: "d", Provider: "test", Model: "m", Caller: model})
}

func TestCommitHidesWhatBreaksWithinTheWindow(t *testing.T) {
	for name, test := range map[string]struct {
		cfg    middleware.CommitConfig
		before int // deltas before the break
		hidden bool
	}{
		"the default, just within":  {middleware.CommitConfig{}, 15, true},
		"the default, just open":    {middleware.CommitConfig{}, 16, false},
		"deltas":                    {middleware.CommitConfig{Deltas: 3}, 2, true},
		"deltas, open":              {middleware.CommitConfig{Deltas: 3}, 3, false},
		"bytes":                     {middleware.CommitConfig{Bytes: 20}, 3, true},
		"bytes, open":               {middleware.CommitConfig{Bytes: 20}, 4, false},
		"time":                      {middleware.CommitConfig{Wait: time.Second}, 10, true},
		"time, open":                {middleware.CommitConfig{Wait: time.Second}, 11, false},
		"what is reached first":     {middleware.CommitConfig{Deltas: 1000, Bytes: 20, Wait: time.Hour}, 4, false},
		"the whole answer":          {middleware.CommitConfig{Whole: true}, 500, true},
		"the whole answer, nothing": {middleware.CommitConfig{Whole: true}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broken := llmtest.Step{Deltas: words(test.before), Gap: 100 * time.Millisecond, Err: llm.Unavailable}
				model, r := llmtest.Script(broken, llmtest.Text("whole")), &reader{}
				resp, err := committed(test.cfg, model).Call(t.Context(), r.ask())
				if test.hidden {
					if err != nil || resp.Text() != "whole" || r.text != "whole" || model.Count() != 2 {
						t.Errorf("%v, %v, %q after %d calls", resp, err, r.text, model.Count())
					}
					if got := resp.Attempts[0]; got.Class != llm.Interrupted && test.before > 0 || got.Commit != llm.Committed && test.before > 0 {
						t.Errorf("the account says %v, %v", got.Class, got.Commit)
					}
					return
				}
				if !errors.Is(err, llm.Interrupted) || llm.AsError(err).Partial == nil || model.Count() != 1 || r.n != test.before {
					t.Errorf("%v after %d calls and %d deltas", err, model.Count(), r.n)
				}
			})
		})
	}
}

func TestCommitHoldsBackEveryKindAndKeepsTheOrder(t *testing.T) {
	all := []llm.Delta{
		{Kind: llm.DeltaReasoning, Text: "hm"}, {Text: "So "}, {Kind: llm.DeltaToolCall, Call: &llm.ToolCallDelta{ID: "1", Name: "f"}},
		{Kind: llm.DeltaToolCall, Call: &llm.ToolCallDelta{Arguments: "{}"}}, {Kind: llm.DeltaRefusal, Text: "no"},
	}
	for _, cfg := range []middleware.CommitConfig{{}, {Whole: true}, {Deltas: 1}, {Deltas: 4}, {Bytes: 1}, {Bytes: 7}} {
		model := llmtest.Script(llmtest.Step{Deltas: all})
		var got []llm.Delta
		req := retryAsk()
		req.Sink = func(d llm.Delta) error { got = append(got, d); return nil }
		resp, err := committed(cfg, model).Call(t.Context(), req)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(all) || resp.Text() != "So " {
			t.Errorf("%+v: %v, %v, %v", cfg, got, resp, err)
		}
	}
}

// What broke the stream decides what follows, not that it broke: nobody has seen any of it.
func TestCommitGivesAHiddenFailureItsOwnClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := &llm.Error{Class: llm.RateLimited, Owner: llm.OwnerRate, RetryAfter: 7 * time.Second, Message: "slow down"}
		model := llmtest.Script(llmtest.Step{Deltas: words(3), Err: limited}, llmtest.Text("ok"))
		start, r := time.Now(), &reader{}
		resp, err := committed(middleware.CommitConfig{}, model).Call(t.Context(), r.ask())
		if err != nil || r.text != "ok" || time.Since(start) < 7*time.Second || resp.Attempts[1].Waited < 7*time.Second {
			t.Errorf("%v, %v, %q after %v", resp, err, r.text, time.Since(start))
		}

		invalid := &llm.Error{Class: llm.Invalid, Owner: llm.OwnerRequest, Message: "no such tool"}
		model = llmtest.Script(llmtest.Step{Deltas: words(3), Err: invalid})
		_, err = committed(middleware.CommitConfig{}, model).Call(t.Context(), r.ask())
		e := llm.AsError(err)
		if e.Class != llm.Invalid || e.Partial != nil || e.Commit != llm.Committed || e.Deployment != "d" || model.Count() != 1 {
			t.Errorf("%v of class %v, commit %v, partial %v, after %d calls", err, e.Class, e.Commit, e.Partial, model.Count())
		}
	})
}

func TestCommitDoesNotRepeatWhatMayHaveActed(t *testing.T) {
	model, r := llmtest.Script(llmtest.Step{Deltas: words(3), Err: llm.Unavailable}), &reader{}
	req := r.ask()
	req.ReplayUnsafe = true
	_, err := committed(middleware.CommitConfig{}, model).Call(t.Context(), req)
	if err == nil || model.Count() != 1 || r.n != 0 {
		t.Errorf("%v after %d calls, %d deltas", err, model.Count(), r.n)
	}
}

func TestCommitLetsALimitEndTheAttemptWhileItHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := llmtest.Step{Deltas: words(3), Hang: true}
		primary, r := llmtest.Script(silent), &reader{}
		stack := llm.New(
			middleware.Retry(middleware.RetryConfig{}), middleware.Commit(middleware.CommitConfig{}),
			middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Idle: 2 * time.Second}),
		)
		chat := fallbackTo(stack.Then(fallbackDep("p", primary)), stack.Then(fallbackDep("f", llmtest.Script(llmtest.Text("from f")))))
		resp, err := chat.Call(t.Context(), r.ask())
		if err != nil || r.text != "from f" || resp.Deployment != "f" || primary.Count() != 1 {
			t.Errorf("%v, %v, %q after %d calls", resp, err, r.text, primary.Count())
		}
		if got := time.Since(r.from); got < 2*time.Second || got > 3*time.Second {
			t.Errorf("it took %v", got)
		}
	})
}

func TestCommitEndsTheCallWhenItsSinkFails(t *testing.T) {
	gone := errors.New("the reader left")
	for name, cfg := range map[string]middleware.CommitConfig{"when it opens": {Deltas: 2}, "at the end": {Whole: true}, "after": {Deltas: 1}} {
		model, n := llmtest.Script(llmtest.Step{Deltas: words(5)}), 0
		req := retryAsk()
		req.Sink = func(llm.Delta) error {
			if n++; n == 2 {
				return gone
			}
			return nil
		}
		_, err := committed(cfg, model).Call(t.Context(), req)
		if !errors.Is(err, gone) || llm.ClassOf(err) != llm.Canceled || n != 2 || model.Count() != 1 {
			t.Errorf("%s: %v after %d deltas and %d calls", name, err, n, model.Count())
		}
	}
}

func TestCommitLetsCallsWithoutAStreamThrough(t *testing.T) {
	model := llmtest.Script(llmtest.Fail(llm.Unavailable), llmtest.Text("ok"))
	synctest.Test(t, func(t *testing.T) {
		resp, err := committed(middleware.CommitConfig{}, model).Call(t.Context(), retryAsk())
		if err != nil || resp.Text() != "ok" {
			t.Error(resp, err)
		}
	})
	if _, err := middleware.Commit(middleware.CommitConfig{}).Wrap(model).Call(t.Context(), nil); !errors.Is(err, llm.Invalid) {
		t.Error(err)
	}
}

func TestCommitPanicsOnNonsense(t *testing.T) {
	for want, cfg := range map[string]middleware.CommitConfig{
		"Deltas -1":        {Deltas: -1},
		"Bytes -1":         {Bytes: -1},
		"Wait -1s":         {Wait: -time.Second},
		"Whole holds":      {Whole: true, Deltas: 3},
		"holds everything": {Whole: true, Wait: 3},
	} {
		if got := panicOf(func() { middleware.Commit(cfg) }); !strings.Contains(got, want) {
			t.Errorf("%+v: %q", cfg, got)
		}
	}
}

func TestCommitThatIsOpenAllocatesNothing(t *testing.T) {
	call := func(n int) float64 {
		model := llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
			for range n {
				if err := req.Sink(llm.Delta{Text: "word "}); err != nil {
					return nil, err
				}
			}
			return &llm.Response{Parts: []llm.Part{llm.Text("x")}}, nil
		})
		c := middleware.Commit(middleware.CommitConfig{}).Wrap(model)
		req := retryAsk()
		req.Sink = func(llm.Delta) error { return nil }
		return testing.AllocsPerRun(50, func() {
			if _, err := c.Call(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := call(20), call(1020); many > few {
		t.Errorf("%v allocations for 20 deltas, %v for 1020", few, many)
	}
}
