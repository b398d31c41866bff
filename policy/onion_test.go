package policy_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/policy"
)

// supportAnswer is the minimal card written in Go.
//
// region: onion
func supportAnswer(primary, backup *llm.Deployment, logger *slog.Logger) llm.Caller {
	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{})
	perRoute := llm.New(
		cooldowns.Stage(),
		middleware.Retry(middleware.RetryConfig{}),
		middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{}),
		middleware.Classify(middleware.ClassifyConfig{Logger: logger}),
	)
	return llm.New(
		middleware.Telemetry(middleware.TelemetryConfig{Route: "support-answer", Cooldowns: cooldowns, Logger: logger}),
		middleware.EachBudget(middleware.BudgetConfig{Attempts: 3, CostUSD: 0.02}),
		middleware.Deadline(middleware.DeadlineConfig{Total: 9 * time.Second}),
	).Then(middleware.Fallback(middleware.FallbackConfig{},
		perRoute.Then(primary),
		middleware.Route{
			Caller: perRoute.Then(backup),
			For:    []llm.Class{llm.Overloaded, llm.Unavailable, llm.Timeout, llm.Stalled},
		},
	))
}

// endregion

// inGo is the onion of loopback, written in Go.
func inGo(primary, backup *provider) llm.Caller {
	return supportAnswer(
		&llm.Deployment{
			Name: "support-primary", Provider: "openai", Model: "gpt-4o-mini", Price: llm.Price{Input: 0.15, Output: 0.6},
			Caller: openai.New(openai.Config{BaseURL: primary.URL, APIKey: primaryKey}),
		},
		&llm.Deployment{
			Name: "approved-support-backup", Provider: "mistral", Model: "mistral-small", Price: llm.Price{Input: 0.1, Output: 0.3},
			Caller: openai.New(openai.Config{Provider: "mistral", BaseURL: backup.URL, APIKey: backupKey}),
		},
		slog.New(slog.DiscardHandler),
	)
}

func TestTheCardAndTheGoCodeDescribeTheSameOnion(t *testing.T) {
	primary, backup := serve(t, "hi"), serve(t, "hi")
	s, _ := loopback(t, primary, backup)
	card, code := s.Describe("support-answer").String(), llm.Describe(inGo(primary, backup)).String()
	if card != code {
		t.Errorf("the card made\n%s\nand Go\n%s", card, code)
	}
	chat, err := s.Caller("support-answer")
	if err != nil {
		t.Fatal(err)
	}
	if got := llm.Describe(chat).String(); got != card {
		t.Errorf("the Caller describes itself as\n%s", got)
	}
}

func TestTheCardAndTheGoCodeBehaveTheSame(t *testing.T) {
	for _, c := range []struct {
		name            string
		primary, backup []string
	}{
		{"answered", []string{"hi"}, []string{"other"}},
		{"unavailable once", []string{"503", "hi"}, []string{"other"}},
		{"unavailable", []string{"503"}, []string{"other"}},
		{"unavailable everywhere", []string{"503"}, []string{"503"}},
		{"paced", []string{"429"}, []string{"other"}},
		{"quota", []string{"429 quota"}, []string{"other"}},
		{"auth", []string{"401"}, []string{"other"}},
		{"invalid", []string{"400"}, []string{"other"}},
		{"not found", []string{"404"}, []string{"other"}},
		{"unavailable, then the quota of the fallback", []string{"503"}, []string{"429 quota"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			do := func(card bool) (answer string, class llm.Class, attempts []string) {
				primary, backup := serve(t, c.primary...), serve(t, c.backup...)
				chat := inGo(primary, backup)
				if card {
					s, _ := loopback(t, primary, backup)
					var err error
					if chat, err = s.Caller("support-answer"); err != nil {
						t.Fatal(err)
					}
				}
				resp, err := chat.Call(t.Context(), hello())
				var rows []llm.Attempt
				if err != nil {
					e, _ := errors.AsType[*llm.Error](err)
					class, rows = e.Class, e.Attempts
				} else {
					answer, rows = resp.Text(), resp.Attempts
				}
				for i := range rows {
					attempts = append(attempts, rows[i].Deployment+" "+rows[i].Class.String()+" "+strings.TrimRight(rows[i].Skipped, "0123456789.µms "))
				}
				return answer, class, attempts
			}
			a1, c1, r1 := do(true)
			a2, c2, r2 := do(false)
			if a1 != a2 || c1 != c2 || strings.Join(r1, "\n") != strings.Join(r2, "\n") {
				t.Errorf("the card led to %q %v\n%s\nand Go to %q %v\n%s", a1, c1, strings.Join(r1, "\n"), a2, c2, strings.Join(r2, "\n"))
			}
		})
	}
}

