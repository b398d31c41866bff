package bedrock_test

import (
	"net/http"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestMoreFailures(t *testing.T) {
	row := func(name string, status int, class llm.Class, exception, message string) wiretest.Verdict {
		return wiretest.Verdict{
			Name: name, Status: status, Class: class, Body: `{"message":` + wiretest.Quote(message) + `}`, Header: []string{"X-Amzn-Errortype", exception},
		}
	}
	stream := func(name string, class llm.Class, partial, body string) wiretest.Verdict {
		return wiretest.Verdict{Name: name, Status: 200, Kind: frameType, Class: class, Partial: partial, Body: body}
	}
	whole := func(name string, class llm.Class, body string) wiretest.Verdict {
		return wiretest.Verdict{Name: name, Status: 200, Class: class, Body: body}
	}
	modeled := func(name string) string { return exception(name, `{"message":"Modeled exception: `+name+`"}`) }
	half := begun + piece("Hel")
	rows := []wiretest.Verdict{
		row("too many tokens in, which is no throttling", 400, llm.TooLong, "ValidationException", "Too many input tokens. Max input tokens: 4096, request input token count: 5000"),
		row("tokens of a day", 429, llm.Quota, "ThrottlingException", "Too many tokens per day, please wait before trying again."),
		row("a model that is kept for its old users", 404, llm.NotFound, "ResourceNotFoundException",
			"Access denied. This Model is marked by provider as Legacy and you have not been actively using the model recently."),
		row("a model whose form is not filled in", 404, llm.NotFound, "ResourceNotFoundException",
			"Model use case details have not been submitted for this account. Fill out the use case details form before using the model."),
		row("an image that cannot be read", 400, llm.Invalid, "ValidationException", "Could not process image"),
		row("a conversation that begins with the model", 400, llm.Invalid, "ValidationException", "A conversation must start with a user message."),
		whole("a malformed call of a tool", llm.BadOutput, `{"output":{"message":{"role":"assistant","content":[]}},"stopReason":"malformed_tool_use","usage":{"inputTokens":9,"outputTokens":2}}`),
		stream("throttling before content", llm.RateLimited, "", begun+modeled("throttlingException")),
		stream("throttling after content", llm.Interrupted, "Hel", half+modeled("throttlingException")),
		stream("a request found wanting", llm.Invalid, "", modeled("validationException")),
		stream("a model that failed while it spoke", llm.Interrupted, "Hel", half+modeled("modelStreamErrorException")),
		stream("no service", llm.Unavailable, "", modeled("serviceUnavailableException")),
		stream("a failure within it", llm.Unavailable, "", begun+modeled("internalServerException")),
		stream("a frame that was cut", llm.Interrupted, "Hel", half+piece("lo")[:20]),
		stream("a frame that was cut before content", llm.Interrupted, "", begun+piece("Hel")[:20]),
	}
	wiretest.Verdicts(t, append(rows, wiretest.Anywhere()...), func(t testing.TB, _ wiretest.Verdict, h http.HandlerFunc) llm.Caller {
		return serve(t, h)
	})
}
