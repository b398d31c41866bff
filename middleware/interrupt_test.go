package middleware_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// cut is a step that says the words and breaks off.
func cut(says ...string) llmtest.Step {
	s := llmtest.Step{Err: &llm.Error{Class: llm.Unavailable, Message: "connection reset", Usage: llm.Usage{Input: 10, Output: 3}}}
	for _, text := range says {
		s.Deltas = append(s.Deltas, llm.Delta{Text: text})
	}
	return s
}

func says(pieces ...string) llmtest.Step {
	s := llmtest.Step{Response: &llm.Response{
		Parts: []llm.Part{llm.Text(strings.Join(pieces, ""))}, Stop: llm.StopEnd, Usage: llm.Usage{Input: 20, Output: 5},
	}}
	for _, text := range pieces {
		s.Deltas = append(s.Deltas, llm.Delta{Text: text})
	}
	return s
}

func prefill(name string, model llm.Caller) *llm.Deployment {
	return &llm.Deployment{Name: name, Provider: "test", Model: "m-" + name, Has: llm.CanText | llm.CanStream | llm.CanPrefill, Caller: model}
}

func interrupted(cfg middleware.InterruptConfig, model llm.Caller) *llm.Pipeline {
	return llm.New(middleware.Interrupt(cfg)).Then(&llm.Deployment{Name: "p", Provider: "test", Model: "m-p", Caller: model})
}

func TestInterruptTellsWhatWasHandedOutAndWhatItCost(t *testing.T) {
	for name, test := range map[string]struct {
		step    llmtest.Step
		text    string
		calls   int
		usage   llm.Usage
		isEmpty bool
	}{
		"text": {cut("Hello ", "wor"), "Hello wor", 0, llm.Usage{Input: 10, Output: 3}, false},
		"a tool call that is not complete": {llmtest.Step{Err: llm.Unavailable, Deltas: []llm.Delta{
			{Text: "Look: "}, {Kind: llm.DeltaToolCall, Call: &llm.ToolCallDelta{ID: "1", Name: "f", Arguments: `{"a":`}},
		}}, "Look: ", 0, llm.Usage{Output: 2, Estimated: true}, false},
		"a tool call that is complete": {llmtest.Step{Err: llm.Unavailable, Deltas: []llm.Delta{
			{Kind: llm.DeltaToolCall, Call: &llm.ToolCallDelta{ID: "1", Name: "f", Arguments: `{"a":1}`}},
		}}, "", 1, llm.Usage{Estimated: true}, false},
	} {
		r := &reader{}
		_, err := interrupted(middleware.InterruptConfig{}, llmtest.Script(test.step)).Call(t.Context(), r.ask())
		e := llm.AsError(err)
		if e.Class != llm.Interrupted || !errors.Is(err, llm.Unavailable) || e.Deployment != "p" || e.Commit != llm.Committed {
			t.Errorf("%s: %v", name, err)
		}
		if e.Partial.Text() != test.text || len(e.Partial.ToolCalls()) != test.calls || e.Usage != test.usage || r.n != len(test.step.Deltas) {
			t.Errorf("%s: partial %+v, usage %+v, after %d deltas", name, e.Partial, e.Usage, r.n)
		}
	}
}

func TestInterruptSendsANoticeThatIsNoPartOfTheAnswer(t *testing.T) {
	var got []llm.Delta
	req := retryAsk()
	req.Sink = func(d llm.Delta) error { got = append(got, d); return nil }
	_, err := interrupted(middleware.InterruptConfig{Notice: "[the answer broke off]"}, llmtest.Script(cut("Hel"))).Call(t.Context(), req)
	if !errors.Is(err, llm.Interrupted) || llm.AsError(err).Partial.Text() != "Hel" {
		t.Errorf("%v", err)
	}
	if len(got) != 2 || got[1].Kind != llm.DeltaNotice || got[1].Text != "[the answer broke off]" || got[1].Kind.String() != "notice" {
		t.Errorf("%+v", got)
	}
	got = nil
	_, err = interrupted(middleware.InterruptConfig{Notice: "x"}, llmtest.Script(llmtest.Fail(llm.Unavailable))).Call(t.Context(), req)
	if len(got) != 0 || !errors.Is(err, llm.Unavailable) {
		t.Errorf("a failure before the first delta: %v, %v", got, err)
	}
}

