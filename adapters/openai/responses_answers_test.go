package openai_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

func with(p llm.Part, item string) llm.Part {
	p.Extra = extra(item)
	return p
}

// item is a part that holds nothing but an item.
func item(kind llm.PartKind, s string) llm.Part { return llm.Part{Kind: kind, Extra: extra(s)} }

// Each answer is in testdata/responses/answers in both forms. Giving its parts back must give its items back.
func responsesAnswers() []struct {
	name   string
	want   llm.Response
	deltas int
} {
	const message = `{"id":"msg_1","type":"message","status":"completed"}`
	const cut = `{"id":"msg_1","type":"message","status":"incomplete"}`
	const silent = `{"id":"rs_1","type":"reasoning","encrypted_content":"gAAAA-made-up","summary":[]}`
	return []struct {
		name   string
		want   llm.Response
		deltas int
	}{
		{"text", llm.Response{
			Parts: []llm.Part{with(llm.Text("Grüße, \"world\" 😀"), message)}, Stop: llm.StopEnd, StopDetail: "completed",
			Usage: llm.Usage{Input: 20, Output: 7, CachedInput: 16, Reasoning: 3},
		}, 2},
		{"tools", llm.Response{
			Parts: []llm.Part{with(llm.Text("Let me see."), message),
				with(wiretest.Call("call_a", "weather", `{"city":"Oslo"}`), `{"id":"fc_1","status":"completed"}`),
				with(wiretest.Call("call_b", "now", `{}`), `{"id":"fc_2","status":"completed"}`)},
			Stop: llm.StopToolCalls, StopDetail: "completed", Usage: llm.Usage{Input: 50, Output: 30},
		}, 4},
		{"no_arguments", llm.Response{
			Parts: []llm.Part{with(wiretest.Call("call_a", "now", `{}`), `{"id":"fc_1","status":"completed"}`)},
			Stop:  llm.StopToolCalls, StopDetail: "completed", Usage: llm.Usage{Input: 5, Output: 3},
		}, 1},
		{"reasoning", llm.Response{
			Parts: []llm.Part{
				with(reasoning("**Adding**\n\nTwo and two.\n\nDone."), `{"id":"rs_1","type":"reasoning","encrypted_content":"gAAAA-made-up","summary":[`+
					`{"type":"summary_text","text":"**Adding**\n\nTwo and two."},{"type":"summary_text","text":"Done."}]}`),
				with(llm.Text("Four."), `{"id":"msg_1","type":"message","status":"completed","phase":"final_answer","annotations":[`+
					`{"type":"url_citation","start_index":0,"end_index":4,"title":"Sums","url":"https://example.com/sums"}]}`)},
			Stop: llm.StopEnd, StopDetail: "completed", Usage: llm.Usage{Input: 8, Output: 90, Reasoning: 64},
		}, 4},
		{"silent_reasoning", llm.Response{
			Parts: []llm.Part{item(llm.PartReasoning, silent),
				with(wiretest.Call("call_a", "now", `{}`), `{"id":"fc_1","status":"completed"}`)},
			Stop: llm.StopToolCalls, StopDetail: "completed", Usage: llm.Usage{Input: 8, Output: 90, Reasoning: 64},
		}, 1},
		{"open_reasoning", llm.Response{
			Parts: []llm.Part{with(reasoning("Two and two."), `{"id":"rs_1","type":"reasoning","summary":[],"content":[`+
				`{"type":"reasoning_text","text":"Two and two."}],"encrypted_content":null,"status":null}`), with(llm.Text("Four."), message)},
			Stop: llm.StopEnd, StopDetail: "completed", Usage: llm.Usage{Input: 8, Output: 9},
			Model: "openai/gpt-oss-20b", RequestID: "resp_made_up",
		}, 3},
		{"refusal", llm.Response{
			Refusal: "I can't help with that.", Stop: llm.StopRefusal, StopDetail: "completed", Usage: llm.Usage{Input: 5, Output: 6},
		}, 2},
		{"length", llm.Response{
			Parts: []llm.Part{with(llm.Text("Once upon"), cut)}, Stop: llm.StopLength, StopDetail: "max_output_tokens", Usage: llm.Usage{Input: 3, Output: 2},
		}, 2},
		{"filtered", llm.Response{
			Parts: []llm.Part{with(llm.Text("Once"), cut)}, Stop: llm.StopFiltered, StopDetail: "content_filter", Usage: llm.Usage{Input: 9, Output: 1},
		}, 1},
		{"hosted_tools", llm.Response{
			Parts: []llm.Part{
				item(llm.PartReasoning, `{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"sums"}}`),
				item(llm.PartReasoning, `{"id":"ci_1","type":"code_interpreter_call","status":"completed","code":"2+2","container_id":"cntr_1","outputs":null}`),
				with(llm.Text("Four."), message)},
			Stop: llm.StopEnd, StopDetail: "completed", Usage: llm.Usage{Input: 8, Output: 9},
		}, 1},
		{"computer_call", llm.Response{
			Parts: []llm.Part{item(llm.PartReasoning, silent),
				item("computer_call", `{"id":"cu_1","type":"computer_call","status":"completed","call_id":"call_a",`+
					`"action":{"type":"click","button":"left","x":1,"y":2},"pending_safety_checks":[]}`)},
			Stop: llm.StopToolCalls, StopDetail: "completed", Usage: llm.Usage{Input: 8, Output: 9},
		}, 0},
		{"approval", llm.Response{
			Parts: []llm.Part{
				item(llm.PartReasoning, `{"id":"sh_1","type":"shell_call","status":"completed","call_id":"call_s","action":{"commands":["ls"]}}`),
				item(llm.PartReasoning, `{"id":"sho_1","type":"shell_call_output","status":"completed","call_id":"call_s","output":[]}`),
				item("mcp_approval_request", `{"id":"mcpr_1","type":"mcp_approval_request","arguments":"{}","name":"send","server_label":"mail"}`)},
			Stop: llm.StopToolCalls, StopDetail: "completed", Usage: llm.Usage{Input: 8, Output: 9},
		}, 0},
		{"image", llm.Response{
			Parts: []llm.Part{item("image_generation_call",
				`{"id":"ig_1","type":"image_generation_call","status":"completed","output_format":"png","result":"iVBORw0KGgo="}`)},
			Stop: llm.StopEnd, StopDetail: "completed", Usage: llm.Usage{Input: 8, Output: 9},
		}, 0},
	}
}

