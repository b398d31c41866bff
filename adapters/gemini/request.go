package gemini

import (
	sdk "google.golang.org/genai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// A body is the request. Its parts are the SDK's, apart from those that the SDK would round or drop.
type body struct {
	Contents          []*content       `json:"contents"`
	SystemInstruction *content         `json:"systemInstruction,omitempty"`
	Tools             []*sdk.Tool      `json:"tools,omitempty"`
	ToolConfig        *sdk.ToolConfig  `json:"toolConfig,omitempty"`
	GenerationConfig  generationConfig `json:"generationConfig,omitzero"`
}

type generationConfig struct {
	sdk.GenerationConfig
	MaxOutputTokens int      `json:"maxOutputTokens,omitempty"`
	Temperature     *float64 `json:"temperature,omitempty"`
	TopP            *float64 `json:"topP,omitempty"`
	Seed            *int64   `json:"seed,omitempty"`
}

const jsonType = "application/json"

// encode is the body of the request and the model it asks for. It reads req and writes nothing to it.
func (m *Model) encode(req *llm.Request) (_ []byte, model string, _ *llm.Error) {
	model, bad := adapter.ModelOf(req, m.cfg.Model)
	if bad != nil {
		return nil, model, bad
	}
	b := builder{m: m, model: model, calls: map[string]known{}}
	g := &b.body.GenerationConfig
	g.Temperature, g.TopP, g.Seed = req.Temperature, req.TopP, req.Seed
	g.MaxOutputTokens, g.StopSequences = req.MaxTokens, req.Stop
	if g.ThinkingConfig, bad = thinking(model, req.Effort); bad != nil {
		return nil, model, bad
	}
	if err := b.messages(req); err != nil {
		return nil, model, err
	}
	if err := b.tools(req); err != nil {
		return nil, model, err
	}
	if err := b.format(req.Format); err != nil {
		return nil, model, err
	}
	out, err := wire.Marshal(&b.body)
	if err != nil {
		return nil, model, adapter.Invalid("the request cannot be written as JSON: %v", err)
	}
	out, bad = adapter.Extend(out, req, m.extraNames())
	return out, model, bad
}

// extraNames are the keys of Extra that are meant for this API, the most particular last.
func (m *Model) extraNames() []string { return adapter.ExtraNames(extraName, m.cfg.Provider) }

func (b *builder) tools(req *llm.Request) *llm.Error {
	if len(req.Tools) == 0 { // the API refuses a choice of nothing
		return nil
	}
	tool, strict := &sdk.Tool{}, false
	for i := range req.Tools {
		t := &req.Tools[i]
		f := &sdk.FunctionDeclaration{Name: t.Name, Description: t.Description}
		if len(t.Parameters) > 0 {
			params, err := adapter.Parameters(t)
			if err != nil {
				return err
			}
			f.ParametersJsonSchema = params
		}
		strict = strict || t.Strict
		tool.FunctionDeclarations = append(tool.FunctionDeclarations, f)
	}
	b.body.Tools = []*sdk.Tool{tool}
	config := &sdk.FunctionCallingConfig{}
	switch c := req.ToolChoice; c.Mode {
	case "":
	case llm.ToolAuto:
		config.Mode = sdk.FunctionCallingConfigModeAuto
	case llm.ToolNone:
		config.Mode = sdk.FunctionCallingConfigModeNone
	case llm.ToolRequired:
		config.Mode = sdk.FunctionCallingConfigModeAny
	case llm.ToolNamed:
		config.Mode, config.AllowedFunctionNames = sdk.FunctionCallingConfigModeAny, []string{c.Name}
	default:
		return adapter.UnknownMode(c.Mode)
	}
	if strict && (config.Mode == "" || config.Mode == sdk.FunctionCallingConfigModeAuto) {
		config.Mode = sdk.FunctionCallingConfigModeValidated // the others hold calls to their schema anyway
	}
	if config.Mode != "" {
		b.body.ToolConfig = &sdk.ToolConfig{FunctionCallingConfig: config}
	}
	return nil
}

func (b *builder) format(f *llm.Format) *llm.Error {
	if f == nil {
		return nil
	}
	g := &b.body.GenerationConfig
	switch f.Kind {
	case llm.FormatJSON:
		g.ResponseMIMEType = jsonType
	case llm.FormatSchema:
		if !wire.IsObject(f.Schema) {
			return adapter.Invalid("Format.Schema is not a JSON object")
		}
		g.ResponseMIMEType, g.ResponseJsonSchema = jsonType, f.Schema
	case "":
	default:
		return adapter.Invalid("Format.Kind is %q; use %q or %q", f.Kind, llm.FormatJSON, llm.FormatSchema)
	}
	return nil
}
