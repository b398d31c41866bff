package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
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

// encode is the body of the request and the model it asks for. It reads req and writes nothing to it.
func (m *Model) encode(req *llm.Request) (_ []byte, model string, _ *llm.Error) {
	model, bad := adapter.ModelOf(req, m.cfg.Model)
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
	out, err := wire.Marshal(&b)
	if err != nil {
		return nil, model, adapter.Invalid("the request cannot be written as JSON: %v", err)
	}
	if req.MaxTokens > 0 && b.MaxTokens == 0 && b.MaxCompletionTokens == 0 {
		out = wire.Merge(out, fmt.Appendf(nil, "{%q:%d}", field, req.MaxTokens))
	}
	if m.dash.seed != "" && req.Seed != nil {
		out = wire.Merge(out, fmt.Appendf(nil, `{"seed":null,%q:%d}`, m.dash.seed, *req.Seed))
	}
	out, bad = adapter.Extend(out, req, m.extraNames())
	return out, model, bad
}

// patches are the objects in a request's Extra that are meant for this API, in the order in which they are merged.
func (m *Model) patches(extra map[string]json.RawMessage) ([]json.RawMessage, *llm.Error) {
	return adapter.Patches(extra, m.extraNames())
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
	adapter.FillIn(&msg.Role, string(llm.RoleUser))
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
				return adapter.Invalid("Messages[%d].Parts[%d] is a tool result without Result", i, j)
			}
			text, err := resultText(p.Result, i, j)
			if err != nil {
				return err
			}
			if bad := adapter.HasCallID(p.Result, adapter.Place{Message: i, Part: j}); bad != nil {
				return bad
			}
			results++
			b.Messages = append(b.Messages, message{
				Role: string(llm.RoleTool), ToolCallID: m.callID(p.Result.CallID), Content: oneText(text),
			})
			continue
		case llm.PartToolCall:
			if p.Call == nil {
				return adapter.Invalid("Messages[%d].Parts[%d] is a tool call without Call", i, j)
			}
			args := string(p.Call.Arguments)
			adapter.FillIn(&args, "{}")
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
		params, err := adapter.Parameters(t)
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

func format(b *body, f *llm.Format) *llm.Error {
	if f == nil {
		return nil
	}
	switch f.Kind {
	case llm.FormatJSON:
		b.ResponseFormat = &sdk.ChatCompletionResponseFormat{Type: sdk.ChatCompletionResponseFormatTypeJSONObject}
	case llm.FormatSchema:
		if !wire.IsObject(f.Schema) {
			return adapter.Invalid("Format.Schema is not a JSON object")
		}
		name := f.Name
		adapter.FillIn(&name, "answer")
		b.ResponseFormat = &sdk.ChatCompletionResponseFormat{
			Type:       sdk.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &sdk.ChatCompletionResponseFormatJSONSchema{Name: name, Schema: f.Schema, Strict: f.Strict},
		}
	case "":
	default:
		return adapter.Invalid("Format.Kind is %q; use %q or %q", f.Kind, llm.FormatJSON, llm.FormatSchema)
	}
	return nil
}