// compact takes the blanks out of the JSON that parts carry.
func compact(t *testing.T, r *llm.Response) {
	t.Helper()
	for _, p := range r.Parts {
		for name, v := range p.Extra {
			p.Extra[name] = raw(squeezed(t, string(v)))
		}
	}
}

func squeezed(t *testing.T, s string) string {
	t.Helper()
	var b strings.Builder
	inside := false
	for i := range len(s) {
		if s[i] == '"' && (i == 0 || s[i-1] != '\\') {
			inside = !inside
		}
		if !inside && strings.IndexByte(" \n", s[i]) >= 0 {
			continue
		}
		b.WriteByte(s[i])
	}
	if !json.Valid([]byte(b.String())) {
		t.Fatalf("%s is no JSON", b.String())
	}
	return b.String()
}

func TestResponsesAnswersAreTheSameWholeAndStreamed(t *testing.T) {
	for _, tt := range responsesAnswers() {
		tt.want.Status = 200
		if tt.want.Model == "" {
			tt.want.Model, tt.want.RequestID = "gpt-5-2025-08-07", "req_made_up"
		}
		tt.want.Extra = extra(`{"id":"resp_made_up","service_tier":"default"}`)
		same := func(t *testing.T, got *llm.Response, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			compact(t, got)
			if !reflect.DeepEqual(*got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", *got, tt.want)
			}
		}
		sum := llm.Response{Refusal: tt.want.Refusal} // what deltas can say
		for _, p := range tt.want.Parts {
			if p.Text != "" || p.Call != nil {
				p.Extra = nil
				sum.Parts = append(sum.Parts, p)
			}
		}
		whole, streamed := wiretest.Load(t, "testdata/"+"responses/answers/"+tt.name+".json"), wiretest.Load(t, "testdata/"+"responses/answers/"+tt.name+".sse")
		t.Run(tt.name, func(t *testing.T) {
			inEveryForm(t, whole, streamed, func(f wiretest.Fixture) llm.Caller { return serveResponses(t, f, openai.Config{}) }, same, &sum, tt.deltas)
		})
		t.Run(tt.name+"/as a deployment", func(t *testing.T) {
			d := &llm.Deployment{Name: "d", Caller: serveResponses(t, streamed, openai.Config{})}
			if _, resp, err := wiretest.Collect(t.Context(), d, wiretest.Ask("hi")); err != nil || len(resp.Parts) != len(tt.want.Parts) {
				t.Errorf("got %+v, %v", resp, err)
			}
		})
		t.Run(tt.name+"/given back", func(t *testing.T) {
			resp, err := serveResponses(t, whole, openai.Config{}).Call(t.Context(), wiretest.Ask("hi"))
			if err != nil {
				t.Fatal(err)
			}
			s := okResponse()
			req := &llm.Request{Messages: []llm.Message{llm.User("hi"), {Role: llm.RoleAssistant, Parts: resp.Parts}, llm.User("and?")}}
			if _, err := serveResponses(t, s, openai.Config{}).Call(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			checkItems(t, whole.Body, s.Body())
		})
	}
}

// checkItems checks that an answer's items are those of the next request, without what is empty.
func checkItems(t *testing.T, answer, request string) {
	t.Helper()
	var had struct{ Output []map[string]any }
	var sent struct{ Input []map[string]any }
	if err := json.Unmarshal([]byte(answer), &had); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(request), &sent); err != nil {
		t.Fatal(err)
	}
	var want []map[string]any
	for _, it := range had.Output {
		if it["type"] != "message" {
			if it["arguments"] == "" {
				it["arguments"] = "{}"
			}
			want = append(want, it)
			continue
		}
		for _, c := range it["content"].([]any) {
			c := c.(map[string]any)
			for _, name := range []string{"annotations", "logprobs"} {
				if list, _ := c[name].([]any); len(list) == 0 {
					delete(c, name)
				}
			}
			if c["type"] == "output_text" { // a refusal is the caller's to repeat
				want = append(want, it)
			}
		}
	}
	if got := sent.Input[1 : len(sent.Input)-1]; len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("sent back\n%v\nwant\n%v", got, want)
	}
}

