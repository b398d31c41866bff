// Quickstart builds a gateway of two deployments, sends it calls and prints what happened to each.
//
// Without a key it starts two providers of its own on loopback, speaking the OpenAI wire over real HTTP; the primary is
// rate limited. With OPENAI_API_KEY it talks to the real thing, or to any compatible server at OPENAI_BASE_URL; the models
// are OPENAI_MODEL and OPENAI_FALLBACK_MODEL.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/tokens"
)

func gateway(primary, fallback openai.Config, cooldowns *middleware.Cooldowns) *llm.Pipeline {
	perDeployment := llm.New(
		cooldowns.Stage(),
		middleware.Retry(middleware.RetryConfig{Max: 2, Base: 200 * time.Millisecond}),
		middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Total: 20 * time.Second}),
		middleware.Classify(middleware.ClassifyConfig{}),
	)
	chat := middleware.Fallback(middleware.FallbackConfig{},
		perDeployment.Then(&llm.Deployment{
			Name: "primary", Provider: "openai", Model: primary.Model, Window: 128_000, Caller: openai.New(primary),
		}),
		perDeployment.Then(&llm.Deployment{
			Name: "fallback", Provider: "openai", Model: fallback.Model, Window: 128_000, Caller: openai.New(fallback),
		}),
	)
	return llm.New(
		middleware.Telemetry(middleware.TelemetryConfig{}),
		middleware.Deadline(middleware.DeadlineConfig{Total: 30 * time.Second}),
	).Then(middleware.TokenRouter(middleware.TokenRouterConfig{Counter: tokens.For(primary.Model), Normal: chat}))
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	primary, fallback, stop := providers()
	defer stop()
	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{})
	chat := gateway(primary, fallback, cooldowns)
	fmt.Fprintf(out, "The onion:\n%v\n", chat)

	question := &llm.Request{
		System:   "You answer in one short sentence.",
		Messages: []llm.Message{llm.User("What does a circuit breaker do?")},
	}
	fmt.Fprint(out, "\n1. A call while the primary is rate limited\n")
	resp, err := chat.Call(ctx, question)
	if err != nil {
		return err
	}
	report(out, resp)

	fmt.Fprint(out, "\n2. The next call, while the primary rests\n")
	for _, c := range cooldowns.Snapshot() {
		fmt.Fprintf(out, "   %s rests for %v more: %s\n", c.Name, time.Until(c.Until).Round(time.Second), c.Why)
	}
	if resp, err = chat.Call(ctx, question); err != nil {
		return err
	}
	report(out, resp)

	fmt.Fprint(out, "\n3. The same, streamed\n   ")
	for delta, err := range llm.Stream(ctx, chat, question) {
		if err != nil {
			return err
		}
		if delta.Kind == llm.DeltaEnd {
			fmt.Fprintln(out)
			resp = delta.Response
			continue
		}
		fmt.Fprint(out, delta.Text)
	}
	report(out, resp)
	return nil
}

func report(out io.Writer, resp *llm.Response) {
	fmt.Fprintf(out, "   served by %s: %q\n", resp.Deployment, resp.Text())
	for _, a := range resp.Attempts {
		switch {
		case a.Skipped != "":
			fmt.Fprintf(out, "   - %-9s not called: %s\n", a.Deployment, a.Skipped)
		case a.Err != nil:
			fmt.Fprintf(out, "   - %-9s attempt %d after a wait of %v: %v\n",
				a.Deployment, a.Index, a.Waited.Round(time.Millisecond), a.Class)
		default:
			fmt.Fprintf(out, "   - %-9s attempt %d after a wait of %v: answered, %d + %d tokens\n",
				a.Deployment, a.Index, a.Waited.Round(time.Millisecond), a.Usage.Input, a.Usage.Output)
		}
	}
}

// providers are the two configurations to run against, and what stops them.
func providers() (primary, fallback openai.Config, stop func()) {
	if key := os.Getenv("OPENAI_API_KEY"); key != "" {
		real := func(model string) openai.Config {
			return openai.Config{APIKey: key, BaseURL: os.Getenv("OPENAI_BASE_URL"), Model: model}
		}
		return real(cmp.Or(os.Getenv("OPENAI_MODEL"), "gpt-4o")),
			real(cmp.Or(os.Getenv("OPENAI_FALLBACK_MODEL"), "gpt-4o-mini")), func() {}
	}
	limited, healthy := startLimited(), startHealthy()
	local := func(url, model string) openai.Config {
		return openai.Config{BaseURL: url + "/v1", Model: model}
	}
	return local(limited.URL, "gpt-4o"), local(healthy.URL, "gpt-4o-mini"), func() {
		limited.Close()
		healthy.Close()
	}
}
