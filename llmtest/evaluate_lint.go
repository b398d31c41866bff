package llmtest

import (
	"fmt"
	"regexp"
	"slices"
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

	from, to int // where in the prompt
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
	needs       string // texts in lower case, one of which is in all that find matches: they are quicker to look for
	find        *regexp.Regexp
	but         *regexp.Regexp // what its clause, up to its end, must not match. nil: anything
	why, mend   string
}

const (
	whyToken = "it is a control token of one model's template; others read it as text, or their API refuses it"
	whyTag   = "only models trained on this tag act on it; others print it to the user"
	mendPart = "name the sections in plain lines, such as \"Help articles:\""
	mendTurn = "put turns into Request.Messages and instructions into Request.System, and let adapters write the template"
)

// promptRules are looked for in order.
var promptRules = []promptRule{
	{"reasoning-tag", "Anthropic, DeepSeek, Qwen", ">", regexp.MustCompile(
		`(?i)</?(antthinking|thinking|think|scratchpad|reasoning|reflection)>`), nil,
		whyTag, "set Request.Effort, and say in words what belongs into the answer"},
	{"reasoning-switch", "Qwen, Nemotron, gpt-oss, Claude Code", "think reasoning:", regexp.MustCompile(
		`(?im)(^|\s)/(no_)?think\b|\bdetailed thinking (on|off)\b|^\s*reasoning:\s*(low|medium|high)\s*$|\bultrathink\b`), nil,
		"it is a switch of one family of models", "set Request.Effort"},
	{"llama-template", "Llama 2, Mistral", "] <<", regexp.MustCompile(
		`\[/?(INST|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]|<</?SYS>>`), nil, whyToken, mendTurn},
	{"chatml", "OpenAI, Qwen", "<|", regexp.MustCompile(`(?i)<\|\s*im_(start|end|sep)\s*\|>`), nil, whyToken, mendTurn},
	{"control-token", "Llama 3, Phi, gpt-oss, DeepSeek, Gemma", "<| _of_turn> <｜ s>", regexp.MustCompile(
		`(?i)<\|(begin_of_text|end_of_text|start_header_id|end_header_id|eot_id|eom_id|python_tag|endoftext|system|user` +
			`|assistant|end|start|channel|message|return|call)\|>` +
			`|<(start|end)_of_turn>|<｜[^｜\n]{1,40}｜>|(^|\s)</?(?-i:s)>(\s|$)`), nil, whyToken, mendTurn},
	{"turn-marks", "Anthropic's old completions, Vicuna", ":", regexp.MustCompile(
		`(?m)^[ \t]*(Human|Assistant|User|AI|H|A)[ \t]*:`), nil,
		"chat models take it for text of the prompt, and some go on writing both sides", "put example turns into Request.Messages"},
	{"alpaca", "Alpaca, Vicuna", "##", regexp.MustCompile(`(?m)^#{2,3} ?(Instruction|Response|Input|Human|Assistant|User` +
		`|System):`), nil,
		"it is the template of instruction-tuned base models", mendTurn},
	{"identity", "", "gpt claude gemini bard copilot llama mistral deepseek qwen grok", regexp.MustCompile(
		`(?i)\b(as|you are|you're|act as|i am|i'm|called|named)\s+(an?\s+|the\s+)?(ChatGPT|GPT|Claude|Gemini|Bard|Copilot` +
			`|Llama|Mistral|DeepSeek|Qwen|Grok)\b`), nil,
		"a stand-in is another model, and says what is not true or argues about it", "name the product that it speaks for"},
	{"model-name", "", "gpt o1 o3 o4 claude gemini llama mistral mixtral deepseek qwen grok command-r phi copilot sonnet opus haiku",
		regexp.MustCompile(
			`(?i)\b(gpt-?[345][\w.]*(-[\w.]+)*|chatgpt|o[134]-(mini|preview|pro)|claude(-[\w.]+)*|gemini(-[\w.]+)*` +
				`|llama[- ]?[234][\w.-]*|mi[sx]tral(-[\w.]+)+|mixtral|(?-i:Mistral)|phi-[1-4][\w.-]*|phi[34]|(?-i:Copilot)` +
				`|(?-i:(Sonnet|Opus|Haiku)(,? (and|or) |, ?|/)(Sonnet|Opus|Haiku)((,? (and|or) |, ?|/)(Sonnet|Opus|Haiku))?)` +
				`|(sonnet|haiku|opus)[- ][345](\.\d)?|deepseek(-[\w.]+)*|qwen[\w.-]*|grok(-\d)?|command-r\+?)\b`), nil,
		"what answers need not be that model", "leave the model to the deployment"},
	{"vendor", "", "openai anthropic google deepmind meta microsoft mistral deepseek alibaba xai amazon cohere", regexp.MustCompile(
		`(?i)\b((trained|made|developed|created|built|hosted) by|(assistant|chatbot|bot|model|AI) (by|from)) ` +
			`(OpenAI|Anthropic|Google|DeepMind|Meta|Microsoft|Mistral AI` +
			`|DeepSeek|Alibaba|xAI|Amazon|Cohere)\b`), nil,
		"a stand-in is somebody else's", "leave the maker out"},
	{"tool-tags", "Anthropic, Cline", ">", regexp.MustCompile(
		`</?(antml:[a-z_]+|function_calls|function_results|invoke|tool_use|tool_result|use_mcp_tool)\b[^>\n]*>`), nil,
		"it is one provider's way to call tools; elsewhere it is text, and nothing is called", "give tools in Request.Tools"},
	{"tool-text", "OpenAI, Hermes, Qwen", "tool function", regexp.MustCompile(
		`</?tool_call>|</?tools>|\bfunctions\.[a-z_]\w*|\bmulti_tool_use\b|\bfunction_call\b|\btool_choice\b|\btool_calls\b` +
			`|\bnamespace functions\b`), nil,
		"it is one provider's way to write tool calls", "give tools in Request.Tools, and name them as they are called there"},
	{"artifacts", "Claude.ai, ChatGPT", "artifact canmore dalle code_interpreter web.run", regexp.MustCompile(
		`(?i)</?antArtifact\b|<artifact\b|\bcanmore\b|\bdalle\.text2im\b|\bcode_interpreter\b|\bweb\.run\b`), nil,
		"it belongs to one provider's own application or servers", "give a tool of your own in Request.Tools"},
	{"xml-tags", "Anthropic", "tag", regexp.MustCompile(
		`(?i)\bXML tags?\b|\b(inside|within|between|in|using` +
			`|into)\s+(the\s+)?</?[a-z_][\w-]*>(\s+and\s+</[a-z_][\w-]*>)?\s+tags?\b`), nil,
		"models differ in whether they keep to tags, and users see those that are not taken off",
		"ask for JSON by Request.Format, or for plain text"},
	{"xml-structure", "Anthropic", ">", regexp.MustCompile(
		`(?i)<(instructions?|examples?|documents?|document_contents?|contexts?|background|task|rules|role|guidelines|constraints` +
			`|formatting|output_format|user_query|search_results|transcript|conversation)(\s+[\w-]+\s*=\s*("[^"\n]*"|'[^'\n]*'))*\s*>` +
			`|</[a-z][\w.-]*>`),
		regexp.MustCompile(`(?i)</(` + htmlNames + `|antthinking|thinking|think|scratchpad|reasoning|reflection|function_calls` +
			`|function_results|invoke|tool_use|tool_result|use_mcp_tool|tool_call|tools|antArtifact|artifact|s)>$`),
		"not every model takes tags for the structure of a prompt, and some answer in them", mendPart},
	{"prefill", "Anthropic", "cache_control ephemeral prefill", regexp.MustCompile(`(?i)\bcache_control\b|"ephemeral"` +
		`|\bprefill(ed|ing)?\s+(of\s+)?((the|your|an?|its)\s+)?(assistant|answer|response|reply|turn)` +
		`|\b(assistant|answer|response) prefill`), nil,
		"it is a setting of one API, and nothing to a model", "use Part.Extra for it, which other providers ignore"},
	{"markdown", "", "markdown", regexp.MustCompile(`(?i)\b(use|using|in|with|as|format\w*)\b[^.\n]{0,30}\bmarkdown\b`),
		regexp.MustCompile(`(?i)\b(no|not|never|without|avoid|don['’]t|instead of|rather than)\b.*\bmarkdown$`),
		"dialects differ between models, and what shows it may not know it", "say which marks are meant, or ask for plain text"},
	{"markdown-emphasis", "", "** __", regexp.MustCompile(`\B\*\*[^*\s]([^*\n]*[^*\s])?\*\*|\b__[^_\n]+__\b`),
		regexp.MustCompile(`__(` + pythonNames + `)__$`),
		"what is stressed by marks alone is not stressed for every model", "say in words what is important"},
	{"markdown-headings", "", "#", regexp.MustCompile(`(?m)^#{1,6} \S[^\n]*`), nil,
		"some models answer in the form of the prompt, with headings", mendPart},
	{"token-count", "", "token", regexp.MustCompile(`(?i)\b\d[\d,.]*k? tokens?\b`), nil,
		"tokens differ between models, and none can count its own", "set Request.MaxTokens, and ask for words or sentences"},
	{"cutoff", "", "cutoff cut-off training",
		regexp.MustCompile(`(?i)\b(knowledge|training( data)?)[- ]cut-?off\b|\byour training data (ends` +
			`|goes)\b`), nil,
		"it differs between models", "give the date and the facts that are needed"},
	{"placeholder", "", "{{", regexp.MustCompile(`\{\{[^{}\n]{0,60}\}\}`), nil,
		"it was not filled in", "pass the prompt as deployments get it"},
}

