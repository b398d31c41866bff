package openai_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

// completed is the last event of a stream, with items as its output.
func completed(items ...string) string {
	return event("response.completed", `"response":`+wholeResponse("completed", llm.Usage{Input: 4, Output: 2}, items...))
}

func TestResponseStreamsThatAreWhole(t *testing.T) {
	sorted := func(fields string) string { return "data: {" + fields + "}\n\n" } // keys by the alphabet, as a gateway sends them
	tests := []struct {
		name, body string
		deltas     int
	}{
		{"in good order", helloWhole, 2},
		{"with DONE", helloWhole + done, 2},
		{"nothing but deltas and the end", hel + lo + helloEnd, 2},
		{"nothing but the end", created + helloEnd, 1},
		{"a whole response as the only event", "data: " + wholeResponse("completed", llm.Usage{Input: 4, Output: 2}, messageItem("Hello")) + "\n\n", 1},
		{"an empty output at the end", created + added + hel + lo + helloDone + completed(), 2},
		{"an empty output at the end, and no end of the item", created + added + hel + lo + completed(), 2},
		{"items that come whole, and an empty output", created + helloDone + completed(), 1},
		{"an item that is told to be done twice", created + added + hel + lo + helloDone + helloDone + completed(), 2},
		{"a first delta that was missed", created + added + helloDone + helloEnd, 1},
		{"a last delta that was missed", created + added + hel + helloDone + helloEnd, 2},
		{"a last delta that only the end has", created + added + hel + helloEnd, 2},
		{"empty deltas", created + added + textDelta("") + hel + textDelta("") + lo + helloDone + helloEnd, 2},
		{"without names of events", strings.ReplaceAll(helloWhole, "event: ", ": "), 2},
		{"without blank lines", strings.ReplaceAll(strings.ReplaceAll(helloWhole, "event: ", ": "), "\n\n", "\n"), 2},
		{"without framing", strings.ReplaceAll(hel+lo+helloEnd, "data: ", ""), 2},
		{"no final line feed", strings.TrimSpace(helloWhole), 2},
		{"comments in between", ": hi\n\n" + created + ": hi\n\n" + hel + ": hi\n\n" + lo + ":\n" + helloEnd, 2},
		{"events of another kind", event("keepalive", `"a":1`) + created + event("response.brand_new.delta", `"delta":"x"`) + hel +
			event("response.mcp_call.failed", `"output_index":3,"error":{"code":"tool_failed","message":"no"}`) + lo + helloEnd, 2},
		{"comments sent as data", created + hel + "data: : keepalive\n\n" + lo + helloEnd, 2},
		{"noise after the end", helloWhole + "data: {what\n\n", 2},
		{"an error after the end", helloWhole + event("error", `"code":"server_error","message":"late"`), 2},
		{"more after the end", helloWhole + textDelta("!"), 2},
		{"ids that change, keys by the alphabet", sorted(`"item":{"content":[],"id":"a","role":"assistant","type":"message"},"output_index":0,"type":"response.output_item.added"`) +
			sorted(`"content_index":0,"delta":"Hel","item_id":"b","output_index":0,"type":"response.output_text.delta"`) +
			sorted(`"content_index":0,"delta":"lo","item_id":"c","output_index":0,"type":"response.output_text.delta"`) +
			sorted(`"item":`+strings.Replace(messageItem("Hello"), "msg_1", "d", 1)+`,"output_index":0,"type":"response.output_item.done"`) +
			sorted(`"response":`+wholeResponse("completed", llm.Usage{Input: 4, Output: 2}, strings.Replace(messageItem("Hello"), "msg_1", "e", 1))+`,"type":"response.completed"`), 2},
		{"a text where a list should be", created + completed(`{"type":"message","content":"Hello"}`), 1},
		{"an end that repeats a long request", created + hel + lo + strings.Replace(helloEnd, "Be brief.", strings.Repeat("Be brief. ", 1<<19), 1), 2},
		{"an end that still is in progress", created + hel + lo + strings.Replace(helloEnd, `"status":"completed","error"`, `"status":"in_progress","error"`, 1), 2},
		{"an item that ends as it began", created + hel + lo + event("response.output_item.done", `"output_index":0,"item":`+messageItem("")) + helloEnd, 2},
		{"items that are none", created + hel + lo + completed("null", "[]", `{"id":"x"}`, messageItem("Hello")), 2},
		{"no numbers", strings.NewReplacer(`"output_index":0,`, "", `"content_index":0,`, "").Replace(helloWhole), 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			deltas, resp, err := wiretest.Collect(t.Context(), serveResponses(t, wiretest.Says(200, wiretest.SSE, tt.body), openai.Config{}), wiretest.Ask("hi"))
			if err != nil {
				t.Fatal(err)
			}
			if resp.Text() != "Hello" || len(resp.Parts) != 1 || resp.Stop != llm.StopEnd || resp.Usage != (llm.Usage{Input: 4, Output: 2}) {
				t.Errorf("got %+v", resp)
			}
			if len(deltas) != tt.deltas {
				t.Errorf("%d deltas, want %d: %+v", len(deltas), tt.deltas, deltas)
			}
			checkDeltas(t, deltas, &llm.Response{Parts: []llm.Part{llm.Text("Hello")}})
			if own := string(resp.Parts[0].Extra["openai"]); strings.Contains(tt.body, `"text":"Hello"`) && !strings.Contains(own, `"type":"message"`) {
				t.Errorf("the part holds %s", own)
			}
		})
	}
}

