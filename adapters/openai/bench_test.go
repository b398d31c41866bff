package openai_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

const benchChunks = 500

// benchStream is a stream in the shape that OpenAI sends.
func benchStream() string {
	var b strings.Builder
	const head = `{"id":"chatcmpl-Ckq2HtFxE0PZ8uYVnGd4RJ7s1bWoX","object":"chat.completion.chunk","created":1764460800,` +
		`"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_1a2b3c4d5e",`
	b.WriteString("data: " + head + `"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},` +
		`"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"kq0"}` + "\n\n")
	for i := range benchChunks {
		fmt.Fprintf(&b, "data: %s"+`"choices":[{"index":0,"delta":{"content":" word%d"},"logprobs":null,"finish_reason":null}],`+
			`"usage":null,"obfuscation":"Yx3Kd9"}`+"\n\n", head, i%10)
	}
	b.WriteString("data: " + head + `"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}` + "\n\n")
	b.WriteString("data: " + head + `"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":500,"total_tokens":512,` +
		`"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}` + "\n\n")
	b.WriteString("data: [DONE]\n\n")
	return b.String()
}

func benchServer(b *testing.B, status int, kind, body string) string {
	b.Helper()
	url, _ := wiretest.Serve(b, wiretest.Says(status, kind, body))
	return url
}

// BenchmarkStream is the cost of a delta from the socket to the sink, a 500th of a call over loopback.
func BenchmarkStream(b *testing.B) {
	m := openai.New(openai.Config{BaseURL: benchServer(b, 200, "text/event-stream", benchStream()), Model: "gpt-4o"})
	wiretest.BenchStream(b, m)
}

// BenchmarkStreamSDK is the same by the reader of go-openai.
func BenchmarkStreamSDK(b *testing.B) {
	cfg := sdk.DefaultConfig("")
	cfg.BaseURL = benchServer(b, 200, "text/event-stream", benchStream())
	client := sdk.NewClientWithConfig(cfg)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		s, err := client.CreateChatCompletionStream(b.Context(), sdk.ChatCompletionRequest{
			Model: "gpt-4o", Messages: []sdk.ChatCompletionMessage{{Role: "user", Content: "hi"}}, Stream: true,
		})
		if err != nil {
			b.Fatal(err)
		}
		for {
			_, err := s.Recv()
			if err != nil {
				break
			}
			n++
		}
		_ = s.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/delta")
}

const rateLimited = `{"error":{"message":"Rate limit reached for gpt-4o in organization org-EXAMPLE on tokens per min (TPM): ` +
	`Limit 30000, Used 29937, Requested 385. Please try again in 644ms.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`

// BenchmarkFailure is a call that fails with 429, over loopback.
func BenchmarkFailure(b *testing.B) {
	m := openai.New(openai.Config{BaseURL: benchServer(b, 429, "application/json", rateLimited), Model: "gpt-4o"})
	wiretest.BenchFailure(b, m)
}

// BenchmarkReadFailure is the same without a socket: what the adapter and the classifier make of the answer.
func BenchmarkReadFailure(b *testing.B) {
	header := http.Header{
		"Content-Type": {wiretest.JSON}, "X-Request-Id": {"req_made_up"}, "Retry-After": {"1"}, "Retry-After-Ms": {"644"}, "Date": {"Mon, 30 Nov 2026 00:00:00 GMT"},
		"X-Ratelimit-Limit-Requests": {"10000"}, "X-Ratelimit-Remaining-Requests": {"9999"}, "X-Ratelimit-Reset-Requests": {"6ms"},
	}
	m := openai.New(openai.Config{Model: "gpt-4o", APIKey: "key-made-up-123", HTTPClient: &http.Client{
		Transport: wiretest.RoundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: header, Body: io.NopCloser(strings.NewReader(rateLimited))}, nil
		})}})
	wiretest.BenchFailure(b, m)
}

// BenchmarkUnary is a whole call over loopback.
func BenchmarkUnary(b *testing.B) {
	body := `{"id":"chatcmpl-1","object":"chat.completion","model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant",` +
		`"content":"Hello there"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`
	m := openai.New(openai.Config{BaseURL: benchServer(b, 200, "application/json", body), Model: "gpt-4o"})
	wiretest.BenchCall(b, m)
}
