package openai

import "strings"

// A dialect is what is particular about one provider.
type dialect struct {
	name, alias string // alias: its name in the GenAI semantic conventions
	base        string
	keyHeader   string
	azure       bool
	// maxTokens is the field for the bound of the answer. "": by the model's name.
	maxTokens      string
	reasoningField string // in which reasoning is sent back with tool calls
	seed           string // the field for the seed. "": "seed"
	noStreamUsage  bool   // refuses stream_options, and sends the usage of streams anyway
	fileURLs       bool   // takes files by URL
	shortIDs       bool   // takes only tool call ids of nine letters and digits
}

const bearer = "Authorization"

// dialects are the known providers. The first is the default.
func dialects() []dialect {
	return []dialect{
		{name: "openai", base: "https://api.openai.com/v1", keyHeader: bearer},
		{name: "azure", alias: "azure.ai.openai", keyHeader: "api-key", azure: true},
		{name: "groq", base: "https://api.groq.com/openai/v1", keyHeader: bearer, maxTokens: "max_completion_tokens"},
		{name: "deepseek", base: "https://api.deepseek.com/v1", keyHeader: bearer, maxTokens: "max_tokens",
			reasoningField: "reasoning_content"}, // refuses a thinking model's tool calls without it
		{name: "xai", alias: "x_ai", base: "https://api.x.ai/v1", keyHeader: bearer, maxTokens: "max_tokens"},
		{name: "mistral", alias: "mistral_ai", base: "https://api.mistral.ai/v1", keyHeader: bearer, maxTokens: "max_tokens",
			seed: "random_seed", noStreamUsage: true, shortIDs: true}, // refuses fields that it does not know
		{name: "openrouter", base: "https://openrouter.ai/api/v1", keyHeader: bearer, maxTokens: "max_tokens",
			reasoningField: "reasoning", fileURLs: true},
		{name: "together", base: "https://api.together.xyz/v1", keyHeader: bearer, maxTokens: "max_tokens"},
		{name: "fireworks", base: "https://api.fireworks.ai/inference/v1", keyHeader: bearer, maxTokens: "max_tokens"},
		{name: "cerebras", base: "https://api.cerebras.ai/v1", keyHeader: bearer, maxTokens: "max_completion_tokens"},
		{name: "ollama", base: "http://localhost:11434/v1", keyHeader: bearer, maxTokens: "max_tokens"},
		{name: "vllm", base: "http://localhost:8000/v1", keyHeader: bearer, maxTokens: "max_tokens"},
		{name: "llama.cpp", base: "http://localhost:8080/v1", keyHeader: bearer, maxTokens: "max_tokens"},
		{name: "lmstudio", base: "http://localhost:1234/v1", keyHeader: bearer, maxTokens: "max_tokens"},
	}
}

// Providers lists the providers whose address and habits are known, for Config.Provider.
func Providers() []string {
	ds := dialects()
	names := make([]string, len(ds))
	for i := range ds {
		names[i] = ds[i].name
	}
	return names
}

// dialectOf is the dialect of a provider, OpenAI's where it is not known.
func dialectOf(provider string) (d dialect, known bool) {
	ds := dialects()
	if provider == "" {
		return ds[0], true
	}
	for _, d := range ds {
		if provider == d.name || provider == d.alias {
			return d, true
		}
	}
	return ds[0], false
}

// maxTokensField is the field that bounds an answer of model.
func (m *Model) maxTokensField(model string) string {
	switch {
	case m.cfg.MaxTokensField != "":
		return m.cfg.MaxTokensField
	case m.dash.maxTokens != "":
		return m.dash.maxTokens
	case reasons(model):
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// reasons tells by its name a model of OpenAI's that reasons and refuses max_tokens: o1, o3-mini, gpt-5, openai/gpt-5.1.
func reasons(model string) bool {
	model = strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	if v, ok := strings.CutPrefix(model, "gpt-"); ok {
		i := 0
		for i < len(v) && v[i] >= '0' && v[i] <= '9' {
			i++
		}
		return i > 1 && v[:i] != "35" || i == 1 && v[0] >= '5' && (i == len(v) || v[i] == '-' || v[i] == '.')
	}
	return len(model) >= 2 && model[0] == 'o' && model[1] >= '1' && model[1] <= '9' && (len(model) == 2 || model[2] == '-') ||
		strings.HasPrefix(model, "codex-")
}
