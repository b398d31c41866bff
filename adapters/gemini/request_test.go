package gemini_test

import (
	"encoding/json"
	"flag"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
	"github.com/modelchain/llm/internal/wiretest"
)

var update = flag.Bool("update", false, "write the golden files")

// ok answers every request and keeps the last.
func ok() *wiretest.Recorder {
	return &wiretest.Recorder{Next: wiretest.Says(200, wiretest.JSON, chunk(`{"text":"ok"}`, stop, used))}
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func extra(s string) map[string]json.RawMessage { return map[string]json.RawMessage{"gemini": raw(s)} }

func result(id, name string, parts ...llm.Part) llm.Part {
	return llm.Part{Kind: llm.PartToolResult, Result: &llm.ToolResult{CallID: id, Name: name, Parts: parts}}
}

func with(change func(*llm.Request)) *llm.Request {
	r := wiretest.Ask("hi")
	change(r)
	return r
}

func conversation(messages ...llm.Message) *llm.Request { return &llm.Request{Messages: messages} }

var png = []byte("\x89PNG\r\n\x1a\n made up")

// everything uses everything a request has.
func everything() *llm.Request {
	return &llm.Request{
		System: "You are <b>brief</b> & kind.",
		Messages: []llm.Message{
			wiretest.Message(llm.RoleSystem, llm.Text("One."), llm.Text("")),
			wiretest.Message(llm.RoleUser,
				llm.Text("Look:"),
				llm.Part{Kind: llm.PartImage, Data: png},
				llm.Part{Kind: llm.PartImage, URL: "gs://bucket/a.jpg?x=1", MIME: "image/jpg"},
				llm.Part{Kind: llm.PartImage, URL: "data:image/png;base64,aGk="},
				llm.Part{Kind: llm.PartAudio, Data: []byte("sound"), MIME: "audio/x-wav"},
				llm.Part{Kind: llm.PartAudio, Data: []byte("OggS\x00 sound")},
				llm.Part{Kind: llm.PartFile, Data: []byte("made up"), Name: "a.pdf"},
				llm.Part{Kind: llm.PartFile, Data: []byte("plain words")},
				llm.Part{Kind: llm.PartFile, URL: "https://example.com/files/b.pdf"},
				llm.Part{Kind: llm.PartFile, URL: "https://example.com/v1beta/files/abc", MIME: "video/mp4",
					Extra: extra(`{"videoMetadata":{"fps":2}}`)},
			),
			wiretest.Message(llm.RoleAssistant,
				llm.Part{Kind: llm.PartReasoning, Text: "another model's"},
				llm.Part{Kind: llm.PartReasoning, Text: "I need both.", Extra: extra(`{"thoughtSignature":"c2ln+/=="}`)},
				llm.Part{Kind: llm.PartReasoning, Extra: extra(`{"executableCode":{"language":"PYTHON","code":"print(1)"}}`)},
				llm.Text(""),
				llm.Text("Let me see."),
				wiretest.Call("call-a", "weather", `{"n":12345678901234567890,"city":"Oslo"}`),
				wiretest.Call("call-b", "now", ``),
				wiretest.Call("gemini-2-resp-1", "now", `{}`),
				llm.Part{Kind: llm.PartText, Extra: extra(`{"thoughtSignature":"ZW5k"}`)},
			),
			wiretest.Message(llm.RoleTool, result("gemini-2-resp-1", "", llm.Text("[1]"))),
			wiretest.Message(llm.RoleTool, llm.Part{Kind: llm.PartToolResult, Result: &llm.ToolResult{
				CallID: "call-b", Name: "now", IsError: true, Parts: []llm.Part{llm.Text("no clock")}}}),
			wiretest.Message(llm.RoleUser, llm.Text("Thanks."), result("call-a", "weather", llm.Text(`{"sky":"grey"}`),
				llm.Part{Kind: llm.PartImage, Data: png}, llm.Part{Kind: llm.PartFile, URL: "gs://b/c.pdf"})),
		},
		Tools: []llm.Tool{
			{Name: "weather", Description: "Says the weather", Parameters: raw(`{"type":"object","properties":{"city":{"type":"string"}},"additionalProperties":false}`)},
			{Name: "now"},
		},
		ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "weather"},
		Format:     &llm.Format{Kind: llm.FormatSchema, Name: "report", Schema: raw(`{"$defs":{},"type":"object"}`), Strict: true},
		MaxTokens:  100, Temperature: new(0.7), TopP: new(0.0), Stop: []string{"END"}, Seed: new(int64(7)), Effort: "low",
		Labels: map[string]string{"tenant": "secret-label"},
		Extra: map[string]json.RawMessage{
			"gemini": raw(`{"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}],"generationConfig":{"topK":40,"seed":null}}`),
			"openai": raw(`{"not":"for us"}`),
		},
	}
}