// htmlNames are elements that a prompt may speak of, and pythonNames what looks stressed there and is not.
const (
	htmlNames = "a|abbr|article|aside|b|blockquote|body|button|caption|cite|code|dd|del|details|div|dl|dt|em|figure|footer|form" +
		"|h[1-6]|head|header|html|i|iframe|ins|kbd|label|li|main|mark|nav|ol|option|p|pre|q|script|section|select|small|span|strong" +
		"|style|sub|summary|sup|svg|table|tbody|td|textarea|tfoot|th|thead|title|tr|u|ul|var|video"
	pythonNames = "all|annotations|bool|call|class|contains|copy|del|dict|doc|enter|eq|exit|file|future|getattr|getitem|hash|init" +
		"|iter|len|main|module|name|new|next|path|post_init|pycache|repr|setattr|setitem|slots|str|version"
)

// clauseEnd is what ends a clause, as far as texts tell.
var clauseEnd = regexp.MustCompile(`(?i)[.;!?\n]|\bbut\b|,\s+(use|write|format|answer|reply)\b`)

// excuses reports whether what was found between from and to is meant otherwise, by what precedes it in its clause. It looks back
// no farther than anybody needs, so that a long line costs no more than short ones.
func (r *promptRule) excuses(prompt string, from, to int) bool {
	const most = 200
	text := prompt[max(0, from-most):to]
	if !r.but.MatchString(text) {
		return false
	}
	if ends := clauseEnd.FindAllStringIndex(text, -1); ends != nil {
		text = text[ends[len(ends)-1][0]+1:]
	}
	return r.but.MatchString(text)
}

