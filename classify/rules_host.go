package classify

import (
	"time"

	"github.com/modelchain/llm"
)

// groqRules are Groq's.
func groqRules() []Rule {
	return []Rule{
		{
			Name: "groq.unprocessable", Provider: "groq", Step: StepStatus, Status: []int{422},
			Class: llm.BadOutput, Source: "docs: semantic errors of the model; try again",
		},
		{
			Name: "groq.canceled", Provider: "groq", Step: StepStatus, Status: []int{499}, Class: llm.Canceled,
			Source: "docs: request cancelled by the caller",
		},
	}
}

// cerebrasRules are Cerebras's, which answers overflow without a body.
func cerebrasRules() []Rule {
	return []Rule{
		{
			Name: "cerebras.no_body", Provider: "cerebras", Step: StepStatus, Status: []int{400, 413}, NoBody: true,
			Class: llm.TooLong, Source: "only knowing the provider tells",
		},
		{
			Name: "cerebras.tokens", Provider: "cerebras", Step: StepText,
			Phrase: []string{"too many tokens processed", "limit exceeded - too many"}, Class: llm.RateLimited,
			Source: "code token_quota_exceeded is pacing",
		},
		{
			Name: "cerebras.daily", Provider: "cerebras", Step: StepText,
			Phrase: []string{"tokens per day limit", "requests per day limit"}, Class: llm.Quota, CoolUntil: true,
			Source: "docs: daily limits",
		},
	}
}

// openrouterRules are OpenRouter's own; what stands behind it mostly decides.
func openrouterRules() []Rule {
	return []Rule{
		{
			Name: "openrouter.in_flight", Provider: "openrouter", Step: StepText, Status: []int{402},
			MinWait: time.Millisecond, Class: llm.RateLimited,
			Source: "a 402 with Retry-After: money reserved by running calls",
		},
		{
			Name: "openrouter.guardrail", Provider: "openrouter", Step: StepText, Status: []int{403},
			Phrase: []string{"requires moderation", "guardrail"}, Class: llm.Refused,
			Source: "403 is moderation more often than permission",
		},
	}
}

// fireworksRules are Fireworks's and Together's neighbours.
func fireworksRules() []Rule {
	return []Rule{
		{
			Name: "fireworks.suspended", Provider: "fireworks", Step: StepText, Status: []int{412},
			Class: llm.Quota, Source: "docs: account suspended for unpaid bills",
		},
	}
}

// ollamaRules are Ollama's.
func ollamaRules() []Rule {
	return []Rule{
		{
			Name: "ollama.canceled", Provider: "ollama", Step: StepStatus, Status: []int{499}, Class: llm.Canceled,
			Source: "server source",
		},
	}
}

// xaiRules are xAI's, whose code is a sentence about permission where money is missing.
func xaiRules() []Rule {
	return []Rule{
		{
			Name: "xai.credits", Provider: "xai", Step: StepText, Status: []int{403, 429},
			Phrase: []string{"credits", "spending", "subscription"}, Class: llm.Quota,
			Source: "403 with a permission code",
		},
	}
}
