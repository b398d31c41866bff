package middleware

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/modelchain/llm"
)

// meters are the instruments. Their attributes have few values each: routes, deployments, models, classes and outcomes.
type meters struct {
	route []attribute.KeyValue
	conv  conventions
	op    string
	all   []interface{ Enabled(context.Context) bool }

	calls                      metric.Int64Counter
	callDuration               metric.Float64Histogram
	attempts                   metric.Int64Histogram
	fallbacks, denied, skipped metric.Int64Counter
	wait                       metric.Float64Histogram
	cost                       metric.Float64Counter
	duration, firstChunk       metric.Float64Histogram

	tokens metric.Int64Histogram // the conventions v1.41

	// The newer conventions: what was used, counted, and how much one attempt uses.
	input, output, cacheRead, cacheWrite, reasoning metric.Int64Counter
	perInput, perOutput                             metric.Int64Histogram

	cooldowns metric.Registration
}

func (t *telemetry) newMeters(mp metric.MeterProvider) *meters {
	meter := mp.Meter(scopeName, metric.WithSchemaURL(t.schemaURL))
	m := &meters{conv: t.conventions, op: t.config.Operation}
	if t.config.Route != "" {
		m.route = []attribute.KeyValue{keyRoute.String(t.config.Route)}
	}
	counter := func(name, unit, about string) metric.Int64Counter {
		i, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
		return added(m, i, err)
	}
	seconds := func(name, about string, buckets []float64) metric.Float64Histogram {
		i, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about),
			metric.WithExplicitBucketBoundaries(buckets...))
		return added(m, i, err)
	}
	sizes := func(name, unit, about string, buckets []float64) metric.Int64Histogram {
		i, err := meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(about),
			metric.WithExplicitBucketBoundaries(buckets...))
		return added(m, i, err)
	}

	m.calls = counter("llm.client.calls", "{call}", "Calls by how they ended.")
	m.callDuration = seconds("llm.client.call.duration", "Whole calls, attempts and waits included.", callBuckets())
	m.attempts = sizes("llm.client.attempts", "{attempt}", "Provider calls made for one call.", attemptBuckets())
	m.fallbacks = counter("llm.client.fallbacks", "{fallback}", "Moves of a call to another deployment.")
	m.denied = counter("llm.client.retries_denied", "{retry}", "Retries that were wanted and not made.")
	m.skipped = counter("llm.client.skipped", "{skip}", "Deployments passed over without a call.")
	m.wait = seconds("llm.client.retry_delay", "Waits before an attempt.", waitBuckets())
	cost, err := meter.Float64Counter("llm.client.cost", metric.WithUnit("{USD}"),
		metric.WithDescription("What attempts cost in US dollars, where the price is known."))
	m.cost = added(m, cost, err)

	m.duration = seconds(t.attemptDuration, "One provider call.", secondsBuckets())
	m.firstChunk = seconds(t.timeToFirstChunk, "From the start of a provider call to the first piece of its answer.",
		secondsBuckets())
	if t.tokenUsage != "" {
		m.tokens = sizes(t.tokenUsage, "{token}", "Tokens of one provider call.", tokenBuckets())
	} else {
		const usage, operation = "gen_ai.client.inference.usage.", "gen_ai.client.inference.operation."
		m.input = counter(usage+"input_tokens", "{token}", "Input tokens, cached ones included.")
		m.output = counter(usage+"output_tokens", "{token}", "Output tokens, reasoning included.")
		m.cacheRead = counter(usage+"cache_read.input_tokens", "{token}", "Input tokens read from a cache.")
		m.cacheWrite = counter(usage+"cache_write.input_tokens", "{token}", "Input tokens written to a cache.")
		m.reasoning = counter(usage+"reasoning.output_tokens", "{token}", "Output tokens spent on reasoning.")
		m.perInput = sizes(operation+"input_tokens", "{token}", "Input tokens of one provider call.", tokenBuckets())
		m.perOutput = sizes(operation+"output_tokens", "{token}", "Output tokens of one provider call.", tokenBuckets())
	}
	if t.config.Cooldowns != nil {
		m.watchCooldowns(t, meter)
	}
	for _, o := range allOutcomes() { // a series that begins with its first event hides that event from rate()
		m.calls.Add(context.Background(), 0, attrSet(m.route, keyOutcome.String(string(o))))
	}
	return m
}

// added enters an instrument into m.all. With an error there still is one, which does nothing.
func added[I interface{ Enabled(context.Context) bool }](m *meters, i I, err error) I {
	if err != nil {
		otel.Handle(err)
	}
	m.all = append(m.all, i)
	return i
}

