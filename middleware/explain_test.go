package middleware_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

func ExampleExplain() {
	fmt.Print(middleware.Explain(middleware.State{
		Left:  middleware.Room{Time: 9 * time.Second, Attempts: 2, Tokens: 1000, CostUSD: 0.02}, // after the first attempt
		Retry: middleware.RetryOption{Left: 2, Pause: time.Second},
		Routes: []middleware.RouteOption{
			{Name: "backup", For: []llm.Class{llm.Overloaded, llm.Timeout}},
		},
		Queue:   middleware.QueueOption{Open: true},
		Degrade: middleware.DegradeOption{Open: true},
	}))
	// Output:
	// failure                                      actions, in order                        reason of the last
	// unknown                                      degrade                                  nobody could answer
	// unavailable                                  retry ×2 → degrade                       nobody could answer
	// overloaded                                   retry ×1 → fallback to backup → degrade  nobody could answer
	// timeout                                      retry ×1 → fallback to backup → degrade  nobody could answer
	// stalled                                      queue                                    time may mend it, and the work may wait
	// rate_limited                                 retry ×2 → degrade                       nobody could answer
	// quota                                        queue                                    time may mend it, and the work may wait
	// too_long                                     degrade                                  nobody could answer
	// not_found                                    degrade                                  nobody could answer
	// unsupported                                  degrade                                  nobody could answer
	// bad_output                                   retry ×1 → degrade                       nobody could answer
	// interrupted                                  retry ×2 → degrade                       nobody could answer
	// invalid                                      fail closed                              the caller has to hear of failures of this class
	// auth                                         fail closed                              the caller has to hear of failures of this class
	// refused                                      fail closed                              the caller has to hear of failures of this class
	// cooling                                      fallback to backup → queue               time may mend it, and the work may wait
	// exhausted                                    queue                                    time may mend it, and the work may wait
	// canceled                                     fail closed                              the caller left
	// queued                                       fail closed                              the caller has to hear of failures of this class
	// quota, resting                               queue                                    time may mend it, and the work may wait
	// any, outcome unknown of a request that acts  fail closed                              its outcome is not known, and the request may act on the world
	// any, after a part of the answer              fail closed                              a part of the answer was handed out
}

func TestExplainHasEveryClass(t *testing.T) {
	text := middleware.Explain(middleware.State{})
	for c := range llm.Class(llm.NumClasses) {
		if !strings.Contains(text, "\n"+c.String()+" ") {
			t.Errorf("no line for %v:\n%s", c, text)
		}
	}
	if strings.Contains(text, "retry") || strings.Contains(text, "fallback") {
		t.Errorf("nothing is open:\n%s", text)
	}
}
