// Package pgtest gives tests a PostgreSQL database of their own.
//
// With the address of a server in LLM_TEST_POSTGRES ("postgres://user:password@host:5432/postgres", of a user who may create
// databases) it uses that one. Else it starts one from the programs on the PATH or where Debian puts them, once for a test
// binary, on a free port of loopback. Where neither is there the test is skipped and says what is missing; with
// LLM_TEST_REQUIRE_SERVERS set it fails.
package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelchain/llm/internal/servertest"
)

const envServer = "LLM_TEST_POSTGRES"

// server is one that answers.
type server struct {
	admin string    // the address of a database from which others are made
	psql  string    // the program
	alive io.Closer // the pipe whose end ends the server. nil: it is not ours
}

// shared is the server of this test binary. The one it starts ends with the process, however that ends: see start.
//
//nolint:gochecknoglobals // one server for all tests of a binary
var shared = sync.OnceValues(func() (*server, error) {
	if dsn := os.Getenv(envServer); dsn != "" {
		return given(dsn)
	}
	return start()
})

// Start is the address of a new, empty database, which is dropped when the test ends.
func Start(tb testing.TB) (dsn string) {
	tb.Helper()
	s, err := shared()
	servertest.Check(tb, "pgtest", err)
	name := "llm_test_" + strings.ToLower(rand.Text())
	if err := s.run("CREATE DATABASE " + name); err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.run("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"); err != nil {
			tb.Errorf("pgtest: %v", err)
		}
	})
	return s.database(name)
}

// Admin is the address of the server's own database, from which a test can make the database of [Start] unreachable.
func Admin(tb testing.TB) (dsn string) {
	tb.Helper()
	s, err := shared()
	if err != nil {
		tb.Fatalf("pgtest: Admin before Start: %v", err)
	}
	return s.admin
}

func (s *server) database(name string) string {
	u, err := url.Parse(s.admin)
	if err != nil { // it was parsed before
		return s.admin
	}
	u.Path = "/" + name
	return u.String()
}

// run executes one statement.
func (s *server) run(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, s.psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", s.admin, "-c", sql)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", sql, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// given is the server of envServer.
func given(dsn string) (*server, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Path == "" {
		return nil, fmt.Errorf("%s is no address of the form postgres://user:password@host:5432/postgres", envServer)
	}
	psql, err := program("psql")
	if err != nil {
		return nil, servertest.Missing(envServer + " is set, and " + err.Error())
	}
	s := &server{admin: dsn, psql: psql}
	if err := s.run("SELECT 1"); err != nil {
		return nil, fmt.Errorf("the server of %s: %w", envServer, err)
	}
	return s, nil
}
