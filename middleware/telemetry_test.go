package middleware_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// telemetryRig is an SDK that keeps what it gets.
type telemetryRig struct {
	t      testing.TB
	spans  *tracetest.SpanRecorder
	reader *sdkmetric.ManualReader
	logs   *telemetryLogs
	config middleware.TelemetryConfig
}

func newTelemetryRig(t testing.TB) *telemetryRig {
	r := &telemetryRig{
		t: t, spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader(), logs: &telemetryLogs{},
	}
	r.config = middleware.TelemetryConfig{
		Tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans)),
		Meter:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader)),
		Logger: slog.New(r.logs),
		Route:  "support",
	}
	return r
}

// pipeline is the telemetry around c.
func (r *telemetryRig) pipeline(c llm.Caller) *llm.Pipeline {
	return llm.New(middleware.Telemetry(r.config)).Then(c)
}

// named lists the ended spans whose name begins with prefix, in the order of their starts.
func (r *telemetryRig) named(prefix string) []sdktrace.ReadOnlySpan {
	var out []sdktrace.ReadOnlySpan
	for _, s := range r.spans.Ended() {
		if strings.HasPrefix(s.Name(), prefix) {
			out = append(out, s)
		}
	}
	for i := range out {
		for j := i; j > 0 && out[j].StartTime().Before(out[j-1].StartTime()); j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

// call is the one span of a call.
func (r *telemetryRig) call() sdktrace.ReadOnlySpan {
	r.t.Helper()
	spans := r.named("llm.call")
	if len(spans) != 1 {
		r.t.Fatalf("%d spans of calls, want 1", len(spans))
	}
	return spans[0]
}

func telemetryAttrs(kvs []attribute.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range kvs {
		out[string(kv.Key)] = kv.Value.String()
	}
	return out
}

func telemetryWant(t testing.TB, what string, got []attribute.KeyValue, want map[string]string) {
	t.Helper()
	have := telemetryAttrs(got)
	for k, v := range want {
		g, ok := have[k]
		switch {
		case v == "-" && ok:
			t.Errorf("%s: attribute %s is %q, want none", what, k, g)
		case v != "-" && g != v:
			t.Errorf("%s: attribute %s is %q, want %q", what, k, g, v)
		}
	}
}

// metrics is everything collected so far, by instrument.
func (r *telemetryRig) metrics() map[string]metricdata.Metrics {
	r.t.Helper()
	var rm metricdata.ResourceMetrics
	if err := r.reader.Collect(r.t.Context(), &rm); err != nil {
		r.t.Fatal(err)
	}
	out := map[string]metricdata.Metrics{}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			out[m.Name] = m
		}
	}
	return out
}

// sums lists one instrument's values (sums of histograms) by the attributes named.
func (r *telemetryRig) sums(instrument string, keys ...attribute.Key) map[string]float64 {
	out := map[string]float64{}
	add := func(set attribute.Set, v float64) {
		var parts []string
		for _, k := range keys {
			if got, ok := set.Value(k); ok {
				parts = append(parts, got.String())
			} else {
				parts = append(parts, "-")
			}
		}
		out[strings.Join(parts, " ")] += v
	}
	switch d := r.metrics()[instrument].Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, float64(p.Value))
		}
	case metricdata.Sum[float64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, p.Value)
		}
	case metricdata.Gauge[int64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, float64(p.Value))
		}
	case metricdata.Histogram[int64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, float64(p.Sum))
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, p.Sum)
		}
	}
	return out
}

func telemetryEqual[V comparable](t testing.TB, what string, got, want map[string]V) {
	t.Helper()
	for k, v := range want {
		if g, ok := got[k]; !ok || g != v {
			t.Errorf("%s[%q] = %v (there: %v), want %v", what, k, g, ok, v)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("%s[%q] = %v, want none", what, k, v)
		}
	}
}

// telemetryLogs is a slog.Handler that keeps records as text, with the span they were written in.
type telemetryLogs struct {
	mu    sync.Mutex
	lines []string
	spans []trace.SpanID
	info  bool // nothing below INFO
}

func (h *telemetryLogs) Enabled(_ context.Context, l slog.Level) bool {
	return !h.info || l >= slog.LevelInfo
}

func (h *telemetryLogs) Handle(ctx context.Context, rec slog.Record) error {
	var b bytes.Buffer
	drop := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	text := slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: drop})
	if err := text.Handle(ctx, rec); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, strings.TrimSpace(b.String()))
	h.spans = append(h.spans, trace.SpanContextFromContext(ctx).SpanID())
	return nil
}

func (h *telemetryLogs) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *telemetryLogs) WithGroup(string) slog.Handler      { return h }

func (h *telemetryLogs) at(level string) (lines []string) {
	for _, l := range h.lines {
		if strings.HasPrefix(l, "level="+level+" ") {
			lines = append(lines, l)
		}
	}
	return lines
}

// telemetrySteps is a plain fallback: it calls one after the other, waiting between, until one answers.
type telemetrySteps struct {
	wait    time.Duration
	callers []llm.Caller
}

func (s *telemetrySteps) Describe() llm.Node {
	n := llm.Node{Name: "steps"}
	for _, c := range s.callers {
		n.Children = append(n.Children, llm.Describe(c))
	}
	return n
}

func (s *telemetrySteps) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	var resp *llm.Response
	var err error
	for i, c := range s.callers {
		if i > 0 && s.wait > 0 {
			<-time.NewTimer(s.wait).C
			req.Waited(s.wait)
		}
		if resp, err = c.Call(ctx, req); err == nil || llm.ClassOf(err) == llm.Canceled {
			return resp, err
		}
	}
	return nil, err
}

func telemetryTry(callers ...llm.Caller) llm.Caller { return &telemetrySteps{callers: callers} }

func telemetryLeaf(name, provider, model string, steps ...llmtest.Step) *llm.Deployment {
	return &llm.Deployment{Name: name, Provider: provider, Model: model, Caller: llmtest.Script(steps...)}
}

func telemetryAsk() *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User("hello")}} }
