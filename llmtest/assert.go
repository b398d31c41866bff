package llmtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
)

// An Expectation says what calls the models of a test should have had. Each of its methods fails the test with one sentence
// that tells what was seen, and returns the Expectation for the next one.
type Expectation struct {
	t     testing.TB
	calls []Call // of all models, in the order they came
}

// Expect begins with the calls that the models have had by now, of all of them together:
//
//	llmtest.Expect(t, model).WasCalled(3).WaitedAtLeast(2 * time.Second).NotAfterOutput()
func Expect(t testing.TB, models ...*Model) *Expectation {
	t.Helper()
	e := &Expectation{t: t}
	for _, m := range models {
		e.calls = append(e.calls, m.Calls()...)
	}
	slices.SortStableFunc(e.calls, func(a, b Call) int { return a.At.Compare(b.At) })
	return e
}

// WasCalled expects n calls.
func (e *Expectation) WasCalled(n int) *Expectation {
	e.t.Helper()
	if len(e.calls) != n {
		e.t.Errorf("want %s, got %s", times(n), e.seen())
	}
	return e
}

// WaitedAtLeast expects that d passed between the end of each call and the beginning of the next.
func (e *Expectation) WaitedAtLeast(d time.Duration) *Expectation {
	e.t.Helper()
	return e.gaps(func(gap time.Duration) bool { return gap >= d }, "at least", d)
}

// WaitedAtMost expects that no more than d passed between the end of each call and the beginning of the next.
func (e *Expectation) WaitedAtMost(d time.Duration) *Expectation {
	e.t.Helper()
	return e.gaps(func(gap time.Duration) bool { return gap <= d }, "at most", d)
}

func (e *Expectation) gaps(ok func(time.Duration) bool, bound string, d time.Duration) *Expectation {
	e.t.Helper()
	for i := 1; i < len(e.calls); i++ {
		before := &e.calls[i-1]
		switch gap := e.calls[i].At.Sub(before.End); {
		case before.End.IsZero():
			e.t.Errorf("want a wait of %s %v before call %d, which began while call %d was under way", bound, d, i+1, i)
		case !ok(gap):
			e.t.Errorf("want a wait of %s %v before call %d, got %v", bound, d, i+1, gap)
		}
	}
	return e
}

// OneAtATime expects that each call began when the one before had ended.
func (e *Expectation) OneAtATime() *Expectation {
	e.t.Helper()
	for i := 1; i < len(e.calls); i++ {
		if end := e.calls[i-1].End; end.IsZero() || e.calls[i].At.Before(end) {
			e.t.Errorf("want one call at a time, but call %d began while call %d was under way", i+1, i)
		}
	}
	return e
}

// NotAfterOutput expects that no call began after another had handed out a piece of its answer. All calls are taken for those
// of one request: give each a model of its own.
func (e *Expectation) NotAfterOutput() *Expectation {
	e.t.Helper()
	for i := 1; i < len(e.calls); i++ {
		for j := range e.calls[:i] {
			if out := e.calls[j].Output; !out.IsZero() && !out.After(e.calls[i].At) {
				e.t.Errorf("want no call after output, but call %d began %v after call %d had handed out its first piece", i+1,
					e.calls[i].At.Sub(out), j+1)
				break
			}
		}
	}
	return e
}

// WasTold expects that each request said text: in its system text, a message, or what a tool returned.
func (e *Expectation) WasTold(text string) *Expectation {
	e.t.Helper()
	for i := range e.calls {
		if said := sayings(e.calls[i].Request); !strings.Contains(said, text) {
			e.t.Errorf("want call %d to say %q, it says %q", i+1, text, said)
		}
	}
	if len(e.calls) == 0 {
		e.t.Errorf("want calls that say %q, got none", text)
	}
	return e
}

// WasNotTold expects that text is nowhere in any request, neither in what is said nor in labels, tools or settings.
func (e *Expectation) WasNotTold(text string) *Expectation {
	e.t.Helper()
	for i := range e.calls {
		r := e.calls[i].Request
		data, err := json.Marshal(r)
		if err != nil {
			e.t.Errorf("call %d has no JSON: %v", i+1, err)
		}
		quoted, _ := json.Marshal(text) //nolint:errchkjson // a string has JSON
		if strings.Contains(sayings(r), text) || strings.Contains(string(data), strings.Trim(string(quoted), `"`)) {
			e.t.Errorf("want no call that says %q, but call %d does", text, i+1)
		}
	}
	return e
}

// sayings is all text of a request, a line each.
func sayings(r *llm.Request) string {
	lines := []string{r.System}
	for _, m := range r.Messages {
		lines = addTexts(lines, m.Parts)
	}
	return strings.Join(lines, "\n")
}

func addTexts(lines []string, parts []llm.Part) []string {
	for i := range parts {
		if t := parts[i].Text; t != "" {
			lines = append(lines, t)
		}
		if r := parts[i].Result; r != nil {
			lines = addTexts(lines, r.Parts)
		}
	}
	return lines
}

// seen is what calls there were: "2 calls, after 0s and 1s".
func (e *Expectation) seen() string {
	if len(e.calls) == 0 {
		return "none"
	}
	at := make([]string, len(e.calls))
	for i := range e.calls {
		at[i] = fmt.Sprint(e.calls[i].At.Sub(e.calls[0].At))
	}
	return times(len(at)) + ", after " + strings.Join(at, ", ")
}

func times(n int) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}