func TestAnAnswersTextsCanBeGivenToChats(t *testing.T) {
	resp, err := serveResponses(t, wiretest.Load(t, "testdata/"+"responses/answers/reasoning.json"), openai.Config{}).Call(t.Context(), wiretest.Ask("hi"))
	if err != nil {
		t.Fatal(err)
	}
	s := ok()
	req := &llm.Request{Messages: []llm.Message{{Role: llm.RoleAssistant, Parts: resp.Parts}}}
	if _, err := serve(t, s, openai.Config{}).Call(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if want := `{"model":"gpt-4o","messages":[{"role":"assistant","content":"Four."}]}`; s.Body() != want {
		t.Errorf("sent %s, want %s", s.Body(), want)
	}
}

func TestResponsesOfOneProviderHoldItsName(t *testing.T) {
	cfg := openai.Config{Provider: "azure"}
	resp, err := serveResponses(t, wiretest.Load(t, "testdata/"+"responses/answers/silent_reasoning.json"), cfg).Call(t.Context(), wiretest.Ask("hi"))
	if err != nil || resp.Parts[0].Extra["azure"] == nil || resp.Extra["azure"] == nil {
		t.Fatalf("got %+v, %v", resp, err)
	}
	for provider, want := range map[string]bool{"azure": true, "openai": false} {
		s := okResponse()
		req := &llm.Request{Messages: []llm.Message{{Role: llm.RoleAssistant, Parts: resp.Parts}}}
		if _, err := serveResponses(t, s, openai.Config{Provider: provider}).Call(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(s.Body(), "gAAAA") != want || strings.Contains(s.Body(), "fc_1") != want || !strings.Contains(s.Body(), "call_a") {
			t.Errorf("to %s: sent %s", provider, s.Body())
		}
	}
}

func TestStatusesOfResponses(t *testing.T) {
	usage := llm.Usage{Input: 3, Output: 2}
	tests := []struct {
		name, body string
		class      llm.Class
		says       string
	}{
		{"queued", wholeResponse("queued", llm.Usage{}), llm.Invalid, "background"},
		{"in progress", wholeResponse("in_progress", llm.Usage{}), llm.Invalid, "background"},
		{"cancelled", wholeResponse("cancelled", usage), llm.Interrupted, "cancelled"},
		{"failed without a reason", wholeResponse("failed", usage), llm.Unavailable, "does not say why"},
		{"no status, but an error", `{"object":"response","error":{"code":"rate_limit_exceeded","message":"Slow."}}`, llm.RateLimited, "Slow."},
		{"arguments that are cut", wholeResponse("incomplete", usage,
			`{"type":"function_call","status":"incomplete","call_id":"c","name":"f","arguments":"{\"a\":"}`), llm.BadOutput, "not complete JSON"},
		{"arguments that never came", wholeResponse("incomplete", usage,
			`{"type":"function_call","status":"incomplete","call_id":"c","name":"f","arguments":""}`), llm.BadOutput, "not complete JSON"},
		{"no room", strings.Replace(wholeResponse("incomplete", llm.Usage{Input: 3}), `"incomplete_details":null`,
			`"incomplete_details":{"reason":"max_output_tokens"}`, 1), llm.TooLong, "no room"},
		{"no output", `{"object":"response","status":"completed"}`, llm.BadOutput, ""},
		{"an answer of a chat", `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`, llm.BadOutput, ""},
	}
	for _, tt := range tests {
		for _, streamed := range []bool{false, true} {
			req := wiretest.Ask("hi")
			if streamed {
				req.Sink = func(d llm.Delta) error {
					if d.Call == nil {
						t.Errorf("%s: a delta came: %+v", tt.name, d)
					}
					return nil
				}
			}
			resp, err := serveResponses(t, wiretest.Says(200, wiretest.JSON, tt.body), openai.Config{}).Call(t.Context(), req)
			e := wiretest.Failure(t, resp, err)
			if e.Class != tt.class || !strings.Contains(e.Error(), tt.says) {
				t.Errorf("%s: got %v of class %v, want %v with %q", tt.name, e, e.Class, tt.class, tt.says)
			}
			if e.Class == llm.Invalid && e.Commit != llm.Committed {
				t.Errorf("%s: commit %v, though the provider works on it", tt.name, e.Commit)
			}
			if strings.Contains(e.Error()+e.Evidence.Body, "Be brief.") && tt.class != llm.BadOutput && tt.class != llm.TooLong {
				t.Errorf("%s: the request's own words are in the evidence: %s", tt.name, e.Evidence.Body)
			}
		}
	}
}

func TestStopReasonsOfResponses(t *testing.T) {
	for reason, want := range map[string]llm.StopReason{
		"max_output_tokens": llm.StopLength, "content_filter": llm.StopFiltered, "something_new": llm.StopOther, "": llm.StopOther,
	} {
		body := strings.Replace(wholeResponse("incomplete", llm.Usage{Input: 1, Output: 1}, messageItem("x")), `"incomplete_details":null`,
			`"incomplete_details":{"reason":"`+reason+`"}`, 1)
		resp, err := serveResponses(t, wiretest.Says(200, wiretest.JSON, body), openai.Config{}).Call(t.Context(), wiretest.Ask("hi"))
		if err != nil || resp.Stop != want || reason != "" && resp.StopDetail != reason {
			t.Errorf("%q: got %+v, %v; want %q", reason, resp, err, want)
		}
	}
}

func TestUsageThatResponsesDoNotTellIsEstimated(t *testing.T) {
	body := `{"object":"response","status":"completed","output":[` + messageItem("four words are here") + `]}`
	resp, err := serveResponses(t, wiretest.Says(200, wiretest.JSON, body), openai.Config{}).Call(t.Context(), wiretest.Ask("hi"))
	if err != nil || !resp.Usage.Estimated || resp.Usage.Input == 0 || resp.Usage.Output == 0 {
		t.Errorf("got %+v, %v", resp, err)
	}
}
