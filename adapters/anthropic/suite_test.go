package anthropic_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
	"github.com/modelchain/llm/internal/wiretest"
)

// apart are events, a stream of each.
func apart(data ...string) []string {
	for i := range data {
		data[i] = events(data[i])
	}
	return data
}

// delta is an event that continues the first block.
func delta(what string) string {
	return `{"type":"content_block_delta","index":0,"delta":` + what + `}`
}

// config is that of a model with a name.
func config(s wiretest.Settings) anthropic.Config {
	return anthropic.Config{
		BaseURL: s.URL, HTTPClient: s.HTTP, APIKey: s.APIKey, Key: s.Key, Header: s.Header, Model: "m",
	}
}

func TestWhatEveryAdapterDoes(t *testing.T) {
	failure := func(message string) string {
		return `{"type":"error","error":{"type":"api_error","message":` + wiretest.Quote(message) + `}}`
	}
	wiretest.Test(t, wiretest.API{
		New:    func(s wiretest.Settings) llm.Caller { return anthropic.New(config(s)) },
		Config: func(s wiretest.Settings) any { return config(s) },
		Whole:  hello, Cut: `{"id":"msg_1"`,
		Kind: wiretest.SSE, Silent: events(begun, opened), Hel: events(begun, opened, piece("Hel")),
		Hello: events(begun, opened, piece("Hel"), piece("lo"), closed, ended, over),
		Damaged: apart(
			delta(`"lost"`), delta(`["lost"]`), delta(`{"text":"lost"}`), delta(`{"type":"text_delta","text":{"value":"lost"}}`),
			delta(`{"type":"text_delta","text":["lost"]}`), delta(`{"type":"input_json_delta","partial_json":{"a":1}}`),
			`{"type":"content_block_start","index":1,"content_block":"lost"}`, `{"type":"content_block_start","index":1,"content_block":["lost"]}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":{"value":"lost"}}}`,
			`{"choices":[{"delta":{"content":"lost"}}]}`, `{"delta":{"type":"text_delta","text":"lost"}}`, `{"text":"lost"}`,
			`{bad`, `lost text`, `["lost"]`, `"lost"`, `7`, `ping`,
		),
		Lost: []string{
			`{"type":"message","content":["lost"],"stop_reason":"end_turn"}`, `{"type":"message","content":"lost","stop_reason":"end_turn"}`,
			`{"type":"message","content":[{"type":"text","text":{"value":"lost"}}],"stop_reason":"end_turn"}`, `["lost"]`, `lost`,
		},
		Nothing: append(apart(
			delta(`null`), delta(`{}`), delta(`{"type":"text_delta","text":null}`), delta(`{"type":"text_delta"}`), delta(`{"type":"mood_delta","mood":"x"}`),
			`{"type":"weather","text":"x"}`, `{"type":"ping"}`, `{"id":"x"}`, `{"type":"content_block_start","index":1,"content_block":null}`, `: keepalive`, ``,
		), ": comment\n\n", "event: ping\ndata: x\n\n"),
		Counted: func(input, output string) string {
			return `{"type":"message","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":` + input + `,"output_tokens":` + output + `}}`
		},
		Failure: failure, InBand: func(message string) string { return events(failure(message)) },
	})
}