const rowOfZeros = "| 0 | 0 | 0 | 0 | 0 | 0 |\n"

func TestInterruptContinuesFromTheExactText(t *testing.T) {
	for name, test := range map[string]struct {
		first     []string
		more      []string
		whole     string
		reasoning bool
	}{
		"the rest alone":                    {[]string{"The quick ", "brown"}, []string{" fox", " jumps."}, "The quick brown fox jumps.", false},
		"in the middle of a word":           {[]string{"The qui"}, []string{"ck brown fox."}, "The quick brown fox.", false},
		"space at the end, which comes":     {[]string{"The quick "}, []string{" brown"}, "The quick brown", false},
		"space at the end, which does not":  {[]string{"The quick "}, []string{"brown"}, "The quick brown", false},
		"some of the space comes":           {[]string{"One.\n\n"}, []string{"\n", "\nTwo."}, "One.\n\nTwo.", false},
		"less of the space comes":           {[]string{"One.\n\n"}, []string{"\n", "Two."}, "One.\n\nTwo.", false},
		"all of it again":                   {[]string{"It was a dark and ", "stormy night"}, []string{"It was a ", "dark and stormy night", "; the rain fell."}, "It was a dark and stormy night; the rain fell.", false},
		"all of it again, with other space": {[]string{"It was a dark and stormy "}, []string{"It was a dark and stormy", " night."}, "It was a dark and stormy night.", false},
		"its last sentence again":           {[]string{"Rain. It was a dark and stormy night"}, []string{"It was a dark", " and stormy night; so."}, "Rain. It was a dark and stormy night; so.", false},
		"a word again, which may be meant":  {[]string{"It was very"}, []string{" very good, very"}, "It was very very good, very", false},
		"a beginning like the text's":       {[]string{"Ha ha"}, []string{"Ha", "!"}, "Ha haHa!", false},
		"a sign again, which is meant":      {[]string{"*"}, []string{"*bold** words"}, "**bold** words", false},
		"a fence":                           {[]string{"`"}, []string{"``", "json"}, "```json", false},
		"a number":                          {[]string{"1"}, []string{"10 apples"}, "110 apples", false},
		"rows that are all the same":        {[]string{"Rows:\n", rowOfZeros, rowOfZeros}, []string{rowOfZeros, rowOfZeros + "Done."}, "Rows:\n" + strings.Repeat(rowOfZeros, 4) + "Done.", false},
		"four words again":                  {[]string{"The quick brown fox jumps over the lazy"}, []string{"jumps over", " the lazy dog."}, "The quick brown fox jumps over the lazy dog.", false},
		"a line feed alone":                 {[]string{"x = 1"}, []string{"\n"}, "x = 1\n", false},
		"nothing more":                      {[]string{"The end."}, nil, "The end.", false},
		"after reasoning":                   {[]string{"The quick "}, []string{"brown"}, "The quick brown", true},
	} {
		t.Run(name, func(t *testing.T) {
			step := cut(test.first...)
			if test.reasoning {
				step.Deltas = append([]llm.Delta{{Kind: llm.DeltaReasoning, Text: "hm"}}, step.Deltas...)
			}
			next := says(test.more...)
			next.Response.Parts = append(next.Response.Parts, llm.Part{Kind: "citation", Name: "kept"})
			other, r := llmtest.Script(next), &reader{}
			chat := interrupted(middleware.InterruptConfig{Continue: []llm.Caller{prefill("f", other)}, Notice: "never said"}, llmtest.Script(step))
			resp, err := chat.Call(t.Context(), r.ask())
			if err != nil {
				t.Fatal(err)
			}
			if test.reasoning {
				r.text = strings.TrimPrefix(r.text, "hm")
			}
			if r.text != test.whole || resp.Text() != test.whole {
				t.Errorf("the reader has %q, the answer is %q, want %q", r.text, resp.Text(), test.whole)
			}
			if !resp.Continued || resp.Deployment != "f" || resp.Stop != llm.StopEnd || resp.Calls() != 2 ||
				resp.Usage != (llm.Usage{Input: 30, Output: 8}) || resp.Parts[len(resp.Parts)-1].Name != "kept" {
				t.Errorf("%+v", resp)
			}
			asked := other.Calls()[0].Request.Messages
			if last := asked[len(asked)-1]; last.Role != llm.RoleAssistant || last.Parts[0].Text != strings.Join(test.first, "") || len(asked) != 2 {
				t.Errorf("it was asked to go on with %+v", asked)
			}
		})
	}
}

