package classify

import (
	"time"

	"github.com/modelchain/llm"
)

// googleRules are Gemini's and Vertex AI's. Both write "exceeded your current quota" for pacing.
func googleRules() []Rule {
	return []Rule{
		{
			Name: "google.daily", Provider: "google", Step: StepCode, Code: []string{"*perday*", "*daily*"},
			Class: llm.Quota, CoolUntil: true, Source: "QuotaFailure.quotaId",
		},
		{
			Name: "google.limit_zero", Provider: "google", Step: StepCode, Code: []string{"quota_value_zero"},
			Class: llm.Quota, Source: "ErrorInfo quota_limit_value 0",
		},
		{
			Name: "google.limit_zero_text", Provider: "google", Step: StepText, Status: []int{429},
			Phrase: limitPhrases, Pattern: limitZero, Class: llm.Quota,
			Source: "no right to the model at all, whatever wait stands beside it",
		},
		{
			Name: "google.daily_text", Provider: "google", Step: StepText, Status: []int{429},
			Phrase: []string{"per day", "requests_per_day", "per_day", "daily limit", "daily quota"},
			Class:  llm.Quota, CoolUntil: true, Source: "quota metric names",
		},
		{
			Name: "google.prepaid", Provider: "google", Step: StepText, Status: []int{402},
			Code: []string{"resource_exhausted"}, Class: llm.Quota, Source: "the status word alone says pace",
		},
		{
			Name: "google.capacity", Provider: "google", Step: StepText, Status: []int{429},
			Phrase: []string{"out of capacity", "no capacity"}, Class: llm.Overloaded, Source: "Vertex",
		},
		{
			Name: "google.quota_untimed", Provider: "google", Step: StepText, Status: []int{429},
			Phrase: []string{"exceeded your current quota"}, NoWait: true, VetoCode: []string{"*perminute*"},
			Class: llm.Quota, Source: "neither RetryInfo nor a sentence with a wait: sticks until midnight",
		},
		{
			Name: "google.quota_timed", Provider: "google", Step: StepText, Status: []int{429},
			Phrase: []string{"exceeded your current quota"}, MinWait: time.Millisecond, Class: llm.RateLimited,
			Source: "the same words with a wait are pacing",
		},
		{
			Name: "google.shared", Provider: "google", Step: StepText, Status: []int{429},
			Phrase: []string{
				"quota exceeded", "resource * exhausted", "resource exhausted", "exhausted your capacity",
			},
			Class: llm.RateLimited, Source: "a pace, or Vertex's shared capacity",
		},
		{
			Name: "google.cancelled", Provider: "google", Step: StepText, Status: []int{499},
			Class: llm.Unavailable, Source: "Gemini CLI retries; this caller is still here",
		},
	}
}

// bedrockRules are Amazon Bedrock's.
func bedrockRules() []Rule {
	return []Rule{
		{
			Name: "bedrock.daily", Provider: "bedrock", Step: StepText, Phrase: []string{"per day", "daily token"},
			Class: llm.Quota, CoolUntil: true,
			Source: "ThrottlingException for a daily cap, often 0 on new accounts",
		},
		{
			Name: "bedrock.too_many_tokens", Provider: "bedrock", Step: StepText,
			Phrase: []string{"too many tokens", "too many requests", "throttl"}, Class: llm.RateLimited,
			Source: "pacing, not overflow: 'Too many input tokens' is that",
		},
		{
			Name: "bedrock.model_access", Provider: "bedrock", Step: StepText, Status: []int{400, 403, 404},
			Phrase: []string{"access to the model", "access to this model", "model access", "marketplace"},
			Veto:   []string{"payment"}, Class: llm.NotFound,
			Source: "AccessDeniedException for one model; the key is fine",
		},
	}
}

// cohereRules are Cohere's, whose "too many tokens" is overflow, and sometimes max_tokens.
func cohereRules() []Rule {
	return []Rule{
		{
			Name: "cohere.max_tokens", Provider: "cohere", Step: StepText,
			Phrase: []string{"too many tokens: max tokens must"}, Class: llm.Invalid,
			Source: "about the answer's length",
		},
		{
			Name: "cohere.too_many_tokens", Provider: "cohere", Step: StepText,
			Status: []int{0, 200, 400, 413, 422}, Phrase: []string{"too many tokens"}, Veto: pacing,
			Class: llm.TooLong, Source: "the prompt's length",
		},
		{
			Name: "cohere.trial_month", Provider: "cohere", Step: StepText,
			Phrase: []string{"calls / month", "calls/month", "per month"}, Class: llm.Quota, Source: "trial keys",
		},
		{
			Name: "cohere.invalid_token", Provider: "cohere", Step: StepStatus, Status: []int{498}, Class: llm.Auth,
			Source: "docs: invalid token",
		},
		{
			Name: "cohere.canceled", Provider: "cohere", Step: StepStatus, Status: []int{499}, Class: llm.Canceled,
			Source: "docs: request cancelled",
		},
	}
}

