package classify

import "github.com/modelchain/llm"

// openaiRules are what OpenAI alone means by shared words.
func openaiRules() []Rule {
	return []Rule{
		{
			Name: "openai.string_too_long", Provider: "openai", Step: StepCode,
			Code:  []string{"string_above_max_length", "array_above_max_length"},
			Param: []string{"user*", "name*", "metadata*", "stop*", "tools*", "tool_choice*", "safety_identifier"},
			Class: llm.Invalid, Source: "by param",
		},
	}
}

// azureRules are Azure OpenAI's and API Management's.
func azureRules() []Rule {
	return []Rule{
		{
			Name: "azure.day", Provider: "azure", Step: StepText, Status: []int{429}, MinWait: day,
			Class: llm.Quota, CoolUntil: true,
			Source: "a wait of a day on a limit per minute: the request is above the bucket, or the free tier is used up",
		},
		{
			Name: "azure.quota", Provider: "azure", Step: StepText, Status: []int{403, 429},
			Phrase: []string{"out of call volume quota", "quota will be replenished"}, Class: llm.Quota,
			CoolUntil: true, Source: "API Management quota policy",
		},
	}
}

// githubRules are GitHub Models' and Copilot's.
func githubRules() []Rule {
	return []Rule{
		{
			Name: "github.prompt_limit", Provider: "github", Step: StepText, Status: []int{400, 413},
			Phrase: []string{"prompt token count", "exceeds the limit of"}, Class: llm.TooLong, Source: "Copilot",
		},
		{
			Name: "github.daily", Provider: "github", Step: StepText, Status: []int{429},
			Phrase: []string{"per 86400s", "userbymodelbyday"}, Class: llm.Quota, CoolUntil: true,
			Source: "GitHub Models: a count for the day",
		},
	}
}

// anthropicRules are Anthropic's.
func anthropicRules() []Rule {
	return []Rule{
		{
			Name: "anthropic.long_context_credits", Provider: "anthropic", Step: StepText,
			Phrase: []string{"required for long context"}, Class: llm.Quota,
			Source: "429 rate_limit_error that never clears without paid usage",
		},
		{
			Name: "anthropic.forbidden", Provider: "anthropic", Step: StepStatus, Status: []int{403},
			Code: []string{"forbidden"}, Class: llm.Auth, Source: "the edge refuses the region; no top-level type",
		},
	}
}
