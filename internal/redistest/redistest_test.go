package redistest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/modelchain/llm/internal/redistest"
)

// dial is a connection that has said who it is.
func dial(t *testing.T, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	r := bufio.NewReader(c)
	password, _ := u.User.Password()
	if got := say(t, c, r, "AUTH "+password); got != "+OK" {
		t.Fatalf("AUTH: %s", got)
	}
	return c, r
}

func say(t *testing.T, c io.Writer, r *bufio.Reader, line string) string {
	t.Helper()
	if _, err := fmt.Fprintf(c, "%s\r\n", line); err != nil {
		t.Fatal(err)
	}
	got, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(got)
}

func TestAServerOfOnesOwnCanBeKilledAndComesBackEmpty(t *testing.T) {
	s := redistest.Own(t)
	c, r := dial(t, s.URL)
	if got := say(t, c, r, "SET k v"); got != "+OK" {
		t.Fatalf("SET: %s", got)
	}
	s.Pause(t)
	s.Resume(t)
	if got := say(t, c, r, "EXISTS k"); got != ":1" {
		t.Errorf("EXISTS after the pause: %s", got)
	}
	s.Kill(t)
	if got, err := r.ReadString('\n'); err == nil {
		t.Errorf("the server that was killed says %q", got)
	}
	s.Restart(t)
	c, r = dial(t, s.URL)
	if got := say(t, c, r, "EXISTS k"); got != ":0" {
		t.Errorf("EXISTS after the restart: %s", got)
	}
}

func TestTestsShareAServerAndNoNamespace(t *testing.T) {
	a, nsA := redistest.Start(t)
	b, nsB := redistest.Start(t)
	if a != b || nsA == nsB {
		t.Errorf("%s and %s, want one server and two namespaces", nsA, nsB)
	}
	runtime.GC() // which closes what nobody holds
	runtime.GC()
	c, r := dial(t, a)
	if got := say(t, c, r, "PING"); got != "+PONG" {
		t.Errorf("the server says %q", got)
	}
}

const childEnv = "REDISTEST_CHILD"

// TestMain is also the process that TestTheServerEndsWithItsProcess kills.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	test := testing.InternalTest{Name: "child", F: func(t *testing.T) {
		if _, err := fmt.Fprintln(os.Stdout, redistest.Own(t).URL); err != nil {
			t.Fatal(err)
		}
		select {}
	}}
	testing.Main(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{test}, nil, nil)
}

func TestTheServerEndsWithItsProcess(t *testing.T) {
	redistest.Start(t) // skips where there is no server
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=child")
	c.Env = append(os.Environ(), childEnv+"=1")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, r := dial(t, strings.TrimSpace(address))
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got, err := r.ReadString('\n'); err == nil { // it hangs up when it ends
		t.Errorf("the server says %q: it goes on", got)
	}
	if err := c.Wait(); err == nil {
		t.Error("the process was not killed")
	}
}
