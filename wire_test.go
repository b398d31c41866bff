package llm_test

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
)

func model(url string, client *http.Client) llm.Caller {
	return openai.New(openai.Config{BaseURL: url + "/v1", APIKey: "k", HTTPClient: client})
}

// inMemory is a client of h over connections that are no sockets, which synctest can tell to be idle.
func inMemory(t *testing.T, h http.Handler) *http.Client {
	l := &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: h}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		reset := new(atomic.Bool)
		select {
		case l.conns <- memoryConn{far, reset}:
			return memoryConn{near, reset}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return &http.Client{Transport: transport}
}

// memoryConn is an end of a connection in memory that can be reset as one of TCP can.
type memoryConn struct {
	net.Conn
	reset *atomic.Bool
}

// SetLinger makes the next Close a reset.
func (c memoryConn) SetLinger(int) error {
	c.reset.Store(true)
	return nil
}

func (c memoryConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && c.reset.Load() {
		err = &net.OpError{Op: "read", Net: "memory", Err: syscall.ECONNRESET}
	}
	return n, err
}

type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	close(l.closed)
	return nil
}

func (l *memoryListener) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }
