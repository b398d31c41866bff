package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	official "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	community "github.com/sashabaranov/go-openai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
)

const streamChunks = 500

// streamBody is a stream in the shape that OpenAI sends.
func streamBody() string {
	var b strings.Builder
	const head = `{"id":"chatcmpl-Ckq2HtFxE0PZ8uYVnGd4RJ7s1bWoX","object":"chat.completion.chunk","created":1764460800,` +
		`"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_1a2b3c4d5e",`
	event := func(format string, args ...any) { fmt.Fprintf(&b, "data: "+head+format+"\n\n", args...) }
	event(`"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],` +
		`"usage":null,"obfuscation":"kq0"}`)
	for i := range streamChunks {
		event(`"choices":[{"index":0,"delta":{"content":" word%d"},"logprobs":null,"finish_reason":null}],"usage":null,`+
			`"obfuscation":"Yx3Kd9"}`, i%10)
	}
	event(`"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`)
	event(`"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":500,"total_tokens":512,` +
		`"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`)
	b.WriteString("data: [DONE]\n\n")
	return b.String()
}

// A reader makes one streamed call, and returns the number of pieces with text in them.
type reader func(context.Context) (int, error)

// readers are ours and those of the two SDKs, against one server.
func readers(baseURL string, client *http.Client) map[string]reader {
	adapter := openai.New(openai.Config{BaseURL: baseURL, APIKey: "key", Model: "gpt-4o", HTTPClient: client})
	cfg := community.DefaultConfig("key")
	cfg.BaseURL, cfg.HTTPClient = baseURL, client
	theirs := community.NewClientWithConfig(cfg)
	ask := community.ChatCompletionRequest{
		Model: "gpt-4o", Messages: []community.ChatCompletionMessage{{Role: "user", Content: "hi"}}, Stream: true,
	}
	sdk := official.NewClient(option.WithBaseURL(baseURL), option.WithAPIKey("key"), option.WithHTTPClient(client),
		option.WithMaxRetries(0))
	return map[string]reader{
		"llm": func(ctx context.Context) (n int, err error) {
			_, err = adapter.Call(ctx, &llm.Request{
				Messages: []llm.Message{llm.User("hi")}, Sink: func(llm.Delta) error { n++; return nil },
			})
			return n, err
		},
		"go-openai": func(ctx context.Context) (n int, err error) {
			s, err := theirs.CreateChatCompletionStream(ctx, ask)
			if err != nil {
				return 0, err
			}
			defer s.Close()
			for {
				chunk, err := s.Recv()
				if errors.Is(err, io.EOF) {
					return n, nil
				}
				if err != nil {
					return n, err
				}
				if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
					n++
				}
			}
		},
		"openai-go": func(ctx context.Context) (n int, err error) {
			s := sdk.Chat.Completions.NewStreaming(ctx, official.ChatCompletionNewParams{
				Model: "gpt-4o", Messages: []official.ChatCompletionMessageParamUnion{official.UserMessage("hi")},
			})
			for s.Next() {
				if c := s.Current(); len(c.Choices) > 0 && c.Choices[0].Delta.Content != "" {
					n++
				}
			}
			return n, s.Err()
		},
	}
}

// inMemory answers every request with body, without a socket.
type inMemory string

func (body inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(string(body))),
	}, nil
}

func streamServer(b *testing.B) (body string, srv *httptest.Server) {
	body = streamBody()
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, body)
	}))
	b.Cleanup(srv.Close)
	return body, srv
}

func readStream(b *testing.B, read reader) {
	n, err := read(b.Context())
	if err != nil || n != streamChunks {
		b.Fatalf("%d of %d pieces, %v", n, streamChunks, err)
	}
}

// BenchmarkReadStream is a delta's way from the provider's bytes to the reader, a 500th of a call: over loopback with the
// server's own work in it, and from memory.
func BenchmarkReadStream(b *testing.B) {
	body, srv := streamServer(b)
	for _, from := range []struct {
		name string
		all  map[string]reader
	}{
		{"loopback", readers(srv.URL, srv.Client())},
		{"memory", readers("http://in.memory", &http.Client{Transport: inMemory(body)})},
	} {
		for _, name := range []string{"llm", "go-openai", "openai-go"} {
			b.Run(from.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					readStream(b, from.all[name])
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*streamChunks), "ns/delta")
				b.StopTimer()
				b.ReportMetric(testing.AllocsPerRun(5, func() { readStream(b, from.all[name]) })/streamChunks, "allocs/delta")
			})
		}
	}
}

// BenchmarkReadStreamInTurn takes turns with the three over loopback, so that what else the machine does falls on all alike.
func BenchmarkReadStreamInTurn(b *testing.B) {
	_, srv := streamServer(b)
	all, took, turns := readers(srv.URL, srv.Client()), map[string]time.Duration{}, 0
	for b.Loop() {
		for name, read := range all {
			start := time.Now()
			readStream(b, read)
			took[name] += time.Since(start)
		}
		turns++
	}
	for name, d := range took {
		b.ReportMetric(float64(d)/float64(turns*streamChunks), name+"-ns/delta")
	}
}
