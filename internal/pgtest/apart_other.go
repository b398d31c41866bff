//go:build !unix

package pgtest

import (
	"os/exec"

	"github.com/modelchain/llm/internal/servertest"
)

func apart(*exec.Cmd, string) error {
	return servertest.Missing(envServer + " is not set, and servers are started on Unix alone")
}
