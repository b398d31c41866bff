package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

func TestSupportAnswersThroughTheBackup(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "A: Open Settings") {
		t.Errorf("got %q", got)
	}
}

func TestEveryDeploymentGetsTheSamePrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, up := llmtest.Script(llmtest.Fail(llm.Unavailable)), llmtest.Script()
		a := NewAssistant("Teapot Cloud", []Article{{"Tea", "Pour."}},
			&llm.Deployment{Name: "a", Caller: down}, &llm.Deployment{Name: "b", Caller: up})
		if got := a.Ask(t.Context(), "How?"); got != "ok" {
			t.Fatalf("got %q", got)
		}
		want := prompt("Teapot Cloud", []Article{{"Tea", "Pour."}})
		if strings.Contains(want, "{{") || !strings.Contains(want, "- Tea: Pour.") {
			t.Errorf("the prompt is not filled in: %q", want)
		}
		calls := append(down.Calls(), up.Calls()...)
		if len(calls) != 4 {
			t.Fatalf("%d calls, want three and one", len(calls))
		}
		for _, c := range calls {
			if c.Request.System != want {
				t.Errorf("a deployment was sent %q", c.Request.System)
			}
		}
	})
}

func TestTheUserIsToldWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.RateLimited, RetryAfter: 45 * time.Second}))
		a := NewAssistant("Teapot Cloud", nil, &llm.Deployment{Name: "a", Caller: limited})
		if got := a.Ask(t.Context(), "How?"); got != "I am very busy. Please try again in 45 seconds." {
			t.Errorf("got %q", got)
		}
	})
}
