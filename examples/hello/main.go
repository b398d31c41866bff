// Hello asks a gateway of three OpenAI deployments one question.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/tokens"
)

func main() {
	api := openai.Config{APIKey: os.Getenv("OPENAI_API_KEY"), BaseURL: os.Getenv("OPENAI_BASE_URL")}
	if api.APIKey == "" {
		fmt.Println("Set OPENAI_API_KEY to a key of OpenAI's and run this again.")
		return
	}
	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{})
	perDeployment := llm.New(cooldowns.Stage(), middleware.Retry(middleware.RetryConfig{}),
		middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{}), middleware.Classify(middleware.ClassifyConfig{}))
	model := func(name string, window int) llm.Caller {
		return perDeployment.Then(&llm.Deployment{Name: name, Provider: "openai", Model: name, Window: window, Caller: openai.New(api)})
	}
	chat := llm.New(middleware.Telemetry(middleware.TelemetryConfig{}), middleware.Deadline(middleware.DeadlineConfig{})).
		Then(middleware.TokenRouter(middleware.TokenRouterConfig{
			Counter: tokens.For("gpt-4o"),
			Normal:  middleware.Fallback(middleware.FallbackConfig{}, model("gpt-4o", 128_000), model("gpt-4o-mini", 128_000)),
			Long:    model("gpt-4.1", 1_000_000),
		}))
	resp, err := chat.Call(context.Background(), &llm.Request{Messages: []llm.Message{llm.User("What is a circuit breaker?")}})
	if err != nil {
		fmt.Println("nobody could answer:", err)
		os.Exit(1)
	}
	fmt.Printf("%s\n(%s answered, after %d calls)\n", resp.Text(), resp.Deployment, resp.Calls())
}
