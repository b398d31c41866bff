package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/redistest"
	"github.com/modelchain/llm/middleware"
)

// envSoak is how many calls the soak makes.
const envSoak = "LLM_TEST_REDIS_SOAK"

const (
	soakReplicas    = 4
	soakGroups      = 40 // each a fallback over three deployments, which share a quota and an account with others
	soakDeployments = 3 * soakGroups
	soakEras        = 10
	soakWorkers     = 64
)

// soakWorld is what the replicas of a soak have in common: its providers.
type soakWorld struct {
	start time.Time

	mu       sync.Mutex
	outcomes map[string]int
}

// answer is that of deployment d: it is down for a fifth of the time, in its turn, and fails now and then at any time.
func (w *soakWorld) answer(ctx context.Context, d int) (*llm.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	down := (time.Since(w.start).Milliseconds()/200+int64(d))%5 == 0
	switch n := rand.N(1000); {
	case down && d%9 == 0:
		return nil, &llm.Error{Class: llm.RateLimited, RetryAfter: 30 * time.Millisecond} // of all that share its quota
	case down, n < 5:
		return nil, llm.Overloaded
	case n < 7:
		return nil, llm.Invalid
	}
	return &llm.Response{Parts: []llm.Part{llm.Text("ok")}, Usage: llm.Usage{Input: 10, Output: 5}}, nil
}

func (w *soakWorld) saw(outcome string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcomes[outcome]++
}

// soakReplica is one process of the fleet, in this one.
type soakReplica struct {
	w         *soakWorld
	cooldowns *middleware.Cooldowns
	buckets   *middleware.Buckets
	spends    *middleware.Spends
	groups    []llm.Caller
}

func newSoakReplica(t *testing.T, w *soakWorld, url string) *soakReplica {
	t.Helper()
	store := open(t, Config{URL: url})
	quiet := slog.New(slog.DiscardHandler)
	r := &soakReplica{
		w: w,
		cooldowns: middleware.NewCooldowns(middleware.CooldownConfig{
			Rest: 40 * time.Millisecond, Cap: 100 * time.Millisecond, Long: 50 * time.Millisecond, Patience: time.Millisecond,
			Store: store.Cooldowns(), Logger: quiet,
			OnChange: func(c middleware.CooldownState) { w.saw(fmt.Sprint("rests ", c.Scope)) },
		}),
		buckets: middleware.NewBuckets(middleware.BucketsConfig{Store: store.Buckets(), Logger: quiet}),
		spends:  middleware.NewSpends(middleware.SpendsConfig{Store: store.Spends(), Logger: quiet}),
	}
	t.Cleanup(func() {
		if err := errors.Join(r.cooldowns.Close(), r.buckets.Close(), r.spends.Close()); err != nil {
			t.Error(err)
		}
	})
	for g := range soakGroups {
		retries := middleware.NewRetryBudget(middleware.RetryBudgetConfig{Shared: r.buckets, Name: fmt.Sprint("retries ", g)})
		stack := llm.New(r.cooldowns.Stage(), middleware.Retry(middleware.RetryConfig{
			Max: 1, Base: time.Millisecond, Cap: 2 * time.Millisecond, MaxWait: 2 * time.Millisecond, Budget: retries,
		}))
		var routes []llm.Caller
		for d := 3 * g; d < 3*g+3; d++ {
			routes = append(routes, stack.Then(&llm.Deployment{
				Name: fmt.Sprint("deployment ", d), Quota: fmt.Sprint("quota ", d%30), Credential: fmt.Sprint("key ", d%10),
				Price: llm.Price{Input: 1, Output: 2}, MaxOutput: 100,
				Caller: llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) { return w.answer(ctx, d) }),
			}))
		}
		r.groups = append(r.groups, middleware.Fallback(middleware.FallbackConfig{
			Budget: middleware.RetryBudgetConfig{Shared: r.buckets, Name: fmt.Sprint("moves ", g)},
		}, routes...))
	}
	return r
}

