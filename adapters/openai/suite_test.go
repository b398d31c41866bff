package openai_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

// frames are JSON values as the events of a stream.
func frames(data ...string) []string {
	for i := range data {
		data[i] = "data: " + data[i] + "\n\n"
	}
	return data
}

// config is that of a model with a name.
func config(s wiretest.Settings) openai.Config {
	return openai.Config{
		BaseURL: s.URL, HTTPClient: s.HTTP, APIKey: s.APIKey, Key: s.Key, Header: s.Header, Model: "m",
	}
}

func TestWhatEveryAdapterDoes(t *testing.T) {
	event := func(message string) string { return `{"error":{"message":` + wiretest.Quote(message) + `}}` }
	wiretest.Test(t, wiretest.API{
		New:    func(s wiretest.Settings) llm.Caller { return openai.New(config(s)) },
		Config: func(s wiretest.Settings) any { return config(s) },
		Whole:  `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`, Cut: `{"choices":[`,
		Kind: wiretest.SSE, Silent: ": hi\n\n", Hel: first, Hello: first + second + end + usage + done,
		Damaged: frames(
			`{"choices":[{"delta":"lost"}]}`, `{"choices":[{"index":0,"delta":{"content":{"text":"lost"}}}]}`, `{"choices":[{"delta":{"content":7}}]}`,
			`{"choices":{"index":0,"delta":{"content":"lost"}}}`, `{"choices":["lost"]}`, `{"choices":[["lost"]]}`, `{"choices":"lost"}`,
			`{"choices":[{"delta":["lost"]}]}`, `{"choices":[{"delta":{"content":["a",7]}}]}`, `{"choices":[{"delta":{"content":[{"content":"lost"}]}}]}`,
			`{"choices":[{"delta":{"content":[{"type":"text","text":{"value":"lost"}}]}}]}`, `{"choices":[{"delta":{"refusal":["lost"]}}]}`,
			`{"choices":[{"delta":{"tool_calls":{"index":0,"function":{"name":"f"}}}}]}`, `{"choices":[{"delta":{"tool_calls":["lost"]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":"lost"}]}}]}`, `{"choices":[{"delta":{"tool_calls":[{"function":{"name":["f"]}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":["lost"]}}]}}]}`, `{"choices":[{"text":["lost"]}]}`,
			`{"choices":[{"delta":{"function_call":"lost"}}]}`, `{"delta":{"content":"lost"}}`, `{"content":"lost"}`, `{"message":{"content":"lost"}}`,
			`{"type":"response.output_text.delta","delta":"lost"}`, `{"response":"lost"}`, `{bad`, `lost text`, `["lost"]`, `"lost"`, `7`, `ping`,
			"{\"choices\":[{\"delta\":{\"content\":\"caf\xc3\"}}]}",
		),
		Lost: []string{
			`{"choices":[{"message":"lost","finish_reason":"stop"}]}`, `{"choices":[{"message":{"content":{"text":"lost"}},"finish_reason":"stop"}]}`,
			`{"choices":[{"message":{"content":"A","tool_calls":"lost"},"finish_reason":"stop"}]}`, `{"choices":["lost"]}`, `["lost"]`, `lost`,
		},
		Nothing: append(frames(
			`{"choices":[]}`, `{"choices":null}`, `{"choices":{}}`, `{"choices":[null]}`, `{"choices":[{}]}`, `{"choices":[{"delta":null}]}`, `{"choices":[{"delta":[]}]}`,
			`{"choices":[{"delta":""}]}`, `{"choices":[{"delta":{"content":null,"refusal":null,"tool_calls":null}}]}`, `{"choices":[{"delta":{"content":[]}}]}`,
			`{"choices":[{"delta":{"content":"","tool_calls":[],"function_call":{}}}]}`, `{"choices":[{"delta":{"content":{},"tool_calls":{}}}]}`,
			`{"choices":[{"index":1,"delta":"of another choice"}]}`, `{"choices":[{"delta":{"reasoning":{"effort":"low"}}}]}`, `{"id":"x"}`, `{"content":""}`,
			`{"choices":[{"delta":{"content":[{"type":"reference","reference_ids":[1]}]}}]}`, `{"choices":[{"delta":{"tool_calls":[null]}}]}`,
			`{"type":"ping"}`, `{"usage":{"prompt_tokens":1}}`, `{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}`, `: keepalive`, ``,
		), ": comment\n\n", "event: ping\ndata: x\n\n", "id: 7\nfoo: x\n\n"),
		Counted: func(input, output string) string {
			return `{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":` + input + `,"completion_tokens":` + output + `}}`
		},
		Failure: event, InBand: func(message string) string { return "data: " + event(message) + "\n\n" },
	})
}