func TestResponseStreamsThatFail(t *testing.T) {
	tests := []struct {
		name, body string
		class      llm.Class
		text       string // what was delivered before
		says       string
	}{
		{"ended after text", created + added + hel + lo, llm.Interrupted, "Hello", "without a final response"},
		{"ended after the item", created + added + hel + lo + helloDone, llm.Interrupted, "Hello", "without a final response"},
		{"DONE alone proves nothing", created + added + hel + lo + done, llm.Interrupted, "Hello", "without a final response"},
		{"ended before text", created + added, llm.Interrupted, "", "without a final response"},
		{"ended after it began", created, llm.Interrupted, "", "without a final response"},
		{"cut within an event", created + hel + `data: {"type":"response.output_text.delta","del`, llm.Interrupted, "Hel", "without a final response"},
		{"cut within the last event", created + hel + lo + `data: {"type":"response.completed","response":{"id":`, llm.Interrupted, "Hello", "without a final response"},
		{"a damaged event first", "data: {\"type\":\"response.output_text.delta\",\"delta\":\"H\n\n" + helloEnd, llm.BadOutput, "", "damaged"},
		{"a rune cut in two", created + hel + "data: {\"type\":\"response.output_text.delta\",\"delta\":\"caf\xc3\"}\n\n" + helloEnd, llm.Interrupted, "Hel", "damaged"},
		{"empty", "", llm.Unavailable, "", "before an answer"},
		{"comments alone", ": hi\n\n: hi\n\n", llm.Unavailable, "", "before an answer"},
		{"DONE without anything", done, llm.Unavailable, "", "before an answer"},
		{"noise alone", "data: {unparsable}\n\n", llm.BadOutput, "", ""},
		{"noise", created + hel + "data: {what is this}\n\n" + lo + helloEnd, llm.Interrupted, "Hel", "damaged"},
		{"a page", "<html><body>Bad gateway</body></html>", llm.BadOutput, "", ""},
		{"a hole in the text", created + added + hel + textDelta("!") + helloDone, llm.Interrupted, "Hel!", "piece by piece"},
		{"a hole in the text that only the end shows", created + added + hel + textDelta("!") + helloEnd, llm.Interrupted, "Hel!", "piece by piece"},
		{"an end without what was told", created + added + hel + completed(callItem(&llm.ToolCall{ID: "c", Name: "f", Arguments: raw("{}")})),
			llm.Interrupted, "Hel", "piece by piece"},
		{"texts in another order", created + strings.Replace(hel, `"content_index":0`, `"content_index":1`, 1) + lo +
			completed(strings.Replace(messageItem("lo"), `]}`, `,{"type":"output_text","text":"Hel"}]}`, 2)), llm.Interrupted, "Hello", "piece by piece"},
		{"cancelled", created + hel + event("response.cancelled", `"response":`+wholeResponse("cancelled", llm.Usage{Input: 3, Output: 1})), llm.Interrupted, "Hel", "cancelled"},
		{"failed without a response", created + event("response.failed", `"error":{"code":"server_error","message":"broke"}`), llm.Unavailable, "", "broke"},
		{"an error by its name alone", "event: error\ndata: {\"message\":\"model is gone\"}\n\n", llm.Unavailable, "", "model is gone"},
		{"an error in words", "event: error\ndata: model is gone\n\n", llm.Unavailable, "", "model is gone"},
		{"an error of a gateway", `data: {"error":{"message":"rate limit","code":429}}` + "\n\n", llm.RateLimited, "", "rate limit"},
		{"an error without framing", `{"error":{"message":"The model is not there","code":"model_not_found"}}`, llm.NotFound, "", "not there"},
		{"a flat error without a mark", `data: {"message":"upstream broke","status":502}` + "\n\n", llm.Unavailable, "", "upstream broke"},
		{"a stream of the other API", first + second + end + done, llm.BadOutput, "", "damaged"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := failsInStream(t, serveResponses(t, wiretest.Says(200, wiretest.SSE, tt.body), openai.Config{}), tt.class, tt.text, tt.says)
			if p := e.Partial; p != nil && p.StopDetail != "" && p.StopDetail != "cancelled" {
				t.Errorf("the provider is said to have said %q", p.StopDetail)
			}
		})
	}
}

