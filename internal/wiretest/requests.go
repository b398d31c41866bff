package wiretest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/modelchain/llm"
)

// Part is p of a kind.
func Part(kind llm.PartKind, p llm.Part) llm.Part {
	p.Kind = kind
	return p
}

// Call is a tool call.
func Call(id, name, args string) llm.Part {
	return llm.Part{Kind: llm.PartToolCall, Call: &llm.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(args)}}
}

// Result is a tool's result.
func Result(id string, isError bool, parts ...llm.Part) llm.Part {
	return llm.Part{Kind: llm.PartToolResult, Result: &llm.ToolResult{CallID: id, Parts: parts, IsError: isError}}
}

// Message is a turn.
func Message(role llm.Role, parts ...llm.Part) llm.Message {
	return llm.Message{Role: role, Parts: parts}
}

// Sent is the body that a request becomes at a model that m makes for a server, which gives answer.
func Sent(t testing.TB, m func(http.HandlerFunc) llm.Caller, answer string, req *llm.Request) string {
	t.Helper()
	var s Recorder
	if _, err := m(s.Of(Says(200, JSON, answer))).Call(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	return s.Body()
}

// Golden compares a body with a file, white space apart. update: the file is written first.
func Golden(t testing.TB, file, body string, update bool) {
	t.Helper()
	if update {
		var out bytes.Buffer
		if err := json.Indent(&out, []byte(body), "", "\t"); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		out.WriteByte('\n')
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	var got, want bytes.Buffer
	if err := json.Compact(&got, []byte(body)); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if err := json.Compact(&want, golden); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) { // order and numbers count
		t.Errorf("%s:\n got %s\nwant %s", file, got.Bytes(), want.Bytes())
	}
	if strings.Contains(body, "secret-label") {
		t.Error("a label was sent")
	}
}

// Untouched checks that a call does not write to its request, which fresh makes.
func Untouched(t testing.TB, c llm.Caller, fresh func() *llm.Request) {
	t.Helper()
	req := fresh()
	for range 2 {
		if _, err := c.Call(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	if want := fresh(); !reflect.DeepEqual(req, want) {
		t.Errorf("got %+v, want %+v", req, want)
	}
}

// A Refusal is a request that cannot be sent, and what the error says.
type Refusal = struct {
	Name  string
	Req   *llm.Request
	Class llm.Class
	Says  string
}

// Refuses checks that requests end unsent at the models that m makes for a server.
func Refuses(t *testing.T, m func(http.HandlerFunc) llm.Caller, refusals []Refusal) {
	for _, c := range refusals {
		t.Run(c.Name, func(t *testing.T) {
			var s Recorder
			resp, err := m(s.Of(Says(200, JSON, "{}"))).Call(t.Context(), c.Req)
			e := Failure(t, resp, err)
			if e.Class != c.Class || !strings.Contains(e.Error(), c.Says) || e.Commit != llm.CommitNone || s.Calls() != 0 {
				t.Errorf("%v of class %v, commit %v, after %d requests; want %v, %q", e, e.Class, e.Commit, s.Calls(), c.Class, c.Says)
			}
		})
	}
}

func once(t *testing.T, a *API) {
	for _, h := range []http.HandlerFunc{
		Says(500, JSON, a.Failure("x")), Says(429, JSON, a.Failure("x"), "Retry-After", "0"), Says(408, JSON, a.Failure("x")),
		Says(409, JSON, a.Failure("x")), Says(529, JSON, a.Failure("x")), Says(400, JSON, a.Failure("x"), "X-Should-Retry", "true"),
		HangUp(0, "", ""),
	} {
		for _, req := range []*llm.Request{Ask("hi"), Streamed(&llm.Accumulator{})} {
			s := &Recorder{Next: h}
			used, next := 0, Client(t)
			m := a.serve(t, s, Settings{HTTP: &http.Client{Transport: RoundTripper(func(r *http.Request) (*http.Response, error) {
				used++
				return next.Transport.RoundTrip(r)
			})}})
			if _, err := m.Call(t.Context(), req); err == nil || s.Calls() != 1 || used != 1 {
				t.Errorf("%d requests, the client was used %d times, %v", s.Calls(), used, err)
			}
		}
	}
}

func resultsAlone(t *testing.T, a *API) {
	call := Message(llm.RoleAssistant, Call("c", "f", "{}"))
	for name, parts := range map[string][]llm.Part{
		"text beside": {Result("c", false, llm.Text("1")), llm.Text("And?")}, "text before": {llm.Text("And?"), Result("c", false)},
		"text alone": {llm.Text("1")}, "text of no kind": {{Text: "1"}},
		"an image": {Part(llm.PartImage, llm.Part{URL: "http://h/a.png"})}, "a call": {Call("d", "f", "{}")}, "nothing": nil,
	} {
		var s Recorder
		m := a.serve(t, s.Of(Says(200, JSON, a.Whole)), Settings{})
		resp, err := m.Call(t.Context(), &llm.Request{Messages: []llm.Message{llm.User("hi"), call, Message(llm.RoleTool, parts...)}})
		e := Failure(t, resp, err)
		if e.Class != llm.Invalid || !strings.Contains(e.Error(), "Messages[2]") || e.Commit != llm.CommitNone || s.Calls() != 0 {
			t.Errorf("%s: %v of class %v, commit %v, after %d requests", name, e, e.Class, e.Commit, s.Calls())
		}
	}
}

// BenchStream measures the cost of a delta from the socket, or the memory, to the sink: a part of a whole call.
func BenchStream(b *testing.B, c llm.Caller) {
	n := 0
	req := Ask("hi")
	req.Sink = func(llm.Delta) error { n++; return nil }
	bench(b, c, req, false)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/delta")
}

// BenchCall measures a whole call.
func BenchCall(b *testing.B, c llm.Caller) { bench(b, c, Ask("hi"), false) }

// BenchFailure measures a call that fails, whose evidence is read and classified.
func BenchFailure(b *testing.B, c llm.Caller) { bench(b, c, Ask(strings.Repeat("hi ", 10)), true) }

func bench(b *testing.B, c llm.Caller, req *llm.Request, fails bool) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Call(b.Context(), req); (err != nil) != fails {
			b.Fatal(err)
		}
	}
}
