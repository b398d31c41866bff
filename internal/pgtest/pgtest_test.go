package pgtest_test

import (
	"bufio"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm/internal/pgtest"
)

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	a, b := pgtest.Start(t), pgtest.Start(t)
	ua, err := url.Parse(a)
	if err != nil {
		t.Fatal(err)
	}
	ub, err := url.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if ua.Host != ub.Host || ua.Path == ub.Path {
		t.Errorf("%s and %s: want one server and two databases", ua.Redacted(), ub.Redacted())
	}
}

const childEnv = "PGTEST_CHILD"

// TestMain is also the process that TestTheServerEndsWithItsProcess kills.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	test := testing.InternalTest{Name: "child", F: func(t *testing.T) {
		u, err := url.Parse(pgtest.Start(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stdout.WriteString("at " + u.Host + "\n"); err != nil {
			t.Fatal(err)
		}
		select {}
	}}
	testing.Main(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{test}, nil, nil)
}

func TestTheServerEndsWithItsProcess(t *testing.T) {
	pgtest.Start(t) // skips where there is no server
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=child")
	c.Env = append(os.Environ(), childEnv+"=1", "LLM_TEST_POSTGRES=")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines, host := bufio.NewScanner(out), ""
	for host == "" && lines.Scan() {
		host, _ = strings.CutPrefix(lines.Text(), "at ")
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The server hangs up when it ends, however long a busy machine takes for that. By itself it would wait ten minutes for
	// who has not said who he is.
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the server sent %d bytes, %v: it goes on", n, err)
	}
	if err := c.Wait(); err == nil {
		t.Error("the process was not killed")
	}
}
