package anthropic_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
	"github.com/modelchain/llm/internal/wiretest"
)

// A model behind a Deployment, asked for a stream. A server on loopback stands in for Anthropic; leave BaseURL out to talk to
// the real one.
func Example() {
	server := httptest.NewServer(wiretest.Says(200, wiretest.SSE, events(begun, opened, piece("Four"), piece(", I think."), closed, ended, over)))
	defer server.Close()
	const model = "claude-opus-4-6"
	claude := &llm.Deployment{
		Name: "claude", Provider: "anthropic", Model: model, Has: anthropic.Capabilities(model),
		Caller: anthropic.New(anthropic.Config{BaseURL: server.URL, APIKey: os.Getenv("ANTHROPIC_API_KEY")}),
	}
	req := &llm.Request{System: "Be brief.", Messages: []llm.Message{llm.User("2 + 2?")}, MaxTokens: 100, Effort: "low"}
	for d, err := range llm.Stream(context.Background(), claude, req) {
		switch {
		case err != nil:
			fmt.Println(err)
		case d.Kind == llm.DeltaText:
			fmt.Printf("%q ", d.Text)
		case d.Kind == llm.DeltaEnd:
			fmt.Printf("%s %+v\n", d.Response.Stop, d.Response.Usage)
		}
	}
	// Output: "Four" ", I think." end {Input:10 Output:4 CachedInput:0 CacheWrite:0 Reasoning:0 Estimated:false}
}

// Reasoning that comes with a signature goes back with the conversation as it came, and a mark for the prompt cache stands
// where it is to take effect.
func Example_extra() {
	long := llm.Text("…a long text…")
	long.Extra = extra(`{"cache_control":{"type":"ephemeral"}}`)
	thought := llm.Part{Kind: llm.PartReasoning, Text: "Hm.", Extra: extra(`{"signature":"c2ln"}`)} // from an earlier answer
	req := &llm.Request{
		Model: "claude-opus-4-6", Extra: extra(`{"thinking":{"type":"adaptive"}}`),
		Messages: []llm.Message{
			{Role: llm.RoleUser, Parts: []llm.Part{long, llm.Text("What is it about?")}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{thought, llm.Text("Cats.")}},
			llm.User("Sure?"),
		},
	}
	server := httptest.NewServer(wiretest.Says(200, wiretest.JSON, hello))
	defer server.Close()
	resp, err := anthropic.New(anthropic.Config{BaseURL: server.URL}).Call(context.Background(), req)
	fmt.Println(resp.Text(), err)
	// Output: Hello <nil>
}
