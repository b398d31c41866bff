package anthropic_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	jsonType = "application/json"
	sseType  = "text/event-stream"
	madeUp   = "sk-ant-api03-" + "madeup0madeup1madeup2madeup3"
)

// serve starts a server and a Model that talks to it.
func serve(t testing.TB, h http.HandlerFunc, change ...func(*anthropic.Config)) *anthropic.Model {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	cfg := anthropic.Config{
		BaseURL: server.URL, APIKey: madeUp, Model: "claude-test", HTTPClient: &http.Client{Transport: transport},
	}
	for _, f := range change {
		f(&cfg)
	}
	return anthropic.New(cfg)
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

// events are the events of a stream: the type of each is its name.
func events(datas ...string) string {
	var b strings.Builder
	for _, data := range datas {
		var e struct{ Type string }
		if json.Unmarshal([]byte(data), &e) == nil && e.Type != "" {
			fmt.Fprintf(&b, "event: %s\n", e.Type)
		}
		fmt.Fprintf(&b, "data: %s\n\n", data)
	}
	return b.String()
}

const (
	begun = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],` +
		`"model":"claude-test-1","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}`
	opened = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	closed = `{"type":"content_block_stop","index":0}`
	ended  = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":4}}`
	over   = `{"type":"message_stop"}`
)

func piece(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + string(raw) + `}}`
}

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
