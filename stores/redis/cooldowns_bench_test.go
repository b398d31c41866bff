package redisstore

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/redistest"
	"github.com/modelchain/llm/middleware"
)

// benchLeaf is a deployment that costs nothing.
type benchLeaf struct{ answer *llm.Response }

func (l *benchLeaf) Call(context.Context, *llm.Request) (*llm.Response, error) { return l.answer, nil }

func (*benchLeaf) Describe() llm.Node {
	return llm.Node{Name: "d", Deployment: &llm.Deployment{Name: "d", Quota: "q", Credential: "k"}}
}

// BenchmarkCooldownOfACallThatSucceeds is the stage with what it needs for itself, around a deployment that costs nothing: with
// rests of this process alone, and with shared ones.
func BenchmarkCooldownOfACallThatSucceeds(b *testing.B) {
	req := &llm.Request{Messages: []llm.Message{llm.User("hi")}}
	run := func(b *testing.B, cfg middleware.CooldownConfig) {
		b.Helper()
		c := middleware.NewCooldowns(cfg)
		b.Cleanup(func() { _ = c.Close() })
		chat := c.Stage().Wrap(&benchLeaf{&llm.Response{Parts: []llm.Part{llm.Text("ok")}}})
		if err := c.Sync(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.Run("1 goroutine", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := chat.Call(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("8 goroutines", func(b *testing.B) {
			b.SetParallelism(max(8/runtime.GOMAXPROCS(0), 1))
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if _, err := chat.Call(b.Context(), req); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
	b.Run("alone", func(b *testing.B) { run(b, middleware.CooldownConfig{}) })
	b.Run("shared", func(b *testing.B) {
		url, namespace := redistest.Start(b)
		run(b, middleware.CooldownConfig{Store: open(b, Config{URL: url, Namespace: namespace}).Cooldowns()})
	})
}

// BenchmarkCooldownOperations is what a change costs.
func BenchmarkCooldownOperations(b *testing.B) {
	url, namespace := redistest.Start(b)
	store := open(b, Config{URL: url, Namespace: namespace}).Cooldowns()
	key := middleware.CooldownKey{Scope: middleware.Itself, Name: "d"}
	rest := func(b *testing.B) {
		b.Helper()
		if _, err := store.Rest(b.Context(), key, middleware.CooldownNews{Left: time.Minute}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("rest", func(b *testing.B) {
		for b.Loop() {
			rest(b)
		}
	})
	b.Run("rest/64 goroutines", func(b *testing.B) {
		b.SetParallelism(64)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				rest(b)
			}
		})
	})
}
