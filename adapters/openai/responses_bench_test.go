package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

// benchResponses is a stream in the shape that OpenAI sends.
func benchResponses() string {
	const id = "msg_68c187e279048192be3775da689aa25105ca09a4773fcd25"
	var b, text strings.Builder
	b.WriteString(created + added)
	for i := range benchChunks {
		word := fmt.Sprintf(" word%d", i%10)
		text.WriteString(word)
		fmt.Fprintf(&b, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":%d,\"item_id\":%q,"+
			"\"output_index\":0,\"content_index\":0,\"delta\":%q,\"logprobs\":[],\"obfuscation\":\"Yx3Kd9\"}\n\n", i+4, id, word)
	}
	whole := messageItem(text.String())
	b.WriteString(event("response.output_text.done", `"item_id":"`+id+`","output_index":0,"content_index":0,"text":`+wiretest.Quote(text.String())))
	b.WriteString(event("response.output_item.done", `"output_index":0,"item":`+whole) + completed(whole))
	return b.String()
}

// BenchmarkResponsesStream is the cost of a delta from the socket to the sink, a 500th of a call over loopback.
func BenchmarkResponsesStream(b *testing.B) {
	m := openai.NewResponses(openai.Config{BaseURL: benchServer(b, 200, wiretest.SSE, benchResponses()), Model: "gpt-5"})
	wiretest.BenchStream(b, m)
}

// BenchmarkResponsesUnary is a whole call over loopback.
func BenchmarkResponsesUnary(b *testing.B) {
	body := wholeResponse("completed", llm.Usage{Input: 9, Output: 2}, messageItem("Hello there"))
	m := openai.NewResponses(openai.Config{BaseURL: benchServer(b, 200, wiretest.JSON, body), Model: "gpt-5"})
	wiretest.BenchCall(b, m)
}
