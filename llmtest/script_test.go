package llmtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

func TestScriptDoesItsStepsInOrderAndRepeatsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		odd := errors.New("odd")
		m := llmtest.Script(
			llmtest.Fail(odd),
			llmtest.Step{Delay: time.Second, Text: "late"},
			llmtest.Step{Deltas: []llm.Delta{{Text: "a"}, {Text: "b"}}, Gap: time.Second},
		)
		req := &llm.Request{Messages: []llm.Message{llm.User("hi")}}
		if _, err := m.Call(t.Context(), req); !errors.Is(err, odd) {
			t.Errorf("step 1 gave %v", err)
		}
		start := time.Now()
		resp, err := m.Call(t.Context(), req)
		if err != nil || resp.Text() != "late" || time.Since(start) != time.Second {
			t.Errorf("step 2 gave %v, %v after %v", resp, err, time.Since(start))
		}
		for range 2 {
			var got []string
			start = time.Now()
			streamed := req.Clone()
			streamed.Sink = func(d llm.Delta) error { got = append(got, d.Text); return nil }
			resp, err = m.Call(t.Context(), streamed)
			if err != nil || resp.Text() != "ab" || len(got) != 2 || time.Since(start) != time.Second {
				t.Errorf("the last step gave %v, %v, deltas %q after %v", resp, err, got, time.Since(start))
			}
		}
		calls := m.Calls()
		if m.Count() != 4 || calls[0].Request.Messages[0].Parts[0].Text != "hi" || !calls[3].At.After(calls[0].At) {
			t.Errorf("recorded %+v", calls)
		}
	})
}

func TestScriptHangsUntilTheCallerLeavesAndPanicsOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err := llmtest.Script(llmtest.Step{Hang: true}).Call(ctx, &llm.Request{})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("hung for %v: %v", time.Since(start), err)
		}
		if _, err := llmtest.Script(llmtest.Step{Delay: time.Hour}).Call(ctx, &llm.Request{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a delay outlived its context: %v", err)
		}
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("recovered %v", v)
			}
		}()
		_, err = llmtest.Script(llmtest.Step{Panic: "boom"}).Call(t.Context(), &llm.Request{})
		t.Errorf("returned %v", err)
	})
}

func TestAdvanceLetsTimePassAndThingsSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := false
		time.AfterFunc(time.Minute, func() { done = true })
		start := time.Now()
		llmtest.Advance(time.Minute)
		if !done || time.Since(start) != time.Minute {
			t.Errorf("after %v done is %v", time.Since(start), done)
		}
	})
}
