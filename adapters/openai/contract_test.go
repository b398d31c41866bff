package openai_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
	"github.com/modelchain/llm/llmtest"
)

func TestContract(t *testing.T) {
	llmtest.TestCaller(t, llmtest.Wire{
		New: func(_ *testing.T, url string) llm.Caller {
			return openai.New(openai.Config{BaseURL: url, APIKey: "key-made-up"})
		},
		Serve: llmtest.Serve,
		Event: wiretest.SSE,
	})
}