func TestInterruptContinuesTheCallersOwnBeginning(t *testing.T) {
	other := llmtest.Script(says(`1}`))
	req := (&reader{}).ask()
	req.Messages = append(req.Messages, llm.Assistant("{"))
	chat := llm.New(middleware.Interrupt(middleware.InterruptConfig{Continue: []llm.Caller{prefill("f", other)}})).
		Then(prefill("p", llmtest.Script(cut(`"a":`))))
	resp, err := chat.Call(t.Context(), req)
	if err != nil || resp.Text() != `"a":1}` {
		t.Errorf("%v, %v", resp, err)
	}
	if asked := other.Calls()[0].Request.Messages; len(asked) != 2 || asked[1].Parts[0].Text != `{"a":` || req.Messages[1].Parts[0].Text != "{" {
		t.Errorf("it was asked to go on with %+v", asked)
	}
}

func TestInterruptDoesNotContinue(t *testing.T) {
	tool := llm.Delta{Kind: llm.DeltaToolCall, Call: &llm.ToolCallDelta{ID: "1", Name: "f", Arguments: `{"a":1}`}}
	text, broken := llm.Delta{Text: "Hello"}, llm.Unavailable
	for name, test := range map[string]struct {
		step   llmtest.Step
		has    llm.Capabilities
		change func(*llm.Request)
	}{
		"where nothing is declared":   {step: cut("Hello")},
		"where it is not declared":    {step: cut("Hello"), has: llm.CanText | llm.CanStream},
		"within a tool call":          {step: llmtest.Step{Deltas: []llm.Delta{text, tool}, Err: broken}, has: llm.CanPrefill | llm.CanStream},
		"after a refusal":             {step: llmtest.Step{Deltas: []llm.Delta{text, {Kind: llm.DeltaRefusal, Text: "no"}}, Err: broken}, has: llm.CanPrefill | llm.CanStream},
		"before the first word":       {step: llmtest.Step{Deltas: []llm.Delta{{Kind: llm.DeltaReasoning, Text: "hm"}, {Text: " "}}, Err: broken}, has: llm.CanPrefill | llm.CanStream},
		"what may have acted":         {step: cut("Hello"), has: llm.CanPrefill | llm.CanStream, change: func(r *llm.Request) { r.ReplayUnsafe = true }},
		"without attempts left":       {step: cut("Hello"), has: llm.CanPrefill | llm.CanStream, change: func(r *llm.Request) { r.MaxAttempts = 1 }},
		"a refused answer, half told": {step: llmtest.Step{Deltas: []llm.Delta{text}, Err: llm.Refused}, has: llm.CanPrefill | llm.CanStream},
	} {
		t.Run(name, func(t *testing.T) {
			other, r := llmtest.Script(says("!")), &reader{}
			chat := interrupted(middleware.InterruptConfig{Continue: []llm.Caller{
				&llm.Deployment{Name: "f", Has: test.has, Caller: other},
			}}, llmtest.Script(test.step))
			req := r.ask()
			if test.change != nil {
				test.change(req)
			}
			_, err := chat.Call(t.Context(), req)
			e := llm.AsError(err)
			if e.Class != llm.Interrupted && e.Class != llm.Refused || e.Deployment != "p" || other.Count() != 0 || r.n != len(test.step.Deltas) {
				t.Errorf("%v after %d calls of the other and %d deltas", err, other.Count(), r.n)
			}
		})
	}
}

