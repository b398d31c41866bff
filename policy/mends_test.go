package policy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/policy"
)

// rowOf is what Explain says of a class.
func rowOf(t *testing.T, s *policy.Set, class string) string {
	t.Helper()
	text, err := s.Explain("w")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(squeezed(text)) {
		if row, ok := strings.CutPrefix(line, class+" "); ok {
			return strings.TrimSpace(row)
		}
	}
	t.Fatalf("no row of %s in\n%s", class, text)
	return ""
}

// streamed calls w for a stream. seen is what the reader saw.
func streamed(t *testing.T, s *policy.Set) (resp *llm.Response, seen string, err error) {
	t.Helper()
	chat, err := s.Caller("w")
	if err != nil {
		t.Fatal(err)
	}
	req := hello()
	req.Sink = func(d llm.Delta) error {
		seen += d.Text
		return nil
	}
	resp, err = chat.Call(t.Context(), req)
	return resp, seen, err
}

// What the reactions move to a larger window goes to long_context, and State and Explain know it.
func TestLongContextIsForWhatTheReactionsMoveThere(t *testing.T) {
	a, b := llmtest.Script(llmtest.Fail(llm.BadOutput)), llmtest.Script(llmtest.Text("long"))
	s := load(t, `workflow: w
retry: {max: 0}
long_context: b
reactions: {bad_output: {elsewhere: larger}}`+twoRoutes, map[string]llm.Caller{"a": a, "b": b})
	state, err := s.State("w")
	if err != nil {
		t.Fatal(err)
	}
	if r := state.Routes; len(r) != 1 || len(r[0].For) != 2 || r[0].For[0] != llm.TooLong || r[0].For[1] != llm.BadOutput {
		t.Errorf("the state has the routes %+v", r)
	}
	if got := rowOf(t, s, "bad_output"); !strings.HasPrefix(got, "fallback to b → ") {
		t.Errorf("Explain says %q", got)
	}
	if got := rowOf(t, s, "else b, for"); got != "context_overflow, unusable_output" {
		t.Errorf("Explain says the route is for %q", got)
	}
	resp, err := call(t, s, "w")
	if err != nil || resp.Text() != "long" {
		t.Errorf("the onion: %v, %v", resp, err)
	}
}

// With a contract the long context needs an approval for each reason that leads there.
func TestLongContextNeedsAnApprovalForEachReason(t *testing.T) {
	const card = `workflow: w
long_context: b
contract: {}
reactions: {unusable_output: {elsewhere: larger}}
---
routes:
  a: {provider: script, model: a, window: 100}
  b: {provider: script, model: b, window: 1000, approvals: [{workflow: w, reasons: [context_overflow], by: ada, until: 2999-01-01}]}
`
	_, err := policy.Load(write(t, map[string]string{"p.yaml": card}), scripted(nil))
	if err == nil || !strings.Contains(err.Error(), `an approval for "w" by reason of "unusable_output"`) {
		t.Errorf("got %v", err)
	}
}

// Under replay_safe_until: request_sent, Explain says of failures whose outcome nobody knows what the onion does.
func TestExplainKnowsWhatIsNotSentAgain(t *testing.T) {
	const rest = `degrade: {answer: later}
allowed_fallbacks: [{route: b, reasons: [provider_overload, pre-stream_timeout, interrupted_stream, unknown, unusable_output]}]
`
	const closes = "fail closed its outcome is not known, and the request may act on the world"
	for _, class := range []llm.Class{llm.Timeout, llm.Stalled, llm.Interrupted, llm.Unknown, llm.BadOutput} {
		fails := func() map[string]llm.Caller {
			e := &llm.Error{Class: class, Commit: llm.CommitUnknown}
			return map[string]llm.Caller{"a": llmtest.Script(llmtest.Fail(e)), "b": llmtest.Script(llmtest.Text("b"))}
		}
		s := load(t, "workflow: w\nreplay_safe_until: request_sent\n"+rest+twoRoutes, fails())
		if got := rowOf(t, s, class.String()); got != closes {
			t.Errorf("%v: Explain says %q", class, got)
		}
		if resp, err := call(t, s, "w"); err == nil {
			t.Errorf("%v: the onion answers %q", class, resp.Text())
		}
		s = load(t, "workflow: w\n"+rest+twoRoutes, fails())
		if got := rowOf(t, s, class.String()); got == closes {
			t.Errorf("%v, which may be sent again: Explain says %q", class, got)
		}
	}
	s := load(t, "workflow: w\nreplay_safe_until: request_sent\nfail_closed_on: [unknown]\n"+twoRoutes, map[string]llm.Caller{"a": llmtest.Script()})
	if got := rowOf(t, s, "unknown"); got != "fail closed the caller has to hear of failures of this class" {
		t.Errorf("Explain says %q", got)
	}
	if got := rowOf(t, s, "rate_limited"); !strings.HasPrefix(got, "retry ×2") {
		t.Errorf("what was turned away is sent again, and Explain says %q", got)
	}
}

