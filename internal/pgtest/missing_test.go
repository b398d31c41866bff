package pgtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/modelchain/llm/internal/servertest"
)

func TestWithoutItsProgramsItSaysWhatToInstall(t *testing.T) {
	// A program that no machine has.
	_, err := programs("no-such-program-of-postgres")
	if m, ok := errors.AsType[servertest.Missing](err); !ok || !strings.Contains(m.Error(), "install PostgreSQL") {
		t.Fatalf("without its programs: %v", err)
	}
}