func TestInterruptNeverBlamesAContinuation(t *testing.T) {
	for name, failure := range map[string]error{
		"a refused prefix": status(llm.Invalid, 400, "the conversation must end with a user message"),
		"an outage":        llm.Unavailable,
		"a rest":           llm.Cooling,
		"a failed check":   llm.BadOutput,
	} {
		other, r := llmtest.Script(llmtest.Fail(failure)), &reader{}
		chat := interrupted(middleware.InterruptConfig{Continue: []llm.Caller{prefill("f", other)}}, llmtest.Script(cut("Hello")))
		_, err := chat.Call(t.Context(), r.ask())
		e := llm.AsError(err)
		if e.Class != llm.Interrupted || e.Deployment != "p" || e.Partial.Text() != "Hello" || len(e.Attempts) != 2 || r.text != "Hello" {
			t.Errorf("%s: %v, partial %q, %d attempts", name, err, e.Partial.Text(), len(e.Attempts))
		}
	}
}

func TestInterruptKeepsWithinTheTokensAndSaysWhatIsEstimated(t *testing.T) {
	broken := cut(strings.Repeat("word ", 80)) // about 100 tokens
	broken.Err = llm.Unavailable
	other, r := llmtest.Script(says("!")), &reader{}
	chat := interrupted(middleware.InterruptConfig{Continue: []llm.Caller{prefill("f", other)}}, llmtest.Script(broken))
	req := r.ask()
	req.MaxTokens = 150
	resp, err := chat.Call(t.Context(), req)
	if err != nil || resp.Usage != (llm.Usage{Input: 20, Output: 105, Estimated: true}) {
		t.Fatalf("%+v, %v", resp, err)
	}
	if got := other.Calls()[0].Request.MaxTokens; got != 50 || req.MaxTokens != 150 {
		t.Errorf("100 of 150 tokens are out, and it is asked for %d more", got)
	}
}

func TestInterruptListsWhoWasNotAskedToGoOn(t *testing.T) {
	r := &reader{}
	req := r.ask()
	req.MaxAttempts = 1
	chat := interrupted(middleware.InterruptConfig{Continue: []llm.Caller{prefill("f", llmtest.Script())}}, llmtest.Script(cut("Hello")))
	_, err := chat.Call(t.Context(), req)
	if rows := llm.AsError(err).Attempts; len(rows) != 2 || rows[1].Deployment != "f" || !strings.Contains(rows[1].Skipped, "1 of 1 attempts") {
		t.Errorf("%+v", rows)
	}
}

func TestInterruptSaysNothingToWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		r := &reader{}
		hang := llmtest.Step{Deltas: []llm.Delta{{Text: "one"}}, Hang: true}
		_, err := interrupted(middleware.InterruptConfig{Notice: "[lost]"}, llmtest.Script(hang)).Call(ctx, r.ask())
		if llm.ClassOf(err) != llm.Canceled || r.text != "one" {
			t.Errorf("%v, %q", err, r.text)
		}
	})
}

// The seam reads each piece about once: work that grows with the square of the text would take minutes here.
func TestInterruptTakesAWholeTextAgainInPieces(t *testing.T) {
	var b strings.Builder
	for random := rand.New(rand.NewPCG(1, 2)); b.Len() < 100_000; {
		b.WriteString([]string{"the ", "fox ", "a ", "jumps ", "to ", "over "}[random.IntN(6)])
	}
	text, again := b.String(), llmtest.Step{}
	for i := 0; i < len(text); i += 4 {
		again.Deltas = append(again.Deltas, llm.Delta{Text: text[i:min(i+4, len(text))]})
	}
	again.Deltas = append(again.Deltas, llm.Delta{Text: "End."})
	r := &reader{}
	chat := interrupted(middleware.InterruptConfig{Continue: []llm.Caller{prefill("f", llmtest.Script(again))}}, llmtest.Script(cut(text)))
	resp, err := chat.Call(t.Context(), r.ask())
	if err != nil || r.text != text+"End." || resp.Text() != r.text {
		t.Errorf("%d bytes of %d, %v", len(r.text), len(text)+4, err)
	}
}

