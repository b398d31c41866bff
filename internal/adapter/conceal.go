package adapter

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strings"

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

// Renamed is err under another text.
func Renamed(text string, err error) error { return renamed{text, err} }

type renamed struct {
	text string
	err  error
}

func (r renamed) Error() string { return r.text }
func (r renamed) Unwrap() error { return r.err }

// conceal takes the configuration's secrets and those of a call out of e, whatever form they have: not every provider's keys
// can be told by their looks, and providers do repeat them.
func (a *Account) conceal(e *llm.Error, more []string) {
	secrets := slices.Clone(a.hidden)
	for _, s := range more {
		if isSecret(s) && !slices.Contains(secrets, s) {
			secrets = append(secrets, s)
		}
	}
	if len(secrets) == 0 {
		return
	}
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may be a part of another
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

// secrets are the values of the configuration that must not show up in errors.
func (a *Account) secrets() []string {
	var secrets []string
	add := func(s string) {
		if isSecret(s) {
			secrets = append(secrets, s)
		}
	}
	add(a.APIKey)
	for name, values := range a.Header {
		if !telling(name) {
			continue
		}
		for _, v := range values {
			add(strings.TrimPrefix(v, "Bearer "))
		}
	}
	return secrets
}

// telling reports whether the value of a header is a secret by the header's name.
func telling(name string) bool {
	name = strings.ToLower(name)
	for _, mark := range [...]string{"auth", "key", "token", "secret", "cookie"} {
		if strings.Contains(name, mark) {
			return true
		}
	}
	return false
}

// isSecret tells keys from the words that stand in for one where none is needed, such as "ollama", which must not be taken
// out of messages.
func isSecret(s string) bool {
	return len(s) >= 16 || len(s) >= 8 && strings.ContainsAny(s, "0123456789")
}

func without(s string, secrets []string) string {
	for _, secret := range secrets {
		s = strings.ReplaceAll(s, secret, wire.Redacted)
	}
	return s
}
