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

func okResponse() *wiretest.Recorder {
	return &wiretest.Recorder{Next: wiretest.Says(200, wiretest.JSON, wholeResponse("completed", llm.Usage{Input: 1, Output: 1}, messageItem("ok")))}
}

func extra(s string) map[string]json.RawMessage {
	return map[string]json.RawMessage{"openai": raw(s)}
}

// responsesConversation uses everything of a request that the Responses API has.
func responsesConversation() *llm.Request {
	req := conversation()
	req.Stop = nil
	user := &req.Messages[0]
	user.Parts[2].Extra = extra(`{"detail":"low"}`)
	user.Parts = append(user.Parts,
		llm.Part{Kind: llm.PartFile, URL: "https://example.com/a.pdf"}, llm.Part{Kind: llm.PartImage, URL: "file-img1"})
	req.Messages[1].Parts[0].Extra = extra(`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"secret"}`)
	req.Messages[2].Parts = append(req.Messages[2].Parts, llm.Part{Kind: llm.PartToolResult, Result: &llm.ToolResult{
		CallID: "call_c", IsError: true, Parts: []llm.Part{llm.Text("look"), {Kind: llm.PartImage, URL: "https://example.com/b.png"}}}})
	req.Extra = map[string]json.RawMessage{
		"openai":    raw(`{"parallel_tool_calls":false,"tools":[{"type":"web_search"}],"reasoning":{"summary":"auto"}}`),
		"anthropic": raw(`{"not":"for us"}`),
	}
	return req
}

func TestResponsesRequestsOnTheWire(t *testing.T) {
	plain := func(change func(*llm.Request)) *llm.Request {
		r := wiretest.Ask("hi")
		change(r)
		return r
	}
	tests := []struct {
		name string
		cfg  openai.Config
		req  *llm.Request
	}{
		{"everything", openai.Config{}, responsesConversation()},
		{"plain", openai.Config{}, wiretest.Ask("hi")},
		{"streamed", openai.Config{}, plain(func(r *llm.Request) { r.Sink = func(llm.Delta) error { return nil } })},
		{"json_object", openai.Config{}, plain(func(r *llm.Request) { r.Format = &llm.Format{Kind: llm.FormatJSON} })},
		{"tool_required", openai.Config{}, plain(func(r *llm.Request) {
			r.Tools, r.ToolChoice = []llm.Tool{{Name: "now"}}, llm.ToolChoice{Mode: llm.ToolRequired}
		})},
		{"reasoning_model", openai.Config{Model: "gpt-5-mini"}, plain(func(r *llm.Request) {
			r.Effort, r.Extra = "high", extra(`{"include":["web_search_call.action.sources"]}`)
		})},
		{"stored", openai.Config{Model: "o3"}, plain(func(r *llm.Request) {
			r.Extra = extra(`{"store":true,"include":null,"previous_response_id":"resp_0"}`)
			r.Messages = append(r.Messages, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
				{Kind: llm.PartReasoning, Extra: extra(`{"id":"rs_1","type":"reasoning","summary":[]}`)}, llm.Text("a")}})
		})},
		{"instructions_alone", openai.Config{}, &llm.Request{System: "Say something."}},
		{"azure", openai.Config{Provider: "azure"}, plain(func(r *llm.Request) {
			r.Messages = append(r.Messages, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
				{Kind: llm.PartReasoning, Extra: extra(`{"id":"rs_1","type":"reasoning","encrypted_content":"of another provider"}`)},
				{Kind: llm.PartText, Text: "a", Extra: extra(`{"id":"msg_1","type":"message","phase":"commentary"}`)}}})
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := okResponse()
			if _, err := serveResponses(t, s, tt.cfg).Call(t.Context(), tt.req); err != nil {
				t.Fatal(err)
			}
			golden(t, "responses/requests/"+tt.name+".json", s.Body())
			if strings.Contains(s.Body(), "secret-label") {
				t.Error("a label was sent")
			}
		})
	}
}

