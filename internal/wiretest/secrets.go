package wiretest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/modelchain/llm"
)

// What must not be in an error: a key that looks like none, and the value of a header that is a secret by its name.
const (
	plainKey = "pb_plain-looking-key"
	token    = "another's-secret-value"
)

func secrets(t *testing.T, a *API) {
	leak := "bad key " + plainKey + " and " + token
	set := Settings{APIKey: plainKey, Header: http.Header{"X-Gateway-Token": {"Bearer " + token}}}
	for name, h := range map[string]http.Handler{
		"a failure":      Says(401, JSON, a.Failure(leak), "X-Echo", plainKey, "Set-Cookie", "session="+token),
		"a stream":       Says(200, a.Kind, a.Silent+a.InBand(leak)),
		"after the text": Says(200, a.Kind, a.Hel+a.InBand(leak)),
		"a page":         Says(200, "text/html", "<p>"+leak),
	} {
		t.Run(name, func(t *testing.T) {
			_, resp, err := Collect(t.Context(), a.serve(t, h, set), Ask("hi"))
			e := Failure(t, resp, err)
			HasNoKey(t, e, plainKey, token)
			if !strings.Contains(e.Evidence.Body, "bad key [redacted]") {
				t.Errorf("the body is %q", e.Evidence.Body)
			}
		})
	}
	t.Run("the address", func(t *testing.T) {
		resp, err := a.New(Settings{URL: "http://127.0.0.1:1/" + plainKey}).Call(t.Context(), Ask("hi"))
		HasNoKey(t, Failure(t, resp, err), plainKey)
	})
	t.Run("the transport", func(t *testing.T) {
		s := set
		s.HTTP = &http.Client{Transport: RoundTripper(func(r *http.Request) (*http.Response, error) {
			at := "http://h?key=" + plainKey
			return nil, &url.Error{Op: "Post", URL: at, Err: fmt.Errorf("cannot send %v to %s", r.Header, at)}
		})}
		resp, err := a.New(s).Call(t.Context(), Ask("hi"))
		HasNoKey(t, Failure(t, resp, err), plainKey, token)
	})
}

func keys(t *testing.T, a *API) {
	s := &Recorder{Next: Says(200, JSON, a.Whole)}
	left := []string{"key-first", "key-second"}
	m := a.serve(t, s, Settings{Key: func(context.Context) (string, error) {
		key := left[0]
		left = left[1:]
		return key, nil
	}})
	for _, want := range []string{"key-first", "key-second"} {
		if _, err := m.Call(t.Context(), Ask("hi")); err != nil {
			t.Fatal(err)
		}
		sent := false
		for _, values := range s.Last().Header {
			sent = sent || strings.TrimPrefix(values[0], "Bearer ") == want
		}
		if !sent {
			t.Errorf("%q is not in %v", want, s.Last().Header)
		}
	}
}

func noKey(t *testing.T, a *API) {
	for _, c := range []struct {
		name string
		key  string
		err  error
		want llm.Class
	}{
		{"for no known reason", "", errors.New("vault is sealed"), llm.Auth},
		{"for a reason with a class", "", &llm.Error{Class: llm.RateLimited}, llm.RateLimited},
		{"for want of a network", "", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, llm.Unavailable},
		{"for a caller that left", "", context.Canceled, llm.Canceled},
		{"with a line break", "key\n", nil, llm.Auth},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Recorder{Next: Says(200, JSON, a.Whole)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := a.serve(t, s, Settings{Key: func(context.Context) (string, error) {
				if c.want == llm.Canceled {
					cancel()
				}
				return c.key, c.err
			}})
			resp, err := m.Call(ctx, Ask("hi"))
			e := Failure(t, resp, err)
			if e.Class != c.want || e.Commit != llm.CommitNone || s.Calls() != 0 || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("got %v, commit %v, %d requests", e, e.Commit, s.Calls())
			}
		})
	}
}
