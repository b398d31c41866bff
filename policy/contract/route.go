package contract

import (
	"github.com/modelchain/llm"
)

// A capability is one that a profile can state.
type capability struct {
	item   string
	stated bool
	can    llm.Capabilities
}

func (p *Profile) capabilities() [9]capability {
	return [...]capability{
		{"input.images", p.Input.Images, llm.CanImages},
		{"input.files", p.Input.Files, llm.CanFiles},
		{"input.audio", p.Input.Audio, llm.CanAudio},
		{"input.prefill", p.Input.Prefill, llm.CanPrefill},
		{"output.json", p.Output.JSON, llm.CanJSON},
		{"output.json_schema", p.Output.JSONSchema == SchemaEnforced, llm.CanSchema},
		{"output.reasoning", p.Output.Reasoning, llm.CanReasoning},
		{"tools.calls", p.Tools.Calls || len(p.Tools.Names) > 0, llm.CanTools},
		{"operation.streaming", p.Operation.Streaming, llm.CanStream},
	}
}

// Capabilities are those that p states: what it does not state, the deployment is taken not to have. 0, which is unknown and
// lets everything through: p has nothing in input, output, tools and operation.
func (p Profile) Capabilities() llm.Capabilities {
	var has llm.Capabilities
	for _, c := range p.capabilities() {
		if c.stated {
			has |= c.can
		}
	}
	in, out, tools := &p.Input, &p.Output, &p.Tools
	if has == 0 && in.WindowTokens == 0 && !in.SystemText && in.Locales == nil && out.JSONSchema == "" && out.Refusal == "" &&
		out.FinishReasons == nil && !out.Citations && out.Truncation == "" && out.MaxTokens == 0 && tools.SchemaDialects == nil &&
		!tools.Strict && !tools.ParallelCalls && tools.ResultPath == "" && !tools.RichResults && p.Operation == (OperationProfile{}) {
		return 0
	}
	return has | llm.CanText
}

// Contradicts says what p states of a deployment that the deployment's own fields say otherwise: a larger window, a lower
// price, another model, what it cannot do. What d leaves unknown contradicts nothing. nil: nothing does.
func (p Profile) Contradicts(d *llm.Deployment) []*Problem {
	if d == nil {
		return nil
	}
	var found problems
	miss := func(wrong bool, item string, stated, is any) {
		found.add(wrong, item, "correct the one that is wrong", "is stated as %v, and the deployment %q has %v", stated, d.Name, is)
	}
	miss(p.Provider != "" && d.Provider != "" && p.Provider != d.Provider, "provider", quoted(p.Provider), quoted(d.Provider))
	miss(p.Model != "" && d.Model != "" && p.Model != d.Model, "model", quoted(p.Model), quoted(d.Model))
	miss(d.Window > 0 && p.Input.WindowTokens > d.Window, "input.window_tokens", p.Input.WindowTokens, d.Window)
	miss(d.MaxOutput > 0 && p.Output.MaxTokens > d.MaxOutput, "output.max_tokens", p.Output.MaxTokens, d.MaxOutput)
	for _, c := range p.capabilities() {
		miss(d.Has != 0 && c.stated && d.Has&c.can == 0, c.item, c.can, d.Has)
	}
	if d.Price == (llm.Price{}) {
		return found
	}
	price := func(item string, stated *float64, is float64) {
		if stated != nil {
			miss(!(*stated >= is), item, *stated, is)
		}
	}
	price("economics.input_usd_per_million", p.Economics.InputUSDPerMillion,
		max(d.Price.Input, d.Price.CachedInput, d.Price.CacheWrite))
	price("economics.output_usd_per_million", p.Economics.OutputUSDPerMillion, d.Price.Output)
	return found
}
