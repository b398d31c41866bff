package policy_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/policy"
)

// What State says a workflow begins with is enough to tell, by its account alone, why each failure led to what it led to.
func TestTheAccountOfACallIsExplainedByItsCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := load(t, `workflow: w
max_total_attempts: 3
max_elapsed_ms: 9000
allowed_fallbacks: [{route: b, reasons: [rate_limit, provider_overload]}]
retry: {max: 1}
`+twoRoutes, map[string]llm.Caller{
			"a": llmtest.Script(llmtest.Fail(llm.Overloaded), llmtest.Fail(&llm.Error{Class: llm.RateLimited, RetryAfter: time.Minute})),
			"b": llmtest.Script(llmtest.Fail(llm.Invalid)),
		})
		chat, err := s.Caller("w")
		if err != nil {
			t.Fatal(err)
		}
		_, err = chat.Call(t.Context(), hello())
		state, unknown := s.State("w")
		if unknown != nil {
			t.Fatal(unknown)
		}
		var said []string
		for _, d := range middleware.Replay(state, llm.AsError(err).Attempts) {
			said = append(said, d.Action.String())
		}
		if got := strings.Join(said, ", "); got != "retry, fallback, fail closed" {
			t.Errorf("%s, of %v", got, err)
		}
	})
}

func TestExplainSaysWhatAWorkflowDoes(t *testing.T) {
	s := load(t, `workflow: w
max_total_attempts: 4
max_elapsed_ms: 9000
max_incremental_cost_usd: 0.5
allowed_fallbacks: [{route: b, reasons: [quota]}]
long_context: b
queue_after_ms: 0
degrade: {answer: later, for: [missing_capability]}
fail_closed_on: [unusable_output]
`+twoRoutes, map[string]llm.Caller{"a": llmtest.Script(), "b": llmtest.Script()})
	text, err := s.Explain("w")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"workflow w", "  at most 9s, 4 attempts, $0.5", "  first a", "  else  b, for quota", "  else  b, for context_overflow",
		"  fails closed on unusable_output", "overloaded retry ×2 → queue time may mend it, and the work may wait",
		"quota fallback to b → queue time may mend it, and the work may wait",
		"too_long fallback to b → fail closed nothing that is open would help",
		"unsupported degrade nobody could answer", "bad_output fail closed the caller has to hear of failures of this class",
	} {
		if !strings.Contains("\n"+squeezed(text)+"\n", "\n"+squeezed(line)+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	if _, err := s.Explain("other"); err == nil || !strings.Contains(err.Error(), "it has w") {
		t.Errorf("of a workflow that is not there: %v", err)
	}
	if _, err := s.State("other"); err == nil {
		t.Error("a workflow that is not there has a state")
	}
}

// squeezed is text with single spaces.
func squeezed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return strings.Join(lines, "\n")
}

// A ledger keeps what is journaled, or fails.
type ledger struct {
	mu    sync.Mutex
	fails bool
	begun []middleware.JournalAttempt
	over  []middleware.JournalCall
}

func (l *ledger) Begin(_ context.Context, a middleware.JournalAttempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails {
		return errors.New("disk full")
	}
	l.begun = append(l.begun, a)
	return nil
}

func (l *ledger) Settle(context.Context, middleware.JournalAttempt) error { return nil }

func (l *ledger) Finish(_ context.Context, c middleware.JournalCall) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = append(l.over, c)
	return nil
}

func TestTheJournalIsKeptAsTheCardSays(t *testing.T) {
	for _, test := range []struct {
		card     string
		fails    bool
		answered bool
	}{
		{"workflow: w\n", false, true},
		{"workflow: w\n", true, false},
		{"workflow: w\njournal: {on_failure: go_on}\n", true, true},
		{"workflow: w\njournal: {acknowledge: begin, timeout_ms: 20, on_failure: fail_closed}\n", true, false},
	} {
		l := &ledger{fails: test.fails}
		o := scripted(map[string]llm.Caller{"a": llmtest.Script(llmtest.Text("hi"))})
		o.Journal = l
		s, err := policy.Load(write(t, map[string]string{"policy.yaml": test.card + twoRoutes}), o)
		if err != nil {
			t.Fatal(err)
		}
		chat, err := s.Caller("w")
		if err != nil {
			t.Fatal(err)
		}
		_, err = chat.Call(t.Context(), hello())
		if (err == nil) != test.answered || !test.answered && !errors.Is(err, middleware.ErrJournalDown) {
			t.Errorf("%q, failing %v: %v", test.card, test.fails, err)
		}
		if !test.fails && (len(l.begun) != 1 || l.begun[0].Workflow != "w" || len(l.over) != 1) {
			t.Errorf("%q: %d rows, %d calls", test.card, len(l.begun), len(l.over))
		}
	}
	_, err := policy.Load(write(t, map[string]string{"policy.yaml": "workflow: w\njournal: {timeout_ms: 5}\n" + twoRoutes}),
		scripted(map[string]llm.Caller{"a": llmtest.Script()}))
	if err == nil || !strings.Contains(err.Error(), "policy.yaml:2:10: journal is set and there is none") {
		t.Errorf("without a journal: %v", err)
	}
}
