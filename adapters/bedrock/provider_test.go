package bedrock_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/bedrock"
	"github.com/modelchain/llm/llmtest"
)

func TestWhatAProviderDoes(t *testing.T) {
	llmtest.TestActs(t, func(t *testing.T, p *llmtest.Provider) llm.Caller {
		return bedrock.New(at(t, p.URL, func(c *bedrock.Config) { c.HTTPClient = p.Client() }))
	})
}
