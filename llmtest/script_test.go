package llmtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func TestAMisuseHasAName(t *testing.T) {
	seen := map[string]bool{}
	for m := llmtest.NoMisuse; m <= llmtest.BothResults; m++ {
		if s := m.String(); s == "" || strings.Contains(s, "(") || seen[s] {
			t.Errorf("misuse %d is %q", uint8(m), s)
		}
		seen[m.String()] = true
	}
	if s := llmtest.Misuse(200).String(); s != "misuse(200)" {
		t.Error(s)
	}
}

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

func TestScriptFailsAsAProviderDoes(t *testing.T) {
	for _, c := range []struct {
		ev       llm.Evidence
		provider string
		want     llm.Class
		after    time.Duration
	}{
		{llm.Evidence{Status: 429, Code: "insufficient_quota"}, "openai", llm.Quota, 0},
		{llm.Evidence{Status: 429, Header: http.Header{"Retry-After": {"7"}}}, "openai", llm.RateLimited, 7 * time.Second},
		{llm.Evidence{Status: 529, Type: "overloaded_error"}, "anthropic", llm.Overloaded, 0},
		{llm.Evidence{Status: 400, Code: "context_length_exceeded"}, "openai", llm.TooLong, 0},
		{llm.Evidence{Status: 401}, "", llm.Auth, 0},
	} {
		d := &llm.Deployment{Name: "d", Provider: c.provider, Caller: llmtest.Script(llmtest.FailWith(c.ev, c.provider))}
		_, err := d.Call(t.Context(), &llm.Request{Messages: []llm.Message{llm.User("hi")}})
		if e := llm.AsError(err); e.Class != c.want || e.RetryAfter != c.after || e.Evidence.Status != c.ev.Status {
			t.Errorf("%+v of %q is %v with a wait of %v", c.ev, c.provider, e, e.RetryAfter)
		}
	}
}

func TestScriptRecordsCopiesWithTimesAndWhatWasHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := llmtest.Script(llmtest.Step{Delay: time.Second, Deltas: []llm.Delta{{Text: "a"}, {Text: "b"}}, Gap: time.Second, Err: llm.Stalled})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		req := &llm.Request{Messages: []llm.Message{llm.User("hi")}, Labels: map[string]string{"a": "b"}, Sink: func(llm.Delta) error { return nil }}
		_, err := m.Call(ctx, req)
		req.Messages[0].Parts[0].Text = "changed"
		req.Labels["a"] = "changed"
		c := m.Calls()[0]
		if c.Request.Messages[0].Parts[0].Text != "hi" || c.Request.Labels["a"] != "b" {
			t.Errorf("the record changed with the request: %+v", c.Request)
		}
		if c.At != began || c.Output.Sub(began) != time.Second || c.End.Sub(began) != 2*time.Second || c.Deadline.Sub(began) != time.Minute {
			t.Errorf("it came at %v, output at %v, ended at %v, deadline %v", c.At.Sub(began), c.Output.Sub(began), c.End.Sub(began), c.Deadline)
		}
		if c.Handed != 2 || !errors.Is(c.Err, llm.Stalled) || !errors.Is(err, llm.Stalled) {
			t.Errorf("%d deltas, error %v", c.Handed, c.Err)
		}
	})
}

func TestScriptThatIsDeafGoesOnUntilReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		m := llmtest.Script(llmtest.Step{Deaf: true, Delay: time.Second, Hang: true})
		done := make(chan error)
		go func() {
			_, err := m.Call(ctx, &llm.Request{})
			done <- err
		}()
		llmtest.Advance(time.Hour)
		if end := m.Calls()[0].End; !end.IsZero() {
			t.Errorf("it ended at %v", end)
		}
		m.Release()
		m.Release()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it returned %v", err)
		}
	})
}

func TestScriptEndsItsGoroutineAndBreaksTheContractOnDemand(t *testing.T) {
	ended := make(chan bool)
	go func() {
		defer close(ended)
		_, _ = llmtest.Script(llmtest.Step{Exit: true}).Call(t.Context(), &llm.Request{})
		ended <- false
	}()
	if went, ok := <-ended; ok {
		t.Errorf("the goroutine went on: %v", went)
	}
	ask := func(m llmtest.Misuse) (*llm.Request, *llm.Response, error) {
		req := &llm.Request{Model: "m", Messages: []llm.Message{llm.User("hi")}}
		resp, err := llmtest.Script(llmtest.Step{Misuse: m}).Call(t.Context(), req)
		return req, resp, err
	}
	if _, resp, err := ask(llmtest.NoResult); resp != nil || err != nil {
		t.Errorf("no result is %v, %v", resp, err)
	}
	if _, resp, err := ask(llmtest.BothResults); resp == nil || err == nil {
		t.Errorf("both are %v, %v", resp, err)
	}
	if req, _, _ := ask(llmtest.WrittenRequest); req.Model != "written" || req.Messages[0].Parts[0].Text != "written" {
		t.Errorf("the request is %+v", req)
	}
}

// region: expect

// A test of a chain reads as what it expects of it.
func TestExpectReadsAsASentence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.FailWith(llm.Evidence{Status: 429, Header: http.Header{"Retry-After": {"2"}}}, "openai"), llmtest.Text("hi"))
		chat := middleware.Retry(middleware.RetryConfig{}).Wrap(&llm.Deployment{Name: "d", Caller: model})
		if _, err := chat.Call(t.Context(), &llm.Request{Messages: []llm.Message{llm.User("hello")}}); err != nil {
			t.Error(err)
		}
		llmtest.Expect(t, model).WasCalled(2).WaitedAtLeast(2 * time.Second).NotAfterOutput().WasTold("hello")
	})
}

// endregion

// What one caller does to its answer no other sees, nor who wrote the script.
func TestEachCallGetsItsOwnCopyOfTheAnswer(t *testing.T) {
	answer := &llm.Response{
		Parts: []llm.Part{llm.Text("ok"), {Kind: llm.PartToolCall, Call: &llm.ToolCall{Name: "look", Arguments: []byte(`{"a":1}`)}}},
		Extra: map[string]json.RawMessage{"test": []byte(`1`)},
	}
	m := llmtest.Script(llmtest.Step{Response: answer})
	for range 2 {
		resp, err := m.Call(t.Context(), hi())
		if err != nil {
			t.Fatal(err)
		}
		if resp == answer || resp.Text() != "ok" || string(resp.ToolCalls()[0].Arguments) != `{"a":1}` || string(resp.Extra["test"]) != "1" {
			t.Errorf("%+v, with arguments %s", resp, resp.ToolCalls()[0].Arguments)
		}
		resp.Parts[0].Text, resp.Parts[1].Call.Arguments[2] = "changed", 'b'
		resp.Extra["test"] = []byte(`2`)
	}
}
