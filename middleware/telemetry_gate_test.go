package middleware_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// telemetryRefuser is a gate that turns every attempt away once it has begun.
type telemetryRefuser struct{ llm.OpenGate }

func (telemetryRefuser) Start(ctx context.Context, _ *llm.Request, _ *llm.Deployment, _ *llm.Attempt) (context.Context, error) {
	return ctx, &llm.Error{Class: llm.Exhausted, Message: "no budget"}
}

func TestTelemetryAnAttemptThatAnOuterGateTurnsAwayIsNotCounted(t *testing.T) {
	r := newTelemetryRig(t)
	next := middleware.Telemetry(r.config).Wrap(telemetryLeaf("a", "p", "m"))
	gated := llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		defer req.Enforce(telemetryRefuser{}).Lift()
		return next.Call(ctx, req)
	})
	if _, err := llm.New().Then(gated).Call(t.Context(), telemetryAsk()); !errors.Is(err, llm.Exhausted) {
		t.Fatal(err)
	}
	telemetryWant(t, "span", r.named("chat")[0].Attributes(), map[string]string{"llm.attempt.skipped": "true", "error.type": "-"})
	telemetryWant(t, "call", r.call().Attributes(), map[string]string{"llm.call.attempts": "0"})
	if got := r.sums("gen_ai.client.operation.duration"); len(got) != 0 {
		t.Errorf("durations of attempts: %v", got)
	}
	telemetryEqual(t, "skipped", r.sums("llm.client.skipped", "llm.deployment", "llm.reason"), map[string]float64{"a exhausted": 1})
}

func TestTelemetryADeploymentPassedOverAndThenCalledWasNotRetried(t *testing.T) {
	r := newTelemetryRig(t)
	skip := llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
		return nil, req.Skipped(&llm.Error{Class: llm.Exhausted, Deployment: "a"})
	})
	if _, err := r.pipeline(telemetryTry(skip, telemetryLeaf("a", "p", "m"))).Call(t.Context(), telemetryAsk()); err != nil {
		t.Fatal(err)
	}
	telemetryWant(t, "attempt", r.named("chat")[0].Attributes(), map[string]string{
		"llm.attempt.reason": "initial", "llm.attempt.retries": "-", "llm.attempt.from": "-",
	})
}

func TestTelemetryAnAttemptBesideAnotherIsNoFallback(t *testing.T) {
	r := newTelemetryRig(t)
	begun := make(chan struct{})
	slow := telemetryLeaf("a", "p", "m", llmtest.Step{Func: func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	hedge := llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		inner, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() {
			if _, err := slow.Call(inner, req); err == nil {
				t.Error("the slow one answered")
			}
		})
		<-begun
		return telemetryLeaf("b", "q", "n").Call(ctx, req)
	})
	if _, err := r.pipeline(hedge).Call(t.Context(), telemetryAsk()); err != nil {
		t.Fatal(err)
	}
	for _, s := range r.named("chat n") {
		telemetryWant(t, "hedge", s.Attributes(), map[string]string{"llm.attempt.reason": "hedge", "llm.attempt.from": "a"})
	}
	if n := len(r.named("chat")); n != 2 {
		t.Errorf("%d spans of attempts, want 2", n)
	}
	if got := r.sums("llm.client.fallbacks"); len(got) != 0 {
		t.Errorf("fallbacks: %v", got)
	}
}

func TestTelemetryAnAttemptThatOutlivesItsCallStillEndsItsSpan(t *testing.T) {
	r := newTelemetryRig(t)
	begun, over := make(chan struct{}), make(chan struct{})
	late := telemetryLeaf("a", "p", "m", llmtest.Step{Func: func(context.Context, *llm.Request) (*llm.Response, error) {
		close(begun)
		<-over
		return &llm.Response{Parts: []llm.Part{llm.Text("late")}}, nil
	}})
	var wg sync.WaitGroup
	left := llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		wg.Go(func() {
			if _, err := late.Call(ctx, req); err != nil {
				t.Error(err)
			}
		})
		<-begun
		return nil, llm.Exhausted
	})
	if _, err := r.pipeline(left).Call(t.Context(), telemetryAsk()); err == nil {
		t.Fatal("no error")
	}
	close(over)
	wg.Wait()
	if n := len(r.named("chat")); n != 1 {
		t.Errorf("%d spans of attempts, want 1", n)
	}
}

func TestTelemetryAnAttemptEndsWhenItsAnswerCameAndNotWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTelemetryRig(t)
		leaf := telemetryLeaf("a", "p", "m", llmtest.Step{Delay: time.Second})
		slow := llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			resp, err := leaf.Call(ctx, req)
			<-time.NewTimer(5 * time.Second).C
			resp.Continued = true
			return resp, err
		})
		if _, err := r.pipeline(slow).Call(t.Context(), telemetryAsk()); err != nil {
			t.Fatal(err)
		}
		s := r.named("chat")[0]
		if took := s.EndTime().Sub(s.StartTime()); took != time.Second {
			t.Errorf("the attempt's span took %v, want 1s", took)
		}
		telemetryWant(t, "call", r.call().Attributes(), map[string]string{"llm.call.continued": "true"})
	})
}

func TestTelemetryARejectedAnswerDoesNotGetTheWordsOfTheOneThatLeft(t *testing.T) {
	r := newTelemetryRig(t)
	leaf := telemetryLeaf("a", "p", "m", llmtest.Text("first"), llmtest.Text("second"))
	keep := llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		first, err := leaf.Call(ctx, req)
		if err != nil {
			return nil, err
		}
		second, err := leaf.Call(ctx, req)
		if err == nil {
			_ = second.Reject(&llm.Error{Class: llm.BadOutput, Message: "worse"})
		}
		return first, nil
	})
	if _, err := r.pipeline(keep).Call(t.Context(), telemetryAsk()); err != nil {
		t.Fatal(err)
	}
	telemetryWant(t, "second", r.named("chat")[1].Attributes(), map[string]string{
		"error.type": "bad_output", "gen_ai.response.finish_reasons": "-",
	})
}
