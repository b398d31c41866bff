package bedrock_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/bedrock"
	"github.com/modelchain/llm/internal/wiretest"
)

// One call with a Bedrock API key, whole. A server on loopback stands in for Bedrock; leave BaseURL out to talk to the real
// one.
func ExampleModel_Call() {
	server := httptest.NewServer(wiretest.Says(200, wiretest.JSON, hello, "X-Amzn-Requestid", "req-1"))
	defer server.Close()

	model := bedrock.New(bedrock.Config{Region: "us-east-1", BaseURL: server.URL, APIKey: "made-up", Model: "amazon.nova-lite-v1:0"})
	resp, err := model.Call(context.Background(), &llm.Request{Messages: []llm.Message{llm.User("Say hello.")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Text(), resp.Stop, resp.RequestID, resp.Usage.Input, "+", resp.Usage.Output, "tokens")
	// Output: Hello end req-1 10 + 4 tokens
}
