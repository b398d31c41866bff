package bedrock_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"

	"github.com/modelchain/llm/internal/wiretest"
)

const benchDeltas = 500

// benchStream is a stream in the shape that Bedrock sends.
func benchStream() string {
	var b strings.Builder
	b.WriteString(begun)
	for i := range benchDeltas {
		b.WriteString(piece(fmt.Sprintf(" word%d", i%10)))
	}
	return b.String() + closed + ended + told
}

// BenchmarkStream is the cost of a delta from the socket to the sink, a 500th of a call over loopback.
func BenchmarkStream(b *testing.B) {
	m := serve(b, wiretest.Says(200, frameType, benchStream()))
	wiretest.BenchStream(b, m)
}

// BenchmarkStreamSDK is the same by the SDK's own reader.
func BenchmarkStreamSDK(b *testing.B) {
	client := serve(b, wiretest.Says(200, frameType, benchStream())).Client()
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		out, err := client.ConverseStream(b.Context(), &bedrockruntime.ConverseStreamInput{
			ModelId: aws.String("m"), Messages: []types.Message{{
				Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: "hi"}},
			}},
		})
		if err != nil {
			b.Fatal(err)
		}
		for e := range out.GetStream().Events() {
			if d, ok := e.(*types.ConverseStreamOutputMemberContentBlockDelta); ok {
				if _, ok := d.Value.Delta.(*types.ContentBlockDeltaMemberText); ok {
					n++
				}
			}
		}
		_ = out.GetStream().Close() // it fails at times although the stream was whole
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/delta")
}

// BenchmarkCall is a whole call with a short answer.
func BenchmarkCall(b *testing.B) {
	m := serve(b, wiretest.Says(200, wiretest.JSON, hello))
	wiretest.BenchCall(b, m)
}

// BenchmarkFailure is a call that fails, whose evidence is read and classified.
func BenchmarkFailure(b *testing.B) {
	m := serve(b, wiretest.Says(429, wiretest.JSON, `{"message":"Too many requests, please wait."}`, "X-Amzn-Errortype", "ThrottlingException"))
	wiretest.BenchFailure(b, m)
}
