package wiretest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
)

// A Verdict is how a call fails on the wire, and what is to be made of it.
type Verdict struct {
	Name string
	// Provider is whose answer it is. "": that of the adapter.
	Provider string
	Status   int
	// Kind is the media type of Body. "": JSON. One of a stream has no answer in one piece.
	Kind, Body string
	// Header alternates between name and value.
	Header []string

	Class llm.Class
	Wait  time.Duration
	// Partial is the text that came before it.
	Partial string
}

// Verdicts makes a call of each, whole and streamed, to what caller makes around a server that answers so.
func Verdicts(t *testing.T, rows []Verdict, caller func(testing.TB, Verdict, http.HandlerFunc) llm.Caller) {
	for _, v := range rows {
		if v.Kind == "" {
			v.Kind = JSON
		}
		for _, streamed := range []bool{false, true} {
			form := "/whole"
			if streamed {
				form = "/streamed"
			} else if v.Kind == SSE || strings.HasSuffix(v.Kind, "eventstream") {
				continue
			}
			t.Run(v.Name+form, func(t *testing.T) {
				s := &Recorder{Next: Says(v.Status, v.Kind, v.Body, v.Header...)}
				req := Ask("hi")
				if streamed {
					req.Sink = func(llm.Delta) error { return nil }
				}
				resp, err := (&llm.Deployment{Name: "d", Caller: caller(t, v, s.ServeHTTP)}).Call(t.Context(), req)
				e := Failure(t, resp, err)
				if e.Class != v.Class || e.RetryAfter != v.Wait {
					t.Errorf("class %v by %q, wait %v; want %v, %v: %v", e.Class, e.Rule, e.RetryAfter, v.Class, v.Wait, e)
				}
				if e.Partial.Text() != v.Partial || e.Evidence.Status != v.Status || s.Calls() != 1 {
					t.Errorf("partial %q, status %d, %d requests", e.Partial.Text(), e.Evidence.Status, s.Calls())
				}
			})
		}
	}
}

// Anywhere is how calls fail at proxies and servers that may stand before any provider: waits in every form that headers
// have, pages, and bodies without form.
func Anywhere() []Verdict {
	const limited = `{"error":{"message":"Slow down, please","type":"rate_limit_error"}}`
	wait := func(name string, want time.Duration, header ...string) Verdict {
		return Verdict{Name: name, Status: 429, Body: limited, Header: header, Class: llm.RateLimited, Wait: want}
	}
	const date = "Tue, 03 Mar 2037 09:00:00 GMT"
	page := func(name string, status int, kind, body string, class llm.Class) Verdict {
		return Verdict{Name: name, Status: status, Kind: kind, Body: body, Class: class}
	}
	const envoy = "upstream connect error or disconnect/reset before headers. "
	return []Verdict{
		wait("no wait", 0),
		wait("a wait in seconds", 11*time.Second, "Retry-After", "11"),
		wait("a wait with a fraction", 2250*time.Millisecond, "Retry-After", "2.25"),
		wait("a wait in milliseconds goes before one in seconds", 1700*time.Millisecond, "Retry-After-Ms", "1700", "Retry-After", "4"),
		wait("a date, from the server's clock", 40*time.Second, "Retry-After", "Tue, 03 Mar 2037 09:00:40 GMT", "Date", date),
		wait("a date that has passed", 0, "Retry-After", "Mon, 02 Mar 2037 09:00:00 GMT", "Date", date),
		wait("a wait of millennia says nothing", 0, "Retry-After", "88888888888"),
		wait("a wait below zero says nothing", 0, "Retry-After-Ms", "-250"),
		wait("a wait that is no number says nothing", 0, "Retry-After", "soon"),
		wait("a reset in seconds", 21*time.Second, "X-Ratelimit-Reset-After", "21"),
		wait("a reset as an epoch", 25*time.Second, "Date", date, "X-Ratelimit-Reset", "2119683625", "X-Ratelimit-Remaining", "0"),
		page("a proxy whose connection was ended", 503, "text/plain", envoy+"reset reason: connection termination", llm.Unavailable),
		page("a proxy that could not connect in time", 503, "text/plain", envoy+"reset reason: connection timeout", llm.Unavailable),
		page("a proxy without a server", 503, "text/plain", "no healthy upstream", llm.Unavailable),
		page("a page of the edge", 520, "text/html; charset=UTF-8", "<!DOCTYPE html><html><head><title>example.com | 520: Web "+
			"server is returning an unknown error</title></head></html>", llm.Unavailable),
		page("a page without a title", 503, "text/html", "<html>upstream</html>", llm.Unavailable),
		page("a server error that speaks of windows", 500, "",
			`{"error":{"message":"failed to compute the maximum context length","type":"server_error"}}`, llm.Unavailable),
		page("nothing", 200, "", "", llm.BadOutput),
		page("prose where JSON was due", 200, "", "I am sorry", llm.BadOutput),
	}
}
