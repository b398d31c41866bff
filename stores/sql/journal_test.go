package sqlstore

import (
	"fmt"
	"time"

	"github.com/modelchain/llm/middleware"
)

// attemptRow is an attempt that begins.
func attemptRow(n int64) middleware.JournalAttempt {
	return middleware.JournalAttempt{
		Call: fmt.Sprintf("%012x-call", n), Seq: 1, Workflow: "w", Index: 1, Requested: "a", Deployment: "a", Provider: "p",
		Model: "m", Reason: "initial", Start: time.Now(), State: middleware.JournalStarted,
	}
}