// What a gateway calls complete is not, if the response says so.
func TestAnEndIsWhatTheResponseSaysItIs(t *testing.T) {
	cut := wholeResponse("incomplete", llm.Usage{Input: 4, Output: 2}, messageItem("Hello"))
	for name, tt := range map[string]struct {
		response string
		stop     llm.StopReason
		class    llm.Class
	}{
		"incomplete":        {strings.Replace(cut, `"incomplete_details":null`, `"incomplete_details":{"reason":"max_output_tokens"}`, 1), llm.StopLength, 0},
		"without its cause": {cut, llm.StopOther, 0},
		"by its cause": {strings.Replace(wholeResponse("completed", llm.Usage{}, messageItem("Hello")), `"incomplete_details":null`,
			`"incomplete_details":{"reason":"content_filter"}`, 1), llm.StopFiltered, 0},
		"failed":    {wholeResponse("failed", llm.Usage{}, messageItem("Hello")), "", llm.Unavailable},
		"cancelled": {wholeResponse("cancelled", llm.Usage{}, messageItem("Hello")), "", llm.Interrupted},
	} {
		deltas, resp, err := wiretest.Collect(t.Context(), serveResponses(t, wiretest.Says(200, wiretest.SSE, created+event("response.completed", `"response":`+tt.response)), openai.Config{}), wiretest.Ask("hi"))
		if tt.class != 0 {
			if e := wiretest.Failure(t, resp, err); e.Class != tt.class || len(deltas) > 0 {
				t.Errorf("%s: got %v after %+v", name, e, deltas)
			}
			continue
		}
		if err != nil || resp.Stop != tt.stop || resp.Text() != "Hello" {
			t.Errorf("%s: got %+v, %v", name, resp, err)
		}
	}
}

