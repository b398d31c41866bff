package middleware_test

import (
	"errors"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// What a continuation fails with leads to what it leads to anywhere: what nobody mends ends it, and what the same deployment does
// not mend is not asked of it again.
func TestInterruptDoesNotRepeatAContinuationThatNothingMends(t *testing.T) {
	for class, want := range map[llm.Class][2]int{
		llm.Invalid: {1, 0}, llm.Auth: {1, 0}, llm.Refused: {1, 0}, llm.NotFound: {1, 3}, llm.Unavailable: {2, 2}, llm.Cooling: {1, 3},
		llm.Stalled: {1, 3},
	} {
		f := llmtest.Script(llmtest.Fail(class))
		g := llmtest.Script(llmtest.Fail(llm.Unavailable))
		r := &reader{}
		_, err := interrupted(middleware.InterruptConfig{Continue: []llm.Caller{prefill("f", f), prefill("g", g)}, Most: 4},
			llmtest.Script(cut("Hel"))).Call(t.Context(), r.ask())
		if got := [2]int{f.Count(), g.Count()}; got != want || !errors.Is(err, llm.Interrupted) {
			t.Errorf("%v: f and g are called %v times, want %v: %v", class, got, want, err)
		}
	}
}

// Who asked for a wait, or was silent, is not asked again at once, be it the deployment that broke off or one that went on.
func TestInterruptAsksNobodyAgainWhoAskedForAWait(t *testing.T) {
	wait := &llm.Error{Class: llm.Overloaded, RetryAfter: 20 * time.Second}
	f, g := llmtest.Script(llmtest.Fail(wait)), llmtest.Script(llmtest.Fail(llm.Unavailable))
	_, err := interrupted(middleware.InterruptConfig{Continue: []llm.Caller{prefill("f", f), prefill("g", g)}, Most: 4},
		llmtest.Script(cut("Hel"))).Call(t.Context(), (&reader{}).ask())
	if f.Count() != 1 || g.Count() != 3 || !errors.Is(err, llm.Interrupted) {
		t.Errorf("f is called %d times, g %d: %v", f.Count(), g.Count(), err)
	}
	for name, e := range map[string]*llm.Error{
		"a wait":  {Class: llm.Interrupted, RetryAfter: time.Second, Partial: &llm.Response{}},
		"silence": {Class: llm.Stalled, Partial: &llm.Response{}},
	} {
		p := llmtest.Script(llmtest.Step{Deltas: []llm.Delta{{Text: "Hel"}}, Err: e}, llmtest.Text("lo"))
		itself := prefill("p", p)
		onion := llm.New(middleware.Interrupt(middleware.InterruptConfig{Continue: []llm.Caller{itself}})).Then(itself)
		if _, err := onion.Call(t.Context(), (&reader{}).ask()); err == nil || p.Count() != 1 {
			t.Errorf("%s: %v after %d calls", name, err, p.Count())
		}
	}
}
