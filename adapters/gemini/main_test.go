package gemini_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
)

func TestMain(m *testing.M) {
	// A library beneath the SDK starts one goroutine for the life of the process when it is loaded.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

const (
	jsonType = "application/json"
	sseType  = "text/event-stream"
	madeUp   = "AIza" + "SyMadeUp0MadeUp1MadeUp2MadeUp3Made"
)

// serve starts a server and a Model that talks to it.
func serve(t testing.TB, h http.HandlerFunc, change ...func(*gemini.Config)) *gemini.Model {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	cfg := gemini.Config{
		BaseURL: server.URL, APIKey: madeUp, Model: "gemini-2.5-flash", HTTPClient: &http.Client{Transport: transport},
	}
	for _, f := range change {
		f(&cfg)
	}
	return gemini.New(cfg)
}

// says answers every request so.
func says(status int, kind, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// events are the events of a stream, with the line ends that Google sends.
func events(datas ...string) string {
	var b strings.Builder
	for _, data := range datas {
		b.WriteString("data: " + data + "\r\n\r\n")
	}
	return b.String()
}

func quote(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// chunk is a piece of an answer: its parts as JSON, and what else the candidate and the chunk have.
func chunk(parts, candidate, more string) string {
	return `{"candidates":[{"content":{"parts":[` + parts + `],"role":"model"}` + candidate + `,"index":0}]` + more +
		`,"modelVersion":"gemini-2.5-flash-001","responseId":"resp-1"}`
}

func piece(text string) string { return chunk(`{"text":`+quote(text)+`}`, "", "") }

const (
	stop = `,"finishReason":"STOP"`
	used = `,"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":4,"totalTokenCount":14}`
)

func ask(text string) *llm.Request {
	return &llm.Request{Messages: []llm.Message{llm.User(text)}}
}

// streamed is ask with a sink that adds up.
func streamed(acc *llm.Accumulator) *llm.Request {
	r := ask("Hello?")
	r.Sink = func(d llm.Delta) error {
		acc.Add(d)
		return nil
	}
	return r
}

// failure is the error of a call that must fail.
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

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
