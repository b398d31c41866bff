package bedrock_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/bedrock"
	"github.com/modelchain/llm/internal/wiretest"
)

// config is that of a model with a name.
func config(s wiretest.Settings) bedrock.Config {
	return bedrock.Config{
		Region: "us-east-1", BaseURL: s.URL, HTTPClient: s.HTTP, APIKey: s.APIKey, Key: s.Key, Header: s.Header, Model: "m",
	}
}

func TestWhatEveryAdapterDoes(t *testing.T) {
	failure := func(message string) string { return `{"message":` + wiretest.Quote(message) + `}` }
	wiretest.Test(t, wiretest.API{
		New:    func(s wiretest.Settings) llm.Caller { return bedrock.New(config(s)) },
		Config: func(s wiretest.Settings) any { return config(s) },
		Whole:  hello, Cut: `{"output"`,
		Kind: frameType, Silent: begun, Hel: begun + piece("Hel"), Hello: begun + piece("Hel") + piece("lo") + closed + ended + told,
		Damaged: []string{
			delta(0, `"lost"`), delta(0, `["lost"]`), delta(0, `{"text":{"value":"lost"}}`), delta(0, `{"text":["lost"]}`),
			delta(0, `{"toolUse":"lost"}`), event("contentBlockDelta", `{bad`), event("contentBlockDelta", `lost text`),
			event("contentBlockDelta", `["lost"]`), event("contentBlockStart", `{"start":"lost"}`), event("messageStop", `["lost"]`),
			frame(`{"delta":{"text":"lost"}}`), frame(`lost`, ":message-type", "event"),
			event("contentBlockStart", `{"contentBlockIndex":1,"start":{"toolResult":{"toolUseId":"x"}}}`) + delta(1, `{"text":"lost"}`),
		},
		Lost: []string{
			`{"output":{"message":{"content":["lost"]}},"stopReason":"end_turn"}`, `{"output":{"message":{"content":"lost"}}}`,
			`{"output":{"message":{"content":[{"text":["lost"]}]}},"stopReason":"end_turn"}`, `["lost"]`, `lost`,
		},
		Nothing: []string{
			delta(0, `null`), delta(0, `{}`), delta(0, `{"text":null}`), delta(0, `{"newKind":{"text":"x"}}`), event("newKind", `{"text":"x"}`),
			event("contentBlockStart", `{"contentBlockIndex":1,"start":{}}`), frame(``), frame(`{}`),
		},
		Counted: func(input, output string) string {
			return `{"output":{"message":{"content":[{"text":"Hello"}]}},"stopReason":"end_turn","usage":{"inputTokens":` + input + `,"outputTokens":` + output + `}}`
		},
		Failure: failure,
		Told: func(message string) string {
			return `{"__type":"com.amazon.coral.service#InternalServerException","message":` + wiretest.Quote(message) + `}`
		},
		InBand: func(message string) string { return exception("internalServerException", failure(message)) },
	})
}
