package bedrock

import (
	"encoding/json"
	"slices"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// The body of a request. What a user may give is raw, so that it keeps its order and its numbers.
type (
	wireRequest struct {
		System     []json.RawMessage `json:"system,omitempty"`
		Messages   []wireMessage     `json:"messages,omitempty"`
		Tools      *wireTools        `json:"toolConfig,omitempty"`
		Inference  *wireInference    `json:"inferenceConfig,omitempty"`
		OutputConf *wireOutput       `json:"outputConfig,omitempty"`
	}
	wireMessage struct {
		Role    string            `json:"role"`
		Content []json.RawMessage `json:"content"`
		results int               // of the blocks, those at the beginning that hold results
	}
	wireTools struct {
		Tools  []wireTool `json:"tools"`
		Choice object     `json:"toolChoice,omitempty"`
	}
	wireTool struct {
		Spec wireToolSpec `json:"toolSpec"`
	}
	wireToolSpec struct {
		Name        string `json:"name"`
		Description string `json:"description,omitempty"`
		Schema      struct {
			JSON json.RawMessage `json:"json"`
		} `json:"inputSchema"`
		Strict bool `json:"strict,omitempty"`
	}
	wireInference struct {
		MaxTokens   int      `json:"maxTokens,omitempty"`
		Temperature *float64 `json:"temperature,omitempty"`
		TopP        *float64 `json:"topP,omitempty"`
		Stop        []string `json:"stopSequences,omitempty"`
	}
	wireOutput struct {
		Effort string `json:"effort,omitempty"`
		Format object `json:"textFormat,omitempty"`
	}
)

// An encoder writes one request.
type encoder struct {
	m     *Model
	out   wireRequest
	names map[string]bool // of documents, which the API wants to tell apart
	calls bool            // the conversation holds tool calls or results
}

// encode is the body of the request and the model it asks for. It reads req and writes nothing to it.
func (m *Model) encode(req *llm.Request) (_ []byte, model string, _ *llm.Error) {
	model, bad := adapter.ModelOf(req, m.cfg.Model)
	if bad != nil {
		return nil, model, bad
	}
	e := &encoder{m: m}
	if err := e.messages(req); err != nil {
		return nil, model, err
	}
	if err := e.tools(req); err != nil {
		return nil, model, err
	}
	if err := e.output(req); err != nil {
		return nil, model, err
	}
	if in := (wireInference{req.MaxTokens, req.Temperature, req.TopP, req.Stop}); in.MaxTokens != 0 ||
		in.Temperature != nil || in.TopP != nil || len(in.Stop) > 0 {
		e.out.Inference = &in
	}
	out, err := wire.Marshal(&e.out)
	if err != nil {
		return nil, model, adapter.Invalid("the request cannot be written as JSON: %v", err)
	}
	out, bad = adapter.Extend(out, req, m.extraNames())
	return out, model, bad
}

// extraNames are the keys of Extra that are meant for this API, the most particular last.
func (m *Model) extraNames() []string { return adapter.ExtraNames(extraName, m.cfg.Provider) }

// messages writes the conversation. System messages join the system text, wherever they stand: most models take the role
// nowhere else. Neighbours of one role become one turn, as the API demands turns that alternate, so that the results of
// parallel calls follow their calls together.
func (e *encoder) messages(req *llm.Request) *llm.Error {
	req = adapter.Prefill(req)
	if req.System != "" {
		if err := e.system(&llm.Message{Parts: []llm.Part{llm.Text(req.System)}}, 0); err != nil {
			return err
		}
	}
	for i := range req.Messages {
		from := &req.Messages[i]
		role := "user"
		switch from.Role {
		case llm.RoleSystem:
			if err := e.system(from, i); err != nil {
				return err
			}
			continue
		case llm.RoleUser, llm.RoleTool, "":
		case llm.RoleAssistant:
			role = "assistant"
		default:
			return adapter.Invalid("Messages[%d] has the unknown role %q", i, from.Role)
		}
		results, blocks, err := e.blocks(from, i)
		if err != nil {
			return err
		}
		if len(results)+len(blocks) == 0 {
			continue
		}
		n := len(e.out.Messages)
		if n == 0 || e.out.Messages[n-1].Role != role {
			e.out.Messages = append(e.out.Messages, wireMessage{role, append(results, blocks...), len(results)})
			continue
		}
		last := &e.out.Messages[n-1] // models want results before all else that follows their calls
		last.Content = slices.Insert(last.Content, last.results, results...)
		last.results += len(results)
		last.Content = append(last.Content, blocks...)
	}
	return nil
}

// blocks are the parts of one message, its tool results apart.
func (e *encoder) blocks(from *llm.Message, i int) (results, rest []json.RawMessage, _ *llm.Error) {
	for j := range from.Parts {
		part := &from.Parts[j]
		to := &rest
		if part.Kind == llm.PartToolResult {
			to = &results
		}
		var err *llm.Error
		if *to, err = e.block(*to, part, adapter.Place{Message: i, Part: j}); err != nil {
			return nil, nil, err
		}
	}
	return results, rest, nil
}

func (e *encoder) system(from *llm.Message, i int) (err *llm.Error) {
	for j := range from.Parts {
		part, at := &from.Parts[j], adapter.Place{Message: i, Part: j}
		if part.Kind != llm.PartText && part.Kind != "" {
			return adapter.Unsupported("%v is of kind %s; a system message is text here", at, part.Kind)
		}
		if e.out.System, err = e.block(e.out.System, part, at); err != nil {
			return err
		}
	}
	return nil
}

func (e *encoder) tools(req *llm.Request) *llm.Error {
	if len(req.Tools) == 0 { // the API refuses a choice of nothing
		return nil
	}
	to := &wireTools{}
	switch c := req.ToolChoice; c.Mode {
	case "":
	case llm.ToolAuto:
		to.Choice = object{"auto": object{}}
	case llm.ToolRequired:
		to.Choice = object{"any": object{}}
	case llm.ToolNamed:
		to.Choice = object{"tool": object{"name": c.Name}}
	case llm.ToolNone:
		if e.calls { // which the API takes only together with their tools
			return adapter.Unsupported("this API cannot keep a model from calling tools while the conversation holds calls")
		}
		return nil
	default:
		return adapter.UnknownMode(c.Mode)
	}
	for i := range req.Tools {
		t := &req.Tools[i]
		spec := wireToolSpec{Name: t.Name, Description: t.Description, Strict: t.Strict}
		var err *llm.Error
		if spec.Schema.JSON, err = adapter.Parameters(t); err != nil {
			return err
		}
		to.Tools = append(to.Tools, wireTool{spec})
	}
	e.out.Tools = to
	return nil
}

func (e *encoder) output(req *llm.Request) *llm.Error {
	out := wireOutput{Effort: req.Effort}
	if f := req.Format; f != nil {
		switch f.Kind {
		case llm.FormatSchema:
			if !wire.IsObject(f.Schema) {
				return adapter.Invalid("Format.Schema is not a JSON object")
			}
			schema := object{"schema": string(f.Schema)} // a text, not an object
			if f.Name != "" {
				schema["name"] = f.Name
			}
			out.Format = object{"type": "json_schema", "structure": object{"jsonSchema": schema}}
		case llm.FormatJSON:
			return adapter.Unsupported("this API has no JSON without a schema; set Format.Schema")
		case "":
		default:
			return adapter.Invalid("Format.Kind is %q; use %q", f.Kind, llm.FormatSchema)
		}
	}
	if out.Effort != "" || out.Format != nil {
		e.out.OutputConf = &out
	}
	return nil
}
