package middleware_test

import (
	"context"
	"log/slog"
	"reflect"
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// telemetryQuiet are the ways to have no telemetry.
func telemetryQuiet() map[string]middleware.TelemetryConfig {
	text := slog.New(slog.DiscardHandler)
	return map[string]middleware.TelemetryConfig{
		"nothing set up": {},
		"no-op providers": {
			Tracer: tracenoop.NewTracerProvider(), Meter: metricnoop.NewMeterProvider(), Logger: slog.New(slog.DiscardHandler),
		},
		"metrics nobody reads": {Meter: sdkmetric.NewMeterProvider(), Logger: text},
	}
}

func TestTelemetryThatNobodyListensToAllocatesNothing(t *testing.T) {
	answer := &llm.Response{Parts: []llm.Part{llm.Text("x")}, Attempts: make([]llm.Attempt, 1)}
	for name, config := range telemetryQuiet() {
		t.Run(name, func(t *testing.T) {
			c := middleware.Telemetry(config).Wrap(llm.CallerFunc(
				func(_ context.Context, req *llm.Request) (*llm.Response, error) {
					for range req.Gates() {
						t.Error("a gate is in force")
					}
					return answer, nil
				}))
			req, ctx := telemetryAsk(), t.Context()
			if n := testing.AllocsPerRun(100, func() {
				if resp, err := c.Call(ctx, req); resp != answer || err != nil {
					t.Error(resp, err)
				}
			}); n != 0 {
				t.Errorf("%v allocations a call, want 0", n)
			}
		})
	}
}

func TestTelemetryHandsTheSinkOnAsItIs(t *testing.T) {
	r := newTelemetryRig(t)
	req := telemetryAsk()
	req.Sink = func(llm.Delta) error { return nil }
	want := reflect.ValueOf(req.Sink).Pointer()
	c := middleware.Telemetry(r.config).Wrap(llm.CallerFunc(func(_ context.Context, in *llm.Request) (*llm.Response, error) {
		if reflect.ValueOf(in.Sink).Pointer() != want {
			t.Error("the sink is wrapped, which every delta pays for")
		}
		return &llm.Response{Parts: []llm.Part{llm.Text("x")}}, nil
	}))
	if _, err := c.Call(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

func TestTelemetryLeavesNoGateWhenTheCallIsOver(t *testing.T) {
	r := newTelemetryRig(t)
	req := telemetryAsk()
	p := r.pipeline(telemetryLeaf("a", "p", "m"))
	if _, err := p.Call(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	for range req.Gates() {
		t.Error("the caller's request was changed")
	}
}

func BenchmarkTelemetryOff(b *testing.B) {
	answer := &llm.Response{Parts: []llm.Part{llm.Text("x")}, Attempts: make([]llm.Attempt, 1)}
	leaf := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return answer, nil })
	ctx, req := b.Context(), telemetryAsk()
	for name, config := range telemetryQuiet() {
		b.Run(name, func(b *testing.B) {
			c := middleware.Telemetry(config).Wrap(leaf)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Call(ctx, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTelemetryOn(b *testing.B) {
	leaf := &llm.Deployment{Name: "a", Provider: "p", Model: "m", Caller: llm.CallerFunc(
		func(context.Context, *llm.Request) (*llm.Response, error) {
			return &llm.Response{Parts: []llm.Part{llm.Text("x")}, Usage: llm.Usage{Input: 1, Output: 1}}, nil
		})}
	none := middleware.TelemetryConfig{
		Tracer: tracenoop.NewTracerProvider(), Meter: metricnoop.NewMeterProvider(), Logger: slog.New(slog.DiscardHandler),
	}
	traced, metered := none, none
	traced.Tracer = sdktrace.NewTracerProvider()
	metered.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	for name, config := range map[string]middleware.TelemetryConfig{"none": none, "traces": traced, "metrics": metered} {
		b.Run(name, func(b *testing.B) {
			p := llm.New(middleware.Telemetry(config)).Then(leaf)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Call(b.Context(), telemetryAsk()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
