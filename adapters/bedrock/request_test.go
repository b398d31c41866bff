package bedrock_test

import (
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/bedrock"
	"github.com/modelchain/llm/internal/wiretest"
)

var update = flag.Bool("update", false, "write the golden requests")

// by makes models whose settings are changed so.
func by(t *testing.T, change ...func(*bedrock.Config)) func(http.HandlerFunc) llm.Caller {
	return func(h http.HandlerFunc) llm.Caller { return serve(t, h, change...) }
}

func extra(raw string) map[string]json.RawMessage {
	return map[string]json.RawMessage{"bedrock": json.RawMessage(raw)}
}

var (
	png    = []byte("\x89PNG\r\n\x1a\n")
	pdf    = []byte("%PDF-1.7")
	schema = json.RawMessage(`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer","maximum":9007199254740993}},"required":["z"]}`)
)

// goldenRequests are requests by the name of the file in testdata that they become.
func goldenRequests() map[string]*llm.Request {
	marked := llm.Text("long")
	marked.Extra = extra(`{"cachePoint":{"type":"default"}}`)
	return map[string]*llm.Request{
		"plain": {
			System: "Be brief.", Messages: []llm.Message{llm.User("Hello <you> & me?")}, MaxTokens: 100, Temperature: aws.Float64(0.2),
			TopP: aws.Float64(0.9), Stop: []string{"END"}, Effort: "low", Labels: map[string]string{"tenant": "t"}, Seed: aws.Int64(1),
		},
		"tools": {
			Messages: []llm.Message{
				llm.User("Weather?"),
				wiretest.Message(llm.RoleAssistant, llm.Text("Let me see."), wiretest.Call("c1", "look", `{"where":"here","n":9007199254740993}`), wiretest.Call("c2", "look", "")),
				wiretest.Message(llm.RoleTool, wiretest.Result("c1", false, llm.Text("sunny"), wiretest.Part(llm.PartImage, llm.Part{Data: png}))),
				wiretest.Message(llm.RoleTool, wiretest.Result("c2", true)),
				wiretest.Message(llm.RoleUser, llm.Text("And now?")),
			},
			Tools: []llm.Tool{
				{Name: "look", Description: "looks", Parameters: schema, Strict: true}, {Name: "none"},
			},
			ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "look"},
		},
		"results_first": {
			Messages: []llm.Message{
				wiretest.Message(llm.RoleAssistant, wiretest.Call("c1", "look", "{}"), wiretest.Call("c2", "look", "{}")),
				wiretest.Message(llm.RoleUser, llm.Text("Here:"), wiretest.Result("c1", false, llm.Text("one"))),
				wiretest.Message(llm.RoleTool, wiretest.Result("c2", false, llm.Text("two"))),
			},
			Tools: []llm.Tool{{Name: "look"}}, ToolChoice: llm.ToolChoice{Mode: llm.ToolRequired},
		},
		"no_tools": {
			Messages: []llm.Message{llm.User("Hello?")}, Tools: []llm.Tool{{Name: "look"}}, ToolChoice: llm.ToolChoice{Mode: llm.ToolNone},
		},
		"media": {
			Messages: []llm.Message{wiretest.Message(llm.RoleUser,
				wiretest.Part(llm.PartImage, llm.Part{Data: png}), wiretest.Part(llm.PartImage, llm.Part{URL: "data:image/jpg;base64,/9j/"}),
				wiretest.Part(llm.PartImage, llm.Part{URL: "s3://bucket/a.webp", MIME: "image/webp"}),
				wiretest.Part(llm.PartFile, llm.Part{Data: pdf, Name: "the  report_v2 (final).pdf"}),
				wiretest.Part(llm.PartFile, llm.Part{Data: pdf, Name: "the report.v2 (final).pdf"}),
				wiretest.Part(llm.PartFile, llm.Part{Data: []byte("a,b"), MIME: "text/csv; charset=utf-8"}),
				wiretest.Part(llm.PartFile, llm.Part{Data: []byte("PK\x03\x04"), Name: "sheet.xlsx"}),
				wiretest.Part(llm.PartFile, llm.Part{Data: []byte("plain")}), wiretest.Part(llm.PartAudio, llm.Part{Data: []byte("RIFF"), MIME: "audio/x-wav"}),
				llm.Text("Compare."),
			)},
		},
		"schema": {
			Messages: []llm.Message{llm.User("Hello?")}, Format: &llm.Format{Kind: llm.FormatSchema, Name: "reply", Schema: schema, Strict: true},
		},
		"extra": {
			Messages: []llm.Message{
				wiretest.Message(llm.RoleSystem, marked),
				wiretest.Message(llm.RoleUser, wiretest.Part(llm.PartFile, llm.Part{Data: pdf, Extra: extra(`{"document":{"citations":{"enabled":true}}}`)}), marked,
					wiretest.Part(llm.PartText, llm.Part{Extra: extra(`{"video":{"format":"mp4","source":{"s3Location":{"uri":"s3://b/v.mp4"}}}}`)})),
				wiretest.Message(llm.RoleAssistant,
					wiretest.Part(llm.PartReasoning, llm.Part{Text: "Hm.", Extra: extra(`{"reasoningContent":{"reasoningText":{"signature":"c2ln"}}}`)}),
					wiretest.Part(llm.PartReasoning, llm.Part{Extra: extra(`{"reasoningContent":{"redactedContent":"AAEC"}}`)}),
					wiretest.Part(llm.PartReasoning, llm.Part{Text: "of another provider"}), llm.Text(" \n"), llm.Text("Cats.")),
				llm.User(""),
				llm.User("Sure?"),
			},
			MaxTokens: 10,
			Extra: extra(`{"inferenceConfig":{"maxTokens":20},"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":1024}},` +
				`"guardrailConfig":{"guardrailIdentifier":"g1","guardrailVersion":"1","trace":"enabled"}}`),
		},
	}
}

