package middleware

import (
	"encoding/json"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/modelchain/llm"
)

// The forms in which the conventions want messages, as JSON. Bytes of images and files are left out.
type (
	contentMessage struct {
		Role   llm.Role      `json:"role"`
		Parts  []contentPart `json:"parts"`
		Finish string        `json:"finish_reason,omitempty"`
	}
	contentPart struct {
		Type      string          `json:"type"`
		Content   string          `json:"content,omitempty"`
		ID        string          `json:"id,omitempty"`
		Name      string          `json:"name,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
		Response  string          `json:"response,omitempty"`
		URI       string          `json:"uri,omitempty"`
		MIME      string          `json:"mime_type,omitempty"`
		Modality  string          `json:"modality,omitempty"`
	}
	contentTool struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}
)

func inputContent(req *llm.Request) []attribute.KeyValue {
	var kvs []attribute.KeyValue
	messages := make([]contentMessage, len(req.Messages))
	for i, m := range req.Messages {
		messages[i] = contentMessage{Role: m.Role, Parts: contentParts(m.Parts)}
	}
	kvs = appendJSON(kvs, keyInputMessages, messages)
	if req.System != "" {
		kvs = appendJSON(kvs, keySystem, []contentPart{{Type: "text", Content: req.System}})
	}
	if len(req.Tools) > 0 {
		tools := make([]contentTool, len(req.Tools))
		for i, t := range req.Tools {
			tools[i] = contentTool{"function", t.Name, t.Description, valid(t.Parameters)}
		}
		kvs = appendJSON(kvs, keyTools, tools)
	}
	return kvs
}

func outputContent(resp *llm.Response, broken bool) []attribute.KeyValue {
	m := contentMessage{Role: llm.RoleAssistant, Parts: contentParts(resp.Parts), Finish: finishReason(resp)}
	if broken {
		m.Finish = finishError
	}
	if resp.Refusal != "" {
		m.Parts = append(m.Parts, contentPart{Type: "refusal", Content: resp.Refusal})
	}
	return appendJSON(nil, keyOutputMessages, []contentMessage{m})
}

func contentParts(parts []llm.Part) []contentPart {
	out := make([]contentPart, 0, len(parts))
	for i := range parts {
		switch p := &parts[i]; {
		case p.Kind == llm.PartToolCall && p.Call != nil:
			out = append(out, contentPart{Type: "tool_call", ID: p.Call.ID, Name: p.Call.Name, Arguments: valid(p.Call.Arguments)})
		case p.Kind == llm.PartToolResult && p.Result != nil:
			out = append(out, contentPart{Type: "tool_call_response", ID: p.Result.CallID, Response: textOf(p.Result.Parts)})
		case p.Kind == llm.PartText || p.Kind == llm.PartReasoning:
			out = append(out, contentPart{Type: string(p.Kind), Content: p.Text})
		default:
			c := contentPart{Type: "uri", URI: p.URL, MIME: p.MIME, Modality: string(p.Kind)}
			if p.URL == "" || strings.HasPrefix(p.URL, "data:") {
				c.Type, c.URI = "blob", ""
			}
			out = append(out, c)
		}
	}
	return out
}

func textOf(parts []llm.Part) string { return (&llm.Response{Parts: parts}).Text() }

// valid is raw, or raw as a JSON string where it is none by itself.
func valid(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || json.Valid(raw) {
		return raw
	}
	quoted, err := json.Marshal(string(raw))
	if err != nil {
		return nil
	}
	return quoted
}

func appendJSON(kvs []attribute.KeyValue, key attribute.Key, v any) []attribute.KeyValue {
	text, err := json.Marshal(v)
	if err != nil { // nothing here can fail to be written, and a trace is no reason to fail
		return kvs
	}
	return append(kvs, key.String(string(text)))
}
