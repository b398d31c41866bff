package llmtest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
)

// Logf, Fatalf and Context make heard enough of a test for EvaluatePrompt.
func (h *heard) Logf(format string, args ...any) {
	h.logged = append(h.logged, fmt.Sprintf(format, args...))
}
func (h *heard) Fatalf(format string, args ...any) { h.Errorf(format, args...) }
func (h *heard) Context() context.Context          { return context.Background() }

func deploymentOf(name string, c llm.Caller) *llm.Deployment {
	return &llm.Deployment{Name: name, Provider: "test", Model: "m", Caller: c}
}

func TestEvaluatePromptScoresEveryDeploymentOfAChain(t *testing.T) {
	good := Script(Text("Open Settings, then choose Reset."), Text("We do not know. Shall I open a ticket?"))
	bad := Script(Text("It is in the **menu**."), Fail(&llm.Error{Class: llm.Overloaded, Evidence: llm.Evidence{Status: 529}}))
	refusing := Script(Step{Response: &llm.Response{Refusal: "I must not.", Stop: llm.StopRefusal}})
	h := &heard{}
	r := EvaluatePrompt(h, PromptConfig{
		System: "Answer from the articles.",
		Chain: llm.New(Pass("outer")).Then(&both{[]llm.Caller{
			llm.New(Pass("retry")).Then(deploymentOf("good", good)), llm.New(Pass("retry")).Then(deploymentOf("bad", bad))}}),
		Deployments: []*llm.Deployment{deploymentOf("refusing", refusing)},
		Fixtures: []Fixture{
			{Name: "known", Ask: "How do I reset it?", Wants: Wants{
				Mention: []string{"settings"}, NotMatch: []*regexp.Regexp{regexp.MustCompile(`\*`)},
			}},
			{Name: "unknown", Ask: "Who are you?", Wants: Wants{Mention: []string{"ticket"}}},
		},
		Floor: 0.5, Overall: 0.4,
	})
	want := `deployment  known  unknown  all   floor
good        1/1    1/1      100%  50%
bad         0/1    0/1      0%    50%  below
refusing    0/1    0/1      0%    50%  below
all         1/3    1/3      33%   40%  below
bad, known: it does not mention "settings"; it matches \*
bad, unknown: no answer: overloaded (HTTP 529)
refusing, known: it refuses
refusing, unknown: it refuses
`
	if got := r.String(); got != want || len(h.logged) != 1 || !strings.Contains(h.logged[0], want) {
		t.Errorf("the report is\n%s\nwant\n%s", got, want)
	}
	said := []string{
		`bad answers 0 of 2 as wanted, which is below the floor of 50%; first, known: it does not mention "settings"; it matches \*`,
		`refusing answers 0 of 2 as wanted, which is below the floor of 50%; first, known: it refuses`,
		`all deployments together answer 2 of 6 as wanted, which is below the floor of 40%`,
	}
	if !slices.Equal(h.said, said) {
		t.Errorf("the test hears %q", h.said)
	}
	Expect(t, good).WasCalled(2).WasTold("Answer from the articles.")
	if asks := good.Calls()[1].Request.Messages; len(asks) != 1 || asks[0].Parts[0].Text != "Who are you?" {
		t.Errorf("asked %+v", asks)
	}
}

// both is a combinator that shows what is beneath.
type both struct{ of []llm.Caller }

func (b *both) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	return b.of[0].Call(ctx, req)
}

func (b *both) Describe() llm.Node {
	n := llm.Node{Name: "both"}
	for _, c := range b.of {
		n.Children = append(n.Children, llm.Describe(c))
	}
	return n
}

