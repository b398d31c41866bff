package anthropic_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
	"github.com/modelchain/llm/internal/wiretest"
)

var update = flag.Bool("update", false, "write the golden requests")

// sent is the body that a request becomes on the wire.
func sent(t *testing.T, req *llm.Request, change ...func(*anthropic.Config)) []byte {
	t.Helper()
	var body []byte
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		wiretest.Says(200, wiretest.JSON, hello)(w, r)
	}, change...)
	if _, err := m.Call(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	return body
}

func part(kind llm.PartKind, p llm.Part) llm.Part {
	p.Kind = kind
	return p
}

func extra(raw string) map[string]json.RawMessage {
	return map[string]json.RawMessage{"anthropic": json.RawMessage(raw)}
}

func calls(id, name, args string) llm.Part {
	return llm.Part{Kind: llm.PartToolCall, Call: &llm.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(args)}}
}

func result(id string, isError bool, parts ...llm.Part) llm.Part {
	return llm.Part{Kind: llm.PartToolResult, Result: &llm.ToolResult{CallID: id, Parts: parts, IsError: isError}}
}

func message(role llm.Role, parts ...llm.Part) llm.Message {
	return llm.Message{Role: role, Parts: parts}
}

// goldenRequests are requests by the name of the file in testdata that they become.
func goldenRequests() map[string]*llm.Request {
	png := []byte("\x89PNG\r\n\x1a\n")
	schema := json.RawMessage(`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}},"required":["z"]}`)
	return map[string]*llm.Request{
		"plain": wiretest.Ask("Hello <world> & \"all\"?"),
		"settings": {
			Model: "claude-other", System: "Be brief.", Messages: []llm.Message{llm.User("Hello?")}, MaxTokens: 77,
			Temperature: new(0.0), TopP: new(0.5), Stop: []string{"END"}, Seed: new(int64(7)), Effort: "low",
			Labels: map[string]string{"tenant": "t"},
			Format: &llm.Format{Kind: llm.FormatSchema, Name: "n", Schema: schema, Strict: true},
		},
		"streamed": {Messages: []llm.Message{llm.User("Hello?")}, Sink: func(llm.Delta) error { return nil }},
		"tools": {
			Messages: []llm.Message{
				llm.User("What is it like?"),
				message(llm.RoleAssistant, llm.Text("Let me look."), calls("c1", "look", `{"where":"here"}`), calls("call.2", "look", "")),
				message(llm.RoleTool, result("c1", false, llm.Text("Sunny."), part(llm.PartImage, llm.Part{Data: png}))),
				message(llm.RoleTool, result("call.2", true, llm.Text("The roof is closed."))),
				message(llm.RoleUser, llm.Text("Well?")),
			},
			Tools: []llm.Tool{
				{Name: "look", Description: "looks", Parameters: schema, Strict: true},
				{Name: "stop"},
			},
			ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "look"},
		},
		"results_first": {
			Messages: []llm.Message{
				message(llm.RoleAssistant, calls("c1", "look", "{}"), calls("c2", "look", "{}")),
				message(llm.RoleUser, llm.Text("Hurry."), llm.Part{
					Kind: llm.PartToolResult, Extra: extra(`{"cache_control":{"type":"ephemeral"}}`),
					Result: &llm.ToolResult{CallID: "c1", Parts: []llm.Part{llm.Text("one")}},
				}),
				message(llm.RoleTool, result("c2", false)),
			},
		},
		"media": {Messages: []llm.Message{message(llm.RoleUser,
			llm.Text("Look:"),
			part(llm.PartImage, llm.Part{Data: png}),
			part(llm.PartImage, llm.Part{Data: []byte("x"), MIME: "image/jpg"}),
			part(llm.PartImage, llm.Part{URL: "https://example.com/a.png"}),
			part(llm.PartImage, llm.Part{URL: "data:image/gif;base64,R0lGOA=="}),
			part(llm.PartImage, llm.Part{URL: "file_011"}),
			part(llm.PartFile, llm.Part{Data: []byte("%PDF-1.7"), Name: "a.pdf"}),
			part(llm.PartFile, llm.Part{Data: []byte("%PDF-1.7")}),
			part(llm.PartFile, llm.Part{URL: "https://example.com/a.pdf"}),
			part(llm.PartFile, llm.Part{URL: "file_012"}),
			part(llm.PartFile, llm.Part{Data: []byte("plain words"), MIME: "text/plain; charset=utf-8", Name: "a.txt"}),
			part(llm.PartFile, llm.Part{URL: "data:text/plain;base64,aGk="}),
		)}},
		"reasoning": {Messages: []llm.Message{
			llm.User("Think."),
			message(llm.RoleAssistant,
				part(llm.PartReasoning, llm.Part{Text: "Hm.", Extra: extra(`{"signature":"c2ln"}`)}),
				part(llm.PartReasoning, llm.Part{Extra: extra(`{"data":"opaque","type":"redacted_thinking"}`)}),
				part(llm.PartReasoning, llm.Part{Text: "another model's thoughts"}),
				llm.Text(""),
				llm.Text("Yes."),
			),
			message(llm.RoleAssistant, part(llm.PartReasoning, llm.Part{Text: "nothing of this API's"})),
			llm.User("Why?"),
		}},
		"prefill": {Messages: []llm.Message{llm.User("A list:"), llm.Assistant("1. ")}},
		"system": {
			System: "First.",
			Messages: []llm.Message{
				message(llm.RoleSystem, llm.Text("Second."), part(llm.PartText, llm.Part{Text: "Third.", Extra: extra(`{"cache_control":{"type":"ephemeral"}}`)})),
				llm.User("Hello?"), llm.Assistant("Hello."),
				message(llm.RoleSystem, llm.Text("Fourth.")),
				llm.User("Go on."),
			},
		},
		"caching": {Messages: []llm.Message{
			message(llm.RoleUser, part(llm.PartText, llm.Part{Text: "long", Extra: extra(`{"cache_control":{"type":"ephemeral","ttl":"1h"}}`)}),
				part(llm.PartFile, llm.Part{Data: []byte("%PDF-1.7"), Extra: extra(`{"citations":{"enabled":true}}`)})),
			message(llm.RoleAssistant, calls("c1", "look", "{}")),
			message(llm.RoleTool, llm.Part{
				Kind: llm.PartToolResult, Extra: extra(`{"cache_control":{"type":"ephemeral"}}`),
				Result: &llm.ToolResult{CallID: "c1", Parts: []llm.Part{{Kind: llm.PartText, Text: "one", Extra: extra(`{"cache_control":{"type":"ephemeral"}}`)}}},
			}),
		}},
		"extra": {
			Messages: []llm.Message{llm.User("Hello?")}, Effort: "high", MaxTokens: 5, TopP: new(0.5),
			Tools: []llm.Tool{{Name: "look", Parameters: schema}},
			Extra: map[string]json.RawMessage{
				"anthropic": json.RawMessage(`{"thinking":{"type":"adaptive"},"metadata":{"user_id":"u"},"output_config":{"format":null,"more":1},"top_p":null}`),
				"openai":    json.RawMessage(`{"logprobs":true}`),
			},
		},
		"choice_without_tools": {Messages: []llm.Message{llm.User("Hello?")}, ToolChoice: llm.ToolChoice{Mode: llm.ToolNone}},
	}
}

