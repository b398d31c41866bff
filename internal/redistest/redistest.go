// Package redistest gives tests a Redis.
//
// [Start] uses the server whose address is in LLM_TEST_REDIS ("redis://user:password@host:6379/0"), else one that it starts
// from the redis-server on the PATH, once for a test binary, on a free port of loopback. [Own] always starts one, for tests
// that stop it or empty it. Where neither is there the test is skipped and says what is missing; with
// LLM_TEST_REQUIRE_SERVERS set it fails.
package redistest

import (
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/modelchain/llm/internal/servertest"
)

const envServer = "LLM_TEST_REDIS"

// shared is the server of this test binary, which ends with the process, however that ends, or with the last reference to
// what start returns.
//
//nolint:gochecknoglobals // one server for all tests of a binary
var shared = sync.OnceValues(func() (*Server, error) {
	if address := os.Getenv(envServer); address != "" {
		return &Server{URL: address}, nil
	}
	return start("")
})

// Start is the address of a server that other tests use too, and a namespace of which no other test knows.
func Start(tb testing.TB) (url, namespace string) {
	tb.Helper()
	s, err := shared()
	servertest.Check(tb, "redistest", err)
	return s.URL, "test-" + strings.ToLower(rand.Text())
}

// Own is a server for this test alone, which ends with it. Each of conf is a line of its configuration.
func Own(tb testing.TB, conf ...string) *Server {
	tb.Helper()
	return own(tb, "", conf...)
}

func own(tb testing.TB, mode string, conf ...string) *Server {
	tb.Helper()
	s, err := start(mode, conf...)
	servertest.Check(tb, "redistest", err)
	tb.Cleanup(func() {
		if err := s.end(); err != nil {
			tb.Errorf("redistest: %v", err)
		}
	})
	return s
}
