package redisstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/redistest"
	"github.com/modelchain/llm/middleware"
)

const (
	childURL      = "REDISSTORE_CHILD"
	childProvider = "REDISSTORE_PROVIDER"
	childSpace    = "REDISSTORE_NAMESPACE"
	childLimit    = "REDISSTORE_LIMIT" // the longest wait for the store
)

// The rest is short so that the test sees many of them, and the lease is longer than any probe takes.
func fleetCooldowns(store middleware.CooldownStore) middleware.CooldownConfig {
	limit, err := time.ParseDuration(os.Getenv(childLimit))
	if err != nil {
		limit = 0
	}
	return middleware.CooldownConfig{
		StoreTimeout: limit,
		Store:        store, Rest: 300 * time.Millisecond, Cap: 300 * time.Millisecond, ProbeLease: 2 * time.Second,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
}

// child is one process of a fleet: it calls the provider each time that a line comes in, and says how that ended. With
// "go" it calls all the time, until the next line.
func child() error {
	if setting := os.Getenv(childLimits); setting != "" {
		return limitChild(setting)
	}
	store, err := Open(Config{URL: os.Getenv(childURL), Namespace: os.Getenv(childSpace)})
	if err != nil {
		return err
	}
	defer store.Close()
	cooldowns := middleware.NewCooldowns(fleetCooldowns(store.Cooldowns()))
	defer cooldowns.Close()
	if err := cooldowns.Sync(context.Background()); err != nil {
		return err
	}
	address := os.Getenv(childProvider)
	chat := llm.New(cooldowns.Stage()).Then(&llm.Deployment{Name: "p", Caller: llm.CallerFunc(
		func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
			if err != nil {
				return nil, err
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				return nil, err
			}
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				return nil, llm.Overloaded
			}
			return &llm.Response{Parts: []llm.Part{llm.Text("ok")}}, nil
		})})
	call := func() error {
		_, err := chat.Call(context.Background(), &llm.Request{Messages: []llm.Message{llm.User("hi")}})
		return err
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			lines <- in.Text()
		}
	}()
	fmt.Println("ready")
	running, worst, calls, failed := false, time.Duration(0), 0, 0
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case line, ok := <-lines:
			switch {
			case !ok:
				return nil
			case line == "go":
				running, worst, calls, failed = true, 0, 0, 0
			case line == "stop":
				running = false
				fmt.Println("stopped", calls, failed, worst.Microseconds())
			default:
				fmt.Println(outcome(call()))
			}
		case <-tick.C:
			if !running {
				continue
			}
			start := time.Now()
			if outcome(call()) == "failed" {
				failed++
			}
			calls++
			worst = max(worst, time.Since(start))
		}
	}
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, llm.Cooling):
		return "cooling"
	}
	return "failed"
}

// process is a child that runs.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (p *process) say(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		t.Fatal(err)
	}
}

func (p *process) hear(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("the process ended: %v", p.out.Err())
	}
	return p.out.Text()
}

func (p *process) ask(t *testing.T, line string) string {
	t.Helper()
	p.say(t, line)
	return p.hear(t)
}

// provider is what the fleet calls.
type provider struct {
	*httptest.Server
	down    atomic.Bool
	hang    atomic.Bool
	calls   atomic.Int64
	inside  atomic.Int64
	most    atomic.Int64 // at once, while it is down
	entered chan struct{}
	mu      sync.Mutex
	times   []time.Time
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{entered: make(chan struct{}, 1024)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now, n := time.Now(), p.inside.Add(1)
		defer p.inside.Add(-1)
		p.calls.Add(1)
		p.mu.Lock()
		p.times = append(p.times, now)
		p.mu.Unlock()
		if !p.down.Load() {
			return
		}
		for old := p.most.Load(); n > old && !p.most.CompareAndSwap(old, n); old = p.most.Load() {
		}
		select {
		case p.entered <- struct{}{}:
		default:
		}
		if p.hang.Load() {
			<-r.Context().Done()
			return
		}
		timer := time.NewTimer(20 * time.Millisecond) // so that two at once would meet
		defer timer.Stop()
		<-timer.C
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(p.Close)
	return p
}

// startFleet starts n processes that share the server and call p.
func startFleet(t *testing.T, n int, url, namespace string, p *provider) []*process {
	t.Helper()
	fleet := make([]*process, n)
	for i := range fleet {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), childURL+"="+url, childSpace+"="+namespace, childProvider+"="+p.URL)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		c.Stderr = t.Output()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		fleet[i] = &process{c, in, bufio.NewScanner(out)}
		t.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
	}
	for _, f := range fleet {
		if got := f.hear(t); got != "ready" {
			t.Fatalf("a process says %q", got)
		}
	}
	return fleet
}

