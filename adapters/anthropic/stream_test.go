package anthropic_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
	"github.com/modelchain/llm/internal/wiretest"
)

// TestStreamsThatAreWhole lists what a stream may have beside the events that the API's pages show.
func TestStreamsThatAreWhole(t *testing.T) {
	good := []string{begun, opened, piece("Hello"), closed, ended, over}
	tool := func(start, delta string) []string {
		datas := []string{begun, `{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"c1","name":"look"` + start + `}}`}
		if delta != "" {
			datas = append(datas, `{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":`+wiretest.Quote(delta)+`}}`)
		}
		return append(datas, `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":4}}`, over)
	}
	for _, c := range []struct{ name, kind, body, want string }{
		{"as documented", wiretest.SSE, events(good...), "Hello"},
		{"pings and comments", wiretest.SSE, ": hi\n\n" + events(begun) + "event: ping\ndata: {\"type\": \"ping\"}\n\n" + events(good[1:3]...) + ": still here\n\n" + events(good[3:]...), "Hello"},
		{"CR LF and a byte order mark", "text/event-stream; charset=utf-8", "\ufeff" + strings.ReplaceAll(events(good...), "\n", "\r\n"), "Hello"},
		{"no names", wiretest.SSE, "data: " + strings.Join(good, "\n\ndata: ") + "\n\n", "Hello"},
		{"names without types", wiretest.SSE, strings.ReplaceAll(strings.ReplaceAll(events(good...), `"type":"message_stop"`, ""), `"type":"content_block_delta",`, ""), "Hello"},
		{"no last line feed", wiretest.SSE, strings.TrimRight(events(good...), "\n"), "Hello"},
		{"[DONE] and empty data", wiretest.SSE, "data:\n\n" + events(good[:3]...) + "data: [DONE]\n\n" + events(good[3:]...) + "data: [DONE]\n\n", "Hello"},
		{"events of the future", wiretest.SSE, events(begun, `{"type":"weather","index":0}`, opened, piece("Hel"), `{"type":"content_block_delta","index":0,"delta":{"type":"mood_delta","mood":"x"}}`,
			piece("lo"), closed, ended, over), "Hello"},
		{"no start of the block", wiretest.SSE, events(begun, piece("Hello"), ended, over), "Hello"},
		{"no stop of the block", wiretest.SSE, events(begun, opened, piece("Hello"), ended, over), "Hello"},
		{"noise after the stop reason", wiretest.SSE, events(begun, opened, piece("Hello"), closed, ended, `{"type":"content_bl`, over), "Hello"},
		{"what follows message_stop", wiretest.SSE, events(append(good, `{"type":"error","error":{"type":"api_error","message":"late"}}`)...), "Hello"},
		{"under another type", "text/plain", events(good...), "Hello"},
		{"in one piece", wiretest.JSON, hello, "Hello"},
		{"in one piece under another type", "text/plain", " \n" + hello, "Hello"},
		{"arguments in the start", wiretest.SSE, events(tool(`,"input":{"a":1}`, "")...), `c1 look {"a":1}`},
		{"arguments in the start and in pieces", wiretest.SSE, events(tool(`,"input":{"a":1}`, `{"b":2}`)...), `c1 look {"b":2}`},
		{"no arguments", wiretest.SSE, events(tool(`,"input":{}`, "")...), `c1 look {}`},
		{"no input", wiretest.SSE, events(tool("", "")...), `c1 look {}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var acc llm.Accumulator
			resp, err := serve(t, wiretest.Says(200, c.kind, c.body)).Call(t.Context(), wiretest.Streamed(&acc))
			if err != nil {
				t.Fatal(err)
			}
			for name, r := range map[string]*llm.Response{"the answer": resp, "the sum of the deltas": acc.Response()} {
				got := r.Text()
				for _, call := range r.ToolCalls() {
					got += fmt.Sprintf("%s %s %s", call.ID, call.Name, call.Arguments)
				}
				if got != c.want {
					t.Errorf("%s is %q, want %q", name, got, c.want)
				}
			}
			if resp.Usage.Output != 4 {
				t.Errorf("the usage is %+v", resp.Usage)
			}
		})
	}
	t.Run("for a caller who asked for one piece", func(t *testing.T) {
		resp, err := serve(t, wiretest.Says(200, wiretest.SSE, events(good...))).Call(t.Context(), wiretest.Ask("Hello?"))
		if err != nil || resp.Text() != "Hello" {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

func TestStreamsThatAreNot(t *testing.T) {
	overloaded := `{"type":"error","error":{"details":null,"type":"overloaded_error","message":"Overloaded"},"request_id":"req_in_band"}`
	page := "<html>\n<body>502 Bad Gateway</body>\n</html>\n"
	for _, c := range []struct {
		name, kind, body string
		class            llm.Class
		got              string // the part received
		evidence         string
	}{
		{"an end after the text", wiretest.SSE, events(begun, opened, piece("Hel")), llm.Interrupted, "Hel", ""},
		{"an end after the stop reason", wiretest.SSE, events(begun, opened, piece("Hello"), closed, ended), llm.Interrupted, "Hello", ""},
		{"message_stop without a reason", wiretest.SSE, events(begun, opened, piece("Hello"), closed, over), llm.Interrupted, "Hello", ""},
		{"an end before the text", wiretest.SSE, events(begun, opened), llm.Interrupted, "", ""},
		{"nothing", wiretest.SSE, "", llm.Interrupted, "", ""},
		{"pings alone", wiretest.SSE, events(`{"type":"ping"}`, `{"type":"ping"}`), llm.Interrupted, "", ""},
		{"an error first", wiretest.SSE, events(overloaded), llm.Overloaded, "", overloaded},
		{"an error before the text", wiretest.SSE, events(begun, opened, overloaded), llm.Overloaded, "", overloaded},
		{"an error before a call's arguments", wiretest.SSE, events(begun,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c1","name":"look","input":{}}}`, overloaded), llm.Overloaded, "", overloaded},
		{"an error after the text", wiretest.SSE, events(begun, opened, piece("Hel"), overloaded), llm.Interrupted, "Hel", overloaded},
		{"an error after the stop reason", wiretest.SSE, events(begun, opened, piece("Hel"), closed, ended, overloaded), llm.Interrupted, "Hel", overloaded},
		{"an error without a name", wiretest.SSE, "data: " + overloaded + "\n\n", llm.Overloaded, "", overloaded},
		{"an error by its name alone", wiretest.SSE, "event: error\ndata: the provider is overloaded\n\n", llm.Overloaded, "", "the provider is overloaded"},
		{"an error by its name, in a form of its own", wiretest.SSE, "event: error\ndata: {\"detail\":\"Overloaded\"}\n\n", llm.Overloaded, "", `{"detail":"Overloaded"}`},
		{"an error object without a type", wiretest.SSE, "data: {\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow down\"}}\n\n", llm.RateLimited, "", ""},
		{"a filter after the text", wiretest.SSE, events(begun, opened, piece("Hel"),
			`{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}`), llm.Refused, "Hel", ""},
		{"an error without framing", wiretest.SSE, overloaded, llm.Overloaded, "", overloaded},
		{"an error without framing, on many lines", wiretest.SSE, "{\n \"type\": \"error\",\n \"error\": {\"type\": \"overloaded_error\", \"message\": \"Overloaded\"}\n}\n", llm.Overloaded, "", ""},
		{"an error as JSON", wiretest.JSON, overloaded, llm.Overloaded, "", overloaded},
		{"a page where a stream was promised", wiretest.SSE, page, llm.BadOutput, "", page},
		{"a page", "text/html", page, llm.BadOutput, "", page},
		{"words", "text/plain", "I apologize", llm.BadOutput, "", ""},
		{"another API's stream", wiretest.SSE, `data: {"id":"x","object":"chat.completion.chunk","choices":[{"delta":{"content":"Hi"}}]}` + "\n\ndata: [DONE]\n\n", llm.BadOutput, "", ""},
		{"another API's answer", wiretest.JSON, `{"id":"x","object":"chat.completion","choices":[{"message":{"content":"Hi"}}]}`, llm.BadOutput, "", ""},
		{"a damaged event first", wiretest.SSE, events(begun, `{"type":"content_block_delta","index":0,"delta":{"ty`), llm.BadOutput, "", ""},
		{"a damaged event", wiretest.SSE, events(begun, opened, piece("Hel"), `{"type":"content_block_de`, piece("lo"), closed, ended, over), llm.Interrupted, "Hel", ""},
		{"a rune cut in two", wiretest.SSE, events(begun, opened, piece("Hel"), strings.Replace(piece("X"), "X", "\xe2\x82", 1), closed, ended, over), llm.Interrupted, "Hel", ""},
		{"an event without end", wiretest.SSE, "data: " + strings.Repeat("x", 5<<20), llm.BadOutput, "", ""},
		{"an event without end after the text", wiretest.SSE, events(begun, opened, piece("Hel")) + "data: " + strings.Repeat("x", 5<<20), llm.Interrupted, "Hel", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var acc llm.Accumulator
			resp, err := serve(t, wiretest.Says(200, c.kind, c.body)).Call(t.Context(), wiretest.Streamed(&acc))
			e := llm.AsError(err)
			if resp != nil || e.Class != c.class {
				t.Fatalf("%+v, %v of class %v (rule %s), want %v", resp, err, e.Class, e.Rule, c.class)
			}
			if got := acc.Response().Text(); got != c.got || e.Partial.Text() != c.got || (e.Partial != nil) != (c.got != "") {
				t.Errorf("the sink got %q, Partial is %+v; want %q", got, e.Partial, c.got)
			}
			if c.evidence != "" && e.Evidence.Body != c.evidence {
				t.Errorf("the evidence is %q, want %q", e.Evidence.Body, c.evidence)
			}
			if e.Evidence.Status != 200 || e.Evidence.Header.Get("Content-Type") != c.kind {
				t.Errorf("status %d, headers %v", e.Evidence.Status, e.Evidence.Header)
			}
			if c.evidence == overloaded && e.RequestID != "req_in_band" && !strings.HasSuffix(c.kind, "json") && c.body != overloaded {
				t.Errorf("the request id is %q", e.RequestID)
			}
			if c.got != "" && (e.Commit != llm.Committed || !e.Usage.Estimated && e.Usage.Output != 4) {
				t.Errorf("commit %v, usage %+v", e.Commit, e.Usage)
			}
		})
	}
}

