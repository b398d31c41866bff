package middleware

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/modelchain/llm"
)

func (t *telemetry) startCall(ctx context.Context, tracer trace.Tracer, req *llm.Request, start time.Time) (
	context.Context, trace.Span,
) {
	kvs := make([]attribute.KeyValue, 0, 2+len(t.config.Labels))
	if t.config.Route != "" {
		kvs = append(kvs, keyRoute.String(t.config.Route))
	}
	if req.Model != "" {
		kvs = append(kvs, keyAskedModel.String(req.Model))
	}
	for _, name := range t.config.Labels {
		if v, ok := req.Labels[name]; ok {
			kvs = append(kvs, attribute.String(keyLabel+name, v))
		}
	}
	return tracer.Start(ctx, t.spanName, trace.WithSpanKind(trace.SpanKindInternal), trace.WithTimestamp(start),
		trace.WithAttributes(kvs...))
}

// endCall puts the end of a call on its span. Only a call that failed is in error: what was retried, moved or replaced is
// handled, and who leaves has not been failed.
func (t *telemetry) endCall(span trace.Span, rows []llm.Attempt, end ending) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	var waited time.Duration
	for i := range rows {
		a := &rows[i]
		waited += a.Waited
		if a.Skipped == "" {
			continue
		}
		name := eventSkipped
		if deniedRetry(rows, i) {
			name = eventDenied
		}
		kvs := []attribute.KeyValue{keyDeployment.String(a.Deployment), keyReason.String(errorType(a.Class))}
		if own := ownWords(true, llm.AsError(a.Err)); own != "" {
			kvs = append(kvs, keyDetail.String(own))
		}
		span.AddEvent(name, trace.WithTimestamp(a.Start), trace.WithAttributes(kvs...))
	}
	kvs := []attribute.KeyValue{keyOutcome.String(string(end.outcome)), keyAttempts.Int(callsMade(rows))}
	if waited > 0 {
		kvs = append(kvs, keyWaited.Float64(waited.Seconds()))
	}
	if r := end.resp; r != nil {
		if r.Deployment != "" {
			kvs = append(kvs, keyServedBy.String(r.Deployment))
		}
		if r.Model != "" {
			kvs = append(kvs, keyServedModel.String(r.Model))
		}
		if r.Refused() {
			kvs = append(kvs, keyRefused.Bool(true))
		}
		if r.Continued {
			kvs = append(kvs, keyContinued.Bool(true))
		}
	}
	if end.err != nil && llm.AsError(end.err).Partial != nil {
		kvs = append(kvs, keyPartial.Bool(true))
	}
	if end.outcome == OutcomeFailed {
		kvs = append(kvs, keyErrorType.String(errorType(llm.ClassOf(end.err))))
		span.SetStatus(codes.Error, explainCall(rows, end.err, t.config.Content))
	}
	span.SetAttributes(kvs...)
}

func (t *telemetry) startAttempt(ctx context.Context, tracer trace.Tracer, req *llm.Request, rows []llm.Attempt, i int,
	reason string, from *llm.Attempt,
) (context.Context, trace.Span) {
	a := &rows[i]
	name := t.config.Operation
	kvs := make([]attribute.KeyValue, 0, 16)
	kvs = append(kvs, keyOperation.String(t.config.Operation), keyProvider.String(providerOf(a)),
		keyDeployment.String(a.Deployment), keyAttempt.Int(a.Index), keyAttemptReason.String(reason))
	if a.Model != "" {
		name += " " + a.Model
		kvs = append(kvs, keyRequestModel.String(a.Model))
	}
	if from != nil {
		kvs = append(kvs, keyAttemptAfter.String(errorType(from.Class)))
		if from.Deployment != a.Deployment {
			kvs = append(kvs, keyAttemptFrom.String(from.Deployment))
		}
	}
	if n := retriesBefore(rows, i); n > 0 {
		kvs = append(kvs, keyAttemptRetries.Int(n))
	}
	if a.Waited > 0 {
		kvs = append(kvs, keyAttemptWait.Float64(a.Waited.Seconds()))
	}
	ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(a.Start),
		trace.WithAttributes(kvs...))
	if span.IsRecording() {
		span.SetAttributes(requestAttributes(req)...)
		if t.config.Content {
			span.SetAttributes(inputContent(req)...)
		}
	}
	return ctx, span
}

