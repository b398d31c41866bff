package gemini_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	sdk "google.golang.org/genai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
	"github.com/modelchain/llm/internal/wiretest"
)

func Example() {
	// Stands in for the provider.
	server := httptest.NewServer(wiretest.Says(200, wiretest.SSE, events(piece("Hel"), chunk(`{"text":"lo"}`, stop, used))))
	defer server.Close()

	model := &llm.Deployment{Name: "flash", Caller: gemini.New(gemini.Config{
		BaseURL: server.URL, // left out for the real one
		APIKey:  "key",
		Model:   "gemini-2.5-flash",
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
	// end 4 tokens
}

func ExampleNew() {
	developer := gemini.New(gemini.Config{APIKey: "key", Model: "gemini-2.5-flash"})
	vertex := gemini.New(gemini.Config{
		Project: "my-project", Location: "europe-west4", Model: "gemini-2.5-flash",
		// A token source of Google's auth library belongs here: tokens last an hour.
		Key: func(context.Context) (string, error) { return "token", nil },
	})
	fmt.Println(developer)
	fmt.Println(vertex)
	// Output:
	// gemini at generativelanguage.googleapis.com
	// vertex at europe-west4-aiplatform.googleapis.com
}

func ExampleModel_Client() {
	server := httptest.NewServer(wiretest.Says(200, wiretest.JSON, `{"embeddings":[{"values":[0.25,0.5]}]}`))
	defer server.Close()
	model := gemini.New(gemini.Config{BaseURL: server.URL, APIKey: "key"})
	client, err := model.Client(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}

	guard := llm.NewGuard("embeddings", llm.New()) // any chain of stages
	result, err := llm.Do(context.Background(), guard, func(ctx context.Context) (*sdk.EmbedContentResponse, error) {
		r, err := client.Models.EmbedContent(ctx, "gemini-embedding-001", sdk.Text("hello"), nil)
		return r, model.AsError(ctx, err)
	})
	fmt.Println(result.Embeddings[0].Values, err)
	// Output: [0.25 0.5] <nil>
}