func TestResponsesDoesNotModifyTheRequest(t *testing.T) {
	req := responsesConversation()
	m := serveResponses(t, okResponse(), openai.Config{})
	for range 2 {
		if _, err := m.Call(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	if want := responsesConversation(); !reflect.DeepEqual(req, want) {
		t.Errorf("got %+v, want %+v", req, want)
	}
}

func TestResponsesRequestsThatCannotBeSaidFailBeforeTheWire(t *testing.T) {
	with := func(change func(*llm.Request)) *llm.Request {
		r := wiretest.Ask("hi")
		change(r)
		return r
	}
	turn := func(role llm.Role, p llm.Part) *llm.Request {
		return &llm.Request{Messages: []llm.Message{{Role: role, Parts: []llm.Part{p}}}}
	}
	user := func(p llm.Part) *llm.Request { return turn(llm.RoleUser, p) }
	tests := []struct {
		name string
		req  *llm.Request
		want llm.Class
		says string
	}{
		{"nil", nil, llm.Invalid, "nil"},
		{"no messages", &llm.Request{}, llm.Invalid, "no messages"},
		{"empty messages", &llm.Request{Messages: []llm.Message{{}}}, llm.Invalid, "empty"},
		{"stop texts", with(func(r *llm.Request) { r.Stop = []string{"END"} }), llm.Unsupported, "Request.Stop"},
		{"tool parameters", with(func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "t", Parameters: raw(`[]`)}} }), llm.Invalid, `"t"`},
		{"schema", with(func(r *llm.Request) { r.Format = &llm.Format{Kind: llm.FormatSchema} }), llm.Invalid, "Schema"},
		{"format", with(func(r *llm.Request) { r.Format = &llm.Format{Kind: "xml"} }), llm.Invalid, "xml"},
		{"extra", with(func(r *llm.Request) { r.Extra = extra(`[1]`) }), llm.Invalid, "Extra"},
		{"part extra", user(llm.Part{Kind: llm.PartText, Extra: extra(`{`)}), llm.Invalid, "Extra"},
		{"an assistant's part extra", turn(llm.RoleAssistant, llm.Part{Kind: llm.PartText, Extra: extra(`{`)}), llm.Invalid, "Extra"},
		{"kind", user(llm.Part{Kind: "video"}), llm.Invalid, "video"},
		{"an assistant's kind", turn(llm.RoleAssistant, llm.Part{Kind: "video"}), llm.Invalid, "video"},
		{"an assistant's image", turn(llm.RoleAssistant, llm.Part{Kind: llm.PartImage, Data: png}), llm.Unsupported, "text from an assistant"},
		{"a call without Call", user(llm.Part{Kind: llm.PartToolCall}), llm.Invalid, "without Call"},
		{"a result of no call", user(wiretest.Result("", false, llm.Text("1"))), llm.Invalid, "Messages[0].Parts[0] has no CallID"},
		{"a result without Result", user(llm.Part{Kind: llm.PartToolResult}), llm.Invalid, "without Result"},
		{"audio by URL", user(llm.Part{Kind: llm.PartAudio, URL: "https://example.com/a.mp3"}), llm.Unsupported, "audio by URL"},
		{"audio as a tool's result", user(llm.Part{Kind: llm.PartToolResult, Result: &llm.ToolResult{
			Parts: []llm.Part{{Kind: llm.PartAudio, Data: png}}}}), llm.Unsupported, "text, images and files"},
		{"a temperature that is no number", with(func(r *llm.Request) { r.Temperature = new(nan()) }), llm.Invalid, "JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := okResponse()
			failsUnsent(t, serveResponses(t, s, openai.Config{}), s, tt.req, tt.want, tt.says)
		})
	}
}