// What time has taken away is named, with the approval or the evaluation that ended, wherever it is said.
func TestWhatHasEndedIsNamed(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want, mend string }{
		"an approval for one of the reasons": {
			"workflow: w, reasons: [provider_overload, unusable_output], by: ada, until: 2000-02-01}",
			"workflow: w, reasons: [provider_overload], by: ada, until: 2030-01-01}\n" +
				"      - {workflow: w, reasons: [unusable_output], by: bo, until: 1999-01-01}",
			`until 1999-01-01: approval.reasons: an approval for "w" by reason of "unusable_output"`, "have it approved again",
		},
		"an evaluation": {
			"date: 1999-12-01", "date: 1999-06-01", "until 1999-08-30: quality.date: an evaluation of the last 90 days",
			`evaluate the route with suite "support"`,
		},
	} {
		satisfied(t, strings.Replace(equal, test.old, test.new, 1), func(t *testing.T, s *policy.Set, _, b *llmtest.Model) {
			gone := s.Expired(time.Now())
			if len(gone) != 1 || !strings.Contains(gone[0].What, test.want) || !strings.Contains(gone[0].Mend, test.mend) {
				t.Errorf("%s: Expired is %v", name, gone)
			}
			state, err := s.State("w")
			if err != nil || len(state.Routes) != 1 || state.Routes[0].Denied == nil || !strings.Contains(state.Routes[0].Denied.Error(), test.want) {
				t.Errorf("%s: State has %+v, %v", name, state.Routes, err)
			}
			if got := rowOf(t, s, "else b, for"); !strings.Contains(got, "not called: it satisfied the contract "+test.want) {
				t.Errorf("%s: Explain says %q", name, got)
			}
			_, err = call(t, s, "w")
			rows := llm.AsError(err).Attempts
			if b.Count() != 0 || len(rows) != 2 || !strings.Contains(rows[1].Skipped, test.want) || !strings.Contains(rows[1].Skipped, test.mend) {
				t.Errorf("%s: %v, of %+v", name, err, rows)
			}
		})
	}
}

// A last good answer was checked against the contract of its time. A stricter one has none.
func TestLastGoodAnswersEndWithTheirContract(t *testing.T) {
	const card = `workflow: w
retry: {max: 0}
degrade: {last_good: {}}
contract: {output: {required_fields: [answer]}}
---
routes:
  a: {provider: script, model: a, capabilities: [text, json]}
`
	for _, test := range []struct {
		old, new string
		kept     bool
	}{
		{"[answer]", "[answer, source]", false},
		{"contract: {output: {required_fields: [answer]}}", "contract: {output: {json_schema: {required: [source]}}}", false},
		{"workflow: w", "workflow: w\nmax_tokens: 100000", true},
	} {
		a := llmtest.Script(llmtest.Text(`{"answer": "yes"}`), llmtest.Fail(llm.Invalid), llmtest.Fail(llm.Unavailable))
		l := goLive(t, scripted(map[string]llm.Caller{"a": a}), card)
		if _, err := call(t, l.Set, "w"); err != nil {
			t.Fatal(err)
		}
		l.becomes(strings.Replace(card, test.old, test.new, 1))
		if _, err := call(t, l.Set, "w"); err == nil { // Invalid has no stand-in
			t.Fatal("it was answered")
		}
		if resp, err := call(t, l.Set, "w"); (err == nil) != test.kept {
			t.Errorf("%s: got %v, %v", test.new, resp, err)
		}
	}
}

