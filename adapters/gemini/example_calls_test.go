package gemini_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
	"github.com/modelchain/llm/internal/wiretest"
)

// One call of the Developer API, whole. A server on loopback stands in for Google; leave BaseURL out to talk to the real one.
func ExampleModel_Call() {
	server := httptest.NewServer(wiretest.Says(200, wiretest.JSON, chunk(`{"text":"Four."}`, stop,
		`,"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":2,"thoughtsTokenCount":30}`)))
	defer server.Close()

	model := gemini.New(gemini.Config{BaseURL: server.URL, APIKey: "made-up", Model: "gemini-2.5-flash"})
	resp, err := model.Call(context.Background(), &llm.Request{Messages: []llm.Message{llm.User("2 + 2?")}, Effort: "low"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Text(), resp.Stop, resp.RequestID)
	fmt.Println(resp.Usage.Output, "tokens out, of which", resp.Usage.Reasoning, "thoughts")
	// Output:
	// Four. end resp-1
	// 32 tokens out, of which 30 thoughts
}

// Vertex AI, whole and streamed. Key is where a token source of Google's auth library belongs.
func Example_vertex() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.URL, r.Header.Get("Authorization"))
		if r.URL.Query().Get("alt") == "sse" {
			wiretest.Says(200, wiretest.SSE, events(piece("Four"), chunk(`{"text":"."}`, stop, used))).ServeHTTP(w, r)
			return
		}
		wiretest.Says(200, wiretest.JSON, chunk(`{"text":"Four."}`, stop, used)).ServeHTTP(w, r)
	}))
	defer server.Close()

	model := gemini.New(gemini.Config{
		BaseURL: server.URL, Project: "my-project", Location: "europe-west4", Model: "gemini-2.5-flash",
		Key: func(context.Context) (string, error) { return "token", nil },
	})
	req := &llm.Request{Messages: []llm.Message{llm.User("2 + 2?")}}
	resp, err := model.Call(context.Background(), req)
	fmt.Println(resp.Text(), err)
	for d, err := range llm.Stream(context.Background(), model, req) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(d.Text, " ")
	}
	// Output:
	// /v1beta1/projects/my-project/locations/europe-west4/publishers/google/models/gemini-2.5-flash:generateContent Bearer token
	// Four. <nil>
	// /v1beta1/projects/my-project/locations/europe-west4/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse Bearer token
	// Four .
}