// mistralRules are Mistral's.
func mistralRules() []Rule {
	return []Rule{
		{
			Name: "mistral.capacity", Provider: "mistral", Step: StepText,
			Phrase: []string{"service tier capacity exceeded"}, Class: llm.Overloaded,
			Source: "429 with type invalid_request_error",
		},
		{
			Name: "mistral.rate", Provider: "mistral", Step: StepText, Status: []int{429},
			Code: []string{"1300", "rate_limited"}, Class: llm.RateLimited,
			Source: "the monthly limit has the same bytes; only time tells",
		},
	}
}

// chinaRules are numeric codes that only their provider's table explains.
func chinaRules() []Rule {
	return []Rule{
		{
			Name: "zhipu.quota", Provider: "zhipu", Step: StepCode,
			Code: []string{"1113", "1308", "1309", "1310", "1304"}, Class: llm.Quota,
			Source: "docs.bigmodel.cn error codes",
		},
		{
			Name: "zhipu.too_long", Provider: "zhipu", Step: StepCode, Code: []string{"1261"}, Class: llm.TooLong,
			Source: "docs.bigmodel.cn",
		},
		{
			Name: "zhipu.refused", Provider: "zhipu", Step: StepCode, Code: []string{"1300", "1301"},
			Class: llm.Refused, Source: "docs.bigmodel.cn",
		},
		{
			Name: "zhipu.not_found", Provider: "zhipu", Step: StepCode,
			Code: []string{"1211", "1220", "1221", "1222", "1311"}, Class: llm.NotFound, Source: "docs.bigmodel.cn",
		},
		{
			Name: "zhipu.overloaded", Provider: "zhipu", Step: StepCode, Code: []string{"1305", "1312"},
			Class: llm.Overloaded, Source: "docs.bigmodel.cn",
		},
		{
			Name: "zhipu.rate", Provider: "zhipu", Step: StepCode, Code: []string{"1302", "1303"},
			Class: llm.RateLimited, Source: "docs.bigmodel.cn",
		},
		{
			Name: "zhipu.auth", Provider: "zhipu", Step: StepCode,
			Code: []string{"1000", "1001", "1002", "1003", "1004", "1110", "1111", "1112", "1121"}, Class: llm.Auth,
			Source: "docs.bigmodel.cn",
		},
		{
			Name: "minimax.quota", Provider: "minimax", Step: StepCode, Code: []string{"1008"}, Class: llm.Quota,
			Source: "base_resp.status_code",
		},
		{
			Name: "minimax.rate", Provider: "minimax", Step: StepCode, Code: []string{"1002", "1041"},
			Class: llm.RateLimited, Source: "base_resp.status_code",
		},
		{
			Name: "minimax.auth", Provider: "minimax", Step: StepCode, Code: []string{"1004", "2049"},
			Class: llm.Auth, Source: "base_resp.status_code",
		},
		{
			Name: "minimax.refused", Provider: "minimax", Step: StepCode, Code: []string{"1026", "1027"},
			Class: llm.Refused, Source: "base_resp.status_code",
		},
		{
			Name: "minimax.too_long", Provider: "minimax", Step: StepCode, Code: []string{"1039"},
			Class: llm.TooLong, Source: "base_resp.status_code",
		},
		{
			Name: "minimax.unavailable", Provider: "minimax", Step: StepCode,
			Code: []string{"1000", "1013", "1024", "1033"}, Class: llm.Unavailable, Source: "base_resp.status_code",
		},
		{
			Name: "minimax.timeout", Provider: "minimax", Step: StepCode, Code: []string{"1001"},
			Class: llm.Timeout, Source: "base_resp.status_code",
		},
		{
			Name: "minimax.invalid", Provider: "minimax", Step: StepCode, Code: []string{"2013"},
			Veto: []string{"context window"}, Class: llm.Invalid, Source: "base_resp.status_code",
		},
		{
			Name: "dashscope.quota", Provider: "dashscope", Step: StepText,
			Phrase: []string{
				"free allocated quota", "access denied, please make sure your account is in good standing",
			},
			Class: llm.Quota, Source: "Model Studio error codes",
		},
	}
}
