package middleware_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

func TestTelemetrySpansOfARetryAndAFallbackAreChildrenOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTelemetryRig(t)
		limited := &llm.Error{Class: llm.RateLimited, Evidence: llm.Evidence{Status: 429, Code: "rate_limit_exceeded"}}
		a := telemetryLeaf("a", "openai", "gpt-4o",
			llmtest.Step{Delay: time.Second, Err: limited}, llmtest.Step{Delay: time.Second, Err: llm.Overloaded})
		b := telemetryLeaf("b", "anthropic", "claude", llmtest.Step{Delay: 2 * time.Second, Response: &llm.Response{
			Parts: []llm.Part{llm.Text("hi")}, Stop: llm.StopEnd, Model: "claude-2026", RequestID: "req-1", Status: 200,
			Usage: llm.Usage{Input: 10, CachedInput: 4, CacheWrite: 3, Output: 6, Reasoning: 2},
		}})
		req := telemetryAsk()
		req.Model, req.MaxTokens, req.Temperature, req.Stop = "best", 99, new(0.5), []string{"END"}
		p := r.pipeline(&telemetrySteps{3 * time.Second, []llm.Caller{a, a, b}})
		if _, err := p.Call(t.Context(), req); err != nil {
			t.Fatal(err)
		}

		call := r.call()
		if call.Name() != "llm.call support" || call.SpanKind() != trace.SpanKindInternal {
			t.Errorf("the call's span is %q of kind %v", call.Name(), call.SpanKind())
		}
		if call.Status().Code != codes.Unset {
			t.Errorf("handled errors marked the call: %+v", call.Status())
		}
		telemetryWant(t, "call", call.Attributes(), map[string]string{
			"llm.route": "support", "llm.call.outcome": "fallback_recovery", "llm.call.attempts": "3",
			"llm.call.model": "best", "llm.call.served_by": "b", "llm.call.served_model": "claude-2026",
			"llm.call.waited": "6", "error.type": "-", "llm.call.partial": "-",
		})
		for k := range telemetryAttrs(call.Attributes()) {
			if strings.HasPrefix(k, "gen_ai.") {
				t.Errorf("the call's span has %s, which belongs to the attempt", k)
			}
		}

		attempts := r.named("chat ")
		if len(attempts) != 3 {
			t.Fatalf("%d spans of attempts, want 3", len(attempts))
		}
		for i, s := range attempts {
			if s.Parent().SpanID() != call.SpanContext().SpanID() {
				t.Errorf("attempt %d is no child of the call", i+1)
			}
			if s.SpanKind() != trace.SpanKindClient {
				t.Errorf("attempt %d is of kind %v, want client", i+1, s.SpanKind())
			}
		}
		telemetryWant(t, "first", attempts[0].Attributes(), map[string]string{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o",
			"gen_ai.request.max_tokens": "99", "gen_ai.request.temperature": "0.5",
			"gen_ai.request.stop_sequences": `["END"]`, "gen_ai.request.stream": "-",
			"llm.deployment": "a", "llm.attempt": "1", "llm.attempt.reason": "initial", "llm.attempt.from": "-",
			"llm.attempt.retries": "-", "llm.attempt.wait": "-", "llm.attempt.status": "429",
			"error.type": "rate_limited", "gen_ai.usage.input_tokens": "-", "gen_ai.response.finish_reasons": "-",
		})
		if s := attempts[0].Status(); s.Code != codes.Error || s.Description != "a: rate_limited (HTTP 429) rate_limit_exceeded" {
			t.Errorf("status of the first attempt: %+v", s)
		}
		telemetryWant(t, "second", attempts[1].Attributes(), map[string]string{
			"llm.attempt": "2", "llm.attempt.reason": "retry", "llm.attempt.after": "rate_limited", "llm.attempt.from": "-",
			"llm.attempt.retries": "1", "llm.attempt.wait": "3", "error.type": "overloaded",
		})
		third := attempts[2]
		if third.Name() != "chat claude" || third.Status().Code != codes.Unset {
			t.Errorf("the third attempt is %q with %+v", third.Name(), third.Status())
		}
		telemetryWant(t, "third", third.Attributes(), map[string]string{
			"gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude", "gen_ai.response.model": "claude-2026",
			"gen_ai.response.id": "req-1", "gen_ai.response.finish_reasons": `["stop"]`,
			"gen_ai.usage.input_tokens": "10", "gen_ai.usage.output_tokens": "6",
			"gen_ai.usage.cache_read.input_tokens": "4", "gen_ai.usage.cache_creation.input_tokens": "3",
			"gen_ai.usage.reasoning.output_tokens": "2",
			"llm.attempt":                          "3", "llm.attempt.reason": "fallback", "llm.attempt.from": "a", "llm.attempt.after": "overloaded",
			"llm.attempt.retries": "-", "llm.attempt.wait": "3", "error.type": "-",
		})
		if took := third.EndTime().Sub(third.StartTime()); took != 2*time.Second {
			t.Errorf("the third attempt's span took %v, want 2s", took)
		}
		if took := call.EndTime().Sub(call.StartTime()); took != 10*time.Second {
			t.Errorf("the call's span took %v, want 10s", took)
		}
		if got := third.InstrumentationScope().SchemaURL; got != "https://opentelemetry.io/schemas/1.41.0" {
			t.Errorf("schema URL %q", got)
		}
	})
}

