package bedrock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

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
	out := c.m.classified(c.ctx, e, c.secrets)
	if out.Evidence.Phase == llm.PhaseUnknown && c.x != nil {
		out.Evidence.Phase = llm.PhaseSend // a transport that cannot be watched: it may have been sent
	}
	return out
}

// unsent is e, which ended the call before a request was made.
func (c *call) unsent(e *llm.Error) error {
	c.complete(e)
	conceal(e, c.m.secretsWith(aws.Credentials{}, ""))
	return classify.Error(e)
}

// sinkFailed is the error of a call that ended because the sink did not want more.
func (c *call) sinkFailed(err error) error {
	e := &llm.Error{Class: llm.Canceled, Message: "the sink failed", Err: err}
	c.complete(e)
	conceal(e, c.secrets)
	return classify.Error(e)
}

func (c *call) complete(e *llm.Error) {
	e.Provider, e.Model = c.m.cfg.Provider, c.model
	ev := &e.Evidence
	if c.resp != nil {
		ev.Status, ev.Header = c.resp.StatusCode, c.resp.Header
		// The address of the exception's description may follow its name.
		if code, _, _ := strings.Cut(ev.Header.Get("X-Amzn-Errortype"), ":"); ev.Code == "" {
			ev.Code = code
		}
	}
	if ev.Phase == llm.PhaseUnknown {
		ev.Phase = c.phase
	}
	if ev.Phase == llm.PhaseUnknown && c.x != nil {
		ev.Phase = c.x.Phase()
	}
	e.Usage, e.RequestID = c.usage(), c.requestID()
	e.Partial = c.answer.partial()
	ev.Partial = e.Partial != nil
	if ev.Partial {
		fillIn(&e.Partial.Model, c.model)
		e.Partial.Usage, e.Partial.RequestID, e.Partial.Status = e.Usage, e.RequestID, ev.Status
	}
	if c.ctx.Err() != nil && c.resp != nil && c.resp.StatusCode < 300 { // it had begun to answer
		e.Commit = max(e.Commit, llm.CommitUnknown)
	}
}

func (m *Model) classified(ctx context.Context, e *llm.Error, secrets []string) *llm.Error {
	e.Provider = m.cfg.Provider
	conceal(e, secrets)
	return classify.Err(ctx, e)
}

// plain takes the SDK's envelopes and the URL off an error: they say nothing new.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	if op, ok := errors.AsType[*smithy.OperationError](err); ok {
		return op.Err
	}
	return err
}

// conceal takes the call's own secrets out of e. The provider repeats the whole request, session token and all, when it
// finds the signature wrong.
func conceal(e *llm.Error, secrets []string) {
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
			e.Err = concealed{clean, e.Err}
		}
	}
}

func without(s string, secrets []string) string {
	for _, secret := range secrets {
		s = strings.ReplaceAll(s, secret, wire.Redacted)
	}
	return s
}

// concealed is an error whose text had a secret in it.
type concealed struct {
	text string
	err  error
}

func (c concealed) Error() string { return c.text }
func (c concealed) Unwrap() error { return c.err }

// secretsWith are the texts that must not show up in the errors of a call.
func (m *Model) secretsWith(creds aws.Credentials, key string) []string {
	secrets := m.secrets
	for _, s := range [...]string{creds.SessionToken, creds.SecretAccessKey, creds.AccessKeyID, key, m.cfg.APIKey} {
		if len(s) >= minSecret {
			secrets = append(secrets[:len(secrets):len(secrets)], s)
		}
	}
	return secrets
}

// minSecret is the length of the shortest secret that is looked for: shorter ones would take words out of messages.
const minSecret = 8

// secretsOf are the values of headers that are keys by their names.
func secretsOf(header http.Header) []string {
	var secrets []string
	for name, values := range header {
		name = strings.ToLower(name)
		for _, mark := range [...]string{"auth", "key", "token", "secret", "cookie"} {
			if !strings.Contains(name, mark) {
				continue
			}
			for _, v := range values {
				if v = strings.TrimPrefix(v, "Bearer "); len(v) >= minSecret {
					secrets = append(secrets, v)
				}
			}
			break
		}
	}
	return secrets
}

// identify is who the caller is: credentials, or a key, or nobody.
func (m *Model) identify(ctx context.Context) (creds aws.Credentials, key string, _ *llm.Error) {
	if m.cfg.Credentials == nil {
		key, bad := m.keyFor(ctx)
		return creds, key, bad
	}
	creds, err := m.cfg.Credentials.Retrieve(ctx)
	switch {
	case err != nil:
		return creds, "", noKey(ctx, "no credentials could be had", err)
	case !creds.HasKeys():
		return creds, "", noKey(ctx, "the credentials are empty", llm.Auth)
	}
	return creds, "", nil
}

// keyFor is the key of a call.
func (m *Model) keyFor(ctx context.Context) (string, *llm.Error) {
	if m.cfg.Key == nil {
		return m.cfg.APIKey, nil
	}
	key, err := m.cfg.Key(ctx)
	switch {
	case err != nil:
		return "", noKey(ctx, "no key could be had", err)
	case !validKey(key):
		return "", noKey(ctx, "the key has blanks or control characters in it; trim it", llm.Auth)
	}
	return key, nil
}

func noKey(ctx context.Context, message string, err error) *llm.Error {
	if ended := llm.ContextError(ctx, nil); ended != nil {
		return ended
	}
	e := &llm.Error{Err: err, Message: message, Evidence: llm.Evidence{Phase: llm.PhaseConnect}}
	if own := llm.ClassOf(err); own != llm.Unknown && own != llm.Canceled && own != llm.Exhausted {
		e.Class = own
	} else if classify.Error(e).Class == llm.Unknown {
		e.Class = llm.Auth
	}
	return e
}

// AsError is err, which a call of the SDK's client returned under ctx, as an *llm.Error with its class and the evidence that
// the SDK kept, which is all but the body. nil stays nil.
func (m *Model) AsError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*llm.Error](err); ok && e.Provider != "" {
		return e
	}
	e := &llm.Error{Err: plain(err)}
	ev := &e.Evidence
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && r.Response != nil {
		ev.Status, ev.Header = r.Response.StatusCode, r.Response.Header
		e.RequestID = ev.Header.Get("X-Amzn-Requestid")
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		ev.Code, ev.Message = api.ErrorCode(), api.ErrorMessage()
		e.Err = fmt.Errorf("the SDK reports %s", ev.Code) // its own text repeats the message
	}
	return m.classified(ctx, e, m.secretsWith(aws.Credentials{}, ""))
}
