package redisstore

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/redistest"
	"github.com/modelchain/llm/middleware"
)

// BenchmarkLimit is the stage around a deployment that costs nothing, with limits that are never reached: of this process
// alone, and shared, where each call goes only when the server has granted it.
func BenchmarkLimit(b *testing.B) {
	answer := &llm.Response{Parts: []llm.Part{llm.Text("ok")}}
	leaf := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return answer, nil })
	run := func(b *testing.B, cfg middleware.LimiterConfig) {
		b.Helper()
		l := middleware.NewLimiter(cfg)
		b.Cleanup(func() { _ = l.Close() })
		chat := l.Stage("bench").Wrap(leaf)
		request := func(tenant string) *llm.Request {
			return (&llm.Request{
				System: strings.Repeat("x", 300), MaxTokens: 100, Labels: map[string]string{"tenant": tenant},
			}).Accounted()
		}
		one := request("a")
		call := func(b *testing.B, r *llm.Request) {
			b.Helper()
			if _, err := chat.Call(b.Context(), r); err != nil {
				b.Error(err)
			}
		}
		call(b, one)
		b.Run("one call at a time", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call(b, one)
			}
		})
		for _, n := range []int{8, 64} {
			b.Run(fmt.Sprint(n, " calls at a time"), func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(max(n/runtime.GOMAXPROCS(0), 1))
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						call(b, one)
					}
				})
			})
		}
		if cfg.Key == nil {
			return
		}
		tenants := make([]*llm.Request, 64)
		for i := range tenants {
			tenants[i] = request(fmt.Sprint("t", i))
		}
		b.Run("64 keys at a time", func(b *testing.B) {
			next := make(chan *llm.Request, len(tenants))
			for _, r := range tenants {
				next <- r
			}
			b.SetParallelism(max(len(tenants)/runtime.GOMAXPROCS(0), 1))
			b.RunParallel(func(p *testing.PB) {
				r := <-next
				for p.Next() {
					call(b, r)
				}
				next <- r
			})
		})
	}
	// Without a time-out that a busy machine exceeds: what goes alone costs next to nothing, and would be counted as shared.
	requests := middleware.LimiterConfig{Limits: middleware.Limits{Requests: 1e9}, StoreTimeout: 10 * time.Second}
	all := requests
	all.Limits = middleware.Limits{Requests: 1e9, Input: 1e12, Output: 1e12, InFlight: 1e6}
	keys := requests
	keys.Key, keys.PerKey, keys.Limits = middleware.ByLabel("tenant"), requests.Limits, middleware.Limits{}
	for _, c := range []struct {
		name string
		cfg  middleware.LimiterConfig
	}{{"requests", requests}, {"requests, tokens and calls in flight", all}, {"a limit for each key", keys}} {
		b.Run(c.name+"/alone", func(b *testing.B) { run(b, c.cfg) })
		b.Run(c.name+"/shared", func(b *testing.B) {
			url, namespace := redistest.Start(b)
			cfg := c.cfg
			cfg.Store = open(b, Config{URL: url, Namespace: namespace}).Limits()
			run(b, cfg)
		})
	}
}
