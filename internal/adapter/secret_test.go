package adapter

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelchain/llm"
)

func TestASecretIsTakenOutWhereItIsAWord(t *testing.T) {
	for _, c := range []struct{ key, in, want string }{
		{"sk-1", "sk-1 task-1 sk-12 sk-1.5 sk-1. sk-1", "[redacted] task-1 sk-12 sk-1.5 [redacted]. [redacted]"},
		{"sk-1", `"\nsk-1\n\u003csk-1\u003e"`, `"\n[redacted]\n\u003c[redacted]\u003e"`},
		{"sk-1", "?a=sk-1&b=%3Dsk-1%26,sk-1sk-1", "?a=[redacted]&b=%3D[redacted]%26,sk-1sk-1"},
		{"gpt-4", "gpt-4.1 gpt-4o gpt-4", "gpt-4.1 gpt-4o [redacted]"},
		{"hunter", "hunter hunters Hunter", "[redacted] hunters Hunter"},
		{"/a+b", `/a+b \/a+b %2Fa%2Bb`, "[redacted] [redacted] [redacted]"},
		{"p/q+r9ZZ==", "p%2fq%2br9ZZ== p%2Fq%2Br9ZZ%3D%3d p%2fq+r9ZZ==.", "[redacted] [redacted] [redacted]."},
		{"p/q+r9ZZ==", `p/q\u002Br9ZZ== p\/q\u002br9ZZ== p\\/q\\u002Br9ZZ\\u003d=`, "[redacted] [redacted] [redacted]"},
		{"a&bcdefgh", `[a&amp;bcdefgh] a&#38;bcdefgh a&#x26;bcdefgh a\u0026bcdefgh a&bcdefgh`, "[[redacted]] [redacted] [redacted] [redacted] [redacted]"},
		{`a%25b\c"<d`, `a%25b\c"<d a%2525b%5cc%22%3cd a%25b\\c\"\u003cd a%25b\c&quot;&lt;d a%25b\c"<`, `[redacted] [redacted] [redacted] [redacted] a%25b\c"<`},
		{"none", "none", "none"}, {"Ollama", "Ollama", "Ollama"}, {"abc", "abc", "abc"}, {"", "x", "x"},
		{"pass5678", "xpass5678x", "x[redacted]x"}, {"abcdefghijklmnop", "xabcdefghijklmnopx", "x[redacted]x"},
	} {
		e := account(t, Account{APIKey: c.key}).Classified(t.Context(), &llm.Error{Class: llm.Auth, Message: c.in, RequestID: c.in})
		if e.Message != c.want || e.RequestID != c.want {
			t.Errorf("without %q %q is %q and %q, want %q", c.key, c.in, e.Message, e.RequestID, c.want)
		}
	}
}

func TestSecretsOfHeadersAndAddresses(t *testing.T) {
	a := account(t, Account{Header: http.Header{
		"Cookie": {"session=crumb; other=flour"}, "Authorization": {"Basic dXNlcjpodW50ZXI="}, "X-Plain": {"plain"}, "X-Password": {"swordfish"},
	}})
	a.HideIn("http://me:sesame@host/?key=query&version=dated")
	e := a.Classified(t.Context(), &llm.Error{Class: llm.Auth,
		Message: "crumb flour dXNlcjpodW50ZXI= hunter swordfish sesame query plain dated"})
	if want := strings.Repeat("[redacted] ", 7) + "plain dated"; e.Message != want {
		t.Errorf("got %q, want %q", e.Message, want)
	}
}

// The SDKs' errors do not say which key their request had.
func TestKeysThatWereAskedForStayOutOfAnSDKsErrors(t *testing.T) {
	left := []string{"first", "second", "third"}
	a := account(t, Account{Key: func(context.Context) (string, error) {
		key := left[0]
		left = left[1:]
		return key, nil
	}})
	for range 3 {
		if _, bad := a.KeyFor(t.Context()); bad != nil {
			t.Fatal(bad)
		}
	}
	if e := a.Classified(t.Context(), &llm.Error{Class: llm.Auth, Message: "first second third fourth"}); strings.Count(e.Message, "[redacted]") != 3 {
		t.Errorf("got %q", e.Message)
	}
}

// Words are taken out once a failure was classified by them, also out of the cause that the classifier keeps.
func TestAKeyThatIsAWordDoesNotChangeTheClass(t *testing.T) {
	a := account(t, Account{APIKey: "overloaded"})
	e := a.Classified(t.Context(), &llm.Error{
		Partial:  &llm.Response{RequestID: "overloaded"},
		Evidence: llm.Evidence{Status: 200, Body: `{"error":{"message":"it is overloaded"}}`, Header: http.Header{"X-Echo": {"overloaded"}}},
	})
	cause := llm.AsError(e.Err)
	if e.Class != llm.Interrupted || cause.Class != llm.Overloaded || e.Partial.RequestID != "[redacted]" || e.Evidence.Header.Get("X-Echo") != "[redacted]" {
		t.Errorf("got %v, cause %v, Partial %+v", e, cause, e.Partial)
	}
	if text := cause.Message + cause.Evidence.Message + cause.Evidence.Body + e.Evidence.Body; strings.Contains(text, "overloaded") {
		t.Errorf("got %q", text)
	}
}

// A failure is kept as the cause of others, so that several calls look into it at a time.
func TestAnErrorWithoutItsSecretIsReadByManyAtOnce(t *testing.T) {
	in := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("the key madeup42 was refused")}
	e := account(t, Account{APIKey: "madeup42"}).Classified(t.Context(), &llm.Error{Class: llm.Unavailable, Err: in})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if op, ok := errors.AsType[*net.OpError](e); !ok || op.Err.Error() != "the key [redacted] was refused" {
				t.Errorf("got %v", op)
			}
		})
	}
	all.Wait()
}
