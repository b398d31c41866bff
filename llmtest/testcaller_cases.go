package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/modelchain/llm"
)

var hello = Answer{Text: []string{"Hel", "lo, ", "world"}, Usage: llm.Usage{Input: 7, Output: 3}}

const helloText = "Hello, world"

func wholeAnswer(s *callerSuite) {
	resp, err := s.answer(hello).Call(s.Context(), callerRequest())
	if err != nil || resp == nil {
		s.broken("got %s, %v", answerOf(resp), err)
		return
	}
	if resp.Text() != helloText || resp.Stop != llm.StopEnd || resp.Usage.Input != 7 || resp.Usage.Output != 3 {
		s.broken("got text %q, stop %q, usage %+v", resp.Text(), resp.Stop, resp.Usage)
	}
}

func sameStreamed(s *callerSuite) {
	c := s.answer(Answer{Text: hello.Text, Usage: hello.Usage, Calls: []llm.ToolCall{
		{ID: "c1", Name: "look", Arguments: json.RawMessage(`{"a":[1,2]}`)},
	}})
	whole, err := c.Call(s.Context(), callerRequest())
	if err != nil {
		s.broken("whole: %v", err)
		return
	}
	var acc llm.Accumulator
	streamed, err := c.Call(s.Context(), streamedRequest(func(d llm.Delta) error {
		if d.Text == "" && d.Call == nil {
			s.broken("a delta carries nothing: %+v", d)
		}
		acc.Add(d)
		return nil
	}))
	if err != nil {
		s.broken("streamed: %v", err)
		return
	}
	added := acc.Response()
	for name, got := range map[string]*llm.Response{"the streamed Response": streamed, "the sum of the deltas": added} {
		if got.Text() != whole.Text() || !reflect.DeepEqual(got.ToolCalls(), whole.ToolCalls()) {
			s.broken("%s has %q and %s, the whole answer %q and %s", name, got.Text(), callsOf(got.ToolCalls()), whole.Text(),
				callsOf(whole.ToolCalls()))
		}
	}
	if streamed.Stop != whole.Stop || streamed.Usage != whole.Usage {
		s.broken("streamed: stop %q, usage %+v; whole: %q, %+v", streamed.Stop, streamed.Usage, whole.Stop, whole.Usage)
	}
}

// keptDeltas keeps what it is handed, and compares it after the call with what it was then.
func keptDeltas(s *callerSuite) {
	c := s.answer(Answer{Text: []string{"aaaa", "bbbb", "cccc"}, Usage: hello.Usage, Calls: []llm.ToolCall{
		{ID: "c1", Name: "look", Arguments: json.RawMessage(`{"where":"here"}`)},
		{ID: "c2", Name: "look", Arguments: json.RawMessage(`{"where":"over"}`)},
	}})
	var kept, were []llm.Delta
	resp, err := c.Call(s.Context(), streamedRequest(func(d llm.Delta) error {
		kept = append(kept, d)
		were = append(were, copyDelta(d))
		return nil
	}))
	if err != nil {
		s.broken("%v", err)
		return
	}
	var acc llm.Accumulator
	for i, d := range kept {
		if !reflect.DeepEqual(d, were[i]) {
			s.broken("delta %d was %s and became %s", i, saying(were[i]), saying(d))
		}
		acc.Add(d)
	}
	if sum := acc.Response(); sum.Text() != resp.Text() || !reflect.DeepEqual(sum.ToolCalls(), resp.ToolCalls()) {
		s.broken("the deltas that were kept add up to %q and %d calls, the Response has %q and %d", sum.Text(), len(sum.ToolCalls()),
			resp.Text(), len(resp.ToolCalls()))
	}
}

