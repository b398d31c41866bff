package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/modelchain/llm"
)

// A body is the SDK's request with the fields that it cannot express in the place of its own: it drops a temperature of 0
// and knows neither files nor audio.
type body struct {
	sdk.ChatCompletionRequest
	Messages    []message `json:"messages"`
	MaxTokens   int       `json:"max_tokens,omitempty"`
	Temperature *float64  `json:"temperature,omitempty"`
	TopP        *float64  `json:"top_p,omitempty"`
	Seed        *int64    `json:"seed,omitempty"`
	Stream      bool      `json:"stream,omitempty"`
}

type message struct {
	Role       string         `json:"role"`
	Content    content        `json:"content"`
	ToolCalls  []sdk.ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string         `json:"tool_call_id,omitempty"`

	// The two fields that servers use for reasoning; at most one is set.
	ReasoningContent string `json:"reasoning_content,omitempty"`
	Reasoning        string `json:"reasoning,omitempty"`
}

func invalid(format string, args ...any) *llm.Error {
	return &llm.Error{Class: llm.Invalid, Message: fmt.Sprintf(format, args...)}
}

func unsupported(format string, args ...any) *llm.Error {
	return &llm.Error{Class: llm.Unsupported, Message: fmt.Sprintf(format, args...)}
}

// encode is the body of the request and the model it asks for. It reads req and writes nothing to it.
func (m *Model) encode(req *llm.Request) (_ []byte, model string, _ *llm.Error) {
	model, bad := m.named(req)
	if bad != nil {
		return nil, model, bad
	}
	b := body{Temperature: req.Temperature, TopP: req.TopP, Seed: req.Seed, Stream: req.Sink != nil}
	b.Model, b.Stop, b.ReasoningEffort = model, req.Stop, req.Effort
	if b.Stream && !m.cfg.NoStreamUsage {
		b.StreamOptions = &sdk.StreamOptions{IncludeUsage: true}
	}
	field := m.maxTokensField(model)
	switch field {
	case "max_tokens":
		b.MaxTokens = req.MaxTokens
	case "max_completion_tokens":
		b.MaxCompletionTokens = req.MaxTokens
	}
	if err := m.messages(&b, req); err != nil {
		return nil, model, err
	}
	if err := tools(&b, req); err != nil {
		return nil, model, err
	}
	if err := format(&b, req.Format); err != nil {
		return nil, model, err
	}
	out, err := marshal(&b)
	if err != nil {
		return nil, model, invalid("the request cannot be written as JSON: %v", err)
	}
	if req.MaxTokens > 0 && b.MaxTokens == 0 && b.MaxCompletionTokens == 0 {
		out = merge(out, fmt.Appendf(nil, "{%q:%d}", field, req.MaxTokens))
	}
	if m.dash.seed != "" && req.Seed != nil {
		out = merge(out, fmt.Appendf(nil, `{"seed":null,%q:%d}`, m.dash.seed, *req.Seed))
	}
	patches, bad := m.patches(req.Extra)
	if bad != nil {
		return nil, model, bad
	}
	for _, patch := range patches {
		out = merge(out, patch)
	}
	return out, model, nil
}

// named is the model that req asks for, and an error for a request that asks nothing.
func (m *Model) named(req *llm.Request) (model string, _ *llm.Error) {
	model = req.Model
	fillIn(&model, m.cfg.Model)
	switch {
	case len(req.Messages) == 0 && req.System == "":
		return model, invalid("the request has no messages; set Request.Messages")
	case model == "":
		return model, invalid("no model is named; set Model of the request, the deployment or the adapter")
	}
	return model, nil
}

// marshal is v as JSON, with <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// patches are the objects in a request's Extra that are meant for this API, in the order in which they are merged.
func (m *Model) patches(extra map[string]json.RawMessage) ([]json.RawMessage, *llm.Error) {
	var all []json.RawMessage
	for _, name := range m.extraNames() {
		patch, ok := extra[name]
		if !ok {
			continue
		}
		if !isObject(patch) {
			return nil, invalid("Extra[%q] is not a JSON object", name)
		}
		all = append(all, patch)
	}
	return all, nil
}

// extraNames are the keys of Extra that are meant for this API, the most particular last.
func (m *Model) extraNames() []string {
	names := []string{"openai"}
	for _, name := range [...]string{m.dash.alias, m.dash.name, m.cfg.Provider} {
		if name != "" && name != "openai" && name != names[len(names)-1] {
			names = append(names, name)
		}
	}
	return names
}

func (m *Model) messages(b *body, req *llm.Request) *llm.Error {
	b.Messages = make([]message, 0, len(req.Messages)+1)
	if req.System != "" {
		b.Messages = append(b.Messages, message{Role: string(llm.RoleSystem), Content: oneText(req.System)})
	}
	for i := range req.Messages {
		if err := m.message(b, &req.Messages[i], i); err != nil {
			return err
		}
	}
	return nil
}

