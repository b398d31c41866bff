package openai_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
	"github.com/modelchain/llm/middleware"
)

// says is the body of an error in OpenAI's form; rest is what stands in it beside the message.
func says(message, rest string) string {
	return `{"error":{"message":` + wiretest.Quote(message) + rest + `}}`
}

// Failures of everybody who speaks OpenAI's wire, by what is particular about them.
func failuresOfTheWire() []wiretest.Verdict {
	const bad = `,"type":"invalid_request_error","param":null,"code":null`
	row := func(name, provider string, status int, class llm.Class, body string) wiretest.Verdict {
		return wiretest.Verdict{Name: name, Provider: provider, Status: status, Class: class, Body: body}
	}
	after := func(wait time.Duration, v wiretest.Verdict, header ...string) wiretest.Verdict {
		v.Wait, v.Header = wait, header
		return v
	}
	return []wiretest.Verdict{
		row("an address that may not call", "openai", 401, llm.Auth, says("IP not authorized", `,"type":"invalid_request_error","code":"ip_not_authorized"`)),
		row("a region that is not served", "openai", 403, llm.Auth,
			says("Country, region, or territory not supported", `,"type":"request_forbidden","code":"unsupported_country_region_territory"`)),
		row("messages beyond the window", "openai", 400, llm.TooLong,
			says("This model's maximum context length is 16385 tokens. However, your messages resulted in 20112 tokens.", bad)),
		row("an answer that does not fit beside its messages", "openai", 400, llm.TooLong,
			says("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (7000 in the messages, 2000 in the completion).", bad)),
		row("a limit that was set", "openai", 400, llm.TooLong, says("Input tokens exceed the configured limit of 1000 tokens. Your messages resulted in 1200 tokens.", bad)),
		row("more than a minute's tokens in one request", "openai", 429, llm.TooLong, says("Request too large for gpt-x in organization org-1 on tokens per min (TPM): "+
			"Limit 10000, Requested 12001. The input or output tokens must be reduced in order to run successfully.", `,"type":"tokens","code":"rate_limit_exceeded"`)),
		row("a prompt that was flagged", "openai", 400, llm.Refused,
			says("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", `,"type":"invalid_request_error","code":"invalid_prompt"`)),
		row("a quota told by its type alone", "openai", 429, llm.Quota, says("You ran out.", `,"type":"insufficient_quota","code":null`)),
		after(3*time.Minute+200*time.Millisecond, row("requests per day, of which some come back", "openai", 429, llm.RateLimited,
			says("Rate limit reached for gpt-x on requests per day (RPD): Limit 480, Used 480, Requested 1. Please try again in 3m0.2s.", `,"type":"requests","code":"rate_limit_exceeded"`))),
		after(71*time.Millisecond, row("a wait in the text, in milliseconds", "openai", 429, llm.RateLimited,
			says("Rate limit reached for gpt-x on tokens per min (TPM): Limit 9000, Used 8999, Requested 11. Please try again in 71ms.", `,"type":"tokens","code":"rate_limit_exceeded"`))),
		row("a value out of its range", "openai", 400, llm.Invalid,
			says("Invalid 'top_p': decimal above maximum value. Expected a value <= 1, but got 3 instead.", `,"type":"invalid_request_error","code":"decimal_above_max_value"`)),
		row("another organization's reasoning", "openai", 400, llm.Invalid,
			says("The encrypted content could not be verified.", `,"type":"invalid_request_error","code":"invalid_encrypted_content"`)),
		row("overload that calls itself a rate limit", "openai", 429, llm.Overloaded,
			says("That model is currently overloaded with other requests.", `,"type":"server_error","param":null,"code":null`)),

		row("a network that may not call", "azure", 403, llm.Auth, says("Public access is disabled. Please configure private endpoint.", `,"code":"403"`)),
		row("a call without its key", "azure", 401, llm.Auth, ""),
		row("a path that leads nowhere", "azure", 404, llm.NotFound, says("Resource not found", `,"code":"404"`)),
		row("a filter of the system", "azure", 400, llm.Refused, says("Your request was rejected as a result of our safety system.",
			`,"type":"invalid_request_error","code":"content_policy_violation","inner_error":{"code":"ResponsibleAIPolicyViolation"}`)),
		after(24*time.Hour, row("a day's wait", "azure", 429, llm.Quota, says("Requests to the ChatCompletions_Create Operation have exceeded token rate limit "+
			"of your current OpenAI S0 pricing tier. Please retry after 86400 seconds.", `,"code":"429"`))),
		after(7*time.Second, row("a minute's limit that advertises more", "azure", 429, llm.RateLimited, says("Requests to the ChatCompletions_Create Operation have "+
			"exceeded call rate limit of your current OpenAI S0 pricing tier. Please retry after 7 seconds. Go to https://aka.ms/oai/quotaincrease for more.", `,"code":"429"`))),
		after(12*time.Second, row("a gateway before it", "azure", 429, llm.RateLimited, `{"statusCode":429,"message":"Rate limit is exceeded. Try again in 12 seconds."}`)),
		after(900*time.Millisecond, row("its own header", "azure", 429, llm.RateLimited, says("Too many requests", `,"code":"429"`)), "X-Ms-Retry-After-Ms", "900", "Retry-After", "1"),
		row("a failure within it", "azure", 500, llm.Unavailable, says("The server had an internal error", `,"code":"InternalServerError"`)),

		row("no body, which is a window that was exceeded", "cerebras", 400, llm.TooLong, ""),
		row("no body and a size", "cerebras", 413, llm.TooLong, ""),
		row("a quota that is a pace", "cerebras", 429, llm.RateLimited,
			`{"message":"Requests per minute limit exceeded - too many requests sent.","type":"too_many_requests_error","param":"quota","code":"request_quota_exceeded"}`),

		row("a key that has expired", "cohere", 401, llm.Auth, `{"message":"Your API key has expired."}`),
		row("too many tokens in", "cohere", 400, llm.TooLong, `{"message":"too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5001."}`),
		row("too many tokens out", "cohere", 400, llm.Invalid,
			`{"message":"too many tokens: max tokens must be less than or equal to 2048, the maximum output for this model - received 9000."}`),
		row("a model that it does not know", "cohere", 404, llm.NotFound, `{"message":"model 'x' not found, make sure the correct model ID was used"}`),
		row("no means of payment", "cohere", 402, llm.Quota, `{"message":"Please add or update your payment method to continue"}`),
		row("a trial's limit", "cohere", 429, llm.RateLimited, `{"message":"You are using a Trial key, which is limited to 20 API calls / minute. Upgrade to a Production key for higher limits."}`),
		row("a tool's id that it does not know", "cohere", 400, llm.Invalid, `{"message":"tool call id not found in previous tool calls"}`),

		row("a code that is a number", "fireworks", 401, llm.Auth, says("The API key you provided is invalid.", `,"code":401,"type":"error"`)),
		row("an account that does not pay", "fireworks", 402, llm.Quota, says("Payment Required: account has exceeded usage limits", `,"code":402`)),
		row("a field that it does not know", "fireworks", 400, llm.Invalid,
			says("Extra inputs are not permitted, field: 'seedling', value: 1", `,"object":"error","code":"invalid_request_error"`)),
		row("a prompt's tokens", "github-copilot", 400, llm.TooLong, says("prompt token count of 70001 exceeds the limit of 64000", "")),
		row("a window without numbers", "minimax", 400, llm.TooLong, says("invalid params, context window exceeds limit", "")),

		row("more than a minute's tokens at once", "groq", 413, llm.TooLong, says("Request too large for model `llama` on tokens per minute (TPM): Limit 6000, "+
			"Requested 9001, please reduce your message size and try again.", `,"type":"tokens","code":"rate_limit_exceeded"`)),
		after(2500*time.Millisecond, row("a wait with a float's tail", "groq", 429, llm.RateLimited, says("Rate limit reached for model `llama` on tokens per minute "+
			"(TPM): Limit 6000, Used 5001, Requested 1249. Please try again in 2.499999999s. Need more tokens? Upgrade today.", `,"type":"tokens","code":"rate_limit_exceeded"`))),
		row("output that cannot be processed", "groq", 422, llm.BadOutput, says("Unprocessable Entity", bad)),
		row("something it depends on", "groq", 424, llm.Unavailable, says("Failed Dependency", bad)),

		after(24*time.Hour, row("another's error in its words", "litellm-proxy", 429, llm.Quota, says("litellm.RateLimitError: AzureException RateLimitError - Error code: 429 - "+
			"{'error': {'code': '429', 'message': 'Requests have exceeded token rate limit. Please retry after 86400 seconds.'}}", `,"type":"None","param":"None","code":"429"`))),
		row("nothing behind it", "litellm-proxy", 429, llm.RateLimited, says("No deployments available for selected model.", `,"type":"None","param":"None","code":"429"`)),

		row("an error in place of an answer", "llama.cpp", 200, llm.TooLong,
			says("the request exceeds the available context size, try increasing it", `,"code":400,"type":"exceed_context_size_error"`)),
		row("a server's error that is the request's", "llama.cpp", 500, llm.TooLong,
			says("the request exceeds the available context size, try increasing it", `,"code":500,"type":"exceed_context_size_error"`)),

		row("a problem by its standard", "meta-llama-api", 429, llm.RateLimited,
			`{"title":"Too Many Requests","detail":"You have exceeded the maximum number of tokens allowed within a time frame.","status":429}`),
		row("a key in a flat body", "mistral", 401, llm.Auth, `{"message":"Unauthorized","request_id":"r-1"}`),
		row("a limit in a flat body", "mistral", 429, llm.RateLimited, `{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":"1300"}`),
		row("a request in a flat body", "mistral", 422, llm.Invalid,
			`{"object":"error","message":"The value is out of range.","type":"invalid_request_error","param":"temperature","code":"wrong_value"}`),

		row("a window in a text alone", "ollama", 400, llm.TooLong, `{"error":"the prompt is longer than the context length currently available to the model"}`),
		row("what a model cannot do", "ollama", 400, llm.Unsupported, `{"error":"\"x\" does not support thinking"}`),
		row("a queue that is full", "ollama", 503, llm.Overloaded, says("server busy, please try again.  maximum pending requests exceeded", `,"type":"api_error"`)),

		row("JSON after prose", "openrouter", 400, llm.TooLong,
			says(`Provider returned error: {"error":{"message":"This endpoint's maximum context length is 8192 tokens.","code":400}}`, `,"code":400`)),
		row("moderation that looks like a permission", "openrouter", 403, llm.Refused, says(`a/b requires moderation. Your input was flagged for "self-harm".`,
			`,"code":403,"metadata":{"reasons":["self-harm"],"flagged_input":"…","provider_name":"A"}`)),
		row("a day's free calls", "openrouter", 429, llm.Quota, says("Rate limit exceeded: free-models-per-day. Add credits to unlock more.",
			`,"code":429,"metadata":{"headers":{"X-RateLimit-Limit":"50","X-RateLimit-Remaining":"0"}}`)),
		row("a day's free calls by their name", "openrouter", 429, llm.Quota, says("Rate limit exceeded.", `,"code":429,"metadata":{"limit_source":"openrouter_free_tier_daily"}`)),
		after(3*time.Second, row("money that comes back", "openrouter", 402, llm.RateLimited,
			says("In-flight spending budget exceeded", `,"code":402,"metadata":{"limit_source":"openrouter_in_flight_budget"}`)), "Retry-After", "3"),
		row("a limit behind it", "openrouter", 429, llm.RateLimited,
			says("Provider returned error", `,"code":429,"metadata":{"raw":"x is temporarily rate-limited upstream. Please retry shortly.","provider_name":"X"}`)),
		row("its error in place of an answer", "openrouter", 200, llm.Unavailable, says("Internal Server Error", `,"code":500`)),

		row("inputs beyond the window", "tgi", 422, llm.TooLong, `{"error":"Input validation error: `+"`inputs`"+` must have less than 1024 tokens. Given: 1500","error_type":"validation"}`),
		row("a temperature below zero", "tgi", 422, llm.Invalid, `{"error":"Input validation error: `+"`temperature`"+` must be strictly positive","error_type":"validation"}`),
		row("a generation that stopped", "tgi", 500, llm.Unavailable, `{"error":"Incomplete generation","error_type":"incomplete_generation"}`),
		row("a generation that failed", "tgi", 424, llm.Unavailable, `{"error":"Request failed during generation: out of memory","error_type":"generation"}`),
		row("inputs and answer beyond the window", "together", 422, llm.TooLong,
			says("`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 `inputs` tokens and 300 `max_new_tokens`", bad)),
		row("a window that left less than nothing", "vllm", 400, llm.TooLong,
			`{"object":"error","message":"max_tokens must be at least 1, got -7.","type":"BadRequestError","param":null,"code":400}`),

		row("credits that look like a permission", "xai", 403, llm.Quota, `{"code":"personal-team-blocked:spending-limit","error":"You have run out of credits."}`),
		row("a sentence for a code", "xai", 400, llm.Invalid, `{"code":"Client specified an invalid argument","error":"Each message must have at least one content element."}`),
	}
}