func TestAnEndlessEventOfAResponseIsNotReadWhole(t *testing.T) {
	e, sent := endlessEvent(t, func(h http.Handler) llm.Caller { return serveResponses(t, h, openai.Config{}) })
	if e.Class != llm.BadOutput || !strings.Contains(e.Error(), "too large") || sent > 256<<20 {
		t.Errorf("got %v after %d MiB", e, sent>>20)
	}
}

// Calls are numbered as they are announced, whichever of them gets its arguments first.
func TestCallsOfAResponseKeepTheirNumbers(t *testing.T) {
	open := func(i int, id, name string) string {
		return event("response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":{"type":"function_call","call_id":%q,"name":%q,"arguments":""}`, i, id, name))
	}
	args := func(i int, s string) string {
		return event("response.function_call_arguments.delta", fmt.Sprintf(`"output_index":%d,"delta":%s`, i, wiretest.Quote(s)))
	}
	end := completed(callItem(&llm.ToolCall{ID: "a", Name: "f", Arguments: raw(`{"x":1}`)}), callItem(&llm.ToolCall{ID: "b", Name: "g", Arguments: raw(`{"y":2}`)}))
	both := open(0, "a", "f") + open(1, "b", "g")
	for name, body := range map[string]string{
		"the second first":         both + args(1, `{"y":2}`) + args(0, `{"x":1}`) + end,
		"by turns":                 both + args(1, `{"y":`) + args(0, `{"x":`) + args(1, `2}`) + args(0, `1}`) + end,
		"the first at the end":     both + args(1, `{"y":2}`) + end,
		"announced twice":          both + open(0, "a", "f") + open(1, "b", "g") + args(1, `{"y":2}`) + args(0, `{"x":1}`) + end,
		"without the list of them": both + args(1, `{"y":2}`) + args(0, `{"x":1}`) + completed(),
	} {
		t.Run(name, func(t *testing.T) {
			deltas, resp, err := wiretest.Collect(t.Context(), serveResponses(t, wiretest.Says(200, wiretest.SSE, created+body), openai.Config{}), wiretest.Ask("hi"))
			if err != nil {
				t.Fatal(err)
			}
			var told [2]llm.ToolCallDelta
			for _, d := range deltas {
				if d.Call == nil {
					continue
				}
				c := &told[d.Index]
				c.ID, c.Name, c.Arguments = c.ID+d.Call.ID, c.Name+d.Call.Name, c.Arguments+d.Call.Arguments
			}
			calls := resp.ToolCalls()
			if len(calls) != 2 {
				t.Fatalf("%d calls", len(calls))
			}
			for i, want := range []llm.ToolCallDelta{{ID: "a", Name: "f", Arguments: `{"x":1}`}, {ID: "b", Name: "g", Arguments: `{"y":2}`}} {
				if c := calls[i]; told[i] != want || c.ID != want.ID || c.Name != want.Name || string(c.Arguments) != want.Arguments {
					t.Errorf("call %d was told as %+v and is %+v", i, told[i], c)
				}
			}
		})
	}
}

// A call is told of with its name, its id and the first of its arguments, however badly the server tells of it.
func TestCallsInResponseStreams(t *testing.T) {
	open := func(i int, id, name string) string {
		return event("response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":{"type":"function_call","call_id":%q,"name":%q,"arguments":""}`, i, id, name))
	}
	args := func(i int, s string) string {
		return event("response.function_call_arguments.delta", fmt.Sprintf(`"output_index":%d,"delta":%s`, i, wiretest.Quote(s)))
	}
	item := func(id, name, args string) string {
		return callItem(&llm.ToolCall{ID: id, Name: name, Arguments: raw(args)})
	}
	closed := func(i int, item string) string {
		return event("response.output_item.done", fmt.Sprintf(`"output_index":%d,"item":%s`, i, item))
	}
	one, two := item("a", "f", `{"x":1}`), item("b", "g", `{"y":2}`)
	want := []llm.Part{wiretest.Call("a", "f", `{"x":1}`), wiretest.Call("b", "g", `{"y":2}`)}
	tests := []struct {
		name, body string
		want       []llm.Part
	}{
		{"in good order", open(0, "a", "f") + args(0, `{"x":`) + args(0, `1}`) + closed(0, one) + open(1, "b", "g") + args(1, `{"y":2}`) + closed(1, two) + completed(one, two), want},
		{"by turns", open(0, "a", "f") + open(1, "b", "g") + args(0, `{"x":`) + args(1, `{"y":2`) + args(0, `1}`) + args(1, `}`) + completed(one, two), want},
		{"under one number", open(0, "a", "f") + args(0, `{"x":1}`) + closed(0, one) + open(0, "b", "g") + args(0, `{"y":2}`) + closed(0, two) + completed(one, two), want},
		{"without a beginning", args(0, `{"x":`) + args(0, `1}`) + closed(0, one) + args(1, `{"y":2}`) + closed(1, two) + completed(one, two), want},
		{"without a beginning or an end", args(0, `{"x":`) + args(0, `1}`) + args(1, `{"y":`) + completed(one, two), want},
		{"whole", closed(0, one) + closed(0, two) + completed(), want},
		{"by their arguments alone", open(0, "a", "f") + event("response.function_call_arguments.done", `"output_index":0,"arguments":"{\"x\":1}"`) + completed(one), want[:1]},
		{"without arguments", open(0, "a", "f") + closed(0, item("a", "f", "")) + completed(item("a", "f", "")), []llm.Part{wiretest.Call("a", "f", "{}")}},
		{"without arguments, an end or an output", open(0, "a", "f") + completed(), []llm.Part{wiretest.Call("a", "f", "{}")}},
		{"without an id to answer by", closed(0, `{"type":"function_call","name":"f","arguments":"{}"}`) + completed(), []llm.Part{wiretest.Call("call_0_resp_1", "f", "{}")}},
		{"by the item's own id", closed(0, `{"type":"function_call","id":"fc_9","name":"f","arguments":"{}"}`) + completed(), []llm.Part{wiretest.Call("fc_9", "f", "{}")}},
		{"with arguments as an object", closed(0, `{"type":"function_call","call_id":"a","name":"f","arguments":{"x":1}}`) + completed(), want[:1]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			deltas, resp, err := wiretest.Collect(t.Context(), serveResponses(t, wiretest.Says(200, wiretest.SSE, created+tt.body), openai.Config{}), wiretest.Ask("hi"))
			if err != nil {
				t.Fatal(err)
			}
			checkDeltas(t, deltas, &llm.Response{Parts: tt.want})
			var got []llm.Part
			for _, p := range resp.Parts {
				p.Extra = nil
				got = append(got, p)
			}
			checkDeltas(t, deltas, &llm.Response{Parts: got})
			if resp.Stop != llm.StopToolCalls {
				t.Errorf("stop %q", resp.Stop)
			}
		})
	}
	t.Run("torn", func(t *testing.T) {
		_, resp, err := wiretest.Collect(t.Context(), serveResponses(t, wiretest.Says(200, wiretest.SSE, created+open(0, "a", "f")+args(0, `{"x":2`)+completed(one)), openai.Config{}), wiretest.Ask("hi"))
		if e := wiretest.Failure(t, resp, err); e.Class != llm.Interrupted || len(e.Partial.ToolCalls()) > 0 {
			t.Errorf("got %v, partial %+v", e, e.Partial)
		}
	})
}

