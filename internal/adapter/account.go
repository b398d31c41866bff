package adapter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/classify"
	"github.com/modelchain/llm/internal/wire"
)

// Bearer is the header in which a key has "Bearer " before it.
const Bearer = "Authorization"

// An Account is who calls which provider: what the configurations of all adapters have. Its secrets are taken out of every text
// of an error: keys, and the values of headers whose names say that they are secrets. Those of less than 16 bytes without a
// digit, and all of less than 8, are taken out where they stand as a whole word, those of less than 4 and the words that stand
// for no key, such as "none" and "ollama", not at all.
type Account struct {
	// Provider stands in errors and selects the classifier's rows.
	Provider string
	// APIKey is the key. Key is asked for it before each call instead.
	APIKey string
	Key    func(context.Context) (string, error)
	// KeyHeader is the header that carries the key.
	KeyHeader string
	// Header is sent with each request, over what the adapter sends itself.
	Header http.Header

	hidden []secret // what must not show up in errors, apart from the keys of calls
	recent *recent
}

// NewAccount is a with headers of its own, or what is wrong with it, in the words of a configuration.
func NewAccount(a Account) (*Account, error) {
	switch {
	case a.APIKey != "" && a.Key != nil:
		return nil, errors.New("both APIKey and Key are set; set one")
	case !validKey(a.APIKey):
		return nil, errors.New("APIKey has blanks or control characters in it, such as a line break from a file; trim it")
	case !validName(a.KeyHeader):
		return nil, fmt.Errorf("KeyHeader %q is no header name", a.KeyHeader)
	}
	own := make(http.Header, len(a.Header))
	for name, values := range a.Header {
		if !validName(name) {
			return nil, fmt.Errorf("%q in Header is no header name", name)
		}
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n\x00") {
				return nil, fmt.Errorf("the value of Header %q has a line break in it", name)
			}
		}
		own[http.CanonicalHeaderKey(name)] = values
	}
	a.Header = own.Clone()
	a.hidden, a.recent = a.secrets(), &recent{}
	longestFirst(a.hidden)
	return &a, nil
}

func validKey(key string) bool {
	for i := range len(key) {
		if key[i] <= ' ' || key[i] >= 0x7f {
			return false
		}
	}
	return true
}

func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("()<>@,;:\\\"/[]?={}", c) >= 0 {
			return false
		}
	}
	return name != ""
}

// KeyFor is the key of a call under ctx, or why there is none.
func (a *Account) KeyFor(ctx context.Context) (string, *llm.Error) {
	if a.Key == nil {
		return a.APIKey, nil
	}
	var key string
	err := Guarded(func() (err error) {
		key, err = a.Key(ctx)
		return err
	})
	switch {
	case err != nil:
		return "", NoKey(ctx, "no key could be had", err)
	case !validKey(key):
		return "", NoKey(ctx, "the key has blanks or control characters in it; trim it", llm.Auth)
	}
	a.recent.note(key)
	return key, nil
}

// Guarded is f's error. A panic of f, which is code of the user's that knows keys, becomes one without those that can be told.
func Guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &llm.PanicError{Value: wire.Redact(fmt.Sprint(v)), Stack: debug.Stack()}
		}
	}()
	return f()
}

// NoKey is the error of a call whose key could not be had because of err: the class that err has or tells, else Auth.
func NoKey(ctx context.Context, message string, err error) *llm.Error {
	if ended := llm.ContextError(ctx, nil); ended != nil {
		return ended
	}
	e := &llm.Error{Err: err, Message: message, Evidence: llm.Evidence{Phase: llm.PhaseConnect}}
	// The caller is still there, so an end that err tells of is that of a context of the key's own.
	if own := llm.ClassOf(err); own != llm.Unknown && own != llm.Canceled && own != llm.Exhausted {
		e.Class = own
	} else if classify.Error(e).Class == llm.Unknown {
		e.Class = llm.Auth
	}
	return e
}

// Sign sets in h what identifies the caller, and what the configuration says.
func (a *Account) Sign(h http.Header, key string) {
	if key != "" {
		if strings.EqualFold(a.KeyHeader, Bearer) {
			key = "Bearer " + key
		}
		h.Set(a.KeyHeader, key)
	}
	maps.Copy(h, a.Header)
}

// ParseBase is the root of an API as a configuration has it. What follows in its path as the API's own is for the adapter.
func ParseBase(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, errors.New("BaseURL is no URL") // the parser's text repeats it, keys and all
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("BaseURL must begin with http:// or https:// and a host")
	}
	u.Path, u.RawPath, u.Fragment = strings.TrimRight(u.Path, "/"), "", ""
	return u, nil
}

// NoQuery is the error of a root that has a query where none can be sent.
func NoQuery(u *url.URL) error {
	if u.RawQuery != "" {
		return errors.New("BaseURL has a query, which would get lost; put keys into APIKey or Header")
	}
	return nil
}

// FillIn puts other into the place of a text that is empty.
func FillIn(s *string, other string) {
	if *s == "" {
		*s = other
	}
}
