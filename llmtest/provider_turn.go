package llmtest

import (
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest/internal/wire"
)

// An Act is what a [Provider] does with a request. The zero Act answers. [Act.Help] says more of each.
type Act string

// The acts that answer with status 200 and are whole.
const (
	DoAnswer Act = "answer" // what the model says
	DoRefuse Act = "refuse" // the model declines
	DoFilter Act = "filter" // a filter cuts the answer
	DoEmpty  Act = "empty"  // no content
)

// The acts that fail by a status, with the body and the headers that the provider has for it.
const (
	DoRateLimited   = Act(wire.RateLimited)
	DoQuota         = Act(wire.Quota)
	DoOverloaded    = Act(wire.Overloaded)
	DoUnavailable   = Act(wire.Unavailable)
	DoServerError   = Act(wire.ServerError)
	DoTimeout       = Act(wire.Timeout)
	DoAuth          = Act(wire.Auth)
	DoForbidden     = Act(wire.Forbidden)
	DoNotFound      = Act(wire.NotFound)
	DoTooLong       = Act(wire.TooLong)
	DoContentPolicy = Act(wire.Policy)
	DoInvalid       = Act(wire.Invalid)
	DoToolSchema    = Act(wire.ToolSchema)
)

// The acts of what stands before a provider.
const (
	DoPage      Act = "page"       // HTML; status 502
	DoRaw       Act = "raw"        // the turn's own status, header and body
	DoBlank     Act = "blank"      // status 200 and not one byte
	DoWrongType Act = "wrong_type" // the true answer as text/plain
)

// The acts of a connection.
const (
	DoReset        Act = "reset"         // before any byte
	DoResetHeaders Act = "reset_headers" // in the midst of the headers
	DoResetBody    Act = "reset_body"    // after At pieces
	DoClose        Act = "close"         // in good order, before any byte
	DoSilence      Act = "silence"       // accepts and says nothing
)

// The acts that break an answer on its way.
const (
	DoStall     Act = "stall"     // says nothing more after At pieces
	DoCut       Act = "cut"       // ends after At pieces as if it were whole
	DoCutChunk  Act = "cut_chunk" // ends in the midst of a chunk
	DoMalformed Act = "malformed" // an event that is no JSON, then the rest
	DoTruncated Act = "truncated" // an event that lost its end, then the rest
	DoError     Act = "error"     // a failure in band
	DoNoFinish  Act = "no_finish" // does not say why it ended
	DoNoDone    Act = "no_done"   // leaves out what follows that
	DoNoEnd     Act = "no_end"    // leaves out both
)

var acts = []struct {
	act  Act
	text string
}{
	{DoAnswer, "answer with text, reasoning and calls; what an act that is left out does"},
	{DoRefuse, "the model declines, as its API tells that; text is what it says"},
	{DoFilter, "a filter of the provider's cuts the answer after text"},
	{DoEmpty, "an answer without content, that says that it is whole"},
	{DoRateLimited, "429, with retry_after and the limits in headers or body"},
	{DoQuota, "only billing helps: insufficient_quota, no credit, a daily limit"},
	{DoOverloaded, "the provider sheds load: 503, Anthropic's 529"},
	{DoUnavailable, "503"},
	{DoServerError, "500"},
	{DoTimeout, "the provider's own time-out: 504, Bedrock's 408; status 524 is Cloudflare's page"},
	{DoAuth, "the key is not accepted: 401, Google's 400, AWS's 403"},
	{DoForbidden, "the key is accepted but may not: 403"},
	{DoNotFound, "no such model: 404"},
	{DoTooLong, "the prompt does not fit the window: 400"},
	{DoContentPolicy, "the prompt is not allowed: 400; of Gemini and Bedrock an answer that was blocked"},
	{DoInvalid, "the request is malformed: 400"},
	{DoToolSchema, "the schema of a tool is malformed: 400"},
	{DoPage, "a page of HTML in the place of an answer, by nginx or Cloudflare; status 502"},
	{DoRaw, "status, header and body as they are given; status 200"},
	{DoBlank, "status 200 and not one byte"},
	{DoWrongType, "the true answer as text/plain, or as content_type says"},
	{DoReset, "the connection is reset before any byte of the answer"},
	{DoResetHeaders, "the connection is reset in the midst of the headers"},
	{DoResetBody, "the connection is reset after at pieces of the answer"},
	{DoClose, "the connection is closed in good order before any byte of the answer"},
	{DoSilence, "the request is accepted and nothing is said for hold, or until the client leaves"},
	{DoStall, "after at pieces nothing more is said for hold, or until the client leaves; then the connection is cut"},
	{DoCut, "after at pieces the answer ends as if it were whole (its length is not told)"},
	{DoCutChunk, "after at pieces the connection ends in the midst of a chunk"},
	{DoMalformed, "after at pieces comes an event that is no JSON, then the rest"},
	{DoTruncated, "after at pieces comes an event of content that lost its end, then the rest"},
	{DoError, "after at pieces comes the failure called error, in band, and the stream ends"},
	{DoNoFinish, "all content comes, but not why it ended (finish_reason, message_delta, messageStop)"},
	{DoNoDone, "all comes but what follows that ([DONE], message_stop, metadata)"},
	{DoNoEnd, "all content comes and nothing that says that it is whole"},
}

