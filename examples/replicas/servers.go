package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// providers are two on loopback, of which the primary can be down.
type providers struct {
	*httptest.Server
	down atomic.Bool

	mu   sync.Mutex
	seen map[string]map[string]int // calls by provider and replica
}

func newProviders() *providers {
	p := &providers{seen: map[string]map[string]int{"primary": {}, "backup": {}}}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	return p
}

func (p *providers) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	p.mu.Lock()
	if p.seen[name] != nil {
		p.seen[name][r.Header.Get("Replica")]++
	}
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if name == "primary" && p.down.Load() {
		timer := time.NewTimer(200 * time.Millisecond) // so that calls at the same time meet
		defer timer.Stop()
		<-timer.C
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error": {"message": "The server is overloaded.", "type": "server_error"}}`)
		return
	}
	fmt.Fprintf(w, `{"id": "1", "object": "chat.completion", "model": %q, "choices": [{"index": 0, "finish_reason": "stop",
		"message": {"role": "assistant", "content": "One of several."}}],
		"usage": {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16}}`, name)
}

// callers are the calls to the primary by replica.
func (p *providers) callers() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.seen["primary"])
}

func (p *providers) calls(provider string, replica int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[provider][strconv.Itoa(replica)]
}

var errNoRedis = errors.New("there is no Redis")

// redisServer is the address of a Redis, and what ends it.
func redisServer(ctx context.Context) (url string, stop func(), err error) {
	if url = os.Getenv("REDIS_URL"); url != "" {
		return url, func() {}, nil
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return "", nil, errNoRedis
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err := errors.Join(err, l.Close()); err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "replicas")
	if err != nil {
		return "", nil, err
	}
	//nolint:gosec // the port is a number
	c := exec.CommandContext(ctx, "redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no",
		"--dir", dir)
	if err := c.Start(); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		_ = os.RemoveAll(dir)
	}
	address := net.JoinHostPort("127.0.0.1", port)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp4", address)
		if err == nil {
			_ = conn.Close()
			return "redis://" + address + "/0", stop, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			stop()
			return "", nil, fmt.Errorf("redis-server does not start: %w", err)
		}
	}
}