func TestRequestsOnTheWire(t *testing.T) {
	vertex := func(c *gemini.Config) { c.Project = "my-project" }
	on := func(model string) func(*gemini.Config) { return func(c *gemini.Config) { c.Model = model } }
	tools := []llm.Tool{{Name: "now"}}
	for _, c := range []struct {
		name   string
		req    *llm.Request
		change func(*gemini.Config)
	}{
		{"everything", everything(), nil},
		{"plain", wiretest.Ask("hi"), nil},
		{"streamed", with(func(r *llm.Request) { r.Sink = func(llm.Delta) error { return nil } }), nil},
		{"json", with(func(r *llm.Request) { r.Format = &llm.Format{Kind: llm.FormatJSON} }), nil},
		{"system_alone", &llm.Request{System: "Say hello."}, nil},
		{"tools_auto", with(func(r *llm.Request) { r.Tools, r.ToolChoice.Mode = tools, llm.ToolAuto }), nil},
		{"tools_none", with(func(r *llm.Request) { r.Tools, r.ToolChoice.Mode = tools, llm.ToolNone }), nil},
		{"tools_required", with(func(r *llm.Request) { r.Tools, r.ToolChoice.Mode = tools, llm.ToolRequired }), nil},
		{"tools_strict", with(func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "now", Strict: true}} }), nil},
		{"tools_strict_required", with(func(r *llm.Request) {
			r.Tools, r.ToolChoice.Mode = []llm.Tool{{Name: "now", Strict: true}}, llm.ToolRequired
		}), nil},
		{"choice_without_tools", with(func(r *llm.Request) { r.ToolChoice.Mode = llm.ToolRequired }), nil},
		{"effort_budget", with(func(r *llm.Request) { r.Effort = "high" }), nil},
		{"effort_none", with(func(r *llm.Request) { r.Effort = "none" }), nil},
		{"effort_number", with(func(r *llm.Request) { r.Effort = "-1" }), nil},
		{"effort_level", with(func(r *llm.Request) { r.Effort = "medium" }), on("gemini-3-pro-preview")},
		{"calls_of_another_model", conversation(
			llm.User("hi"),
			wiretest.Message(llm.RoleAssistant, wiretest.Call("call_1", "now", `{}`), wiretest.Call("call_2", "now", `{}`)),
			wiretest.Message(llm.RoleTool, result("call_1", "now", llm.Text("1")), result("call_2", "now", llm.Text("2"))),
			wiretest.Message(llm.RoleAssistant, func() llm.Part {
				p := wiretest.Call("call_3", "now", `{}`)
				p.Extra = extra(`{"thoughtSignature":"b3du"}`)
				return p
			}(), wiretest.Call("call_4", "now", `{}`)),
			wiretest.Message(llm.RoleTool, result("call_3", "now", llm.Text("3")), result("call_4", "now", llm.Text("4"))),
			wiretest.Message(llm.RoleAssistant, wiretest.Call("call_5", "now", `{}`), func() llm.Part {
				p := wiretest.Call("call_6", "now", `{}`)
				p.Extra = extra(`{"thoughtSignature":"b3du"}`)
				return p
			}()),
		), on("publishers/google/models/gemini-3-flash")},
		{"results_without_their_calls", conversation(
			wiretest.Message(llm.RoleTool, result("b", "second", llm.Text("2")), result("", "first", llm.Text("1"))),
			wiretest.Message(llm.RoleAssistant, wiretest.Call("c", "third", `{}`)),
			wiretest.Message(llm.RoleTool, result("lost", "fourth", llm.Text("4")), result("c", "", llm.Text("3"))),
		), nil},
		{"vertex_extra", with(func(r *llm.Request) {
			r.Extra = map[string]json.RawMessage{"gemini": raw(`{"a":1,"b":{"x":1,"y":2}}`), "vertex": raw(`{"a":2,"b":{"x":null}}`)}
			r.Messages[0].Parts[0].Extra = map[string]json.RawMessage{"gemini": raw(`{"a":1,"c":1}`), "vertex": raw(`{"a":2}`)}
		}), vertex},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := ok()
			change := c.change
			if change == nil {
				change = func(*gemini.Config) {}
			}
			if _, err := serve(t, s.ServeHTTP, change).Call(t.Context(), c.req); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "requests", c.name+".json")
			wiretest.Golden(t, file, s.Body(), *update)
		})
	}
}

func TestTheRequestIsNotModified(t *testing.T) {
	wiretest.Untouched(t, serve(t, ok().ServeHTTP), everything)
}

