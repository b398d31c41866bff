package anthropic_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
	"github.com/modelchain/llm/internal/wiretest"
)

var update = flag.Bool("update", false, "write the golden requests")

// by makes models whose settings are changed so.
func by(t *testing.T, change ...func(*anthropic.Config)) func(http.HandlerFunc) llm.Caller {
	return func(h http.HandlerFunc) llm.Caller { return serve(t, h, change...) }
}

func extra(raw string) map[string]json.RawMessage {
	return map[string]json.RawMessage{"anthropic": json.RawMessage(raw)}
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
				wiretest.Message(llm.RoleAssistant, llm.Text("Let me look."), wiretest.Call("c1", "look", `{"where":"here"}`), wiretest.Call("call.2", "look", "")),
				wiretest.Message(llm.RoleTool, wiretest.Result("c1", false, llm.Text("Sunny."), wiretest.Part(llm.PartImage, llm.Part{Data: png}))),
				wiretest.Message(llm.RoleTool, wiretest.Result("call.2", true, llm.Text("The roof is closed."))),
				wiretest.Message(llm.RoleUser, llm.Text("Well?")),
			},
			Tools: []llm.Tool{
				{Name: "look", Description: "looks", Parameters: schema, Strict: true},
				{Name: "stop"},
			},
			ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "look"},
		},
		"results_first": {
			Messages: []llm.Message{
				wiretest.Message(llm.RoleAssistant, wiretest.Call("c1", "look", "{}"), wiretest.Call("c2", "look", "{}")),
				wiretest.Message(llm.RoleUser, llm.Text("Hurry."), llm.Part{
					Kind: llm.PartToolResult, Extra: extra(`{"cache_control":{"type":"ephemeral"}}`),
					Result: &llm.ToolResult{CallID: "c1", Parts: []llm.Part{llm.Text("one")}},
				}),
				wiretest.Message(llm.RoleTool, wiretest.Result("c2", false)),
			},
		},
		"media": {Messages: []llm.Message{wiretest.Message(llm.RoleUser,
			llm.Text("Look:"),
			wiretest.Part(llm.PartImage, llm.Part{Data: png}),
			wiretest.Part(llm.PartImage, llm.Part{Data: []byte("x"), MIME: "image/jpg"}),
			wiretest.Part(llm.PartImage, llm.Part{URL: "https://example.com/a.png"}),
			wiretest.Part(llm.PartImage, llm.Part{URL: "data:image/gif;base64,R0lGOA=="}),
			wiretest.Part(llm.PartImage, llm.Part{URL: "file_011"}),
			wiretest.Part(llm.PartFile, llm.Part{Data: []byte("%PDF-1.7"), Name: "a.pdf"}),
			wiretest.Part(llm.PartFile, llm.Part{Data: []byte("%PDF-1.7")}),
			wiretest.Part(llm.PartFile, llm.Part{URL: "https://example.com/a.pdf"}),
			wiretest.Part(llm.PartFile, llm.Part{URL: "file_012"}),
			wiretest.Part(llm.PartFile, llm.Part{Data: []byte("plain words"), MIME: "text/plain; charset=utf-8", Name: "a.txt"}),
			wiretest.Part(llm.PartFile, llm.Part{URL: "data:text/plain;base64,aGk="}),
		)}},
		"reasoning": {Messages: []llm.Message{
			llm.User("Think."),
			wiretest.Message(llm.RoleAssistant,
				wiretest.Part(llm.PartReasoning, llm.Part{Text: "Hm.", Extra: extra(`{"signature":"c2ln"}`)}),
				wiretest.Part(llm.PartReasoning, llm.Part{Extra: extra(`{"data":"opaque","type":"redacted_thinking"}`)}),
				wiretest.Part(llm.PartReasoning, llm.Part{Text: "another model's thoughts"}),
				llm.Text(""),
				llm.Text("Yes."),
			),
			wiretest.Message(llm.RoleAssistant, wiretest.Part(llm.PartReasoning, llm.Part{Text: "nothing of this API's"})),
			llm.User("Why?"),
		}},
		"prefill": {Messages: []llm.Message{llm.User("A list:"), llm.Assistant("1. ")}},
		"system": {
			System: "First.",
			Messages: []llm.Message{
				wiretest.Message(llm.RoleSystem, llm.Text("Second."), wiretest.Part(llm.PartText, llm.Part{Text: "Third.", Extra: extra(`{"cache_control":{"type":"ephemeral"}}`)})),
				llm.User("Hello?"), llm.Assistant("Hello."),
				wiretest.Message(llm.RoleSystem, llm.Text("Fourth.")),
				llm.User("Go on."),
			},
		},
		"caching": {Messages: []llm.Message{
			wiretest.Message(llm.RoleUser, wiretest.Part(llm.PartText, llm.Part{Text: "long", Extra: extra(`{"cache_control":{"type":"ephemeral","ttl":"1h"}}`)}),
				wiretest.Part(llm.PartFile, llm.Part{Data: []byte("%PDF-1.7"), Extra: extra(`{"citations":{"enabled":true}}`)})),
			wiretest.Message(llm.RoleAssistant, wiretest.Call("c1", "look", "{}")),
			wiretest.Message(llm.RoleTool, llm.Part{
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
			wiretest.Golden(t, filepath.Join("testdata", "request_"+name+".json"), wiretest.Sent(t, by(t), hello, req), *update)
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
		if body := wiretest.Sent(t, by(t), hello, req); !strings.Contains(body, want) {
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
		body := wiretest.Sent(t, by(t, func(cfg *anthropic.Config) { cfg.MaxTokens = c.cfg }), hello, req)
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
	body := wiretest.Sent(t, by(t, func(c *anthropic.Config) { c.Provider = "relay" }), hello, req)
	for _, want := range []string{`"top_k":2`, `"service_tier":"auto"`, `"cache_control":{"type":"ephemeral","ttl":"1h"}`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}

func TestWhatCannotBeSentIsRefusedUnsent(t *testing.T) {
	with := func(parts ...llm.Part) *llm.Request {
		return &llm.Request{Messages: []llm.Message{wiretest.Message(llm.RoleUser, parts...)}}
	}
	named := func(change func(*llm.Request)) *llm.Request {
		r := wiretest.Ask("Hello?")
		change(r)
		return r
	}
	wiretest.Refuses(t, by(t), []wiretest.Refusal{
		{"nil", nil, llm.Invalid, "the request is nil"},
		{"no messages", &llm.Request{}, llm.Invalid, "has no messages"},
		{"audio", with(wiretest.Part(llm.PartAudio, llm.Part{Data: []byte("x")})), llm.Unsupported, "Messages[0].Parts[0] is audio"},
		{"a video", with(wiretest.Part(llm.PartFile, llm.Part{Data: []byte("x"), MIME: "video/mp4"})), llm.Unsupported, `type "video/mp4"`},
		{"an image that is none", with(wiretest.Part(llm.PartImage, llm.Part{Data: []byte("plain words")})), llm.Unsupported, `type "text/plain"`},
		{"a part of no kind", with(llm.Text("a"), wiretest.Part("hologram", llm.Part{})), llm.Invalid, `Messages[0].Parts[1] is of the unknown kind "hologram"`},
		{"a call without Call", with(wiretest.Part(llm.PartToolCall, llm.Part{})), llm.Invalid, "without Call"},
		{"a result without Result", with(wiretest.Part(llm.PartToolResult, llm.Part{})), llm.Invalid, "without Result"},
		{"a result that holds a call", with(wiretest.Result("c", false, wiretest.Call("c", "n", "{}"))), llm.Unsupported, "holds tool_call"},
		{"arguments that are no object", with(wiretest.Call("c", "n", `"text"`)), llm.Invalid, "not a JSON object"},
		{"a data URL that is broken", with(wiretest.Part(llm.PartFile, llm.Part{URL: "data:text/plain;base64,!"})), llm.Invalid, "not base64"},
		{"an extra that is no object", with(llm.Part{Kind: llm.PartText, Text: "a", Extra: extra("[]")}), llm.Invalid, `Extra["anthropic"] of Messages[0].Parts[0]`},
		{"an unknown role", &llm.Request{Messages: []llm.Message{{Role: "narrator"}}}, llm.Invalid, `role "narrator"`},
		{"an image as system text", &llm.Request{Messages: []llm.Message{wiretest.Message(llm.RoleSystem, wiretest.Part(llm.PartImage, llm.Part{URL: "u"}))}}, llm.Unsupported, "is text here"},
		{"parameters that are no schema", named(func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "t", Parameters: []byte("7")}} }), llm.Invalid, `tool "t"`},
		{"an unknown tool mode", named(func(r *llm.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{{Name: "t"}}, "maybe" }), llm.Invalid, `"maybe"`},
		{"JSON without a schema", named(func(r *llm.Request) { r.Format = &llm.Format{Kind: llm.FormatJSON} }), llm.Unsupported, "set Format.Schema"},
		{"a schema that is none", named(func(r *llm.Request) { r.Format = &llm.Format{Kind: llm.FormatSchema} }), llm.Invalid, "Format.Schema"},
		{"an unknown format", named(func(r *llm.Request) { r.Format = &llm.Format{Kind: "yaml"} }), llm.Invalid, `"yaml"`},
		{"extras that are no object", named(func(r *llm.Request) { r.Extra = extra("  ") }), llm.Invalid, `Extra["anthropic"] is not`},
	})
	wiretest.Refuses(t, by(t, func(c *anthropic.Config) { c.Model = "" }), []wiretest.Refusal{
		{"no model", wiretest.Ask("Hello?"), llm.Invalid, "no model is named"},
	})
}

func TestForeignCallIDsStayApartAndTogether(t *testing.T) {
	req := &llm.Request{Messages: []llm.Message{
		wiretest.Message(llm.RoleAssistant, wiretest.Call("a.b", "n", "{}"), wiretest.Call("a:b", "n", "{}"), wiretest.Call("", "n", "{}"), wiretest.Call("toolu_01-x", "n", "{}")),
		wiretest.Message(llm.RoleTool, wiretest.Result("a.b", false), wiretest.Result("a:b", false), wiretest.Result("", false), wiretest.Result("toolu_01-x", false)),
	}}
	var body struct {
		Messages []struct {
			Content []struct {
				ID     string
				Result string `json:"tool_use_id"`
			}
		}
	}
	if err := json.Unmarshal([]byte(wiretest.Sent(t, by(t), hello, req)), &body); err != nil {
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
