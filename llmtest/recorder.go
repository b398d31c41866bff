package llmtest

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/modelchain/llm"
)

// A Recorder makes streamed calls and keeps what its sink is handed. It finds what breaks the contract of a sink: deltas from
// another goroutine than that of the call, two at a time, after an error of the sink's or after the call has returned, pieces
// that carry nothing, pieces that are written to later, and pieces that do not add up to the Response.
//
// The zero value is ready, for one call. It works inside and outside of testing/synctest.
type Recorder struct {
	// Each, if not nil, is called with each delta and its number from 0, and what it returns is the sink's error.
	Each func(n int, d llm.Delta) error

	mu       sync.Mutex
	caller   string // the goroutine of the call; "": it has not begun
	returned bool
	inside   bool
	failed   error
	kept     []llm.Delta // as they were handed out
	were     []llm.Delta // copies made at that time
	resp     *llm.Response
	faults   []string
	strange  bool // a delta came from another goroutine
}

// Call calls c with req, whose sink it replaces.
func (r *Recorder) Call(ctx context.Context, c llm.Caller, req *llm.Request) (*llm.Response, error) {
	streamed := req.Clone()
	if streamed == nil {
		return c.Call(ctx, nil)
	}
	r.mu.Lock()
	r.caller = goroutine()
	r.mu.Unlock()
	defer func() { // also if it panics
		r.mu.Lock()
		defer r.mu.Unlock()
		r.returned = true
	}()
	streamed.Sink = r.sink
	resp, err := c.Call(ctx, streamed)
	if err == nil {
		r.mu.Lock()
		r.resp = resp
		r.mu.Unlock()
	}
	return resp, err
}

func (r *Recorder) sink(d llm.Delta) error {
	n, err := r.begin(d)
	if err != nil {
		return err
	}
	if r.Each != nil {
		err = r.Each(n, d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside, r.failed = false, err
	return err
}

func (r *Recorder) begin(d llm.Delta) (int, error) {
	from := goroutine()
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.kept)
	if r.returned {
		r.fault("the sink was handed delta %d after the call had returned", n)
	} else if from != r.caller {
		r.strange = true
		r.fault("the sink was handed delta %d from another goroutine than that of the call", n)
	}
	if r.inside {
		r.fault("the sink was handed delta %d while it had another", n)
	}
	if r.failed != nil {
		r.fault("the sink was handed delta %d after it had failed", n)
		return n, r.failed
	}
	switch {
	case d.Kind == llm.DeltaEnd:
		r.fault("delta %d is of kind %v, which no sink is handed", n, d.Kind)
	case isEmpty(d):
		r.fault("delta %d, of kind %v, carries nothing", n, d.Kind)
	}
	r.inside = true
	r.kept = append(r.kept, d)
	r.were = append(r.were, copyDelta(d))
	return n, nil
}

// foreign reports whether a delta came from another goroutine than that of the call.
func (r *Recorder) foreign() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.strange
}

func isEmpty(d llm.Delta) bool {
	if d.Kind == llm.DeltaToolCall {
		return d.Call == nil || *d.Call == llm.ToolCallDelta{}
	}
	return d.Text == ""
}

// fault notes what is wrong. r.mu is held.
func (r *Recorder) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// Deltas are those handed out so far, as they were then.
func (r *Recorder) Deltas() []llm.Delta {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]llm.Delta(nil), r.were...)
}

// Response is what the deltas so far add up to.
func (r *Recorder) Response() *llm.Response { return sumOf(r.Deltas()) }

// sumOf is what deltas add up to.
func sumOf(deltas []llm.Delta) *llm.Response {
	var acc llm.Accumulator
	for _, d := range deltas {
		acc.Add(d)
	}
	return acc.Response()
}

// Text is the text handed out so far.
func (r *Recorder) Text() string { return r.Response().Text() }

// ToolCalls are the tool calls handed out so far.
func (r *Recorder) ToolCalls() []*llm.ToolCall { return r.Response().ToolCalls() }

// Faults are what broke the contract so far, in a sentence each. Nil: nothing.
func (r *Recorder) Faults() []string {
	sum := r.Response()
	r.mu.Lock()
	defer r.mu.Unlock()
	faults := append([]string(nil), r.faults...)
	for i := range r.kept {
		if was, is := r.were[i], r.kept[i]; !reflect.DeepEqual(was, is) {
			faults = append(faults, fmt.Sprintf("delta %d was %s and has been written to: %s", i, saying(was), saying(is)))
		}
	}
	if r.resp == nil || len(r.were) == 0 {
		return faults
	}
	if sum.Text() != r.resp.Text() || sum.Refusal != r.resp.Refusal {
		faults = append(faults, fmt.Sprintf("the deltas add up to %q, the Response is %q", sum.Text()+sum.Refusal,
			r.resp.Text()+r.resp.Refusal))
	}
	if a, b := sum.ToolCalls(), r.resp.ToolCalls(); !sameCalls(a, b) {
		faults = append(faults, fmt.Sprintf("the deltas add up to the tool calls %s, the Response has %s", callsOf(a), callsOf(b)))
	}
	return faults
}

// Check fails the test for each of Faults.
func (r *Recorder) Check(t testing.TB) {
	t.Helper()
	for _, f := range r.Faults() {
		t.Error(f)
	}
}

func sameCalls(a, b []*llm.ToolCall) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].ID != b[i].ID || !sameJSON(a[i].Arguments, b[i].Arguments) {
			return false
		}
	}
	return true
}

func callsOf(calls []*llm.ToolCall) string {
	var texts []string
	for _, c := range calls {
		texts = append(texts, fmt.Sprintf("%s(%s)", c.Name, c.Arguments))
	}
	return "[" + strings.Join(texts, " ") + "]"
}

func saying(d llm.Delta) string {
	if d.Call != nil {
		return fmt.Sprintf("%q", d.Call.ID+d.Call.Name+d.Call.Arguments)
	}
	return fmt.Sprintf("%q", d.Text)
}

// copyDelta is d with memory of its own.
func copyDelta(d llm.Delta) llm.Delta {
	d.Text = strings.Clone(d.Text)
	if c := d.Call; c != nil {
		d.Call = &llm.ToolCallDelta{ID: strings.Clone(c.ID), Name: strings.Clone(c.Name), Arguments: strings.Clone(c.Arguments)}
	}
	return d
}

// goroutine names the one that runs: the head of its stack begins "goroutine 7 [".
func goroutine() string {
	var buf [64]byte
	name, _, _ := strings.Cut(string(buf[:runtime.Stack(buf[:], false)]), " [")
	return name
}
