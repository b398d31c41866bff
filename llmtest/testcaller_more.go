package llmtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelchain/llm"
)

func callerNilRequest(s *callerSuite) {
	c := s.answer(hello)
	defer func() {
		if v := recover(); v != nil {
			s.broken("a nil request: panic %v", v)
		}
	}()
	if resp, err := c.Call(s.Context(), nil); resp != nil || err == nil {
		s.broken("a nil request: got %s, %v", answerOf(resp), err)
	}
}

func callerFreshResponse(s *callerSuite) {
	c := s.answer(hello)
	first, err := c.Call(s.Context(), callerRequest())
	if err != nil || len(first.Parts) == 0 {
		s.broken("%s, %v", answerOf(first), err)
		return
	}
	first.Parts[0].Text = "changed"
	if second, err := c.Call(s.Context(), callerRequest()); err != nil || second == first || second.Text() != helloText {
		s.broken("the Response of one call was changed, and the next call returned it: %s, %v", answerOf(second), err)
	}
}

// oneRequest fails in ways after which clients like to try again.
func oneRequest(s *callerSuite) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, 0} {
		var n atomic.Int32
		c := s.serve(func(w http.ResponseWriter, r *http.Request) {
			n.Add(1)
			drain(r)
			if status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(status)
		})
		for _, req := range []*llm.Request{callerRequest(), streamedRequest(func(llm.Delta) error { return nil })} {
			n.Store(0)
			if resp, err := c.Call(s.Context(), req); err == nil || n.Load() != 1 {
				s.broken("status %d: %d requests, %s, %v", status, n.Load(), answerOf(resp), err)
			}
		}
	}
}

func labelsStay(s *callerSuite) {
	const secret = "label-that-stays-here"
	var sent atomic.Value
	sent.Store("")
	c := s.serve(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // of a request that this process sends
		sent.Store(r.URL.String() + fmt.Sprint(r.Header) + string(body))
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		s.wire.Serve(w, r, hello)
	})
	req := callerRequest()
	req.Labels = map[string]string{"tenant": secret}
	if _, err := c.Call(s.Context(), req); err != nil {
		s.broken("%v", err)
	}
	if what, _ := sent.Load().(string); strings.Contains(what, secret) {
		s.broken("the provider was sent the label")
	}
}

func callerDeadline(s *callerSuite) {
	closed := make(chan struct{})
	c := s.serve(func(_ http.ResponseWriter, r *http.Request) {
		defer close(closed)
		drain(r)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	})
	ctx, cancel := context.WithTimeout(s.Context(), 50*time.Millisecond)
	defer cancel()
	resp, err := c.Call(ctx, callerRequest())
	if resp != nil || !errors.Is(err, context.DeadlineExceeded) || llm.ClassOf(err) != llm.Exhausted {
		s.broken("got %s, %v of class %v", answerOf(resp), err, llm.ClassOf(err))
	}
	<-closed
}
