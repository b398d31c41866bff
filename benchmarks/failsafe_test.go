package benchmarks

import (
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/fallback"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"

	"github.com/modelchain/llm"
)

// policies are those of the onion as failsafe-go has them: fallback, retry, circuit breaker, rate limiter and timeout.
func policies(b *testing.B, second llm.Caller, req *llm.Request) failsafe.Executor[*llm.Response] {
	return failsafe.With[*llm.Response](
		fallback.NewWithFunc(func(failsafe.Execution[*llm.Response]) (*llm.Response, error) {
			return second.Call(b.Context(), req)
		}),
		retrypolicy.NewBuilder[*llm.Response]().WithMaxRetries(2).WithBackoff(time.Second, 20*time.Second).Build(),
		circuitbreaker.NewBuilder[*llm.Response]().WithDelay(time.Minute).Build(),
		ratelimiter.NewBursty[*llm.Response](1<<30, time.Second), // never in the way
		timeout.New[*llm.Response](20*time.Second),
	)
}

// BenchmarkFailsafe is the same call of the same model through failsafe-go. "plain" ignores the caller's context;
// "context" passes it on, as a call of a model has to.
func BenchmarkFailsafe(b *testing.B) {
	model, req := noop(0), question()
	executor := policies(b, model, req)
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := executor.Get(func() (*llm.Response, error) { return model(b.Context(), req) }); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("context", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := executor.WithContext(b.Context()).GetWithExecution(
				func(e failsafe.Execution[*llm.Response]) (*llm.Response, error) { return model(e.Context(), req) })
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkFailsafeParallel is the counterpart of BenchmarkOnionParallel.
func BenchmarkFailsafeParallel(b *testing.B) {
	model, req := noop(0), question()
	executor := policies(b, model, req)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := executor.Get(func() (*llm.Response, error) { return model(b.Context(), req) }); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