// Half a price would let what it lacks pass a ceiling of money for free.
func TestAPriceHasBothHalves(t *testing.T) {
	for price, good := range map[string]bool{
		"{input: 1}": false, "{cached_input: 1}": false, "{input: 1, output: 0}": true, "{input: 0, output: 1}": true, "{free: true}": true,
	} {
		card := "workflow: w\nmax_incremental_cost_usd: 1\n---\nroutes:\n  a: {provider: script, model: a, price: " + price + "}\n"
		_, err := policy.Load(write(t, map[string]string{"p.yaml": card}), scripted(map[string]llm.Caller{"a": llmtest.Script()}))
		if (err == nil) != good {
			t.Errorf("%s: %v", price, err)
		}
	}
}

// A primary that can go on with an answer goes on with its own, although its break rests it for others.
func TestThePrimaryContinuesItsOwnAnswer(t *testing.T) {
	const alone = "workflow: w\nstream: {on_interrupt: continue}\n---\nroutes:\n" +
		"  a: {provider: script, model: a, capabilities: [text, stream, prefill]}\n"
	const withB = "  b: {provider: script, model: b, capabilities: [text, stream, prefill]}\n"
	const fallback = "workflow: w\nallowed_fallbacks: [{route: b, reasons: [interrupted_stream]}]"
	broken := llmtest.Step{Deltas: []llm.Delta{{Text: "It is a circuit"}}, Err: &llm.Error{Class: llm.Interrupted}}
	for name, test := range map[string]struct {
		card         string
		b            llmtest.Step
		ofA, ofB     int
		continuation string
	}{
		"alone":                      {alone, llmtest.Step{}, 2, 0, "a"},
		"a fallback may go on":       {strings.Replace(alone, "workflow: w", fallback, 1) + withB, llmtest.Text(" breaker."), 1, 1, "b"},
		"the fallback cannot either": {strings.Replace(alone, "workflow: w", fallback, 1) + withB, llmtest.Fail(llm.NotFound), 2, 1, "a"},
	} {
		a, b := llmtest.Script(broken, llmtest.Text(" breaker.")), llmtest.Script(test.b)
		s := load(t, test.card, map[string]llm.Caller{"a": a, "b": b})
		resp, seen, err := streamed(t, s)
		if err != nil || seen != "It is a circuit breaker." || resp.Text() != seen || resp.Deployment != test.continuation ||
			a.Count() != test.ofA || b.Count() != test.ofB {
			t.Errorf("%s: the reader saw %q, %v, after %d and %d calls", name, seen, err, a.Count(), b.Count())
		}
	}
}

// What the contract demands of an answer, a continued one has to satisfy as a whole.
func TestAContinuedAnswerIsCheckedAsAWhole(t *testing.T) {
	const card = `workflow: w
retry: {max: 0}
stream: {on_interrupt: continue}
contract: {output: {required_fields: [answer]}}
---
routes:
  a: {provider: script, model: a, capabilities: [text, stream, prefill, json]}
`
	for rest, good := range map[string]bool{`wer": "x"}`: true, `{"answer": "x"}`: false} {
		a := llmtest.Script(llmtest.Step{Deltas: []llm.Delta{{Text: `{"ans`}}, Err: &llm.Error{Class: llm.Interrupted}}, llmtest.Text(rest))
		s := load(t, card, map[string]llm.Caller{"a": a})
		resp, seen, err := streamed(t, s)
		if (err == nil) != good || !good && !errors.Is(err, llm.BadOutput) || a.Count() != 2 || seen != `{"ans`+rest {
			t.Errorf("the reader saw %q: %v, %v after %d calls", seen, resp, err, a.Count())
		}
	}
}
