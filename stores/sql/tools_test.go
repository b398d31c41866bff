package sqlstore

import (
	"testing"

	"github.com/modelchain/llm/tools"
	"github.com/modelchain/llm/tools/toolstest"
)

func TestToolsKeepTheContractOfAStore(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		toolstest.TestStore(t, func(t *testing.T) tools.Store { return mustOpen(t, sqlitePlace(t), Config{}).Tools() })
	})
	t.Run("postgres", func(t *testing.T) {
		toolstest.TestStore(t, func(t *testing.T) tools.Store { return mustOpen(t, postgresPlace(t), Config{}).Tools() })
	})
}
