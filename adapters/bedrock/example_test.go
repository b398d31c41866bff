package bedrock_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/bedrock"
	"github.com/modelchain/llm/internal/wiretest"
)

// A model behind a Deployment, asked for a stream. A server on loopback stands in for Bedrock; leave BaseURL out to talk to
// the real one. Credentials are usually those of config.LoadDefaultConfig.
func Example() {
	server := httptest.NewServer(wiretest.Says(200, frameType, begun+piece("Four")+piece(", I think.")+closed+ended+told))
	defer server.Close()
	claude := &llm.Deployment{
		Name: "claude-us", Provider: "aws.bedrock", Model: "us.anthropic.claude-opus-4-6-v1:0",
		Has: llm.CanText | llm.CanStream | llm.CanTools | llm.CanImages | llm.CanFiles | llm.CanSchema | llm.CanReasoning,
		Caller: bedrock.New(bedrock.Config{
			Region: "us-east-1", BaseURL: server.URL,
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
			}),
		}),
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

// What only Bedrock has goes through Extra: a guardrail and the model's own parameters for the request, a mark for the
// prompt cache where it is to take effect.
func Example_extra() {
	long := llm.Text("…a long text…")
	long.Extra = extra(`{"cachePoint":{"type":"default"}}`)
	req := &llm.Request{
		Model:    "us.anthropic.claude-opus-4-6-v1:0",
		Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{long, llm.Text("What is it about?")}}},
		Extra: extra(`{"guardrailConfig":{"guardrailIdentifier":"g1","guardrailVersion":"1"},
			"additionalModelRequestFields":{"thinking":{"type":"adaptive"}}}`),
	}
	server := httptest.NewServer(wiretest.Says(200, wiretest.JSON, answerOf("guardrail_intervened", tenFour, `{"text":"Not about that."}`)))
	defer server.Close()
	resp, err := bedrock.New(bedrock.Config{Region: "us-east-1", BaseURL: server.URL, APIKey: "made-up"}).Call(context.Background(), req)
	fmt.Println(resp.Text(), resp.Refused(), err)
	// Output: Not about that. true <nil>
}
