package wire_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

func TestASealedErrorIsWhatItWasWithoutTheKey(t *testing.T) {
	clean := func(s string) string { return strings.ReplaceAll(s, "secret", wire.Redacted) }
	plain := fmt.Errorf("dialing: %w", syscall.ECONNREFUSED)
	if found, out := wire.Seal(plain, clean); found || errors.Unwrap(out) != errors.Unwrap(plain) || wire.Sealed(nil, clean) != nil { //nolint:errorlint // the link itself
		t.Error("what holds nothing is not left as it is")
	}
	op := &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("secret: %w", syscall.ECONNREFUSED)}
	dns := &net.DNSError{Err: "no secret", Name: "secret.example", IsTimeout: true}
	err := wire.Sealed(errors.Join(
		&url.Error{Op: "Post", URL: "http://h?key=secret", Err: op}, dns, context.DeadlineExceeded, llm.RateLimited,
		&llm.PanicError{Value: "secret"}, quiet{errors.New("secret")},
	), clean)
	for _, want := range []error{syscall.ECONNREFUSED, context.DeadlineExceeded, llm.RateLimited} {
		if !errors.Is(err, want) {
			t.Errorf("it is no %v", want)
		}
	}
	var texts []string
	gotOp, ok := errors.AsType[*net.OpError](err)
	if !ok || gotOp.Op != "dial" || !errors.Is(gotOp, syscall.ECONNREFUSED) {
		t.Errorf("the OpError is %v", gotOp)
	}
	gotDNS, ok := errors.AsType[*net.DNSError](err)
	if !ok || !gotDNS.IsTimeout {
		t.Errorf("the DNSError is %v", gotDNS)
	}
	gotURL, ok := errors.AsType[*url.Error](err)
	if !ok || gotURL.Op != "Post" {
		t.Errorf("the url.Error is %v", gotURL)
	}
	gotPanic, ok := errors.AsType[*llm.PanicError](err)
	if !ok {
		t.Error("there is no PanicError")
	}
	if n, ok := errors.AsType[net.Error](err); !ok || n.Timeout() != op.Timeout() {
		t.Errorf("as an error of the net %v", n)
	}
	if class, ok := errors.AsType[llm.Class](err); !ok || class != llm.RateLimited {
		t.Errorf("the class is %v", class)
	}
	if q, ok := errors.AsType[quiet](err); ok {
		t.Errorf("%v was handed out with what it wraps", q)
	}
	texts = append(texts, fmt.Sprintf("%v %+v %#v %q %s", err, err, err, err, err), fmt.Sprintf("%v %+v", gotOp, gotOp.Err), gotDNS.Error(), gotURL.Error(), fmt.Sprint(gotPanic.Value))
	for _, text := range texts {
		if strings.Contains(text, "secret") {
			t.Errorf("the key is in %s", text)
		}
	}
	if errors.Unwrap(err) != nil {
		t.Error("it is handed out by Unwrap")
	}
	later := wire.Sealed(err, func(s string) string { return strings.ReplaceAll(s, "dial", "") })
	if got, ok := errors.AsType[*net.OpError](later); !ok || strings.Contains(got.Err.Error(), "secret") {
		t.Errorf("sealed twice it has %v", got)
	}
}

// A quiet error does not tell in its text what it wraps.
type quiet struct{ err error }

func (quiet) Error() string   { return "quiet" }
func (q quiet) Unwrap() error { return q.err }
