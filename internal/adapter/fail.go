package adapter

import (
	"context"
	"errors"
	"fmt"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/classify"
)

// Invalid is the error of a request that no provider could take.
func Invalid(format string, args ...any) *llm.Error {
	return &llm.Error{Class: llm.Invalid, Message: fmt.Sprintf(format, args...)}
}

// Unsupported is the error of a request that this API cannot take.
func Unsupported(format string, args ...any) *llm.Error {
	return &llm.Error{Class: llm.Unsupported, Message: fmt.Sprintf(format, args...)}
}

// Fail is e with everything that is known of the call, classified and without keys. A context that has ended decides.
func (c *Call) Fail(e *llm.Error) error {
	return c.complete(e, func() *llm.Error { return classify.Err(c.Ctx, e) })
}

// Unsent is Fail for what ended the call before a request was made.
func (c *Call) Unsent(e *llm.Error) error {
	return c.complete(e, func() *llm.Error { return classify.Error(e) })
}

// SinkFailed is the error of a call that ended because the sink, which returned err, did not want more. It was
// handed what it refused, so the answer had begun.
func (c *Call) SinkFailed(err error) error {
	c.sinkFailed = true
	e := &llm.Error{Class: llm.Canceled, Commit: llm.Committed, Message: "the sink failed", Err: err}
	return c.complete(e, func() *llm.Error { return classify.Error(e) })
}

func (c *Call) complete(e *llm.Error, classified func() *llm.Error) error {
	if _, ok := errors.AsType[*llm.PanicError](e.Err); ok && e.Class == llm.Unknown { // of the transport
		e.Class, e.Commit, e.Message = llm.BadOutput, max(e.Commit, llm.CommitUnknown), "the HTTP client's transport panicked"
	}
	e.Provider, e.Model = c.Provider, c.Model
	ev := &e.Evidence
	ev.Status, ev.Header = c.Status, c.Header
	FillIn(&ev.Code, c.Code)
	if ev.Phase == llm.PhaseUnknown {
		ev.Phase = c.Phase
	}
	if ev.Phase == llm.PhaseUnknown && c.x != nil {
		ev.Phase = c.x.Phase()
	}
	e.Usage, e.RequestID = c.API.Usage(), c.API.RequestID()
	if e.Partial = c.API.Partial(); e.Partial != nil {
		ev.Partial = true
		c.account(e.Partial)
	}
	if c.Ctx.Err() != nil && c.Status >= 200 && c.Status < 300 { // it had begun to answer
		e.Commit = max(e.Commit, llm.CommitUnknown)
	}
	out := c.concealed(e, c.Secrets, classified)
	if out.Evidence.Phase == llm.PhaseUnknown && c.x != nil {
		out.Evidence.Phase = llm.PhaseSend // a transport that cannot be watched: it may have been sent
	}
	return out
}

// AsError is err, which a call of an SDK's client returned under ctx, as an *llm.Error with its class. nil stays nil, and so
// does what is one of this account's already. From the SDK's own errors the adapter's read takes the evidence, and puts a
// short one in the place of those that repeat it.
func (a *Account) AsError(ctx context.Context, err error, read func(e *llm.Error)) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*llm.Error](err); ok && e.Provider != "" {
		return e
	}
	e := &llm.Error{Err: Plain(err)}
	read(e)
	return a.Classified(ctx, e)
}

// Classified is e, which ended a call of an SDK's client under ctx, with its class and without keys.
func (a *Account) Classified(ctx context.Context, e *llm.Error) *llm.Error {
	e.Provider = a.Provider
	return a.concealed(e, a.recent.all(), func() *llm.Error { return classify.Err(ctx, e) })
}
