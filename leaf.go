package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"time"
)

// leafCall is one attempt as seen from the model's side: it knows what was handed out, and whether the sink is to blame.
type leafCall struct {
	d   *Deployment
	a   *Attempt
	req *Request // what Caller is given
	tap *sinkTap // nil: nobody streams

	whole *Response // the answer as it came, of use or not
}

// sinkTap is the sink that a model is given.
type sinkTap struct {
	Request
	a      *Attempt
	next   Sink
	n      int
	bytes  int // of what the deltas carry
	inside bool
	err    error

	look    int           // the next delta whose reading is timed, or the one after which the sink failed
	from    int           // the last one that was
	began   time.Duration // when its reading did, counted from the attempt's start
	stride  int           // how many deltas lie between two that are
	stands  int           // how many the last one stands for
	reading time.Duration // what they took
}

func (s *sinkTap) sink(d Delta) error {
	seldom := s.n == s.look
	if seldom && s.begin() {
		return s.err
	}
	s.n++
	s.bytes += len(d.Text)
	if d.Call != nil {
		s.bytes += len(d.Call.Name) + len(d.Call.Arguments)
	}
	s.inside = true
	err := s.next(d)
	s.inside = false
	if err != nil {
		s.err, s.look = err, s.n
	}
	if seldom {
		s.end()
	}
	return err
}

// begin is for the deltas whose reading is timed: each one while they come as slowly as models write, and fewer of those that
// come faster, since a look at the clock costs more than all else that is done with one. And it is for those that come
// although the sink has failed, which it reports.
func (s *sinkTap) begin() (failed bool) {
	if s.err != nil {
		return true
	}
	const slow = 20 * time.Microsecond
	now := time.Since(s.a.Start)
	switch {
	case s.n == 0:
		s.a.FirstDelta, s.stride = now, 1
	case now-s.began > time.Duration(s.n-s.from)*slow:
		s.stride = 1
	default:
		s.stride = min(2*s.stride, 64)
	}
	s.stands = max(s.n-s.from, 1)
	s.from, s.began, s.look = s.n, now, s.n+s.stride
	return false
}

// end adds what the reader took. A pause that it made once does not stand for others.
func (s *sinkTap) end() {
	took := time.Since(s.a.Start) - s.began
	if took < time.Millisecond {
		took *= time.Duration(s.stands)
	}
	s.reading += took
}

// read is about how long the reader had, in milliseconds.
func (s *sinkTap) read() uint32 {
	if s == nil {
		return 0
	}
	return uint32(min(s.reading.Milliseconds(), math.MaxUint32))
}

// handed is the number of deltas that reached the sink.
func (l *leafCall) handed() int {
	if l.tap == nil {
		return 0
	}
	return l.tap.n
}

// output is how many bytes of the answer came, if used does not tell. part is what there is of it, or nil.
func (l *leafCall) output(used *Usage, part *Response) uint32 {
	if used.Output > 0 {
		return 0
	}
	n := max(bytesOf(l.whole), bytesOf(part))
	if l.tap != nil {
		n = max(n, l.tap.bytes)
	}
	return uint32(min(n, math.MaxInt32))
}

// bytesOf is how many bytes the model wrote for r.
func bytesOf(r *Response) int {
	if r == nil {
		return 0
	}
	n := len(r.Refusal)
	for i := range r.Parts {
		p := &r.Parts[i]
		if n += len(p.Text); p.Call != nil {
			n += len(p.Call.Name) + len(p.Call.Arguments)
		}
	}
	return n
}

func (l *leafCall) sinkErr() error {
	if l.tap == nil {
		return nil
	}
	return l.tap.err
}

// prepare makes the request that Caller is given. It is always a copy: a Caller that breaks the contract and writes to it
// must not change what the next deployment is sent.
func (l *leafCall) prepare() {
	r := l.req
	switch {
	case r.Sink != nil:
		l.tap = &sinkTap{Request: *r, a: l.a, next: r.Sink}
		if l.tap.Sink = l.tap.sink; l.d.Has != 0 && l.d.Has&CanStream == 0 {
			l.tap.Sink = nil
		}
		l.req = &l.tap.Request
	default:
		l.req = r.Clone()
	}
	l.req.Model = l.a.Model
}

