package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/redistest"
	"github.com/modelchain/llm/middleware"
)

// replica is a process of its own as far as Redis can tell, with its log.
type replica struct {
	*middleware.Cooldowns
	mu    sync.Mutex
	log   bytes.Buffer
	fails sync.Map // by deployment: the error of its calls
	calls atomic.Int64
}

func (r *replica) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

// newReplica is in step with its Redis.
func newReplica(t *testing.T, cfg Config, rests middleware.CooldownConfig) *replica {
	t.Helper()
	r := &replica{}
	rests.Store, rests.Logger = open(t, cfg).Cooldowns(), slog.New(slog.NewTextHandler(r, nil))
	r.Cooldowns = middleware.NewCooldowns(rests)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := r.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *replica) call(t *testing.T, deployment string) error {
	t.Helper()
	chat := r.Stage().Wrap(&llm.Deployment{Name: deployment, Caller: llm.CallerFunc(
		func(context.Context, *llm.Request) (*llm.Response, error) {
			r.calls.Add(1)
			if err, ok := r.fails.Load(deployment); ok {
				return nil, err.(error)
			}
			return &llm.Response{Parts: []llm.Part{llm.Text("ok")}}, nil
		})})
	_, err := chat.Call(t.Context(), hello())
	return err
}

func hello() *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User("hi")}} }

// meets lets the deployment fail once with a wait.
func (r *replica) meets(t *testing.T, deployment string, rest time.Duration) {
	t.Helper()
	r.fails.Store(deployment, error(&llm.Error{Class: llm.Overloaded, RetryAfter: rest}))
	defer r.fails.Delete(deployment)
	if err := r.call(t, deployment); !errors.Is(err, llm.Overloaded) {
		t.Fatalf("%s: %v", deployment, err)
	}
}

// rests waits until the deployment rests for at least so long, apart from the minute that a test may take.
func (r *replica) rests(t *testing.T, deployment string, atLeast time.Duration) {
	t.Helper()
	last := ""
	for t.Context().Err() == nil {
		err := r.call(t, deployment)
		if e := llm.AsError(err); errors.Is(err, llm.Cooling) && e.RetryAfter > atLeast-time.Minute {
			return
		}
		last = fmt.Sprint(err)
		wait(2 * time.Millisecond)
	}
	t.Fatalf("%s does not rest for %v: %s", deployment, atLeast, last)
}

// says waits until the log has n records of that message, and fails if it has more.
func (r *replica) says(t *testing.T, message string, n int) {
	t.Helper()
	for t.Context().Err() == nil {
		r.mu.Lock()
		has, log := strings.Count(r.log.String(), message), r.log.String()
		r.mu.Unlock()
		if has > n {
			t.Fatalf("%d records of %q, want %d:\n%s", has, message, n, log)
		}
		if has == n {
			return
		}
		wait(5 * time.Millisecond)
	}
	t.Fatalf("there are not %d records of %q", n, message)
}

func TestAPartitionShortensNoRestAndIsToldOnce(t *testing.T) {
	url, namespace := redistest.Start(t)
	network := newProxy(t, url)
	cut := newReplica(t, Config{URL: network.URL, Namespace: namespace}, middleware.CooldownConfig{})
	other := newReplica(t, Config{URL: url, Namespace: namespace}, middleware.CooldownConfig{})
	other.meets(t, "known", 30*time.Minute)
	cut.rests(t, "known", 30*time.Minute)

	network.hold()
	cut.meets(t, "one", 40*time.Minute)
	other.meets(t, "one", 10*time.Minute)
	cut.meets(t, "two", 10*time.Minute)
	other.meets(t, "two", 40*time.Minute)
	cut.says(t, "llm store down", 1)
	for range 2000 { // what is known holds, what serves serves, and nothing is told a second time
		if err := cut.call(t, "well"); err != nil {
			t.Fatal(err)
		}
		if err := cut.call(t, "known"); !errors.Is(err, llm.Cooling) {
			t.Fatal(err)
		}
	}
	cut.says(t, "llm store down", 1)
	cut.says(t, "llm store back", 0)

	network.forward()
	for _, r := range []*replica{cut, other} {
		r.rests(t, "one", 40*time.Minute)
		r.rests(t, "two", 40*time.Minute)
		r.rests(t, "known", 30*time.Minute)
	}
	cut.says(t, "llm store back", 1)
	cut.says(t, "llm store down", 1)
	other.says(t, "llm store", 0)
	cut.meets(t, "three", 30*time.Minute)
	other.rests(t, "three", 30*time.Minute)
}