// Reasoning that the provider kept nothing of, or that led to nothing, is refused by it.
func TestReasoningIsSentOnlyWhereItCanBeRead(t *testing.T) {
	thought := func(item string) llm.Part { return llm.Part{Kind: llm.PartReasoning, Text: "Hm.", Extra: extra(item)} }
	const closed, open = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}`,
		`{"type":"reasoning","id":"rs_2","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]}`
	bare := thought(`{"type":"reasoning","id":"rs_3","summary":[],"encrypted_content":null}`)
	tests := []struct {
		name  string
		parts []llm.Part
		want  []string // the types of the assistant's items
	}{
		{"encrypted", []llm.Part{thought(closed), llm.Text("a")}, []string{"reasoning", "message"}},
		{"of an open model", []llm.Part{thought(open), wiretest.Call("c", "f", "{}")}, []string{"reasoning", "function_call"}},
		{"several", []llm.Part{thought(closed), thought(open), llm.Text("a")}, []string{"reasoning", "reasoning", "message"}},
		{"by its id", []llm.Part{bare, llm.Text("a")}, []string{"message"}},
		{"without a consequence", []llm.Part{llm.Text("a"), thought(closed)}, []string{"message"}},
		{"another provider's", []llm.Part{{Kind: llm.PartReasoning, Text: "Hm."}, llm.Text("a")}, []string{"message"}},
		{"between texts", []llm.Part{llm.Text("a"), thought(closed), llm.Text("b")}, []string{"message", "reasoning", "message"}},
		{"texts of one message", []llm.Part{llm.Text("a"), llm.Text("b")}, []string{"message"}},
		{"texts of two messages", []llm.Part{
			{Kind: llm.PartText, Text: "a", Extra: extra(`{"type":"message","phase":"commentary"}`)},
			{Kind: llm.PartText, Text: "b", Extra: extra(`{"type":"message","phase":"final_answer"}`)}}, []string{"message", "message"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := &llm.Request{Messages: []llm.Message{{Role: llm.RoleAssistant, Parts: tt.parts}, llm.User("and?")}}
			if got := itemsSent(t, req); !reflect.DeepEqual(got, append(tt.want, "message")) {
				t.Errorf("sent %v, want %v", got, tt.want)
			}
		})
	}
	t.Run("without a consequence in its turn", func(t *testing.T) {
		req := &llm.Request{Messages: []llm.Message{
			{Role: llm.RoleAssistant, Parts: []llm.Part{thought(closed)}}, llm.User("go on"), llm.Assistant("a")}}
		if got := itemsSent(t, req); !reflect.DeepEqual(got, []string{"message", "message"}) {
			t.Errorf("sent %v", got)
		}
	})
	for store, want := range map[string]int{`true`: 2, `null`: 2, `false`: 1} {
		t.Run("by its id, with store "+store, func(t *testing.T) {
			req := &llm.Request{Messages: []llm.Message{{Role: llm.RoleAssistant, Parts: []llm.Part{bare, llm.Text("a")}}}, Extra: extra(`{"store":` + store + `}`)}
			if got := itemsSent(t, req); len(got) != want {
				t.Errorf("sent %v", got)
			}
		})
	}
}

// itemsSent are the types of the items that a request becomes.
func itemsSent(t *testing.T, req *llm.Request) (types []string) {
	t.Helper()
	s := okResponse()
	if _, err := serveResponses(t, s, openai.Config{}).Call(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	var body struct{ Input []struct{ Type string } }
	if err := json.Unmarshal([]byte(s.Body()), &body); err != nil {
		t.Fatal(err)
	}
	for _, it := range body.Input {
		types = append(types, it.Type)
	}
	return types
}

func TestModelsThatDoNotEncryptAreNotAskedTo(t *testing.T) {
	for model, want := range map[string]bool{
		"gpt-5": true, "o4-mini": true, "openai/gpt-5.1": true, "gpt-4o": false, "gpt-4.1": false, "gpt-5-chat-latest": false, "gpt-oss-120b": false,
	} {
		s := okResponse()
		if _, err := serveResponses(t, s, openai.Config{Model: model}).Call(t.Context(), wiretest.Ask("hi")); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(s.Body(), "reasoning.encrypted_content"); got != want {
			t.Errorf("%s: asked for %v, want %v", model, got, want)
		}
	}
}

func TestResponsesAddresses(t *testing.T) {
	tests := []struct {
		name, url string
		cfg       openai.Config
	}{
		{"the default", "https://api.openai.com/v1/responses", openai.Config{}},
		{"the whole address", "http://h/v1/responses?a=1", openai.Config{BaseURL: "http://h/v1/responses/?a=1"}},
		{"a server of one's own", "http://h/responses", openai.Config{Provider: "mine", BaseURL: "http://h"}},
		{"Azure", "https://x.openai.azure.com/openai/v1/responses", openai.Config{Provider: "azure", BaseURL: "https://x.openai.azure.com"}},
		{"Azure, dated", "https://x.openai.azure.com/openai/responses?api-version=2025-04-01-preview",
			openai.Config{Provider: "azure", BaseURL: "https://x.openai.azure.com", APIVersion: "2025-04-01-preview", Model: "d"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url, _ := sentTo(t, tt.cfg, "m", func(cfg openai.Config) llm.Caller { return openai.NewResponses(cfg) })
			if url != tt.url {
				t.Errorf("sent to %s, want %s", url, tt.url)
			}
		})
	}
}

func TestNewResponsesPanicsOnMistakes(t *testing.T) {
	defer func() {
		if v, _ := recover().(string); !strings.HasPrefix(v, "llm/adapters/openai: NewResponses: ") || !strings.Contains(v, "set BaseURL") {
			t.Errorf("panicked with %q", v)
		}
	}()
	openai.NewResponses(openai.Config{Provider: "nobody"})
}
