package anthropic

import (
	"encoding/json"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// encode is the body of the request and the model it asks for. It reads req and writes nothing to it.
func (m *Model) encode(req *llm.Request) (_ []byte, model string, _ *llm.Error) {
	model, bad := adapter.ModelOf(req, m.cfg.Model)
	if bad != nil {
		return nil, model, bad
	}
	p := sdk.MessageNewParams{
		Model: model, MaxTokens: int64(req.MaxTokens), StopSequences: req.Stop,
		OutputConfig: sdk.OutputConfigParam{Effort: sdk.OutputConfigEffort(req.Effort)},
	}
	if req.MaxTokens == 0 {
		p.MaxTokens = int64(m.cfg.MaxTokens)
	}
	if req.Temperature != nil {
		p.Temperature = sdk.Float(*req.Temperature)
	}
	if req.TopP != nil {
		p.TopP = sdk.Float(*req.TopP)
	}
	if err := m.messages(&p, req); err != nil {
		return nil, model, err
	}
	if err := tools(&p, req); err != nil {
		return nil, model, err
	}
	if err := format(&p, req.Format); err != nil {
		return nil, model, err
	}
	out, err := p.MarshalJSON()
	if err != nil {
		return nil, model, adapter.Invalid("the request cannot be written as JSON: %v", err)
	}
	if req.Sink != nil {
		out = append(out[:len(out)-1], `,"stream":true}`...)
	}
	out, bad = adapter.Extend(out, req, m.extraNames())
	return out, model, bad
}

// extraNames are the keys of Extra that are meant for this API, the most particular last.
func (m *Model) extraNames() []string { return adapter.ExtraNames(extraName, m.cfg.Provider) }

// messages writes the conversation. System messages join the system text, wherever they stand: most models take the role
// nowhere else. Neighbours of one role become one turn, as the API would have them, so that the results of parallel calls
// follow their calls together.
func (m *Model) messages(p *sdk.MessageNewParams, req *llm.Request) *llm.Error {
	req = adapter.Prefill(req)
	if req.System != "" {
		p.System = append(p.System, sdk.TextBlockParam{Text: req.System})
	}
	for i := range req.Messages {
		from := &req.Messages[i]
		var role sdk.MessageParamRole
		switch from.Role {
		case llm.RoleSystem:
			if err := m.system(p, from, i); err != nil {
				return err
			}
			continue
		case llm.RoleUser, llm.RoleTool, "":
			role = sdk.MessageParamRoleUser
		case llm.RoleAssistant:
			role = sdk.MessageParamRoleAssistant
		default:
			return adapter.Invalid("Messages[%d] has the unknown role %q", i, from.Role)
		}
		results, blocks, err := m.blocks(from, i)
		if err != nil {
			return err
		}
		if len(results)+len(blocks) == 0 {
			continue
		}
		n := len(p.Messages)
		if n == 0 || p.Messages[n-1].Role != role {
			p.Messages = append(p.Messages, sdk.MessageParam{Role: role, Content: append(results, blocks...)})
			continue
		}
		last := &p.Messages[n-1]
		if len(results) > 0 { // the API wants results before all else that follows their calls
			at := 0
			for at < len(last.Content) && last.Content[at].OfToolResult != nil {
				at++
			}
			last.Content = slices.Insert(last.Content, at, results...)
		}
		last.Content = append(last.Content, blocks...)
	}
	return nil
}

// blocks are the parts of one message, its tool results apart.
func (m *Model) blocks(from *llm.Message, i int) (results, rest []sdk.ContentBlockParamUnion, _ *llm.Error) {
	for j := range from.Parts {
		part := &from.Parts[j]
		block, ok, err := m.block(part, adapter.Place{Message: i, Part: j})
		switch {
		case err != nil:
			return nil, nil, err
		case !ok:
		case part.Kind == llm.PartToolResult:
			results = append(results, block)
		default:
			rest = append(rest, block)
		}
	}
	return results, rest, nil
}

func (m *Model) system(p *sdk.MessageNewParams, from *llm.Message, i int) *llm.Error {
	for j := range from.Parts {
		part, at := &from.Parts[j], adapter.Place{Message: i, Part: j}
		if part.Kind != llm.PartText && part.Kind != "" {
			return adapter.Unsupported("%v is of kind %s; a system message is text here", at, part.Kind)
		}
		if part.Text == "" {
			continue
		}
		text := sdk.TextBlockParam{Text: part.Text}
		patch, err := adapter.Patch(part, m.extraNames(), at)
		if err != nil {
			return err
		}
		if patch != nil {
			raw, err := text.MarshalJSON()
			if err != nil {
				return adapter.Invalid("%v cannot be written as JSON: %v", at, err)
			}
			text = param.Override[sdk.TextBlockParam](json.RawMessage(wire.Merge(raw, patch)))
		}
		p.System = append(p.System, text)
	}
	return nil
}

func tools(p *sdk.MessageNewParams, req *llm.Request) *llm.Error {
	for i := range req.Tools {
		t := &req.Tools[i]
		schema, err := adapter.Parameters(t)
		if err != nil {
			return err
		}
		tool := sdk.ToolParam{Name: t.Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](schema)}
		if t.Description != "" {
			tool.Description = sdk.String(t.Description)
		}
		if t.Strict {
			tool.Strict = sdk.Bool(true)
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: &tool})
	}
	if len(req.Tools) == 0 { // the API refuses a choice of nothing
		return nil
	}
	switch c := req.ToolChoice; c.Mode {
	case "":
	case llm.ToolAuto:
		p.ToolChoice.OfAuto = &sdk.ToolChoiceAutoParam{}
	case llm.ToolNone:
		p.ToolChoice.OfNone = &sdk.ToolChoiceNoneParam{}
	case llm.ToolRequired:
		p.ToolChoice.OfAny = &sdk.ToolChoiceAnyParam{}
	case llm.ToolNamed:
		p.ToolChoice.OfTool = &sdk.ToolChoiceToolParam{Name: c.Name}
	default:
		return adapter.UnknownMode(c.Mode)
	}
	return nil
}

func format(p *sdk.MessageNewParams, f *llm.Format) *llm.Error {
	if f == nil {
		return nil
	}
	switch f.Kind {
	case llm.FormatSchema:
		if !wire.IsObject(f.Schema) {
			return adapter.Invalid("Format.Schema is not a JSON object")
		}
		schema := append(append([]byte(`{"type":"json_schema","schema":`), f.Schema...), '}')
		p.OutputConfig.Format = param.Override[sdk.JSONOutputFormatParam](json.RawMessage(schema))
	case llm.FormatJSON:
		return adapter.Unsupported("this API has no JSON without a schema; set Format.Schema")
	case "":
	default:
		return adapter.Invalid("Format.Kind is %q; use %q", f.Kind, llm.FormatSchema)
	}
	return nil
}
