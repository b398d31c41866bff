//go:build !unix

package redistest

import (
	"testing"

	"github.com/modelchain/llm/internal/servertest"
)

// Server is one that a test has for itself.
type Server struct {
	// URL is its address.
	URL string
}

// Pause stops the process.
func (s *Server) Pause(tb testing.TB) { tb.Fatal("redistest: servers are started on Unix alone") }

// Resume ends Pause.
func (s *Server) Resume(tb testing.TB) { tb.Fatal("redistest: servers are started on Unix alone") }

// Kill ends the process.
func (s *Server) Kill(tb testing.TB) { tb.Fatal("redistest: servers are started on Unix alone") }

// Restart starts it anew.
func (s *Server) Restart(tb testing.TB) { tb.Fatal("redistest: servers are started on Unix alone") }

// Replica starts a replica of it.
func (s *Server) Replica(tb testing.TB) *Server {
	tb.Fatal("redistest: servers are started on Unix alone")
	return nil
}

// Sentinel starts what watches it.
func (s *Server) Sentinel(tb testing.TB, _ string) *Server {
	tb.Fatal("redistest: servers are started on Unix alone")
	return nil
}

func (s *Server) end() error { return nil }

func start(string, ...string) (*Server, error) {
	return nil, servertest.Missing(envServer + " is not set, and servers are started on Unix alone")
}