func TestABrokenStreamTellsItsUsageSoFar(t *testing.T) {
	_, err := serve(t, wiretest.Says(200, wiretest.SSE, events(begun, opened, piece("Hello, world")))).Call(t.Context(), wiretest.Streamed(&llm.Accumulator{}))
	if e, want := llm.AsError(err), (llm.Usage{Input: 10, Output: 3, Estimated: true}); e.Usage != want {
		t.Errorf("%+v, want %+v", e.Usage, want)
	}
}

func TestThePartialAnswerHasNoHalfCalls(t *testing.T) {
	half := func(i int, id, args string) []string {
		return []string{
			fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%q,"name":"look","input":{}}}`, i, id),
			fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i, wiretest.Quote(args)),
		}
	}
	datas := append([]string{begun}, half(0, "c1", `{"a":1}`)...)
	datas = append(datas, half(1, "c2", `{"a":`)...)
	_, err := serve(t, wiretest.Says(200, wiretest.SSE, events(datas...))).Call(t.Context(), wiretest.Streamed(&llm.Accumulator{}))
	e := llm.AsError(err)
	if got := e.Partial.ToolCalls(); len(got) != 1 || got[0].ID != "c1" {
		t.Errorf("Partial has %s", show(e.Partial))
	}
}

func TestNothingIsReadWithoutBound(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		kind   string
		piece  string
		class  llm.Class
		most   int
	}{
		{"a failure", 503, wiretest.JSON, "x", llm.Unavailable, 1 << 20},
		{"lines without framing", 200, wiretest.SSE, "nothing\n", llm.BadOutput, 1 << 20},
		{"a line without end", 200, wiretest.SSE, "x", llm.BadOutput, 5 << 20},
		{"an answer", 200, wiretest.JSON, "[", llm.BadOutput, 33 << 20},
		{"a stream of blocks", 200, wiretest.SSE, events(opened, closed), llm.BadOutput, 35 << 20},
		{"a stream of signatures", 200, wiretest.SSE, events(`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"` +
			strings.Repeat("x", 1<<16) + `"}}`), llm.BadOutput, 35 << 20},
		{"a stream of text", 200, wiretest.SSE, events(piece(strings.Repeat("x", 1<<20))), llm.BadOutput, 35 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := &wiretest.Endless{Text: strings.Repeat(c.piece, max(1, 32<<10/len(c.piece)))}
			m := anthropic.New(anthropic.Config{Model: "claude-test", HTTPClient: wiretest.InMemory(c.status, c.kind,
				func(context.Context) io.Reader { return body })})
			req := wiretest.Ask("Hello?")
			req.Sink = func(llm.Delta) error { return nil }
			_, err := m.Call(t.Context(), req)
			if llm.ClassOf(err) != c.class || body.N > c.most {
				t.Errorf("%d bytes were read, %v", body.N, err)
			}
			if n := len(llm.AsError(err).Evidence.Body); n > 64<<10 {
				t.Errorf("the evidence has %d bytes", n)
			}
		})
	}
}