// work makes n calls of workflow id, at any of the replicas in turn as a job that is delivered again and again.
func (w *soakWorld) work(t *testing.T, replicas []*soakReplica, id string, n int) {
	t.Helper()
	budgets := make([]*middleware.Budget, len(replicas))
	for range n {
		i := rand.N(len(replicas))
		r := replicas[i]
		if budgets[i] == nil {
			budgets[i] = middleware.NewBudget(middleware.BudgetConfig{
				Attempts: 40, Tokens: 1 << 20, CostUSD: 1, Shared: r.spends, Workflow: id,
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		if rand.N(100) == 0 {
			cancel()
		}
		chat := budgets[i].Stage().Wrap(r.groups[rand.N(soakGroups)])
		_, err := chat.Call(ctx, &llm.Request{Messages: []llm.Message{llm.User("hi")}})
		cancel()
		outcome := "answered"
		if err != nil {
			outcome = llm.AsError(err).Class.String()
		}
		w.saw(outcome)
	}
}

// soakSize is what must not grow.
type soakSize struct {
	keys               map[string]int64 // by what they are of
	redis, heap        int64            // bytes in use
	goroutines, fields int64            // fields: the most that a workflow's hash has
}

func (s soakSize) String() string {
	return fmt.Sprintf("keys %v, Redis %.1f MB, heap %.1f MB, %d goroutines, at most %d fields of a workflow",
		s.keys, float64(s.redis)/1e6, float64(s.heap)/1e6, s.goroutines, s.fields)
}

func measure(t *testing.T, s *Store) (is soakSize) {
	t.Helper()
	is.keys = map[string]int64{}
	keys, err := do(t, s, "KEYS", "*").AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		kind := strings.SplitN(key, ":", 4)[2]
		is.keys[kind]++
		if ttl, err := do(t, s, "PTTL", key).AsInt64(); err != nil || ttl == -1 {
			t.Errorf("%s never expires: %v", key, err)
		}
		if kind != "spend" || strings.HasSuffix(key, ":late") {
			continue
		}
		n, err := do(t, s, "HLEN", key).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		is.fields = max(is.fields, n)
	}
	for line := range strings.Lines(mustString(t, do(t, s, "INFO", "memory"))) {
		if n, ok := strings.CutPrefix(line, "used_memory:"); ok {
			if _, err := fmt.Sscan(n, &is.redis); err != nil {
				t.Fatal(err)
			}
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	is.heap, is.goroutines = int64(m.HeapAlloc), int64(runtime.NumGoroutine())
	return is
}

// Calls at random through four replicas whose rests, budgets of retries and moves, and workflows are one, with outages, probes,
// cancellations, a Redis that stops and one that is emptied. Workflows come and go; a day passes for those that ended. Neither
// Redis nor a replica grows with the number of calls. make soak-redis makes a million.
func TestSoakKeysAndMemoryStayBounded(t *testing.T) {
	calls := 8_000
	if text := os.Getenv(envSoak); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1000 {
			t.Fatalf("%s is %q, and no number of calls from 1000 on", envSoak, text)
		}
		calls = n
	}
	server := redistest.Own(t)
	w := &soakWorld{start: time.Now(), outcomes: map[string]int{}}
	s := open(t, Config{URL: server.URL})
	replicas := make([]*soakReplica, soakReplicas)
	for i := range replicas {
		replicas[i] = newSoakReplica(t, w, server.URL)
		if err := replicas[i].cooldowns.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var workflows atomic.Int64
	sizes := make([]soakSize, soakEras)
	for era := range sizes {
		var left atomic.Int64
		left.Store(int64(calls / soakEras))
		var all sync.WaitGroup
		for range soakWorkers {
			all.Go(func() {
				for {
					n := 1 + rand.N(40)
					if left.Add(-int64(n)) <= -40 {
						return
					}
					w.work(t, replicas, fmt.Sprint("workflow ", workflows.Add(1)), n)
				}
			})
		}
		switch era {
		case 3:
			server.Pause(t)
			wait(300 * time.Millisecond)
			server.Resume(t)
		case 5:
			do(t, s, "FLUSHALL")
		}
		all.Wait()
		for sizes[era] = measure(t, s); sizes[era].fields > 3; sizes[era] = measure(t, s) {
			if t.Context().Err() != nil {
				t.Fatalf("attempts are never settled: %v", sizes[era])
			}
			wait(20 * time.Millisecond) // what they cost is told when there is time for it
		}
		t.Logf("after %d calls: %v", (era+1)*calls/soakEras, sizes[era])
		aDayPasses(t, s)
	}
	first, last := sizes[1], sizes[soakEras-1]
	for kind, most := range map[string]int64{
		"cool":   soakDeployments + 30 + 10,
		"bucket": 4 * soakGroups * (2 + soakReplicas), // one for retries and one for each route, who was there, and the last exchanges
		"spend":  workflows.Load(),
	} {
		if n := last.keys[kind]; n > most {
			t.Errorf("there are %d keys of kind %s, at most %d are expected", n, kind, most)
		}
	}
	for what, n := range map[string][3]int64{ // before, after, and what may come and go
		"bytes in Redis":   {first.redis, last.redis, 4 << 20},
		"bytes of heap":    {first.heap, last.heap, 8 << 20},
		"goroutines":       {first.goroutines, last.goroutines, 16},
		"keys of spending": {first.keys["spend"], last.keys["spend"], 500},
	} {
		if n[1] > n[0]+n[0]/4+n[2] {
			t.Errorf("%s grew from %d to %d", what, n[0], n[1])
		}
	}
	w.mu.Lock()
	outcomes := maps.Clone(w.outcomes) // news of rests still come
	w.mu.Unlock()
	for _, outcome := range []string{"answered", "invalid", "canceled", "rests itself", "rests shared_quota"} {
		if outcomes[outcome] == 0 {
			t.Errorf("no call was %s: %v", outcome, outcomes)
		}
	}
	t.Log(outcomes)
	for line := range strings.Lines(mustString(t, do(t, s, "INFO", "commandstats"))) {
		if strings.Contains(line, "evalsha") || strings.Contains(line, "publish") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// aDayPasses makes the workflows expire that will: nobody works on them any more.
func aDayPasses(t *testing.T, s *Store) {
	t.Helper()
	keys, err := do(t, s, "KEYS", "llm:v1:spend:*").AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if ttl, err := do(t, s, "PTTL", key).AsInt64(); err != nil || ttl > 24*3600*1000 {
			t.Errorf("%s is kept for %d ms, %v", key, ttl, err)
		}
		do(t, s, "PEXPIRE", key, "1")
	}
}