func TestTelemetryACallThatFailsIsInErrorAndSaysWhichLimitEndedIt(t *testing.T) {
	r := newTelemetryRig(t)
	stalled := &llm.Error{Class: llm.Stalled, Message: "no first token within 5s"}
	denied := llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
		return nil, req.Skipped(&llm.Error{Class: llm.Exhausted, Deployment: "b", Message: "2s left, 4s needed"})
	})
	_, err := r.pipeline(telemetryTry(telemetryLeaf("a", "p", "m", llmtest.Fail(stalled)), denied)).Call(t.Context(), telemetryAsk())
	if err == nil {
		t.Fatal("no error")
	}
	call := r.call()
	want := "exhausted: a: stalled: no first token within 5s; b: not called: exhausted: 2s left, 4s needed"
	if s := call.Status(); s.Code != codes.Error || s.Description != want {
		t.Errorf("status %+v, want %q", s, want)
	}
	telemetryWant(t, "call", call.Attributes(), map[string]string{
		"error.type": "exhausted", "llm.call.outcome": "failed_closed", "llm.call.attempts": "1",
	})
	key := attribute.Key("error.type")
	if _, ok := r.sums("llm.client.call.duration", key)["exhausted"]; !ok {
		t.Errorf("durations of calls: %v", r.sums("llm.client.call.duration", key))
	}
	if got := r.logs.at("ERROR"); len(got) != 1 || !strings.Contains(got[0], "b: not called: exhausted: 2s left") {
		t.Errorf("ERROR records: %q", got)
	}
}

func TestTelemetryErrorTypesAreAFewWords(t *testing.T) {
	for c := range llm.Class(llm.NumClasses) {
		if c == llm.Canceled { // not by a model's word
			continue
		}
		r := newTelemetryRig(t)
		if _, err := r.pipeline(telemetryLeaf("a", "p", "m", llmtest.Fail(&llm.Error{Class: c}))).Call(t.Context(), telemetryAsk()); err == nil {
			t.Fatal("no error")
		}
		want := c.String()
		if c == llm.Unknown {
			want = "_OTHER"
		}
		telemetryWant(t, want, r.named("chat")[0].Attributes(), map[string]string{"error.type": want})
		telemetryEqual(t, "metric", r.sums("gen_ai.client.operation.duration", "llm.deployment", "error.type"),
			map[string]float64{"a " + want: r.sums("gen_ai.client.operation.duration")[""]})
	}
}

func TestTelemetryPassedOverDeploymentsAndDeniedRetriesAreEvents(t *testing.T) {
	r := newTelemetryRig(t)
	a := telemetryLeaf("a", "p", "m", llmtest.Fail(llm.RateLimited))
	skip := func(name string, class llm.Class, why string) llm.Caller {
		return llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
			return nil, req.Skipped(&llm.Error{Class: class, Deployment: name, Message: why})
		})
	}
	p := r.pipeline(telemetryTry(
		skip("y", llm.Unsupported, "no images"), skip("z", llm.Cooling, "rests 40s"), a, skip("a", llm.Exhausted, "30s asked, 5s left"), telemetryLeaf("b", "q", "n"),
	))
	if _, err := p.Call(t.Context(), telemetryAsk()); err != nil {
		t.Fatal(err)
	}
	events := r.call().Events()
	if len(events) != 3 || events[1].Name != "llm.deployment.skipped" || events[2].Name != "llm.retry.denied" {
		t.Fatalf("events: %+v", events)
	}
	telemetryWant(t, "unfit", events[0].Attributes, map[string]string{
		"llm.deployment": "y", "llm.reason": "unsupported", "llm.detail": "no images",
	})
	telemetryWant(t, "skip", events[1].Attributes, map[string]string{
		"llm.deployment": "z", "llm.reason": "cooling", "llm.detail": "rests 40s",
	})
	telemetryWant(t, "denied", events[2].Attributes, map[string]string{
		"llm.deployment": "a", "llm.reason": "exhausted", "llm.detail": "30s asked, 5s left",
	})
	keys := []attribute.Key{"llm.deployment", "llm.reason"}
	telemetryEqual(t, "skipped", r.sums("llm.client.skipped", keys...), map[string]float64{"y unsupported": 1, "z cooling": 1})
	telemetryEqual(t, "denied", r.sums("llm.client.retries_denied", keys...), map[string]float64{"a exhausted": 1})
	telemetryEqual(t, "fallbacks", r.sums("llm.client.fallbacks", "llm.fallback.from", "llm.fallback.to", "llm.reason"),
		map[string]float64{"z a cooling": 1, "a b rate_limited": 1})
	records := strings.Join(r.logs.at("DEBUG"), "\n")
	for _, want := range []string{
		`msg="llm deployment skipped" route=support deployment=z class=cooling why="rests 40s"`,
		`msg="llm retry denied" route=support deployment=a class=exhausted why="30s asked, 5s left"`,
	} {
		if !strings.Contains(records, want) {
			t.Errorf("record %s is missing in\n%s", want, records)
		}
	}
}

