package gemini_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
	"github.com/modelchain/llm/llmtest"
)

func TestWhatAProviderDoes(t *testing.T) {
	llmtest.TestActs(t, func(_ *testing.T, p *llmtest.Provider) llm.Caller {
		return gemini.New(gemini.Config{BaseURL: p.URL, APIKey: madeUp, HTTPClient: p.Client()})
	})
}

func TestWhatAProviderDoesAtVertex(t *testing.T) {
	llmtest.TestActs(t, func(_ *testing.T, p *llmtest.Provider) llm.Caller {
		return gemini.New(gemini.Config{
			BaseURL: p.URL, APIKey: madeUp, HTTPClient: p.Client(), Project: "my-project", Location: "europe-west4",
		})
	})
}
