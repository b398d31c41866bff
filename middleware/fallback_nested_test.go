package middleware_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// Whose budget is used up must have named who pays instead, however many fallbacks are between the two.
func TestFallbackAroundAnotherKeepsWhatAFailureWithinDemands(t *testing.T) {
	for name, first := range map[string]func(*testing.T, llm.Caller) llm.Caller{
		"it failed": func(_ *testing.T, c llm.Caller) llm.Caller { return fallbackDep("a", c) },
		"it rests": func(t *testing.T, c llm.Caller) llm.Caller {
			t.Helper()
			chat := cooldownAround(middleware.NewCooldowns(middleware.CooldownConfig{}), "a", c)
			_ = cooldownCall(t, chat)
			return chat
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stranger := llmtest.Script()
				inner := fallbackTo(first(t, llmtest.Script(llmtest.Fail(llm.Quota))),
					middleware.Route{Caller: fallbackDep("b", llmtest.Script(llmtest.Fail(llm.Unavailable))), For: []llm.Class{llm.Quota, llm.Unavailable}})
				_, err := fallbackTo(inner, fallbackDep("c", stranger)).Call(t.Context(), fallbackAsk())
				if !errors.Is(err, llm.Unavailable) || stranger.Count() != 0 {
					t.Errorf("c, which nobody approved for quota, was called %d times: %v", stranger.Count(), err)
				}
			})
		})
	}
}
