package llm_test

import (
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// The configuration that survives the sixteen faults keeps what the README promises of it.
func TestTheResilientChainKeepsItsPromises(t *testing.T) {
	report := llmtest.Prove(t, func(s *llmtest.Staging) (llmtest.Promises, error) {
		return llmtest.Promises{
			Caller: resilient(pace{div: 1}, middleware.CommitConfig{},
				model(s.Primary.URL, s.Primary.Client), model(s.Backup.URL, s.Backup.Client)),
			Within: 30 * time.Second, Retries: 2, Rest: 15 * time.Second, Held: 16, Continues: true,
			StandsIn: []llm.Class{
				llm.Unavailable, llm.Overloaded, llm.Timeout, llm.Stalled, llm.RateLimited, llm.TooLong, llm.NotFound, llm.Unsupported,
				llm.BadOutput, llm.Interrupted,
			},
		}, nil
	})
	if !report.OK() {
		t.Error("a promise was not kept")
	}
}
