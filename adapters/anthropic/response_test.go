package anthropic_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wiretest"
)

// asStream is a whole message as the events of a stream, each text in two pieces.
func asStream(msg string) string {
	m := gjson.Parse(msg)
	used := m.Get("usage")
	datas := []string{fmt.Sprintf(`{"type":"message_start","message":{"id":%s,"type":"message","role":"assistant","content":[],"model":%s,`+
		`"stop_reason":null,"usage":%s}}`, m.Get("id").Raw, m.Get("model").Raw, used.Raw)}
	add := func(format string, args ...any) { datas = append(datas, fmt.Sprintf(format, args...)) }
	for i, b := range m.Get("content").Array() {
		begin, deltas := map[string]json.RawMessage{}, []string{}
		b.ForEach(func(k, v gjson.Result) bool {
			halves := func(kind, field, s string) {
				for _, half := range []string{s[:len(s)/2], s[len(s)/2:]} {
					deltas = append(deltas, fmt.Sprintf(`{"type":%q,%q:%s}`, kind, field, wiretest.Quote(half)))
				}
			}
			begin[k.Str] = json.RawMessage(v.Raw)
			switch k.Str {
			case "text", "thinking":
				begin[k.Str] = json.RawMessage(`""`)
				halves(k.Str+"_delta", k.Str, v.Str)
			case "input":
				begin[k.Str] = json.RawMessage(`{}`)
				halves("input_json_delta", "partial_json", v.Raw)
			case "signature":
				begin[k.Str] = json.RawMessage(`""`)
				deltas = append(deltas, `{"type":"signature_delta","signature":`+v.Raw+`}`)
			case "citations":
				begin[k.Str] = json.RawMessage(`[]`)
				for _, c := range v.Array() {
					deltas = append(deltas, `{"type":"citations_delta","citation":`+c.Raw+`}`)
				}
			}
			return true
		})
		raw, err := json.Marshal(begin)
		if err != nil {
			panic(err)
		}
		add(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, raw)
		for _, d := range deltas {
			add(`{"type":"content_block_delta","index":%d,"delta":%s}`, i, d)
		}
		add(`{"type":"content_block_stop","index":%d}`, i)
	}
	end := map[string]json.RawMessage{}
	for _, name := range []string{"stop_reason", "stop_sequence", "stop_details", "container"} {
		if v := m.Get(name); v.Exists() {
			end[name] = json.RawMessage(v.Raw)
		}
	}
	raw, err := json.Marshal(end)
	if err != nil {
		panic(err)
	}
	add(`{"type":"message_delta","delta":%s,"usage":{"output_tokens":%d}}`, raw, used.Get("output_tokens").Int())
	return events(append(datas, over)...)
}

func whole(content, rest string) string {
	return `{"id":"msg_7","type":"message","role":"assistant","model":"claude-test-7","content":[` + content + `],` + rest +
		`,"usage":{"input_tokens":10,"cache_read_input_tokens":200,"cache_creation_input_tokens":3000,"output_tokens":40,` +
		`"output_tokens_details":{"thinking_tokens":5},"service_tier":"standard"}}`
}

func text(s string) llm.Part { return llm.Text(s) }

