package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
	"github.com/tidwall/gjson"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// block is a part as the API takes it. ok is false for what it does not take and does not miss: empty texts, which it
// refuses, and other models' reasoning, which it cannot verify.
func (m *Model) block(p *llm.Part, at adapter.Place) (out sdk.ContentBlockParamUnion, ok bool, _ *llm.Error) {
	patch, err := adapter.Patch(p, m.extraNames(), at)
	if err != nil {
		return out, false, err
	}
	if gjson.GetBytes(patch, "type").Exists() { // a whole block of this API's, on its way back
		return param.Override[sdk.ContentBlockParamUnion](patch), true, nil
	}
	switch p.Kind {
	case llm.PartText, "":
		if p.Text == "" {
			return out, false, nil
		}
		out.OfText = &sdk.TextBlockParam{Text: p.Text}
	case llm.PartReasoning:
		if !gjson.GetBytes(patch, "signature").Exists() {
			return out, false, nil
		}
		out.OfThinking = &sdk.ThinkingBlockParam{Thinking: p.Text}
	case llm.PartImage:
		out.OfImage, err = image(p, at)
	case llm.PartFile:
		out.OfDocument, err = document(p, at)
	case llm.PartToolCall:
		out.OfToolUse, err = toolUse(p.Call, at)
	case llm.PartToolResult:
		out.OfToolResult, err = m.toolResult(p.Result, at)
	case llm.PartAudio:
		err = adapter.Unsupported("%v is audio, which this API does not take", at)
	default:
		err = adapter.Invalid("%v is of the unknown kind %q", at, p.Kind)
	}
	if err != nil || patch == nil {
		return out, err == nil, err
	}
	raw, bad := out.MarshalJSON()
	if bad != nil {
		return out, false, adapter.Invalid("%v cannot be written as JSON: %v", at, bad)
	}
	result := out.OfToolResult
	out = param.Override[sdk.ContentBlockParamUnion](json.RawMessage(wire.Merge(raw, patch)))
	if result != nil { // it still has to be known for one
		whole := param.Override[sdk.ToolResultBlockParam](json.RawMessage(wire.Merge(raw, patch)))
		out = sdk.ContentBlockParamUnion{OfToolResult: &whole}
	}
	return out, true, nil
}

func image(p *llm.Part, at adapter.Place) (*sdk.ImageBlockParam, *llm.Error) {
	kind, data := content(p)
	if data != "" && !strings.HasPrefix(kind, "image/") {
		return nil, adapter.Unsupported("%v is an image of type %q, which this API does not take", at, kind)
	}
	b := &sdk.ImageBlockParam{}
	switch {
	case data != "":
		b.Source.OfBase64 = &sdk.Base64ImageSourceParam{Data: data, MediaType: sdk.Base64ImageSourceMediaType(kind)}
	case uploaded(p.URL):
		b.Source.OfFile = &sdk.FileImageSourceParam{FileID: p.URL}
	default:
		b.Source.OfURL = &sdk.URLImageSourceParam{URL: p.URL}
	}
	return b, nil
}

// document is a file: PDF by any way, plain text by its content.
func document(p *llm.Part, at adapter.Place) (*sdk.DocumentBlockParam, *llm.Error) {
	b := &sdk.DocumentBlockParam{}
	if p.Name != "" {
		b.Title = sdk.String(p.Name)
	}
	kind, data := content(p)
	switch {
	case data == "" && uploaded(p.URL):
		b.Source.OfFile = &sdk.FileDocumentSourceParam{FileID: p.URL}
	case data == "":
		b.Source.OfURL = &sdk.URLPDFSourceParam{URL: p.URL}
	case kind == "application/pdf":
		b.Source.OfBase64 = &sdk.Base64PDFSourceParam{Data: data}
	case strings.HasPrefix(kind, "text/"), kind == "application/json", kind == "application/xml":
		text := p.Data
		if len(text) == 0 {
			var err error
			if text, err = base64.StdEncoding.DecodeString(data); err != nil {
				return nil, adapter.Invalid("%v has a data URL that is not base64", at)
			}
		}
		b.Source.OfText = &sdk.PlainTextSourceParam{Data: string(text)}
	default:
		return nil, adapter.Unsupported("%v is a file of type %q; this API takes PDF and text", at, kind)
	}
	return b, nil
}

// content is the media type of a part and its bytes in base64, "" if it is given by address.
func content(p *llm.Part) (kind, data string) {
	kind = p.MIME
	switch {
	case len(p.Data) > 0:
		if kind == "" && p.Kind == llm.PartFile {
			kind = mime.TypeByExtension(p.Name[max(0, strings.LastIndexByte(p.Name, '.')):])
		}
		if kind == "" {
			kind = http.DetectContentType(p.Data)
		}
		data = base64.StdEncoding.EncodeToString(p.Data)
	case strings.HasPrefix(p.URL, "data:"):
		head, rest, _ := strings.Cut(p.URL[len("data:"):], ",")
		head, isBase64 := strings.CutSuffix(head, ";base64")
		if isBase64 {
			adapter.FillIn(&kind, head)
			data = rest
		}
	}
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	if kind == "image/jpg" {
		kind = "image/jpeg"
	}
	return strings.TrimSpace(kind), data
}

// uploaded reports whether url is the id of a file that was uploaded before.
func uploaded(url string) bool { return strings.HasPrefix(url, "file_") }

func toolUse(c *llm.ToolCall, at adapter.Place) (*sdk.ToolUseBlockParam, *llm.Error) {
	args, err := adapter.Arguments(c, at)
	if err != nil {
		return nil, err
	}
	return &sdk.ToolUseBlockParam{ID: adapter.CallID(c.ID, 0), Name: c.Name, Input: args}, nil
}

func (m *Model) toolResult(r *llm.ToolResult, at adapter.Place) (*sdk.ToolResultBlockParam, *llm.Error) {
	if r == nil {
		return nil, adapter.Invalid("%v is a tool result without Result", at)
	}
	b := &sdk.ToolResultBlockParam{ToolUseID: adapter.CallID(r.CallID, 0)}
	if r.IsError {
		b.IsError = sdk.Bool(true)
	}
	for i := range r.Parts {
		p := &r.Parts[i]
		switch p.Kind {
		case llm.PartText, llm.PartImage, llm.PartFile, "":
		default:
			return nil, adapter.Unsupported("the tool result %v holds %s; this API takes text, images and files there", at, p.Kind)
		}
		inner, ok, err := m.block(p, at)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		out := sdk.ToolResultBlockParamContentUnion{OfText: inner.OfText, OfImage: inner.OfImage, OfDocument: inner.OfDocument}
		if raw, whole := inner.Overrides(); whole {
			out = param.Override[sdk.ToolResultBlockParamContentUnion](raw)
		}
		b.Content = append(b.Content, out)
	}
	return b, nil
}