func TestDeepNestingCostsNoStack(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(32 << 20)) // beyond it the process ends
	deep := strings.Repeat("[", 4_000_000)
	for _, c := range []struct{ name, kind, body string }{
		{"in an event", wiretest.SSE, events(begun, opened, piece("Hel"), `{"type":"content_block_delta","index":0,"delta":`+deep+"}")},
		{"without framing", wiretest.SSE, `{"type":"error","error":` + deep + "}"},
		{"in an answer", wiretest.JSON, `{"content":` + deep + "}"},
	} {
		_, err := serve(t, wiretest.Says(200, c.kind, c.body)).Call(t.Context(), wiretest.Streamed(&llm.Accumulator{}))
		if class := llm.ClassOf(err); class.Owner() != llm.OwnerTransient {
			t.Errorf("%s: class %v", c.name, class)
		}
	}
}

func TestADeltaAllocatesLittle(t *testing.T) {
	allocations := func(deltas int) float64 {
		datas := []string{begun, opened}
		for range deltas {
			datas = append(datas, piece(" word"))
		}
		body := []byte(events(append(datas, closed, ended, over)...))
		m := anthropic.New(anthropic.Config{Model: "claude-test", HTTPClient: wiretest.InMemory(200, wiretest.SSE,
			func(context.Context) io.Reader { return bytes.NewReader(body) })})
		req := wiretest.Ask("Hello?")
		req.Sink = func(llm.Delta) error { return nil }
		return testing.AllocsPerRun(10, func() {
			if _, err := m.Call(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		})
	}
	if n := (allocations(1000) - allocations(0)) / 1000; n > 3 {
		t.Errorf("%.1f allocations for a delta", n)
	}
}