func TestAnswersMeanTheSameWholeAndStreamed(t *testing.T) {
	searched := `{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[{"type":"web_search_result","url":"u"}]}`
	for _, c := range []struct {
		name          string
		content, rest string
		stop          llm.StopReason
		detail        string
		parts         []llm.Part
		refusal       string
		extra         map[string]string
	}{
		{"text", `{"type":"text","text":"Hello"}`, `"stop_reason":"end_turn"`, llm.StopEnd, "end_turn", []llm.Part{text("Hello")}, "", nil},
		{"two texts, one empty", `{"type":"text","text":"Hello"},{"type":"text","text":""},{"type":"text","text":"there","citations":null}`,
			`"stop_reason":"end_turn"`, llm.StopEnd, "end_turn", []llm.Part{text("Hello"), text("there")}, "", nil},
		{"a stop text", `{"type":"text","text":"One"}`, `"stop_reason":"stop_sequence","stop_sequence":"two"`,
			llm.StopEnd, "stop_sequence", []llm.Part{text("One")}, "", map[string]string{"stop_sequence": `"two"`}},
		{"the limit", `{"type":"text","text":"On"}`, `"stop_reason":"max_tokens"`, llm.StopLength, "max_tokens", []llm.Part{text("On")}, "", nil},
		{"tools in parallel", `{"type":"text","text":"Look:"},{"type":"tool_use","id":"c1","name":"look","input":{"where":["here",1]}},` +
			`{"type":"tool_use","id":"c2","name":"look","input":{},"caller":{"type":"direct"}}`, `"stop_reason":"tool_use"`,
			llm.StopToolCalls, "tool_use", []llm.Part{text("Look:"), wiretest.Call("c1", "look", `{"where":["here",1]}`),
				{Kind: llm.PartToolCall, Call: &llm.ToolCall{ID: "c2", Name: "look", Arguments: json.RawMessage(`{}`)}, Extra: extra(`{"caller":{"type":"direct"}}`)}},
			"", nil},
		{"tools under another reason", `{"type":"tool_use","id":"c1","name":"look","input":{}}`, `"stop_reason":"end_turn"`,
			llm.StopToolCalls, "end_turn", []llm.Part{wiretest.Call("c1", "look", `{}`)}, "", nil},
		{"thinking", `{"type":"thinking","thinking":"Hm. \"So\"","signature":"c2ln"},{"type":"redacted_thinking","data":"b3BhcXVl"},` +
			`{"type":"thinking","thinking":"","signature":"ZW1wdHk="},{"type":"text","text":"Yes"}`, `"stop_reason":"end_turn"`,
			llm.StopEnd, "end_turn", []llm.Part{
				{Kind: llm.PartReasoning, Text: `Hm. "So"`, Extra: extra(`{"signature":"c2ln"}`)},
				{Kind: llm.PartReasoning, Extra: extra(`{"data":"b3BhcXVl","type":"redacted_thinking"}`)},
				{Kind: llm.PartReasoning, Extra: extra(`{"signature":"ZW1wdHk="}`)},
				text("Yes"),
			}, "", nil},
		{"a refusal", ``, `"stop_reason":"refusal","stop_details":{"type":"refusal","category":"bio","explanation":"It is about germs."}`,
			llm.StopRefusal, "refusal", nil, "It is about germs.",
			map[string]string{"stop_details": `{"type":"refusal","category":"bio","explanation":"It is about germs."}`}},
		{"a refusal without reasons", `{"type":"text","text":"Well"}`, `"stop_reason":"refusal"`, llm.StopRefusal, "refusal", []llm.Part{text("Well")}, "", nil},
		{"a server's tool, paused", `{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"query":"q"}},` + searched +
			`,{"type":"text","text":"So","citations":[{"type":"a"},{"type":"b"}]}`, `"stop_reason":"pause_turn","container":{"id":"x"}`,
			llm.StopOther, "pause_turn", []llm.Part{
				{Kind: llm.PartReasoning, Extra: extra(`{"id":"srv_1","input":{"query":"q"},"name":"web_search","type":"server_tool_use"}`)},
				{Kind: llm.PartReasoning, Extra: extra(`{"content":[{"type":"web_search_result","url":"u"}],"tool_use_id":"srv_1","type":"web_search_tool_result"}`)},
				{Kind: llm.PartText, Text: "So", Extra: extra(`{"citations":[{"type":"a"},{"type":"b"}]}`)},
			}, "", map[string]string{"container": `{"id":"x"}`}},
		{"a reason of the future", `{"type":"text","text":"Hm"}`, `"stop_reason":"compaction"`, llm.StopOther, "compaction", []llm.Part{text("Hm")}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			msg := whole(c.content, c.rest)
			one, err := serve(t, wiretest.Says(200, wiretest.JSON, msg, "Request-Id", "req_7")).Call(t.Context(), wiretest.Ask("Hello?"))
			if err != nil {
				t.Fatal(err)
			}
			want := llm.Usage{Input: 3210, Output: 40, CachedInput: 200, CacheWrite: 3000, Reasoning: 5}
			if one.Stop != c.stop || one.StopDetail != c.detail || one.Refusal != c.refusal || one.Usage != want ||
				one.Model != "claude-test-7" || one.RequestID != "req_7" || one.Status != 200 {
				t.Errorf("the answer is %+v", one)
			}
			if !reflect.DeepEqual(one.Parts, c.parts) {
				t.Errorf("the parts are %s, want %s", show(one.Parts), show(c.parts))
			}
			if one.Refused() != (c.stop == llm.StopRefusal) {
				t.Errorf("Refused is %v", one.Refused())
			}
			var more map[string]json.RawMessage
			if err := json.Unmarshal(one.Extra["anthropic"], &more); err != nil {
				t.Errorf("Extra is %s: %v", one.Extra, err)
			}
			if !strings.Contains(string(more["usage"]), `"service_tier":"standard"`) {
				t.Errorf("Extra has no usage: %s", one.Extra)
			}
			for name, want := range c.extra {
				if string(more[name]) != want {
					t.Errorf("Extra has %s for %s, want %s", more[name], name, want)
				}
			}
			var acc llm.Accumulator
			two, err := serve(t, wiretest.Says(200, wiretest.SSE, asStream(msg), "Request-Id", "req_7")).Call(t.Context(), wiretest.Streamed(&acc))
			if err != nil {
				t.Fatal(err)
			}
			if !sameJSON(one, two) {
				t.Errorf("streamed: %s\nwhole:    %s", show(two), show(one))
			}
			added := acc.Response()
			if added.Text() != one.Text() || added.Refusal != one.Refusal || !reflect.DeepEqual(added.ToolCalls(), one.ToolCalls()) {
				t.Errorf("the deltas add up to %s", show(added))
			}
		})
	}
}

