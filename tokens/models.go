package tokens

import (
	"slices"
	"strings"
)

// A profile is how the models of a family count.
type profile struct {
	family   string
	encoding Encoding
	// factor is what the encoding's count of a text is multiplied with. digits is how many digits make one token at most:
	// many tokenizers take each digit by itself.
	factor float64
	digits int
	// request, message, tools and tool are the tokens that a request costs beside its texts, that each message does, that
	// the presence of tools does, and that each tool, call, result and schema does.
	request, message, tools, tool int
	image                         imageRule
}

// exact is a model that counts as tiktoken does, with the chat format that OpenAI's cookbook describes: three tokens
// around each message and one for its role, three that open the answer.
func exact(e Encoding, image imageRule) *profile {
	return &profile{
		family: "openai", encoding: e, factor: 1, digits: 3, request: 3, message: 4, tools: 16, tool: 16, image: image,
	}
}

// foreign is a model with a tokenizer of its own, counted by the older encoding, which has the longer counts of the two.
func foreign(family string, factor float64, digits int, image imageRule) *profile {
	return &profile{
		family: family, encoding: CL100k, factor: factor, digits: digits, request: 16, message: 8, tools: 64, tool: 24,
		image: image,
	}
}

// claude also carries the system prompt that Anthropic adds where there are tools: up to 530 tokens by its
// documentation, a third more with the newer tokenizer.
func claude(factor float64) *profile {
	p := foreign("claude", factor, 1, claudeImage)
	p.tools = 750
	return p
}

// row is one line of the table of models. A name that starts with one of prefixes is of the profile, and so is one that
// has one of parts anywhere once its dots are dashes.
type row struct {
	prefixes, parts []string
	profile         *profile
}

// unknown is the profile of every model that the table does not have.
var unknown = foreign("unknown", 1.5, 1, unknownImage)

// models is the table of models; the first row that fits counts. The names are in lower case.
//
// The factors are upper estimates against cl100k_base, from what has been published: Claude 3 to 4.6 takes 15 to 40 %
// more tokens than tiktoken for text and code, Claude 4.7 and later another 0 to 46 % more; Gemini, Grok, Qwen, DeepSeek
// and Mistral's newer models have larger vocabularies than cl100k_base and lie within a quarter of it once digits are
// counted one by one; Llama 3 extends cl100k_base; Llama 2, Mixtral and their kind have 32,000 tokens, half as many
// again on English. None is a proof; the byte bound is, and holds for all of them.
var models = []row{
	{prefixes: []string{"gpt-4o-mini"}, profile: exact(O200k, gpt4oMiniImage)},
	{
		prefixes: []string{"gpt-4.1-mini", "gpt-4.1-nano", "o4-mini", "gpt-5-mini", "gpt-5-nano", "codex-mini"},
		profile:  exact(O200k, patchImage),
	},
	{
		prefixes: []string{
			"gpt-4o", "chatgpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5-20", "gpt-5-chat", "gpt-5-codex", "gpt-5.1", "o1", "o3",
		},
		profile: exact(O200k, tileImage),
	},
	{prefixes: []string{"gpt-oss"}, profile: gptOSS()},
	{prefixes: []string{"gpt-35", "gpt-3.5", "davinci-002", "babbage-002", "text-embedding"}, profile: exact(CL100k, tileImage)},
	{prefixes: []string{"gpt-4"}, profile: exact(CL100k, tileImage)},
	{prefixes: []string{"gpt-", "o4", "chatgpt-"}, profile: exact(O200k, latestImage)},
	{
		parts: []string{
			"claude-instant", "claude-2", "claude-3", "claude-sonnet-4", "claude-haiku-4", "claude-opus-4-0",
			"claude-opus-4-1", "claude-opus-4-2", "claude-opus-4-5", "claude-opus-4-6",
		},
		profile: claude(1.5),
	},
	{parts: []string{"claude"}, profile: claude(2)},
	{parts: []string{"gemini", "gemma"}, profile: foreign("gemini", 1.25, 1, geminiImage)},
	{parts: []string{"llama-2", "llama2", "codellama", "vicuna"}, profile: foreign("llama 2", 2, 1, llamaImage)},
	{parts: []string{"llama"}, profile: foreign("llama", 1.1, 3, llamaImage)},
	{parts: []string{"mixtral", "mistral-7b"}, profile: foreign("mistral 7b", 2, 1, mistralImage)},
	{
		parts:   []string{"mistral", "pixtral", "codestral", "ministral", "magistral", "devstral"},
		profile: foreign("mistral", 1.5, 1, mistralImage),
	},
	{parts: []string{"deepseek"}, profile: foreign("deepseek", 1.25, 1, unknownImage)},
	{parts: []string{"qwen", "qwq", "qvq"}, profile: foreign("qwen", 1.25, 1, qwenImage)},
	{parts: []string{"grok"}, profile: foreign("grok", 1.25, 1, unknownImage)},
}

// gptOSS carries the system message that the harmony format adds.
func gptOSS() *profile {
	p := exact(O200k, latestImage)
	p.request = 128
	return p
}

// profileOf finds the profile of a model. The name may carry a path ("openai/gpt-4o", "us.anthropic.claude-…") or the
// mark of a fine-tuned model.
func profileOf(model string) *profile {
	name := strings.ToLower(model)
	name = name[strings.LastIndexByte(name, '/')+1:]
	name = strings.TrimPrefix(name, "ft:")
	dashed := strings.ReplaceAll(name, ".", "-")
	for _, r := range models {
		if hasAny(name, r.prefixes, strings.HasPrefix) || hasAny(dashed, r.parts, strings.Contains) {
			return r.profile
		}
	}
	return unknown
}

func hasAny(name string, list []string, has func(s, part string) bool) bool {
	return slices.ContainsFunc(list, func(part string) bool { return has(name, part) })
}
