// Package llmtest is to package llm what httptest is to net/http: models that answer by a script, for tests of chains and
// stages. Delays run on the clock of testing/synctest when a test is in its bubble.
package llmtest

import (
	"context"
	"sync"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
)

// A Step is what a scripted model does with one request: it waits Delay, hands out Deltas (when the request has a sink),
// and ends with the first of Panic, Hang, Err and the answer that is set. The zero Step answers "ok".
type Step struct {
	// Delay passes before anything else, Gap before each delta after the first.
	Delay, Gap time.Duration
	// Deltas are handed to the sink. nil: those of the answer.
	Deltas []llm.Delta
	// Panic is what the model panics with.
	Panic any
	// Hang keeps the call open until its context ends.
	Hang bool
	// Err is the failure: an llm.Class, an *llm.Error or any other.
	Err error
	// Response is the answer; Text one of a single text. Each call gets its own copy.
	Response *llm.Response
	Text     string
	// Func runs instead of all the rest, apart from Delay.
	Func llm.CallerFunc
}

// Text is a step that answers text.
func Text(text string) Step { return Step{Text: text} }

// Fail is a step that fails with err.
func Fail(err error) Step { return Step{Err: err} }

// A Model is a Caller that follows a script and records what it was asked.
type Model struct {
	steps []Step
	mu    sync.Mutex
	calls []Call
}

// A Call is one request that a Model received.
type Call struct {
	At      time.Time
	Request *llm.Request
}

// Script is a Model that does one step a call and repeats the last one for ever. Without steps it answers "ok".
func Script(steps ...Step) *Model {
	if len(steps) == 0 {
		steps = []Step{{}}
	}
	return &Model{steps: steps}
}

// Calls lists the calls received so far.
func (m *Model) Calls() []Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Call(nil), m.calls...)
}

// Count is the number of calls received so far.
func (m *Model) Count() int { return len(m.Calls()) }

// Call does the next step.
func (m *Model) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil {
		return nil, &llm.Error{Class: llm.Invalid, Owner: llm.OwnerRequest, Message: "the request is nil"}
	}
	m.mu.Lock()
	s := m.steps[min(len(m.calls), len(m.steps)-1)]
	m.calls = append(m.calls, Call{time.Now(), req.Clone()})
	m.mu.Unlock()
	if err := wait(ctx, s.Delay); err != nil {
		return nil, err
	}
	if s.Func != nil {
		return s.Func(ctx, req)
	}
	if req.Sink != nil {
		for i, d := range s.Deltas {
			if i > 0 {
				if err := wait(ctx, s.Gap); err != nil {
					return nil, err
				}
			}
			if err := req.Sink(d); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case s.Panic != nil:
		panic(s.Panic)
	case s.Hang:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case s.Err != nil:
		return nil, s.Err
	}
	resp := s.answer()
	if s.Deltas == nil {
		if err := llm.EmitWhole(req, resp); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

func (s *Step) answer() *llm.Response {
	switch {
	case s.Response != nil:
		resp := *s.Response
		return &resp
	case s.Text != "":
		return textResponse(s.Text)
	case s.Deltas != nil:
		var acc llm.Accumulator
		for _, d := range s.Deltas {
			acc.Add(d)
		}
		resp := acc.Response()
		resp.Stop = llm.StopEnd
		return resp
	}
	return textResponse("ok")
}

func textResponse(text string) *llm.Response {
	return &llm.Response{Parts: []llm.Part{llm.Text(text)}, Stop: llm.StopEnd}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Advance lets d pass in the bubble of testing/synctest that it is called in, and then everything that became ready settle.
func Advance(d time.Duration) {
	<-time.NewTimer(d).C
	synctest.Wait()
}
