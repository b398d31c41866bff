package anthropic_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
	"github.com/modelchain/llm/internal/wiretest"
)

// One call, whole, that asks for a tool. A server on loopback stands in for Anthropic; leave BaseURL out to talk to the real
// one.
func ExampleModel_Call() {
	server := httptest.NewServer(wiretest.Says(200, wiretest.JSON, `{"type":"message","role":"assistant","model":"claude-opus-4-6",
		"content":[{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Oslo"}}],"stop_reason":"tool_use",
		"usage":{"input_tokens":20,"cache_read_input_tokens":100,"output_tokens":9}}`, "Request-Id", "req_1"))
	defer server.Close()

	claude := anthropic.New(anthropic.Config{BaseURL: server.URL, APIKey: "made-up", Model: "claude-opus-4-6"})
	resp, err := claude.Call(context.Background(), &llm.Request{
		Messages:   []llm.Message{llm.User("How is the weather in Oslo?")},
		Tools:      []llm.Tool{{Name: "weather", Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"}}}`)}},
		ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "weather"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range resp.ToolCalls() {
		fmt.Println(c.Name, string(c.Arguments))
	}
	fmt.Println(resp.Stop, resp.RequestID, resp.Usage.Input, "tokens in, of which", resp.Usage.CachedInput, "cached")
	// Output:
	// weather {"city":"Oslo"}
	// tool_calls req_1 120 tokens in, of which 100 cached
}
