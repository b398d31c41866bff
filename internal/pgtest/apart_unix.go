//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"

	"github.com/modelchain/llm/internal/servertest"
)

// apart keeps c out of reach of signals for this process's group, such as ^C: it ends with its input. PostgreSQL refuses to
// run as root, so c is then the user postgres.
func apart(c *exec.Cmd, dir string) error {
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return servertest.Missing("PostgreSQL does not run as root, and there is no user postgres: " + err.Error())
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return fmt.Errorf("the user postgres: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return fmt.Errorf("the user postgres: %w", err)
	}
	c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	for _, path := range []string{dir, dir + "/password"} {
		if err := os.Chown(path, int(uid), int(gid)); err != nil {
			return err
		}
	}
	return nil
}
