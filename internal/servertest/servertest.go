// Package servertest is what tests have in common that start a server of their own on loopback.
package servertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// EnvRequire makes a failure of what else is a skip.
const EnvRequire = "LLM_TEST_REQUIRE_SERVERS"

// Missing is what keeps a machine from having a server. Any other error is a failure.
type Missing string

// Error says what is missing and how to get it.
func (m Missing) Error() string { return string(m) }

// Check ends a test that cannot have its server, of which who speaks: it is skipped if something is Missing and may be, else
// it fails.
func Check(tb testing.TB, who string, err error) {
	tb.Helper()
	m, ok := errors.AsType[Missing](err)
	switch {
	case err == nil:
	case !ok:
		tb.Fatalf("%s: %v", who, err)
	case os.Getenv(EnvRequire) != "":
		tb.Fatalf("%s: %v; %s is set, so this is a failure", who, m, EnvRequire)
	default:
		tb.Skipf("%s: %v", who, m)
	}
}

// FreePort is a port of loopback that nobody has now.
func FreePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return 0, err
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.Join(fmt.Errorf("%v is no TCP address", l.Addr()), l.Close())
	}
	return addr.Port, l.Close()
}

// Run starts c, a shell that works in dir, and returns the first line that it says. c lives until alive is closed, which the
// process's end does however that comes: nobody else has the pipe.
func Run(c *exec.Cmd, dir string) (alive io.Closer, said string, err error) {
	failed := func(err error) (io.Closer, string, error) { return nil, "", errors.Join(err, os.RemoveAll(dir)) }
	stdin, err := c.StdinPipe()
	if err != nil {
		return failed(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		return failed(err)
	}
	if err := c.Start(); err != nil {
		return failed(fmt.Errorf("the server's shell cannot be started: %w", err))
	}
	said, err = bufio.NewReader(stdout).ReadString('\n')
	if said = strings.TrimSpace(said); !strings.HasPrefix(said, "ready") {
		return nil, "", errors.Join(fmt.Errorf("the server did not start: %s", said), err, stdin.Close(), c.Wait())
	}
	return stdin, said, nil
}
