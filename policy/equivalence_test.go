package policy_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/policy"
)

// equal is a card with a contract, and routes that satisfy it. Bubbles of synctest begin in the year 2000.
const equal = `workflow: w
retry: {max: 0}
allowed_fallbacks: [{route: b, reasons: [provider_overload, unusable_output]}]
contract:
  input: {window_tokens: 1000, images: true, locales: [en, de]}
  output:
    json_schema:
      type: object
      properties: {answer: {type: string, maxLength: 50}}
      required: [answer]
    finish_reasons: [end]
  data: {max_retention_days: 0, regions: [eu]}
  economics: {max_input_usd_per_million: 3.5, max_output_usd_per_million: 10}
  quality: {suite: support, min_score: 0.8, max_age_days: 90}
---
routes:
  a: {provider: script, model: a}
  b:
    provider: script
    model: b
    window: 2000
    price: {input: 1, output: 2}
    capabilities: [images, schema]
    declares:
      input: {locales: [en, de]}
      output: {finish_reasons: [end, length]}
      data: {retention_days: 0, regions: [eu]}
      evaluations: [{suite: support, score: 0.9, date: 1999-12-01}]
    approvals:
      - {workflow: w, reasons: [provider_overload, unusable_output], by: ada, until: 2000-02-01}
`

// satisfied loads a policy in a bubble, where it is the year 2000.
func satisfied(t *testing.T, text string, test func(t *testing.T, s *policy.Set, a, b *llmtest.Model)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := llmtest.Script(llmtest.Text(`{"reply": "no"}`))
		b := llmtest.Script(llmtest.Text(`{"answer": "yes"}`))
		test(t, load(t, text, map[string]llm.Caller{"a": a, "b": b}), a, b)
	})
}

func TestAnAnswerThatBreaksTheContractIsNoSuccess(t *testing.T) {
	satisfied(t, equal, func(t *testing.T, s *policy.Set, a, b *llmtest.Model) {
		resp, err := call(t, s, "w")
		if err != nil || resp.Text() != `{"answer": "yes"}` || a.Count() != 1 || b.Count() != 1 {
			t.Errorf("got %q, %v after %d and %d calls", resp.Text(), err, a.Count(), b.Count())
		}
	})
	lacking := strings.Replace(equal, "required: [answer]", "required: [answer, ticket]", 1)
	satisfied(t, lacking, func(t *testing.T, s *policy.Set, _, b *llmtest.Model) {
		if _, err := call(t, s, "w"); !errors.Is(err, llm.BadOutput) || b.Count() != 1 {
			t.Errorf("the answer of the fallback lacks a field: %v after %d calls", err, b.Count())
		}
	})
}

func TestAStreamThatIsHeldBackIsCheckedBeforeItIsSeen(t *testing.T) {
	satisfied(t, strings.Replace(equal, "retry:", "stream: {whole: true}\nretry:", 1), func(t *testing.T, s *policy.Set, _, _ *llmtest.Model) {
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
		if _, err := chat.Call(t.Context(), req); err != nil || seen.String() != `{"answer": "yes"}` {
			t.Errorf("the reader saw %q, %v", seen.String(), err)
		}
	})
}

func TestTimeTakesARouteFromAWorkflow(t *testing.T) {
	satisfied(t, equal, func(t *testing.T, s *policy.Set, _, b *llmtest.Model) {
		month := time.Date(2000, 2, 1, 0, 0, 0, 0, time.UTC)
		if got := s.Expired(time.Now()); len(got) != 0 {
			t.Errorf("too early: %v", got)
		}
		soon := s.Expired(month)
		const ended = `satisfied the contract of "w" until 2000-02-01: approval.reasons: an approval for "w" by reason of ` +
			`"provider_overload"; approval.reasons: an approval for "w" by reason of "unusable_output"; have it approved again`
		if len(soon) != 1 || soon[0].Line != 3 || !strings.Contains(soon[0].Error(), `the route "b" `+ended) {
			t.Errorf("got %v", soon)
		}
		llmtest.Advance(time.Until(month))
		_, err := call(t, s, "w")
		if !errors.Is(err, llm.BadOutput) || b.Count() != 0 || !strings.Contains(err.Error(), "until 2000-02-01") {
			t.Errorf("the approval has ended: %v after %d calls", err, b.Count())
		}
		rows := llm.AsError(err).Attempts
		if len(rows) != 2 || rows[1].Deployment != "b" || rows[1].Index != 0 || !strings.Contains(rows[1].Skipped, "until 2000-02-01") {
			t.Errorf("the account does not say why b was not called: %+v", rows)
		}
		if err := s.Reload(); err != nil || len(s.Expired(time.Now())) != 1 {
			t.Errorf("a card whose approval has ended is a good card: %v", err)
		}
	})
}