// message adds one turn, which may be several messages here: each tool result is one of its own, before the rest.
func (m *Model) message(b *body, from *llm.Message, i int) *llm.Error {
	msg := message{Role: string(from.Role)}
	fillIn(&msg.Role, string(llm.RoleUser))
	var parts manyParts
	var texts []string
	var reasoning strings.Builder
	plain := true // texts alone, without extras
	results := 0
	for j := range from.Parts {
		p := &from.Parts[j]
		switch p.Kind {
		case llm.PartToolResult:
			if p.Result == nil {
				return invalid("Messages[%d].Parts[%d] is a tool result without Result", i, j)
			}
			text, err := resultText(p.Result, i, j)
			if err != nil {
				return err
			}
			results++
			b.Messages = append(b.Messages, message{
				Role: string(llm.RoleTool), ToolCallID: m.callID(p.Result.CallID), Content: oneText(text),
			})
			continue
		case llm.PartToolCall:
			if p.Call == nil {
				return invalid("Messages[%d].Parts[%d] is a tool call without Call", i, j)
			}
			args := string(p.Call.Arguments)
			fillIn(&args, "{}")
			msg.ToolCalls = append(msg.ToolCalls, sdk.ToolCall{
				ID: m.callID(p.Call.ID), Type: sdk.ToolTypeFunction,
				Function: sdk.FunctionCall{Name: p.Call.Name, Arguments: args},
			})
			continue
		case llm.PartReasoning:
			reasoning.WriteString(p.Text)
			continue
		}
		c, err := m.part(p, i, j)
		if err != nil {
			return err
		}
		texts = append(texts, p.Text)
		_, isRaw := c.(rawPart)
		plain = plain && p.Kind == llm.PartText && !isRaw
		parts = append(parts, c)
	}
	if len(msg.ToolCalls) > 0 {
		switch m.cfg.ReasoningField {
		case "reasoning_content":
			msg.ReasoningContent = reasoning.String()
		case "reasoning":
			msg.Reasoning = reasoning.String()
		}
	}
	if len(parts) == 0 && len(msg.ToolCalls) == 0 && (results > 0 || reasoning.Len() > 0) {
		return nil
	}
	switch {
	case len(parts) == 0 && len(msg.ToolCalls) > 0:
	case len(parts) == 0:
		msg.Content = oneText("")
	case plain && (len(parts) == 1 || from.Role == llm.RoleAssistant): // pieces of one answer belong together
		msg.Content = oneText(strings.Join(texts, ""))
	case plain && from.Role != llm.RoleUser: // servers take lists from users only
		msg.Content = oneText(strings.Join(texts, "\n\n"))
	default:
		msg.Content = parts
	}
	b.Messages = append(b.Messages, msg)
	return nil
}

func tools(b *body, req *llm.Request) *llm.Error {
	for i := range req.Tools {
		t := &req.Tools[i]
		params, err := parameters(t)
		if err != nil {
			return err
		}
		b.Tools = append(b.Tools, sdk.Tool{Type: sdk.ToolTypeFunction, Function: &sdk.FunctionDefinition{
			Name: t.Name, Description: t.Description, Strict: t.Strict, Parameters: params,
		}})
	}
	switch c := req.ToolChoice; c.Mode {
	case "":
	case llm.ToolNamed:
		b.ToolChoice = sdk.ToolChoice{Type: sdk.ToolTypeFunction, Function: sdk.ToolFunction{Name: c.Name}}
	default:
		b.ToolChoice = string(c.Mode)
	}
	return nil
}

// parameters is the schema of a tool's arguments.
func parameters(t *llm.Tool) (json.RawMessage, *llm.Error) {
	switch {
	case len(t.Parameters) == 0:
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	case !isObject(t.Parameters):
		return nil, invalid("the parameters of the tool %q are not a JSON object", t.Name)
	}
	return t.Parameters, nil
}

func format(b *body, f *llm.Format) *llm.Error {
	if f == nil {
		return nil
	}
	switch f.Kind {
	case llm.FormatJSON:
		b.ResponseFormat = &sdk.ChatCompletionResponseFormat{Type: sdk.ChatCompletionResponseFormatTypeJSONObject}
	case llm.FormatSchema:
		if !isObject(f.Schema) {
			return invalid("Format.Schema is not a JSON object")
		}
		name := f.Name
		fillIn(&name, "answer")
		b.ResponseFormat = &sdk.ChatCompletionResponseFormat{
			Type:       sdk.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &sdk.ChatCompletionResponseFormatJSONSchema{Name: name, Schema: f.Schema, Strict: f.Strict},
		}
	case "":
	default:
		return invalid("Format.Kind is %q; use %q or %q", f.Kind, llm.FormatJSON, llm.FormatSchema)
	}
	return nil
}

// tokens is a rough count of the input, for the usage of a call whose provider did not get to tell it.
func tokens(req *llm.Request) int {
	n := len(req.System)
	for i := range req.Messages {
		n += 16
		for j := range req.Messages[i].Parts {
			p := &req.Messages[i].Parts[j]
			n += len(p.Text)
			if p.Call != nil {
				n += len(p.Call.Arguments)
			}
			if p.Result != nil {
				for k := range p.Result.Parts {
					n += len(p.Result.Parts[k].Text)
				}
			}
			if p.Kind == llm.PartImage || p.Kind == llm.PartFile || p.Kind == llm.PartAudio {
				n += 4000
			}
		}
	}
	for i := range req.Tools {
		n += len(req.Tools[i].Description) + len(req.Tools[i].Parameters)
	}
	return (n + 3) / 4
}