// retriesBefore counts the attempts at the same deployment before rows[i].
func retriesBefore(rows []llm.Attempt, i int) (n int) {
	for j := range rows[:i] {
		if rows[j].Skipped == "" && rows[j].Deployment == rows[i].Deployment {
			n++
		}
	}
	return n
}

func requestAttributes(req *llm.Request) []attribute.KeyValue {
	kvs := make([]attribute.KeyValue, 0, 7)
	if req.MaxTokens > 0 {
		kvs = append(kvs, keyMaxTokens.Int(req.MaxTokens))
	}
	if req.Temperature != nil {
		kvs = append(kvs, keyTemperature.Float64(*req.Temperature))
	}
	if req.TopP != nil {
		kvs = append(kvs, keyTopP.Float64(*req.TopP))
	}
	if len(req.Stop) > 0 {
		kvs = append(kvs, keyStopSequences.StringSlice(req.Stop))
	}
	if req.Seed != nil {
		kvs = append(kvs, keySeed.Int64(*req.Seed))
	}
	if req.Sink != nil {
		kvs = append(kvs, keyStream.Bool(true))
	}
	if req.Format != nil {
		kvs = append(kvs, keyOutputType.String("json"))
	}
	return kvs
}

// endAttempt ends the span of an attempt at the time its account says.
func (t *telemetry) endAttempt(span trace.Span, a *llm.Attempt, resp *llm.Response) {
	defer span.End(trace.WithTimestamp(a.Start.Add(a.Took)))
	if !span.IsRecording() {
		return
	}
	if a.Skipped != "" {
		span.SetAttributes(keyAttemptSkipped.Bool(true))
		return
	}
	kvs := make([]attribute.KeyValue, 0, 12)
	kvs = appendUsage(kvs, a.Usage, t.cacheWrite)
	if a.RequestID != "" {
		kvs = append(kvs, keyResponseID.String(a.RequestID))
	}
	if a.FirstDelta > 0 {
		kvs = append(kvs, keyFirstChunk.Float64(a.FirstDelta.Seconds()))
	}
	if a.Status != 0 {
		kvs = append(kvs, keyAttemptStatus.Int(a.Status))
	}
	if a.CostUSD > 0 {
		kvs = append(kvs, keyAttemptCost.Float64(a.CostUSD))
	}
	if resp != nil {
		kvs = append(kvs, keyFinishReasons.StringSlice([]string{finishReason(resp)}))
		if resp.Model != "" {
			kvs = append(kvs, keyResponseModel.String(resp.Model))
		}
	}
	if a.Err != nil {
		partial := llm.AsError(a.Err).Partial
		if partial != nil || a.Class == llm.Interrupted {
			kvs = append(kvs, keyFinishReasons.StringSlice([]string{finishError}))
		}
		resp = partial
		kvs = append(kvs, keyErrorType.String(errorType(a.Class)))
		if a.Class != llm.Canceled {
			span.SetStatus(codes.Error, t.attemptError(a))
		}
	}
	if t.config.Content && resp != nil {
		kvs = append(kvs, outputContent(resp, a.Err != nil)...)
	}
	span.SetAttributes(kvs...)
}

// attemptError is what is said of a failed attempt.
func (t *telemetry) attemptError(a *llm.Attempt) string {
	if t.config.Content {
		return a.Err.Error()
	}
	return explainAttempt(a)
}

// appendUsage adds what is known of the tokens: the parts are included in the sums.
func appendUsage(kvs []attribute.KeyValue, u llm.Usage, cacheWrite attribute.Key) []attribute.KeyValue {
	add := func(key attribute.Key, n int) {
		if n > 0 {
			kvs = append(kvs, key.Int(n))
		}
	}
	add(keyInputTokens, u.Input)
	add(keyOutputTokens, u.Output)
	add(keyCacheRead, u.CachedInput)
	add(cacheWrite, u.CacheWrite)
	add(keyReasoningTokens, u.Reasoning)
	if u.Estimated {
		kvs = append(kvs, keyEstimated.Bool(true))
	}
	return kvs
}
