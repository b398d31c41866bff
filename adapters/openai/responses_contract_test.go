package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
	"github.com/modelchain/llm/llmtest"
)

func TestResponsesContract(t *testing.T) {
	llmtest.TestCaller(t, llmtest.Wire{
		New: func(_ *testing.T, url string) llm.Caller {
			return openai.NewResponses(openai.Config{BaseURL: url, APIKey: "key-made-up"})
		},
		Serve: llmtest.Serve,
		Event: wiretest.SSE,
	})
}

// event is one event of a stream, under the name that OpenAI gives it beside its type.
func event(kind, fields string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":7,%s}\n\n", kind, kind, fields)
}

func messageItem(text string) string {
	return `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":` +
		wiretest.Quote(text) + `}]}`
}

func callItem(c *llm.ToolCall) string {
	return fmt.Sprintf(`{"id":"fc_%s","type":"function_call","status":"completed","call_id":%q,"name":%q,"arguments":%s}`, c.ID, c.ID, c.Name,
		wiretest.Quote(string(c.Arguments)))
}

func wholeResponse(status string, u llm.Usage, items ...string) string {
	return fmt.Sprintf(`{"id":"resp_1","object":"response","created_at":1764460800,"status":%q,"error":null,"incomplete_details":null,`+
		`"instructions":"Be brief.","model":"m-1","output":[%s],"store":false,"tools":[],`+
		`"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":0},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":9}}`,
		status, strings.Join(items, ","), u.Input, u.Output)
}
