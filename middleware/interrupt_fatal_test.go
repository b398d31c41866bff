package middleware_test

import (
	"errors"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// What a continuation fails with leads to what it leads to anywhere: what nobody mends ends it, and what the same deployment does
// not mend is not asked of it again.
func TestInterruptDoesNotRepeatAContinuationThatNothingMends(t *testing.T) {
	for class, want := range map[llm.Class][2]int{
		llm.Invalid: {1, 0}, llm.Auth: {1, 0}, llm.Refused: {1, 0}, llm.NotFound: {1, 3}, llm.Unavailable: {2, 2}, llm.Cooling: {1, 3},
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
