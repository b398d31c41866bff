package tools_test

import (
	"testing"

	"github.com/modelchain/llm/tools"
	"github.com/modelchain/llm/tools/toolstest"
)

func TestMemoryKeepsTheContractOfAStore(t *testing.T) {
	toolstest.TestStore(t, func(*testing.T) tools.Store { return tools.NewMemory() })
}
