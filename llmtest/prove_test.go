package llmtest

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/middleware"
)

// allPassed fails for each row that did not pass, but for those that were not to be claimed.
func allPassed(t *testing.T, report *Report, unclaimed ...string) {
	t.Helper()
	if len(report.Rows) != len(conditions()) {
		t.Errorf("%d rows of %d conditions", len(report.Rows), len(conditions()))
	}
	open := map[string]bool{}
	for _, name := range unclaimed {
		open[name] = true
	}
	for _, r := range report.Rows {
		want := Passed
		if open[r.Condition] {
			want = NotClaimed
		}
		if r.Verdict != want {
			t.Errorf("%v was expected\n%v", want, r.String())
		}
	}
}

const slowPrimary = "a slow primary"

// A hedge is no repetition: two conditions know of it, and one holds the chain to it.
func TestAChainThatHedgesPasses(t *testing.T) {
	for name, cfg := range map[string]middleware.HedgeConfig{
		"after half a second": {Delay: 500 * time.Millisecond}, "after what it learned": {MinDelay: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			c := soundParts()
			c.hedge, c.promises.Hedges = &cfg, cfg.Delay+cfg.MinDelay
			for _, r := range Prove(t, c.build).Rows {
				if r.Verdict != Passed {
					t.Error(r.String())
				}
			}
		})
	}
}

// A machine may be so busy that a primary that is well is overtaken by a hedge.
func TestOneThatIsWellIsOvertakenOnlyAfterThePromisedDelay(t *testing.T) {
	for _, c := range []struct {
		by     string
		hedges time.Duration
		took   time.Duration
		well   bool
	}{
		{"p", 0, time.Minute, true}, {"b", 0, time.Minute, false},
		{"p", time.Second, 0, true}, {"b", time.Second, time.Second - 1, false}, {"b", time.Second, time.Second, true},
		{"c", time.Second, time.Minute, false},
	} {
		p := &proving{Promises: Promises{Hedges: c.hedges}}
		p.primary, p.backup = &stand{letter: "p", in: p}, &stand{letter: "b", in: p}
		by := &stand{letter: c.by, in: p}
		h := &hearing{took: c.took, resp: &llm.Response{Parts: []llm.Part{llm.Text(by.answer())}}}
		if got := p.well(h); got != c.well {
			t.Errorf("%+v: it is well: %v", c, got)
		}
	}
}

// What cannot be meant of a promise is said before anything is tried, with how to mend it.
func TestPromisesThatCannotBeMeantAreErrors(t *testing.T) {
	for _, c := range []struct {
		says   string
		change func(*Promises)
	}{
		{"Within is -1ns; use 0 for no limit", func(p *Promises) { p.Within = -1 }},
		{"Within is 2562047h47m16.854775807s; use 0", func(p *Promises) { p.Within = math.MaxInt64 }},
		{"Within is 15ns; has it a unit, such as 15*time.Second?", func(p *Promises) { p.Within = 15 }},
		{"Rest is -1s; use 0 for none", func(p *Promises) { p.Rest = -time.Second }},
		{"Hedges is -1s; use 0 for no hedge", func(p *Promises) { p.Hedges = -time.Second }},
		{"Attempts is -1; use 0 for no limit", func(p *Promises) { p.Attempts = -1 }},
		{"Retries is -1; use 0 for none", func(p *Promises) { p.Retries = -1 }},
		{"Callers is -1; use 0 for 20", func(p *Promises) { p.Callers = -1 }},
		{"Window is -5; use 0", func(p *Promises) { p.Window = -5 }},
		{"Window is 9223372036854775807; at most", func(p *Promises) { p.Window = math.MaxInt64 }},
		{"Held is 100000; at most 5000", func(p *Promises) { p.Held = 100_000 }},
		{"Continues cannot be kept", func(p *Promises) { p.Continues, p.Held = true, -1 }},
		{"StandsIn has class(200), which is no class", func(p *Promises) { p.StandsIn = []llm.Class{200} }},
		{"Request has no messages; give it one", func(p *Promises) { p.Request = &llm.Request{} }},
		{"Request has a Sink; leave it out", func(p *Promises) {
			p.Request = &llm.Request{Messages: []llm.Message{llm.User("hi")}, Sink: func(llm.Delta) error { return nil }}
		}},
		{`Promises.Answer made "{\"answer\":\"x\"}" of`, func(p *Promises) { p.Answer = func(string) string { return `{"answer":"x"}` } }},
		{`Promises.Answer made "" of`, func(p *Promises) { p.Answer = func(string) string { return "" } }},
	} {
		sound := soundParts()
		c.change(&sound.promises)
		sound.outer = []llm.Stage{around(func(context.Context, llm.Caller, *llm.Request) (*llm.Response, error) {
			t.Errorf("%s: the chain was called", c.says)
			return nil, llm.Invalid
		})}
		if _, err := ProveLoopback(t.Context(), sound.build); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q was expected: %v", c.says, err)
		}
	}
}

