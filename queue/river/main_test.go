package riverqueue

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/pgtest"
	"github.com/modelchain/llm/middleware"
)

// The variables by which the test binary runs as a worker in a process of its own.
const (
	envDSN      = "RIVERQUEUE_TEST_DSN"
	envProvider = "RIVERQUEUE_TEST_PROVIDER"
	envLease    = "RIVERQUEUE_TEST_LEASE"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(envDSN); dsn != "" {
		if err := child(dsn, os.Getenv(envProvider)); err != nil {
			io.WriteString(os.Stderr, err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child is a worker that runs until its standard input ends, or it is killed.
func child(dsn, provider string) error {
	q, err := Open(context.Background(), Config{DSN: dsn})
	if err != nil {
		return err
	}
	cfg := fast(onionAt(q, provider, middleware.BudgetConfig{Attempts: 9}))
	if cfg.Lease, err = time.ParseDuration(os.Getenv(envLease)); err != nil {
		return err
	}
	w, err := q.Start(context.Background(), cfg)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(os.Stdout, "ready\n"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, w.Stop(context.Background()), q.Close())
}

// process starts a worker in a process of its own, and returns when it works.
func process(t *testing.T, dsn, provider string, lease time.Duration) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), envDSN+"="+dsn, envProvider+"="+provider, envLease+"="+lease.String())
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() {
		in.Close()
		io.Copy(io.Discard, out)
		c.Wait()
	})
	ready := make([]byte, len("ready\n"))
	_, err = io.ReadFull(out, ready)
	must(t, err)
	return c
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// onEach runs test with the address of an empty database of each kind.
func onEach(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, filepath.Join(t.TempDir(), "queue.db"))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, pgtest.Start(t))
	})
}

func open(tb testing.TB, cfg Config) *Queue {
	tb.Helper()
	if cfg.Poll == 0 {
		cfg.Poll = 10 * time.Millisecond
	}
	q, err := Open(tb.Context(), cfg)
	must(tb, err)
	tb.Cleanup(func() { must(tb, q.Close()) })
	return q
}

func fast(c llm.Caller) WorkerConfig {
	return WorkerConfig{
		Callers: func(string) (llm.Caller, error) { return c, nil }, Poll: 20 * time.Millisecond,
	}
}

// watchful is a worker that looks for lost work each two seconds.
func watchful(c llm.Caller) WorkerConfig {
	cfg := fast(c)
	cfg.Lease = 6 * time.Second
	return cfg
}

func start(tb testing.TB, q *Queue, cfg WorkerConfig) *Worker {
	tb.Helper()
	w, err := q.Start(tb.Context(), cfg)
	must(tb, err)
	tb.Cleanup(func() { must(tb, w.Stop(context.WithoutCancel(tb.Context()))) })
	return w
}

// onion is a queue and a budget around a model, whose queue is tried again at once.
func onion(q *Queue, c llm.Caller, budget middleware.BudgetConfig) *llm.Pipeline {
	return llm.New(
		middleware.Queue(middleware.QueueConfig{Queue: q, Workflow: "support", Base: time.Microsecond, Cap: time.Microsecond, Budget: budget}),
		middleware.EachBudget(budget),
		middleware.Classify(middleware.ClassifyConfig{}),
	).Then(&llm.Deployment{Name: "primary", Provider: "openai", Model: "m", Caller: c})
}

func onionAt(q *Queue, url string, budget middleware.BudgetConfig) *llm.Pipeline {
	return onion(q, openai.New(openai.Config{BaseURL: url, APIKey: "sk-secret-of-the-test"}), budget)
}

func question() *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User("how long?")}} }

// queued is the receipt of a call that was queued.
func queued(t *testing.T, c llm.Caller, req *llm.Request) *middleware.Receipt {
	t.Helper()
	_, err := c.Call(t.Context(), req)
	receipt, ok := errors.AsType[*middleware.Receipt](err)
	if !ok {
		t.Fatalf("the call was not queued: %v", err)
	}
	return receipt
}

func wait(t *testing.T, q *Queue, id string) *Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o, err := q.Wait(ctx, id)
	must(t, err)
	return o
}

// provider is a server of chat completions on loopback.
type provider struct {
	*httptest.Server
	began chan struct{} // a request came

	mu    sync.Mutex
	calls int
	serve http.HandlerFunc
}

const completion = `{"id":"c1","model":"m","choices":[{"message":{"role":"assistant","content":"a week"},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":7,"completion_tokens":2}}`

func answer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "req-1")
	io.WriteString(w, completion)
}

func outage(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, `{"error":{"message":"down for repair","type":"server_error"}}`)
}

// hang answers nothing until the client leaves.
func hang(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) // so that the server sees the client leave
	<-r.Context().Done()
}

func newProvider(t *testing.T, serve http.HandlerFunc) *provider {
	p := &provider{began: make(chan struct{}, 1000), serve: serve}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.calls++
		serve := p.serve
		p.mu.Unlock()
		p.began <- struct{}{}
		serve(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) becomes(serve http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve = serve
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}
