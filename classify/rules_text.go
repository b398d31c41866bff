package classify

import (
	"regexp"
	"slices"

	"github.com/modelchain/llm"
)

// refusals are the statuses of an answer that finds fault with the request, or of none.
var refusals = []int{0, 200, 400, 402, 403, 404, 406, 409, 412, 413, 415, 422, 424, 429}

// limitPhrases find the messages that limitZero is worth asking.
var limitPhrases = []string{"limit: 0", `limit": 0`, `limit":0`, `limit": "0`, `limit":"0`}

var limitZero = regexp.MustCompile(`(?i)\blimit"? ?: ?"?0(?:[^.,\d]|[.,](?:\D|$)|$)`)

// textRules are phrases of messages, whoever sends them. The order is money, account, model, content, size,
// ability, load, pace: what only a person can change comes before what passes.
func textRules() []Rule {
	return []Rule{
		{
			Name: "text.limit_zero", Step: StepText, Status: []int{0, 200, 403, 429}, Phrase: limitPhrases,
			Pattern: limitZero, Class: llm.Quota,
			Source: "Gemini: a limit of 0 is no right to the model, whatever wait stands beside it",
		},
		{
			Name: "text.quota_daily", Step: StepText, Phrase: []string{"free-models-per-day"}, Class: llm.Quota,
			CoolUntil: true, Source: "OpenRouter",
		},
		{
			Name: "text.current_quota", Step: StepText,
			Phrase: []string{"exceeded your current quota", "exceeded current quota"}, Veto: pacing,
			VetoCode: []string{"resource_exhausted"}, Class: llm.Quota,
			Source: "OpenAI's old form without a code. Gemini has the same words for pacing",
		},
		{
			Name: "text.quota", Step: StepText, Status: append(slices.Clone(refusals), 401, 500, 503),
			Phrase: []string{
				"credit balance", "insufficient balance", "insufficient credit", "insufficient fund",
				"insufficient quota", "insufficient account balance", "not enough credit", "not enough balance",
				"out of credit", "have any credits", "enough credits", "requires more credits", "can only afford",
				"credits are depleted", "credits depleted", "credits have been exhausted", "credits exhausted",
				"credit has been exhausted", "credits are required", "prepayment credits", "included credits",
				"purchase credits", "purchase more credits", "buy more credits", "spending limit", "spend limit",
				"spending cap", "billing hard limit", "hard limit has been reached", "hard limit was reached",
				"api usage limits", "out of extra usage", "from your extra usage", "exceeded * usage limits",
				"usage limit has been reached", "usage limit reached", "monthly usage limit",
				"budget has been exceeded", "exceeded your budget", "payment required", "in arrears",
				"check your billing", "billing issue", "issue with your billing", "extra usage is required",
				"free allocated quota", "key limit exceeded", "insufficient_quota", "unpaid bill", "unpaid invoice",
				"余额不足", "欠费", "额度已用", "额度不足", "配额已用完", "请充值", "套餐已到期", "使用上限",
			},
			Veto: pacing, Class: llm.Quota,
			Source: "Anthropic, DeepSeek, xAI, OpenRouter, Hugging Face, Moonshot, LiteLLM; one-api puts it beside 500",
		},
		{
			Name: "text.quota_loose", Step: StepText, Status: []int{0, 200, 402, 403, 412, 429},
			Phrase: []string{
				"no credits", "credit limit", "prepaid balance", "negative balance", "account balance",
				"balance is too low", "balance too low", "recharge", "top up", "top-up", "payment method",
				"payment instrument", "payment information", "past due", "overdue", "paid plan", "free quota",
				"free tier * exhausted", "exhausted * free tier", "free trial * expired", "free trial has ended",
				"trial has expired", "trial credits", "daily free allocation", "credits expired",
				"reached your * usage limit", "hit your usage limit", "reached * monthly", "exceeded * monthly",
				"monthly limit", "monthly quota", "monthly request limit", "monthly budget", "monthly spend",
				"weekly usage limit", "weekly limit", "over budget", "budget limit", "/ month", "per month",
				"until the next billing", "upgrade your plan to continue", "quota has been used up",
				"quota is used up", "out of call volume quota",
			},
			Veto: append(slices.Clone(pacing), "rate limit"), Class: llm.Quota,
			Source: "words that are about money only beside a status that refuses the caller",
		},

		{
			Name: "text.account", Step: StepText, Status: refusals,
			Phrase: []string{
				"access was terminated", "account * deactivated", "account * disabled", "account * suspended",
				"account * terminated", "account * locked", "organization has been disabled", "violation of terms",
				"violation of * terms of service", "has been suspended", "denied access. please contact support",
			},
			Veto: []string{"insufficient balance", "payment", "unpaid"}, Class: llm.Auth, Source: "OpenAI, Google",
		},
		{
			Name: "text.auth", Step: StepText, Status: []int{0, 200, 400, 401, 403, 404, 406, 412, 422, 500},
			Phrase: []string{
				"api key not valid", "api key is not valid", "invalid api key", "incorrect api key",
				"invalid api-key", "invalid api token", "invalid_api_key", "invalid x-api-key",
				"api key * is invalid", "api key * expired", "api key not found", "api key is missing",
				"missing api key", "no api key", "api key is required", "api key is not authorized",
				"didn't provide an api key", "did not provide an api key", "invalid authentication",
				"authentication failed", "authentication fails", "authentication required", "invalid credentials",
				"invalid bearer token", "token has expired", "security token included in the request",
				"could not resolve authentication", "user location is not supported", "location is not supported",
				"not available in your country", "not available in your region", "unsupported country",
				"country, region, or territory", "ip address * not authorized", "ip address * not allowed",
				"virtual network/firewall", "reported as leaked", "api key was reported", "no auth credentials",
				"no cookie auth", "login fail", "api 密钥", "身份验证",
			},
			Class: llm.Auth, Source: "Gemini, xAI and relays answer 400 for keys",
		},
		{
			Name: "text.bad_output", Step: StepText, Status: []int{0, 200, 400, 422, 424, 500},
			Phrase: []string{
				"failed to call a function", "failed to validate json", "failed to generate json",
				"failed_generation", "model produced invalid", "tool call validation failed",
				"parsing failed. the model generated",
			},
			Class: llm.BadOutput, Source: "Groq",
		},
		{
			Name: "text.not_found", Step: StepText, Status: refusals,
			Phrase: []string{
				"model * not found", "model not found", "model * does not exist", "model does not exist",
				"model not exist", "no such model", "unknown model", "deployment * does not exist",
				"deployment * not found", "try pulling it first", "on-demand throughput",
				"model identifier is invalid", "model id * is invalid", "access to the model", "access to model",
				"model use case details", "is not found for api version", "model * decommissioned",
				"model is deprecated", "model * has been deprecated", "model * been retired",
				"model * no longer available", "model * no longer supported", "model * been shut down",
				"end of its life", "end-of-life", "marked by provider as legacy", "no endpoints found for",
				"no endpoints found matching", "no allowed providers", "not a valid model id", "invalid model name",
				"invalid model id", "invalid model:", "invalid model '", "no models loaded",
				"model is not available", "model not available", "does not have access to model",
				"access to this model", "verified to use the model", "terms acceptance",
				"model * is not available in", "no model named", "not_found_error", "unknown provider for model",
				"模型不存在",
			},
			Veto: []string{
				"temporarily", "right now", "try again later", "not available for selected", "overloaded",
				"capacity",
			},
			Class: llm.NotFound, Source: "OpenAI, Bedrock, Gemini, Ollama, Groq, OpenRouter, LiteLLM",
		},
		{
			Name: "text.refused", Step: StepText, Status: append(slices.Clone(refusals), 451, 500),
			Phrase: []string{
				"content management policy", "content filtering policy", "content filter", "content policy",
				"content policies", "content moderation", "usage policy", "usage policies", "acceptable use policy",
				"safety system", "safety filter", "safety polic", "safety reasons", "safety settings",
				"blocked by safety", "blocked by guardrail", "guardrail intervened", "was flagged", "flagged as",
				"flagged for", "flagged by", "potentially violating", "violates our", "violate our",
				"violating our", "violates * policy", "violates * policies", "prohibited content", "prohibited use",
				"prohibited_content", "responsible ai", "inappropriate content", "sensitive content",
				"sensitive word", "sensitive information", "content exists risk", "considered high risk",
				"considered as high risk", "harmful content", "unsafe content", "blocked due to", "sensitive input",
				"input new_sensitive", "output new_sensitive", "敏感", "违规", "不安全", "审核未通过",
			},
			Veto: append(slices.Clone(pacing), "rate limit", "response_format"), Class: llm.Refused,
			Source: "OpenAI, Azure, Anthropic, DashScope, DeepSeek, Moonshot, Zhipu",
		},

		{
			Name: "text.max_output", Step: StepText, Status: refusals,
			Phrase: []string{
				"max_tokens is too large", "maximum allowed number of output tokens",
				"supports at most * completion tokens", "max tokens must be less", "max_tokens must be less",
				"`max_tokens` must be less than or equal", "maxoutputtokens", "max_output_tokens * value",
				"range of max_tokens", "max_completion_tokens is too large",
				"maximum tokens you requested exceeds the model limit", "invalid max_tokens value",
				"above maximum value",
			},
			Class: llm.Invalid, Source: "too much output asked for; a shorter input does not help",
		},
		{
			Name: "text.request_too_large", Step: StepText, Phrase: []string{"request too large"},
			Class:  llm.TooLong,
			Source: "OpenAI and Groq: one request over the whole bucket can never pass, though the code says rate",
		},
		{
			Name: "text.too_long", Step: StepText,
			Phrase: []string{
				"maximum context length is", "maximum context length of", "maximum context length for",
				"exceeds the context window", "exceeds model context window", "exceeded the context window",
				"context window exceeds", "context window is full", "context window exceeded",
				"context length exceeded", "context_length_exceeded", "context size has been exceeded",
				"exceeds the available context", "exceed context", "exceeds the model's context",
				"exceed the model's context", "exceeded this model context", "maximum input tokens",
				"max input tokens", "exceeds the maximum number of tokens", "exceeds * context length",
				"exceed * context length", "exceeds * context limit", "exceeds * context size",
				"exceeded * context length", "longer than the context length", "greater than the context length",
				"longer than the model's context", "longer than the maximum model length", "maximum model length",
				"configured context size", "maximum prompt length", "prompt is too long", "prompt too long",
				"prompt is longer than", "prompt exceeds max", "prompt exceeds the", "prompt length * exceeds",
				"input is too long", "input too long", "input is longer than", "input length * exceed",
				"input tokens exceed", "input token count * exceed", "input token * exceeds the",
				"too many input tokens", "expected maxlength:", "prompt token count of * exceeds",
				"prompt tokens * exceed", "prompt contains * too large for model", "too large for model with",
				"tokens exceed model maximum", "exceed model maximum", "maximum number of tokens allowed",
				"must have less than * tokens", "tokens + `max_new_tokens` must be", "reduce the length of the",
				"reduce your prompt; or completion", "reduce the input length", "please shorten your",
				"shorten the prompt", "max_tokens must be at least 1, got -",
				"max_new_tokens must be at least 1, got -", "payload size exceeds",
				"request exceeds the maximum size", "maximum allowed input length", "maximum input length",
				"range of input length", "exceeded model token limit", "exceed model limit", "exceeds model limit",
				"exceeds the model's maximum", "exceeds the maximum context", "exceed max message tokens",
				"exceeded max context", "total number of tokens in the prompt cannot exceed",
				"trying to keep the first", "n_ctx", "sequence length * exceeds",
				"exceeds the maximum sequence length", "larger than the maximum context",
				"token count * exceeds the", "prompt tokens limit exceeded", "exceeds the limit of * tokens",
				"too large to process", "prompt 超长", "输入过长", "超过最大长度", "上下文长度",
			},
			Veto: append(slices.Clone(pacing),
				"please wait", "per day", "requests per", "quota", "rate limit", "throttl",
			),
			Class: llm.TooLong, Source: "every provider has its own words",
		},
		{
			Name: "text.too_long_loose", Step: StepText, Status: []int{0, 200, 400, 403, 404, 413, 415, 422},
			Phrase: []string{
				"maximum context length", "context window", "context length", "context size", "too many tokens",
				"token limit exceeded", "exceeds the token limit", "exceeds token limit",
				"maximum number of tokens", "request entity too large", "payload too large", "content too large",
			},
			Veto: append(slices.Clone(pacing),
				"please wait", "per day", "quota", "rate limit", "throttl", "max tokens must", "must be",
				"tokens processed",
			),
			Class: llm.TooLong, Source: "loose words, not believed beside a server error",
		},
		{
			Name: "text.unsupported", Step: StepText, Status: []int{0, 200, 400, 404, 405, 422, 501},
			Phrase: []string{
				"does not support", "doesn't support", "not supported with this model",
				"not supported by this model", "not supported for this model", "is not supported by model",
				"not supported by the model", "not supported in this model", "not supported on this model",
				"not supported when using", "unsupported parameter", "no endpoints found that support",
				"not enabled for this model", "is not a multimodal model", "not a chat model",
				"operation does not work with the specified model", "only supports", "不支持",
			},
			Class: llm.Unsupported, Source: "Ollama, OpenAI, OpenRouter, Azure: fine for another model",
		},

		{
			Name: "text.overloaded", Step: StepText,
			Status: []int{0, 200, 400, 408, 424, 429, 498, 500, 502, 503, 504, 520, 529},
			Phrase: []string{
				"overloaded", "no capacity", "out of capacity", "capacity exceeded", "at capacity", "over capacity",
				"insufficient capacity", "exceeded capacity", "capacity temporarily exceeded", "capacity limit",
				"high demand", "high load", "heavy load", "high traffic", "too busy", "server busy",
				"servers are busy", "server is busy", "maximum pending requests", "queue is full", "queue full",
				"system capacity", "temporarily out of", "not ready to serve", "currently loading", "warming up",
				"still loading", "loading model", "繁忙", "访问量过大", "负载",
			},
			VetoCode: []string{"rate_limit_exceeded"}, Class: llm.Overloaded,
			Source: "OpenAI, Anthropic, Gemini, Mistral, Ollama, TGI, Kimi",
		},
		{
			Name: "text.rate_limited", Step: StepText, Status: []int{0, 200, 400, 403, 429, 500, 502, 503},
			Phrase: []string{
				"rate limit exceeded", "rate limit reached", "rate limit is exceeded", "rate limiting",
				"request limit reached", "request limit exceeded", "exceeded * rate limit", "rate-limited",
				"rate limited", "ratelimiterror", "too many requests", "too many tokens, please wait",
				"too many tokens processed", "requests per minute", "tokens per minute", "per minute", "throttled",
				"throttling", "concurrency limit", "max organization concurrency", "exceeded retry limit", "频率",
				"并发",
			},
			Class: llm.RateLimited, Source: "proxies put pacing into other statuses",
		},
		{
			Name: "text.unavailable", Step: StepText, Status: []int{0, 200},
			Phrase: []string{
				"internal server error", "server had an error", "temporarily unavailable", "service unavailable",
				"upstream connect error", "no healthy upstream", "bad gateway", "disconnected unexpectedly",
				"provider returned error",
			},
			Class: llm.Unavailable, Source: "events of streams",
		},
		{
			Name: "text.timeout", Step: StepText, Status: []int{0, 200, 408},
			Phrase: []string{"timed out", "timeout", "took too long"}, Class: llm.Timeout,
			Source: "events of streams; beside another status the word means a connect timeout as well",
		},
		{
			Name: "text.canceled", Step: StepText, Status: []int{499},
			Phrase: []string{"request canceled", "request cancelled", "request was cancel"}, Class: llm.Canceled,
			Source: "Groq, Ollama: a proxy outlived the caller",
		},
	}
}
