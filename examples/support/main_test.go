package main

import (
	"context"
	"regexp"
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

// The prompt is tried on every deployment of the assistant. With deployments that speak to real models the same test says how
// portable it really is.
func TestThePromptIsPortable(t *testing.T) {
	answers := func(known, unknown string) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			text := unknown
			if strings.Contains(req.Messages[0].Parts[0].Text, "password") && strings.Contains(req.System, "choose Reset password") {
				text = known
			}
			return llmtest.Script(llmtest.Text(text)).Call(ctx, req)
		})
	}
	articles := []Article{{"Resetting a password", "Open Settings, then Security, then choose Reset password."}}
	a := NewAssistant("Teapot Cloud", articles,
		&llm.Deployment{Name: "primary", Caller: answers("Open Settings, then Security, and choose Reset password.",
			"The help articles do not say. Shall I open a ticket?")},
		&llm.Deployment{Name: "backup", Caller: answers("You find it in Settings under Security: choose Reset password.",
			"I have found nothing about that. I can open a ticket for you.")})
	llmtest.EvaluatePrompt(t, llmtest.PromptConfig{
		System: a.system, Chain: a.chat,
		Fixtures: []llmtest.Fixture{
			{Name: "known", Ask: "How do I reset my password?", Wants: llmtest.Wants{
				Mention: []string{"Settings", "Reset password"}, NotMention: []string{"ticket"}, Sentences: llmtest.Bounds{Least: 1, Most: 3},
				Language: "en", NotMatch: []*regexp.Regexp{regexp.MustCompile("[*#`]")},
			}},
			{Name: "unknown", Ask: "Do you sell tea?", Wants: llmtest.Wants{
				Mention: []string{"ticket"}, Sentences: llmtest.Bounds{Least: 1, Most: 3}, Language: "en",
			}},
		},
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
