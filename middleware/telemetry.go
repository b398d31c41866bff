package middleware

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/modelchain/llm"
)

// TelemetryConfig configures [Telemetry].
type TelemetryConfig struct {
	// Tracer and Meter make spans and metrics. nil: those registered with package otel, asked at each call, so that an SDK
	// installed later is used.
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
	// Logger gets the records. nil: slog.Default(). slog.New(slog.DiscardHandler) writes none.
	Logger *slog.Logger

	// Route is a short fixed name of this onion on spans, metrics and records. "": left out.
	Route string
	// Operation is gen_ai.operation.name and begins the name of an attempt's span. "": "chat".
	Operation string
	// Labels are the request labels that go on the span of the call and on records, as llm.label.<name>. They are never
	// put on metrics, where each value would be a series. nil: none.
	Labels []string
	// Content puts prompts, answers and the full texts of errors on spans and records. false: none of them.
	Content bool
	// Cooldowns, such as a [*Cooldowns], is asked for what rests whenever metrics are collected, as long as the Meter lives,
	// for the gauge of the deployments' state. nil: no gauge.
	Cooldowns interface{ Snapshot() []CooldownState }
	// EveryMove counts a move between two deployments of one model of one provider as a fallback. false: as a retry, because
	// the answer comes from the same model.
	EveryMove bool
}

// Telemetry makes every call visible: traces, metrics and log records.
//
// A call gets one INTERNAL span, "llm.call", and beneath it one CLIENT span for every attempt, "chat <model>", by the GenAI
// semantic conventions v1.41; with gen_ai_latest_experimental in OTEL_SEMCONV_STABILITY_OPT_IN by those that followed. The
// attempt owns the GenAI attributes because each has its own bill, response id and provider; tokens are counted there and
// nowhere else. An attempt that failed and was made good does not mark the call. error.type is the name of the llm.Class, or
// "_OTHER". A caller that left is not a failure: neither span is in error, and the attempt says error.type "canceled" to
// keep its cut-off time apart. Deployments that were passed over and retries that were denied are events on the call's span.
//
// How calls end is counted in llm.client.calls by llm.call.outcome (see [Outcome]), so an alert on fallbacks is one line:
//
//	sum(rate(llm_client_calls_total{llm_call_outcome="fallback_recovery"}[5m])) / sum(rate(llm_client_calls_total[5m])) > 0.05
//
// Records: DEBUG for an attempt that answered or whose caller left and for a deployment passed over, INFO for an attempt
// that failed and an answer that is a refusal, WARN for a fallback and a degraded answer, ERROR for a call that failed. They
// are written with the attempt's context, so a handler can add trace ids. Where neither spans, metrics nor DEBUG are wanted,
// they are written from the account when the call returns.
//
// Calls and streams pass through unchanged; the time to the first piece is taken from the account, so that no delta costs
// anything. Place it once, outermost. An inner one adds nothing beneath another. With no SDK installed a call costs a few
// nanoseconds and no memory. It never retries, never changes a request, and never shows a prompt or an answer unless Content
// says so.
func Telemetry(c TelemetryConfig) llm.Stage {
	if c.Operation == "" {
		c.Operation = operationChat
	}
	return llm.Stage{Name: "telemetry", Config: c, Wrap: wrapping("Telemetry", func(next llm.Caller) llm.Caller {
		t := &telemetry{
			next: next, config: c, moves: moves{c.EveryMove}, conventions: conventionsFor(c.Operation),
			node: llm.Describe(next),
		}
		if c.Tracer != nil && !placeholder(c.Tracer) {
			t.tracers = c.Tracer
		}
		if c.Meter != nil && !placeholder(c.Meter) {
			t.metrics = c.Meter
		}
		t.spanName = "llm.call"
		if c.Route != "" {
			t.spanName += " " + c.Route
		}
		t.nested = hasTelemetry(t.node)
		t.signals() // an SDK that is there already sees the counters at zero
		return t
	})}
}

type telemetry struct {
	next   llm.Caller
	config TelemetryConfig
	node   llm.Node
	moves
	conventions
	tracers  trace.TracerProvider // nil: otel's
	metrics  metric.MeterProvider // nil: otel's
	spanName string
	nested   bool // one that has to be told not to speak too is beneath

	mu  sync.Mutex // held to change now
	now atomic.Pointer[signals]
}

func (t *telemetry) Describe() llm.Node {
	return llm.Node{Name: "telemetry", Config: t.config, Children: []llm.Node{t.node}}
}

func hasTelemetry(n llm.Node) bool {
	if _, ok := n.Config.(TelemetryConfig); ok {
		return true
	}
	return slices.ContainsFunc(n.Children, hasTelemetry)
}

func (t *telemetry) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	s, log := t.signals(), t.config.Logger
	if log == nil {
		log = slog.Default()
	}
	if s.tracer == nil && !s.meters.enabled(ctx) && !t.nested && !log.Enabled(ctx, slog.LevelDebug) {
		resp, err := t.next.Call(ctx, req)
		if (err != nil || !unremarkable(resp)) && !underTelemetry(req) {
			t.logAfter(ctx, log, req, resp, err)
		}
		return resp, err
	}
	if req == nil || underTelemetry(req) {
		return t.next.Call(ctx, req)
	}
	return t.observe(ctx, s, log, req)
}

// unremarkable reports whether there is nothing to tell of an answer.
func unremarkable(resp *llm.Response) bool {
	return resp != nil && len(resp.Attempts) <= 1 && !resp.Degraded && !resp.Refused()
}

func underTelemetry(req *llm.Request) bool {
	for g := range req.Gates() {
		if _, ok := g.(*observer); ok {
			return true
		}
	}
	return false
}
