package openai_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

// One call, whole. A server on loopback stands in for OpenAI; leave BaseURL out to talk to the real one.
func ExampleModel_Call() {
	server := httptest.NewServer(wiretest.Says(200, wiretest.JSON, `{"model":"gpt-4o-2024-08-06","choices":[{"index":0,"message":
		{"role":"assistant","content":"Hello."},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":2,
		"prompt_tokens_details":{"cached_tokens":8}}}`, "X-Request-Id", "req_1"))
	defer server.Close()

	model := openai.New(openai.Config{BaseURL: server.URL + "/v1", APIKey: "made-up", Model: "gpt-4o"})
	resp, err := model.Call(context.Background(), &llm.Request{Messages: []llm.Message{llm.User("Say hello.")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Text(), resp.Stop, resp.Model, resp.RequestID)
	fmt.Println(resp.Usage.Input, "tokens in, of which", resp.Usage.CachedInput, "cached;", resp.Usage.Output, "out")
	// Output:
	// Hello. end gpt-4o-2024-08-06 req_1
	// 12 tokens in, of which 8 cached; 2 out
}

// The Responses API, streamed to a sink: llm.Stream is a loop around the same.
func ExampleResponses_Call() {
	server := httptest.NewServer(wiretest.Says(200, wiretest.SSE, helloWhole))
	defer server.Close()

	model := openai.NewResponses(openai.Config{BaseURL: server.URL + "/v1", APIKey: "made-up", Model: "gpt-5"})
	resp, err := model.Call(context.Background(), &llm.Request{
		Messages: []llm.Message{llm.User("Say hello.")},
		Effort:   "low",
		Sink: func(d llm.Delta) error {
			fmt.Printf("%q ", d.Text)
			return nil
		},
	})
	fmt.Println(resp.Stop, resp.Usage.Output, "tokens", err)
	// Output: "Hel" "lo" end 2 tokens <nil>
}

// Azure in both of its forms: the v1 API, where Model is the deployment's name in the body, and the dated one, where it is in
// the path. A server on loopback stands in for https://NAME.openai.azure.com.
func Example_azure() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.URL, r.Header.Get("Api-Key"))
		if r.Header.Get("Accept") == wiretest.JSON {
			wiretest.Says(200, wiretest.JSON, `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},
				"finish_reason":"stop"}]}`).ServeHTTP(w, r)
			return
		}
		wiretest.Says(200, wiretest.SSE, first+second+end+usage+done).ServeHTTP(w, r)
	}))
	defer server.Close()

	req := &llm.Request{Messages: []llm.Message{llm.User("Say hello.")}}
	azure := openai.Config{Provider: "azure", BaseURL: server.URL, APIKey: "made-up", Model: "my-gpt-4o"}
	resp, err := openai.New(azure).Call(context.Background(), req)
	fmt.Println(resp.Text(), err)

	azure.APIVersion = "2024-10-21"
	for d, err := range llm.Stream(context.Background(), openai.New(azure), req) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(d.Text, " ")
	}
	// Output:
	// /openai/v1/chat/completions made-up
	// Hello <nil>
	// /openai/deployments/my-gpt-4o/chat/completions?api-version=2024-10-21 made-up
	// Hel lo
}
