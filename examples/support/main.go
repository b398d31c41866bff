// Support is the gateway of a support assistant: one portable system prompt, sent unchanged to whichever deployment
// answers. The prompt names no model and uses no provider's own marks, so that a fallback behaves like the primary.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

const systemPrompt = `You are the support assistant for {{product}}.
Answer only from the help articles below. If they do not hold the answer, say so and offer to open a ticket.
Answer in the language of the question, in at most three sentences, as plain text.

Help articles:
{{articles}}`

// An Article is a page of the help centre.
type Article struct{ Title, Text string }

// prompt fills in the system prompt.
func prompt(product string, articles []Article) string {
	var list strings.Builder
	for _, a := range articles {
		fmt.Fprintf(&list, "- %s: %s\n", a.Title, a.Text)
	}
	return strings.NewReplacer("{{product}}", product, "{{articles}}", strings.TrimSpace(list.String())).Replace(systemPrompt)
}

// An Assistant answers questions about one product.
type Assistant struct {
	chat   llm.Caller
	system string
}

// NewAssistant puts an onion around the deployments, the first of which is the primary.
func NewAssistant(product string, articles []Article, deployments ...*llm.Deployment) *Assistant {
	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{})
	perDeployment := llm.New(
		cooldowns.Stage(),
		middleware.Retry(middleware.RetryConfig{}),
		middleware.Classify(middleware.ClassifyConfig{}),
	)
	routes := make([]llm.Caller, len(deployments))
	for i, d := range deployments {
		routes[i] = perDeployment.Then(d)
	}
	return &Assistant{
		chat: llm.New(
			middleware.Telemetry(middleware.TelemetryConfig{}),
			middleware.Deadline(middleware.DeadlineConfig{}),
		).Then(middleware.Fallback(middleware.FallbackConfig{}, routes...)),
		system: prompt(product, articles),
	}
}

// Ask answers a user's question. Whatever goes wrong, the text can be shown to the user.
func (a *Assistant) Ask(ctx context.Context, question string) string {
	resp, err := a.chat.Call(ctx, &llm.Request{
		System:   a.system,
		Messages: []llm.Message{llm.User(question)},
		Labels:   map[string]string{"feature": "support"},
	})
	if err != nil {
		return apology(err)
	}
	if resp.Refused() {
		return "I cannot help with that here. Shall I open a ticket?"
	}
	return resp.Text()
}

// apology is what a user is told when no deployment could answer.
func apology(err error) string {
	switch e := llm.AsError(err); {
	case errors.Is(err, llm.TooLong):
		return "That was too long for me. Could you shorten your question?"
	case e.RetryAfter > 0:
		return fmt.Sprintf("I am very busy. Please try again in %.0f seconds.", e.RetryAfter.Seconds())
	}
	return "I cannot answer right now. Shall I open a ticket?"
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "support:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	deployments, stop := local()
	defer stop()
	assistant := NewAssistant("Teapot Cloud", []Article{
		{"Resetting a password", "Open Settings, then Security, then choose Reset password."},
		{"Invoices", "Invoices are sent on the first of each month."},
	}, deployments...)
	question := "How do I reset my password?"
	_, err := fmt.Fprintf(out, "Q: %s\nA: %s\n", question, assistant.Ask(ctx, question))
	return err
}
