package llmtest

import (
	"context"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/modelchain/llm"
)

// run is one call that a Model follows its script with.
type run struct {
	m    *Model
	ctx  context.Context //nolint:containedctx // a run is its call
	req  *llm.Request
	step Step
	n    int // the call's place in the Model's record

	buf  []byte            // of texts that are written over
	call llm.ToolCallDelta // the same for calls
}

func (r *run) enter() {
	c := Call{At: time.Now(), Request: r.req.Detach()}
	c.Deadline, _ = r.ctx.Deadline()
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.n = len(r.m.calls)
	r.step = r.m.steps[min(r.n, len(r.m.steps)-1)]
	r.m.calls = append(r.m.calls, c)
}

func (r *run) leave(err error) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.m.calls[r.n].End, r.m.calls[r.n].Err = time.Now(), err
}

// asked is the request with a sink that notes what it takes.
func (r *run) asked() *llm.Request {
	if r.req.Sink == nil {
		return r.req
	}
	counted := r.req.Clone()
	counted.Sink = r.hand
	return counted
}

func (r *run) hand(d llm.Delta) error {
	r.m.mu.Lock()
	if c := &r.m.calls[r.n]; c.Output.IsZero() {
		c.Output = time.Now()
	}
	r.m.mu.Unlock()
	err := r.req.Sink(d)
	if err == nil {
		r.m.mu.Lock()
		r.m.calls[r.n].Handed++
		r.m.mu.Unlock()
	}
	return err
}

func (r *run) do() (*llm.Response, error) {
	if err := r.pause(r.step.Delay); err != nil {
		return nil, err
	}
	if r.step.Func != nil {
		return r.step.Func(r.ctx, r.asked())
	}
	if r.step.Misuse == WrittenRequest {
		r.req.Model = "written"
		if len(r.req.Messages) > 0 && len(r.req.Messages[0].Parts) > 0 {
			r.req.Messages[0].Parts[0].Text = "written"
		}
	}
	if r.req.Sink != nil {
		for i, d := range r.step.Deltas {
			if i > 0 {
				if err := r.pause(r.step.Gap); err != nil {
					return nil, err
				}
			}
			if err := r.emit(d); err != nil {
				return nil, err
			}
		}
	}
	return r.end()
}

func (r *run) end() (*llm.Response, error) {
	s := &r.step
	switch {
	case s.Panic != nil:
		panic(s.Panic)
	case s.Exit:
		runtime.Goexit()
	case s.Hang:
		r.hang()
		return nil, context.Cause(r.ctx)
	case s.Err != nil:
		return nil, s.Err
	}
	resp := s.answer()
	if s.Deltas == nil && r.req.Sink != nil {
		if err := llm.EmitWhole(&llm.Request{Sink: r.emit}, resp); err != nil {
			return nil, err
		}
	}
	switch s.Misuse {
	case LateSink:
		r.handLate()
	case NoResult:
		return nil, nil //nolint:nilnil // what the step is for
	case BothResults:
		return resp, llm.Unavailable
	}
	return resp, nil
}

// emit hands d out, in the way of the step's Misuse.
func (r *run) emit(d llm.Delta) (err error) {
	switch r.step.Misuse {
	case DeafSink:
		_ = r.hand(d) // what the step is for
		return nil
	case ForeignSink:
		done := make(chan struct{})
		go func() {
			defer close(done)
			err = r.hand(d)
		}()
		<-done
		return err
	case ReusedDeltas:
		d = r.reused(d)
	}
	return r.hand(d)
}

// reused is d in memory that the next one is written to as well.
func (r *run) reused(d llm.Delta) llm.Delta {
	if r.buf == nil {
		r.buf = []byte(strings.Repeat(" ", 1<<10))
	}
	if n := copy(r.buf, d.Text); n > 0 && n == len(d.Text) {
		d.Text = unsafe.String(&r.buf[0], n)
	}
	if d.Call != nil {
		r.call = *d.Call
		d.Call = &r.call
	}
	return d
}

func (r *run) handLate() {
	if r.req.Sink == nil {
		return
	}
	r.m.mu.Lock()
	released := r.m.wait()
	r.m.mu.Unlock()
	r.m.late.Go(func() {
		<-released
		_ = r.hand(llm.Delta{Text: "late"}) // nobody is there any more
	})
}

func (r *run) hang() {
	if !r.step.Deaf {
		<-r.ctx.Done()
		return
	}
	r.m.mu.Lock()
	released := r.m.wait()
	r.m.mu.Unlock()
	<-released
}

// pause lets d pass, and fails where the context ends before.
func (r *run) pause(d time.Duration) error {
	if r.step.Deaf {
		return wait(context.WithoutCancel(r.ctx), d)
	}
	return wait(r.ctx, d)
}

func (s *Step) answer() *llm.Response {
	switch {
	case s.Response != nil:
		return s.Response.Clone()
	case s.Text != "":
		return textResponse(s.Text)
	case s.Deltas != nil:
		resp := sumOf(s.Deltas)
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