func TestRequestsAreTheGoldenOnes(t *testing.T) {
	for name, req := range goldenRequests() {
		t.Run(name, func(t *testing.T) {
			raw := sent(t, req)
			var got bytes.Buffer
			if err := json.Indent(&got, raw, "", "  "); err != nil {
				t.Fatalf("%v: %s", err, raw)
			}
			got.WriteByte('\n')
			file := filepath.Join("testdata", "request_"+name+".json")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s is sent as\n%s\nwant\n%s", name, got.Bytes(), want)
			}
			req.Sink = nil // functions cannot be compared
			again := goldenRequests()[name]
			again.Sink = nil
			if !reflect.DeepEqual(req, again) {
				t.Error("the request was written to")
			}
		})
	}
}

func TestToolChoicesHaveTheAPIsNames(t *testing.T) {
	for mode, want := range map[llm.ToolMode]string{
		llm.ToolAuto: `"tool_choice":{"type":"auto"}`, llm.ToolNone: `"tool_choice":{"type":"none"}`,
		llm.ToolRequired: `"tool_choice":{"type":"any"}`, llm.ToolNamed: `"tool_choice":{"name":"a","type":"tool"}`,
	} {
		req := wiretest.Ask("Hello?")
		req.Tools, req.ToolChoice = []llm.Tool{{Name: "a"}}, llm.ToolChoice{Mode: mode, Name: "a"}
		if body := string(sent(t, req)); !strings.Contains(body, want) {
			t.Errorf("%s: %s in %s", mode, want, body)
		}
	}
}

