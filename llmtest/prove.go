package llmtest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
)

// Promises are a chain and what it promises, which [Prove] holds it to. What is left at zero is not promised, and the conditions
// that need it are reported as not claimed.
type Promises struct {
	// Caller is the chain. It must be set.
	Caller llm.Caller
	// Close ends what the chain needs, after each condition. nil: nothing.
	Close func()

	// Request is what is asked. nil: a short question. It is cloned for each call; streams get a sink of their own.
	Request *llm.Request
	// Answer makes an answer out of words that keeps the chain's contract of output, such as a JSON object that holds them. nil:
	// the words themselves.
	Answer func(words string) string
	// Lacking is an answer that lacks a required field. "": no answer is checked.
	Lacking string

	// Within is the longest time for a call. 0: there is no limit.
	Within time.Duration
	// Attempts is the most provider calls for a call. 0: there is no limit.
	Attempts int
	// Retries is how often a call is repeated on one deployment at most. 0: it is not repeated.
	Retries int
	// Hedges is how long Primary may be silent before Backup is called beside it, at the least; that is no repetition. With a delay
	// that is learned it is the least delay. 0: nobody is called beside another.
	Hedges time.Duration
	// StandsIn lists the failures that Backup is approved for. nil: there is no fallback.
	StandsIn []llm.Class
	// Rest is how long a deployment rests after it failed for good, the first time; after each failed probe at most twice as long.
	// 0: none rests.
	Rest time.Duration

	// Held is how many deltas of a stream are held back at most. Negative: the whole answer is.
	Held int
	// Continues: an answer that broke off is continued by Backup, from the exact text so far. It needs a Held of 0 or more.
	Continues bool

	// Callers is how many callers come at once, where many do: three times as many where they leave again. 0: 20.
	Callers int

	// Window is how many tokens Primary holds. 0: it is not checked.
	Window int
	// Long: what exceeds Window goes to the deployment Long. Else it is refused before it is sent.
	Long bool

	// Queued is how many jobs were queued so far. nil: there is no queue.
	Queued func() int
	// RunTools runs the tools that an answer asks for, as a turn of that name; it is given the same turn again where it failed. The
	// tool is [Staging.Tool]. nil: the chain runs no tools.
	RunTools func(ctx context.Context, turn string, answer *llm.Response) error
}

// A Staging is where a chain is put to the proof: the providers that its deployments speak to. Each of them is a [Provider],
// which takes any key and any model.
type Staging struct {
	// Primary is called first, Backup stands in for it.
	Primary, Backup Endpoint
	// Long takes what is too long for Primary.
	Long Endpoint
	// Unapproved is for a deployment that the chain knows and that may stand in for nothing: no condition may see it called. A chain
	// without one leaves it out.
	Unapproved Endpoint
	// Tool is a tool with an effect on the world, for chains that run tools.
	Tool *Effect
	// Fake: time is that of testing/synctest. What waits for a database or a process outside cannot take part then; use
	// [ProveLoopback] for such a chain.
	Fake bool
}

// An Endpoint is where a deployment is.
type Endpoint struct {
	// URL is without a path, such as "http://127.0.0.1:4321".
	URL string
	// Client reaches it, and nothing else does where time is fake. Use it for all requests, so that no connection outlives the
	// condition.
	Client *http.Client
}

// Prove puts a chain to the proof before production does: it lets providers fail as real ones do and reports of each condition
// what was expected and what was observed. One that the chain fails is a failure of the test, in a subtest of the condition's
// name; one that needs what the chain does not promise is skipped and reported as not claimed. The report is logged.
//
// build makes the chain around the deployments of a Staging, with nothing left of earlier ones: it is called at least once for
// each condition. Where time matters it is called in a bubble of testing/synctest and the providers are in memory; everything
// else goes over loopback. Prove panics without build; promises that cannot be meant are a failure that says how to mend them.
// A call that ignores the end of its context is given up: the condition has failed, and the call's goroutine is left behind.
func Prove(t *testing.T, build func(*Staging) (Promises, error)) *Report {
	t.Helper()
	mustBuild("Prove", build)
	report := &Report{}
	for _, c := range conditions() {
		t.Run(c.name, func(t *testing.T) {
			row, err := c.prove(t, build)
			if err != nil {
				t.Fatal(err)
			}
			report.Rows = append(report.Rows, row)
			switch row.Verdict {
			case Failed:
				t.Error(row.String())
			case NotClaimed:
				t.Skip(row.String())
			}
		})
	}
	var table strings.Builder
	_ = report.WriteText(&table) // a Builder takes everything
	t.Log("\n" + table.String())
	return report
}

// ProveLoopback is [Prove] for programs, and for chains with a database: everything goes over loopback in real time, so let the
// chain have short times. The error is build's, or that the caller left; the report then has the conditions that were over.
func ProveLoopback(ctx context.Context, build func(*Staging) (Promises, error)) (*Report, error) {
	mustBuild("ProveLoopback", build)
	report := &Report{}
	for _, c := range conditions() {
		p := &proving{build: build}
		row, err := p.prove(ctx, c)
		if err != nil {
			return report, err
		}
		report.Rows = append(report.Rows, row)
	}
	return report, nil
}