func TestInterruptContinuesAContinuation(t *testing.T) {
	a, b, r := llmtest.Script(cut(" two", " three")), llmtest.Script(says(" four")), &reader{}
	chat := interrupted(middleware.InterruptConfig{Continue: []llm.Caller{prefill("a", a), prefill("b", b)}}, llmtest.Script(cut("one")))
	resp, err := chat.Call(t.Context(), r.ask())
	if err != nil || resp.Text() != "one two three four" || r.text != resp.Text() || resp.Calls() != 3 {
		t.Fatalf("%v, %v, %q", resp, err, r.text)
	}
	if got := b.Calls()[0].Request.Messages[1].Parts[0].Text; got != "one two three" {
		t.Errorf("the second was asked to go on with %q", got)
	}
	a, r = llmtest.Script(cut(" two")), &reader{}
	chat = interrupted(middleware.InterruptConfig{Continue: []llm.Caller{prefill("a", a)}, Most: 2}, llmtest.Script(cut("one")))
	_, err = chat.Call(t.Context(), r.ask())
	if e := llm.AsError(err); e.Class != llm.Interrupted || e.Partial.Text() != "one two two" || e.Deployment != "a" || a.Count() != 2 {
		t.Errorf("%v, %q after %d calls", err, e.Partial.Text(), a.Count())
	}
}

func TestInterruptStopsWithItsSinkAndItsCaller(t *testing.T) {
	gone := errors.New("the reader left")
	other, n := llmtest.Script(says(" a", " b", " c")), 0
	chat := interrupted(middleware.InterruptConfig{Continue: []llm.Caller{prefill("f", other)}, Notice: "never said"}, llmtest.Script(cut("one")))
	req := retryAsk()
	req.Sink = func(llm.Delta) error {
		if n++; n == 3 {
			return gone
		}
		return nil
	}
	if _, err := chat.Call(t.Context(), req); !errors.Is(err, gone) || llm.ClassOf(err) != llm.Canceled || n != 3 {
		t.Errorf("%v after %d deltas", err, n)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		other := llmtest.Script(llmtest.Step{Deltas: []llm.Delta{{Text: " two"}}, Hang: true})
		chat := interrupted(middleware.InterruptConfig{Continue: []llm.Caller{prefill("f", other)}}, llmtest.Script(cut("one")))
		time.AfterFunc(time.Second, leave)
		r := &reader{}
		_, err := chat.Call(ctx, r.ask())
		if llm.ClassOf(err) != llm.Canceled || r.text != "one two" || llm.AsError(err).Partial.Text() != "one two" {
			t.Errorf("%v, %q", err, r.text)
		}
	})
}

func TestInterruptPanicsOnNonsenseAndShowsWhatItIs(t *testing.T) {
	if got := panicOf(func() { middleware.Interrupt(middleware.InterruptConfig{Continue: []llm.Caller{nil}}) }); !strings.Contains(got, "Continue[0]") {
		t.Errorf("%q", got)
	}
	if got := panicOf(func() { middleware.Interrupt(middleware.InterruptConfig{Most: -1}) }); !strings.Contains(got, "Most is -1") {
		t.Errorf("%q", got)
	}
	chat := interrupted(middleware.InterruptConfig{Continue: []llm.Caller{prefill("f", llmtest.Script())}, Notice: "x"}, llmtest.Script())
	if got := chat.String(); !strings.Contains(got, "interrupt {Most:1 Notice:x}\n  p (test/m-p)\n  f (test/m-f") {
		t.Errorf("%s", got)
	}
}
