package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

type responsesBody struct {
	Model        string           `json:"model"`
	Instructions string           `json:"instructions,omitempty"`
	Input        []any            `json:"input"` // each an inputItem or JSON
	Tools        []functionTool   `json:"tools,omitempty"`
	ToolChoice   any              `json:"tool_choice,omitempty"`
	Text         *textConfig      `json:"text,omitempty"`
	MaxTokens    int              `json:"max_output_tokens,omitempty"`
	Temperature  *float64         `json:"temperature,omitempty"`
	TopP         *float64         `json:"top_p,omitempty"`
	Reasoning    *reasoningConfig `json:"reasoning,omitempty"`
	Include      []string         `json:"include,omitempty"`
	Store        bool             `json:"store"`
	Stream       bool             `json:"stream,omitempty"`
}

// An inputItem is an item of the conversation.
type inputItem struct {
	Type      string `json:"type"`
	Role      string `json:"role,omitempty"`
	Content   []any  `json:"content,omitempty"` // each an inputPart or JSON
	CallID    string `json:"call_id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
	Output    any    `json:"output,omitempty"`

	raw   json.RawMessage // the item itself. nil: the fields are
	extra json.RawMessage // merged into it
}

// An inputPart is a piece of a message or of a tool's result.
type inputPart struct {
	Type     string  `json:"type"`
	Text     *string `json:"text,omitempty"`
	ImageURL string  `json:"image_url,omitempty"`
	Audio    *audio  `json:"input_audio,omitempty"`
	FileID   string  `json:"file_id,omitempty"`
	FileURL  string  `json:"file_url,omitempty"`
	FileData string  `json:"file_data,omitempty"`
	FileName string  `json:"filename,omitempty"`
}

type functionTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"` // always said: this API takes silence for true
}

type namedTool struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

type textConfig struct {
	Format textFormat `json:"format"`
}

