package redisstore

import (
	"testing"
	"time"

	"github.com/modelchain/llm/internal/redistest"
	"github.com/modelchain/llm/llmtest/storetest"
	"github.com/modelchain/llm/middleware"
)

func TestLimitsKeepTheRules(t *testing.T) {
	server := redistest.Own(t)
	config := func(world string) Config { return Config{URL: server.URL, Namespace: namespaceOf(world)} }
	storetest.TestLimits(t, access(config, flush(config), pausing(server), (*Store).Limits))
	s := open(t, config("ttl"))
	n := middleware.LimitNews{
		Name: "l", Replica: "r", Number: 1, Limits: middleware.Limits{Requests: 60, InFlight: 1},
		Burst: middleware.Limits{Requests: 1}, Lease: time.Second,
		Wants: []middleware.Limits{{Requests: 1, InFlight: 1}, {Requests: 1, InFlight: 1}},
	}
	if _, err := s.Limits().Exchange(t.Context(), []middleware.LimitNews{n}); err != nil {
		t.Fatal(err)
	}
	keys, err := do(t, s, "KEYS", "ttl:*").AsStrSlice()
	if err != nil || len(keys) != 4 {
		t.Errorf("the keys of a limit are %q, %v", keys, err)
	}
	for _, key := range keys {
		if ttl, err := do(t, s, "PTTL", key).AsInt64(); err != nil || ttl <= 120_000 || ttl > 160_000 {
			t.Errorf("%s expires in %d ms (%v)", key, ttl, err)
		}
	}
}
