package llmtest

import (
	"fmt"
	"regexp"
	"strings"
)

// A PromptFinding is something in a prompt that is written for one provider.
type PromptFinding struct {
	// Rule is its name, by which PromptConfig.Allow lets it pass.
	Rule string
	// Line and Column say where, from 1; columns are bytes.
	Line, Column int
	// Text is what was found, at most 60 bytes of it.
	Text string
	// Whose says which providers or models know it. "": it depends.
	Whose string
	// Why says what goes wrong elsewhere, Mend what to write instead.
	Why, Mend string
}

// String is the finding in a sentence: where, what, why and how to mend it.
func (f PromptFinding) String() string {
	whose := ""
	if f.Whose != "" {
		whose = " (" + f.Whose + ")"
	}
	return fmt.Sprintf("line %d, column %d: %q%s: %s; %s [%s]", f.Line, f.Column, f.Text, whose, f.Why, f.Mend, f.Rule)
}

// promptRule is a row of the table of what makes a prompt one provider's.
type promptRule struct {
	name, whose string
	find        *regexp.Regexp
	but         *regexp.Regexp // a line that it matches is meant. nil: none
	why, mend   string
}

const (
	whyToken = "it is a control token of one model's template; others read it as text, or their API refuses it"
	whyTag   = "only models trained on this tag act on it; others print it to the user"
	mendTurn = "put turns into Request.Messages and instructions into Request.System, and let adapters write the template"
)