func TestRequestsBecomeTheGoldenOnes(t *testing.T) {
	for name, req := range goldenRequests() {
		body := wiretest.Sent(t, by(t), hello, req)
		wiretest.Golden(t, filepath.Join("testdata", "request_"+name+".json"), body, *update)
		req.Sink = func(llm.Delta) error { return nil }
		if also := wiretest.Sent(t, by(t), hello, req); also != body {
			t.Errorf("%s: streamed it is %s", name, also)
		}
	}
}

// TestTheBodyIsTheSDKs shows that the names of the body's fields are those of the SDK's own types.
func TestTheBodyIsTheSDKs(t *testing.T) {
	req := &llm.Request{
		System: "Be brief.", MaxTokens: 100, Temperature: aws.Float64(0.5), TopP: aws.Float64(0.25), Stop: []string{"END"}, Effort: "low",
		Messages: []llm.Message{
			wiretest.Message(llm.RoleUser, llm.Text("Weather?"), wiretest.Part(llm.PartImage, llm.Part{Data: png}), wiretest.Part(llm.PartFile, llm.Part{Data: pdf, Name: "r.pdf"}),
				wiretest.Part(llm.PartAudio, llm.Part{Data: []byte("RIFF"), MIME: "audio/wav"}), wiretest.Part(llm.PartImage, llm.Part{URL: "s3://b/a", MIME: "image/gif"})),
			wiretest.Message(llm.RoleAssistant, wiretest.Part(llm.PartReasoning, llm.Part{Text: "Hm.", Extra: extra(`{"reasoningContent":{"reasoningText":{"signature":"c2ln"}}}`)}),
				wiretest.Call("c1", "look", `{"where":"here"}`)),
			wiretest.Message(llm.RoleTool, wiretest.Result("c1", true, llm.Text("gone"))),
		},
		Tools:      []llm.Tool{{Name: "look", Description: "looks", Parameters: json.RawMessage(`{"type":"object"}`), Strict: true}},
		ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "look"},
		Format:     &llm.Format{Kind: llm.FormatSchema, Name: "reply", Schema: json.RawMessage(`{"type":"object"}`)},
		Extra:      extra(`{"guardrailConfig":{"guardrailIdentifier":"g1","guardrailVersion":"1"},"additionalModelRequestFields":{"top_k":"5"}}`),
	}
	same := &bedrockruntime.ConverseInput{
		ModelId: aws.String("test.model-v1:0"), System: []types.SystemContentBlock{&types.SystemContentBlockMemberText{Value: "Be brief."}},
		InferenceConfig: &types.InferenceConfiguration{
			MaxTokens: aws.Int32(100), Temperature: aws.Float32(0.5), TopP: aws.Float32(0.25), StopSequences: []string{"END"},
		},
		Messages: []types.Message{
			{Role: types.ConversationRoleUser, Content: []types.ContentBlock{
				&types.ContentBlockMemberText{Value: "Weather?"},
				&types.ContentBlockMemberImage{Value: types.ImageBlock{Format: types.ImageFormatPng, Source: &types.ImageSourceMemberBytes{Value: png}}},
				&types.ContentBlockMemberDocument{Value: types.DocumentBlock{
					Format: types.DocumentFormatPdf, Name: aws.String("r"), Source: &types.DocumentSourceMemberBytes{Value: pdf},
				}},
				&types.ContentBlockMemberAudio{Value: types.AudioBlock{
					Format: types.AudioFormatWav, Source: &types.AudioSourceMemberBytes{Value: []byte("RIFF")},
				}},
				&types.ContentBlockMemberImage{Value: types.ImageBlock{
					Format: types.ImageFormatGif, Source: &types.ImageSourceMemberS3Location{Value: types.S3Location{Uri: aws.String("s3://b/a")}},
				}},
			}},
			{Role: types.ConversationRoleAssistant, Content: []types.ContentBlock{
				&types.ContentBlockMemberReasoningContent{Value: &types.ReasoningContentBlockMemberReasoningText{
					Value: types.ReasoningTextBlock{Text: aws.String("Hm."), Signature: aws.String("c2ln")},
				}},
				&types.ContentBlockMemberToolUse{Value: types.ToolUseBlock{
					ToolUseId: aws.String("c1"), Name: aws.String("look"), Input: document.NewLazyDocument(map[string]string{"where": "here"}),
				}},
			}},
			{Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberToolResult{Value: types.ToolResultBlock{
				ToolUseId: aws.String("c1"), Status: types.ToolResultStatusError,
				Content: []types.ToolResultContentBlock{&types.ToolResultContentBlockMemberText{Value: "gone"}},
			}}}},
		},
		ToolConfig: &types.ToolConfiguration{
			Tools: []types.Tool{&types.ToolMemberToolSpec{Value: types.ToolSpecification{
				Name: aws.String("look"), Description: aws.String("looks"), Strict: aws.Bool(true),
				InputSchema: &types.ToolInputSchemaMemberJson{Value: document.NewLazyDocument(map[string]string{"type": "object"})},
			}}},
			ToolChoice: &types.ToolChoiceMemberTool{Value: types.SpecificToolChoice{Name: aws.String("look")}},
		},
		OutputConfig: &types.OutputConfig{Effort: aws.String("low"), TextFormat: &types.OutputFormat{
			Type: types.OutputFormatTypeJsonSchema, Structure: &types.OutputFormatStructureMemberJsonSchema{
				Value: types.JsonSchemaDefinition{Name: aws.String("reply"), Schema: aws.String(`{"type":"object"}`)},
			},
		}},
		GuardrailConfig:              &types.GuardrailConfiguration{GuardrailIdentifier: aws.String("g1"), GuardrailVersion: aws.String("1")},
		AdditionalModelRequestFields: document.NewLazyDocument(map[string]string{"top_k": "5"}),
	}
	var theirs []byte
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		theirs, _ = io.ReadAll(r.Body)
		wiretest.Says(200, wiretest.JSON, hello)(w, r)
	})
	if _, err := m.Client().Converse(t.Context(), same); err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal([]byte(wiretest.Sent(t, by(t), hello, req)), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(theirs, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %v\nwant %v", got, want)
	}
}

