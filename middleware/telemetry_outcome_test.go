package middleware_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func TestTelemetryOutcomes(t *testing.T) {
	ok, fail := llmtest.Text("x"), llmtest.Fail(llm.Unavailable)
	skip := func(name string, class llm.Class) llm.Caller {
		return llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
			return nil, req.Skipped(&llm.Error{Class: class, Deployment: name, Message: "passed over"})
		})
	}
	degraded := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
		return &llm.Response{Parts: []llm.Part{llm.Text("later")}, Degraded: true}, nil
	})
	cached := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
		return &llm.Response{Parts: []llm.Part{llm.Text("kept")}}, nil
	})
	left := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return nil, context.Canceled })
	twice := telemetryLeaf("a", "p", "m", fail, ok)
	nameless := telemetryLeaf("a", "", "", fail, ok)
	primary := func(s ...llmtest.Step) *llm.Deployment { return telemetryLeaf("a", "p", "m", s...) }
	other := telemetryLeaf("b", "q", "n", ok)
	long := telemetryLeaf("a", "p", "m", ok)
	long.Window = 10
	tests := []struct {
		name   string
		caller llm.Caller
		every  bool
		want   middleware.Outcome
	}{
		{"the primary answers", primary(ok), false, "primary_success"},
		{"an answer without a provider call", cached, false, "primary_success"},
		{"a retry on the same deployment is no fallback", telemetryTry(twice, twice), false, "retry_recovery"},
		{"not even where only its name is known", telemetryTry(nameless, nameless), false, "retry_recovery"},
		{"the primary answers after it was passed over", telemetryTry(skip("a", llm.Cooling), primary(ok)), false, "primary_success"},
		{"another deployment answers after a failure", telemetryTry(primary(fail), other), false, "fallback_recovery"},
		{"another deployment answers while the primary rests", telemetryTry(skip("a", llm.Cooling), other), false, "fallback_recovery"},
		{"the same model under another name is a retry", telemetryTry(primary(fail), telemetryLeaf("a2", "p", "m", ok)), false, "retry_recovery"},
		{"unless every move counts", telemetryTry(primary(fail), telemetryLeaf("a2", "p", "m", ok)), true, "fallback_recovery"},
		{"names alone tell deployments apart", telemetryTry(telemetryLeaf("a", "", "", fail), telemetryLeaf("b", "", "", ok)), false, "fallback_recovery"},
		{"too long for the first window is routing", telemetryTry(skip("a", llm.TooLong), other), false, "primary_success"},
		{"a missing capability is routing", telemetryTry(skip("a", llm.Unsupported), other), false, "primary_success"},
		{"too long by the provider's word is a fallback", telemetryTry(primary(llmtest.Fail(llm.TooLong)), other), false, "fallback_recovery"},
		{"a stand-in", telemetryTry(primary(fail), degraded), false, "degraded"},
		{"an error", primary(fail), false, "failed_closed"},
		{"the caller left", left, false, "canceled"},
		{"nothing at all", llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return nil, nil }), false, "failed_closed"},
		{"a refusal is an answer", primary(llmtest.Step{Response: &llm.Response{Refusal: "no", Stop: llm.StopRefusal}}), false, "primary_success"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newTelemetryRig(t)
			r.config.EveryMove = tt.every
			resp, err := r.pipeline(tt.caller).Call(t.Context(), telemetryAsk())
			want := map[string]float64{
				"primary_success": 0, "retry_recovery": 0, "fallback_recovery": 0, "degraded": 0, "failed_closed": 0, "queued": 0, "canceled": 0,
			}
			want[string(tt.want)] = 1
			telemetryEqual(t, "calls", r.sums("llm.client.calls", "llm.call.outcome"), want)
			telemetryWant(t, "call", r.call().Attributes(), map[string]string{"llm.call.outcome": string(tt.want)})
			if got := middleware.OutcomeOf(resp, err); got != tt.want && !tt.every {
				t.Errorf("OutcomeOf = %s, want %s", got, tt.want)
			}
			if fallbacks := len(r.sums("llm.client.fallbacks")); (fallbacks > 0) != (tt.want == "fallback_recovery") {
				t.Errorf("%d series of fallbacks with outcome %s", fallbacks, tt.want)
			}
		})
	}
}

func TestTelemetryACallerThatLeftIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTelemetryRig(t)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := r.pipeline(telemetryLeaf("a", "p", "m", llmtest.Step{Hang: true})).Call(ctx, telemetryAsk())
		if !errors.Is(err, llm.Canceled) {
			t.Fatal(err)
		}
		for _, s := range r.spans.Ended() {
			if s.Status().Code != codes.Unset {
				t.Errorf("%s has status %+v", s.Name(), s.Status())
			}
		}
		telemetryWant(t, "call", r.call().Attributes(), map[string]string{"llm.call.outcome": "canceled", "error.type": "-"})
		telemetryWant(t, "attempt", r.named("chat")[0].Attributes(), map[string]string{"error.type": "canceled"})
		telemetryEqual(t, "durations", r.sums("gen_ai.client.operation.duration", "error.type"), map[string]float64{"canceled": 1})
		if n := len(r.logs.at("ERROR")) + len(r.logs.at("WARN")) + len(r.logs.at("INFO")); n > 0 {
			t.Errorf("records above DEBUG: %q", r.logs.lines)
		}
		if len(r.logs.at("DEBUG")) != 2 {
			t.Errorf("records: %q", r.logs.lines)
		}
	})
}

func TestTelemetryARefusalIsAnAnswerThatIsMarkedAndLogged(t *testing.T) {
	r := newTelemetryRig(t)
	refusal := &llm.Response{Refusal: "SECRET I will not", Stop: llm.StopRefusal, StopDetail: "refusal"}
	resp, err := r.pipeline(telemetryLeaf("a", "p", "m", llmtest.Step{Response: refusal})).Call(t.Context(), telemetryAsk())
	if err != nil || !resp.Refused() {
		t.Fatal(resp, err)
	}
	call := r.call()
	telemetryWant(t, "call", call.Attributes(), map[string]string{
		"llm.call.refused": "true", "llm.call.outcome": "primary_success", "error.type": "-",
	})
	telemetryWant(t, "attempt", r.named("chat")[0].Attributes(), map[string]string{"gen_ai.response.finish_reasons": `["refusal"]`})
	telemetryEqual(t, "calls", r.sums("llm.client.calls", "llm.call.refused"), map[string]float64{"true": 1, "-": 0})
	info := r.logs.at("INFO")
	if len(info) != 1 || !strings.Contains(info[0], `msg="llm answer refused"`) || !strings.Contains(info[0], "deployment=a") {
		t.Errorf("INFO records: %q", info)
	}
}

func TestTelemetryInsideAnotherAddsNothing(t *testing.T) {
	for name, innerToo := range map[string]bool{"inner one on": true, "inner one off": false} {
		t.Run(name, func(t *testing.T) {
			r := newTelemetryRig(t)
			inner := r.config
			if !innerToo {
				inner.Tracer, inner.Meter = nil, nil
				r.logs.info = true
			}
			leaf := telemetryLeaf("a", "p", "m", llmtest.Fail(&llm.Error{Class: llm.Unavailable, Usage: llm.Usage{Input: 7}}))
			p := r.pipeline(llm.New(middleware.Telemetry(inner)).Then(leaf))
			if _, err := p.Call(t.Context(), telemetryAsk()); err == nil {
				t.Fatal("no error")
			}
			if n := len(r.spans.Ended()); n != 2 {
				t.Errorf("%d spans, want one of the call and one of the attempt", n)
			}
			telemetryEqual(t, "tokens", r.sums("gen_ai.client.token.usage", "gen_ai.token.type"), map[string]float64{"input": 7})
			telemetryEqual(t, "attempts", r.sums("llm.client.attempts"), map[string]float64{"": 1})
			if n := len(r.logs.at("ERROR")); n != 1 {
				t.Errorf("%d ERROR records, want 1: %q", n, r.logs.lines)
			}
		})
	}
}

func TestTelemetryGuardsOtherCalls(t *testing.T) {
	r := newTelemetryRig(t)
	r.config.Operation = "embeddings"
	g := llm.NewGuard("embedder", llm.New(middleware.Telemetry(r.config)))
	n, err := llm.Do(t.Context(), g, func(ctx context.Context) (int, error) {
		if !trace.SpanContextFromContext(ctx).IsValid() {
			t.Error("the function has no span in its context")
		}
		return 7, nil
	})
	if n != 7 || err != nil {
		t.Fatal(n, err)
	}
	spans := r.named("embeddings")
	if len(spans) != 1 {
		t.Fatalf("%d spans", len(spans))
	}
	telemetryWant(t, "attempt", spans[0].Attributes(), map[string]string{
		"gen_ai.operation.name": "embeddings", "llm.deployment": "embedder", "gen_ai.provider.name": "unknown",
		"gen_ai.request.model": "-",
	})
}