func TestProveWithoutBuildSaysWhatIsMissing(t *testing.T) {
	for who, f := range map[string]func(){
		"Prove: build is nil; give it":         func() { Prove(t, nil) },
		"ProveLoopback: build is nil; give it": func() { _, _ = ProveLoopback(t.Context(), nil) },
	} {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, who) {
					t.Errorf("%q was expected: %s", who, v)
				}
			}()
			f()
		}()
	}
}

// conditionOf is the condition of that name.
func conditionOf(t *testing.T, name string) condition {
	t.Helper()
	all := conditions()
	i := slices.IndexFunc(all, func(c condition) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("no condition is called %q", name)
	}
	return all[i]
}

// A caller that leaves learns nothing of the condition that it left.
func TestACallerWhoLeavesInTheMidstLeavesNoVerdict(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	sound, built := soundParts(), 0
	sound.outer = []llm.Stage{around(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
		if built++; built > 1 {
			leave()
		}
		return next.Call(ctx, req)
	})}
	report, err := ProveLoopback(ctx, sound.build)
	if !errors.Is(err, context.Canceled) || len(report.Rows) != 0 {
		t.Errorf("%v, %+v", err, report)
	}
}

// A chain that ignores its context is given up and named; what it left behind is not waited for.
func TestAChainThatHangsIsNamed(t *testing.T) {
	for _, name := range []string{"503 before streaming", "circuit open", "abandoned calls"} {
		hangs := soundParts()
		hangs.wrap = func(next llm.Caller) llm.Caller {
			return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
				if _, err := next.Call(ctx, req); err == nil && name == "503 before streaming" || err != nil && name == "abandoned calls" || name == "circuit open" {
					select {}
				}
				return nil, llm.Invalid
			})
		}
		row, err := conditionOf(t, name).prove(t, hangs.build)
		if err != nil || row.Verdict != Failed || !strings.Contains(strings.Join(row.Wrong, "\n"), "a call was not over after") ||
			!strings.Contains(strings.Join(row.Wrong, "\n"), "though its context had ended") {
			t.Errorf("%v, %v", row.String(), err)
		}
	}
}

// Who forgets Endpoint.Client is told so.
func TestAChainThatForgetsTheClientIsTold(t *testing.T) {
	c := soundParts()
	c.model = func(cfg openai.Config) llm.Caller {
		cfg.HTTPClient = nil
		return openai.New(cfg)
	}
	row, err := conditionOf(t, "503 before streaming").prove(t, c.build)
	if err != nil || row.Verdict != Failed || !strings.Contains(strings.Join(row.Wrong, "\n"), "Endpoint.Client") {
		t.Errorf("%v, %v", row.String(), err)
	}
}