type textFormat struct {
	Type   string          `json:"type"`
	Name   string          `json:"name,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
	Strict *bool           `json:"strict,omitempty"`
}

type reasoningConfig struct {
	Effort string `json:"effort"`
}

// encode is the body of the request and the model it asks for. It reads req and writes nothing to it.
func (responses) encode(m *Model, req *llm.Request) (_ []byte, model string, _ *llm.Error) {
	model, bad := adapter.ModelOf(req, m.cfg.Model)
	if bad != nil {
		return nil, model, bad
	}
	if len(req.Stop) > 0 {
		return nil, model, adapter.Unsupported("Request.Stop is set; the Responses API has no texts that end an answer")
	}
	patches, bad := m.patches(req.Extra)
	if bad != nil {
		return nil, model, bad
	}
	b := responsesBody{
		Model: model, Instructions: req.System, MaxTokens: req.MaxTokens, Temperature: req.Temperature, TopP: req.TopP,
		Stream: req.Sink != nil,
	}
	if req.Effort != "" {
		b.Reasoning = &reasoningConfig{req.Effort}
	}
	if encrypts(model) {
		b.Include = []string{"reasoning.encrypted_content"}
	}
	in := input{m: m, stored: stored(patches)}
	for i := range req.Messages {
		if bad := in.message(&req.Messages[i], i); bad != nil {
			return nil, model, bad
		}
	}
	if len(in.items) == 0 { // some input there must be
		if req.System == "" {
			return nil, model, adapter.Invalid("the messages of the request are empty")
		}
		b.Instructions = ""
		in.items = append(in.items, &inputItem{
			Type: "message", Role: string(llm.RoleSystem), Content: []any{inputPart{Type: "input_text", Text: &req.System}},
		})
	}
	if b.Input, bad = in.list(); bad != nil {
		return nil, model, bad
	}
	if bad := b.tools(req); bad != nil {
		return nil, model, bad
	}
	if bad := b.format(req.Format); bad != nil {
		return nil, model, bad
	}
	out, err := wire.Marshal(&b)
	if err != nil {
		return nil, model, adapter.Invalid("the request cannot be written as JSON: %v", err)
	}
	for _, patch := range patches {
		out = wire.Merge(out, lengthened(out, patch))
	}
	return out, model, nil
}

// encrypts reports whether a model encrypts its reasoning. Others refuse to be asked for it.
func encrypts(model string) bool {
	return reasons(model) && !strings.Contains(strings.ToLower(model), "gpt-5-chat")
}

// stored reports whether the provider is asked to keep the answer, and so knows earlier ones by their ids.
func stored(patches []json.RawMessage) bool {
	for i := len(patches) - 1; i >= 0; i-- {
		if v := wire.Find(wire.Members(patches[i]), []byte("store")); v != nil {
			return string(v) != "false" // null leaves it to the provider, who stores
		}
	}
	return false
}

// lengthened is patch with the lists of tools and of include that doc has before its own.
func lengthened(doc, patch []byte) []byte {
	has := wire.Members(doc)
	for _, name := range [...]string{"tools", "include"} {
		own, more := wire.Find(has, []byte(name)), wire.Find(wire.Members(patch), []byte(name))
		if len(own) < 2 || len(more) < 2 || own[0] != '[' || more[0] != '[' {
			continue
		}
		own, more = bytes.TrimSpace(own[1:len(own)-1]), bytes.TrimSpace(more[1:len(more)-1])
		if len(own) == 0 || len(more) == 0 {
			continue
		}
		patch = wire.Merge(patch, fmt.Appendf(nil, "{%q:[%s,%s]}", name, own, more))
	}
	return patch
}

func (b *responsesBody) tools(req *llm.Request) *llm.Error {
	for i := range req.Tools {
		t := &req.Tools[i]
		params, err := adapter.Parameters(t)
		if err != nil {
			return err
		}
		b.Tools = append(b.Tools, functionTool{
			Type: "function", Name: t.Name, Description: t.Description, Parameters: params, Strict: t.Strict,
		})
	}
	switch c := req.ToolChoice; c.Mode {
	case "":
	case llm.ToolNamed:
		b.ToolChoice = namedTool{"function", c.Name}
	default:
		b.ToolChoice = string(c.Mode)
	}
	return nil
}

func (b *responsesBody) format(f *llm.Format) *llm.Error {
	if f == nil {
		return nil
	}
	// The mistakes are those of the other API, and the parts of its form are this one's.
	var other body
	if err := format(&other, f); err != nil || other.ResponseFormat == nil {
		return err
	}
	to := textFormat{Type: string(other.ResponseFormat.Type)}
	if s := other.ResponseFormat.JSONSchema; s != nil {
		to.Name, to.Schema, to.Strict = s.Name, f.Schema, &s.Strict
	}
	b.Text = &textConfig{to}
	return nil
}

// piece is what a user, a developer or a tool says.
func (m *Model) piece(p *llm.Part, i, j int) (any, *llm.Error) {
	out := &inputPart{}
	id, data, url := source(p)
	switch p.Kind {
	case llm.PartText, "":
		out.Type, out.Text = "input_text", &p.Text
	case llm.PartImage:
		out.Type, out.FileID, out.ImageURL = "input_image", id, data+url
	case llm.PartAudio:
		if len(p.Data) == 0 {
			return nil, adapter.Unsupported("Messages[%d].Parts[%d] is audio by URL; this API takes audio as Data only", i, j)
		}
		out.Type, out.Audio = "input_audio", &audio{Data: base64.StdEncoding.EncodeToString(p.Data), Format: audioFormat(p)}
	case llm.PartFile:
		out.Type, out.FileID, out.FileData, out.FileURL = "input_file", id, data, url
		if data != "" {
			out.FileName = p.Name
			adapter.FillIn(&out.FileName, "file") // the API asks for some name
		}
	default:
		return nil, adapter.Invalid("Messages[%d].Parts[%d] is of the unknown kind %q", i, j, p.Kind)
	}
	raw, err := m.patched(out, p, i, j)
	if raw != nil {
		return json.RawMessage(raw), err
	}
	return out, err
}

// source is where an image or a file is: an uploaded one by its id, the data itself, or an address.
func source(p *llm.Part) (id, data, url string) {
	switch {
	case p.Kind != llm.PartImage && p.Kind != llm.PartFile:
	case len(p.Data) > 0:
		return "", dataURL(p), ""
	case strings.HasPrefix(p.URL, "file-"):
		return p.URL, "", ""
	}
	return "", "", p.URL
}
