package llmtest_test

import (
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// gateway is the chain of a team, around whatever deployments it is given.
func gateway(primary, backup *llm.Deployment) llm.Caller {
	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{Rest: 10 * time.Second})
	each := llm.New(cooldowns.Stage(), middleware.Retry(middleware.RetryConfig{Max: 1}),
		middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Total: 5 * time.Second, FirstToken: 2 * time.Second}))
	return llm.New(middleware.Deadline(middleware.DeadlineConfig{Total: 15 * time.Second})).Then(middleware.Fallback(
		middleware.FallbackConfig{}, each.Then(primary),
		middleware.Route{Caller: each.Then(backup), For: standsIn()},
	))
}

func standsIn() []llm.Class {
	return []llm.Class{llm.Unavailable, llm.Overloaded, llm.Timeout, llm.Stalled, llm.RateLimited}
}

// region: prove
func TestTheGatewayKeepsItsPromises(t *testing.T) {
	llmtest.Prove(t, func(s *llmtest.Staging) (llmtest.Promises, error) {
		deployment := func(name string, at llmtest.Endpoint) *llm.Deployment {
			api := openai.Config{BaseURL: at.URL + "/v1", APIKey: "any", HTTPClient: at.Client}
			return &llm.Deployment{Name: name, Provider: "openai", Model: name, Caller: openai.New(api)}
		}
		return llmtest.Promises{
			Caller: gateway(deployment("primary", s.Primary), deployment("backup", s.Backup)),
			Within: 15 * time.Second, Retries: 1, Rest: 10 * time.Second, StandsIn: standsIn(),
		}, nil
	})
}

// endregion
