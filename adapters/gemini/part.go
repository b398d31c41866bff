package gemini

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/tidwall/gjson"
	sdk "google.golang.org/genai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// A part is a piece of a turn as the API has it: the SDK's, with its data's types, but with texts that may be empty and with
// JSON that stays as it is written.
type part struct {
	Text             *string           `json:"text,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	InlineData       *sdk.Blob         `json:"inlineData,omitempty"`
	FileData         *sdk.FileData     `json:"fileData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
	ThoughtSignature string            `json:"thoughtSignature,omitempty"`

	patch  json.RawMessage // laid over all of it
	callID string          // of a functionResponse
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type functionResponse struct {
	sdk.FunctionResponse
	Response json.RawMessage `json:"response"`
}

// MarshalJSON writes the part with its patch.
func (p *part) MarshalJSON() ([]byte, error) {
	type plain part
	raw, err := wire.Marshal((*plain)(p))
	if err != nil || p.patch == nil {
		return raw, err
	}
	return wire.Merge(raw, p.patch), nil
}

func (p *part) signed() bool {
	return p.ThoughtSignature != "" || p.patch != nil && gjson.GetBytes(p.patch, "thoughtSignature").Exists()
}

// part is a part of a message as the API takes it, nil for what it does not take and does not miss: empty texts, which it
// refuses, and other models' reasoning.
func (b *builder) part(p *llm.Part, at adapter.Place) (*part, *llm.Error) {
	patch, err := adapter.Patch(p, b.m.extraNames(), at)
	if err != nil {
		return nil, err
	}
	out := &part{patch: patch}
	switch p.Kind {
	case llm.PartText, "":
		if p.Text == "" && patch == nil {
			return nil, nil
		}
		out.Text = &p.Text
	case llm.PartReasoning:
		switch {
		case patch == nil:
			return nil, nil
		case p.Text != "": // else the patch is a whole part
			out.Text, out.Thought = &p.Text, true
		}
	case llm.PartImage, llm.PartFile, llm.PartAudio:
		out.InlineData, out.FileData, err = media(p, at)
	case llm.PartToolCall:
		out.FunctionCall, err = b.call(p.Call, at)
	case llm.PartToolResult:
		out.FunctionResponse, err = b.result(p.Result, at)
		if err == nil {
			out.callID = p.Result.CallID
		}
	default:
		err = adapter.Invalid("%v is of the unknown kind %q", at, p.Kind)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (b *builder) call(c *llm.ToolCall, at adapter.Place) (*functionCall, *llm.Error) {
	args, err := adapter.Arguments(c, at)
	if err != nil {
		return nil, err
	}
	if c.ID != "" {
		b.calls[c.ID] = known{c.Name, b.n}
		b.n++
	}
	return &functionCall{ID: sentID(c.ID), Name: c.Name, Args: args}, nil
}

// result is a tool's result. A text that is a JSON object is the response itself, any other is its "output"; a failure is its
// "error". What is no text goes beside it.
func (b *builder) result(r *llm.ToolResult, at adapter.Place) (*functionResponse, *llm.Error) {
	if r == nil {
		return nil, adapter.Invalid("%v is a tool result without Result", at)
	}
	out := &functionResponse{}
	out.ID, out.Name = sentID(r.CallID), r.Name
	adapter.FillIn(&out.Name, b.calls[r.CallID].name)
	if out.Name == "" {
		return nil, adapter.Invalid("the tool result %v has no Name, and no call before it has its CallID %q", at, r.CallID)
	}
	var texts []string
	for i := range r.Parts {
		p := &r.Parts[i]
		switch p.Kind {
		case llm.PartText, "":
			texts = append(texts, p.Text)
		case llm.PartImage, llm.PartFile, llm.PartAudio:
			blob, file, err := media(p, at)
			if err != nil {
				return nil, err
			}
			beside := &sdk.FunctionResponsePart{}
			if blob != nil {
				beside.InlineData = &sdk.FunctionResponseBlob{MIMEType: blob.MIMEType, Data: blob.Data}
			} else {
				beside.FileData = &sdk.FunctionResponseFileData{MIMEType: file.MIMEType, FileURI: file.FileURI}
			}
			out.Parts = append(out.Parts, beside)
		default:
			return nil, adapter.Unsupported("the tool result %v holds %s; this API takes text, images, files and audio there", at, p.Kind)
		}
	}
	value := []byte(strings.Join(texts, "\n"))
	object := wire.IsObject(value)
	if !object {
		raw, err := wire.Marshal(string(value))
		if err != nil {
			return nil, adapter.Invalid("the tool result %v cannot be written as JSON: %v", at, err)
		}
		value = raw
	}
	switch {
	case r.IsError:
		value = append(append([]byte(`{"error":`), value...), '}')
	case !object:
		value = append(append([]byte(`{"output":`), value...), '}')
	}
	out.Response = value
	return out, nil
}

// media is a part with data, by its content or by its address.
func media(p *llm.Part, at adapter.Place) (*sdk.Blob, *sdk.FileData, *llm.Error) {
	kind, data := p.MIME, p.Data
	if rest, ok := strings.CutPrefix(p.URL, "data:"); ok && len(data) == 0 {
		head, text, _ := strings.Cut(rest, ",")
		head, isBase64 := strings.CutSuffix(head, ";base64")
		raw, err := base64.StdEncoding.DecodeString(text)
		if !isBase64 || err != nil {
			return nil, nil, adapter.Invalid("%v has a data URL that is not base64", at)
		}
		adapter.FillIn(&kind, head)
		data = raw
	}
	switch {
	case len(data) > 0:
		if kind == "" && p.Kind == llm.PartFile {
			kind = mime.TypeByExtension(path.Ext(p.Name))
		}
		adapter.FillIn(&kind, http.DetectContentType(data))
		return &sdk.Blob{MIMEType: mediaType(kind, p.Kind), Data: data}, nil, nil
	case p.URL == "":
		return nil, nil, adapter.Invalid("%v is of kind %s without Data or URL", at, p.Kind)
	}
	if kind == "" {
		name, _, _ := strings.Cut(p.URL, "?")
		kind = mime.TypeByExtension(path.Ext(name))
	}
	return nil, &sdk.FileData{MIMEType: mediaType(kind, p.Kind), FileURI: p.URL}, nil
}

// mediaType is a media type as the API spells it, without parameters.
func mediaType(kind string, of llm.PartKind) string {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	switch kind = strings.TrimSpace(kind); kind {
	case "image/jpg":
		return "image/jpeg"
	case "audio/wave", "audio/x-wav", "audio/vnd.wave":
		return "audio/wav"
	case "application/ogg":
		if of == llm.PartAudio {
			return "audio/ogg"
		}
	}
	return kind
}