// Reasoning is no part of what was asked for: where its pieces and its end differ, the answer stands.
func TestReasoningThatDiffersAtItsEndTearsNothing(t *testing.T) {
	think := func(kind string, i int, s string) string {
		return event("response.reasoning_"+kind, fmt.Sprintf(`"output_index":0,"summary_index":%d,"delta":%s`, i, wiretest.Quote(s)))
	}
	const end = `{"type":"reasoning","id":"rs_1","encrypted_content":"x","summary":[{"type":"summary_text","text":"One."},{"type":"summary_text","text":"Two."}],` +
		`"content":[{"type":"reasoning_text","text":"Long."}]}`
	const summary, content = "summary_text.delta", "text.delta"
	tests := []struct{ name, body, want string }{
		{"as it was told", think(summary, 0, "One.") + think(summary, 1, "Two.") + completed(end, messageItem("Hello")), "One.\n\nTwo."},
		{"more than was told", think(summary, 0, "O") + completed(end, messageItem("Hello")), "One.\n\nTwo."},
		{"other than was told", think(summary, 0, "Other.") + completed(end, messageItem("Hello")), "Other."},
		{"content, not summary", think(content, 0, "Lo") + think(summary, 0, "One.") + completed(end, messageItem("Hello")), "Long."},
		{"not in the end", think(summary, 0, "One.") + completed(messageItem("Hello")), "One."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			deltas, resp, err := wiretest.Collect(t.Context(), serveResponses(t, wiretest.Says(200, wiretest.SSE, created+tt.body), openai.Config{}), wiretest.Ask("hi"))
			if err != nil {
				t.Fatal(err)
			}
			if len(resp.Parts) != 2 || resp.Parts[0].Kind != llm.PartReasoning || resp.Parts[0].Text != tt.want || resp.Text() != "Hello" {
				t.Errorf("got %+v", resp.Parts)
			}
			checkDeltas(t, deltas, &llm.Response{Parts: []llm.Part{reasoning(tt.want), llm.Text("Hello")}})
		})
	}
}

