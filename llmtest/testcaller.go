package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelchain/llm"
)

// An Answer is what a provider is to say, for [Wire.Serve] to put on the wire.
type Answer struct {
	// Text is the text in pieces: one event each when streamed, joined when not.
	Text []string
	// Calls are tool calls after the text. When streamed, the arguments of each are split into two events at least.
	Calls []llm.ToolCall
	Usage llm.Usage
	// After, if not nil, is called once the piece of text i has been written and flushed, before the next; -1 after the
	// headers and what comes before the first piece.
	After func(i int)
	// Garbage, if above 0, puts an event that is not what the wire promises before the piece of that index.
	Garbage int
	// NoEnd leaves out everything that says that the answer is complete.
	NoEnd bool
}

// A Wire lets [TestCaller] speak to an adapter in its provider's protocol.
type Wire struct {
	// New makes the adapter under test against a server at url.
	New func(t *testing.T, url string) llm.Caller
	// Serve writes a, streamed if r asks for it.
	Serve func(w http.ResponseWriter, r *http.Request, a Answer)
	// Event is the media type of streams, such as "text/event-stream".
	Event string
}

// TestCaller checks that an adapter keeps the contract of llm.Caller, against a real HTTP server on loopback. Each failure
// prints the sentence of the contract that is broken.
func TestCaller(t *testing.T, wire Wire) {
	for _, c := range callerCases {
		t.Run(c.name, func(t *testing.T) {
			s := &callerSuite{T: t, wire: wire, sentence: c.sentence, errorf: t.Errorf}
			c.run(s)
		})
	}
}

type callerCase struct {
	name, sentence string
	run            func(*callerSuite)
}

var callerCases = []callerCase{
	{"whole answer", "exactly one result is non-nil, and the Response is whole", wholeAnswer},
	{"same answer streamed", "the Response is whole either way, and the deltas add up to it", sameStreamed},
	{"deltas that are kept", "a delta stays what it was: the Caller does not write to what it handed out", keptDeltas},
	{"tool calls", "tool calls arrive whole, in order, in parallel", toolCalls},
	{"request untouched", "Call must not modify or keep req", requestUntouched},
	{"sink fails", "if the sink returns an error, Call stops reading and returns an error that wraps it", sinkFails},
	{"same goroutine", "the sink is called in order, from the goroutine that called Call, never after it returned", sameGoroutine},
	{"cancel before headers", "a canceled call returns at once and closes the connection upstream", cancelAt(-2)},
	{"cancel before output", "a canceled call returns at once and closes the connection upstream", cancelAt(-1)},
	{"cancel in the stream", "a canceled call returns at once and closes the connection upstream", cancelAt(1)},
	{"canceled before the call", "a canceled call returns at once", canceledBefore},
	{"cut stream", "a stream that breaks before its end is Interrupted, with the part received", cutStream},
	{"ended stream without its end", "a stream without its provider's mark of completeness is Interrupted, never a success", noEnd},
	{"cut before output", "a stream that breaks before any output is a failure that can be repeated", cutBeforeOutput},
	{"garbage in the stream", "an event that is not the wire's fails the stream or is passed over; no text is lost unseen", garbage},
	{"empty stream", "an empty stream is a failure", rawBody("", true)},
	{"HTML instead of a stream", "a page is no answer", rawBody("<html><body>502 Bad Gateway</body></html>", true)},
	{"HTML instead of an answer", "a page is no answer", rawBody("<html><body>502 Bad Gateway</body></html>", false)},
	{"empty answer", "an empty body is a failure", rawBody("", false)},
	{"server error", "a failure reaches the caller with its status and the start of its body, classified", serverError},
	{"nobody listens", "a refused connection is Unavailable and was not sent", nobodyListens},
	{"concurrent calls", "a Caller is safe for concurrent use", concurrentCalls},
	{"nil request", "a nil request does not panic: it is an error", callerNilRequest},
	{"fresh response", "the Response belongs to the caller: each call returns a fresh one", callerFreshResponse},
	{"one request", "a call makes one request of the provider: it never retries", oneRequest},
	{"labels", "labels are never sent upstream", labelsStay},
	{"deadline", "a call ends with its context's deadline, as Exhausted, and closes the connection upstream", callerDeadline},
}

type callerSuite struct {
	*testing.T
	wire     Wire
	sentence string
	// errorf takes what is wrong.
	errorf func(format string, args ...any)
}

// broken reports that the contract is broken.
func (s *callerSuite) broken(format string, args ...any) {
	s.Helper()
	s.errorf("%s\n\tthe contract: %s", fmt.Sprintf(format, args...), s.sentence)
}

// serve starts a server and an adapter that talks to it.
func (s *callerSuite) serve(h http.HandlerFunc) llm.Caller {
	server := httptest.NewServer(h)
	s.Cleanup(server.Close)
	return s.wire.New(s.T, server.URL)
}

func (s *callerSuite) answer(a Answer) llm.Caller {
	return s.serve(func(w http.ResponseWriter, r *http.Request) { s.wire.Serve(w, r, a) })
}

func callerRequest() *llm.Request {
	return &llm.Request{
		Model: "test-model", System: "Be brief.", Messages: []llm.Message{llm.User("Hello?")}, MaxTokens: 100,
		Tools:  []llm.Tool{{Name: "look", Description: "looks", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}},
		Labels: map[string]string{"tenant": "t"},
	}
}

func streamedRequest(sink llm.Sink) *llm.Request {
	r := callerRequest()
	r.Sink = sink
	return r
}