// The same complaint with another time is made once, with the number of times.
func TestTheSameComplaintIsMadeOnce(t *testing.T) {
	var p proving
	for i := range 20 {
		p.fail("a call took %v, and 1s is promised", time.Second+time.Duration(i+1)*time.Millisecond)
	}
	p.fail("the primary was asked 3 times")
	p.fail("the primary was asked 2 times")
	want := []string{"a call took 1.001s, and 1s is promised (20 times)", "the primary was asked 3 times", "the primary was asked 2 times"}
	if got := p.complaints(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestAChainThatKeepsItsPromisesPassesThemAll(t *testing.T) {
	report := Prove(t, soundParts().build)
	allPassed(t, report)
	for _, r := range report.Rows {
		if r.Observed == "" {
			t.Errorf("nothing was observed of %s", r.Condition)
		}
	}
}

func TestAChainThatContinuesAnswersPasses(t *testing.T) {
	c := soundParts()
	c.promises.Continues = true
	c.validate, c.promises.Lacking = false, ""
	report := Prove(t, c.build)
	allPassed(t, report, "fallback answer without a required field")
	for _, r := range report.Rows {
		if r.Condition == "stream failure after visible tokens" && !strings.Contains(r.Observed, "an answer that was continued") {
			t.Error(r.String())
		}
	}
}

func TestAChainThatHoldsWholeAnswersBackPasses(t *testing.T) {
	c := soundParts()
	c.window, c.promises.Held = middleware.CommitConfig{Whole: true}, -1
	allPassed(t, Prove(t, c.build), "stream failure after visible tokens")
}

// notPromised are the conditions of which nothing is known where nothing is promised.
func notPromised() []string {
	return []string{
		"429 with a short wait", "429 with a wait longer than the time left", "unapproved failures", "time-out after a tool committed",
		"fallback answer without a required field", "circuit open", "attempts", "oversized input",
	}
}

// What a chain does not promise is neither passed nor failed, and the report says which promise would have it tried.
func TestWhatIsNotPromisedIsNotClaimed(t *testing.T) {
	bare := func(s *Staging) (Promises, error) {
		made, err := soundParts().build(s)
		return Promises{Caller: made.Caller, Answer: made.Answer, Attempts: 0}, err
	}
	for _, c := range conditions() {
		for _, name := range notPromised() {
			if c.name != name {
				continue
			}
			row, err := c.prove(t, bare)
			if err != nil || row.Verdict != NotClaimed || !strings.Contains(row.Observed, "set Promises.") {
				t.Errorf("%v, %v", row.String(), err)
			}
		}
	}
	if (&Report{Rows: []Row{{Verdict: NotClaimed}}}).OK() {
		t.Error("a report of which nothing passed is OK")
	}
}

func TestTheConditionsHoldOnTheResponsesWire(t *testing.T) {
	c := soundParts()
	c.model = func(cfg openai.Config) llm.Caller { return openai.NewResponses(cfg) }
	allPassed(t, Prove(t, c.build))
}

// A deployment by itself promises nothing, and keeps the laws that need no promise.
func TestADeploymentAlonePasses(t *testing.T) {
	report := Prove(t, func(s *Staging) (Promises, error) {
		return Promises{Caller: &llm.Deployment{
			Name: "alone", Model: "m", Caller: openai.New(openai.Config{BaseURL: s.Primary.URL + "/v1", APIKey: "k", HTTPClient: s.Primary.Client}),
		}}, nil
	})
	allPassed(t, report, notPromised()...)
}

func TestTheConditionsHoldOverLoopbackToo(t *testing.T) {
	c := soundParts()
	// Short, but no shorter than what a busy machine may take over an answer of a provider that is well.
	c.retry.Base, c.cooldown.Rest, c.promises.Rest = 10*time.Millisecond, time.Second, time.Second
	c.total, c.promises.Within = 6*time.Second, 6*time.Second
	c.limits = middleware.AttemptTimeoutConfig{FirstToken: time.Second, Idle: time.Second, Total: 3 * time.Second}
	report, err := ProveLoopback(t.Context(), c.build)
	if err != nil {
		t.Fatal(err)
	}
	allPassed(t, report)
}

func TestAChainThatCannotBeBuiltIsAnError(t *testing.T) {
	broken := errors.New("no such card")
	if _, err := ProveLoopback(t.Context(), func(*Staging) (Promises, error) { return Promises{}, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	_, err := ProveLoopback(t.Context(), func(*Staging) (Promises, error) { return Promises{}, nil })
	if err == nil || !strings.Contains(err.Error(), "let build set Promises.Caller") {
		t.Errorf("%v", err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := ProveLoopback(ctx, soundParts().build); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// someRows have all that XML has to escape, and what it cannot hold.
func someRows() *Report {
	return &Report{Rows: []Row{
		{Condition: "a < b & \"c\"", Expected: "x > 1", Observed: "]]> \x00 \x1b[31m \xff", Took: 1500 * time.Millisecond},
		{Condition: "broken", Expected: "whole", Observed: "cut", Verdict: Failed, Wrong: []string{"one <b>", "two"}, Took: time.Second},
		{Condition: "queue", Verdict: NotClaimed, Observed: "no queue is promised"},
	}}
}

func TestJUnitIsWellFormedAndHoldsEverything(t *testing.T) {
	var out bytes.Buffer
	if err := someRows().WriteJUnit(&out, `support & "co"`); err != nil {
		t.Fatal(err)
	}
	dec := xml.NewDecoder(bytes.NewReader(out.Bytes()))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, out.String())
		}
	}
	var got junitSuites
	if err := xml.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	s := got.Suite
	if s.Name != `support & "co"` || s.Tests != 3 || s.Failures != 1 || s.Skipped != 1 || s.Time != "2.500" || len(s.Cases) != 3 {
		t.Errorf("%+v", s)
	}
	first, failed, skipped := s.Cases[0], s.Cases[1], s.Cases[2]
	if first.Name != "a < b & \"c\"" || first.Time != "1.500" || first.Failure != nil || first.Skipped != nil ||
		!strings.Contains(first.Out, "]]> \uFFFD \uFFFD[31m \uFFFD") {
		t.Errorf("%+v", first)
	}
	if failed.Failure == nil || failed.Failure.Text != "one <b>\ntwo" || failed.Failure.Message != "whole" || failed.Skipped != nil {
		t.Errorf("%+v", failed)
	}
	if skipped.Skipped == nil || skipped.Skipped.Message != "not claimed: no queue is promised" || skipped.Failure != nil {
		t.Errorf("%+v", skipped)
	}
}

func TestTheTextSaysWhatWasExpectedAndObserved(t *testing.T) {
	var out strings.Builder
	if err := someRows().WriteText(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"failed       broken\n    expected: whole\n    observed: cut\n    wrong:    one <b>\n    wrong:    two\n",
		"not claimed  queue\n", "1 passed, 1 failed, 1 not claimed\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if someRows().OK() {
		t.Error("a report with a failure is OK")
	}
}

// full is a writer that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestAReportThatCannotBeWrittenIsAnError(t *testing.T) {
	if err := someRows().WriteText(full{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%v", err)
	}
	if err := someRows().WriteJUnit(full{}, "s"); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%v", err)
	}
}

// The tool is heard of the second time only.
func TestTheFirstRunOfTheToolIsNotHeardOf(t *testing.T) {
	var e Effect
	if done, err := e.Look(t.Context(), "k"); done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	if err := e.Run(t.Context(), "k"); !errors.Is(err, context.DeadlineExceeded) || llm.ClassOf(err) != llm.Exhausted {
		t.Errorf("%v", err)
	}
	if done, err := e.Look(t.Context(), "k"); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	if err := e.Run(t.Context(), "k"); err != nil {
		t.Error(err)
	}
}