func TestExtraOfTheProvidersOwnNameGoesLast(t *testing.T) {
	req := wiretest.Ask("Hello?")
	req.Extra = map[string]json.RawMessage{
		"bedrock": json.RawMessage(`{"requestMetadata":{"a":"1","b":"1"}}`), "aws.bedrock": json.RawMessage(`{"requestMetadata":{"a":"2"}}`),
	}
	req.Messages[0].Parts[0].Extra = map[string]json.RawMessage{
		"bedrock":     json.RawMessage(`{"cachePoint":{"type":"default","ttl":"5m"}}`),
		"aws.bedrock": json.RawMessage(`{"cachePoint":{"ttl":"1h"}}`),
	}
	body := wiretest.Sent(t, by(t, func(c *bedrock.Config) { c.Provider = "aws.bedrock" }), hello, req)
	for _, want := range []string{`"requestMetadata":{"a":"2","b":"1"}`, `[{"text":"Hello?"},{"cachePoint":{"type":"default","ttl":"1h"}}]`} {
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
		{"an address", with(wiretest.Part(llm.PartImage, llm.Part{URL: "https://h/a.png"})), llm.Unsupported, "Messages[0].Parts[0] is given by its address"},
		{"a video", with(wiretest.Part(llm.PartFile, llm.Part{Data: []byte("x"), MIME: "video/mp4"})), llm.Unsupported, `type "video/mp4"`},
		{"an image that is none", with(wiretest.Part(llm.PartImage, llm.Part{Data: []byte("plain words")})), llm.Unsupported, `type "text/plain"`},
		{"an image of a strange kind", with(wiretest.Part(llm.PartImage, llm.Part{Data: png, MIME: "image/tiff"})), llm.Unsupported, `type "image/tiff"`},
		{"strange audio", with(wiretest.Part(llm.PartAudio, llm.Part{Data: png, MIME: "audio/midi"})), llm.Unsupported, `type "audio/midi"`},
		{"a part of no kind", with(llm.Text("a"), wiretest.Part("hologram", llm.Part{})), llm.Invalid, `Messages[0].Parts[1] is of the unknown kind "hologram"`},
		{"a call without Call", with(wiretest.Part(llm.PartToolCall, llm.Part{})), llm.Invalid, "without Call"},
		{"a result without Result", with(wiretest.Part(llm.PartToolResult, llm.Part{})), llm.Invalid, "without Result"},
		{"a result that holds a call", with(wiretest.Result("c", false, wiretest.Call("c", "n", "{}"))), llm.Unsupported, "holds tool_call"},
		{"arguments that are no object", with(wiretest.Call("c", "n", `"text"`)), llm.Invalid, "not a JSON object"},
		{"a data URL that is broken", with(wiretest.Part(llm.PartFile, llm.Part{URL: "data:text/plain;base64,!"})), llm.Invalid, "not base64"},
		{"an extra that is no object", with(llm.Part{Kind: llm.PartText, Text: "a", Extra: extra("[]")}), llm.Invalid, `Extra["bedrock"] of Messages[0].Parts[0]`},
		{"an unknown role", &llm.Request{Messages: []llm.Message{{Role: "narrator"}}}, llm.Invalid, `role "narrator"`},
		{"an image as system text", &llm.Request{Messages: []llm.Message{wiretest.Message(llm.RoleSystem, wiretest.Part(llm.PartImage, llm.Part{URL: "u"}))}}, llm.Unsupported, "is text here"},
		{"parameters that are no schema", named(func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "t", Parameters: []byte("7")}} }), llm.Invalid, `tool "t"`},
		{"an unknown tool mode", named(func(r *llm.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{{Name: "t"}}, "maybe" }), llm.Invalid, `"maybe"`},
		{"no tools after calls", named(func(r *llm.Request) {
			r.Messages = []llm.Message{wiretest.Message(llm.RoleAssistant, wiretest.Call("c", "t", "{}")), wiretest.Message(llm.RoleTool, wiretest.Result("c", false))}
			r.Tools, r.ToolChoice.Mode = []llm.Tool{{Name: "t"}}, llm.ToolNone
		}), llm.Unsupported, "while the conversation holds calls"},
		{"JSON without a schema", named(func(r *llm.Request) { r.Format = &llm.Format{Kind: llm.FormatJSON} }), llm.Unsupported, "set Format.Schema"},
		{"a schema that is none", named(func(r *llm.Request) { r.Format = &llm.Format{Kind: llm.FormatSchema} }), llm.Invalid, "Format.Schema"},
		{"an unknown format", named(func(r *llm.Request) { r.Format = &llm.Format{Kind: "yaml"} }), llm.Invalid, `"yaml"`},
		{"extras that are no object", named(func(r *llm.Request) { r.Extra = extra("  ") }), llm.Invalid, `Extra["bedrock"] is not`},
		{"a number that is none", named(func(r *llm.Request) { nan := 0.0; nan /= nan; r.TopP = &nan }), llm.Invalid, "cannot be written as JSON"},
	})
	wiretest.Refuses(t, by(t, func(c *bedrock.Config) { c.Model = "" }), []wiretest.Refusal{
		{"no model", wiretest.Ask("Hello?"), llm.Invalid, "no model is named"},
	})
}

