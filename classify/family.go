package classify

import (
	"net/http"
	"strings"

	"github.com/modelchain/llm/internal/wire"
)

// families maps what users and gateways call a provider to the family whose rows speak of it. A name that contains
// one of these words, such as "my-azure-east", is of that family; the first that fits wins.
var families = []struct{ word, family string }{
	{"azure", "azure"},
	{"github", "github"},
	{"copilot", "github"},
	{"openrouter", "openrouter"},
	{"litellm", "litellm"},
	{"vercel", "vercel"},
	{"bedrock", "bedrock"},
	{"aws", "bedrock"},
	{"amazon", "bedrock"},
	{"vertex", "google"},
	{"gemini", "google"},
	{"google", "google"},
	{"palm", "google"},
	{"anthropic", "anthropic"},
	{"claude", "anthropic"},
	{"mistral", "mistral"},
	{"cohere", "cohere"},
	{"groq", "groq"},
	{"deepseek", "deepseek"},
	{"xai", "xai"},
	{"x.ai", "xai"},
	{"grok", "xai"},
	{"together", "together"},
	{"fireworks", "fireworks"},
	{"cerebras", "cerebras"},
	{"ollama", "ollama"},
	{"vllm", "vllm"},
	{"llama.cpp", "llamacpp"},
	{"llamacpp", "llamacpp"},
	{"llama-cpp", "llamacpp"},
	{"lmstudio", "lmstudio"},
	{"lm-studio", "lmstudio"},
	{"tgi", "tgi"},
	{"huggingface", "huggingface"},
	{"dashscope", "dashscope"},
	{"alibaba", "dashscope"},
	{"qwen", "dashscope"},
	{"minimax", "minimax"},
	{"zhipu", "zhipu"},
	{"bigmodel", "zhipu"},
	{"z.ai", "zhipu"},
	{"zai", "zhipu"},
	{"glm", "zhipu"},
	{"moonshot", "moonshot"},
	{"kimi", "moonshot"},
	{"openai", "openai"},
}

// Family is the provider family whose rows a provider's failures are held against; "" is none but the general rows,
// which is what most OpenAI-compatible servers need.
func Family(provider string) string {
	if provider == "" || provider == "openai" {
		return provider
	}
	p := strings.ToLower(provider)
	if strings.Contains(p, "compatible") { // "openai-compatible" is anyone
		return ""
	}
	for i := range families {
		if strings.Contains(p, families[i].word) {
			return families[i].family
		}
	}
	return ""
}

// told is the family that the failure itself gives away, for servers behind a gateway or under a name that says
// nothing.
func told(f *wire.Facts, h http.Header, body string) string {
	if f.Upstream != "" {
		if family := Family(f.Upstream); family != "" {
			return family
		}
	}
	switch {
	case h.Get("X-Amzn-Errortype") != "" || h.Get("X-Amzn-Requestid") != "":
		return "bedrock"
	case len(h["Apim-Request-Id"]) > 0 || len(h["X-Ms-Region"]) > 0:
		return "azure"
	case len(h["X-Groq-Region"]) > 0 || len(h["X-Groq-Id"]) > 0:
		return "groq"
	case strings.Contains(body, "RESOURCE_EXHAUSTED"), strings.Contains(body, "google") &&
		(strings.Contains(body, "google.rpc.") || strings.Contains(body, "googleapis.com")):
		return "google"
	}
	return ""
}
