package openai_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/llmtest"
)

func TestWhatAProviderDoes(t *testing.T) {
	llmtest.TestActs(t, func(_ *testing.T, p *llmtest.Provider) llm.Caller {
		return openai.New(openai.Config{BaseURL: p.URL, APIKey: "key-made-up", HTTPClient: p.Client()})
	})
}

func TestWhatAProviderDoesWithResponses(t *testing.T) {
	llmtest.TestActs(t, func(_ *testing.T, p *llmtest.Provider) llm.Caller {
		return openai.NewResponses(openai.Config{BaseURL: p.URL, APIKey: "key-made-up", HTTPClient: p.Client()})
	})
}
