package wire_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// transportPost makes a watched POST. status is 0 if it failed.
func transportPost(t *testing.T, c *http.Client, url string) (x *wire.Exchange, status int, err error) {
	t.Helper()
	ctx, x := wire.Watch(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer k")
	resp, err := c.Do(r)
	if err != nil {
		return x, 0, err
	}
	_ = resp.Body.Close()
	return x, resp.StatusCode, nil
}

func TestExchangeTellsHowFarARequestGot(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	refused := closed.URL
	closed.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/reset":
			panic(http.ErrAbortHandler)
		case "/moved":
			http.Redirect(w, r, "/reset", http.StatusPermanentRedirect)
			return
		}
		w.Header().Set("X-Request-Id", "req_1")
		w.WriteHeader(http.StatusTeapot)
	}))
	defer srv.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	odd := &http.Client{Transport: transportFunc(func(*http.Request) (*http.Response, error) { return nil, errors.New("no") })}
	tests := []struct {
		name   string
		client *http.Client
		url    string
		want   llm.Phase
		status int
	}{
		{"refused", nil, refused, llm.PhaseConnect, 0},
		{"TLS to a plain port", nil, strings.Replace(plain.URL, "http:", "https:", 1), llm.PhaseConnect, 0},
		{"reset before headers", nil, srv.URL + "/reset", llm.PhaseSend, 0},
		{"reset after a redirect", nil, srv.URL + "/moved", llm.PhaseSend, 0},
		{"answered", nil, srv.URL, llm.PhaseHeaders, http.StatusTeapot},
		{"a transport that tells nothing", odd, srv.URL, llm.PhaseUnknown, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x, _, err := transportPost(t, wire.Client(tt.client), tt.url)
			if (err == nil) != (tt.status != 0) {
				t.Fatalf("error %v", err)
			}
			if got := x.Phase(); got != tt.want {
				t.Errorf("phase %v, want %v", got, tt.want)
			}
			status, header := x.Head()
			if status != tt.status || status != 0 && header.Get("X-Request-Id") != "req_1" {
				t.Errorf("head %d %v", status, header)
			}
			if want := 1 + strings.Count(tt.url, "/moved"); x.Requests() != want {
				t.Errorf("%d requests, want %d", x.Requests(), want)
			}
		})
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTransportWrapsTheClientsOwn(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	own := 0
	given := &http.Client{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
		own++
		return http.DefaultTransport.RoundTrip(r)
	})}
	c := wire.Client(given)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r) // watched or not
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if own != 1 {
		t.Errorf("the client's own transport was used %d times, want 1", own)
	}
	if _, ok := given.Transport.(transportFunc); !ok {
		t.Error("the client given was changed")
	}
}

func TestClientFollowsNoRedirectThatChangesTheCall(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s went to another host", r.Method)
	}))
	defer elsewhere.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/302":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/308":
			http.Redirect(w, r, "/end", http.StatusPermanentRedirect)
		case "/away":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
		case "/end":
			if r.Method != http.MethodPost || string(body) != "{}" || r.Header.Get("Authorization") == "" {
				t.Errorf("arrived as %s %q", r.Method, body)
			}
		}
	}))
	defer srv.Close()
	tests := []struct {
		path     string
		status   int
		requests int
	}{{"/302", 302, 1}, {"/308", 200, 2}, {"/away", 307, 1}, {"/loop", 307, 5}}
	for _, tt := range tests {
		x, status, err := transportPost(t, wire.Client(nil), srv.URL+tt.path)
		if err != nil {
			t.Errorf("%s: %v", tt.path, err)
			continue
		}
		if status != tt.status || x.Requests() != tt.requests {
			t.Errorf("%s: status %d after %d requests, want %d after %d", tt.path, status, x.Requests(), tt.status, tt.requests)
		}
	}
}

func TestClientKeepsARedirectRuleOfItsOwn(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/x", http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	no := errors.New("no redirects")
	_, _, err := transportPost(t, wire.Client(&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return no }}), srv.URL)
	if !errors.Is(err, no) {
		t.Errorf("got %v, want %v", err, no)
	}
}
