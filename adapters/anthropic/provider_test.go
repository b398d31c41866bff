package anthropic_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
	"github.com/modelchain/llm/llmtest"
)

func TestWhatAProviderDoes(t *testing.T) {
	llmtest.TestActs(t, func(_ *testing.T, p *llmtest.Provider) llm.Caller {
		return anthropic.New(anthropic.Config{BaseURL: p.URL, APIKey: madeUp, HTTPClient: p.Client()})
	})
}
