package middleware

import (
	"context"
	"fmt"
	"time"

	"github.com/modelchain/llm"
)

// AttemptTimeoutConfig sets [AttemptTimeout]. The zero value as a whole stands for a Total of 15 s, half of what a call has
// by default, so that another deployment gets its turn.
type AttemptTimeoutConfig struct {
	// Total bounds the attempt from beginning to end, the time of a stream's reader included. 0: no such limit.
	Total time.Duration
	// FirstToken bounds the time to the first delta of a stream. 0: no such limit.
	FirstToken time.Duration
	// Idle bounds the silence of a stream between two deltas, and after the last. Its clock begins with the first delta and
	// stops while the reader has one: a slow reader is not a silent provider. It fires on time, or up to a twentieth late where
	// deltas come faster than that. 0: no such limit.
	Idle time.Duration
}

// AttemptTimeout is the stage "attempt_timeout": it ends an attempt that takes too long with an error of class Stalled,
// which says which limit it was. The caller's and the call's own deadlines are not its business: where they are earlier,
// they end the attempt and are named.
//
// Streams have two limits more. A stream that goes on and on, with silences shorter than Idle, still ends with Total. A call
// without a stream gives no sign before its answer, so there FirstToken and Idle mean nothing and Total is what protects.
//
// It belongs around one attempt: inside retry and the commit window. It costs one allocation, and a stream about 20 ns a
// delta. It cannot end a model's Caller that ignores its context: Call returns when that does.
func AttemptTimeout(cfg AttemptTimeoutConfig) llm.Stage {
	if cfg == (AttemptTimeoutConfig{}) {
		cfg.Total = 15 * time.Second
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"Total", cfg.Total}, {"FirstToken", cfg.FirstToken}, {"Idle", cfg.Idle}} {
		if f.d < 0 {
			panic(fmt.Sprintf("llm/middleware: AttemptTimeout: %s is %v; use 0 for no such limit", f.name, f.d))
		}
	}
	return llm.Stage{Name: "attempt_timeout", Config: cfg, Wrap: wrapping("AttemptTimeout", func(next llm.Caller) llm.Caller {
		return &attemptTimeout{
			next: next, cfg: cfg,
			tookLong: limit(llm.Stalled, "the attempt took longer than %v", cfg.Total),
			noToken:  limit(llm.Stalled, "no first token within %v", cfg.FirstToken),
		}
	})}
}

func limit(c llm.Class, format string, args ...any) *llm.Error {
	return llm.Limit(c, fmt.Sprintf(format, args...))
}

type attemptTimeout struct {
	next              llm.Caller
	cfg               AttemptTimeoutConfig
	tookLong, noToken *llm.Error
}

func (s *attemptTimeout) Describe() llm.Node {
	return llm.Node{Name: "attempt_timeout", Config: s.cfg, Children: []llm.Node{llm.Describe(s.next)}}
}

func (s *attemptTimeout) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil {
		return s.next.Call(ctx, nil)
	}
	end := s.end(ctx)
	if req.Sink != nil && (s.cfg.FirstToken > 0 || s.cfg.Idle > 0) {
		return s.watched(ctx, req, end)
	}
	if end.IsZero() {
		return s.next.Call(ctx, req)
	}
	c := timeBudgetOf(req).room()
	c.parent, c.end, c.cause = ctx, end, s.tookLong
	defer c.stop()
	return s.answer(c, req)
}

// end is when Total is over. Zero: ctx ends before.
func (s *attemptTimeout) end(ctx context.Context) time.Time {
	if s.cfg.Total == 0 {
		return time.Time{}
	}
	theirs, ok := ctx.Deadline()
	if !ok {
		return time.Now().Add(s.cfg.Total)
	}
	// Counted from their end: the time left costs half of what the time of day does.
	after := time.Until(theirs) - s.cfg.Total
	if after <= 0 {
		return time.Time{}
	}
	return theirs.Add(-after)
}

func (s *attemptTimeout) answer(c *lazyCtx, req *llm.Request) (*llm.Response, error) {
	resp, err := s.next.Call(c, req)
	if err != nil {
		return nil, explain(c, err)
	}
	return resp, nil
}

// watched is a streamed call with a limit on silence.
func (s *attemptTimeout) watched(ctx context.Context, req *llm.Request, end time.Time) (*llm.Response, error) {
	w := &silence{
		ctx: lazyCtx{parent: ctx, end: end, cause: s.tookLong}, stage: s, began: time.Now(),
		Request: *req, next: req.Sink,
	}
	w.Sink = w.sink
	w.ctx.loosen()
	defer w.ctx.stop()
	defer w.stop()
	w.start()
	return s.answer(&w.ctx, &w.Request)
}