func TestForeignCallIDsStayApartAndTogether(t *testing.T) {
	long := strings.Repeat("x", 70)
	ids := []string{"a.b", "a:b", "", "tooluse_01-x", long + "1", long + "2"}
	var asked, answered []llm.Part
	for _, id := range ids {
		asked, answered = append(asked, wiretest.Call(id, "n", "{}")), append(answered, wiretest.Result(id, false))
	}
	req := &llm.Request{Messages: []llm.Message{wiretest.Message(llm.RoleAssistant, asked...), wiretest.Message(llm.RoleTool, answered...)}}
	var body struct {
		Messages []struct {
			Content []struct {
				Use    struct{ ToolUseID string } `json:"toolUse"`
				Result struct{ ToolUseID string } `json:"toolResult"`
			}
		}
	}
	if err := json.Unmarshal([]byte(wiretest.Sent(t, by(t), hello, req)), &body); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for i, c := range body.Messages[0].Content {
		id := c.Use.ToolUseID
		if strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" || id == "" || len(id) > 64 || known[id] {
			t.Errorf("the id %q", id)
		}
		known[id] = true
		if got := body.Messages[1].Content[i].Result.ToolUseID; got != id {
			t.Errorf("the result of %q is sent for %q", id, got)
		}
	}
	if len(known) != len(ids) || !known["tooluse_01-x"] {
		t.Errorf("the ids became %v", known)
	}
}

