package middleware

import (
	"context"
	"log/slog"

	"github.com/modelchain/llm"
)

// logAttempt writes the record of one provider call.
func (t *telemetry) logAttempt(ctx context.Context, log *slog.Logger, req *llm.Request, a *llm.Attempt, resp *llm.Response) {
	level, text := slog.LevelDebug, "llm attempt answered"
	switch {
	case a.Err == nil:
	case a.Class == llm.Canceled:
		text = "llm attempt canceled"
	default:
		level, text = slog.LevelInfo, "llm attempt failed"
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := t.logAttrs(req, 14)
	attrs = append(attrs, slog.String("deployment", a.Deployment), slog.String("model", a.Model),
		slog.Int("attempt", a.Index), slog.Duration("wait", a.Waited), slog.Duration("took", a.Took))
	if a.FirstDelta > 0 {
		attrs = append(attrs, slog.Duration("first_delta", a.FirstDelta))
	}
	if a.Status != 0 {
		attrs = append(attrs, slog.Int("status", a.Status))
	}
	if a.RequestID != "" {
		attrs = append(attrs, slog.String("request_id", a.RequestID))
	}
	if u := a.Usage; u.Input > 0 || u.Output > 0 {
		attrs = append(attrs, slog.Int("input_tokens", u.Input), slog.Int("output_tokens", u.Output))
	}
	if resp != nil {
		attrs = append(attrs, slog.String("stop", finishReason(resp)))
	}
	if a.Err != nil {
		attrs = append(attrs, slog.String("class", a.Class.String()), slog.String("error", t.attemptError(a)))
	}
	log.LogAttrs(ctx, level, text, attrs...)
}

func (t *telemetry) logFallback(ctx context.Context, log *slog.Logger, req *llm.Request, from, to *llm.Attempt) {
	if !log.Enabled(ctx, slog.LevelWarn) {
		return
	}
	log.LogAttrs(ctx, slog.LevelWarn, "llm fallback", append(t.logAttrs(req, 5),
		slog.String("from", from.Deployment), slog.String("to", to.Deployment), slog.String("class", from.Class.String()),
		slog.Duration("wait", to.Waited))...)
}

// logSkipped writes the record of a deployment that was not called.
func (t *telemetry) logSkipped(ctx context.Context, log *slog.Logger, req *llm.Request, rows []llm.Attempt, i int) {
	if !log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	a, text := &rows[i], "llm deployment skipped"
	if deniedRetry(rows, i) {
		text = "llm retry denied"
	}
	log.LogAttrs(ctx, slog.LevelDebug, text, append(t.logAttrs(req, 4),
		slog.String("deployment", a.Deployment), slog.String("class", a.Class.String()),
		slog.String("why", ownWords(true, llm.AsError(a.Err))))...)
}

// logCall writes what is to be said of a call as a whole: nothing, if it was answered in the ordinary way.
func (t *telemetry) logCall(ctx context.Context, log *slog.Logger, req *llm.Request, rows []llm.Attempt, end ending) {
	level, text := slog.LevelInfo, "llm answer refused"
	switch {
	case end.outcome == OutcomeFailed:
		level, text = slog.LevelError, "llm call failed"
	case end.outcome == OutcomeCanceled:
		level, text = slog.LevelDebug, "llm call canceled"
	case end.outcome == OutcomeQueued:
		level, text = slog.LevelWarn, "llm call queued"
	case end.outcome == OutcomeDegraded:
		level, text = slog.LevelWarn, "llm answer degraded"
	case !end.resp.Refused():
		return
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := append(t.logAttrs(req, 6), slog.String("outcome", string(end.outcome)), slog.Int("attempts", callsMade(rows)))
	if end.err != nil {
		e := llm.AsError(end.err)
		attrs = append(attrs, slog.String("class", e.Class.String()),
			slog.String("error", explainCall(rows, end.err, t.config.Content)))
		if e.Partial != nil {
			attrs = append(attrs, slog.Bool("partial", true))
		}
	} else {
		attrs = append(attrs, slog.String("deployment", end.resp.Deployment), slog.String("stop", finishReason(end.resp)))
	}
	log.LogAttrs(ctx, level, text, attrs...)
}

// logAfter writes the records of a call that nobody followed, from its account.
func (t *telemetry) logAfter(ctx context.Context, log *slog.Logger, req *llm.Request, resp *llm.Response, err error) {
	rows := accountOf(req, resp, err)
	for i := range rows {
		if rows[i].Skipped != "" {
			t.logSkipped(ctx, log, req, rows, i)
			continue
		}
		if reason, from := t.origin(rows, i); reason == reasonFallback {
			t.logFallback(ctx, log, req, from, &rows[i])
		}
		t.logAttempt(ctx, log, req, &rows[i], nil)
	}
	if resp == nil && err == nil {
		err = errGone
	}
	t.logCall(ctx, log, req, rows, ending{outcome: t.outcome(rows, resp, err), resp: resp, err: err})
}

// logAttrs begins the attributes of a record, with room for n more.
func (t *telemetry) logAttrs(req *llm.Request, n int) []slog.Attr {
	attrs := make([]slog.Attr, 0, 1+len(t.config.Labels)+n)
	if t.config.Route != "" {
		attrs = append(attrs, slog.String("route", t.config.Route))
	}
	for _, name := range t.config.Labels {
		if req == nil {
			break
		}
		if v, ok := req.Labels[name]; ok {
			attrs = append(attrs, slog.String(keyLabel+name, v))
		}
	}
	return attrs
}
