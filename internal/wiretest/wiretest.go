// Package wiretest is what the tests of all adapters need: servers, connections and clients that misbehave in known ways, and
// the suite of what every adapter makes of them. Only tests use it.
package wiretest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/modelchain/llm"
)

// Media types.
const (
	JSON = "application/json"
	SSE  = "text/event-stream"
)

// Ask is a request of one text.
func Ask(text string) *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User(text)}} }

// Streamed is Ask with a sink that adds up.
func Streamed(acc *llm.Accumulator) *llm.Request {
	r := Ask("Hello?")
	r.Sink = func(d llm.Delta) error {
		acc.Add(d)
		return nil
	}
	return r
}

// Collect makes a call with a sink and returns what it was handed.
func Collect(ctx context.Context, c llm.Caller, req *llm.Request) ([]llm.Delta, *llm.Response, error) {
	var deltas []llm.Delta
	r := req.Clone()
	r.Sink = func(d llm.Delta) error {
		deltas = append(deltas, d)
		return nil
	}
	resp, err := c.Call(ctx, r)
	return deltas, resp, err
}

// Failure is the error of a call that must fail, as an *llm.Error.
func Failure(t testing.TB, resp *llm.Response, err error) *llm.Error {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; the answer is %+v", resp)
	}
	if resp != nil {
		t.Errorf("an answer came with the error %v", err)
	}
	e, ok := err.(*llm.Error) //nolint:errorlint // adapters' errors are bare
	if !ok {
		t.Fatalf("the error is a %T: %v", err, err)
	}
	return e
}

// HasNoKey checks that no key is in any text of an error or of those it wraps.
func HasNoKey(t testing.TB, e *llm.Error, keys ...string) {
	t.Helper()
	for err := error(e); err != nil; err = errors.Unwrap(err) {
		text := err.Error()
		if in, ok := err.(*llm.Error); ok { //nolint:errorlint // each link is looked at
			ev := in.Evidence
			text = fmt.Sprint(text, in.Message, ev.Body, ev.Message, ev.Code, ev.Param, ev.Type, ev.Header)
		}
		for _, key := range keys {
			if strings.Contains(text, key) {
				t.Errorf("%q is in %s", key, text)
			}
		}
	}
}

// Quote is s as a JSON text.
func Quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // no string fails
	}
	return string(b)
}

// Serve starts a server. The client has connections of its own, which the test closes.
func Serve(t testing.TB, h http.Handler) (url string, client *http.Client) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL, Client(t)
}

// Client is one with connections of its own, which the test closes.
func Client(t testing.TB) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Says answers every request so; header alternates between name and value.
func Says(status int, kind, body string, header ...string) http.HandlerFunc {
	f := Fixture{status, http.Header{"Content-Type": {kind}}, body}
	for i := 0; i+1 < len(header); i += 2 {
		f.Header.Set(header[i], header[i+1])
	}
	return f.ServeHTTP
}

// A Fixture is an HTTP answer.
type Fixture struct {
	Status int
	Header http.Header
	Body   string
}

// Load reads one from a file: the status on the first line, then headers, a blank line, and the body.
func Load(t testing.TB, file string) Fixture {
	t.Helper()
	raw, err := os.ReadFile(file) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(strings.NewReader(string(raw)))
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	status, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	header, err := textproto.NewReader(in).ReadMIMEHeader()
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return Fixture{status, http.Header(header), string(body)}
}

// ServeHTTP answers a request.
func (f Fixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	maps.Copy(w.Header(), f.Header)
	if f.Header.Get("Content-Type") == "" {
		w.Header()["Content-Type"] = nil // no guess of the server's
	}
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, f.Body)
}

// A Recorder answers every request by Next and keeps the last.
type Recorder struct {
	Next http.Handler

	mu    sync.Mutex
	last  *http.Request
	body  string
	calls int
}

// ServeHTTP answers a request.
func (s *Recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.last, s.body = r.Clone(context.WithoutCancel(r.Context())), string(b)
	s.calls++
	s.mu.Unlock()
	r.Body = http.NoBody
	s.Next.ServeHTTP(w, r)
}

// Of answers by next from now on, and counts anew.
func (s *Recorder) Of(next http.HandlerFunc) http.HandlerFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Next, s.calls = next, 0
	return s.ServeHTTP
}

// Calls is the number of requests.
func (s *Recorder) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Last is the last request, whose body is Body.
func (s *Recorder) Last() *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Body is the body of the last request.
func (s *Recorder) Body() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.body
}

// RoundTripper makes a function the transport of an http.Client.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// InMemory is a client whose requests are answered so, without a connection. body gets the context of the request.
func InMemory(status int, kind string, body func(context.Context) io.Reader) *http.Client {
	return &http.Client{Transport: RoundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
		}
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Request: r, Body: io.NopCloser(body(r.Context())),
		}, nil
	})}
}

// Failing is a client whose requests fail so.
func Failing(err error) *http.Client {
	return &http.Client{Transport: RoundTripper(func(*http.Request) (*http.Response, error) { return nil, err })}
}
