package openai_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

var update = flag.Bool("update", false, "write the golden files")

// ok answers every request and keeps the last.
func ok() *wiretest.Recorder {
	return &wiretest.Recorder{Next: wiretest.Says(200, wiretest.JSON, `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)}
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

var png = []byte("\x89PNG\r\n\x1a\n made up")

// conversation uses everything a request has.
func conversation() *llm.Request {
	return &llm.Request{
		Model: "gpt-4o", System: "You are <b>brief</b> & kind.",
		Messages: []llm.Message{
			{Role: llm.RoleUser, Parts: []llm.Part{
				llm.Text("Look:"),
				{Kind: llm.PartImage, Data: png},
				{Kind: llm.PartImage, URL: "https://example.com/a.jpg", Extra: map[string]json.RawMessage{
					"openai": raw(`{"image_url":{"detail":"low"}}`)}},
				{Kind: llm.PartAudio, Data: []byte("sound"), MIME: "audio/mpeg"},
				{Kind: llm.PartFile, Data: []byte("%PDF-1.7 made up"), Name: "a.pdf"},
				{Kind: llm.PartFile, URL: "file-abc123"},
			}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{
				{Kind: llm.PartReasoning, Text: "I need both."},
				llm.Text("Let me "), llm.Text("see."),
				wiretest.Call("call_a", "weather", `{"city":"Oslo"}`), wiretest.Call("call_b", "now", ``),
			}},
			{Role: llm.RoleTool, Parts: []llm.Part{
				{Kind: llm.PartToolResult, Result: &llm.ToolResult{CallID: "call_a", Name: "weather", Parts: []llm.Part{
					llm.Text("cold"), llm.Text("wet")}}},
				{Kind: llm.PartToolResult, Result: &llm.ToolResult{CallID: "call_b", Name: "now", IsError: true, Parts: []llm.Part{
					llm.Text("no clock")}}},
			}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{wiretest.Call("call_d", "now", `{}`)}},
			{Role: llm.RoleUser, Parts: []llm.Part{
				{Kind: llm.PartToolResult, Result: &llm.ToolResult{CallID: "call_d", Parts: []llm.Part{llm.Text("noon")}}},
				llm.Text("Thanks."),
			}},
			{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text("One."), llm.Text("Two.")}},
			{Role: llm.RoleAssistant},
		},
		Tools: []llm.Tool{
			{Name: "weather", Description: "Says the weather", Parameters: raw(`{"type":"object","properties":{"city":{"type":"string"}}}`), Strict: true},
			{Name: "now"},
		},
		ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "weather"},
		Format:     &llm.Format{Kind: llm.FormatSchema, Name: "report", Schema: raw(`{"type":"object"}`), Strict: true},
		MaxTokens:  100, Temperature: new(0.0), TopP: new(0.9), Stop: []string{"END"}, Seed: new(int64(1 << 40)), Effort: "low",
		Labels: map[string]string{"tenant": "secret-label"},
		Extra: map[string]json.RawMessage{
			"openai":    raw(`{"parallel_tool_calls":false,"metadata":{"a":"1"},"seed":null}`),
			"anthropic": raw(`{"not":"for us"}`),
		},
	}
}

func TestRequestsOnTheWire(t *testing.T) {
	plain := func(change func(*llm.Request)) *llm.Request {
		r := wiretest.Ask("hi")
		change(r)
		return r
	}
	stream := func(llm.Delta) error { return nil }
	tests := []struct {
		name string
		cfg  openai.Config
		req  *llm.Request
	}{
		{"everything", openai.Config{}, conversation()},
		{"plain", openai.Config{}, wiretest.Ask("hi")},
		{"streamed", openai.Config{}, plain(func(r *llm.Request) { r.Sink = stream })},
		{"streamed_without_usage", openai.Config{NoStreamUsage: true}, plain(func(r *llm.Request) { r.Sink = stream })},
		{"json_object", openai.Config{}, plain(func(r *llm.Request) { r.Format = &llm.Format{Kind: llm.FormatJSON} })},
		{"reasoning_model", openai.Config{Model: "o3-mini"}, plain(func(r *llm.Request) { r.MaxTokens, r.Effort = 9, "high" })},
		{"own_max_tokens_field", openai.Config{MaxTokensField: "num_predict"}, plain(func(r *llm.Request) { r.MaxTokens = 9 })},
		{"tool_required", openai.Config{}, plain(func(r *llm.Request) {
			r.Tools, r.ToolChoice = []llm.Tool{{Name: "now"}}, llm.ToolChoice{Mode: llm.ToolRequired}
		})},
		{"deepseek", openai.Config{Provider: "deepseek"}, conversation()},
		{"mistral", openai.Config{Provider: "mistral"}, plain(func(r *llm.Request) {
			*r = *conversation()
			r.Sink = stream
			r.Extra = map[string]json.RawMessage{
				"openai": raw(`{"a":1,"b":1,"c":1}`), "mistral_ai": raw(`{"b":2,"c":2}`), "mistral": raw(`{"c":3,"metadata":{"x":{"y":null,"z":1}}}`)}
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := ok()
			m := serve(t, s, tt.cfg)
			if _, err := m.Call(t.Context(), tt.req); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "requests", tt.name+".json")
			wiretest.Golden(t, file, s.Body(), *update)
		})
	}
}

func TestTheRequestIsNotModified(t *testing.T) {
	wiretest.Untouched(t, serve(t, ok(), openai.Config{Provider: "mistral"}), conversation)
}

func TestHeadersOfARequest(t *testing.T) {
	s := ok()
	m := serve(t, s, openai.Config{
		APIKey: "k-123456", Organization: "org-1", Project: "proj-1",
		Header: http.Header{"x-mine": {"1"}, "OpenAI-Project": {"proj-2"}},
	})
	if _, err := m.Call(t.Context(), wiretest.Ask("hi")); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"Authorization": "Bearer k-123456", "Openai-Organization": "org-1", "Openai-Project": "proj-2", "X-Mine": "1",
		"Content-Type": "application/json", "Accept": "application/json", "Idempotency-Key": "",
	}
	for name, value := range want {
		if got := s.Last().Header.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	if s.Last().URL.RequestURI() != "/chat/completions" {
		t.Errorf("path %q", s.Last().URL.RequestURI())
	}
}

func TestRequestsThatCannotBeSaidFailBeforeTheWire(t *testing.T) {
	by := func(h http.HandlerFunc) llm.Caller { return serve(t, h, openai.Config{}) }
	with := func(change func(*llm.Request)) *llm.Request {
		r := wiretest.Ask("hi")
		change(r)
		return r
	}
	part := func(p llm.Part) *llm.Request {
		return &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{p}}}}
	}
	wiretest.Refuses(t, by, []wiretest.Refusal{
		{"nil", nil, llm.Invalid, "nil"},
		{"no messages", &llm.Request{}, llm.Invalid, "no messages"},
		{"tool parameters", with(func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "t", Parameters: raw(`{"type":`)}} }), llm.Invalid, `"t"`},
		{"schema", with(func(r *llm.Request) { r.Format = &llm.Format{Kind: llm.FormatSchema} }), llm.Invalid, "Schema"},
		{"format", with(func(r *llm.Request) { r.Format = &llm.Format{Kind: "xml"} }), llm.Invalid, "xml"},
		{"extra", with(func(r *llm.Request) { r.Extra = map[string]json.RawMessage{"openai": raw(`[1]`)} }), llm.Invalid, "Extra"},
		{"part extra", part(llm.Part{Kind: llm.PartText, Extra: map[string]json.RawMessage{"openai": raw(`{`)}}), llm.Invalid, "Extra"},
		{"a result of no call", part(wiretest.Result("", false, llm.Text("1"))), llm.Invalid, "Messages[0].Parts[0] has no CallID"},
		{"kind", part(llm.Part{Kind: "video"}), llm.Invalid, "video"},
		{"a call without Call", part(llm.Part{Kind: llm.PartToolCall}), llm.Invalid, "without Call"},
		{"a result without Result", part(llm.Part{Kind: llm.PartToolResult}), llm.Invalid, "without Result"},
		{"audio by URL", part(llm.Part{Kind: llm.PartAudio, URL: "https://example.com/a.mp3"}), llm.Unsupported, "audio by URL"},
		{"a file by URL", part(llm.Part{Kind: llm.PartFile, URL: "https://example.com/a.pdf"}), llm.Unsupported, "file by URL"},
		{"an image as a tool's result", part(llm.Part{Kind: llm.PartToolResult, Result: &llm.ToolResult{
			Parts: []llm.Part{{Kind: llm.PartImage, Data: png}}}}), llm.Unsupported, "text in tool results"},
		{"a temperature that is no number", with(func(r *llm.Request) { r.Temperature = new(nan()) }), llm.Invalid, "JSON"},
	})
	t.Run("no model", func(t *testing.T) {
		resp, err := openai.New(openai.Config{}).Call(t.Context(), wiretest.Ask("hi"))
		if e := wiretest.Failure(t, resp, err); e.Class != llm.Invalid || !strings.Contains(e.Error(), "no model") {
			t.Errorf("got %v", e)
		}
	})
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}

// golden compares a body with a file in testdata.
func golden(t *testing.T, name, body string) {
	t.Helper()
	wiretest.Golden(t, filepath.Join("testdata", filepath.FromSlash(name)), body, *update)
}

// failsUnsent checks that a request fails before s sees it.
func failsUnsent(t *testing.T, c llm.Caller, s *wiretest.Recorder, req *llm.Request, want llm.Class, says string) {
	t.Helper()
	resp, err := c.Call(t.Context(), req)
	e := wiretest.Failure(t, resp, err)
	if e.Class != want || !strings.Contains(e.Error(), says) || e.Commit != llm.CommitNone || s.Calls() != 0 {
		t.Errorf("got %v, commit %v, after %d requests; want %v with %q", e, e.Commit, s.Calls(), want, says)
	}
}
