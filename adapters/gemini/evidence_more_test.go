package gemini_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
	"github.com/modelchain/llm/internal/wiretest"
)

// says is the body of an error; details are those of google.rpc.
func says(code int, status, message, details string) string {
	return fmt.Sprintf(`{"error":{"code":%d,"message":%s,"status":%q,"details":[%s]}}`, code, wiretest.Quote(message), status, details)
}

// reason is a google.rpc.ErrorInfo, wait a google.rpc.RetryInfo, quota a google.rpc.QuotaFailure.
func reason(word string) string {
	return `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":` + wiretest.Quote(word) + `,"domain":"googleapis.com"}`
}

func wait(d string) string {
	return `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":` + wiretest.Quote(d) + `}`
}

func quota(id, value string) string {
	return `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/requests",` +
		`"quotaId":` + wiretest.Quote(id) + `,"quotaValue":` + wiretest.Quote(value) + `}]}`
}

func TestMoreFailures(t *testing.T) {
	row := func(name string, status int, class llm.Class, body string) wiretest.Verdict {
		return wiretest.Verdict{Name: name, Status: status, Class: class, Body: body}
	}
	after := func(d time.Duration, v wiretest.Verdict) wiretest.Verdict {
		v.Wait = d
		return v
	}
	stream := func(name string, class llm.Class, partial, body string) wiretest.Verdict {
		return wiretest.Verdict{Name: name, Status: 200, Kind: wiretest.SSE, Class: class, Partial: partial, Body: body}
	}
	const exceeded = "You exceeded your current quota, please check your plan and billing details."
	rows := []wiretest.Verdict{
		row("a project that is refused", 403, llm.Auth, says(403, "PERMISSION_DENIED", "Your project has been denied access. Please contact support.", "")),
		row("a resource that is refused, in a list", 403, llm.Auth, "["+says(403, "PERMISSION_DENIED", "Permission denied on resource project x.", reason("CONSUMER_INVALID"))+"]"),
		row("an account that was suspended", 403, llm.Auth, says(403, "PERMISSION_DENIED", "Permission denied: Consumer has been suspended.", reason("CONSUMER_SUSPENDED"))),
		row("a caller without the permission", 403, llm.Auth, says(403, "PERMISSION_DENIED", "The caller does not have permission", "")),
		row("an API that is off", 403, llm.Auth, says(403, "PERMISSION_DENIED", "The API has not been used in project 1 before or it is disabled.", reason("SERVICE_DISABLED"))),
		row("more than the window, in a list", 400, llm.TooLong,
			"["+says(400, "INVALID_ARGUMENT", "The input token count (70000) exceeds the maximum number of tokens allowed (65536).", "")+"]"),
		row("more bytes than are taken", 400, llm.TooLong, says(400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 1048576 bytes.", "")),
		after(44*time.Second+125*time.Millisecond, row("tokens per minute of who pays", 429, llm.RateLimited, says(429, "RESOURCE_EXHAUSTED", exceeded,
			quota("GenerateContentPaidTierInputTokensPerModelPerMinute", "1000000")+","+wait("44.125s")))),
		after(250*time.Millisecond, row("a pace with a wait below a second", 429, llm.RateLimited, says(429, "RESOURCE_EXHAUSTED",
			"You have exhausted your capacity on this model. Your quota will reset after 0s.", reason("RATE_LIMIT_EXCEEDED")+","+wait("0.250000s")))),
		row("a limit of nothing at all", 429, llm.Quota, says(429, "RESOURCE_EXHAUSTED", exceeded+" limit: 0", quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "0"))),
		row("credits that are used up", 429, llm.Quota, says(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota).", reason("INSUFFICIENT_G1_CREDITS_BALANCE"))),
		row("exhausted, and nothing more", 429, llm.RateLimited, says(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota).", "")),
		after(6*time.Second, row("no room for a model", 503, llm.Overloaded, says(503, "UNAVAILABLE", "No capacity available for model x on the server",
			reason("MODEL_CAPACITY_EXHAUSTED")+","+wait("6s")))),
		row("no room that calls itself a limit", 429, llm.Overloaded, says(429, "RESOURCE_EXHAUSTED", "Unable to submit request because the service is temporarily out of capacity.", "")),
		row("a failure within it", 500, llm.Unavailable, says(500, "INTERNAL", "An internal error has occurred. Please retry.", "")),
		stream("the end before a finish reason", llm.Interrupted, "The answer", events(piece("The answer"))),
		stream("an end without content", llm.BadOutput, "", events(chunk(`{"text":""}`, stop, used))),
		stream("overload as the first event", llm.Overloaded, "", events(says(503, "UNAVAILABLE", "The model is overloaded. Please try again later.", ""))),
		stream("overload after content", llm.Interrupted, "Hel", events(piece("Hel"), says(503, "UNAVAILABLE", "The model is overloaded. Please try again later.", ""))),
	}
	rows = append(rows, wiretest.Anywhere()...)
	for _, place := range []struct {
		name   string
		change func(*gemini.Config)
	}{
		{"the Developer API", func(*gemini.Config) {}},
		{"Vertex AI", func(c *gemini.Config) { c.Project = "my-project" }},
	} {
		t.Run(place.name, func(t *testing.T) {
			wiretest.Verdicts(t, rows, func(t testing.TB, _ wiretest.Verdict, h http.HandlerFunc) llm.Caller {
				return serve(t, h, place.change)
			})
		})
	}
}
