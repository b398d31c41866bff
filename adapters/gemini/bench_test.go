package gemini_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "google.golang.org/genai"

	"github.com/modelchain/llm/adapters/gemini"
	"github.com/modelchain/llm/internal/wiretest"
)

const benchDeltas = 500

// benchStream is a stream in the shape that Google sends: each chunk repeats the usage so far.
func benchStream() string {
	var datas []string
	for i := range benchDeltas {
		end := ""
		if i == benchDeltas-1 {
			end = stop
		}
		datas = append(datas, chunk(fmt.Sprintf(`{"text": " word%d"}`, i%10), end, fmt.Sprintf(
			`,"usageMetadata": {"promptTokenCount": 12,"candidatesTokenCount": %d,"totalTokenCount": %d,`+
				`"promptTokensDetails": [{"modality": "TEXT","tokenCount": 12}],"thoughtsTokenCount": 20}`, i, i+32)))
	}
	return events(datas...)
}

// BenchmarkStream is the cost of a delta from the socket to the sink, a 500th of a call over loopback.
func BenchmarkStream(b *testing.B) {
	m := serve(b, wiretest.Says(200, wiretest.SSE, benchStream()))
	wiretest.BenchStream(b, m)
}

// BenchmarkStreamRead is the same without a socket: from the line of the event to the sink.
func BenchmarkStreamRead(b *testing.B) {
	body := benchStream()
	m := inMemory(func(context.Context) io.Reader { return strings.NewReader(body) })
	wiretest.BenchStream(b, m)
}

// BenchmarkStreamSDK is the same by the SDK's own reader.
func BenchmarkStreamSDK(b *testing.B) {
	client, err := serve(b, wiretest.Says(200, wiretest.SSE, benchStream())).Client(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		for r, err := range client.Models.GenerateContentStream(b.Context(), "gemini-2.5-flash", sdk.Text("hi"), nil) {
			if err != nil {
				b.Fatal(err)
			}
			if r.Text() != "" {
				n++
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/delta")
}

// BenchmarkCall is a whole call with a short answer.
func BenchmarkCall(b *testing.B) {
	m := serve(b, wiretest.Says(200, wiretest.JSON, chunk(`{"text":"Hello"}`, stop, used)))
	wiretest.BenchCall(b, m)
}

// BenchmarkReadFailure is what the adapter and the classifier make of a failure, without a socket.
func BenchmarkReadFailure(b *testing.B) {
	const body = `{"error":{"code":429,"message":"You exceeded your current quota.\nPlease retry in 5.5s.","status":"RESOURCE_EXHAUSTED",` +
		`"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProject"}]},` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"5s"}]}}`
	m := gemini.New(gemini.Config{Model: "gemini-2.5-flash", APIKey: madeUp, HTTPClient: &http.Client{
		Transport: wiretest.RoundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Content-Type": {wiretest.JSON}}, Body: io.NopCloser(strings.NewReader(body))}, nil
		})}})
	wiretest.BenchFailure(b, m)
}
