package bedrock_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/bedrock"
	"github.com/modelchain/llm/llmtest"
)

func TestCaller(t *testing.T) {
	llmtest.TestCaller(t, llmtest.Wire{
		New:   func(t *testing.T, url string) llm.Caller { return bedrock.New(at(t, url)) },
		Serve: llmtest.Serve,
		Event: frameType,
	})
}
