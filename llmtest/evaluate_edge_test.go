package llmtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
)

func askedOf(name string, ds ...*llm.Deployment) PromptConfig {
	return PromptConfig{System: "Answer.", Deployments: ds, Fixtures: []Fixture{{Name: name, Ask: "?"}}}
}

func TestACheckThatFailsWithoutAWordFails(t *testing.T) {
	for _, text := range []string{"", " \n"} {
		cfg := askedOf("one", deploymentOf("a", Script(Text("x"))))
		cfg.Fixtures[0].Wants.Check = func(*llm.Request, *llm.Response) error { return errors.New(text) }
		h := &heard{}
		r := EvaluatePrompt(h, cfg)
		if r.Share() != 0 || len(h.said) == 0 || !strings.HasSuffix(h.said[0], "its check fails with an error that says nothing; give that a text") {
			t.Errorf("a check that returns %q: the test hears %q", text, h.said)
		}
	}
}

func TestAnAnswerThatComesAfterTimeoutIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := func(d time.Duration) *llm.Deployment {
			return deploymentOf(d.String(), llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
				<-time.NewTimer(d).C // it does not heed its context
				return textResponse("yes"), nil
			}))
		}
		cfg := askedOf("one", after(4*time.Second), after(5*time.Second), after(7*time.Second))
		cfg.Timeout = 5 * time.Second
		h := &heard{}
		r := EvaluatePrompt(h, cfg)
		if r.Scores[0].Share() != 1 || r.Scores[1].Share() != 1 || r.Scores[2].Share() != 0 ||
			!strings.HasSuffix(r.String(), "\n7s, one: it took 7s, longer than Timeout (5s)\n") {
			t.Errorf("the report is\n%s", r)
		}
	})
}

func TestTheRowOfAnAnswerThatTimeoutCutNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := deploymentOf("own", Script(Fail(&llm.Error{Class: llm.Exhausted})))
		cfg := askedOf("one", deploymentOf("hangs", Script(Step{Hang: true})), own)
		cfg.Timeout = 5 * time.Second
		want := "\nhangs, one: no answer: exhausted, as Timeout (5s) was over\nown, one: no answer: exhausted\n"
		if r := EvaluatePrompt(&heard{}, cfg); !strings.HasSuffix(r.String(), want) {
			t.Errorf("the report is\n%s", r)
		}
	})
}

func TestAShareIsWrittenSoThatItIsToldFromItsFloor(t *testing.T) {
	for _, test := range []struct {
		share, floor float64
		want         string
	}{
		{0.996, 0.999, "99.6% 99.9%"}, {0.5, 0.5, "50% 50%"}, {0.9, 1, "90% 100%"}, {0.99996, 1, "99.996% 100.000%"}, {1, 0.999, "100.0% 99.9%"},
		{0.5, 0.999, "50.0% 99.9%"}, {1. / 3, 1. / 3, "33.33% 33.33%"}, {0.999, -1, "99.9% 0.0%"}, {0.001, 0, "0.1% 0.0%"}, {0, 0.25, "0% 25%"},
	} {
		if share, floor := percents(test.share, test.floor); share+" "+floor != test.want {
			t.Errorf("%v below %v is written %s %s, want %s", test.share, test.floor, share, floor, test.want)
		}
	}
	n := 0
	cfg := askedOf("one", deploymentOf("a", llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
		if n++; n <= 4 {
			return nil, llm.Unavailable
		}
		return textResponse("yes"), nil
	})))
	cfg.Samples, cfg.Floor = 1000, 0.999
	h := &heard{}
	r := EvaluatePrompt(h, cfg)
	if !strings.Contains(r.String(), "a           996/1000  99.6%  99.9%  below\n") || len(h.said) != 2 ||
		!strings.Contains(h.said[0], "996 of 1000 as wanted, which is below the floor of 99.9%;") ||
		!strings.HasSuffix(h.said[1], "996 of 1000 as wanted, which is below the floor of 99.9%") {
		t.Errorf("the report is\n%s, the test hears %q", r, h.said)
	}
	n, cfg.Samples = 0, 5 // a floor that is computed is met by its share
	cfg.Floor = 1 - 0.2 - 0.2 - 0.2 - 0.2 + 1e-16
	if h = (&heard{}); EvaluatePrompt(h, cfg).Share() != 0.2 || h.said != nil {
		t.Errorf("1 of 5 is below a floor of %v: %q", cfg.Floor, h.said)
	}
}

func TestDeploymentsOfOneNameAreAnError(t *testing.T) {
	for _, name := range []string{"a", ""} {
		h := &heard{}
		EvaluatePrompt(h, askedOf("one", deploymentOf(name, Script()), deploymentOf(name, Script())))
		if want := fmt.Sprintf("two deployments are called %q", name); len(h.said) != 1 || !strings.Contains(h.said[0], want) {
			t.Errorf("want %q, the test hears %q", want, h.said)
		}
	}
	model := Script(Text("yes"), Text("yes"))
	d := deploymentOf("a", model)
	cfg := askedOf("one", d)
	cfg.Chain = &both{[]llm.Caller{llm.New(Pass("one")).Then(d), llm.New(Pass("other")).Then(d)}}
	h := &heard{}
	if r := EvaluatePrompt(h, cfg); len(r.Scores) != 1 || h.said != nil {
		t.Errorf("one deployment that is there three times: %+v, the test hears %q", r.Scores, h.said)
	}
	Expect(t, model).WasCalled(1)
}

func TestNamesBreakNoTable(t *testing.T) {
	cfg := askedOf("na\tme\n\x1b[31m", deploymentOf("a\tb\nc\u202e ü", Script(Text("no"))))
	cfg.Fixtures[0].Wants.Mention = []string{"yes"}
	h := &heard{}
	r := EvaluatePrompt(h, cfg)
	for _, text := range append(h.said, strings.Split(strings.TrimSuffix(r.String(), "\n"), "\n")...) {
		if visible(text) != text {
			t.Errorf("%q has what does not print", text)
		}
	}
	if want := `a\tb\nc\u202e ü, na\tme\n\x1b[31m: it does not`; !strings.Contains(r.String(), want) || strings.Count(r.String(), "\n") != 4 {
		t.Errorf("want %s in\n%s", want, r)
	}
}
