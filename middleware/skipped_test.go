package middleware_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// pacing refuses attempts as a limiter does: when asked, or when they start.
type pacing struct {
	llm.OpenGate
	atStart bool
	of      *llm.Deployment // nil: all
}

func (p *pacing) refuse(d *llm.Deployment) error {
	if d == nil || p.of != nil && p.of != d {
		return nil
	}
	return &llm.Error{Class: llm.RateLimited, RetryAfter: time.Second, Message: "over a limit of ours"}
}

func (p *pacing) Ask(_ context.Context, _ *llm.Request, d *llm.Deployment, _ time.Time) error {
	if p.atStart {
		return nil
	}
	return p.refuse(d)
}

func (p *pacing) Start(ctx context.Context, _ *llm.Request, d *llm.Deployment, _ *llm.Attempt) (context.Context, error) {
	return ctx, p.refuse(d)
}

func TestWhatALimitOfOursRefusesIsNotRepeatedAndCoolsNothing(t *testing.T) {
	for _, atStart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			first, second := llmtest.Script(), llmtest.Script()
			cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{})
			chain := llm.New(cooldowns.Stage(), middleware.Retry(middleware.RetryConfig{}))
			d := &llm.Deployment{Name: "first", Caller: first}
			gate := &pacing{atStart: atStart, of: d}
			paced := llm.Stage{Name: "pacing", Wrap: func(next llm.Caller) llm.Caller {
				return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
					r := req.Accounted()
					defer r.Enforce(gate).Lift()
					return next.Call(ctx, r)
				})
			}}
			onion := llm.New(paced).Then(middleware.Fallback(middleware.FallbackConfig{},
				chain.Then(d), chain.Then(&llm.Deployment{Name: "second", Caller: second})))
			began := time.Now()
			resp, err := onion.Call(t.Context(), retryAsk())
			if err != nil || resp.Deployment != "second" || first.Count() != 0 || time.Since(began) != 0 {
				t.Fatalf("%+v, %v after %v and %d calls", resp, err, time.Since(began), first.Count())
			}
			if rests := cooldowns.Snapshot(); len(rests) > 0 {
				t.Errorf("at rest: %+v", rests)
			}
			_, err = onion.Call(t.Context(), retryAsk())
			if e := llm.AsError(err); err != nil {
				t.Errorf("%v, skipped %v", err, e.Skipped)
			}
			_, err = llm.New(paced, cooldowns.Stage()).Then(d).Call(t.Context(), retryAsk())
			if e := llm.AsError(err); err == nil || !e.Skipped || e.Class != llm.RateLimited || e.RetryAfter != time.Second {
				t.Errorf("%+v", e)
			}
		})
	}
}
