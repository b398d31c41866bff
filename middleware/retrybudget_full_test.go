package middleware

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

// Calls that succeed share nothing but a word that nobody writes, so that they do not slow each other down.
func TestRetryBudgetThatIsFullIsNotWrittenBySuccesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewRetryBudget(RetryBudgetConfig{})
		full := func(when string, want bool) {
			t.Helper()
			if got := b.empty.Load() == bucketFull; got != want {
				t.Errorf("%s: marked as full: %v, want %v", when, got, want)
			}
		}
		full("new", true)
		b.succeeded()
		full("after a success", true)
		if _, ok := b.withdraw(llm.Unavailable); !ok {
			t.Fatal("no retry from a full budget")
		}
		full("after a retry", false)
		llmtest.Advance(time.Minute)
		b.succeeded()
		full("after the first success that finds nothing missing", true)
	})
}