func show(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// sameJSON compares without regard to the order of members.
func sameJSON(a, b any) bool {
	var x, y any
	return json.Unmarshal([]byte(show(a)), &x) == nil && json.Unmarshal([]byte(show(b)), &y) == nil && reflect.DeepEqual(x, y)
}

func TestAnswersGoBackUnchanged(t *testing.T) {
	content := `{"type":"thinking","thinking":"Hm.","signature":"c2ln"},{"type":"redacted_thinking","data":"b3BhcXVl"},` +
		`{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"query":"q"}},` +
		`{"type":"text","text":"So","citations":[{"type":"a"}]},{"type":"tool_use","id":"c1","name":"look","input":{"a":1},"caller":{"type":"direct"}}`
	resp, err := serve(t, wiretest.Says(200, wiretest.SSE, asStream(whole(content, `"stop_reason":"tool_use"`)))).Call(t.Context(), wiretest.Streamed(&llm.Accumulator{}))
	if err != nil {
		t.Fatal(err)
	}
	body := wiretest.Sent(t, by(t), hello, &llm.Request{Messages: []llm.Message{
		llm.User("a"), {Role: llm.RoleAssistant, Parts: resp.Parts}, wiretest.Message(llm.RoleTool, wiretest.Result("c1", false)),
	}})
	got := json.RawMessage(gjson.Get(body, "messages.1.content").Raw)
	if want := json.RawMessage("[" + content + "]"); !sameJSON(got, want) {
		t.Errorf("sent back as %s, came as %s", got, want)
	}
}

func TestAFullWindowIsTooLongWithWhatCame(t *testing.T) {
	msg := whole(`{"type":"text","text":"Partly"}`, `"stop_reason":"model_context_window_exceeded"`)
	for name, c := range map[string]struct {
		kind, body string
		req        *llm.Request
	}{"whole": {wiretest.JSON, msg, wiretest.Ask("Hello?")}, "streamed": {wiretest.SSE, asStream(msg), wiretest.Streamed(&llm.Accumulator{})}} {
		resp, err := serve(t, wiretest.Says(200, c.kind, c.body)).Call(t.Context(), c.req)
		e := llm.AsError(err)
		if resp != nil || e.Class != llm.TooLong || e.Partial.Text() != "Partly" || e.Usage.Output != 40 || e.Commit != llm.Committed {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// What is wrong with an answer stands at its end: one that comes in one piece is looked at before any of it is handed out.
func TestAnAnswerInOnePieceThatFailsIsNotHandedOut(t *testing.T) {
	msg := whole(`{"type":"text","text":"Partly"}`, `"stop_reason":"model_context_window_exceeded"`)
	d := &llm.Deployment{Name: "d", Caller: serve(t, wiretest.Says(200, wiretest.JSON, msg))}
	acc := &llm.Accumulator{}
	_, err := d.Call(t.Context(), wiretest.Streamed(acc))
	if llm.ClassOf(err) != llm.TooLong || acc.Partial() != nil {
		t.Errorf("%v after %v was handed out", err, acc.Partial())
	}
	d.Caller = serve(t, wiretest.Says(200, wiretest.JSON, whole(`{"type":"text","text":"All"}`, `"stop_reason":"end_turn"`)))
	resp, err := d.Call(t.Context(), wiretest.Streamed(acc))
	if err != nil || acc.Response().Text() != "All" || resp.Text() != "All" {
		t.Errorf("%v, %v, %q", resp, err, acc.Response().Text())
	}
}

func TestArgumentsCutByTheLimitAreBadOutput(t *testing.T) {
	body := events(begun, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c1","name":"look","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"where\":\"he"}}`,
		closed, `{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":4}}`, over)
	_, err := serve(t, wiretest.Says(200, wiretest.SSE, body)).Call(t.Context(), wiretest.Streamed(&llm.Accumulator{}))
	if e := llm.AsError(err); e.Class != llm.BadOutput || len(e.Partial.ToolCalls()) != 0 || e.Evidence.Code != "max_tokens" {
		t.Errorf("%+v", e)
	}
}

func TestUsageIsTheNewestThatWasTold(t *testing.T) {
	start := func(usage string) string {
		return `{"type":"message_start","message":{"id":"m","type":"message","content":[],"usage":` + usage + `}}`
	}
	end := func(usage string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":` + usage + `}`
	}
	for _, c := range []struct {
		name  string
		datas []string
		want  llm.Usage
	}{
		{"the end's output", []string{start(`{"input_tokens":10,"output_tokens":1}`), opened, piece("Hi"), end(`{"output_tokens":4}`), over}, llm.Usage{Input: 10, Output: 4}},
		{"totals at the end", []string{start(`{"input_tokens":10,"output_tokens":1}`), opened, piece("Hi"),
			end(`{"input_tokens":90,"cache_read_input_tokens":5,"output_tokens":4}`), over}, llm.Usage{Input: 95, Output: 4, CachedInput: 5}},
		{"zeros at the end", []string{start(`{"input_tokens":10,"cache_read_input_tokens":7,"output_tokens":1}`), opened, piece("Hi"),
			end(`{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":4}`), over}, llm.Usage{Input: 17, Output: 4, CachedInput: 7}},
		{"nulls and nonsense", []string{start(`{"input_tokens":10,"cache_read_input_tokens":null,"output_tokens":"many"}`), opened, piece("Hi"),
			end(`{"output_tokens":-4,"cache_creation_input_tokens":1e99}`), over}, llm.Usage{Input: 10, Output: 1, Estimated: true}},
		{"none at the end", []string{start(`{"input_tokens":10,"output_tokens":1}`), opened, piece("Hello, world"),
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, over}, llm.Usage{Input: 10, Output: 3, Estimated: true}},
		{"none at all", []string{opened, piece("Hello"), `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, over}, llm.Usage{Output: 2, Estimated: true}},
	} {
		resp, err := serve(t, wiretest.Says(200, wiretest.SSE, events(c.datas...))).Call(t.Context(), wiretest.Streamed(&llm.Accumulator{}))
		if err != nil || resp.Usage != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, resp, err, c.want)
		}
	}
}

func TestABlockOfTheFutureIsKeptAsItBegan(t *testing.T) {
	body := events(begun, `{"type":"content_block_start","index":0,"content_block":{"type":"hologram","x":1}}`,
		piece("5"), closed, ended, over)
	var acc llm.Accumulator
	resp, err := serve(t, wiretest.Says(200, wiretest.SSE, body)).Call(t.Context(), wiretest.Streamed(&acc))
	want := []llm.Part{{Kind: llm.PartReasoning, Extra: extra(`{"type":"hologram","x":1}`)}}
	if err != nil || !reflect.DeepEqual(resp.Parts, want) || len(acc.Response().Parts) != 0 {
		t.Errorf("%s, %v; the sink got %s", show(resp), err, show(acc.Response()))
	}
}