func TestFailuresOfAllWhoSpeakTheWire(t *testing.T) {
	rows := append(failuresOfTheWire(), wiretest.Anywhere()...)
	t.Run("chats", func(t *testing.T) {
		wiretest.Verdicts(t, rows, func(t testing.TB, v wiretest.Verdict, h http.HandlerFunc) llm.Caller {
			return serve(t, h, openai.Config{Provider: v.Provider})
		})
	})
	t.Run("responses", func(t *testing.T) {
		wiretest.Verdicts(t, rows, func(t testing.TB, v wiretest.Verdict, h http.HandlerFunc) llm.Caller {
			return serveResponses(t, h, openai.Config{Provider: v.Provider})
		})
	})
}

func TestFailuresWithinChats(t *testing.T) {
	stream := func(name string, class llm.Class, partial, body string) wiretest.Verdict {
		return wiretest.Verdict{Name: name, Status: 200, Kind: wiretest.SSE, Body: body, Class: class, Partial: partial}
	}
	rows := []wiretest.Verdict{
		{Name: "an answer without content", Status: 200, Class: llm.BadOutput,
			Body: `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":9}}`},
		{Name: "no room for an answer", Provider: "vllm", Status: 200, Class: llm.TooLong,
			Body: `{"choices":[{"index":0,"finish_reason":"length","message":{"role":"assistant","content":null}}],"usage":{"prompt_tokens":8192,"completion_tokens":0}}`},
		{Name: "half of an answer", Status: 200, Class: llm.BadOutput, Body: `{"id":"c-1","choices":[{"index":0,"message":{"role":"assistant","content":"Hel`},
		stream("the end before the finish reason", llm.Interrupted, "Hel", role+first),
		stream("a character that was cut", llm.Interrupted, "Hel", first+`data: {"choices":[{"index":0,"delta":{"content":"caf`+"\xc3"+`"}}]}`+"\n\n"),
		stream("a status for a code", llm.Invalid, "", `data: {"error":{"message":"no","type":"provider_error","param":null,"code":400}}`+"\n\n"+done),
		stream("a blank before the error", llm.Unavailable, "", `data: { "error":{"message":"Internal error","code":500}}`+"\n\n"),
		stream("no line feed after the error", llm.Unavailable, "", `data: {"error":{"message":"it broke","type":"server_error"}}`),
		stream("an error, and DONE all the same", llm.Unavailable, "", `data: {"error":{"message":"The server had an error","type":"server_error","code":null}}`+"\n\n"+done),
		stream("nothing that can be read", llm.BadOutput, "", "data: {what}\n\n"),
		stream("an error after output", llm.Interrupted, "Hel", role+first+`data: {"error":{"message":"The server had an error","type":"server_error"}}`+"\n\n"),
		stream("an error beside a finish reason", llm.Interrupted, "Hel",
			first+`data: {"error":{"code":"server_error","message":"gone"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`+"\n\n"),
		stream("an error after signs of life", llm.Unavailable, "", ": working\n\n: working\n\n"+
			`data: {"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"upstream is gone"}}}`+"\n\n"),
		stream("an error event by its name", llm.TooLong, "", "event: error\n"+`data: {"error":{"message":"Context size has been exceeded."}}`+"\n\n"),
		stream("an error within an error", llm.TooLong, "", `data: {"type":"error","value":{"code":"error","message":"Stream error occurred","error_message":`+
			wiretest.Quote(says("This model's maximum context length is 4096 tokens.", `,"code":400`))+`}}`+"\n\n"),
	}
	wiretest.Verdicts(t, rows, func(t testing.TB, v wiretest.Verdict, h http.HandlerFunc) llm.Caller {
		return serve(t, h, openai.Config{Provider: v.Provider})
	})
}

// keepAlive is a body of comments alone, one a second for as long as somebody listens.
type keepAlive struct{ ctx context.Context } //nolint:containedctx // the request's

func (k keepAlive) Read(p []byte) (int, error) {
	second := time.NewTimer(time.Second)
	defer second.Stop()
	select {
	case <-second.C:
		return copy(p, ": working\n\n"), nil
	case <-k.ctx.Done():
		return 0, k.ctx.Err()
	}
}

func TestSignsOfLifeAreNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := wiretest.InMemory(200, wiretest.SSE, func(ctx context.Context) io.Reader { return keepAlive{ctx} })
		limited := middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{FirstToken: 5500 * time.Millisecond})
		began := time.Now()
		_, resp, err := wiretest.Collect(t.Context(), limited.Wrap(openai.New(openai.Config{Model: "m", HTTPClient: client})), wiretest.Ask("hi"))
		if e := wiretest.Failure(t, resp, err); e.Class != llm.Stalled || time.Since(began) != 5500*time.Millisecond {
			t.Errorf("%v after %v", e, time.Since(began))
		}
	})
}