func TestWithoutASinkTheFinalResponseDecides(t *testing.T) {
	body := created + added + textDelta("Help") + event("response.output_item.added", `"output_index":1,"item":{"type":"message","content":[]}`) +
		event("response.output_text.delta", `"output_index":1,"content_index":0,"delta":"gone"`) + helloEnd
	resp, err := serveResponses(t, wiretest.Says(200, wiretest.SSE, body), openai.Config{}).Call(t.Context(), wiretest.Ask("hi"))
	if err != nil || resp.Text() != "Hello" {
		t.Errorf("got %+v, %v", resp, err)
	}
}

func TestAResponseHeldOpenAfterItsEndDoesNotHoldTheAnswer(t *testing.T) {
	for name, body := range map[string]string{
		"with usage":                  helloWhole,
		"without usage":               hel + event("response.completed", `"response":{"object":"response","status":"completed","output":[`+messageItem("Hello")+`]}`),
		"with DONE":                   helloWhole + done,
		"with half of an event after": helloWhole + `data: {"type":"resp`,
	} {
		t.Run(name, func(t *testing.T) {
			s := wiretest.Stall(200, wiretest.SSE, body)
			_, resp, err := wiretest.Collect(t.Context(), serveResponses(t, s, openai.Config{}), wiretest.Ask("hi"))
			if err != nil || resp.Text() != "Hello" || resp.Parts[0].Extra["openai"] == nil {
				t.Errorf("got %+v, %v", resp, err)
			}
			<-s.Closed
		})
	}
}

func TestASinkThatFailsEndsTheResponse(t *testing.T) {
	full := errors.New("the disk is full")
	for name, body := range map[string]string{
		"at a delta":                     created + hel,
		"at what an item's end adds":     created + helloDone,
		"at what the last event adds":    created + helloEnd,
		"at a call that the end adds":    created + completed(callItem(&llm.ToolCall{ID: "a", Name: "f", Arguments: raw("{}")})),
		"at a call without any argument": created + event("response.output_item.added", `"output_index":0,"item":{"type":"function_call","name":"f"}`) + completed(),
	} {
		t.Run(name, func(t *testing.T) {
			s := wiretest.Stall(200, wiretest.SSE, body)
			req, n := wiretest.Ask("hi"), 0
			req.Sink = func(llm.Delta) error { n++; return full }
			resp, err := serveResponses(t, s, openai.Config{}).Call(t.Context(), req)
			if e := wiretest.Failure(t, resp, err); !errors.Is(err, full) || e.Class != llm.Canceled || n != 1 {
				t.Errorf("got %v after %d deltas", err, n)
			}
			<-s.Closed
		})
	}
}

