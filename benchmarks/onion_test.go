package benchmarks

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/tokens"
)

const deltasPerCall = 1000

// noop answers at once, and streams as many deltas as it says before. Its one Response may be shared: a Deployment copies it.
func noop(deltas int) llm.CallerFunc {
	resp := &llm.Response{Parts: []llm.Part{llm.Text("ok")}, Stop: llm.StopEnd, Usage: llm.Usage{Input: 10, Output: 1}}
	return func(_ context.Context, req *llm.Request) (*llm.Response, error) {
		if req.Sink != nil {
			for range deltas {
				if err := req.Sink(llm.Delta{Text: "word "}); err != nil {
					return nil, err
				}
			}
		}
		return resp, nil
	}
}

// onion is the whole chain around two deployments of model, with every stage at work and no telemetry SDK installed.
func onion(model llm.Caller) llm.Caller {
	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{})
	perDeployment := llm.New(
		cooldowns.Stage(),
		middleware.Retry(middleware.RetryConfig{}),
		middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Total: 20 * time.Second}),
		middleware.Classify(middleware.ClassifyConfig{}),
	)
	deployment := func(name string) llm.Caller {
		return perDeployment.Then(&llm.Deployment{
			Name: name, Provider: "openai", Model: "gpt-4o", Window: 128_000, MaxOutput: 16_000, Caller: model,
		})
	}
	return llm.New(
		middleware.Telemetry(middleware.TelemetryConfig{}),
		middleware.Deadline(middleware.DeadlineConfig{}),
	).Then(middleware.TokenRouter(middleware.TokenRouterConfig{
		Counter: tokens.For("gpt-4o"),
		Normal:  middleware.Fallback(middleware.FallbackConfig{}, deployment("primary"), deployment("fallback")),
		Long:    deployment("long"),
	}))
}

func question() *llm.Request {
	return &llm.Request{System: "Be short.", Messages: []llm.Message{llm.User("What is a circuit breaker?")}, MaxTokens: 500}
}

func call(b *testing.B, c llm.Caller, req *llm.Request) {
	if _, err := c.Call(b.Context(), req); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOnion is a call that succeeds at once, to compare with BenchmarkFailsafe.
func BenchmarkOnion(b *testing.B) {
	c, req := onion(noop(0)), question()
	b.ReportAllocs()
	for b.Loop() {
		call(b, c, req)
	}
}

// BenchmarkOnionParallel shows whether calls hold each other up: with more processors, ns/op falls.
func BenchmarkOnionParallel(b *testing.B) {
	c, req := onion(noop(0)), question()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Call(b.Context(), req); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkOnionStream is one delta's way through the onion, beside the same model called directly, and through the stages
// that only a stream needs: the commit window, the limits on its silence, and what remembers the text in case it breaks.
func BenchmarkOnionStream(b *testing.B) {
	around := func(stage llm.Stage) func(llm.Caller) llm.Caller {
		return func(c llm.Caller) llm.Caller { return stage.Wrap(c) }
	}
	for _, bench := range []struct {
		name string
		with func(llm.Caller) llm.Caller
	}{
		{"onion", onion},
		{"model", func(c llm.Caller) llm.Caller { return c }},
		{"commit", around(middleware.Commit(middleware.CommitConfig{}))},
		{"limits", around(middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{
			Total: 20 * time.Second, FirstToken: 10 * time.Second, Idle: 5 * time.Second,
		}))},
		{"interrupt", around(middleware.Interrupt(middleware.InterruptConfig{}))},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c, req, seen := bench.with(noop(deltasPerCall)), question(), 0
			req.Sink = func(llm.Delta) error {
				seen++
				return nil
			}
			for b.Loop() {
				call(b, c, req)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(seen), "ns/delta")
			b.StopTimer()
			few := bench.with(noop(100))
			many := testing.AllocsPerRun(20, func() { call(b, c, req) })
			one := testing.AllocsPerRun(20, func() { call(b, few, req) })
			b.ReportMetric((many-one)/(deltasPerCall-100), "allocs/delta")
		})
	}
}

// BenchmarkTokenRouter is the router alone in front of a request that fits: 100 messages of 1 KB, a window of 128k tokens.
// The text is shorter in bytes than the window in tokens, so nothing needs to be tokenized. The second request does not
// fit that argument and has to be counted.
func BenchmarkTokenRouter(b *testing.B) {
	text := strings.Repeat("A few words of an ordinary conversation. ", 25)[:1000]
	for _, bench := range []struct {
		name     string
		messages int
	}{
		{"fits_by_bytes", 100},
		{"counted", 300},
	} {
		b.Run(bench.name, func(b *testing.B) {
			deployment := &llm.Deployment{Name: "normal", Model: "gpt-4o", Window: 128_000, Caller: noop(0)}
			counter := tokens.For("gpt-4o")
			router := middleware.TokenRouter(middleware.TokenRouterConfig{Counter: counter, Normal: deployment})
			req := &llm.Request{}
			for range bench.messages {
				req.Messages = append(req.Messages, llm.User(text))
			}
			b.ReportAllocs()
			for b.Loop() {
				call(b, router, req)
			}
		})
	}
}

// BenchmarkDeployment is the leaf alone: what every call pays for the account of its attempts.
func BenchmarkDeployment(b *testing.B) {
	d, req := &llm.Deployment{Name: "primary", Model: "gpt-4o", Caller: noop(0)}, question()
	b.ReportAllocs()
	for b.Loop() {
		call(b, d, req)
	}
}
