package openai_test

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"net/http/httptest"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

func Example() {
	// Stands in for a provider.
	server := httptest.NewServer(wiretest.Says(200, wiretest.SSE, first+second+end+usage+done))
	defer server.Close()

	model := &llm.Deployment{Name: "local", Caller: openai.New(openai.Config{
		BaseURL: server.URL + "/v1",
		Model:   "gpt-4o",
	})}
	req := &llm.Request{System: "Be brief.", Messages: []llm.Message{llm.User("Say hello.")}}
	for d, err := range llm.Stream(context.Background(), model, req) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch d.Kind {
		case llm.DeltaText:
			fmt.Printf("%q\n", d.Text)
		case llm.DeltaEnd:
			fmt.Println(d.Response.Stop, d.Response.Usage.Output, "tokens")
		}
	}
	// Output:
	// "Hel"
	// "lo"
	// end 2 tokens
}

func ExampleNew() {
	// A known provider needs its name and a key.
	groq := openai.New(openai.Config{Provider: "groq", APIKey: "key", Model: "llama-3.3-70b-versatile"})
	// Azure needs the resource's address.
	azure := openai.New(openai.Config{Provider: "azure", BaseURL: "https://example.openai.azure.com", APIKey: "key", Model: "my-gpt-4o"})
	// Any other server that speaks like OpenAI needs its address.
	own := openai.New(openai.Config{Provider: "ours", BaseURL: "http://models.internal:8000/v1", Model: "qwen3"})
	fmt.Println(groq)
	fmt.Println(azure)
	fmt.Println(own)
	// Output:
	// groq at api.groq.com
	// azure at example.openai.azure.com
	// ours at models.internal:8000
}

func ExampleModel_Client() {
	server := httptest.NewServer(wiretest.Says(200, wiretest.JSON, `{"data":[{"index":0,"embedding":[0.25,0.5]}]}`))
	defer server.Close()
	model := openai.New(openai.Config{BaseURL: server.URL})

	guard := llm.NewGuard("embeddings", llm.New()) // any chain of stages
	result, err := llm.Do(context.Background(), guard, func(ctx context.Context) (sdk.EmbeddingResponse, error) {
		r, err := model.Client().CreateEmbeddings(ctx, sdk.EmbeddingRequestStrings{Input: []string{"hello"}, Model: "embed"})
		return r, model.AsError(ctx, err)
	})
	fmt.Println(result.Data[0].Embedding, err)
	// Output: [0.25 0.5] <nil>
}

func ExampleNewResponses() {
	// Stands in for a provider.
	server := httptest.NewServer(wiretest.Says(200, wiretest.SSE, helloWhole))
	defer server.Close()

	model := &llm.Deployment{Name: "local", Caller: openai.NewResponses(openai.Config{
		BaseURL: server.URL + "/v1",
		Model:   "gpt-5",
	})}
	conversation := []llm.Message{llm.User("Say hello.")}
	resp, err := model.Call(context.Background(), &llm.Request{
		Messages: conversation,
		Effort:   "low",
		Extra:    map[string]stdjson.RawMessage{"openai": stdjson.RawMessage(`{"text":{"verbosity":"low"}}`)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Text(), resp.Stop)

	// The parts carry what the next call needs of them, reasoning too.
	conversation = append(conversation, llm.Message{Role: llm.RoleAssistant, Parts: resp.Parts}, llm.User("Again."))
	fmt.Println(len(conversation), "messages")
	// Output:
	// Hello end
	// 3 messages
}
