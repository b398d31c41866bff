//go:build !unix

package pgtest

import "os/exec"

func apart(*exec.Cmd, string) error {
	return missing(envServer + " is not set, and servers are started on Unix alone")
}