// promptRules are looked for in order.
var promptRules = []promptRule{
	{"reasoning-tag", "Anthropic, DeepSeek, Qwen", regexp.MustCompile(
		`(?i)</?(antthinking|thinking|think|scratchpad|reasoning|reflection)>`), nil,
		whyTag, "set Request.Effort, and say in words what belongs into the answer"},
	{"reasoning-switch", "Qwen, Nemotron, gpt-oss, Claude Code", regexp.MustCompile(
		`(?im)(^|\s)/(no_)?think\b|\bdetailed thinking (on|off)\b|^\s*reasoning:\s*(low|medium|high)\s*$|\bultrathink\b`), nil,
		"it is a switch of one family of models", "set Request.Effort"},
	{"llama-template", "Llama 2, Mistral", regexp.MustCompile(
		`\[/?(INST|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]|<</?SYS>>`), nil, whyToken, mendTurn},
	{"chatml", "OpenAI, Qwen", regexp.MustCompile(`<\|im_(start|end|sep)\|>`), nil, whyToken, mendTurn},
	{"control-token", "Llama 3, Phi, gpt-oss, DeepSeek, Gemma", regexp.MustCompile(
		`<\|(begin_of_text|end_of_text|start_header_id|end_header_id|eot_id|eom_id|python_tag|endoftext|system|user` +
			`|assistant|end|start|channel|message|return|call)\|>` +
			`|<(start|end)_of_turn>|<｜[^｜\n]{1,40}｜>|(^|\s)</?s>(\s|$)`), nil, whyToken, mendTurn},
	{"turn-marks", "Anthropic's old completions, Vicuna", regexp.MustCompile(
		`(?m)^[ \t]*(Human|Assistant|User|AI|H|A)[ \t]*:`), nil,
		"chat models take it for text of the prompt, and some go on writing both sides", "put example turns into Request.Messages"},
	{"alpaca", "Alpaca, Vicuna", regexp.MustCompile(`(?m)^#{2,3} ?(Instruction|Response|Input|Human|Assistant|User` +
		`|System):`), nil,
		"it is the template of instruction-tuned base models", mendTurn},
	{"identity", "", regexp.MustCompile(
		`(?i)\b(as|you are|you're|act as|i am|i'm|called|named)\s+(an?\s+|the\s+)?(ChatGPT|GPT|Claude|Gemini|Bard|Copilot` +
			`|Llama|Mistral|DeepSeek|Qwen|Grok)\b`), nil,
		"a stand-in is another model, and says what is not true or argues about it", "name the product that it speaks for"},
	{"model-name", "", regexp.MustCompile(
		`(?i)\b(gpt-?[345][\w.]*(-[\w.]+)*|chatgpt|o[134]-(mini|preview|pro)|claude(-[\w.]+)*|gemini(-[\w.]+)*` +
			`|llama[- ]?[234][\w.-]*|mi[sx]tral(-[\w.]+)*|deepseek(-[\w.]+)*|qwen[\w.-]*|grok(-\d)?|command-r\+?)\b`), nil,
		"what answers need not be that model", "leave the model to the deployment"},
	{"vendor", "", regexp.MustCompile(
		`(?i)\b(trained|made|developed|created|built|hosted) by (OpenAI|Anthropic|Google|DeepMind|Meta|Microsoft|Mistral AI` +
			`|DeepSeek|Alibaba|xAI|Amazon|Cohere)\b`), nil,
		"a stand-in is somebody else's", "leave the maker out"},
	{"tool-tags", "Anthropic, Cline", regexp.MustCompile(
		`</?(antml:[a-z_]+|function_calls|function_results|invoke|tool_use|tool_result|use_mcp_tool)\b[^>\n]*>`), nil,
		"it is one provider's way to call tools; elsewhere it is text, and nothing is called", "give tools in Request.Tools"},
	{"tool-text", "OpenAI, Hermes, Qwen", regexp.MustCompile(
		`</?tool_call>|</?tools>|\bfunctions\.[a-z_]\w*|\bmulti_tool_use\b|\bfunction_call\b|\btool_choice\b|\btool_calls\b` +
			`|\bnamespace functions\b`), nil,
		"it is one provider's way to write tool calls", "give tools in Request.Tools, and name them as they are called there"},
	{"artifacts", "Claude.ai, ChatGPT", regexp.MustCompile(
		`(?i)</?antArtifact\b|<artifact\b|\bcanmore\b|\bdalle\.text2im\b|\bcode_interpreter\b|\bweb\.run\b`), nil,
		"it belongs to one provider's own application or servers", "give a tool of your own in Request.Tools"},
	{"xml-tags", "Anthropic", regexp.MustCompile(
		`(?i)\bXML tags?\b|\b(inside|within|between|in|using` +
			`|into)\s+(the\s+)?</?[a-z_][\w-]*>(\s+and\s+</[a-z_][\w-]*>)?\s+tags?\b`), nil,
		"models differ in whether they keep to tags, and users see those that are not taken off",
		"ask for JSON by Request.Format, or for plain text"},
	{"prefill", "Anthropic", regexp.MustCompile(`(?i)\bcache_control\b|"ephemeral"|\bprefill(ed)?\b`), nil,
		"it is a setting of one API, and nothing to a model", "use Part.Extra for it, which other providers ignore"},
	{"markdown", "", regexp.MustCompile(`(?i)\b(use|using|in|with|as|format\w*)\b[^.\n]{0,30}\bmarkdown\b`),
		regexp.MustCompile(`(?i)\b(no|not|never|without|avoid|don't|instead of|rather than)\b[^.\n]*\bmarkdown\b`),
		"dialects differ between models, and what shows it may not know it", "say which marks are meant, or ask for plain text"},
	{"markdown-emphasis", "", regexp.MustCompile(`\*\*[^*\n]+\*\*|__[^_\n]+__`), nil,
		"what is stressed by marks alone is not stressed for every model", "say in words what is important"},
	{"markdown-headings", "", regexp.MustCompile(`(?m)^#{1,6} \S[^\n]*`), nil,
		"some models answer in the form of the prompt, with headings", "name the sections in plain lines, such as \"Help articles:\""},
	{"token-count", "", regexp.MustCompile(`(?i)\b\d[\d,.]*k? tokens?\b`), nil,
		"tokens differ between models, and none can count its own", "set Request.MaxTokens, and ask for words or sentences"},
	{"cutoff", "", regexp.MustCompile(`(?i)\b(knowledge|training( data)?)[- ]cut-?off\b|\byour training data (ends` +
		`|goes)\b`), nil,
		"it differs between models", "give the date and the facts that are needed"},
	{"placeholder", "", regexp.MustCompile(`\{\{[^{}\n]{0,60}\}\}`), nil,
		"it was not filled in", "pass the prompt as deployments get it"},
}

// LintPrompt finds what makes a prompt one provider's: control tokens and turn marks, reasoning and tool syntax, names of models
// and makers, tags and Markdown that not every model keeps to, and placeholders that nobody filled in. It knows texts and not
// meanings: what is meant, such as a customer called Claude, is let pass by PromptConfig.Allow. nil: it found nothing, which is
// no proof of portability; EvaluatePrompt tries it.
func LintPrompt(prompt string) (found []PromptFinding) {
	const most = 60
	for _, rule := range promptRules {
		for _, at := range rule.find.FindAllStringIndex(prompt, -1) {
			from, text := at[0], prompt[at[0]:at[1]]
			trimmed := strings.TrimSpace(text)
			from += strings.Index(text, trimmed)
			before := prompt[:from]
			start := strings.LastIndexByte(before, '\n') + 1
			line, _, _ := strings.Cut(prompt[start:], "\n")
			if rule.but != nil && rule.but.MatchString(line) {
				continue
			}
			if len(trimmed) > most {
				trimmed = strings.ToValidUTF8(trimmed[:most], "") + "…"
			}
			found = append(found, PromptFinding{
				Rule: rule.name, Line: strings.Count(before, "\n") + 1, Column: from - start + 1, Text: trimmed,
				Whose: rule.whose, Why: rule.why, Mend: rule.mend,
			})
		}
	}
	return found
}
