package redisstore

import (
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// proxy is a network between a process and a Redis, on loopback: it holds what is sent, is slow, and can lead elsewhere.
type proxy struct {
	URL string

	listener net.Listener
	ended    sync.WaitGroup

	mu    sync.Mutex
	to    string
	delay time.Duration
	held  chan struct{} // closed when it forwards. nil: it does
	conns map[net.Conn]struct{}
	over  bool
}

// newProxy leads to the server at address.
func newProxy(t *testing.T, address string) *proxy {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: u.Host, conns: map[net.Conn]struct{}{}}
	u.Host = l.Addr().String()
	p.URL = u.String()
	p.ended.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
		p.forward()
		p.hangUp()
		p.ended.Wait()
	})
	return p
}

// hold forwards nothing from now on; connections stay.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// forward ends hold: what was sent meanwhile arrives.
func (p *proxy) forward() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// slow makes everything arrive so much later, each way.
func (p *proxy) slow(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// lead makes it lead to another server, and ends the connections to the old one.
func (p *proxy) lead(t *testing.T, address string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.to = u.Host
	p.mu.Unlock()
	p.hangUp()
}

func (p *proxy) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		to := p.to
		p.mu.Unlock()
		out, err := net.Dial("tcp4", to)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.conns[in], p.conns[out] = struct{}{}, struct{}{}
		if p.over {
			_, _ = in.Close(), out.Close()
		}
		p.mu.Unlock()
		p.ended.Go(func() { p.pass(in, out) })
		p.ended.Go(func() { p.pass(out, in) })
	}
}

func (p *proxy) pass(from, to net.Conn) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
		delete(p.conns, to)
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		held, delay := p.held, p.delay
		p.mu.Unlock()
		if held != nil {
			<-held
		}
		if delay > 0 {
			wait(delay)
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