// The answers of this server come 120 ms late, and the limit is 20 ms: it is as good as down.
func TestASlowServerDelaysNobodyAndLetsOutOneProbeForEachProcess(t *testing.T) {
	url, namespace := redistest.Start(t)
	network := newProxy(t, url)
	const replicas, callers = 3, 8
	var inside, most atomic.Int64
	rests := middleware.CooldownConfig{Rest: 20 * time.Millisecond, Cap: 20 * time.Millisecond, ProbeLease: time.Minute}
	fleet := make([]*replica, replicas)
	for i := range fleet {
		fleet[i] = newReplica(t, Config{URL: network.URL, Namespace: namespace}, rests)
	}
	network.slow(60 * time.Millisecond)
	start := time.Now()
	const calls = 200
	for range calls {
		if err := fleet[0].call(t, "well"); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(start); d > calls*20*time.Millisecond {
		t.Errorf("%d calls that need nothing of the store took %v", calls, d)
	}
	var all sync.WaitGroup
	for _, r := range fleet {
		chat := r.Stage().Wrap(&llm.Deployment{Name: "down", Caller: llm.CallerFunc(
			func(context.Context, *llm.Request) (*llm.Response, error) {
				n := inside.Add(1)
				defer inside.Add(-1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				wait(5 * time.Millisecond)
				return nil, llm.Overloaded
			})})
		if _, err := chat.Call(t.Context(), hello()); err == nil {
			t.Fatal("it answered")
		}
		r.rests(t, "down", 0)
		if r == fleet[replicas-1] {
			most.Store(0)
		}
		for range callers {
			all.Go(func() {
				for time.Since(start) < 2*time.Second {
					_, _ = chat.Call(t.Context(), hello())
					wait(time.Millisecond)
				}
			})
		}
	}
	all.Wait()
	if n := most.Load(); n < 1 || n > replicas {
		t.Errorf("%d probes were out at once, of %d processes of %d callers each", n, replicas, callers)
	}
	t.Logf("%d probes at once, of %d processes", most.Load(), replicas)
	for _, r := range fleet {
		r.says(t, "llm store down", 1)
	}
}

// caughtUp waits until a replica has what its primary has.
func caughtUp(t *testing.T, primary *Store, replicas string) {
	t.Helper()
	for t.Context().Err() == nil {
		if n, err := do(t, primary, "WAIT", replicas, "1000").AsInt64(); err == nil && fmt.Sprint(n) == replicas {
			return
		}
	}
	t.Fatal("the replica does not catch up")
}

// A replica is promoted, and the address leads to it, as that of a managed Redis does.
func TestAFailoverBehindOneAddressCostsNoRest(t *testing.T) {
	primary := redistest.Own(t)
	second := primary.Replica(t)
	address := newProxy(t, primary.URL)
	r := newReplica(t, Config{URL: address.URL}, middleware.CooldownConfig{})
	r.meets(t, "before", 30*time.Minute)
	caughtUp(t, open(t, Config{URL: primary.URL}), "1")
	primary.Pause(t)
	r.meets(t, "during", 30*time.Minute)
	r.says(t, "llm store down", 1)
	address.lead(t, second.URL) // which takes no writes yet
	do(t, open(t, Config{URL: second.URL}), "REPLICAOF", "NO", "ONE")
	r.says(t, "llm store back", 1)
	r.meets(t, "after", 30*time.Minute)
	late := newReplica(t, Config{URL: address.URL}, middleware.CooldownConfig{})
	for _, deployment := range []string{"before", "during", "after"} {
		late.rests(t, deployment, 30*time.Minute)
		r.rests(t, deployment, 30*time.Minute)
	}
	primary.Resume(t)
}

func TestAFailoverOfSentinelsCostsNoRest(t *testing.T) {
	primary := redistest.Own(t)
	primary.Replica(t)
	caughtUp(t, open(t, Config{URL: primary.URL}), "1")
	sentinel := primary.Sentinel(t, "rests")
	watch, err := url.Parse(sentinel.URL)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(primary.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host, u.RawQuery = watch.Host, "master_set=rests"
	r := newReplica(t, Config{URL: u.String()}, middleware.CooldownConfig{})
	r.meets(t, "before", 30*time.Minute)
	caughtUp(t, open(t, Config{URL: primary.URL}), "1")
	primary.Kill(t) // the sentinel sees that, and promotes the replica
	r.meets(t, "during", 30*time.Minute)
	r.meets(t, "after", 30*time.Minute)
	late := newReplica(t, Config{URL: u.String()}, middleware.CooldownConfig{})
	for _, deployment := range []string{"before", "during", "after"} {
		late.rests(t, deployment, 30*time.Minute)
	}
}