func TestRequestsThatCannotBeSaidFailBeforeTheWire(t *testing.T) {
	by := func(h http.HandlerFunc) llm.Caller { return serve(t, h) }
	part := func(p llm.Part) *llm.Request { return conversation(wiretest.Message(llm.RoleUser, p)) }
	wiretest.Refuses(t, by, []wiretest.Refusal{
		{"nil", nil, llm.Invalid, "nil"},
		{"no messages", &llm.Request{}, llm.Invalid, "no messages"},
		{"empty messages", conversation(llm.User("")), llm.Invalid, "empty"},
		{"role", conversation(wiretest.Message("judge", llm.Text("hi"))), llm.Invalid, `"judge"`},
		{"tool parameters", with(func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "t", Parameters: raw(`{"type":`)}} }), llm.Invalid, `"t"`},
		{"tool mode", with(func(r *llm.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{{Name: "t"}}, "often" }), llm.Invalid, `"often"`},
		{"schema", with(func(r *llm.Request) { r.Format = &llm.Format{Kind: llm.FormatSchema} }), llm.Invalid, "Schema"},
		{"format", with(func(r *llm.Request) { r.Format = &llm.Format{Kind: "xml"} }), llm.Invalid, "xml"},
		{"extra", with(func(r *llm.Request) { r.Extra = extra(`[1]`) }), llm.Invalid, "Extra"},
		{"part extra", part(llm.Part{Kind: llm.PartText, Extra: extra(`{`)}), llm.Invalid, "Extra"},
		{"kind", part(llm.Part{Kind: "video"}), llm.Invalid, "video"},
		{"a call without Call", part(llm.Part{Kind: llm.PartToolCall}), llm.Invalid, "without Call"},
		{"a call whose arguments are a list", part(wiretest.Call("c", "now", `[]`)), llm.Invalid, "not a JSON object"},
		{"a result without Result", part(llm.Part{Kind: llm.PartToolResult}), llm.Invalid, "without Result"},
		{"a result without a name", part(result("lost", "", llm.Text("1"))), llm.Invalid, `"lost"`},
		{"reasoning as a tool's result", part(result("c", "now", llm.Part{Kind: llm.PartReasoning, Text: "hm"})), llm.Unsupported, "reasoning"},
		{"an image of nothing", part(llm.Part{Kind: llm.PartImage}), llm.Invalid, "without Data or URL"},
		{"an image of nothing as a tool's result", part(result("c", "now", llm.Part{Kind: llm.PartImage})), llm.Invalid, "without Data or URL"},
		{"a data URL that is none", part(llm.Part{Kind: llm.PartImage, URL: "data:image/png;base64,?"}), llm.Invalid, "base64"},
		{"an image in a system message", conversation(wiretest.Message(llm.RoleSystem, llm.Part{Kind: llm.PartImage, Data: png})), llm.Unsupported, "system"},
		{"an effort of another provider's", with(func(r *llm.Request) { r.Effort = "xhigh" }), llm.Unsupported, `"xhigh"`},
		{"a temperature that is no number", with(func(r *llm.Request) { r.Temperature = new(math.NaN()) }), llm.Invalid, "JSON"},
		{"a model elsewhere", with(func(r *llm.Request) { r.Model = "../../v1/files" }), llm.Invalid, "another place"},
	})
	t.Run("no model", func(t *testing.T) {
		resp, err := gemini.New(gemini.Config{}).Call(t.Context(), wiretest.Ask("hi"))
		if e := wiretest.Failure(t, resp, err); e.Class != llm.Invalid || !strings.Contains(e.Error(), "no model") {
			t.Errorf("got %v", e)
		}
	})
}

// What the API says in one turn has to come back to it unchanged in the next.
func TestAnAnswerGoesBackAsItCame(t *testing.T) {
	const parts = `{"text":"I look.","thought":true,"thoughtSignature":"dDE="},` +
		`{"executableCode":{"language":"PYTHON","code":"1<2"},"thoughtSignature":"dDI="},` +
		`{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"True"}},` +
		`{"inlineData":{"data":"aGk=","mimeType":"image/png"},"thoughtSignature":"dDM="},` +
		`{"functionCall":{"id":"f1","name":"now","args":{"b":1,"a":1.50}},"thoughtSignature":"dDQ="},` +
		`{"functionCall":{"name":"now","args":{}}},` +
		`{"text":"Wait","thoughtSignature":"dDU="},{"text":"","thoughtSignature":"dDY="}`
	s := ok()
	var sent string
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(httpDiscard{}, r)
		sent = s.Body()
		w.Header().Set("Content-Type", wiretest.JSON)
		_, _ = io.WriteString(w, chunk(parts, stop, used))
	})
	for _, req := range []*llm.Request{wiretest.Ask("hi"), wiretest.Streamed(&llm.Accumulator{})} {
		resp, err := m.Call(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		calls := resp.ToolCalls()
		next := conversation(llm.User("hi"), llm.Message{Role: llm.RoleAssistant, Parts: resp.Parts},
			wiretest.Message(llm.RoleTool, result(calls[1].ID, "", llm.Text("2"))), wiretest.Message(llm.RoleTool, result("f1", "", llm.Text("1"))))
		if _, err := m.Call(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		want := `{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[` + parts + `]},{"role":"user","parts":[` +
			`{"functionResponse":{"id":"f1","name":"now","response":{"output":"1"}}},` +
			`{"functionResponse":{"name":"now","response":{"output":"2"}}}]}]}`
		if !sameJSON(sent, want) {
			t.Errorf("sent\n%s\nwant\n%s", sent, want)
		}
		if !strings.Contains(sent, `"args":{"b":1,"a":1.50}`) {
			t.Errorf("the arguments were written anew: %s", sent)
		}
	}
}

type httpDiscard struct{}

func (httpDiscard) Header() http.Header         { return http.Header{} }
func (httpDiscard) Write(p []byte) (int, error) { return len(p), nil }
func (httpDiscard) WriteHeader(int)             {}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}
