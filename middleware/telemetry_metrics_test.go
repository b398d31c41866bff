package middleware_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func TestTelemetryUsesTheNewerNamesWhereTheEnvironmentAsks(t *testing.T) {
	t.Setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http, gen_ai_latest_experimental")
	synctest.Test(t, func(t *testing.T) {
		r := newTelemetryRig(t)
		usage := llm.Usage{Input: 10, CachedInput: 4, CacheWrite: 3, Output: 6, Reasoning: 2}
		a := telemetryLeaf("a", "openai", "gpt-4o", llmtest.Step{
			Delay: time.Second, Err: &llm.Error{Class: llm.Interrupted, Usage: llm.Usage{Input: 7}},
		}, llmtest.Step{Delay: time.Second, Response: &llm.Response{Parts: []llm.Part{llm.Text("hi")}, Usage: usage}})
		req := telemetryAsk()
		req.Sink = func(llm.Delta) error { return nil }
		if _, err := r.pipeline(telemetryTry(a, a)).Call(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		telemetryWant(t, "attempt", r.named("chat ")[1].Attributes(), map[string]string{
			"gen_ai.usage.cache_write.input_tokens": "3", "gen_ai.usage.cache_creation.input_tokens": "-",
			"gen_ai.usage.input_tokens": "10", "gen_ai.response.time_to_first_chunk": "1",
		})
		key := attribute.Key("error.type")
		telemetryEqual(t, "duration", r.sums("gen_ai.client.inference.duration", key), map[string]float64{"interrupted": 1, "-": 1})
		telemetryEqual(t, "first", r.sums("gen_ai.client.inference.time_to_first_chunk"), map[string]float64{"": 1})
		for name, want := range map[string]float64{
			"input_tokens": 17, "output_tokens": 6, "cache_read.input_tokens": 4, "cache_write.input_tokens": 3,
			"reasoning.output_tokens": 2,
		} {
			got := r.sums("gen_ai.client.inference.usage."+name, "gen_ai.token.modality")
			telemetryEqual(t, name, got, map[string]float64{"unknown": want})
		}
		telemetryEqual(t, "per operation", r.sums("gen_ai.client.inference.operation.input_tokens", key),
			map[string]float64{"interrupted": 7, "-": 10})
		for name := range r.metrics() {
			if strings.HasPrefix(name, "gen_ai.client.operation.") || strings.HasPrefix(name, "gen_ai.client.token.") {
				t.Errorf("the older %s is emitted too", name)
			}
		}
	})
}

func TestTelemetryMetricsOfACallWithARetryAndAFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTelemetryRig(t)
		a := telemetryLeaf("a", "openai", "gpt-4o", llmtest.Step{Delay: time.Second, Err: llm.Unavailable})
		b := telemetryLeaf("b", "anthropic", "claude", llmtest.Step{Delay: 2 * time.Second})
		p := r.pipeline(&telemetrySteps{3 * time.Second, []llm.Caller{a, a, b}})
		if _, err := p.Call(t.Context(), telemetryAsk()); err != nil {
			t.Fatal(err)
		}
		telemetryEqual(t, "call", r.sums("llm.client.call.duration", "llm.route", "llm.call.outcome", "error.type"),
			map[string]float64{"support fallback_recovery -": 10})
		telemetryEqual(t, "attempts", r.sums("llm.client.attempts", "llm.route"), map[string]float64{"support": 3})
		telemetryEqual(t, "waits", r.sums("llm.client.retry_delay", "llm.deployment"), map[string]float64{"a": 3, "b": 3})
		telemetryEqual(t, "operations", r.sums("gen_ai.client.operation.duration",
			"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "llm.deployment", "error.type"),
			map[string]float64{"chat openai gpt-4o a unavailable": 2, "chat anthropic claude b -": 2})
		telemetryEqual(t, "fallbacks", r.sums("llm.client.fallbacks", "llm.fallback.from", "llm.fallback.to", "llm.reason"),
			map[string]float64{"a b unavailable": 1})
	})
}