func (l *leafCall) call(ctx context.Context) (resp *Response, err error) {
	l.prepare()
	defer func() {
		if v := recover(); v != nil {
			if l.tap != nil && l.tap.inside {
				panic(v)
			}
			resp, err = nil, &Error{
				Class: BadOutput, Commit: CommitUnknown, Message: "the model's Caller panicked", Err: &PanicError{v, debug.Stack()},
			}
		}
	}()
	resp, err = l.d.Caller.Call(ctx, l.req)
	if e, ok := err.(*Error); ok && e == nil { //nolint:errorlint // the nil pointer itself
		return nil, &Error{Class: BadOutput, Commit: CommitUnknown, Message: "the model's Caller returned a nil *llm.Error"}
	}
	l.whole = resp
	switch {
	case err != nil:
		return nil, err
	case l.sinkErr() != nil:
		return nil, l.sinkErr()
	case resp == nil:
		return nil, &Error{Class: BadOutput, Commit: CommitUnknown, Message: "the model's Caller returned neither answer nor error"}
	}
	if l.req.scope.extras().do == nil {
		if err := usable(resp, l.req); err != nil {
			return nil, err
		}
	}
	if l.tap != nil && l.tap.n == 0 { // a Caller that knows no streams
		if err := l.emit(ctx, resp); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// emit hands out an answer that came in one piece, while the call has time: its reader may be slow.
func (l *leafCall) emit(ctx context.Context, resp *Response) error {
	return EmitWhole(&Request{Sink: func(d Delta) error {
		if l.tap.n > 0 && ctx.Err() != nil {
			return &Error{
				RequestID: resp.RequestID, Usage: resp.Usage, Evidence: Evidence{Status: resp.Status}, Err: context.Cause(ctx),
			}
		}
		return l.tap.sink(d)
	}}, resp)
}

// usable says what is wrong with an answer that came back whole.
func usable(resp *Response, req *Request) error {
	bad := func(message string) error {
		return &Error{
			Class: BadOutput, Commit: Committed, RequestID: resp.RequestID, Usage: resp.Usage,
			Evidence: Evidence{Status: resp.Status}, Message: message,
		}
	}
	content := resp.Refused() || resp.Stop == StopLength ||
		resp.Stop == StopOther && len(resp.Parts) > 0 || // paused: its parts go back as they are, and the model goes on
		needs(req)&CanPrefill != 0 && resp.Stop == StopEnd // what it was to go on with was all there is
	for i := range resp.Parts {
		switch p := &resp.Parts[i]; p.Kind {
		case PartToolCall:
			if p.Call == nil || p.Call.Name == "" {
				return bad("the answer has a tool call without a name")
			}
			if len(p.Call.Arguments) > 0 && !json.Valid(p.Call.Arguments) {
				return bad(fmt.Sprintf("the arguments of the tool call %q are not complete JSON", p.Call.Name))
			}
			content = true
		case PartText:
			content = content || strings.TrimSpace(p.Text) != ""
		case PartReasoning:
		default:
			content = true
		}
	}
	if !content {
		return bad("the answer is empty")
	}
	return nil
}

// failed is err as the error of this attempt, whose gates were these.
func (l *leafCall) failed(ctx context.Context, gates *gateNode, err error) *Error {
	e := *l.classified(ctx, gates, err)
	switch e.Class {
	case Timeout, Stalled, Interrupted: // of an error that does not say how far it got
		if e.Commit == CommitNone && e.Evidence.Phase != PhaseConnect {
			e.Commit = CommitUnknown
		}
	}
	if l.handed() > 0 {
		if e.Partial == nil {
			e.Partial = &Response{}
		}
		e.Commit = Committed
		switch e.Class {
		case Interrupted, Stalled, BadOutput, Refused, Canceled, Exhausted:
		default: // with part of the answer out, what broke the stream is a cause
			cause := e
			cause.Partial = nil
			e.Class, e.Owner, e.Message, e.Err = Interrupted, OwnerTransient, "the stream broke", &cause
		}
	}
	return l.d.own(&e)
}

// classified may return err's own *Error, which must not be written to.
func (l *leafCall) classified(ctx context.Context, gates *gateNode, err error) *Error {
	if sinkErr := l.sinkErr(); sinkErr != nil {
		if limit := LimitOf(ctx); limit != nil && errors.Is(sinkErr, limit) { // a stage's sink that only says so
			return ContextError(ctx, err)
		}
		e := CopyError(err)
		e.Class, e.Owner, e.Message, e.Err = Canceled, OwnerUnknown, "the sink failed", sinkErr
		return e
	}
	if e := ContextError(ctx, err); e != nil {
		return e
	}
	e, known := verdict(ctx, l.d, gates, err), true
	if e == nil {
		e = CopyError(err)
		_, known = errors.AsType[*Error](err)
	}
	// The caller is still there, so a context that has ended was the model's own, or that of a proxy on the way.
	switch {
	case e.Class == Canceled && e.Evidence.Status != 0:
		e.Class, e.Owner, e.Commit = Unavailable, OwnerTransient, max(e.Commit, CommitUnknown)
	case e.Class == Canceled || e.Class == Exhausted && !known:
		e.Class = Unknown
	}
	return e
}

// verdict is err as the newest gate that has a say in its class has it. nil: none has.
func verdict(ctx context.Context, d *Deployment, gates *gateNode, err error) *Error {
	for n := gates; n != nil; n = n.next {
		if c, ok := n.gate.(Classifier); ok {
			if e := c.Classify(ctx, d, err); e != nil {
				return e
			}
		}
	}
	return nil
}
