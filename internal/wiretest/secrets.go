package wiretest

import (
	"context"
	"encoding/base64"
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
			return nil, &url.Error{Op: "Post", URL: at, Err: fmt.Errorf("cannot send %v to %s: %w", r.Header, at, errors.New(plainKey))}
		})}
		resp, err := a.New(s).Call(t.Context(), Ask("hi"))
		HasNoKey(t, Failure(t, resp, err), plainKey, token)
	})
	t.Run("a panic of the transport", func(t *testing.T) {
		s := set
		s.HTTP = &http.Client{Transport: RoundTripper(func(*http.Request) (*http.Response, error) {
			panic("no use for " + plainKey + " and sk-proj-madeup0madeup1madeup2")
		})}
		d := &llm.Deployment{Name: "d", Caller: a.New(s)}
		resp, err := d.Call(t.Context(), Ask("hi"))
		e := Failure(t, resp, err)
		is(t, e, llm.BadOutput, llm.PhaseSend, llm.CommitUnknown)
		HasNoKey(t, e, plainKey, "madeup0madeup1")
		why, ok := errors.AsType[*llm.PanicError](err)
		if !ok || !strings.Contains(fmt.Sprint(why.Value), "no use for [redacted]") || len(why.Stack) == 0 {
			t.Errorf("got %v", why)
		}
	})
}

// shortKeys have no looks of a key. They are taken out where they stand as a word, and nothing else is.
func shortKeys(t *testing.T, a *API) {
	for _, key := range []string{
		"sk-1", "sk-1234", "local-key", "pass1", "hunter", "opensesame", "4711", "p/w+1", "overloaded", "message",
		"sk-proj-abcdefghijklmnopqrstuvwx",
	} {
		around := strings.SplitAfter(strings.ReplaceAll("aKEY KEYb a-KEY KEY_b KEY.5 éKEY ", "KEY", key), " ") // no word is the key
		around = around[:len(around)-1]
		leak := strings.ReplaceAll("the server is overloaded KEY: 'KEY', KEY\nKEY<KEY>=KEY. ", "KEY", key) + url.QueryEscape(key) + " "
		if len(key) < 16 {
			leak += strings.Join(around, "")
		}
		for name, h := range map[string]http.Handler{
			"a failure": Says(503, JSON, a.Failure(leak), "X-Echo", "for "+key, "X-Request-Id", key, "X-Amzn-Requestid", key),
			"a stream":  Says(200, a.Kind, a.Hel+a.InBand(leak), "X-Request-Id", key, "X-Amzn-Requestid", key),
		} {
			var asked Settings
			asked.Key = func(context.Context) (string, error) { return key, nil }
			for way, set := range map[string]Settings{
				"as the key": {APIKey: key}, "asked for": asked, "in a header": {Header: http.Header{"X-Gateway-Token": {"Token " + key}}},
				"as a password": {Header: http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+key))}}},
			} {
				_, resp, err := Collect(t.Context(), a.serve(t, h, set), Ask("hi"))
				e := Failure(t, resp, err)
				text := e.Error() + "\n" + e.Evidence.Body + "\n" + e.Evidence.Message
				for _, other := range around {
					other = strings.TrimSpace(other)
					if len(key) < 16 && !strings.Contains(text, other) {
						t.Errorf("%s %q, %s: %q is not in %s", name, key, way, other, text)
					}
					text = strings.ReplaceAll(text, other, "")
				}
				// What is left are a field's name and the class.
				text = strings.NewReplacer(`"message":`, "", "llm: overloaded", "", "broke off: overloaded:", "").Replace(text)
				text += e.RequestID + fmt.Sprint(e.Evidence.Header)
				if e.Partial != nil {
					text += e.Partial.RequestID
				}
				if strings.Contains(text, key) || strings.Contains(text, url.QueryEscape(key)) {
					t.Errorf("%s %q, %s: the key is in %s", name, key, way, text)
				}
				if e.Class != llm.Overloaded && e.Class != llm.Interrupted {
					t.Errorf("%s %q, %s: %v of class %v", name, key, way, e, e.Class)
				}
			}
		}
	}
	for _, word := range []string{"none", "ollama", "EMPTY", "abc"} {
		m := a.serve(t, Says(503, JSON, a.Failure("there is "+word+" here")), Settings{APIKey: word})
		resp, err := m.Call(t.Context(), Ask("hi"))
		if e := Failure(t, resp, err); !strings.Contains(e.Error(), "there is "+word+" here") {
			t.Errorf("%s is no key, but it is gone from %v", word, e)
		}
	}
}

func prints(t *testing.T, a *API) {
	set := Settings{URL: "http://h", APIKey: plainKey, Header: http.Header{"X-Gateway-Token": {token}}}
	cfg, m := a.Config(set), a.New(set)
	for _, v := range []any{cfg, m, struct{ C, M any }{cfg, m}, []any{cfg, m}, map[string]any{"c": cfg, "m": m}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%t"} {
			if s := fmt.Sprintf(verb, v); strings.Contains(s, plainKey) || strings.Contains(s, token) || s == "" ||
				strings.Contains(s, fmt.Sprintf("%x", plainKey)) {
				t.Errorf("%s of a %T prints %s", verb, v, s)
			}
		}
	}
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
		{"for a panic", "panic", nil, llm.Auth},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Recorder{Next: Says(200, JSON, a.Whole)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := a.serve(t, s, Settings{Key: func(context.Context) (string, error) {
				if c.want == llm.Canceled {
					cancel()
				}
				if c.key == "panic" {
					panic("no use for sk-proj-madeup0madeup1madeup2")
				}
				return c.key, c.err
			}})
			resp, err := m.Call(ctx, Ask("hi"))
			e := Failure(t, resp, err)
			if e.Class != c.want || e.Commit != llm.CommitNone || s.Calls() != 0 || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("got %v, commit %v, %d requests", e, e.Commit, s.Calls())
			}
			HasNoKey(t, e, "madeup0madeup1")
			why, ok := errors.AsType[*llm.PanicError](err)
			if ok != (c.key == "panic") || ok && strings.Contains(fmt.Sprint(why.Value), "madeup0") {
				t.Errorf("got %v", why)
			}
		})
	}
}
