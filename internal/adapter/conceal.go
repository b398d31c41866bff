package adapter

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// Plain takes the URLs off an error of the HTTP client: they say nothing new and may hold a key.
func Plain(err error) error {
	for {
		u, ok := errors.AsType[*url.Error](err)
		if !ok {
			return err
		}
		err = u.Err
	}
}

// Print writes what says where a configuration or a model leads, whatever the verb: fmt looks into values for the others.
func Print(f fmt.State, verb rune, kind, text string) {
	switch {
	case verb == 'q':
		_, _ = fmt.Fprintf(f, "%q", text)
	case verb == 'v' && f.Flag('#'):
		_, _ = fmt.Fprintf(f, "%s{%q}", kind, text)
	default:
		_, _ = io.WriteString(f, text)
	}
}

// Renamed is err under another text.
func Renamed(text string, err error) error { return renamed{text, err} }

type renamed struct {
	text string
	err  error
}

func (r renamed) Error() string { return r.text }
func (r renamed) Unwrap() error { return r.err }

// concealed is what classified makes of e, without the secrets of the configuration and those of a call, whatever form they
// have: not every provider's keys can be told by their looks, and providers do repeat them. Those that may be words of a
// sentence go only after the failure was classified, those that the classifier might take to pieces before.
func (a *Account) concealed(e *llm.Error, more []string, classified func() *llm.Error) *llm.Error {
	secrets := a.hidden[:len(a.hidden):len(a.hidden)]
	for _, text := range more {
		if text != a.APIKey {
			secrets = append(secrets, secretsOf(text)...)
		}
	}
	if len(secrets) > len(a.hidden) {
		secrets = slices.Clone(secrets)
		longestFirst(secrets)
	}
	hide(e, secrets, false)
	out := classified()
	hide(out, secrets, true)
	return out
}

// longestFirst sorts secrets: one may be a part of another.
func longestFirst(secrets []secret) {
	slices.SortStableFunc(secrets, func(a, b secret) int { return cmp.Compare(len(b.text), len(a.text)) })
}

// hide takes the secrets of one kind out of all texts of e. It reports whether there were any.
func hide(e *llm.Error, secrets []secret, late bool) (found bool) {
	if !slices.ContainsFunc(secrets, func(x secret) bool { return x.late == late }) {
		return false
	}
	clean := func(s string) string { // what is sealed keeps it, for goroutines that read one error together
		for i := range secrets {
			if secrets[i].late == late {
				s = secrets[i].out(s)
			}
		}
		return s
	}
	without := func(s string) string {
		out := clean(s)
		found = found || out != s
		return out
	}
	ev := &e.Evidence
	for _, s := range [...]*string{&e.Message, &e.RequestID, &ev.Code, &ev.Type, &ev.Param, &ev.Message, &ev.Body} {
		*s = without(*s)
	}
	cloned := false
	for name, values := range ev.Header {
		for i, v := range values {
			out := without(v)
			if out == v {
				continue
			}
			if !cloned {
				ev.Header, cloned = ev.Header.Clone(), true
			}
			ev.Header[name][i] = out
		}
	}
	if p := e.Partial; p != nil {
		if id := without(p.RequestID); id != p.RequestID {
			own := *p
			own.RequestID = id
			e.Partial = &own
		}
	}
	switch in := e.Err.(type) { //nolint:errorlint // what the classifier wrapped, and no deeper
	case nil, llm.Class:
	case *llm.Error:
		if in == nil {
			break
		}
		own := *in
		if hide(&own, secrets, late) {
			e.Err, found = &own, true
		}
	default:
		var sealed bool
		sealed, e.Err = wire.Seal(in, clean)
		found = found || sealed
	}
	return found
}
