package redisstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/redistest"
	"github.com/modelchain/llm/middleware"
)

// What docs/replicas.md says of memory and operations is no less than what is.
func TestSizingIsAsTheDocsSay(t *testing.T) {
	server := redistest.Own(t)
	s := open(t, Config{URL: server.URL})
	usage := func(key string) int64 {
		t.Helper()
		n, err := do(t, s, "MEMORY", "USAGE", key, "SAMPLES", "0").AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	ops := func() (n int64) {
		t.Helper()
		for line := range strings.Lines(mustString(t, do(t, s, "INFO", "commandstats"))) {
			if calls, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
				if _, err := fmt.Sscan(strings.Split(calls, ",")[0], &n); err != nil {
					t.Fatal(err)
				}
			}
		}
		return n
	}
	atMost := func(what string, n, most int64) {
		t.Helper()
		t.Logf("%s: %d", what, n)
		if n > most {
			t.Errorf("%s: %d, and the docs say up to %d", what, n, most)
		}
	}
	// A name and a cause of common lengths.
	key := middleware.CooldownKey{Scope: middleware.Itself, Name: "azure-eu/gpt-4o-2024-08"}
	cause := middleware.CooldownCause{Class: llm.Overloaded, Why: strings.Repeat("w", 120), Deployment: key.Name}
	if _, err := s.Cooldowns().Rest(t.Context(), key, middleware.CooldownNews{Left: time.Minute, Cause: cause}); err != nil {
		t.Fatal(err)
	}
	atMost("bytes of a rest", usage("llm:v1:cool:{itself:azure-eu/gpt-4o-2024-08}"), 1100)
	cause.Why = strings.Repeat("w", 500)
	if _, err := s.Cooldowns().Rest(t.Context(), key, middleware.CooldownNews{Left: time.Hour, Cause: cause}); err != nil {
		t.Fatal(err)
	}
	atMost("bytes of the longest rest", usage("llm:v1:cool:{itself:azure-eu/gpt-4o-2024-08}"), 1500)

	const replicas = 1000
	for i := range replicas {
		if _, err := s.Buckets().Exchange(t.Context(), middleware.BucketNews{
			Name: "b", Replica: fmt.Sprintf("%026d", i), Number: 1, Capacity: time.Hour, Taken: time.Second,
		}); err != nil {
			t.Fatal(err)
		}
	}
	atMost("bytes of a bucket", usage("llm:v1:bucket:{b}"), 120)
	atMost("bytes of a replica in a bucket", usage("llm:v1:bucket:{b}:replicas")/replicas, 150)
	atMost("bytes of its last exchange", usage("llm:v1:bucket:{b}:said:"+fmt.Sprintf("%026d", 7)), 150)

	one := llm.Spending{Attempts: 1, Tokens: 1200, CostUSD: 0.002}
	before := usageOfSpends(t, s, usage, 0, one)
	atMost("bytes of a workflow", before, 300)
	atMost("bytes of an attempt under way", (usageOfSpends(t, s, usage, 1000, one)-before)/1000, 150)

	for i := range 1000 {
		if _, err := s.Spends().Settle(t.Context(), "late", fmt.Sprintf("%026d", i), one, true); err != nil {
			t.Fatal(err)
		}
	}
	atMost("bytes of a late settlement", usage("llm:v1:spend:{late}:late")/1000, 130)

	limit := middleware.LimitNews{
		Name: "l", Number: 1, Lease: time.Minute, Limits: middleware.Limits{Requests: 60_000, Tokens: 60_000_000, InFlight: 4 * replicas},
		Burst: middleware.Limits{Requests: 60_000, Tokens: 60_000_000}, Wants: []middleware.Limits{{Requests: 1, Tokens: 1000, InFlight: 1}},
	}
	for i := range replicas {
		limit.Replica = fmt.Sprintf("%026d", i)
		if _, err := s.Limits().Exchange(t.Context(), []middleware.LimitNews{limit}); err != nil {
			t.Fatal(err)
		}
	}
	sum := int64(0)
	for _, part := range []string{"", ":replicas", ":leases"} {
		n := usage("llm:v1:limit:{l}" + part)
		t.Logf("bytes of a limit%s: %d", part, n)
		sum += n
	}
	atMost("bytes of a replica in a limit", sum/replicas, 500)

	// Operations of calls, in a process that knows the script.
	spends := middleware.NewSpends(middleware.SpendsConfig{Store: s.Spends(), Timeout: time.Minute})
	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{Store: s.Cooldowns(), StoreTimeout: time.Minute})
	chat := cooldowns.Stage().Wrap(&llm.Deployment{Name: "d", Caller: llm.CallerFunc(
		func(_ context.Context, _ *llm.Request) (*llm.Response, error) {
			return &llm.Response{Parts: []llm.Part{llm.Text("ok")}}, nil
		})})
	call := func(c llm.Caller) {
		t.Helper()
		if _, err := c.Call(t.Context(), hello()); err != nil {
			t.Fatal(err)
		}
	}
	if err := cooldowns.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	const calls = 500
	n := ops()
	atMost("connections of a process", int64(strings.Count(mustString(t, do(t, s, "CLIENT", "LIST")), "\n")), 1)
	for range calls {
		call(chat)
	}
	atMost("operations of calls that succeed", ops()-n, 0)
	budget := middleware.NewBudget(middleware.BudgetConfig{Attempts: 2 * calls, Shared: spends, Workflow: "w2"})
	for range calls {
		call(budget.Stage().Wrap(chat))
	}
	if err := spends.Close(); err != nil {
		t.Error(err)
	}
	if err := cooldowns.Close(); err != nil {
		t.Error(err)
	}
	atMost("operations of an attempt of a shared budget, times 100", (ops()-n)*100/calls, 200)
}

// usageOfSpends is what a workflow with n attempts under way takes.
func usageOfSpends(t *testing.T, s *Store, usage func(string) int64, n int, one llm.Spending) int64 {
	t.Helper()
	workflow := fmt.Sprint("w", n)
	for i := range n + 1 {
		if _, _, err := s.Spends().Reserve(t.Context(), workflow, fmt.Sprintf("%026d", i), one, llm.Spending{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Spends().Settle(t.Context(), workflow, fmt.Sprintf("%026d", 0), one, false); err != nil {
		t.Fatal(err)
	}
	return usage("llm:v1:spend:{" + workflow + "}")
}
