package anthropic_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/modelchain/llm/adapters/anthropic"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	madeUp = "sk-ant-api03-" + "madeup0madeup1madeup2madeup3"
)

// serve starts a server and a Model that talks to it.
func serve(t testing.TB, h http.HandlerFunc, change ...func(*anthropic.Config)) *anthropic.Model {
	t.Helper()
	url, client := wiretest.Serve(t, h)
	cfg := anthropic.Config{BaseURL: url, APIKey: madeUp, Model: "claude-test", HTTPClient: client}
	for _, f := range change {
		f(&cfg)
	}
	return anthropic.New(cfg)
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
	return `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + wiretest.Quote(text) + `}}`
}