func TestTelemetryBucketsAreTheConventions(t *testing.T) {
	r := newTelemetryRig(t)
	answer := &llm.Response{Parts: []llm.Part{llm.Text("x")}, Usage: llm.Usage{Input: 1, Output: 1}}
	if _, err := r.pipeline(telemetryLeaf("a", "p", "m", llmtest.Step{Response: answer})).Call(t.Context(), telemetryAsk()); err != nil {
		t.Fatal(err)
	}
	all := r.metrics()
	seconds, ok := all["gen_ai.client.operation.duration"].Data.(metricdata.Histogram[float64])
	if !ok || len(seconds.DataPoints[0].Bounds) != 14 || seconds.DataPoints[0].Bounds[13] != 81.92 {
		t.Errorf("duration: %+v", seconds)
	}
	tokens, ok := all["gen_ai.client.token.usage"].Data.(metricdata.Histogram[int64])
	if !ok || len(tokens.DataPoints[0].Bounds) != 14 || tokens.DataPoints[0].Bounds[13] != 67108864 {
		t.Errorf("tokens: %+v", tokens)
	}
	whole, ok := all["llm.client.call.duration"].Data.(metricdata.Histogram[float64])
	if !ok || whole.DataPoints[0].Bounds[len(whole.DataPoints[0].Bounds)-1] != 655.36 {
		t.Errorf("call: %+v", whole)
	}
}

func TestTelemetryTokensOfAllAttemptsAddUpToTheBill(t *testing.T) {
	r := newTelemetryRig(t)
	var bill llm.Usage
	billed := func(u llm.Usage, class llm.Class) llmtest.Step {
		return llmtest.Step{Func: func(context.Context, *llm.Request) (*llm.Response, error) {
			bill = bill.Add(u)
			if class != 0 {
				return nil, &llm.Error{Class: class, Usage: u}
			}
			return &llm.Response{Parts: []llm.Part{llm.Text("x")}, Usage: u}, nil
		}}
	}
	a := telemetryLeaf("a", "p", "m", billed(llm.Usage{Input: 300, Output: 40}, llm.Interrupted), billed(llm.Usage{Input: 300}, llm.BadOutput))
	a.Price = llm.Price{Input: 1, Output: 2}
	b := telemetryLeaf("b", "q", "n", billed(llm.Usage{Input: 500, CachedInput: 100, Output: 70, Reasoning: 30}, 0))
	b.Price = llm.Price{Input: 10, Output: 20}
	resp, err := r.pipeline(telemetryTry(a, a, b)).Call(t.Context(), telemetryAsk())
	if err != nil {
		t.Fatal(err)
	}
	telemetryEqual(t, "tokens", r.sums("gen_ai.client.token.usage", "gen_ai.token.type"),
		map[string]float64{"input": float64(bill.Input), "output": float64(bill.Output)})
	keys := []attribute.Key{"error.type", "llm.deployment", "gen_ai.provider.name", "gen_ai.request.model"}
	telemetryEqual(t, "tokens by model", r.sums("gen_ai.client.token.usage", keys...),
		map[string]float64{"- a p m": 640, "- b q n": 570})
	var input int
	for _, s := range r.spans.Ended() {
		for _, kv := range s.Attributes() {
			if kv.Key == "gen_ai.usage.input_tokens" {
				input += int(kv.Value.AsInt64())
			}
		}
	}
	if input != bill.Input || bill.Input != 1100 {
		t.Errorf("spans have %d input tokens, the bill has %d", input, bill.Input)
	}
	var cost float64
	for _, row := range resp.Attempts {
		cost += row.CostUSD
	}
	var counted float64
	for _, v := range r.sums("llm.client.cost") {
		counted += v
	}
	if cost == 0 || counted < cost*0.999 || counted > cost*1.001 {
		t.Errorf("cost counted %v, account %v", counted, cost)
	}
}

func TestTelemetryCountersAreThereAtZeroBeforeTheFirstCall(t *testing.T) {
	r := newTelemetryRig(t)
	r.pipeline(telemetryLeaf("a", "p", "m"))
	telemetryEqual(t, "calls", r.sums("llm.client.calls", "llm.route", "llm.call.outcome"), map[string]float64{
		"support primary_success": 0, "support retry_recovery": 0, "support fallback_recovery": 0, "support degraded": 0,
		"support failed_closed": 0, "support queued": 0, "support canceled": 0,
	})
}

// telemetryRests is what a store of cooldowns tells.
type telemetryRests []middleware.CooldownState

func (s telemetryRests) Snapshot() []middleware.CooldownState { return s }

