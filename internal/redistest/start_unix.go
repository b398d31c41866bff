//go:build unix

package redistest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/modelchain/llm/internal/servertest"
)

// script runs a server until its standard input ends, which is when the process that holds the other end of the pipe does,
// also by SIGKILL: no signal, exit handler or TestMain has to work for the server to end and its files to go. The kill works
// on one that is stopped too.
const script = `
dir=$1
trap 'rm -rf "$dir"' EXIT
trap '' INT TERM HUP
cd "$dir" || exit 1
redis-server conf $2 >log 2>&1 &
pid=$!
until grep -qE 'Ready to accept|Sentinel ID is' log; do
	kill -0 $pid 2>/dev/null || { tr '\n' ' ' <log; exit 1; }
	sleep 0.02
done
echo ready $pid
cat >/dev/null
kill -KILL $pid 2>/dev/null
wait $pid 2>/dev/null
exit 0
`

// Server is one that a test has for itself.
type Server struct {
	// URL is its address, "redis://:password@127.0.0.1:port/0".
	URL string

	cmd   *exec.Cmd
	pid   int
	alive io.Closer // the pipe whose end ends the server
	mode  string    // an argument of its own, such as --sentinel
	conf  []string
}

// Replica starts a server for this test alone that is a replica of s, with its password.
func (s *Server) Replica(tb testing.TB) *Server {
	tb.Helper()
	host, port, password := s.parts(tb)
	r := own(tb, "", "requirepass "+password, "masterauth "+password, "replicaof "+host+" "+port, "repl-diskless-sync-delay 0")
	_, port, _ = r.parts(tb)
	r.URL = address(port, password)
	return r
}

// Sentinel starts one for this test alone that watches s and its replicas, under a name, and is asked without a password.
func (s *Server) Sentinel(tb testing.TB, name string) *Server {
	tb.Helper()
	host, port, password := s.parts(tb)
	return own(tb, "--sentinel", "sentinel monitor "+name+" "+host+" "+port+" 1", "sentinel auth-pass "+name+" "+password,
		"sentinel down-after-milliseconds "+name+" 500")
}

func (s *Server) parts(tb testing.TB) (host, port, password string) {
	tb.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	password, _ = u.User.Password()
	return u.Hostname(), u.Port(), password
}

// Pause stops the process with SIGSTOP: connections stay, and nothing answers.
func (s *Server) Pause(tb testing.TB) {
	tb.Helper()
	s.signal(tb, syscall.SIGSTOP)
}

// Resume ends Pause.
func (s *Server) Resume(tb testing.TB) {
	tb.Helper()
	s.signal(tb, syscall.SIGCONT)
}

// Kill ends the process with SIGKILL, and all that it knew is gone.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	s.signal(tb, syscall.SIGKILL)
}

// Restart starts an empty server at the address of one that was killed.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	u, err := url.Parse(s.URL)
	if err == nil {
		_ = s.end() // its process is gone
		password, _ := u.User.Password()
		var next *Server
		if next, err = startOn(u.Port(), password, s.mode, s.conf); err == nil {
			*s = *next
		}
	}
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
}

func (s *Server) signal(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	if err := syscall.Kill(s.pid, sig); err != nil {
		tb.Fatalf("redistest: %v of the server: %v", sig, err)
	}
}

func (s *Server) end() error { return errors.Join(s.alive.Close(), s.cmd.Wait()) }

func start(mode string, conf ...string) (*Server, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, servertest.Missing(envServer + " is not set, and redis-server is not on the PATH; install Redis")
	}
	var failed error
	for range 3 { // somebody else may take the port that was free
		port, err := servertest.FreePort()
		if err != nil {
			return nil, err
		}
		s, err := startOn(strconv.Itoa(port), rand.Text(), mode, conf)
		if err == nil {
			return s, nil
		}
		failed = err
	}
	return nil, failed
}

func startOn(port, password, mode string, more []string) (*Server, error) {
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, err
	}
	conf := fmt.Sprintf("bind 127.0.0.1\nport %s\n", port)
	if mode == "" {
		conf += fmt.Sprintf("requirepass %s\nsave \"\"\nappendonly no\n", password)
	}
	conf += strings.Join(more, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	//nolint:noctx // it is to live as long as the process
	c := exec.Command("/bin/sh", "-c", script, "sh", dir, mode)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of reach of ^C: it ends with its input
	alive, said, err := servertest.Run(c, dir)
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(strings.TrimPrefix(said, "ready "))
	if err != nil {
		return nil, errors.Join(err, alive.Close(), c.Wait())
	}
	return &Server{URL: address(port, password), cmd: c, pid: pid, alive: alive, mode: mode, conf: more}, nil
}

func address(port, password string) string {
	u := url.URL{
		Scheme: "redis", User: url.UserPassword("", password), Host: net.JoinHostPort("127.0.0.1", port), Path: "/0",
	}
	return u.String()
}
