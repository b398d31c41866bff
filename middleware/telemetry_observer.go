package middleware

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/modelchain/llm"
)

// observer follows one call: it is the gate that its attempts pass.
type observer struct {
	llm.OpenGate
	t     *telemetry
	log   *slog.Logger
	trace trace.Tracer // nil: no spans
	meter *meters      // nil: no metrics
	span  trace.Span   // of the call; nil: none

	req *llm.Request // what was passed on: it knows the account

	mu    sync.Mutex
	open  []*attemptSeen
	ended bool
}

// attemptSeen is an attempt between its start and the end of its span. One that answered stays open until the next one
// begins or the call returns: a validator may still reject the answer, and only the answer that leaves says why it ended.
type attemptSeen struct {
	a        *llm.Attempt // as the deployment keeps it, until answered
	began    llm.Attempt  // as it was when it began
	answered *llm.Attempt // nil: it still runs
	span     trace.Span   // nil: none
	fallback *llm.Attempt // what it is the fallback of; nil: it is none
}

// ending is how a call ended.
type ending struct {
	outcome Outcome
	resp    *llm.Response
	err     error
	took    time.Duration
}

var errGone = &llm.Error{Message: "the goroutine of the call ended"}

func (t *telemetry) observe(ctx context.Context, s *signals, log *slog.Logger, req *llm.Request) (
	resp *llm.Response, err error,
) {
	o := &observer{t: t, log: log, trace: s.tracer}
	if s.meters.enabled(ctx) {
		o.meter = s.meters
	}
	start := time.Now()
	if o.trace != nil {
		ctx, o.span = t.startCall(ctx, o.trace, req, start)
	}
	o.req = req.Accounted()
	defer o.req.Enforce(o).Lift()
	defer func() { o.finish(ctx, ending{resp: resp, err: err, took: time.Since(start)}) }()
	resp, err = t.next.Call(ctx, o.req)
	return resp, err
}

// Start opens the span of an attempt.
func (o *observer) Start(ctx context.Context, req *llm.Request, _ *llm.Deployment, a *llm.Attempt) (context.Context, error) {
	rows := req.Attempts()
	o.mu.Lock()
	settled := o.takeAnswered()
	for _, s := range o.open {
		rows = append(rows, s.began)
	}
	o.mu.Unlock()
	rows = append(rows, *a)
	i := len(rows) - 1
	o.settle(ctx, settled, rows, nil)

	reason, from := o.t.origin(rows, i)
	seen := &attemptSeen{a: a, began: *a}
	if o.trace != nil {
		ctx, seen.span = o.t.startAttempt(ctx, o.trace, req, rows, i, reason, from)
	}
	if reason == reasonFallback {
		seen.fallback = from
		o.t.logFallback(ctx, o.log, o.req, from, a)
	}
	o.mu.Lock()
	o.open = append(o.open, seen)
	o.mu.Unlock()
	return ctx, nil
}

// End closes the span of an attempt that failed.
func (o *observer) End(ctx context.Context, _ *llm.Request, _ *llm.Deployment, a *llm.Attempt) {
	o.mu.Lock()
	var seen *attemptSeen
	for i, s := range o.open {
		if s.a == a {
			seen = s
			if a.Err == nil && !o.ended {
				row := *a
				s.a, s.answered = nil, &row
				o.mu.Unlock()
				return
			}
			o.open = append(o.open[:i:i], o.open[i+1:]...)
			break
		}
	}
	o.mu.Unlock()
	if seen != nil {
		o.close(ctx, seen, *a, nil)
	}
}

// takeAnswered takes the attempts that answered out of o.open.
func (o *observer) takeAnswered() []*attemptSeen {
	var answered, open []*attemptSeen
	for _, s := range o.open {
		if s.answered != nil {
			answered = append(answered, s)
		} else {
			open = append(open, s)
		}
	}
	o.open = open
	return answered
}

// settle closes attempts that answered. rows says which answers were rejected since, resp is the one that left.
func (o *observer) settle(ctx context.Context, answered []*attemptSeen, rows []llm.Attempt, resp *llm.Response) {
	for n, s := range answered {
		row := *s.answered
		if i := rowOf(rows, &row); i >= 0 {
			row = rows[i]
		}
		var own *llm.Response
		if n == len(answered)-1 && row.Err == nil && resp != nil && resp.Deployment == row.Deployment && !resp.Degraded {
			own = resp
		}
		o.close(ctx, s, row, own)
	}
}

// close tells of an attempt that is over. resp is its answer, nil if it has none that is known.
func (o *observer) close(ctx context.Context, s *attemptSeen, a llm.Attempt, resp *llm.Response) {
	if s.span != nil {
		o.t.endAttempt(s.span, &a, resp)
		ctx = trace.ContextWithSpan(ctx, s.span)
	}
	if a.Skipped != "" { // an inner gate turned it away; the account counts it as skipped
		return
	}
	if o.meter != nil {
		model := ""
		if resp != nil {
			model = resp.Model
		}
		o.meter.attempt(ctx, &a, model)
		if s.fallback != nil {
			o.meter.moved(ctx, s.fallback, &a)
		}
	}
	o.t.logAttempt(ctx, o.log, o.req, &a, resp)
}

// finish tells of the call.
func (o *observer) finish(ctx context.Context, end ending) {
	o.mu.Lock()
	o.ended = true
	answered := o.takeAnswered()
	o.mu.Unlock()
	if end.resp == nil && end.err == nil { // a panic is on its way out, or a stage broke its contract
		end.err = errGone
	}
	rows := accountOf(o.req, end.resp, end.err)
	o.settle(ctx, answered, rows, end.resp)
	end.outcome = o.t.outcome(rows, end.resp, end.err)
	if o.meter != nil {
		o.meter.call(ctx, rows, end)
	}
	for i := range rows {
		if rows[i].Skipped != "" {
			o.t.logSkipped(ctx, o.log, o.req, rows, i)
		}
	}
	o.t.logCall(ctx, o.log, o.req, rows, end)
	if o.span != nil {
		o.t.endCall(o.span, rows, end)
	}
}

// rowOf finds an attempt that was made in an account, -1 if it is not there.
func rowOf(rows []llm.Attempt, a *llm.Attempt) int {
	for i := len(rows) - 1; i >= 0; i-- {
		if rows[i].Index == a.Index && rows[i].Index != 0 && rows[i].Deployment == a.Deployment &&
			rows[i].Start.Equal(a.Start) {
			return i
		}
	}
	return -1
}