func mustBuild(who string, build func(*Staging) (Promises, error)) {
	if build == nil {
		panic("llmtest: " + who + ": build is nil; give it the function that makes your chain around the deployments of a Staging")
	}
}

// A condition is something that happens to chains, and what is expected of them then.
type condition struct {
	name, expected string
	timed          bool // time matters
	run            func(*proving) error
}

// conditions are all of them, in the order of reports.
func conditions() []condition {
	all := []condition{
		{"healthy", "the primary answers, with one call, whole and streamed; nobody else is asked", false, healthy},
		{"429 with a short wait", "one wait, no shorter than asked, then one repetition; many callers told the same come back " +
			"spread out, at most half of them at the same time", true, shortWait},
		{"429 with a wait longer than the time left", "the approved fallback answers at once; nothing waits and nothing is queued",
			true, longWait},
		{"429 insufficient quota", "no repetition, now or by the next call, and nobody else's budget is used unless that is approved",
			false, quotaUsedUp},
		{"503 before streaming", "a bounded number of repetitions with waits between, then only a route approved for it", true,
			unavailable},
		{"unapproved failures", "whatever Backup is not approved for does not reach it", true, unapproved},
		{"every class of failure", "a provider is asked again only where the table of classes has it repeated: once for what a " +
			"repetition does not mend, else no more often than promised", true, everyClass},
		{"a slow primary", "nobody is called beside it, unless hedges are promised: then the backup is, after the delay and not " +
			"before, and neither is asked twice", true, takesLong},
		{"malformed tool schema", "the application has its error at once, after one call; it is not queued", false, toolSchema},
		{"time-out after a tool committed", "what it did is looked up; the tool is not run a second time", false, toolCommitted},
		{"outcome unknown of a request that acts", "it is not sent a second time, and not queued", false, actsOnTheWorld},
		{"stream failure after visible tokens", "an error that says so and holds what was shown; nothing is appended and nobody " +
			"else is asked; where continuing is promised, the backup goes on with the same answer", false, interruption},
		{"fallback answer without a required field", "it is rejected", true, lackingField},
		{"circuit open", "the next calls avoid the primary; after the rest one caller of many is let through as the probe, which " +
			"decides", true, circuit},
		{"attempts", "with everything down, no more provider calls and no more time than promised", true, everythingDown},
	}
	for _, f := range streamFaults() {
		all = append(all, condition{f.name, "no cut answer for a whole one, no two answers mixed, no call after output, and every " +
			"provider call in the account", true, f.run})
	}
	return append(
		all,
		condition{"cancel storm", "every caller who leaves is let go; no goroutine and no slot stays behind, nothing rests and " +
			"nothing is queued", false, cancelStorm},
		condition{"abandoned calls", "once a caller has left, the provider's call ends too, and no other one begins", true, abandoned},
		condition{"caller's deadline", "an error in time, with the deadline in its chain", true, deadlineOfCaller},
		condition{"oversized input", "it goes to the larger window, or is refused before anything is sent", false, oversized},
		condition{"refusal", "it is an answer: nobody else is asked and nothing rests", false, refusal},
	)
}

// prove tries the condition, in fake time if time matters.
func (c condition) prove(t *testing.T, build func(*Staging) (Promises, error)) (row Row, err error) {
	p := &proving{build: build, fake: c.timed}
	if !c.timed {
		return p.prove(t.Context(), c)
	}
	defer func() {
		if v := recover(); v != nil && !p.hangs { // what hangs stays in the bubble, which minds
			panic(v)
		}
	}()
	synctest.Test(t, func(t *testing.T) { row, err = p.prove(t.Context(), c) })
	return row, err
}

func (p *proving) prove(ctx context.Context, c condition) (Row, error) {
	if err := ctx.Err(); err != nil {
		return Row{}, context.Cause(ctx)
	}
	p.ctx, p.names = ctx, map[string]string{}
	began := time.Now()
	err := p.fresh()
	if err == nil {
		err = p.try(c)
	}
	p.unused()
	p.close()
	if ctx.Err() != nil { // what was seen may be because of that
		err = context.Cause(ctx)
	}
	if err != nil {
		return Row{}, fmt.Errorf("%s: %w", c.name, err)
	}
	row := Row{
		Condition: c.name, Expected: c.expected, Took: time.Since(began), Fake: p.fake,
		Observed: strings.Join(p.seen, "; "), Wrong: p.complaints(),
	}
	switch {
	case len(row.Wrong) > 0:
		row.Verdict = Failed
	case p.unclaimed != "":
		row.Verdict, row.Observed = NotClaimed, p.unclaimed
	}
	return row, nil
}

// try tries the condition until it is over or the chain hangs.
func (p *proving) try(c condition) (err error) {
	defer func() {
		if v := recover(); v != nil && v != any(errHangs) {
			panic(v)
		}
	}()
	return c.run(p)
}
