// Package llmtest is to package llm what httptest is to net/http: models that answer, fail, hang and misbehave by a script
// and record what they are asked ([Script]), sentences to expect of them ([Expect]), a sink that sees what breaks its contract
// ([Recorder]), stages to swap in ([Pass], [Faults]), and suites that hold an adapter ([TestCaller]) or a stage ([TestStage])
// to everything they must keep. Delays run on the clock of testing/synctest when a test is in its bubble.
package llmtest

import (
	"context"
	"fmt"
	"sync"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/classify"
)

// A Step is what a scripted model does with one request: it waits Delay, hands out Deltas (when the request has a sink),
// and ends with the first of Panic, Exit, Hang, Err and the answer that is set. The zero Step answers "ok".
type Step struct {
	// Delay passes before anything else, Gap before each delta after the first.
	Delay, Gap time.Duration
	// Deltas are handed to the sink. nil: those of the answer.
	Deltas []llm.Delta
	// Panic is what the model panics with.
	Panic any
	// Exit ends the goroutine of the call with runtime.Goexit.
	Exit bool
	// Hang keeps the call open until its context ends.
	Hang bool
	// Deaf makes Delay, Gap and Hang go on when the context has ended. Then Hang ends with [Model.Release], and fails as the
	// context does.
	Deaf bool
	// Err is the failure: an llm.Class, an *llm.Error or any other.
	Err error
	// Response is the answer; Text one of a single text. Each call gets its own copy.
	Response *llm.Response
	Text     string
	// Func runs instead of all the rest, apart from Delay.
	Func llm.CallerFunc
	// Misuse breaks the contract of llm.Caller on purpose.
	Misuse Misuse
}

// Misuse is a way in which a scripted model breaks the contract of llm.Caller, for tests of what is to bear or to find it.
type Misuse uint8

// The misuses.
const (
	NoMisuse       Misuse = iota
	LateSink              // one delta more is handed out after Call has returned: by Model.Release
	ForeignSink           // deltas are handed out from another goroutine
	DeafSink              // the sink's errors are passed over
	ReusedDeltas          // the memory of each text and tool call is written to for the next one
	WrittenRequest        // the request and its first message are written to
	NoResult              // neither answer nor error
	BothResults           // an answer and an error
)

// String is the misuse in words.
func (m Misuse) String() string {
	switch m {
	case NoMisuse:
		return "no misuse"
	case LateSink:
		return "late sink"
	case ForeignSink:
		return "foreign sink"
	case DeafSink:
		return "deaf sink"
	case ReusedDeltas:
		return "reused deltas"
	case WrittenRequest:
		return "written request"
	case NoResult:
		return "no result"
	case BothResults:
		return "both results"
	}
	return fmt.Sprintf("misuse(%d)", uint8(m))
}

// Text is a step that answers text.
func Text(text string) Step { return Step{Text: text} }

// Fail is a step that fails with err.
func Fail(err error) Step { return Step{Err: err} }

// FailWith is a step that fails as a provider's answer does: ev is what it sent, and package classify says what class it is
// of. provider is its name in the GenAI conventions; "" is held against the general rules alone.
//
//	llmtest.FailWith(llm.Evidence{Status: 429, Code: "insufficient_quota"}, "openai") // of class Quota
func FailWith(ev llm.Evidence, provider string) Step {
	return Step{Err: classify.Error(&llm.Error{Provider: provider, Evidence: ev})}
}

// A Model is a Caller that follows a script and records what it was asked.
type Model struct {
	steps []Step

	mu       sync.Mutex
	calls    []Call
	released chan struct{} // made in the bubble where it is waited for
	open     bool          // released is closed
	late     sync.WaitGroup
}

// A Call is one request that a Model received.
type Call struct {
	// At is when it came, End when the model was done with it. A zero End: it is under way.
	At, End time.Time
	// Deadline is that of its context. Zero: none.
	Deadline time.Time
	// Request is a copy, down to the bytes of its parts, of what came in.
	Request *llm.Request
	// Handed is the number of deltas that the sink took. Output is when it was given the first; zero: it was given none.
	Handed int
	Output time.Time
	// Err is what the call failed with. nil: it was answered, it panicked, or it is under way.
	Err error
}

// Script is a Model that does one step a call and repeats the last one for ever. Without steps it answers "ok".
func Script(steps ...Step) *Model {
	if len(steps) == 0 {
		steps = []Step{{}}
	}
	return &Model{steps: steps}
}

// Calls lists the calls received so far, in the order they came.
func (m *Model) Calls() []Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Call(nil), m.calls...)
}

// Count is the number of calls received so far.
func (m *Model) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.calls)
}

// Release ends the calls that hang and are deaf, has late deltas handed out, and returns when they are.
func (m *Model) Release() {
	m.mu.Lock()
	if c := m.wait(); !m.open {
		m.open = true
		close(c)
	}
	m.mu.Unlock()
	m.late.Wait()
}

// wait is what is closed by Release. m.mu is held.
func (m *Model) wait() chan struct{} {
	if m.released == nil {
		m.released = make(chan struct{})
	}
	return m.released
}

// Call does the next step.
func (m *Model) Call(ctx context.Context, req *llm.Request) (resp *llm.Response, err error) {
	if req == nil {
		return nil, &llm.Error{Class: llm.Invalid, Owner: llm.OwnerRequest, Message: "the request is nil"}
	}
	r := &run{m: m, ctx: ctx, req: req}
	r.enter()
	defer func() { r.leave(err) }()
	return r.do()
}

// Advance lets d pass in the bubble of testing/synctest that it is called in, and then everything that became ready settle.
func Advance(d time.Duration) {
	<-time.NewTimer(d).C
	synctest.Wait()
}
