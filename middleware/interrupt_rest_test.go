package middleware_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// A continuer is a route that goes on with its own answers, and what rests.
func continuer(rests *middleware.Cooldowns, name string, model llm.Caller) llm.Caller {
	return llm.New(rests.Stage(), middleware.Retry(middleware.RetryConfig{})).Then(prefill(name, model))
}

// The break of one stream rests its deployment for others. What it has to say of this answer is a continuation there, once:
// it is the first probe of the rest.
func TestInterruptContinuesWhereTheStreamBroke(t *testing.T) {
	for name, test := range map[string]struct {
		steps []llmtest.Step
		calls int
		good  bool
		rests int
	}{
		"it goes on":                   {[]llmtest.Step{cut("It is a"), says(" circuit breaker.")}, 2, true, 0},
		"it fails":                     {[]llmtest.Step{cut("It is a"), llmtest.Fail(llm.NotFound)}, 2, false, 1},
		"it breaks off again":          {[]llmtest.Step{cut("It is a"), cut(" circuit"), says(" breaker.")}, 2, false, 1},
		"nothing was handed out by it": {[]llmtest.Step{llmtest.Fail(llm.Stalled), says("never")}, 1, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := llmtest.Script(test.steps...)
				rests := middleware.NewCooldowns(middleware.CooldownConfig{})
				p := continuer(rests, "p", model)
				r := &reader{}
				chat := llm.New(middleware.Interrupt(middleware.InterruptConfig{Continue: []llm.Caller{p, p}, Most: 2})).Then(p)
				resp, err := chat.Call(t.Context(), r.ask())
				if (err == nil) != test.good || model.Count() != test.calls || len(rests.Snapshot()) != test.rests {
					t.Errorf("%v, %v after %d calls; %v", resp, err, model.Count(), rests.Snapshot())
				}
				if test.good && (resp.Text() != r.text || !resp.Continued) {
					t.Errorf("the reader has %q of %+v", r.text, resp)
				}
			})
		})
	}
}

// A rest that others began, or that another failure confirmed, keeps a continuation out like any call.
func TestInterruptDoesNotContinueWhereOthersFailedToo(t *testing.T) {
	for name, when := range map[string]time.Duration{
		"alone": 0, "another stream broke before": time.Second, "another broke after": 3 * time.Second,
	} {
		alone := when == 0
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rests := middleware.NewCooldowns(middleware.CooldownConfig{})
				slow := cut("It is a")
				slow.Delay = 2 * time.Second
				model := llmtest.Script(slow, says(" circuit breaker."))
				p := continuer(rests, "p", model)
				breaks := cut("Another")
				breaks.Delay = when
				other := continuer(rests, "p", llmtest.Script(breaks))
				failing := llmtest.Fail(llm.NotFound)
				failing.Delay = 2 * time.Second
				chat := llm.New(middleware.Interrupt(middleware.InterruptConfig{
					Continue: []llm.Caller{prefill("f", llmtest.Script(failing)), p},
				})).Then(p)
				if !alone {
					go func() {
						if _, err := other.Call(t.Context(), (&reader{}).ask()); err == nil {
							t.Error("the other stream did not break")
						}
					}()
				}
				_, err := chat.Call(t.Context(), (&reader{}).ask())
				synctest.Wait()
				if (err == nil) != alone || !alone && (!errors.Is(err, llm.Interrupted) || model.Count() != 1) {
					t.Errorf("%v after %d calls", err, model.Count())
				}
			})
		})
	}
}
