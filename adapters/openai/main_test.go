package openai_test

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fixture is an HTTP answer in testdata: the status on the first line, then headers, a blank line, and the body.
type fixture struct {
	status int
	header http.Header
	body   string
}

func load(t testing.TB, name string) fixture {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
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
	return fixture{status, http.Header(header), string(body)}
}

func answer(kind, body string) fixture {
	return fixture{200, http.Header{"Content-Type": {kind}}, body}
}

const (
	sse  = "text/event-stream"
	json = "application/json"
)

func (f fixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	maps.Copy(w.Header(), f.header)
	if f.header.Get("Content-Type") == "" {
		w.Header()["Content-Type"] = nil // no guess of the server's
	}
	w.WriteHeader(f.status)
	_, _ = io.WriteString(w, f.body)
}

// serve starts a provider and returns a model that speaks to it.
func serve(t testing.TB, h http.Handler, cfg openai.Config) *openai.Model {
	t.Helper()
	return openai.New(served(t, h, cfg))
}

// serveResponses is serve for the Responses API.
func serveResponses(t testing.TB, h http.Handler, cfg openai.Config) *openai.Responses {
	t.Helper()
	return openai.NewResponses(served(t, h, cfg))
}

func served(t testing.TB, h http.Handler, cfg openai.Config) openai.Config {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	cfg.BaseURL = srv.URL
	if cfg.Model == "" {
		cfg.Model = "gpt-4o"
	}
	return cfg
}

func ask(text string) *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User(text)}} }

// collect makes a call with a sink and returns what it was handed.
func collect(ctx context.Context, c llm.Caller, req *llm.Request) ([]llm.Delta, *llm.Response, error) {
	var deltas []llm.Delta
	r := req.Clone()
	r.Sink = func(d llm.Delta) error {
		deltas = append(deltas, d)
		return nil
	}
	resp, err := c.Call(ctx, r)
	return deltas, resp, err
}

// failure is the error of a call that must fail, as an *llm.Error.
func failure(t testing.TB, resp *llm.Response, err error) *llm.Error {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; the answer is %+v", resp)
	}
	if resp != nil {
		t.Errorf("an answer came with the error %v", err)
	}
	e, ok := err.(*llm.Error) //nolint:errorlint // the adapter's own errors are bare
	if !ok {
		t.Fatalf("the error is a %T: %v", err, err)
	}
	return e
}
