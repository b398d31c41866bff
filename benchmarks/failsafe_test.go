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

// guarded is a call of model through failsafe-go. It passes the caller's context on, as a call of a model has to.
func guarded(b *testing.B, model llm.Caller, req *llm.Request) func() error {
	executor := policies(b, model, req)
	return func() error {
		_, err := executor.WithContext(b.Context()).GetWithExecution(
			func(e failsafe.Execution[*llm.Response]) (*llm.Response, error) { return model.Call(e.Context(), req) })
		return err
	}
}

// BenchmarkFailsafe is the call of BenchmarkOnion through failsafe-go.
func BenchmarkFailsafe(b *testing.B) {
	call := guarded(b, noop(0), question())
	b.ReportAllocs()
	for b.Loop() {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOnionAndFailsafe takes turns with the two, so that what else the machine does falls on both alike.
func BenchmarkOnionAndFailsafe(b *testing.B) {
	const turn = 200
	req := question()
	c, theirs := onion(noop(0)), guarded(b, noop(0), req)
	ours := func() error {
		_, err := c.Call(b.Context(), req)
		return err
	}
	took := func(call func() error) time.Duration {
		start := time.Now()
		for range turn {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(start)
	}
	var onion, failsafe time.Duration
	turns := 0
	for b.Loop() {
		onion += took(ours)
		failsafe += took(theirs)
		turns++
	}
	calls := float64(turns * turn)
	b.ReportMetric(float64(onion)/calls, "onion-ns/call")
	b.ReportMetric(float64(failsafe)/calls, "failsafe-ns/call")
	b.ReportMetric(float64(failsafe)/float64(onion), "times-as-fast")
}

// BenchmarkFailsafeParallel is the counterpart of BenchmarkOnionParallel.
func BenchmarkFailsafeParallel(b *testing.B) {
	call := guarded(b, noop(0), question())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := call(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