// An approval that has ended keeps a route from the roles to which no fallback moves: the long context, and the continuation of
// an answer that broke off, whether answers are checked or not.
func TestTimeTakesARouteFromEveryRole(t *testing.T) {
	const routes = `
---
routes:
  a: {provider: script, model: a, window: 100}
  b:
    provider: script
    model: b
    window: 1000
    capabilities: [text, stream, prefill, json]
    approvals: [{workflow: w, reasons: [context_overflow, interrupted_stream], by: ada, until: 2000-02-01}]
`
	const continues = "workflow: w\nretry: {max: 0}\nallowed_fallbacks: [{route: b, reasons: [interrupted_stream]}]\n" +
		"stream: {on_interrupt: continue}\n"
	broken := llmtest.Step{Deltas: []llm.Delta{{Text: `{"ans`}}, Err: &llm.Error{Class: llm.Interrupted}}
	for name, test := range map[string]struct {
		card, question, rest string
	}{
		"long context":               {"workflow: w\nlong_context: b\ncontract: {}", strings.Repeat("word ", 200), "long"},
		"continuation":               {continues + "contract: {}", "hi", `wer": "x"}`},
		"continuation of a contract": {continues + "contract: {output: {required_fields: [answer]}}", "hi", `wer": "x"}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := llmtest.Script(broken), llmtest.Script(llmtest.Text(test.rest))
			s := load(t, test.card+routes, map[string]llm.Caller{"a": a, "b": b})
			chat, err := s.Caller("w")
			if err != nil {
				t.Fatal(err)
			}
			ask := func() error {
				_, err := chat.Call(t.Context(), &llm.Request{
					Messages: []llm.Message{llm.User(test.question)}, Sink: func(llm.Delta) error { return nil },
				})
				return err
			}
			if err := ask(); err != nil || b.Count() != 1 {
				t.Errorf("%s: approved, and got %v after %d calls", name, err, b.Count())
			}
			llmtest.Advance(time.Until(time.Date(2000, 2, 1, 0, 0, 0, 0, time.UTC)))
			err = ask()
			if err == nil || b.Count() != 1 {
				t.Fatalf("%s: the approval has ended, and got %v after %d calls", name, err, b.Count())
			}
			rows := llm.AsError(err).Attempts
			if last := rows[len(rows)-1]; last.Deployment != "b" || !strings.Contains(last.Skipped, "until 2000-02-01") {
				t.Errorf("%s: the account does not say why b was not called: %+v", name, rows)
			}
		})
	}
}

func TestAStandInThatDoesNotSatisfyIsRefused(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"window", "window: 2000", "window: 999", `policy.yaml:3:29: the route "b" does not satisfy the contract: input.window_tokens: the workflow demands at least 1000 tokens, the route states 999`},
		{"not stated", "retention_days: 0, regions: [eu]}\n      eval", "regions: [eu]}\n      eval", `data.max_retention_days: the workflow demands at most 0 days, the route states nothing`},
		{"region", "regions: [eu]}\n      eval", "regions: [eu, us]}\n      eval", `data.regions`},
		{"price", "input: 1,", "input: 4,", `economics.max_input_usd_per_million`},
		{"score", "score: 0.9", "score: 0.7", `quality.score: the workflow demands at least 0.8, the route states 0.7`},
		{"no approval", "workflow: w, reasons: [provider_overload, unusable_output]", "workflow: v, reasons: [provider_overload, unusable_output]", `policy.yaml:30:20: there is no workflow "v"`},
		{"no approval at all", "    approvals:\n      - {workflow: w, reasons: [provider_overload, unusable_output], by: ada, until: 2000-02-01}\n", "", `approval.workflow`},
		{"not for this reason", "reasons: [provider_overload, unusable_output], by", "reasons: [provider_overload], by", `approval.reasons`},
		{"approval without an end", ", until: 2000-02-01", "", `policy.yaml:30:9: approvals.0 is not whole; give workflow, reasons, by and until`},
		{"no moment", "until: 2000-02-01", "until: soon", `until is the text "soon", not a moment; write a date as 2026-12-31`},
		{"a word", "locales: [en, de]}\n      output", "locals: [en]}\n      output", `unknown key "locals"; did you mean "locales"?`},
		{"declared otherwise", "locales: [en, de]}\n      output", "locales: [en, de], window_tokens: 5000}\n      output", `input.window_tokens is stated as 5000, and the deployment "b" has 2000`},
		{"what cannot be meant", "finish_reasons: [end]", "finish_reasons: [ended]", `policy.yaml:11:21: output.finish_reasons is "ended"; use one of`},
		{"a schema that is none", "type: object", "type: objet", `policy.yaml:8:7: the schema of answers cannot be used`},
		{"a schema that is not there", "json_schema:\n      type: object\n      properties: {answer: {type: string, maxLength: 50}}\n      required: [answer]", "json_schema_file: answer.json", `the schema of answers cannot be used`},
		{"an approval in the card", "  quality:", "  approval: {workflow: w}\n  quality:", `policy.yaml:14:13: the workflow and the reasons of approvals are those of the card; remove it`},
		{"the primary declares and does not satisfy", "a: {provider: script, model: a}", "a: {provider: script, model: a, declares: {data: {regions: [us]}}}", `the route "a" does not satisfy the contract: data.regions`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				text := strings.Replace(equal, c.old, c.new, 1)
				if text == equal {
					t.Fatal("nothing was replaced")
				}
				path := filepath.Join(write(t, map[string]string{"policy.yaml": text}), "policy.yaml")
				m := llmtest.Script(llmtest.Text("hi"))
				_, err := policy.Load(path, scripted(map[string]llm.Caller{"a": m, "b": m}))
				if _, ok := errors.AsType[policy.Errors](err); !ok || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v\nwant %s", err, c.want)
				}
			})
		})
	}
}

func TestTheFileOfASchemaIsPartOfThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const inline = "json_schema:\n      type: object\n      properties: {answer: {type: string, maxLength: 50}}\n      required: [answer]"
		text := strings.Replace(equal, inline, "json_schema_file: answer.json", 1)
		dir := write(t, map[string]string{"policy.yaml": text, "answer.json": `{"type": "object", "required": ["answer"]}`})
		m := llmtest.Script(llmtest.Text(`{"answer": "yes"}`))
		s, err := policy.Load(filepath.Join(dir, "policy.yaml"), scripted(map[string]llm.Caller{"a": m, "b": m}))
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan error, 1)
		go func() { _ = s.Watch(t.Context(), time.Second, func(err error) { told <- err }) }()
		if _, err := call(t, s, "w"); err != nil {
			t.Error(err)
		}
		llmtest.Advance(3 * time.Second)
		if len(told) > 0 {
			t.Error("nothing has changed, and the policy was reloaded")
		}
		put(t, filepath.Join(dir, "answer.json"), `{"type": "object", "required": ["ticket"]}`)
		if err := <-told; err != nil {
			t.Error(err)
		}
		if _, err := call(t, s, "w"); !errors.Is(err, llm.BadOutput) {
			t.Errorf("the schema has changed: %v", err)
		}
		if err := os.Remove(filepath.Join(dir, "answer.json")); err != nil {
			t.Fatal(err)
		}
		if err := <-told; err == nil {
			t.Error("there is no schema any more, and nobody was told")
		}
		put(t, filepath.Join(dir, "answer.json"), `{"type": "object"}`)
		if err := <-told; err != nil {
			t.Error(err)
		}
	})
}