func TestWhatEveryAdapterDoesWithResponses(t *testing.T) {
	failure := func(message string) string { return `{"error":{"message":` + wiretest.Quote(message) + `}}` }
	wiretest.Test(t, wiretest.API{
		New:    func(s wiretest.Settings) llm.Caller { return openai.NewResponses(config(s)) },
		Config: func(s wiretest.Settings) any { return config(s) },
		Whole:  wholeResponse("completed", llm.Usage{Input: 9, Output: 2}, messageItem("Hello")), Cut: `{"object":"response","output":[`,
		Damaged: frames(
			`{"type":"response.output_text.delta","delta":{"text":"lost"}}`, `{"type":"response.output_text.delta","delta":["lost"]}`,
			`{"type":"response.refusal.delta","delta":7}`, `{"type":"response.function_call_arguments.delta","delta":{"a":1}}`,
			`{"type":"response.function_call_arguments.done","arguments":["lost"]}`, `{"type":"response.output_item.added","item":"lost"}`,
			`{"type":"response.output_item.done","item":["lost"]}`, `{"type":"response.output_item.done","item":{"type":"message","content":{"text":"lost"}}}`,
			`{"type":"response.output_item.done","item":{"type":"message","content":["lost"]}}`,
			`{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":{"value":"lost"}}]}}`,
			`{"type":"response.output_item.done","item":{"type":"function_call","name":"f","arguments":["lost"]}}`,
			`{"type":"response.completed","response":"lost"}`, `{"type":"response.completed","response":{"output":{"text":"lost"}}}`,
			`{"type":"response.completed","response":{"output":["lost"]}}`, `{"choices":[{"delta":{"content":"lost"}}]}`, `{"delta":"lost"}`,
			`{bad`, `lost text`, `["lost"]`, `"lost"`, `7`, `ping`,
		),
		Lost: []string{
			`{"object":"response","output":"lost"}`, `{"object":"response","status":"completed","output":["lost"]}`, `["lost"]`, `lost`,
			`{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"A"},"lost"]}]}`,
			`{"object":"response","status":"completed","output":[{"type":"message","content":{"text":"lost"}}]}`,
		},
		Nothing: append(frames(
			`{"type":"response.output_text.delta","delta":null}`, `{"type":"response.output_text.delta","delta":""}`, `{"type":"response.output_text.delta"}`,
			`{"type":"response.new_kind","delta":{"x":1}}`, `{"type":"keepalive","sequence_number":7}`, `{"type":"response.output_item.added","item":null}`,
			`{"type":"response.reasoning_text.delta","delta":{"x":1}}`, `{"type":"ping"}`, `{"id":"x"}`, `: keepalive`, ``,
			`{"type":"response.output_item.done","item":{"type":"new_item","content":"x"}}`,
		), ": comment\n\n", "event: ping\ndata: x\n\n"),
		Kind: wiretest.SSE, Silent: created, Hel: created + added + hel, Hello: helloWhole,
		Counted: func(input, output string) string {
			return `{"object":"response","status":"completed","output":[` + messageItem("Hello") + `],"usage":{"input_tokens":` + input + `,"output_tokens":` + output + `}}`
		},
		Failure: failure,
		InBand:  func(message string) string { return "event: error\ndata: " + failure(message) + "\n\n" },
	})
}