// watchCooldowns shows the state of each deployment beneath: 0 it serves, 1 it rests, 2 its rest is over and a probe decides.
func (m *meters) watchCooldowns(t *telemetry, meter metric.Meter) {
	gauge, err := meter.Int64ObservableGauge("llm.client.cooldown.state", metric.WithDescription(
		"0: the deployment serves. 1: it rests. 2: its rest is over, a probe decides."))
	if err != nil {
		otel.Handle(err)
		return
	}
	m.cooldowns, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now, resting := time.Now(), map[CooldownKey]bool{} // true: not yet over
		for _, s := range t.config.Cooldowns.Snapshot() {
			resting[CooldownKey{s.Scope, s.Name}] = s.Until.After(now)
		}
		for d := range t.node.Deployments() {
			state := int64(0)
			for _, key := range []CooldownKey{{Itself, d.Name}, {SharedQuota, d.Quota}, {SharedCredential, d.Credential}} {
				switch rests, listed := resting[key]; {
				case rests:
					state = 1
				case listed && state == 0:
					state = 2
				}
			}
			o.ObserveInt64(gauge, state, attrSet(m.route, keyDeployment.String(d.Name)))
		}
		return nil
	}, gauge)
	if err != nil {
		otel.Handle(err)
	}
}

// attrSet is base and more as a set. Making a set sorts what it is made of, so base must not share its room.
func attrSet(base []attribute.KeyValue, more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(slices.Clip(base), more...)...))
}

// attempt counts one provider call. model is what the provider called the one that answered, "" if it did not.
func (m *meters) attempt(ctx context.Context, a *llm.Attempt, model string) {
	kvs := make([]attribute.KeyValue, 0, 7)
	kvs = append(kvs, keyOperation.String(m.op), keyProvider.String(providerOf(a)), keyDeployment.String(a.Deployment))
	if a.Model != "" {
		kvs = append(kvs, keyRequestModel.String(a.Model))
	}
	if model != "" {
		kvs = append(kvs, keyResponseModel.String(model))
	}
	plain := attrSet(kvs)
	timed := plain
	if a.Err != nil {
		timed = attrSet(kvs, keyErrorType.String(errorType(a.Class)))
	}
	m.duration.Record(ctx, a.Took.Seconds(), timed)
	if a.FirstDelta > 0 {
		m.firstChunk.Record(ctx, a.FirstDelta.Seconds(), plain)
	}
	if a.Waited > 0 {
		m.wait.Record(ctx, a.Waited.Seconds(), attrSet(nil, keyDeployment.String(a.Deployment)))
	}
	if a.CostUSD > 0 {
		m.cost.Add(ctx, a.CostUSD, plain)
	}
	if m.tokens != nil {
		m.usage(ctx, a.Usage, kvs)
	} else {
		m.usageLatest(ctx, a.Usage, kvs, timed)
	}
}

func (m *meters) usage(ctx context.Context, u llm.Usage, kvs []attribute.KeyValue) {
	if u.Input > 0 {
		m.tokens.Record(ctx, int64(u.Input), attrSet(kvs, keyTokenType.String("input")))
	}
	if u.Output > 0 {
		m.tokens.Record(ctx, int64(u.Output), attrSet(kvs, keyTokenType.String("output")))
	}
}

// usageLatest counts as the newer conventions want it: for attempts that failed too, with 0 where nothing is known.
func (m *meters) usageLatest(ctx context.Context, u llm.Usage, kvs []attribute.KeyValue, timed metric.MeasurementOption) {
	counted := attrSet(kvs, keyTokenModality.String("unknown"))
	m.input.Add(ctx, int64(u.Input), counted)
	m.output.Add(ctx, int64(u.Output), counted)
	m.cacheRead.Add(ctx, int64(u.CachedInput), counted)
	m.cacheWrite.Add(ctx, int64(u.CacheWrite), counted)
	m.reasoning.Add(ctx, int64(u.Reasoning), counted)
	if u.Input > 0 {
		m.perInput.Record(ctx, int64(u.Input), timed)
	}
	if u.Output > 0 {
		m.perOutput.Record(ctx, int64(u.Output), timed)
	}
}

// moved counts a fallback.
func (m *meters) moved(ctx context.Context, from, to *llm.Attempt) {
	m.fallbacks.Add(ctx, 1, attrSet(m.route, keyFrom.String(from.Deployment), keyTo.String(to.Deployment),
		keyReason.String(errorType(from.Class))))
}

// call counts a whole call.
func (m *meters) call(ctx context.Context, rows []llm.Attempt, end ending) {
	outcome := keyOutcome.String(string(end.outcome))
	counted := []attribute.KeyValue{outcome}
	if end.resp.Refused() {
		counted = append(counted, keyRefused.Bool(true))
	}
	m.calls.Add(ctx, 1, attrSet(m.route, counted...))
	timed := []attribute.KeyValue{outcome}
	if end.outcome == OutcomeFailed {
		timed = append(timed, keyErrorType.String(errorType(llm.ClassOf(end.err))))
	}
	m.callDuration.Record(ctx, end.took.Seconds(), attrSet(m.route, timed...))
	m.attempts.Record(ctx, int64(callsMade(rows)), attrSet(m.route))
	for i := range rows {
		if rows[i].Skipped == "" {
			continue
		}
		count := m.skipped
		if deniedRetry(rows, i) {
			count = m.denied
		}
		count.Add(ctx, 1, attrSet(m.route, keyDeployment.String(rows[i].Deployment), keyReason.String(errorType(rows[i].Class))))
	}
}

func providerOf(a *llm.Attempt) string {
	if a.Provider == "" {
		return providerUnknown
	}
	return a.Provider
}
