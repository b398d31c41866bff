package middleware

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/modelchain/llm"
)

// plenty is limits that are never reached.
var plenty = Limits{Requests: 1e9, Input: 1e12, Output: 1e12, InFlight: 1e6}

// limiterBench is the stage around a model that costs nothing.
func limiterBench(cfg LimiterConfig) llm.Caller {
	resp := &llm.Response{Usage: llm.Usage{Input: 90, Output: 10}}
	leaf := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return resp, nil })
	s := NewLimiter(cfg).Stage("bench").Wrap(leaf).(*limiter)
	s.deployment = &llm.Deployment{Name: "bench"}
	return s
}

func benchRequest(tenant string) *llm.Request {
	return (&llm.Request{System: strings.Repeat("x", 300), MaxTokens: 100, Labels: map[string]string{"tenant": tenant}}).Accounted()
}

func BenchmarkLimiter(b *testing.B) {
	s, r, ctx := limiterBench(LimiterConfig{Limits: plenty}), benchRequest(""), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Call(ctx, r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLimiterRequestsOnly(b *testing.B) {
	s, r, ctx := limiterBench(LimiterConfig{Limits: Limits{Requests: 1e9}}), benchRequest(""), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Call(ctx, r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLimiterEightGoroutines(b *testing.B) {
	s, ctx := limiterBench(LimiterConfig{Limits: plenty}), b.Context()
	b.SetParallelism(4) // of 2 processors
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := benchRequest("")
		for pb.Next() {
			if _, err := s.Call(ctx, r); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkLimiterTenThousandKeys(b *testing.B) {
	s := limiterBench(LimiterConfig{Limits: plenty, PerKey: plenty, Key: ByLabel("tenant")})
	requests := make([]*llm.Request, 10_000)
	for i := range requests {
		requests[i] = benchRequest("tenant-" + strconv.Itoa(i))
		if _, err := s.Call(b.Context(), requests[i]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := s.Call(b.Context(), requests[i%len(requests)]); err != nil {
			b.Fatal(err)
		}
		i += 7919
	}
}

func TestAPermitAllocatesNothing(t *testing.T) {
	s, r := limiterBench(LimiterConfig{Limits: plenty, PerKey: plenty, Key: ByLabel("tenant")}), benchRequest("a")
	if n := testing.AllocsPerRun(1000, func() { _, _ = s.Call(t.Context(), r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
