package tokens_test

import (
	"context"
	"strings"
	"testing"

	"github.com/modelchain/llm/tokens"
)

// The provider counts 1.2 times the estimate: after 50 answers estimates are corrected.
func TestEstimatesThatWereTooLowAreCorrected(t *testing.T) {
	c, req := tokens.For("gpt-4o"), user(strings.Repeat("word ", 1000))
	first := count(t, c, req, 0)
	actual := first * 12 / 10
	for i := range 50 {
		before := c.Correction()
		c.Learn(t.Context(), req, 0, actual)
		if after := c.Correction(); i == 0 && (after <= before || after > 1.05) {
			t.Errorf("one answer moves the correction to %v, want a small step up", after)
		}
	}
	if n := count(t, c, req, 0); n < actual || n > actual*101/100 {
		t.Errorf("the estimate is %d after 50 answers of %d, was %d", n, actual, first)
	}
	// The limit is judged by the corrected count,
	if n := count(t, c, req, actual-20); n <= actual-20 {
		t.Errorf("%d against a limit of %d, want it to be over", n, actual-20)
	}
	// and so are bytes: 207, times the correction, are not within 215 unseen.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := c.CountTokens(ctx, user(strings.Repeat("é", 100)), 215); err == nil {
		t.Errorf("207 bytes were taken for %d tokens without a look", n)
	}
}

func TestACorrectionGoesDownSlowlyAndNeverBelowNone(t *testing.T) {
	c, req := tokens.For("gpt-4o"), user(strings.Repeat("word ", 1000))
	n := count(t, c, req, 0)
	for range 50 {
		c.Learn(t.Context(), req, 0, 2*n)
	}
	high := c.Correction()
	c.Learn(t.Context(), req, 0, n)
	if low := c.Correction(); low >= high || low < high-0.05 {
		t.Errorf("one answer as estimated moves the correction from %v to %v, want a small step down", high, low)
	}
	for range 1000 {
		c.Learn(t.Context(), req, 0, n/2)
	}
	if low := c.Correction(); low != 1 {
		t.Errorf("the correction is %v after answers below the estimate, want 1", low)
	}
}

func TestOneWildAnswerTeachesLittle(t *testing.T) {
	c, req := tokens.For("gpt-4o"), user(strings.Repeat("word ", 1000))
	c.Learn(t.Context(), req, 0, 1<<40)
	if got := c.Correction(); got > 1.2 {
		t.Errorf("the correction is %v after one answer, want at most 1.2", got)
	}
	for range 1000 {
		c.Learn(t.Context(), req, 0, 1<<40)
	}
	if got := c.Correction(); got != 2 {
		t.Errorf("the correction is %v, want it to end at 2", got)
	}
}

func TestWhatSaysLittleTeachesNothing(t *testing.T) {
	c := tokens.For("gpt-4o")
	c.Learn(t.Context(), user("hi"), 0, 60) // a small request with a hidden prompt
	c.Learn(t.Context(), user(sample), 0, 0)
	c.Learn(t.Context(), nil, 0, 100)
	c.Learn(t.Context(), user(strings.Repeat("word ", 1000)), 100_000, 5_000) // fits by its bytes, so it is never counted
	if got := c.Correction(); got != 1 {
		t.Errorf("the correction is %v, want 1", got)
	}
	c.Learn(t.Context(), user(strings.Repeat("word ", 1000)), 4_000, 5_000)
	if got := c.Correction(); got == 1 {
		t.Error("a request that has to be counted taught nothing")
	}
}