func TestTelemetryACooldownGaugeShowsEachDeployment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTelemetryRig(t)
		soon, late := time.Now().Add(time.Minute), time.Now().Add(time.Hour)
		r.config.Cooldowns = telemetryRests{
			{Scope: middleware.Itself, Name: "a", Until: soon},
			{Scope: middleware.SharedQuota, Name: "team", Until: soon},
			{Scope: middleware.SharedCredential, Name: "key", Until: late},
			{Scope: middleware.Itself, Name: "elsewhere", Until: late},
			{Scope: middleware.SharedQuota, Name: "d", Until: late},
		}
		b, c := telemetryLeaf("b", "q", "n"), telemetryLeaf("c", "q", "n")
		b.Quota, c.Quota, c.Credential = "team", "team", "key"
		r.pipeline(telemetryTry(telemetryLeaf("a", "p", "m"), b, c, telemetryLeaf("d", "r", "o")))
		state := func() map[string]float64 {
			return r.sums("llm.client.cooldown.state", "llm.route", "llm.deployment")
		}
		telemetryEqual(t, "resting", state(), map[string]float64{"support a": 1, "support b": 1, "support c": 1, "support d": 0})
		<-time.NewTimer(time.Minute).C
		telemetryEqual(t, "due", state(), map[string]float64{"support a": 2, "support b": 2, "support c": 1, "support d": 0})
	})
}

func TestTelemetryMetricsHaveFewValues(t *testing.T) {
	r := newTelemetryRig(t)
	r.config.Labels = []string{"feature"}
	a := telemetryLeaf("a", "p", "m", llmtest.Fail(llm.Unavailable))
	req := telemetryAsk()
	req.Labels = map[string]string{"feature": "LABEL", "tenant": "TENANT"}
	if _, err := r.pipeline(telemetryTry(a, a, telemetryLeaf("b", "q", "n"))).Call(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	telemetryWant(t, "call", r.call().Attributes(), map[string]string{"llm.label.feature": "LABEL", "llm.label.tenant": "-"})
	allowed := map[attribute.Key]bool{
		"llm.route": true, "llm.deployment": true, "llm.call.outcome": true, "llm.call.refused": true, "error.type": true,
		"llm.fallback.from": true, "llm.fallback.to": true, "llm.reason": true, "gen_ai.operation.name": true,
		"gen_ai.provider.name": true, "gen_ai.request.model": true, "gen_ai.response.model": true, "gen_ai.token.type": true,
	}
	seen := 0
	check := func(name string, set attribute.Set) {
		seen++
		for _, kv := range set.ToSlice() {
			if !allowed[kv.Key] {
				t.Errorf("%s has the attribute %s", name, kv.Key)
			}
		}
	}
	for name, m := range r.metrics() {
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range d.DataPoints {
				check(name, p.Attributes)
			}
		case metricdata.Histogram[int64]:
			for _, p := range d.DataPoints {
				check(name, p.Attributes)
			}
		case metricdata.Histogram[float64]:
			for _, p := range d.DataPoints {
				check(name, p.Attributes)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d series looked at", seen)
	}
	for _, l := range r.logs.lines {
		if !strings.Contains(l, "llm.label.feature=LABEL") || strings.Contains(l, "TENANT") {
			t.Errorf("labels of the record %q", l)
		}
	}
}

func TestTelemetryOtherOperationsKeepTheirNamesInTheNewerConventions(t *testing.T) {
	t.Setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")
	r := newTelemetryRig(t)
	r.config.Operation = "embeddings"
	answer := &llm.Response{Parts: []llm.Part{llm.Text("x")}, Usage: llm.Usage{Input: 3}}
	if _, err := r.pipeline(telemetryLeaf("a", "p", "m", llmtest.Step{Response: answer})).Call(t.Context(), telemetryAsk()); err != nil {
		t.Fatal(err)
	}
	if len(r.sums("gen_ai.client.operation.duration")) != 1 || len(r.sums("gen_ai.client.inference.duration")) != 0 {
		t.Errorf("instruments: %v", r.metrics())
	}
	telemetryEqual(t, "tokens", r.sums("gen_ai.client.token.usage", "gen_ai.token.type"), map[string]float64{"input": 3})
}

func TestTelemetryStopsReadingCooldownsForAProviderThatWasReplaced(t *testing.T) {
	mp := otel.GetMeterProvider()
	t.Cleanup(func() { otel.SetMeterProvider(mp) })
	old, r := newTelemetryRig(t), newTelemetryRig(t)
	otel.SetMeterProvider(old.config.Meter)
	r.config.Meter = nil
	r.config.Cooldowns = telemetryRests{}
	p := r.pipeline(telemetryLeaf("a", "q", "m"))
	state := func() map[string]float64 { return old.sums("llm.client.cooldown.state", "llm.deployment") }
	telemetryEqual(t, "before", state(), map[string]float64{"a": 0})
	otel.SetMeterProvider(sdkmetric.NewMeterProvider())
	if _, err := p.Call(t.Context(), telemetryAsk()); err != nil {
		t.Fatal(err)
	}
	telemetryEqual(t, "after", state(), map[string]float64{})
}
