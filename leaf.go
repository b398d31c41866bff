package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// leafCall is one attempt as seen from the model's side: it knows what was handed out, and whether the sink is to blame.
type leafCall struct {
	Request
	d       *Deployment
	row     Attempt
	req     *Request // as received: what Caller is given where nothing needs to change
	out     Sink
	n       int
	inSink  bool
	sinkErr error
}

func newLeafCall(d *Deployment, r *Request) *leafCall {
	l := &leafCall{d: d, req: r}
	l.row = Attempt{Deployment: d.Name, Provider: d.Provider, Model: d.model(r), Start: time.Now()}
	if r.Sink == nil && (d.Model == "" || d.Model == r.Model) {
		return l
	}
	l.Request = *r
	l.Request.Model = l.row.Model
	if r.Sink != nil {
		l.out = r.Sink
		l.Request.Sink = l.sink
	}
	l.req = &l.Request
	return l
}

func (l *leafCall) sink(d Delta) error {
	if l.sinkErr != nil {
		return l.sinkErr
	}
	if l.n == 0 {
		l.row.FirstDelta = time.Since(l.row.Start)
	}
	l.n++
	l.inSink = true
	err := l.out(d)
	l.inSink = false
	l.sinkErr = err
	return err
}

func (l *leafCall) call(ctx context.Context) (resp *Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			if l.inSink {
				panic(v)
			}
			resp, err = nil, &Error{
				Class: BadOutput, Commit: CommitUnknown, Message: "the model's Caller panicked", Err: &PanicError{v, debug.Stack()},
			}
		}
	}()
	resp, err = l.d.Caller.Call(ctx, l.req)
	switch {
	case err != nil:
		return nil, err
	case l.sinkErr != nil:
		return nil, l.sinkErr
	case resp == nil:
		return nil, &Error{Class: BadOutput, Commit: CommitUnknown, Message: "the model's Caller returned neither answer nor error"}
	}
	if l.req.scope.call.do == nil {
		if err := usable(resp); err != nil {
			return nil, err
		}
	}
	if l.out != nil && l.n == 0 { // a Caller that knows no streams
		if err := EmitWhole(l.req, resp); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// usable says what is wrong with an answer that came back whole.
func usable(resp *Response) error {
	bad := func(message string) error {
		return &Error{
			Class: BadOutput, Commit: Committed, RequestID: resp.RequestID, Usage: resp.Usage,
			Evidence: Evidence{Status: resp.Status}, Message: message,
		}
	}
	content := resp.Refused() || resp.Stop == StopLength
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

// failed is err as the error of this attempt.
func (l *leafCall) failed(ctx context.Context, err error) *Error {
	var e Error
	switch own := ContextError(ctx, err); {
	case l.sinkErr != nil:
		e = *AsError(err)
		e.Class, e.Owner, e.Message, e.Err = Canceled, OwnerUnknown, "the sink failed", l.sinkErr
	case own != nil:
		e = *own
	case l.req.scope.classifier != nil:
		e = *l.req.scope.classifier(ctx, err)
	default:
		e = *AsError(err)
		// The caller is still there, so this is a context of the model's own.
		if e.Class == Canceled || e.Class == Exhausted && e.Err == err { //nolint:errorlint // identity: err is no *Error
			e.Class = Unknown
		}
	}
	if l.n > 0 {
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