func TestTelemetryARejectedAnswerIsAFailedAttempt(t *testing.T) {
	r := newTelemetryRig(t)
	strict := func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err == nil && resp.Text() != "good" {
				return nil, resp.Reject(&llm.Error{Class: llm.BadOutput, Message: "not good"})
			}
			return resp, err
		})
	}
	step := func(text string) llmtest.Step {
		return llmtest.Step{Response: &llm.Response{Parts: []llm.Part{llm.Text(text)}, RequestID: text, Usage: llm.Usage{Input: 5}}}
	}
	a := strict(telemetryLeaf("a", "p", "m", step("bad"), step("good")))
	if _, err := r.pipeline(telemetryTry(a, a)).Call(t.Context(), telemetryAsk()); err != nil {
		t.Fatal(err)
	}
	spans := r.named("chat")
	if len(spans) != 2 || spans[0].Status().Code != codes.Error || spans[1].Status().Code != codes.Unset {
		t.Fatalf("spans: %+v", spans)
	}
	telemetryWant(t, "rejected", spans[0].Attributes(), map[string]string{"error.type": "bad_output", "gen_ai.usage.input_tokens": "5"})
	telemetryWant(t, "good", spans[1].Attributes(), map[string]string{
		"gen_ai.response.id": "good", "llm.attempt.reason": "retry", "llm.attempt.after": "bad_output",
	})
	telemetryWant(t, "call", r.call().Attributes(), map[string]string{"llm.call.outcome": "retry_recovery"})

	r = newTelemetryRig(t)
	if _, err := r.pipeline(strict(telemetryLeaf("a", "p", "m", step("bad")))).Call(t.Context(), telemetryAsk()); err == nil {
		t.Fatal("no error")
	}
	telemetryWant(t, "last rejected", r.named("chat")[0].Attributes(), map[string]string{
		"error.type": "bad_output", "gen_ai.response.finish_reasons": "-",
	})
}

func TestTelemetryACutStreamIsNeverASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTelemetryRig(t)
		cut := llmtest.Step{
			Delay: 2 * time.Second, Gap: time.Second, Deltas: []llm.Delta{{Text: "one"}, {Text: "two"}}, Err: llm.Interrupted,
		}
		req, got := telemetryAsk(), ""
		req.Sink = func(d llm.Delta) error { got += d.Text; return nil }
		_, err := r.pipeline(telemetryLeaf("a", "p", "m", cut)).Call(t.Context(), req)
		if err == nil || got != "onetwo" {
			t.Fatalf("%q, %v", got, err)
		}
		telemetryWant(t, "attempt", r.named("chat")[0].Attributes(), map[string]string{
			"gen_ai.response.finish_reasons": `["error"]`, "error.type": "interrupted", "gen_ai.request.stream": "true",
			"gen_ai.response.time_to_first_chunk": "2",
		})
		telemetryWant(t, "call", r.call().Attributes(), map[string]string{
			"llm.call.outcome": "failed_closed", "llm.call.partial": "true", "error.type": "interrupted",
		})
		telemetryEqual(t, "first chunk", r.sums("gen_ai.client.operation.time_to_first_chunk"), map[string]float64{"": 2})
	})
}

func TestTelemetryEndsItsSpansWhenASinkPanics(t *testing.T) {
	r := newTelemetryRig(t)
	req := telemetryAsk()
	req.Sink = func(llm.Delta) error { panic("sink") }
	func() {
		defer func() {
			if v := recover(); v != "sink" {
				t.Errorf("recovered %v", v)
			}
		}()
		_, err := r.pipeline(telemetryLeaf("a", "p", "m")).Call(t.Context(), req)
		t.Errorf("returned %v", err)
	}()
	if len(r.spans.Ended()) != 2 {
		t.Fatalf("%d spans ended, want 2", len(r.spans.Ended()))
	}
	telemetryWant(t, "call", r.call().Attributes(), map[string]string{"llm.call.outcome": "failed_closed", "error.type": "_OTHER"})
}
