package gemini_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "google.golang.org/genai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
	"github.com/modelchain/llm/internal/wiretest"
)

func count(t *testing.T, m *gemini.Model) (int32, error) {
	t.Helper()
	client, err := m.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.Models.CountTokens(t.Context(), "gemini-2.5-flash", sdk.Text("hi"), nil)
	if err != nil {
		return 0, m.AsError(t.Context(), err)
	}
	return r.TotalTokens, nil
}

func TestTheSDKsClientGoesWhereTheModelGoes(t *testing.T) {
	before := log.Writer()
	log.SetOutput(io.Discard) // the SDK says that the environment has another key
	t.Cleanup(func() { log.SetOutput(before) })
	t.Setenv("GOOGLE_API_KEY", "from-the-environment")
	t.Setenv("GOOGLE_CLOUD_PROJECT", "environment")
	n := 0
	for _, c := range []struct {
		name       string
		change     func(*gemini.Config)
		path       string
		key, token string
	}{
		{"gemini", func(*gemini.Config) {}, "/v1beta/models/gemini-2.5-flash:countTokens", madeUp, ""},
		{"no key", func(c *gemini.Config) { c.APIKey = "" }, "/v1beta/models/gemini-2.5-flash:countTokens", "", ""},
		{"a key function", func(c *gemini.Config) {
			c.APIKey, c.Key = "", func(context.Context) (string, error) { n++; return "key-1", nil }
		}, "/v1beta/models/gemini-2.5-flash:countTokens", "key-1", ""},
		{"vertex", func(c *gemini.Config) { c.Project, c.Location, c.APIKey = "p", "us-central1", "ya29.made-up" },
			"/v1beta1/projects/p/locations/us-central1/publishers/google/models/gemini-2.5-flash:countTokens", "", "Bearer ya29.made-up"},
		{"express mode", func(c *gemini.Config) { c.Provider = "vertex" }, "/v1beta1/publishers/google/models/gemini-2.5-flash:countTokens", madeUp, ""},
		{"a gateway", func(c *gemini.Config) { c.BaseURL += "/gate/v1"; c.Header = http.Header{"X-Mine": {"1"}} },
			"/gate/v1/models/gemini-2.5-flash:countTokens", madeUp, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got *http.Request
			m := serve(t, func(w http.ResponseWriter, r *http.Request) {
				got = r.Clone(t.Context())
				wiretest.Says(200, wiretest.JSON, `{"totalTokens":3}`)(w, r)
			}, c.change)
			if n, err := count(t, m); err != nil || n != 3 {
				t.Fatalf("got %d, %v", n, err)
			}
			if got.URL.Path != c.path || got.Header.Get("X-Goog-Api-Key") != c.key || got.Header.Get("Authorization") != c.token {
				t.Errorf("sent to %s with %v", got.URL.Path, got.Header)
			}
			if (got.Header.Get("X-Mine") == "1") != (c.name == "a gateway") {
				t.Errorf("header %v", got.Header)
			}
		})
	}
	if n != 1 {
		t.Errorf("the key function was asked %d times", n)
	}
}

