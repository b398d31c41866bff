package anthropic_test

import (
	"net/http"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
	"github.com/modelchain/llm/internal/wiretest"
)

// says is the body of an error.
func says(kind, message string) string {
	return `{"type":"error","error":{"details":null,"type":` + wiretest.Quote(kind) + `,"message":` + wiretest.Quote(message) + `}}`
}

func TestMoreFailures(t *testing.T) {
	row := func(name string, status int, class llm.Class, body string) wiretest.Verdict {
		return wiretest.Verdict{Name: name, Status: status, Class: class, Body: body}
	}
	stream := func(name string, class llm.Class, partial, body string) wiretest.Verdict {
		return wiretest.Verdict{Name: name, Status: 200, Kind: wiretest.SSE, Class: class, Partial: partial, Body: body}
	}
	relay := row("a relay that knows its clients", 403, llm.Auth, `{"error":{"type":"client_validation_error","message":"This endpoint takes its own client only"}}`)
	relay.Provider = "anthropic-relay"
	asked := row("a request that the provider would have repeated", 400, llm.Invalid, says("invalid_request_error", "Error"))
	asked.Header = []string{"X-Should-Retry", "true"}
	rows := []wiretest.Verdict{
		row("an account's limit without numbers", 429, llm.RateLimited, says("rate_limit_error", "This request would exceed your account's rate limit. Please try again later.")),
		row("a long context that wants paying", 429, llm.Quota, says("rate_limit_error", "Usage credits are required for long context requests.")),
		row("overload without details", 529, llm.Overloaded, says("overloaded_error", "Overloaded")),
		relay, asked,
		stream("overload before content", llm.Overloaded, "", events(begun, says("overloaded_error", "Overloaded"))),
		stream("overload as the first event", llm.Overloaded, "", events(says("overloaded_error", "Overloaded"))),
		stream("overload after content", llm.Interrupted, "Hel", events(begun, opened, piece("Hel"), says("overloaded_error", "Overloaded"))),
		stream("the filter after content", llm.Refused, "Hel", events(begun, opened, piece("Hel"),
			says("invalid_request_error", "Output blocked by content filtering policy"))),
		stream("a window that filled up after content", llm.Interrupted, "Hel", events(begun, opened, piece("Hel"), closed,
			`{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"},"usage":{"output_tokens":4}}`, over)),
		stream("a window that left no room for content", llm.TooLong, "", events(begun,
			`{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"},"usage":{"output_tokens":0}}`, over)),
	}
	wiretest.Verdicts(t, append(rows, wiretest.Anywhere()...), func(t testing.TB, v wiretest.Verdict, h http.HandlerFunc) llm.Caller {
		return serve(t, h, func(c *anthropic.Config) { c.Provider = v.Provider })
	})
}