// Acts are all acts, in order.
func Acts() []Act {
	all := make([]Act, len(acts))
	for i, a := range acts {
		all[i] = a.act
	}
	return all
}

// Help says what an act does, in a line. "": there is no such act.
func (a Act) Help() string {
	for _, known := range acts {
		if known.act == a {
			return known.text
		}
	}
	return ""
}

// A Turn is what a [Provider] does with one request. The zero Turn answers "ok". In a scenario file its fields are written in
// lower case with underscores, times as "250ms".
type Turn struct {
	Do Act
	// Name is told in the log. "": Do.
	Name string
	// Times is how many requests it is for, one after the other. 0: one; the last of a route is for all that come.
	Times int
	// OneOf is drawn from for each request, by Weight, in the place of the rest. nil: this Turn itself.
	OneOf []Turn
	// Weight is the share of this Turn in a OneOf. 0: 1.
	Weight float64

	// Text is the text of the answer, an event for each word; Pieces the same with your own pieces. Both empty: "ok".
	Text   string
	Pieces []string
	// Reasoning is what the model thinks before it, an event for each word. "": nothing.
	Reasoning string
	// Calls are tool calls after the text, each in several events where the API has those. With Calls no text is made up.
	Calls []llm.ToolCall
	// Stop is why the answer ended. "": it was done, or waits for tool results.
	Stop llm.StopReason
	// Usage is what it consumed. Zero: counted by the length of texts, four bytes a token. NoUsage: not told.
	Usage   llm.Usage
	NoUsage bool
	// Model is the model that the answer names. "": the one asked for.
	Model string

	// Wait passes before the headers, First between them and the first piece of content, Gap before each further piece. Zero: no
	// time; a zero Wait is the route's.
	Wait, First, Gap Latency
	// At is how many pieces of content come before what breaks the answer. An answer in one piece breaks at its half.
	At int
	// Hold is how long DoSilence and DoStall last. 0: until the client leaves.
	Hold time.Duration

	// Error is the failure of DoError, such as DoRateLimited. "": DoOverloaded.
	Error Act
	// RetryAfter is the wait that a failure asks for, told as the API tells it. 0: none.
	RetryAfter time.Duration
	// Status is the status in the place of the act's own. 0: its own.
	Status int
	// Header holds headers that are set beside the act's own.
	Header map[string]string
	// Body is the body of DoRaw, or of a failure in the place of the provider's own. "": its own.
	Body string
	// ContentType is the media type in the place of the true one. "": the true one.
	ContentType string
}

// A Latency is a time that is drawn anew each time. The zero Latency is no time.
type Latency struct {
	// Fixed is always the same time, before what is drawn.
	Fixed time.Duration
	// Min and Max bound an even distribution. With Median they bound what is drawn; a zero Max does not.
	Min, Max time.Duration
	// Median and Sigma make a log-normal distribution: half of the times are below Median, two thirds within a factor of
	// e^Sigma. Median 0: an even one.
	Median time.Duration
	Sigma  float64
}

func (l Latency) draw(r *rand.Rand) time.Duration {
	d := l.Min
	switch {
	case l.Median > 0:
		d = max(time.Duration(float64(l.Median)*math.Exp(min(l.Sigma*r.NormFloat64(), 20))), l.Min) // e^20 s are years
		if l.Max > 0 {
			d = min(d, l.Max)
		}
	case l.Max > l.Min:
		d += time.Duration(r.Int64N(int64(l.Max-l.Min) + 1))
	}
	return l.Fixed + d
}

// A Route is what a [Provider] does with the requests that meet all of its conditions. Without any it is for all.
type Route struct {
	// Name is told in the log. "": the model.
	Name string
	// Model is the model asked for; "gpt-*" is every one that begins so. "": any.
	Model string
	// API is "chat", "responses", "anthropic", "gemini" or "bedrock". "": any.
	API string
	// Header holds headers that the request must have with these values. nil: none.
	Header map[string]string
	// Match is a condition of your own, asked one request at a time. nil: none.
	Match func(Exchange) bool

	// Turns are done one a request, in order; the last is repeated for ever. nil: it answers "ok".
	Turns []Turn
	// Func chooses the turn in the place of Turns; n counts the requests of the route from 1. It is
	// asked one request at a time. nil: Turns.
	Func func(x Exchange, n int) Turn
	// Outages are times in which something else is done, of which the first that goes on counts. They use up no turn.
	Outages []Outage
	// Quota bounds the requests. Zero: they are not bounded.
	Quota Quota
	// Wait passes before the headers where a turn has none. Zero: no time.
	Wait Latency
}

// An Outage is a time in which a route does something else.
type Outage struct {
	// From and To are times since the start of the provider. To 0: it never ends.
	From, To time.Duration
	// Turn is what is done meanwhile. Without a Do it is DoUnavailable.
	Turn Turn
}

// A Quota bounds what a route serves in a window of time. A window begins with the first request after the last one.
type Quota struct {
	// Requests and Tokens are what a window has. A request counts with the tokens of its answer, input included. 0: no bound.
	Requests, Tokens int
	// Per is the length of a window. 0: a minute.
	Per time.Duration
	// Then is what is done with a request beyond that. "": DoRateLimited. The wait is the rest of the window.
	Then Act
}

// header is h as net/http has it.
func header(h map[string]string) http.Header {
	out := http.Header{}
	for k, v := range h {
		out.Set(k, v)
	}
	return out
}