func toolCalls(s *callerSuite) {
	want := []llm.ToolCall{
		{ID: "c1", Name: "look", Arguments: json.RawMessage(`{"where":"here"}`)},
		{ID: "c2", Name: "look", Arguments: json.RawMessage(`{}`)},
	}
	c := s.answer(Answer{Calls: want})
	for _, req := range []*llm.Request{callerRequest(), streamedRequest(func(llm.Delta) error { return nil })} {
		resp, err := c.Call(s.Context(), req)
		if err != nil {
			s.broken("%v", err)
			continue
		}
		got := resp.ToolCalls()
		if len(got) != 2 || resp.Stop != llm.StopToolCalls {
			s.broken("got %d calls and stop %q", len(got), resp.Stop)
			continue
		}
		for i := range got {
			if got[i].Name != want[i].Name || !sameJSON(got[i].Arguments, want[i].Arguments) {
				s.broken("call %d is %+v, want %+v", i, got[i], want[i])
			}
		}
	}
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func requestUntouched(s *callerSuite) {
	c := s.answer(hello)
	req, before := callerRequest(), callerRequest()
	if _, err := c.Call(s.Context(), req); err != nil {
		s.broken("%v", err)
	}
	if d := changed(req, before); d != "" {
		s.broken("the request of the caller: %s", d)
	}
}

func sinkFails(s *callerSuite) {
	full := errors.New("the disk is full")
	closed := make(chan struct{})
	c := s.serve(func(w http.ResponseWriter, r *http.Request) {
		defer close(closed)
		s.wire.Serve(w, r, Answer{Text: hello.Text, After: func(i int) {
			if i == 0 {
				<-r.Context().Done() // the adapter must hang up, not drain
			}
		}})
	})
	n := 0
	resp, err := c.Call(s.Context(), streamedRequest(func(llm.Delta) error { n++; return full }))
	if resp != nil || !errors.Is(err, full) {
		s.broken("got %s, %v", answerOf(resp), err)
	}
	if n != 1 {
		s.broken("the sink was called %d times after it failed", n-1)
	}
	<-closed
}

func sameGoroutine(s *callerSuite) {
	rec := &Recorder{}
	if _, err := rec.Call(s.Context(), s.answer(hello), callerRequest()); err != nil {
		s.broken("%v", err)
	}
	if len(rec.Deltas()) == 0 {
		s.broken("the sink was not called")
	}
	for _, f := range rec.Faults() {
		s.broken("%s", f)
	}
}

// cancelAt cancels a streamed call once piece at was flushed; -2 is before the headers.
func cancelAt(at int) func(*callerSuite) {
	return func(s *callerSuite) {
		reached, closed := make(chan struct{}), make(chan struct{})
		c := s.serve(func(w http.ResponseWriter, r *http.Request) {
			defer close(closed)
			hold := func() {
				close(reached)
				<-r.Context().Done()
				panic(http.ErrAbortHandler)
			}
			if at == -2 {
				drain(r)
				hold()
			}
			s.wire.Serve(w, r, Answer{Text: hello.Text, After: func(i int) {
				if i == at {
					hold()
				}
			}})
		})
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		go func() {
			<-reached
			cancel()
		}()
		resp, err := c.Call(ctx, streamedRequest(func(llm.Delta) error { return nil }))
		if resp != nil || !errors.Is(err, context.Canceled) || llm.ClassOf(err) != llm.Canceled {
			s.broken("got %s, %v of class %v", answerOf(resp), err, llm.ClassOf(err))
		}
		<-closed
	}
}

// drain reads the body, without which the server does not notice that the client hung up.
func drain(r *http.Request) {
	buf := make([]byte, 4096)
	for {
		if _, err := r.Body.Read(buf); err != nil {
			return
		}
	}
}

func canceledBefore(s *callerSuite) {
	var calls atomic.Int32
	c := s.serve(func(w http.ResponseWriter, r *http.Request) { calls.Add(1); s.wire.Serve(w, r, hello) })
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if resp, err := c.Call(ctx, callerRequest()); resp != nil || !errors.Is(err, context.Canceled) {
		s.broken("got %s, %v", answerOf(resp), err)
	}
	if calls.Load() != 0 {
		s.broken("the provider was called")
	}
}

func cutStream(s *callerSuite) {
	s.interrupted(s.answer(Answer{Text: hello.Text, After: func(i int) {
		if i == 1 {
			panic(http.ErrAbortHandler)
		}
	}}), "Hello, ")
}

func noEnd(s *callerSuite) { s.interrupted(s.answer(Answer{Text: hello.Text, NoEnd: true}), helloText) }

func (s *callerSuite) interrupted(c llm.Caller, want string) {
	got := ""
	resp, err := c.Call(s.Context(), streamedRequest(func(d llm.Delta) error { got += d.Text; return nil }))
	if resp != nil || llm.ClassOf(err) != llm.Interrupted {
		s.broken("got %s, %v of class %v", answerOf(resp), err, llm.ClassOf(err))
		return
	}
	e := llm.AsError(err)
	if got != want || e.Partial.Text() != want || e.Commit != llm.Committed || e.Evidence.Phase != llm.PhaseStream {
		s.broken("the sink got %q, Partial has %q, commit %v, phase %v; want %q",
			got, e.Partial.Text(), e.Commit, e.Evidence.Phase, want)
	}
}

func cutBeforeOutput(s *callerSuite) {
	c := s.answer(Answer{Text: hello.Text, After: func(i int) {
		if i == -1 {
			panic(http.ErrAbortHandler)
		}
	}})
	resp, err := c.Call(s.Context(), streamedRequest(func(llm.Delta) error { s.broken("a delta came"); return nil }))
	if c := llm.ClassOf(err); resp != nil || c != llm.Interrupted && c != llm.Unavailable {
		s.broken("got %s, %v of class %v", answerOf(resp), err, c)
		return
	}
	if e := llm.AsError(err); e.Partial != nil {
		s.broken("Partial is %+v although nothing was received", e.Partial)
	}
}

func garbage(s *callerSuite) {
	got := ""
	resp, err := s.answer(Answer{Text: hello.Text, Garbage: 1}).Call(s.Context(),
		streamedRequest(func(d llm.Delta) error { got += d.Text; return nil }))
	switch {
	case err == nil && (resp.Text() != helloText || got != helloText):
		s.broken("the answer %q was sold as whole", got)
	case err != nil && llm.ClassOf(err) != llm.Interrupted && llm.ClassOf(err) != llm.BadOutput:
		s.broken("%v of class %v", err, llm.ClassOf(err))
	}
}

// rawBody answers 200 with a body that is not the provider's.
func rawBody(body string, stream bool) func(*callerSuite) {
	return func(s *callerSuite) {
		c := s.serve(func(w http.ResponseWriter, r *http.Request) {
			drain(r)
			mime := "text/html"
			if body == "" {
				mime = "application/json"
				if stream {
					mime = s.wire.Event
				}
			}
			w.Header().Set("Content-Type", mime)
			_, _ = fmt.Fprint(w, body)
		})
		req := callerRequest()
		if stream {
			req = streamedRequest(func(llm.Delta) error { s.broken("a delta came"); return nil })
		}
		// What is left to the Deployment, an answer without content, counts as a failure too.
		resp, err := (&llm.Deployment{Name: "d", Caller: c}).Call(s.Context(), req)
		if resp != nil || err == nil {
			s.broken("got %s, %v", answerOf(resp), err)
			return
		}
		switch c := llm.ClassOf(err); c {
		case llm.BadOutput, llm.Unavailable, llm.Interrupted:
		default:
			s.broken("%v of class %v, want one that is tried again or elsewhere", err, c)
		}
	}
}

func serverError(s *callerSuite) {
	c := s.serve(func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = fmt.Fprint(w, "upstream connect error")
	})
	for _, req := range []*llm.Request{callerRequest(), streamedRequest(func(llm.Delta) error { return nil })} {
		_, err := c.Call(s.Context(), req)
		e := llm.AsError(err)
		if e.Class != llm.Unavailable || e.Evidence.Status != http.StatusBadGateway || e.Evidence.Body != "upstream connect error" {
			s.broken("class %v, status %d, body %q (%v)", e.Class, e.Evidence.Status, e.Evidence.Body, err)
		}
	}
}

func nobodyListens(s *callerSuite) {
	server := httptest.NewServer(http.NotFoundHandler())
	c := s.wire.New(s.T, server.URL)
	server.Close()
	_, err := c.Call(s.Context(), callerRequest())
	if e := llm.AsError(err); e.Class != llm.Unavailable || e.Commit != llm.CommitNone {
		s.broken("class %v, commit %v (%v)", e.Class, e.Commit, err)
	}
}

func concurrentCalls(s *callerSuite) {
	c := s.answer(hello)
	req := callerRequest()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			resp, err := c.Call(s.Context(), req)
			if err != nil || resp.Text() != helloText {
				s.broken("got %s, %v", answerOf(resp), err)
			}
			got := ""
			_, err = c.Call(s.Context(), streamedRequest(func(d llm.Delta) error { got += d.Text; return nil }))
			if err != nil || got != helloText {
				s.broken("streamed: got %q, %v", got, err)
			}
		})
	}
	wg.Wait()
}
