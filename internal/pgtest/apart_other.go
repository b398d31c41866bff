//go:build !unix

package pgtest

import "github.com/modelchain/llm/internal/servertest"

import "os/exec"

func apart(*exec.Cmd, string) error {
	return servertest.Missing(envServer + " is not set, and servers are started on Unix alone")
}