func TestCancelingAResponseClosesTheConnectionAtOnce(t *testing.T) {
	places := []struct {
		name, header, body string
		phase              llm.Phase
		text               string
	}{
		{"before headers", "", "", llm.PhaseSend, ""},
		{"in the body", wiretest.JSON, `{"object":"response","output":[`, llm.PhaseBody, ""},
		{"before the first event", wiretest.SSE, ": hi\n\n", llm.PhaseStream, ""},
		{"after it began", wiretest.SSE, created + added, llm.PhaseStream, ""},
		{"in the stream", wiretest.SSE, created + added + hel, llm.PhaseStream, "Hel"},
		{"before its end", wiretest.SSE, created + added + hel + helloDone, llm.PhaseStream, "Hello"},
	}
	for _, place := range places {
		t.Run(place.name, func(t *testing.T) {
			s := wiretest.Stall(200, place.header, place.body)
			headers := make(chan struct{})
			m := serveResponses(t, s, openai.Config{HTTPClient: &http.Client{Transport: wiretest.RoundTripper(func(r *http.Request) (*http.Response, error) {
				defer close(headers)
				return http.DefaultTransport.RoundTrip(r)
			})}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, text, told := wiretest.Ask("hi"), "", make(chan struct{})
			req.Sink = func(d llm.Delta) error {
				if text += d.Text; text == place.text {
					close(told)
				}
				return nil
			}
			go func() {
				<-s.Reached
				if place.header != "" {
					<-headers
				}
				if place.text != "" {
					<-told
				}
				cancel()
			}()
			resp, err := m.Call(ctx, req)
			e := wiretest.Failure(t, resp, err)
			want := llm.CommitUnknown
			if place.text != "" {
				want = llm.Committed
			}
			if e.Class != llm.Canceled || !errors.Is(err, context.Canceled) || e.Evidence.Phase != place.phase || e.Commit != want || e.Partial.Text() != place.text {
				t.Errorf("got %v, phase %v, commit %v, partial %+v", e, e.Evidence.Phase, e.Commit, e.Partial)
			}
			<-s.Closed
		})
	}
}

func TestADeltaOfAResponseCostsFewAllocations(t *testing.T) {
	cost := func(n int) float64 {
		var b, text strings.Builder
		b.WriteString(created + added)
		for i := range n {
			w := fmt.Sprintf("w%d", i)
			text.WriteString(w)
			b.WriteString(textDelta(w))
		}
		b.WriteString(completed(messageItem(text.String())))
		m := serveResponses(t, wiretest.Says(200, wiretest.SSE, b.String()), openai.Config{})
		req := wiretest.Ask("hi")
		req.Sink = func(llm.Delta) error { return nil }
		return testing.AllocsPerRun(5, func() {
			if _, err := m.Call(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		})
	}
	if each := (cost(1500) - cost(500)) / 1000; each > 2 {
		t.Errorf("%.1f allocations a delta, server included, want at most 2", each)
	}
}

func TestConnectionsAreUsedAgainAfterAResponse(t *testing.T) {
	addrs := map[string]bool{}
	m := serveResponses(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addrs[r.RemoteAddr] = true
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", wiretest.SSE)
		_, _ = io.WriteString(w, helloWhole)
	}), openai.Config{})
	for range 5 {
		if _, _, err := wiretest.Collect(t.Context(), m, wiretest.Ask("hi")); err != nil {
			t.Fatal(err)
		}
	}
	if len(addrs) == 5 { // a machine under load may miss one
		t.Error("no connection was used again")
	}
}
