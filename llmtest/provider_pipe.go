package llmtest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// ServePipe serves h over connections in memory, which testing/synctest can tell to be idle, and returns a client whose every
// request goes there, whatever its host. Both end with the test. A handler that hijacks a connection can reset it by SetLinger.
func ServePipe(t testing.TB, h http.Handler) *http.Client {
	t.Helper()
	l := newPipes()
	server := &http.Server{Handler: h} //nolint:gosec // in memory
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	transport := &http.Transport{DialContext: l.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return &http.Client{Transport: transport}
}

// pipes is a listener whose connections are in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (l *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	reset := new(atomic.Bool)
	select {
	case l.conns <- pipe{far, reset}:
		return pipe{near, reset}, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

func (l *pipes) Addr() net.Addr { return pipeAddr{} }

// pipeHost is the address of what only a client of its own reaches. Nothing listens there, so that any other client has an
// ordinary failure to connect at once; a name would be looked up by goroutines outside the bubble, which ends the program.
const pipeHost = "127.0.0.1:0"

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return pipeHost }

// pipe is an end of a connection in memory that can be reset as one of TCP can.
type pipe struct {
	net.Conn
	reset *atomic.Bool
}

// SetLinger makes the next Close a reset.
func (c pipe) SetLinger(int) error {
	c.reset.Store(true)
	return nil
}

func (c pipe) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && c.reset.Load() {
		err = &net.OpError{Op: "read", Net: "pipe", Err: syscall.ECONNRESET}
	}
	return n, err
}

// counted is a listener that tells a Provider of its connections.
type counted struct {
	net.Listener
	p *Provider
}

func (l counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.p.conns.add(1)
	return &countedConn{Conn: c, p: l.p}, nil
}

type countedConn struct {
	net.Conn
	p     *Provider
	close sync.Once
}

func (c *countedConn) Close() error {
	c.close.Do(func() { c.p.conns.add(-1) })
	return c.Conn.Close()
}

// SetLinger is that of the connection.
func (c *countedConn) SetLinger(s int) error {
	if l, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		return l.SetLinger(s)
	}
	return nil
}

// gauge is a number and the highest that it was.
type gauge struct {
	mu        sync.Mutex
	now, most int
}

func (g *gauge) add(n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.most = max(g.most, g.now)
	return g.now
}

func (g *gauge) read() (now, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now, g.most
}