func TestEvaluatePromptAsksAsOftenAndAsManyAtATimeAsItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, n atomic.Int32
		model := llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			text := "yes"
			if n.Add(1)%5 == 0 {
				text = "no"
			}
			return Script(Step{Delay: time.Second, Text: text}).Call(ctx, &llm.Request{})
		})
		began := time.Now()
		r := EvaluatePrompt(t, PromptConfig{
			System: "Say yes.", Deployments: []*llm.Deployment{deploymentOf("a", model)}, Samples: 10, Parallel: 2, Floor: 0.8,
			Fixtures: []Fixture{{Name: "one", Ask: "?", Wants: Wants{Mention: []string{"yes"}}}},
		})
		if s := r.Scores[0]; s.Share() != 0.8 || s.Fixtures[0].Asked != 10 || len(s.Fixtures[0].Failures) != 2 || most.Load() != 2 {
			t.Errorf("%+v, %d at a time", s, most.Load())
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if f := r.Scores[0].Fixtures[0].Failures[0]; !strings.Contains(r.String(), fmt.Sprintf("a, one (%d of 10): it does not mention", f.Sample)) {
			t.Errorf("the report is %s", r)
		}
	})
}

func TestEvaluatePromptGoesOnAfterWhatHangsAndWhatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		r := EvaluatePrompt(h, PromptConfig{
			System: "Answer.", Timeout: 5 * time.Second, Floor: -1, Overall: 1, ShowAnswers: true,
			Deployments: []*llm.Deployment{deploymentOf("a", Script(Step{Hang: true}, Step{Panic: "boom"}, Text("secret"), Text("fine")))},
			Fixtures: []Fixture{
				{Name: "hangs", Ask: "?"}, {Name: "panics", Ask: "?"},
				{Name: "its check panics", Ask: "?", Wants: Wants{Check: func(*llm.Request, *llm.Response) error { panic("oops") }}},
				{Name: "fine", Ask: "?"},
			},
		})
		want := "a, hangs: no answer: exhausted, as Timeout (5s) was over\na, panics: no answer: bad_output\na, its check panics: its check panicked: oops\n    \"secret\"\n"
		if !strings.HasSuffix(r.String(), want) || r.Scores[0].Fixtures[3].Passed != 1 || len(h.said) != 1 {
			t.Errorf("the report is\n%s, the test hears %q", r, h.said)
		}
	})
}

func TestWantsSayWhatAnAnswerLacks(t *testing.T) {
	re := regexp.MustCompile(`\d`)
	for _, test := range []struct {
		wants  Wants
		answer string
		want   string // "": it is as wanted
	}{
		{Wants{Mention: []string{"TEA"}}, "Some tea.", ""},
		{Wants{NotMention: []string{"Coffee"}}, "coffee", `it mentions "Coffee"`},
		{Wants{Match: []*regexp.Regexp{re}}, "none", `it does not match \d`},
		{Wants{Match: []*regexp.Regexp{re}}, "1", ""},
		{Wants{NotMatch: []*regexp.Regexp{re}}, "1", `it matches \d`},
		{Wants{Chars: Bounds{2, 3}}, " äöü ", ""},
		{Wants{Chars: Bounds{2, 3}}, "äöüß", "4 characters, more than 3"},
		{Wants{Words: Bounds{Least: 3}}, "one two", "2 words, fewer than 3"},
		{Wants{Sentences: Bounds{3, 3}}, `It costs 3.50 today. "Really?!" Yes`, ""},
		{Wants{Sentences: Bounds{2, 2}}, "- one\n- two\n\n", ""},
		{Wants{Sentences: Bounds{2, 2}}, "開けます。閉めます。", ""},
		{Wants{Sentences: Bounds{Most: 1}}, "One. Two.", "2 sentences, more than 1"},
		{Wants{Language: "en"}, "Open Settings, then Security, then choose Reset password.", ""},
		{Wants{Language: "de"}, "Öffnen Sie die Einstellungen und wählen Sie Passwort zurücksetzen.", ""},
		{Wants{Language: "ja"}, "パスワードをリセットするには", ""},
		{Wants{Language: "en"}, "Öffnen Sie die Einstellungen und wählen Sie Passwort zurücksetzen.", `it is in language "de", not "en"`},
		{Wants{Language: "en"}, "123", `it is not in language "en": it has no letters`},
		{Wants{Language: "en"}, "Да", `it is in Cyrillic letters, in which language "en" is not written`},
		{Wants{Fields: []string{"order.id"}}, `{"order":{"id":1}}`, ""},
		{Wants{Fields: []string{"order.id"}}, `{"order":{"id":null}}`, `its field "order.id" is missing or null`},
		{Wants{Fields: []string{"a"}}, "```json\n{\"a\":1}\n```", "it is not one JSON object and nothing else"},
		{Wants{Fields: []string{"a"}}, `null`, "it is not one JSON object and nothing else"},
		{Wants{Check: func(*llm.Request, *llm.Response) error { return errors.New("no schema") }}, "x", "no schema"},
		{Wants{Refusal: true}, "Sure.", "it does not refuse"},
	} {
		fixtures := []Fixture{{Wants: test.wants}}
		got := strings.Join(test.wants.wrong(&llm.Request{}, textResponse(test.answer), languagesOf(fixtures)), "; ")
		if got != test.want {
			t.Errorf("%q is %q, want %q", test.answer, got, test.want)
		}
	}
	refusal := &llm.Response{Refusal: "no", Stop: llm.StopRefusal}
	if got := (&Wants{Refusal: true}).wrong(&llm.Request{}, refusal, nil); got != nil {
		t.Errorf("a refusal that is wanted: %q", got)
	}
}