// allowed reports whether PromptConfig.Allow lets f, found in prompt, pass.
func (f *PromptFinding) allowed(allow []string, prompt string) bool {
	return slices.ContainsFunc(allow, func(entry string) bool {
		rule, text, only := strings.Cut(entry, ": ")
		if rule != f.Rule || only && len(text) < f.to-f.from {
			return false
		}
		return !only || strings.Contains(prompt[max(0, f.to-len(text)):min(len(prompt), f.from+len(text))], text)
	})
}

// LintPrompt finds what makes a prompt one provider's: control tokens and turn marks, reasoning and tool syntax, names of models
// and makers, tags and Markdown that not every model keeps to, and placeholders that nobody filled in. It knows texts and not
// meanings: what is meant, such as a customer called Claude, is let pass by PromptConfig.Allow. Its time grows with the length of
// the prompt, however long the lines. nil: it found nothing, which is no proof of portability; EvaluatePrompt tries it.
func LintPrompt(prompt string) (found []PromptFinding) {
	const most = 60
	lower := strings.ToLower(prompt)
	starts := []int{0} // of lines
	for i := range len(prompt) {
		if prompt[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	for _, rule := range promptRules {
		if !slices.ContainsFunc(strings.Fields(rule.needs), func(text string) bool { return strings.Contains(lower, text) }) {
			continue
		}
		for _, at := range rule.find.FindAllStringIndex(prompt, -1) {
			text := prompt[at[0]:at[1]]
			trimmed := strings.TrimSpace(text)
			from := at[0] + strings.Index(text, trimmed)
			to := from + len(trimmed)
			if rule.but != nil && rule.excuses(prompt, from, to) {
				continue
			}
			line, exact := slices.BinarySearch(starts, from)
			if !exact {
				line--
			}
			if len(trimmed) > most {
				trimmed = upTo(trimmed, most) + "…"
			}
			found = append(found, PromptFinding{
				Rule: rule.name, Line: line + 1, Column: from - starts[line] + 1, Text: trimmed, Whose: rule.whose, Why: rule.why,
				Mend: rule.mend, from: from, to: to,
			})
		}
	}
	return found
}