// A shelf is a queue that keeps its work.
type shelf struct{ jobs []*middleware.Job }

func (s *shelf) Enqueue(_ context.Context, job *middleware.Job) (*middleware.Receipt, error) {
	s.jobs = append(s.jobs, job)
	return &middleware.Receipt{ID: "1", Workflow: job.Workflow, NotBefore: job.NotBefore}, nil
}

// withQueue are options for the full card.
func withQueue(models map[string]llm.Caller) policy.Options {
	o := scripted(models)
	o.Queue = &shelf{}
	return o
}

func TestEveryKeyOfACardIsInItsOnion(t *testing.T) {
	const golden = "testdata/full.txt"
	dir := write(t, map[string]string{"full.yaml": full})
	s, err := policy.Load(dir, withQueue(map[string]llm.Caller{"second": llmtest.Script(llmtest.Text("hi"))}))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, name := range s.Workflows() {
		b.WriteString(s.Describe(name).String() + "\n\n")
	}
	if *update {
		put(t, golden, b.String())
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// load is a policy of one file with models of the provider "script".
func load(t *testing.T, file string, models map[string]llm.Caller) *policy.Set {
	t.Helper()
	s, err := policy.Load(filepath.Join(write(t, map[string]string{"policy.yaml": file}), "policy.yaml"), withQueue(models))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const twoRoutes = `
---
routes:
  a: {provider: script, model: a, window: 100, price: {free: true}}
  b: {provider: script, model: b, window: 1000, price: {free: true}}
`

func TestWhatAReasonWordApproves(t *testing.T) {
	for _, w := range policy.Words() {
		if !w.Fallback {
			continue
		}
		for _, class := range w.Classes {
			switch class {
			case llm.Cooling, llm.Exhausted: // not failures of a provider
				continue
			}
			for _, named := range []bool{true, false} {
				reason := w.Word
				if !named {
					reason = "circuit_open"
				}
				a, b := llmtest.Script(llmtest.Fail(&llm.Error{Class: class})), llmtest.Script(llmtest.Text("from b"))
				s := load(t, "workflow: w\nretry: {max: 0}\nallowed_fallbacks: [{route: b, reasons: ["+reason+"]}]"+twoRoutes,
					map[string]llm.Caller{"a": a, "b": b})
				resp, err := call(t, s, "w")
				if named != (err == nil && resp.Text() == "from b") {
					t.Errorf("%s, with the reason %s: %v, %v", class, reason, resp.Text(), err)
				}
			}
		}
	}
}

func TestWhatFailsClosed(t *testing.T) {
	for _, w := range policy.Words() {
		for _, class := range w.Classes {
			switch class {
			case llm.Cooling, llm.Exhausted:
				continue
			}
			a := llmtest.Script(llmtest.Fail(&llm.Error{Class: class}))
			s := load(t, "workflow: w\nretry: {base_ms: 1}\ndegrade: {answer: later}\nfail_closed_on: ["+w.Word+"]"+twoRoutes,
				map[string]llm.Caller{"a": a, "b": a})
			resp, err := call(t, s, "w")
			if !errors.Is(err, class) || a.Count() != 1 {
				t.Errorf("%s fails closed: %q, %v after %d calls", w.Word, resp.Text(), err, a.Count())
			}
		}
	}
}

func TestAStandInSaysWhenToComeBack(t *testing.T) {
	a := llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.RateLimited, RetryAfter: 2 * time.Minute}))
	s := load(t, "workflow: w\ndegrade: {answer: 'later, in {{wait}}', for: [rate_limit]}"+twoRoutes, map[string]llm.Caller{"a": a})
	resp, err := call(t, s, "w")
	if err != nil || resp.Text() != "later, in 2m0s" || !resp.Degraded {
		t.Errorf("got %+v, %v", resp, err)
	}
	b := llmtest.Script(llmtest.Fail(llm.NotFound))
	s = load(t, "workflow: w\ndegrade: {answer: later, for: [rate_limit]}"+twoRoutes, map[string]llm.Caller{"a": b})
	if resp, err := call(t, s, "w"); !errors.Is(err, llm.NotFound) {
		t.Errorf("got %+v, %v", resp, err)
	}
}

func TestWhatIsTooLongGoesToLongContext(t *testing.T) {
	a, b := llmtest.Script(llmtest.Text("from a")), llmtest.Script(llmtest.Text("from b"))
	s := load(t, "workflow: w\nlong_context: b"+twoRoutes, map[string]llm.Caller{"a": a, "b": b})
	chat, err := s.Caller("w")
	if err != nil {
		t.Fatal(err)
	}
	for words, want := range map[int]string{10: "from a", 200: "from b"} {
		req := &llm.Request{Messages: []llm.Message{llm.User(strings.Repeat("word ", words))}}
		if resp, err := chat.Call(t.Context(), req); err != nil || resp.Text() != want {
			t.Errorf("%d words: %q, %v", words, resp.Text(), err)
		}
	}
}

