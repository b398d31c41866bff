package llmtest

import (
	"testing"

	"github.com/modelchain/llm"
)

func TestAStageThatPassesKeepsTheContract(t *testing.T) {
	TestStage(t, StageConfig{New: func() llm.Stage { return Pass("pass") }})
}