func TestEvaluatePromptEndsATestThatTriesNothing(t *testing.T) {
	d := []*llm.Deployment{deploymentOf("a", Script())}
	one := []Fixture{{Name: "one", Ask: "?"}}
	with := func(w Wants) []Fixture { return []Fixture{{Name: "one", Ask: "?", Wants: w}} }
	for want, cfg := range map[string]PromptConfig{
		"there is no prompt":                             {Deployments: d, Fixtures: one},
		"there is no deployment":                         {System: "x", Fixtures: one},
		"a deployment is nil":                            {System: "x", Fixtures: one, Deployments: []*llm.Deployment{nil}},
		"there is nothing to ask":                        {System: "x", Deployments: d},
		`fixture 1 is called "one"`:                      {System: "x", Deployments: d, Fixtures: append(one, one...)},
		`fixture "one" asks nothing`:                     {System: "x", Deployments: d, Fixtures: []Fixture{{Name: "one"}}},
		"Samples -1":                                     {System: "x", Deployments: d, Fixtures: one, Samples: -1},
		"Floor 2":                                        {System: "x", Deployments: d, Fixtures: one, Floor: 2},
		`in Allow is "nonsense"`:                         {System: "x", Deployments: d, Fixtures: one, Allow: []string{"nonsense"}},
		"but the prompt has no such text":                {System: "x", Deployments: d, Fixtures: one, Allow: []string{"model-name: Claude"}},
		"bounds of 3 to 2 hold for nothing":              {System: "x", Deployments: d, Fixtures: with(Wants{Words: Bounds{3, 2}})},
		`the language "xx" is not one that can be told`:  {System: "x", Deployments: d, Fixtures: with(Wants{Language: "xx"})},
		"Fields has an empty text":                       {System: "x", Deployments: d, Fixtures: with(Wants{Mention: []string{""}})},
		"one of Match and NotMatch has a nil expression": {System: "x", Deployments: d, Fixtures: with(Wants{Match: []*regexp.Regexp{nil}})},
	} {
		h := &heard{}
		EvaluatePrompt(h, cfg)
		if len(h.said) != 1 || !strings.Contains(h.said[0], want) {
			t.Errorf("want %q, the test hears %q", want, h.said)
		}
	}
	if got := (&PromptReport{}).String(); got != "nothing was tried\n" {
		t.Errorf("an empty report is %q", got)
	}
}