func TestEightProcessesOneMeetsTheOutageAndNoOtherCallsFor100Milliseconds(t *testing.T) {
	url, namespace := redistest.Start(t)
	p := newProvider(t)
	fleet := startFleet(t, 8, url, namespace, p)
	for i, f := range fleet {
		if got := f.ask(t, "call"); got != "ok" {
			t.Fatalf("process %d: %s", i, got)
		}
	}
	for _, f := range fleet[1:] {
		f.say(t, "go")
	}
	p.down.Store(true)
	fleet[0].ask(t, "call")
	met := time.Now()
	for fleet[0].ask(t, "call") == "cooling" && time.Since(met) < 250*time.Millisecond { // its rest takes 300
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	after := 0
	for _, at := range p.times {
		switch d := at.Sub(met); {
		case d > 100*time.Millisecond && d < 250*time.Millisecond:
			t.Errorf("a call reached the provider %v after the outage was met", d)
		case d > 0 && d <= 100*time.Millisecond:
			t.Logf("a call %v after the outage was met", d)
			after++
		}
	}
	if after > len(fleet)-1 {
		t.Errorf("%d calls while the news spread, of %d processes that did not know", after, len(fleet)-1)
	}
}

// settle waits until every process knows of the rest.
func settle(t *testing.T, fleet []*process) {
	t.Helper()
	for _, f := range fleet {
		for f.ask(t, "call") != "cooling" {
		}
	}
}

func TestEightProcessesSendOneProbeAtATimeOverAnOutage(t *testing.T) {
	// A process that waited in vain for the store sends a probe of its own; here a busy machine must not make it so.
	t.Setenv(childLimit, "5s")
	url, namespace := redistest.Start(t)
	p := newProvider(t)
	fleet := startFleet(t, 8, url, namespace, p)
	p.down.Store(true)
	settle(t, fleet)
	for len(p.entered) > 0 {
		<-p.entered
	}
	p.most.Store(0)
	before, start := p.calls.Load(), time.Now()
	for _, f := range fleet {
		f.say(t, "go")
	}
	for range 6 {
		<-p.entered
	}
	probes, took := p.calls.Load()-before, time.Since(start)
	if most := p.most.Load(); most != 1 {
		t.Errorf("%d probes at once", most)
	}
	if limit := int64(took/(300*time.Millisecond)) + 2; probes > limit {
		t.Errorf("%d probes in %v, with a rest of 300ms before each: at most %d", probes, took, limit)
	}
	p.down.Store(false)
	for i, f := range fleet {
		for got := ""; got != "ok"; got = f.ask(t, "call") {
			if i == 0 && got == "" {
				for _, f := range fleet {
					f.ask(t, "stop")
				}
			}
		}
	}
}

func TestAKilledProcessLeaksNoProbe(t *testing.T) {
	url, namespace := redistest.Start(t)
	p := newProvider(t)
	fleet := startFleet(t, 3, url, namespace, p)
	p.down.Store(true)
	fleet[0].ask(t, "call")
	p.hang.Store(true)
	<-p.entered
	fleet[0].say(t, "go") // until it is the probe, which hangs
	<-p.entered
	if err := fleet[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	if got := fleet[1].ask(t, "call"); got != "cooling" {
		t.Errorf("while the lease holds: %s", got)
	}
	p.hang.Store(false)
	p.down.Store(false)
	for got := ""; got != "ok"; got = fleet[1].ask(t, "call") {
		if d := time.Since(killed); d > 30*time.Second {
			t.Fatalf("%v after the kill there is no probe: %s", d, got)
		}
	}
	if d := time.Since(killed); d < time.Second {
		t.Errorf("it was taken over after %v, within its lease of 2s", d)
	}
}

// wait lets the clock of a server that no test can move go on.
func wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

func TestAStopAndAFlushOfRedisCostNoAnswer(t *testing.T) {
	server := redistest.Own(t)
	p := newProvider(t)
	fleet := startFleet(t, 4, server.URL, "llm", p)
	stop := 2 * time.Second
	if d, err := time.ParseDuration(os.Getenv("LLM_TEST_REDIS_STOP")); err == nil {
		stop = d
	}
	run := func(what string, meanwhile func()) {
		t.Helper()
		for _, f := range fleet {
			f.say(t, "go")
		}
		meanwhile()
		for i, f := range fleet {
			var calls, failed, worst int
			if said := f.ask(t, "stop"); true {
				if _, err := fmt.Sscanf(said, "stopped %d %d %d", &calls, &failed, &worst); err != nil {
					t.Fatalf("process %d says %q", i, said)
				}
			}
			if calls == 0 || failed > 0 {
				t.Errorf("%s, process %d: %d of %d calls failed", what, i, failed, calls)
			}
			t.Logf("%s, process %d: %d calls, the slowest took %v", what, i, calls, time.Duration(worst)*time.Microsecond)
		}
	}
	run("flush", func() {
		do(t, open(t, Config{URL: server.URL}), "FLUSHALL")
		wait(100 * time.Millisecond)
	})
	run("stop", func() { server.Pause(t); wait(stop); server.Resume(t) })
	server.Pause(t)
	p.down.Store(true)
	for i, f := range fleet {
		if got := f.ask(t, "call"); got != "failed" {
			t.Errorf("process %d, alone, meets the outage: %s", i, got)
		}
		if got := f.ask(t, "call"); got != "cooling" {
			t.Errorf("process %d, alone, does not rest: %s", i, got)
		}
	}
	p.down.Store(false)
	for _, f := range fleet {
		for got := ""; got != "ok"; got = f.ask(t, "call") {
		}
	}
	server.Resume(t)
	run("kill", func() { server.Kill(t); wait(200 * time.Millisecond); server.Restart(t); wait(200 * time.Millisecond) })
	// They are a fleet again once their connections are back.
	p.down.Store(true)
	fleet[0].ask(t, "call")
	for slices.ContainsFunc(fleet, func(f *process) bool { return f.ask(t, "call") != "cooling" }) {
		wait(10 * time.Millisecond)
	}
}