func TestMaxTokensIsTheNearestOne(t *testing.T) {
	for _, c := range []struct {
		name         string
		request, cfg int
		want         string
	}{
		{"the request's", 5, 6, `"max_tokens":5`}, {"the adapter's", 0, 6, `"max_tokens":6`}, {"the default", 0, 0, `"max_tokens":8192`},
	} {
		req := wiretest.Ask("Hello?")
		req.MaxTokens = c.request
		body := string(sent(t, req, func(cfg *anthropic.Config) { cfg.MaxTokens = c.cfg }))
		if !strings.Contains(body, c.want) {
			t.Errorf("%s: %s", c.name, body)
		}
	}
}

func TestExtraOfTheProvidersOwnNameGoesLast(t *testing.T) {
	req := wiretest.Ask("Hello?")
	req.Extra = map[string]json.RawMessage{
		"anthropic": json.RawMessage(`{"top_k":1,"service_tier":"auto"}`), "relay": json.RawMessage(`{"top_k":2}`),
	}
	req.Messages[0].Parts[0].Extra = map[string]json.RawMessage{
		"anthropic": json.RawMessage(`{"cache_control":{"type":"ephemeral","ttl":"5m"}}`), "relay": json.RawMessage(`{"cache_control":{"ttl":"1h"}}`),
	}
	body := string(sent(t, req, func(c *anthropic.Config) { c.Provider = "relay" }))
	for _, want := range []string{`"top_k":2`, `"service_tier":"auto"`, `"cache_control":{"type":"ephemeral","ttl":"1h"}`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}

func TestWhatCannotBeSentIsRefusedUnsent(t *testing.T) {
	with := func(parts ...llm.Part) *llm.Request {
		return &llm.Request{Messages: []llm.Message{message(llm.RoleUser, parts...)}}
	}
	named := func(change func(*llm.Request)) *llm.Request {
		r := wiretest.Ask("Hello?")
		change(r)
		return r
	}
	for _, c := range []struct {
		name  string
		req   *llm.Request
		class llm.Class
		says  string
	}{
		{"nil", nil, llm.Invalid, "the request is nil"},
		{"no messages", &llm.Request{}, llm.Invalid, "has no messages"},
		{"no model", named(func(r *llm.Request) {}), llm.Invalid, "no model is named"},
		{"audio", with(part(llm.PartAudio, llm.Part{Data: []byte("x")})), llm.Unsupported, "Messages[0].Parts[0] is audio"},
		{"a video", with(part(llm.PartFile, llm.Part{Data: []byte("x"), MIME: "video/mp4"})), llm.Unsupported, `type "video/mp4"`},
		{"an image that is none", with(part(llm.PartImage, llm.Part{Data: []byte("plain words")})), llm.Unsupported, `type "text/plain"`},
		{"a part of no kind", with(llm.Text("a"), part("hologram", llm.Part{})), llm.Invalid, `Messages[0].Parts[1] is of the unknown kind "hologram"`},
		{"a call without Call", with(part(llm.PartToolCall, llm.Part{})), llm.Invalid, "without Call"},
		{"a result without Result", with(part(llm.PartToolResult, llm.Part{})), llm.Invalid, "without Result"},
		{"a result that holds a call", with(result("c", false, calls("c", "n", "{}"))), llm.Unsupported, "holds tool_call"},
		{"arguments that are no object", with(calls("c", "n", `"text"`)), llm.Invalid, "not a JSON object"},
		{"a data URL that is broken", with(part(llm.PartFile, llm.Part{URL: "data:text/plain;base64,!"})), llm.Invalid, "not base64"},
		{"an extra that is no object", with(llm.Part{Kind: llm.PartText, Text: "a", Extra: extra("[]")}), llm.Invalid, `Extra["anthropic"] of Messages[0].Parts[0]`},
		{"an unknown role", &llm.Request{Messages: []llm.Message{{Role: "narrator"}}}, llm.Invalid, `role "narrator"`},
		{"an image as system text", &llm.Request{Messages: []llm.Message{message(llm.RoleSystem, part(llm.PartImage, llm.Part{URL: "u"}))}}, llm.Unsupported, "is text here"},
		{"parameters that are no schema", named(func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "t", Parameters: []byte("7")}} }), llm.Invalid, `tool "t"`},
		{"an unknown tool mode", named(func(r *llm.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{{Name: "t"}}, "maybe" }), llm.Invalid, `"maybe"`},
		{"JSON without a schema", named(func(r *llm.Request) { r.Format = &llm.Format{Kind: llm.FormatJSON} }), llm.Unsupported, "set Format.Schema"},
		{"a schema that is none", named(func(r *llm.Request) { r.Format = &llm.Format{Kind: llm.FormatSchema} }), llm.Invalid, "Format.Schema"},
		{"an unknown format", named(func(r *llm.Request) { r.Format = &llm.Format{Kind: "yaml"} }), llm.Invalid, `"yaml"`},
		{"extras that are no object", named(func(r *llm.Request) { r.Extra = extra("  ") }), llm.Invalid, `Extra["anthropic"] is not`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s wiretest.Recorder
			m := serve(t, s.Of(wiretest.Says(200, wiretest.JSON, hello)), func(cfg *anthropic.Config) {
				if c.name == "no model" {
					cfg.Model = ""
				}
			})
			resp, err := m.Call(t.Context(), c.req)
			e := llm.AsError(err)
			if resp != nil || e.Class != c.class || !strings.Contains(e.Message, c.says) || e.Commit != llm.CommitNone || s.Calls() != 0 {
				t.Errorf("%v of class %v, commit %v, after %d requests; want %v, %q", err, e.Class, e.Commit, s.Calls(), c.class, c.says)
			}
		})
	}
}

func TestForeignCallIDsStayApartAndTogether(t *testing.T) {
	req := &llm.Request{Messages: []llm.Message{
		message(llm.RoleAssistant, calls("a.b", "n", "{}"), calls("a:b", "n", "{}"), calls("", "n", "{}"), calls("toolu_01-x", "n", "{}")),
		message(llm.RoleTool, result("a.b", false), result("a:b", false), result("", false), result("toolu_01-x", false)),
	}}
	var body struct {
		Messages []struct {
			Content []struct {
				ID     string
				Result string `json:"tool_use_id"`
			}
		}
	}
	if err := json.Unmarshal(sent(t, req), &body); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for i, c := range body.Messages[0].Content {
		if strings.Trim(c.ID, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" || c.ID == "" || known[c.ID] {
			t.Errorf("the id %q", c.ID)
		}
		known[c.ID] = true
		if got := body.Messages[1].Content[i].Result; got != c.ID {
			t.Errorf("the result of %q is sent for %q", c.ID, got)
		}
	}
	if !known["toolu_01-x"] {
		t.Error("an id of the API's own was changed")
	}
}
