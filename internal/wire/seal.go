package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"reflect"

	"github.com/modelchain/llm"
)

// Sealed is err without what clean takes out of texts, in its own text and in all that it wraps; err itself where there is
// nothing to take out. What it wraps is no longer handed out by errors.Unwrap. errors.Is tells of all of it, errors.As hands
// out what has a clean text, and copies with clean texts of a panic and of the errors of net and net/url.
func Sealed(err error, clean func(string) string) error {
	_, out := Seal(err, clean)
	return out
}

// Seal is Sealed, and whether there was something to take out. Errors need not be comparable.
func Seal(err error, clean func(string) string) (found bool, out error) {
	if !leaks(err, clean) {
		return false, err
	}
	s := &sealed{clean(err.Error()), err, clean}
	if n, ok := errors.AsType[net.Error](err); ok {
		return true, &sealedNet{s, n}
	}
	return true, s
}

// leaks reports whether there is a text to clean in err or what it wraps.
func leaks(err error, clean func(string) string) bool {
	if err == nil {
		return false
	}
	if text := err.Error(); clean(text) != text {
		return true
	}
	switch in := err.(type) { //nolint:errorlint // each link is looked at
	case *sealed:
		return leaks(in.err, clean)
	case *sealedNet:
		return leaks(in.err, clean)
	case interface{ Unwrap() error }:
		return leaks(in.Unwrap(), clean)
	case interface{ Unwrap() []error }:
		for _, one := range in.Unwrap() {
			if leaks(one, clean) {
				return true
			}
		}
	}
	return false
}

type sealed struct {
	text  string
	err   error
	clean func(string) string
}

func (s *sealed) Error() string { return s.text }

// Format keeps fmt from looking into the value, whatever the verb.
func (s *sealed) Format(f fmt.State, verb rune) {
	if verb == 'q' {
		_, _ = fmt.Fprintf(f, "%q", s.text)
		return
	}
	_, _ = io.WriteString(f, s.text)
}

func (s *sealed) Is(target error) bool { return errors.Is(s.err, target) }

func (s *sealed) As(target any) bool {
	switch to := target.(type) {
	case **net.OpError:
		return hand(s.err, to, func(e *net.OpError) { e.Err = Sealed(e.Err, s.clean) })
	case **net.DNSError:
		return hand(s.err, to, func(e *net.DNSError) {
			e.Err, e.Name, e.Server, e.UnwrapErr = s.clean(e.Err), s.clean(e.Name), s.clean(e.Server), Sealed(e.UnwrapErr, s.clean)
		})
	case **url.Error:
		return hand(s.err, to, func(e *url.Error) { e.URL, e.Err = s.clean(e.URL), Sealed(e.Err, s.clean) })
	case **llm.PanicError:
		return hand(s.err, to, func(e *llm.PanicError) { e.Value = s.clean(fmt.Sprint(e.Value)) })
	}
	if !errors.As(s.err, target) { //nolint:forbidigo // the type is the caller's
		return false
	}
	v := reflect.ValueOf(target).Elem()
	if err, ok := reflect.TypeAssert[error](v); ok && leaks(err, s.clean) {
		v.SetZero()
		return false
	}
	return true
}

// hand puts a clean copy of the E that err wraps where to points.
func hand[E any, P interface {
	*E
	error
}](err error, to *P, clean func(P)) bool {
	found, ok := errors.AsType[P](err)
	if !ok {
		return false
	}
	own := *found
	clean(&own)
	*to = &own
	return true
}

// A sealedNet is one that the net package's callers know for theirs.
type sealedNet struct {
	*sealed
	net net.Error
}

func (s *sealedNet) Timeout() bool   { return s.net.Timeout() }
func (s *sealedNet) Temporary() bool { return s.net.Temporary() } //nolint:staticcheck // net.Error asks for it