func TestTelemetryWorksAloneAndPassesTheCallOnUnchanged(t *testing.T) {
	r := newTelemetryRig(t)
	leaf := telemetryLeaf("a", "p", "m", llmtest.Fail(llm.Unavailable), llmtest.Text("x"))
	c := middleware.Telemetry(r.config).Wrap(telemetryTry(leaf, leaf))
	var got []string
	req := telemetryAsk()
	req.Sink = func(d llm.Delta) error { got = append(got, d.Text); return nil }
	resp, err := c.Call(t.Context(), req)
	if err != nil || resp.Text() != "x" || strings.Join(got, "|") != "x" {
		t.Fatal(resp, err, got)
	}
	telemetryWant(t, "call", r.call().Attributes(), map[string]string{"llm.call.attempts": "2", "llm.call.outcome": "retry_recovery"})
	if _, err := c.Call(t.Context(), nil); !errors.Is(err, llm.Invalid) {
		t.Errorf("a nil request gives %v", err)
	}
}

func TestTelemetryKeepsConcurrentCallsApart(t *testing.T) {
	r := newTelemetryRig(t)
	flaky := &llm.Deployment{Name: "a", Provider: "p", Model: "m", Caller: llm.CallerFunc(
		func(_ context.Context, req *llm.Request) (*llm.Response, error) {
			if req.Made() == 1 {
				return nil, llm.Unavailable
			}
			return &llm.Response{Parts: []llm.Part{llm.Text("x")}, Usage: llm.Usage{Input: 1}}, nil
		})}
	p := r.pipeline(telemetryTry(flaky, flaky))
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if _, err := p.Call(t.Context(), telemetryAsk()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	calls := map[trace.SpanID]int{}
	for _, s := range r.named("chat") {
		calls[s.Parent().SpanID()]++
	}
	for id, n := range calls {
		if n != 2 {
			t.Errorf("call %v has %d attempts, want 2", id, n)
		}
	}
	telemetryEqual(t, "calls", r.sums("llm.client.calls", "llm.call.outcome"), map[string]float64{
		"retry_recovery": 32, "primary_success": 0, "fallback_recovery": 0, "degraded": 0, "failed_closed": 0, "queued": 0, "canceled": 0,
	})
}

func TestTelemetrySeesAnSDKInstalledLater(t *testing.T) {
	tp, mp := otel.GetTracerProvider(), otel.GetMeterProvider()
	t.Cleanup(func() { otel.SetTracerProvider(tp); otel.SetMeterProvider(mp) })
	r := newTelemetryRig(t)
	installed := r.config
	for name, config := range map[string]middleware.TelemetryConfig{
		"providers left out":            {Logger: r.config.Logger},
		"otel's placeholders passed in": {Tracer: tp, Meter: mp, Logger: r.config.Logger},
	} {
		t.Run(name, func(t *testing.T) {
			if otel.GetTracerProvider() != tp {
				otel.SetTracerProvider(tp)
				otel.SetMeterProvider(mp)
			}
			p := llm.New(middleware.Telemetry(config)).Then(telemetryLeaf("a", "p", "m"))
			call := func() {
				if _, err := p.Call(t.Context(), telemetryAsk()); err != nil {
					t.Fatal(err)
				}
			}
			before, counted := len(r.spans.Ended()), r.sums("llm.client.attempts")[""]
			call()
			if len(r.spans.Ended()) != before {
				t.Fatal("spans before there is an SDK")
			}
			otel.SetTracerProvider(installed.Tracer)
			otel.SetMeterProvider(installed.Meter)
			call()
			if n := len(r.spans.Ended()) - before; n != 2 {
				t.Errorf("%d spans once there is an SDK, want 2", n)
			}
			if n := r.sums("llm.client.attempts")[""] - counted; n != 1 {
				t.Errorf("%v attempts counted once there is an SDK, want 1", n)
			}
		})
	}
}

func TestTelemetryDescribesItselfWithItsDefaults(t *testing.T) {
	p := llm.New(middleware.Telemetry(middleware.TelemetryConfig{Route: "support"})).Then(telemetryLeaf("a", "p", "m"))
	want := "telemetry {Route:support Operation:chat}\n  a (p/m)"
	if got := p.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// telemetryOdd is a provider whose values cannot be compared.
type telemetryOdd struct {
	trace.TracerProvider
	_ []int
}

func TestTelemetryTakesProvidersThatCannotBeCompared(t *testing.T) {
	r := newTelemetryRig(t)
	r.config.Tracer = telemetryOdd{TracerProvider: r.config.Tracer}
	p := r.pipeline(telemetryLeaf("a", "p", "m"))
	for range 2 {
		if _, err := p.Call(t.Context(), telemetryAsk()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.spans.Ended()); n != 4 {
		t.Errorf("%d spans, want 4", n)
	}
	telemetryEqual(t, "attempts", r.sums("llm.client.attempts"), map[string]float64{"": 2})
}
