package anthropic_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
	"github.com/modelchain/llm/internal/wiretest"
	"github.com/modelchain/llm/llmtest"
)

func TestCaller(t *testing.T) {
	llmtest.TestCaller(t, llmtest.Wire{
		New: func(t *testing.T, url string) llm.Caller {
			return anthropic.New(anthropic.Config{BaseURL: url, APIKey: madeUp, HTTPClient: wiretest.Client(t)})
		},
		Serve: llmtest.Serve,
		Event: wiretest.SSE,
	})
}