func TestFailuresOfTheSDKsClientKeepTheirEvidence(t *testing.T) {
	for name, want := range map[string]llm.Class{
		"per_minute": llm.RateLimited, "shared_capacity_list": llm.RateLimited, "overloaded": llm.Overloaded, "html_502": llm.Unavailable,
		"bad_key": llm.Auth, "cut_json_200": llm.BadOutput, "html_200": llm.BadOutput,
	} {
		t.Run(name, func(t *testing.T) {
			f := wiretest.Load(t, filepath.Join("testdata", "failures", name+".http"))
			var calls atomic.Int32
			_, err := count(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				w.Header().Set("X-Request-Id", "id-1")
				f.ServeHTTP(w, r)
			}))
			e := wiretest.Failure(t, nil, err)
			if e.Class != want || e.Provider != "gemini" || calls.Load() != 1 {
				t.Errorf("got %v of class %v after %d requests, want %v", e, e.Class, calls.Load(), want)
			}
			if f.Status != 200 && (e.Evidence.Status != f.Status || e.Evidence.Body != f.Body || e.RequestID != "id-1" || e.Evidence.Phase != llm.PhaseHeaders) {
				t.Errorf("evidence %+v, id %q", e.Evidence, e.RequestID)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		m := gemini.New(gemini.Config{BaseURL: server.URL})
		server.Close()
		_, err := count(t, m)
		if e := wiretest.Failure(t, nil, err); e.Class != llm.Unavailable || e.Commit != llm.CommitNone {
			t.Errorf("got %v, commit %v", e, e.Commit)
		}
	})
	t.Run("no key to be had", func(t *testing.T) {
		sealed := errors.New("vault is sealed")
		_, err := count(t, gemini.New(gemini.Config{Key: func(context.Context) (string, error) { return "", sealed }}))
		if e := wiretest.Failure(t, nil, err); e.Class != llm.Auth || !errors.Is(err, sealed) || e.Commit != llm.CommitNone {
			t.Errorf("got %v, commit %v", e, e.Commit)
		}
	})
}

func TestTheSDKsClientShowsItsKeyToNoOtherHost(t *testing.T) {
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(r.Header.Get("X-Goog-Api-Key") != "")
		wiretest.Says(200, wiretest.JSON, `{"totalTokens":3}`)(w, r)
	}))
	defer other.Close()
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}, func(c *gemini.Config) {
		c.HTTPClient.CheckRedirect = func(*http.Request, []*http.Request) error { return nil } // the user's own, which follows anywhere
	})
	if n, err := count(t, m); err != nil || n != 3 || leaked.Load() {
		t.Errorf("got %d, %v; the other host saw the key: %v", n, err, leaked.Load())
	}
}

func TestStreamsOfTheSDKsClientEndWithTheirContext(t *testing.T) {
	s := wiretest.Stall(200, wiretest.SSE, events(piece("Hel")))
	client, err := serve(t, s.ServeHTTP).Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range client.Models.GenerateContentStream(t.Context(), "gemini-2.5-flash", sdk.Text("hi"), nil) {
		if err != nil || r.Text() != "Hel" {
			t.Errorf("got %v, %v", r, err)
		}
		break
	}
	<-s.Closed
}

func TestTheSDKsClientLeavesNothingBehind(t *testing.T) {
	var sent context.Context
	m := gemini.New(gemini.Config{HTTPClient: &http.Client{Transport: wiretest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		sent = r.Context()
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"totalTokens":3}`))}, nil
	})}})
	if _, err := count(t, m); err != nil || sent.Err() == nil {
		t.Errorf("the context of the request lives on; %v", err)
	}
}

func TestAsErrorOfAnotherClientsErrors(t *testing.T) {
	m := gemini.New(gemini.Config{APIKey: "pb_plain-looking"})
	if err := m.AsError(t.Context(), nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	for _, c := range []struct {
		name string
		err  error
		want llm.Class
		wait time.Duration
	}{
		{"with details", sdk.APIError{Code: 429, Status: "RESOURCE_EXHAUSTED", Message: "You exceeded your current quota.",
			Details: []map[string]any{{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "9s"}}}, llm.RateLimited, 9 * time.Second},
		{"without details", sdk.APIError{Code: 402, Status: "RESOURCE_EXHAUSTED", Message: "Credits are gone, pb_plain-looking."}, llm.Quota, 0},
		{"a page", sdk.APIError{Code: 502, Status: "502 Bad Gateway", Message: "<html>"}, llm.Unavailable, 0},
	} {
		err := m.AsError(t.Context(), c.err)
		e := wiretest.Failure(t, nil, err)
		if e.Class != c.want || e.RetryAfter != c.wait || e.Evidence.Status == 0 {
			t.Errorf("%s: got %v of class %v, wait %v", c.name, e, e.Class, e.RetryAfter)
		}
		if strings.Contains(e.Error()+e.Evidence.Message, "pb_plain") {
			t.Errorf("%s: the key is in %v", c.name, e)
		}
	}
}
