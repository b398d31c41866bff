package anthropic_test

import (
	"fmt"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/modelchain/llm/internal/wiretest"
)

const benchDeltas = 500

// benchStream is a stream in the shape that Anthropic sends.
func benchStream() string {
	datas := []string{begun, opened, `{"type":"ping"}`}
	for i := range benchDeltas {
		datas = append(datas, piece(fmt.Sprintf(" word%d", i%10)))
	}
	return events(append(datas, closed, ended, over)...)
}

// BenchmarkStream is the cost of a delta from the socket to the sink, a 500th of a call over loopback.
func BenchmarkStream(b *testing.B) {
	m := serve(b, wiretest.Says(200, wiretest.SSE, benchStream()))
	wiretest.BenchStream(b, m)
}

// BenchmarkStreamSDK is the same by the SDK's own reader.
func BenchmarkStreamSDK(b *testing.B) {
	client := serve(b, wiretest.Says(200, wiretest.SSE, benchStream())).Client()
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		s := client.Messages.NewStreaming(b.Context(), sdk.MessageNewParams{
			Model: "claude-test", MaxTokens: 100, Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("hi"))},
		})
		for s.Next() {
			if s.Current().Delta.Text != "" {
				n++
			}
		}
		if err := s.Err(); err != nil {
			b.Fatal(err)
		}
		_ = s.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/delta")
}

// BenchmarkCall is a whole call with a short answer.
func BenchmarkCall(b *testing.B) {
	m := serve(b, wiretest.Says(200, wiretest.JSON, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[`+
		`{"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":4}}`))
	wiretest.BenchCall(b, m)
}

// BenchmarkFailure is a call that fails, whose evidence is read and classified.
func BenchmarkFailure(b *testing.B) {
	m := serve(b, wiretest.Says(429, wiretest.JSON, `{"type":"error","error":{"type":"rate_limit_error","message":"Slow down."}}`, "Retry-After", "3"))
	wiretest.BenchFailure(b, m)
}
