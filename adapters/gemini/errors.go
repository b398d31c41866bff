package gemini

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	sdk "google.golang.org/genai"

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
	return c.complete(e, func() *llm.Error { return classify.Err(c.ctx, e) })
}

// unsent is e, which ended the call before a request was made.
func (c *call) unsent(e *llm.Error) error {
	return c.complete(e, func() *llm.Error { return classify.Error(e) })
}

// sinkFailed is the error of a call that ended because the sink did not want more.
func (c *call) sinkFailed(err error) error {
	e := &llm.Error{Class: llm.Canceled, Message: "the sink failed", Err: err}
	return c.complete(e, func() *llm.Error { return classify.Error(e) })
}

func (c *call) complete(e *llm.Error, classified func() *llm.Error) error {
	e.Provider, e.Model = c.m.cfg.Provider, c.model
	ev := &e.Evidence
	ev.Status, ev.Header, ev.Phase = c.status, c.header, c.phase
	if ev.Phase == llm.PhaseUnknown && c.x != nil {
		ev.Phase = c.x.Phase()
	}
	e.Partial = c.answer.partial()
	ev.Partial = e.Partial != nil
	e.Usage, e.RequestID = c.answer.tokens(), c.requestID()
	if ev.Partial {
		e.Partial.Usage, e.Partial.RequestID, e.Partial.Status = e.Usage, e.RequestID, c.status
	}
	if c.ctx.Err() != nil && c.status >= 200 && c.status < 300 { // it had begun to answer
		e.Commit = max(e.Commit, llm.CommitUnknown)
	}
	conceal(e, c.key, c.m.secrets)
	out := classified()
	if out.Evidence.Phase == llm.PhaseUnknown && c.x != nil {
		out.Evidence.Phase = llm.PhaseSend // a transport that cannot be watched: it may have been sent
	}
	return out
}

// plain takes the URLs off an error of the HTTP client: they say nothing new and may hold a key.
func plain(err error) error {
	for {
		u, ok := errors.AsType[*url.Error](err)
		if !ok {
			return err
		}
		err = u.Err
	}
}

// conceal takes the call's own key and the secrets of the configuration out of e, whatever form they have: not every
// gateway's keys can be told by their looks.
func conceal(e *llm.Error, key string, secrets []string) {
	if isSecret(key) {
		secrets = append(slices.Clip(secrets), key)
	}
	ev := &e.Evidence
	for _, s := range [...]*string{&e.Message, &ev.Code, &ev.Type, &ev.Param, &ev.Message, &ev.Body} {
		*s = without(*s, secrets)
	}
	cloned := false
	for name, values := range ev.Header {
		for i, v := range values {
			clean := without(v, secrets)
			if clean == v {
				continue
			}
			if !cloned {
				ev.Header, cloned = ev.Header.Clone(), true
			}
			ev.Header[name][i] = clean
		}
	}
	if e.Err != nil {
		text := e.Err.Error()
		if clean := without(text, secrets); clean != text {
			e.Err = renamed{clean, e.Err}
		}
	}
}

func without(s string, secrets []string) string {
	for _, secret := range secrets {
		s = strings.ReplaceAll(s, secret, wire.Redacted)
	}
	return s
}

// isSecret tells keys from the words that stand in for one where none is needed, such as "none", which must not be taken out
// of messages.
func isSecret(s string) bool {
	return len(s) >= 16 || len(s) >= 8 && strings.ContainsAny(s, "0123456789")
}

// secretsOf are the values of a configuration that must not show up in errors.
func secretsOf(cfg *Config) []string {
	var secrets []string
	for name, values := range cfg.Header {
		name = strings.ToLower(name)
		for _, mark := range [...]string{"auth", "key", "token", "secret", "cookie"} {
			if !strings.Contains(name, mark) {
				continue
			}
			for _, v := range values {
				if v = strings.TrimPrefix(v, "Bearer "); isSecret(v) {
					secrets = append(secrets, v)
				}
			}
			break
		}
	}
	return secrets
}

// renamed is an error under another text.
type renamed struct {
	text string
	err  error
}

func (r renamed) Error() string { return r.text }
func (r renamed) Unwrap() error { return r.err }

// keyFor is the key of a call.
func (m *Model) keyFor(ctx context.Context) (string, *llm.Error) {
	if m.cfg.Key == nil {
		return m.cfg.APIKey, nil
	}
	key, err := m.cfg.Key(ctx)
	if err != nil {
		if ended := llm.ContextError(ctx, nil); ended != nil {
			return "", ended
		}
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

// AsError is err, which a call of the SDK's client returned under ctx, as an *llm.Error with its class. Calls of
// [Model.Client] bring their evidence along; of any other client's errors it keeps what they tell, which is no headers. nil
// stays nil.
func (m *Model) AsError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*llm.Error](err); ok && e.Provider != "" {
		return e
	}
	e := &llm.Error{Provider: m.cfg.Provider, Err: plain(err)}
	if api, ok := errors.AsType[sdk.APIError](err); ok {
		e.Evidence = llm.Evidence{Status: api.Code, Message: api.Message}
		if body, err := marshal(map[string]sdk.APIError{"error": api}); err == nil && len(api.Details) > 0 {
			e.Evidence = llm.Evidence{Status: api.Code, Body: start(body)}
		} else if api.Status != "" {
			e.Evidence.Code = api.Status
		}
		e.Err = renamed{fmt.Sprintf("genai: HTTP %d", api.Code), err} // its own text is the whole body
	}
	conceal(e, m.cfg.APIKey, m.secrets)
	return classify.Err(ctx, e)
}