func TestMediaTypesAreTheAPIsFormats(t *testing.T) {
	const office = "application/vnd.openxmlformats-officedocument."
	for _, c := range []struct {
		part llm.Part
		want string
	}{
		{wiretest.Part(llm.PartFile, llm.Part{MIME: "text/html"}), `"document":{"format":"html"`},
		{wiretest.Part(llm.PartFile, llm.Part{MIME: "Text/Markdown"}), `"document":{"format":"md"`},
		{wiretest.Part(llm.PartFile, llm.Part{MIME: "application/msword"}), `"document":{"format":"doc"`},
		{wiretest.Part(llm.PartFile, llm.Part{MIME: office + "wordprocessingml.document"}), `"document":{"format":"docx"`},
		{wiretest.Part(llm.PartFile, llm.Part{MIME: "application/vnd.ms-excel"}), `"document":{"format":"xls"`},
		{wiretest.Part(llm.PartFile, llm.Part{MIME: office + "spreadsheetml.sheet"}), `"document":{"format":"xlsx"`},
		{wiretest.Part(llm.PartFile, llm.Part{MIME: "application/json"}), `"document":{"format":"txt"`},
		{wiretest.Part(llm.PartFile, llm.Part{MIME: "application/octet-stream", Name: "A.MD"}), `"document":{"format":"md","name":"A"`},
		{wiretest.Part(llm.PartImage, llm.Part{MIME: "image/JPG"}), `"image":{"format":"jpeg"`},
		{wiretest.Part(llm.PartImage, llm.Part{MIME: "image/gif; q=1"}), `"image":{"format":"gif"`},
		{wiretest.Part(llm.PartAudio, llm.Part{MIME: "audio/mpeg"}), `"audio":{"format":"mpeg"`},
		{wiretest.Part(llm.PartAudio, llm.Part{MIME: "audio/vnd.wave"}), `"audio":{"format":"wav"`},
		{wiretest.Part(llm.PartAudio, llm.Part{MIME: "audio/x-m4a"}), `"audio":{"format":"m4a"`},
	} {
		c.part.Data = []byte("x")
		body := wiretest.Sent(t, by(t), hello, &llm.Request{Messages: []llm.Message{wiretest.Message(llm.RoleUser, c.part)}})
		if !strings.Contains(body, c.want) {
			t.Errorf("%s: no %s in %s", c.part.MIME, c.want, body)
		}
	}
}
