package rough

import (
	"testing"

	"github.com/modelchain/llm"
)

func TestInputCountsEverythingThatIsSent(t *testing.T) {
	text := llm.Text("12345")
	image := llm.Part{Kind: llm.PartImage, Data: make([]byte, 1000)}
	for name, test := range map[string]struct {
		req          llm.Request
		bytes, media int
	}{
		"nothing":     {},
		"system":      {req: llm.Request{System: "1234567"}, bytes: 7},
		"a message":   {req: llm.Request{Messages: []llm.Message{{Parts: []llm.Part{text, text}}}}, bytes: 26},
		"an image":    {req: llm.Request{Messages: []llm.Message{{Parts: []llm.Part{image}}}}, bytes: 16, media: 1},
		"a call":      {req: llm.Request{Messages: []llm.Message{{Parts: []llm.Part{{Kind: llm.PartToolCall, Call: &llm.ToolCall{Name: "f", Arguments: []byte(`{}`)}}}}}}, bytes: 19},
		"its result":  {req: llm.Request{Messages: []llm.Message{{Parts: []llm.Part{{Kind: llm.PartToolResult, Result: &llm.ToolResult{Parts: []llm.Part{text, image}}}}}}}, bytes: 21, media: 1},
		"a tool":      {req: llm.Request{Tools: []llm.Tool{{Name: "f", Description: "ab", Parameters: []byte(`{}`)}}}, bytes: 5},
		"its schema":  {req: llm.Request{Format: &llm.Format{Schema: []byte(`{"a":1}`)}}, bytes: 7},
		"two of them": {req: llm.Request{Messages: []llm.Message{{Parts: []llm.Part{image}}, {Parts: []llm.Part{image}}}}, bytes: 32, media: 2},
	} {
		if bytes, media := Input(&test.req); bytes != test.bytes || media != test.media {
			t.Errorf("%s: %d bytes and %d media, want %d and %d", name, bytes, media, test.bytes, test.media)
		}
	}
}