func TestWhatMayHaveActedIsNotSentAgain(t *testing.T) {
	for until, calls := range map[string]int{"first_visible_token": 2, "request_sent": 1} {
		a := llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.Unavailable, Commit: llm.CommitUnknown}), llmtest.Text("hi"))
		s := load(t, "workflow: w\nretry: {base_ms: 1}\nreplay_safe_until: "+until+twoRoutes, map[string]llm.Caller{"a": a})
		req := hello()
		chat, err := s.Caller("w")
		if err != nil {
			t.Fatal(err)
		}
		_, err = chat.Call(t.Context(), req)
		if a.Count() != calls || (err == nil) != (calls == 2) || req.ReplayUnsafe {
			t.Errorf("%s: %d calls, %v", until, a.Count(), err)
		}
	}
}

func TestARouteOfAnUnknownPriceIsNeverCalledForMoney(t *testing.T) {
	// The check is Load's; that a free one is called when the money is spent is the budget's.
	a, b := llmtest.Script(llmtest.Text("paid")), llmtest.Script(llmtest.Text("free"))
	s := load(t, `workflow: w
max_incremental_cost_usd: 0.000001
allowed_fallbacks: [{route: b, reasons: [budget_exhausted]}]
---
routes:
  a: {provider: script, model: a, price: {input: 5, output: 5}}
  b: {provider: script, model: b, price: {free: true}}
`, map[string]llm.Caller{"a": a, "b": b})
	resp, err := call(t, s, "w")
	if err != nil || resp.Text() != "free" || a.Count() != 0 {
		t.Errorf("got %q, %v", resp.Text(), err)
	}
}

func TestWorkThatMayWaitIsQueued(t *testing.T) {
	for after, queued := range map[string]bool{"0": true, "60000": true, "60001": false, "null": false} {
		a := llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.Quota, RetryAfter: time.Minute}))
		o, s := scripted(map[string]llm.Caller{"a": a}), &shelf{}
		o.Queue = s
		l := goLive(t, o, "workflow: w\nqueue_after_ms: "+after+twoRoutes)
		_, err := call(t, l.Set, "w")
		if queued != (llm.ClassOf(err) == llm.Queued) || queued != (len(s.jobs) == 1) || queued && s.jobs[0].Workflow != "w" {
			t.Errorf("queue_after_ms: %s: %v, %d jobs", after, err, len(s.jobs))
		}
	}
}

func TestWhatFailsClosedStillRests(t *testing.T) {
	a := llmtest.Script(unavailable(), llmtest.Text("hi"))
	s := load(t, "workflow: w\nfail_closed_on: [provider_unavailable]\ncooldown: {patience_ms: 1}"+twoRoutes, map[string]llm.Caller{"a": a})
	_, first := call(t, s, "w")
	_, second := call(t, s, "w")
	if !errors.Is(first, llm.Unavailable) || !errors.Is(second, llm.Cooling) || a.Count() != 1 {
		t.Errorf("got %v, then %v", first, second)
	}
}

func TestOnlyAnApprovedRouteContinuesABrokenAnswer(t *testing.T) {
	broken := llmtest.Script(llmtest.Step{
		Deltas: []llm.Delta{{Kind: llm.DeltaText, Text: "It is a circuit"}}, Err: &llm.Error{Class: llm.Interrupted},
	})
	for reason, want := range map[string]string{"interrupted_stream": "It is a circuit breaker.", "quota": "It is a circuit"} {
		rest := llmtest.Script(llmtest.Text(" breaker."))
		s := load(t, `workflow: w
allowed_fallbacks: [{route: b, reasons: [`+reason+`]}, {route: c, reasons: [interrupted_stream]}]
stream: {on_interrupt: continue}
---
routes:
  a: {provider: script, model: a}
  b: {provider: script, model: b, capabilities: [text, stream, prefill]}
  c: {provider: script, model: c, capabilities: [text, stream, prefill], price: {free: true}}
`, map[string]llm.Caller{"a": broken, "b": rest, "c": llmtest.Script(llmtest.Fail(llm.Unavailable))})
		chat, err := s.Caller("w")
		if err != nil {
			t.Fatal(err)
		}
		var seen strings.Builder
		req := hello()
		req.Sink = func(d llm.Delta) error {
			seen.WriteString(d.Text)
			return nil
		}
		_, err = chat.Call(t.Context(), req)
		if seen.String() != want || (err == nil) != (reason == "interrupted_stream") {
			t.Errorf("%s: the reader saw %q, %v", reason, seen.String(), err)
		}
	}
}
