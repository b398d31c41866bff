package anthropic

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/classify"
	"github.com/modelchain/llm/internal/wire"
)

func invalid(format string, args ...any) *llm.Error {
	return &llm.Error{Class: llm.Invalid, Message: fmt.Sprintf(format, args...)}
}

func unsupported(format string, args ...any) *llm.Error {
	return &llm.Error{Class: llm.Unsupported, Message: fmt.Sprintf(format, args...)}
}

// fail is e with everything that is known of the call, classified.
func (c *call) fail(e *llm.Error) error {
	c.complete(e)
	out := c.m.classified(c.ctx, e, c.key)
	if out.Evidence.Phase == llm.PhaseUnknown && c.x != nil {
		out.Evidence.Phase = llm.PhaseSend // a transport that cannot be watched: it may have been sent
	}
	return out
}

// sinkFailed is the error of a call that ended because the sink did not want more.
func (c *call) sinkFailed(err error) error {
	e := &llm.Error{Class: llm.Canceled, Message: "the sink failed", Err: err}
	c.complete(e)
	e.Provider = c.m.cfg.Provider
	conceal(e, c.key)
	return classify.Error(e)
}

func (c *call) complete(e *llm.Error) {
	e.Model = c.model
	ev := &e.Evidence
	if c.resp != nil {
		ev.Status, ev.Header = c.resp.StatusCode, c.resp.Header
	}
	ev.Phase = c.phase
	if ev.Phase == llm.PhaseUnknown && c.x != nil {
		ev.Phase = c.x.Phase()
	}
	e.Partial = c.answer.partial()
	ev.Partial = e.Partial != nil
	e.Usage, e.RequestID = c.answer.tokens(), c.requestID()
}

func (m *Model) classified(ctx context.Context, e *llm.Error, key string) *llm.Error {
	e.Provider = m.cfg.Provider
	conceal(e, key)
	return classify.Err(ctx, e)
}

// plain takes the URL off an error of the HTTP client: it says nothing new and may hold a key.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// conceal takes the call's own key out of e, whatever form it has: not every gateway's keys can be told by their looks.
func conceal(e *llm.Error, key string) {
	if len(key) < 6 {
		return
	}
	ev := &e.Evidence
	for _, s := range [...]*string{&e.Message, &ev.Code, &ev.Type, &ev.Param, &ev.Message, &ev.Body} {
		*s = strings.ReplaceAll(*s, key, wire.Redacted)
	}
	cloned := false
	for name, values := range ev.Header {
		for i, v := range values {
			if !strings.Contains(v, key) {
				continue
			}
			if !cloned {
				ev.Header, cloned = ev.Header.Clone(), true
			}
			ev.Header[name][i] = strings.ReplaceAll(v, key, wire.Redacted)
		}
	}
	if e.Err != nil && strings.Contains(e.Err.Error(), key) {
		e.Err = concealed{strings.ReplaceAll(e.Err.Error(), key, wire.Redacted), e.Err}
	}
}

// concealed is an error whose text had the key in it.
type concealed struct {
	text string
	err  error
}

func (c concealed) Error() string { return c.text }
func (c concealed) Unwrap() error { return c.err }

// keyFor is the key of a call.
func (m *Model) keyFor(ctx context.Context) (string, *llm.Error) {
	if m.cfg.Key == nil {
		return m.cfg.APIKey, nil
	}
	key, err := m.cfg.Key(ctx)
	if err != nil {
		e := &llm.Error{Err: err, Message: "no key could be had", Evidence: llm.Evidence{Phase: llm.PhaseConnect}}
		if own, ok := errors.AsType[*llm.Error](err); ok {
			e.Class = own.Class
		} else if classify.Error(e).Class == llm.Unknown {
			e.Class = llm.Auth
		}
		return "", e
	}
	if !validKey(key) {
		return "", &llm.Error{Class: llm.Auth, Message: "the key has blanks or control characters in it; trim it",
			Evidence: llm.Evidence{Phase: llm.PhaseConnect}}
	}
	return key, nil
}

// AsError is err, which a call of the SDK's client returned under ctx, as an *llm.Error with its class and the evidence that
// the SDK kept. nil stays nil.
func (m *Model) AsError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*llm.Error](err); ok && e.Provider != "" {
		return e
	}
	e := &llm.Error{Err: plain(err)}
	if api, ok := errors.AsType[*sdk.Error](err); ok {
		body := api.RawJSON()
		e.RequestID = api.RequestID
		e.Evidence = llm.Evidence{Status: api.StatusCode, Body: body[:min(len(body), wire.MaxBody)]}
		if api.Response != nil {
			e.Evidence.Header = api.Response.Header
		}
		e.Err = fmt.Errorf("the SDK reports HTTP status %d", api.StatusCode) // its own text repeats the URL and the body
	}
	return m.classified(ctx, e, m.cfg.APIKey)
}
