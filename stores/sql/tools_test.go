package sqlstore

import (
	"cmp"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/tools"
	"github.com/modelchain/llm/tools/toolstest"
)

func TestToolsKeepTheContractOfAStore(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		s := mustOpen(t, p, Config{})
		toolstest.TestStore(t, func(t *testing.T) tools.Store {
			if _, err := s.read().exec(t.Context(), "DELETE FROM llm_tool_call"); err != nil {
				t.Fatal(err)
			}
			return s.Tools()
		})
	})
}

func TestNoToolRunsWithoutItsRecord(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		s, err := p.open(t.Context(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		world := toolWorld(t.TempDir())
		e := world.executor(s.Tools(), func() {})
		for _, tool := range []string{unkeyed, keyed, reconciled} {
			if _, err := e.Run(t.Context(), "open", toolAnswer(tool)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, tool := range []string{unkeyed, keyed, reconciled} {
			_, err := e.Run(t.Context(), "closed", toolAnswer(tool))
			if le := llm.AsError(err); le.Class != llm.Unavailable || le.Commit != llm.CommitNone {
				t.Errorf("%s with a store that is closed: %v", tool, err)
			}
		}
		if done, err := world.effects("closed"); len(done) != 0 || err != nil {
			t.Errorf("the effects are %q, %v", done, err)
		}
	})
}

func TestTheRecordOfAToolOutlivesItsStore(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		world := toolWorld(t.TempDir())
		var first string
		for i := range 3 {
			s, err := p.open(t.Context(), Config{})
			if err != nil {
				t.Fatal(err)
			}
			e := world.executor(s.Tools(), func() {})
			msg, err := e.Run(t.Context(), "turn", toolAnswer(unkeyed))
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = receiptOf(msg)
				err = e.Acknowledge(t.Context(), "turn")
			}
			if done, failed := world.effects("turn"); receiptOf(msg) != first || len(done) != 1 || failed != nil {
				t.Errorf("opened for time %d: the result is %q, first %q, the effects %q, %v", i+1, receiptOf(msg), first, done, failed)
			}
			if err := cmp.Or(err, s.Close()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
