package llmtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelchain/llm"
)

// Each rule finds what it is for, and lets a text pass that looks like it.
func TestLintPromptFindsWhatIsOneProvidersAndNothingElse(t *testing.T) {
	for rule, texts := range map[string][2]string{
		"reasoning-tag":     {"Think in <thinking> first.", "Think before you answer."},
		"reasoning-switch":  {"Answer. /no_think", "See a/think tank."},
		"llama-template":    {"[INST] Answer. [/INST]", "Install it [INSTALL]."},
		"chatml":            {"<|im_start|>system", "an im_start"},
		"control-token":     {"<|eot_id|>", "a < b | c > d"},
		"turn-marks":        {"Example:\nHuman: hi\n", "The user: an adult. Ask a human: Ann."},
		"alpaca":            {"### Instruction: answer", "Instruction: answer"},
		"identity":          {"You are Claude, who helps.", "You are the support assistant."},
		"model-name":        {"Answer as briefly as gpt-4o-mini would.", "Answer as briefly as you can."},
		"vendor":            {"You were trained by OpenAI.", "You were trained by us. Google it."},
		"tool-tags":         {"Write <invoke name=\"f\">.", "Invoke the tool f."},
		"tool-text":         {"Call functions.search.", "Its functions. Search."},
		"artifacts":         {"Use the code_interpreter.", "Interpret the code."},
		"xml-tags":          {"Answer in <answer> tags.", "Tag the answer."},
		"xml-structure":     {"<context>x", "Its context: x."},
		"prefill":           {"Set cache_control.", "Control the cache."},
		"markdown":          {"Format the answer in Markdown.", "Answer as plain text, and do not use Markdown."},
		"markdown-emphasis": {"**Never** guess.", "2 * 3 * 4"},
		"markdown-headings": {"Rules\n# Rules\n", "Article #3 is new."},
		"token-count":       {"Use at most 1,000 tokens.", "Use at most three sentences; tokens expire."},
		"cutoff":            {"Your knowledge cutoff is 2024.", "The offer is cut off in May."},
		"placeholder":       {"You work for {{product}}.", "Answer as {\"a\": {}}."},
	} {
		found := LintPrompt(texts[0])
		if !slices.ContainsFunc(found, func(f PromptFinding) bool { return f.Rule == rule }) {
			t.Errorf("%s is not found in %q: %v", rule, texts[0], found)
		}
		if found = LintPrompt(texts[1]); found != nil {
			t.Errorf("%q is found to be %v", texts[1], found)
		}
	}
	for _, r := range promptRules {
		if r.why == "" || r.mend == "" || r.find.MatchString("") {
			t.Errorf("rule %s says not why, not how to mend it, or finds nothing in nothing", r.name)
		}
	}
}

// What is commonest of a rule is found, and what looks like it in a prompt for anybody is not.
func TestLintPromptKnowsTheUsualFormsAndTheirLikes(t *testing.T) {
	for _, test := range []struct{ prompt, rules string }{
		{"<instructions>\nAnswer briefly.\n</instructions>", "xml-structure xml-structure"},
		{"<example>Q</example>", "xml-structure xml-structure"},
		{`<document index="1">x</document>`, "xml-structure xml-structure"},
		{"<help_articles>\nx\n</help_articles>", "xml-structure"},
		{"Answer with <b>bold</b> words and <br/>. Write to <name>.", ""},
		{"<thinking>plan</thinking>", "reasoning-tag reasoning-tag"},
		{"<tool_call>x</tool_call>", "tool-text tool-text"},
		{"You are a helpful AI assistant by OpenAI.", "vendor"},
		{"You are a model from Mistral AI.", "model-name vendor"},
		{"Assist by Google search.", ""},
		{"Sonnet, Opus and Haiku answer.", "model-name"},
		{"Answer as well as Sonnet 4.5 or claude.", "model-name model-name"},
		{"Write a haiku or a sonnet. Shakespeare's Sonnet 18 is one, and Opus 27 is Beethoven's.", ""},
		{"phi-3 and phi4", "model-name model-name"},
		{"The number phi is 1.618.", ""},
		{"Copilot answers.", "model-name"},
		{"Be a copilot to the user.", ""},
		{"<|IM_START|>system <| im_end |>", "chatml chatml"},
		{"<|EOT_ID|>", "control-token"},
		{"Don't use headings; use markdown.", "markdown"},
		{"Do not use HTML but use markdown.", "markdown"},
		{"Never use headings. Use markdown.", "markdown"},
		{"Don’t use headings, HTML or Markdown.", ""},
		{"Answer as plain text; never in markdown.", ""},
		{"in __init__ files and a__b__c", ""},
		{"__Never__ guess, and (__ever__).", "markdown-emphasis markdown-emphasis"},
		{"2**3**4", ""},
		{"It is **not** so.", "markdown-emphasis"},
		{"prefill the form for the user", ""},
		{"Prefill the answer with {.", "prefill"},
		{"prefilled assistant turns", "prefill"},
		{"The mistral blows; llamas graze.", ""},
		{"Mistral and mistral-large", "model-name model-name"},
	} {
		var rules []string
		found := LintPrompt(test.prompt)
		for _, f := range found {
			rules = append(rules, f.Rule)
		}
		if slices.Sort(rules); strings.Join(rules, " ") != test.rules {
			t.Errorf("%q breaks %q, want %q: %v", test.prompt, rules, test.rules, found)
		}
	}
}

// Were the work for a finding to grow with its line, this would take longer than any test may.
func TestLintPromptTakesALongLineOfFindings(t *testing.T) {
	const n = 30_000
	if found := LintPrompt(strings.Repeat("use markdown. ", n)); len(found) != n || found[n-1].Column != (n-1)*len("use markdown. ")+1 {
		t.Errorf("%d findings, want %d", len(found), n)
	}
}

func BenchmarkLintPrompt(b *testing.B) {
	for name, text := range map[string]string{
		"plain": "plain words of a prompt, long and without any end. ", "markdown": "use markdown ", "negated": "do not use markdown ", "emphasis": "**a** ",
	} {
		for _, size := range []int{10_000, 100_000, 1_000_000} {
			prompt := strings.Repeat(text, size/len(text))
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(len(prompt)))
				for b.Loop() {
					LintPrompt(prompt)
				}
			})
		}
	}
}

func TestLintPromptSaysWhereWhyAndHowToMendIt(t *testing.T) {
	found := LintPrompt("Be kind.\nThen, ä, <thinking> twice.")
	if len(found) != 1 {
		t.Fatalf("%v", found)
	}
	want := `line 2, column 11: "<thinking>" (Anthropic, DeepSeek, Qwen): only models trained on this tag act on it; others print it to the user; ` +
		`set Request.Effort, and say in words what belongs into the answer [reasoning-tag]`
	if got := found[0].String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEvaluatePromptFailsWhatIsNotPortableUnlessAllowed(t *testing.T) {
	cfg := PromptConfig{
		System: "You are Claude.", Deployments: []*llm.Deployment{deploymentOf("a", Script())}, Fixtures: []Fixture{{Name: "one", Ask: "?"}},
	}
	h := &heard{}
	if r := EvaluatePrompt(h, cfg); len(r.Lint) != 2 || len(h.said) != 2 || !strings.HasPrefix(h.said[0], "the prompt is not portable: line 1") ||
		!strings.Contains(r.String(), "lint: line 1, column 1: \"You are Claude\"") {
		t.Errorf("the test hears %q", h.said)
	}
	cfg.System, cfg.Allow = "Ask Claude Monet. You are Claude.", []string{"identity", "model-name: Claude Monet"}
	h = &heard{}
	if r := EvaluatePrompt(h, cfg); len(r.Lint) != 1 || r.Lint[0].Column != 27 || len(h.said) != 1 {
		t.Errorf("with %q allowed, the test hears %q", cfg.Allow, h.said)
	}
	cfg.Allow = []string{"identity", "model-name"}
	h = &heard{}
	if r := EvaluatePrompt(h, cfg); r.Lint != nil || h.said != nil {
		t.Errorf("the test hears %q", h.said)
	}
}

func FuzzLintPrompt(f *testing.F) {
	f.Add("You are Claude.\r\n[INST] **x** </s> <｜a｜>")
	f.Add(" \n\t</s>\n")
	f.Add("# \xc8" + strings.Repeat("t", 80))
	f.Fuzz(func(t *testing.T, prompt string) {
		lines := strings.Split(prompt, "\n")
		for _, found := range LintPrompt(prompt) {
			if found.Line > len(lines) || !strings.HasPrefix(lines[found.Line-1][found.Column-1:], strings.Split(strings.TrimSuffix(found.Text, "…"), "\n")[0]) {
				t.Errorf("%+v is not where it says it is in %q", found, prompt)
			}
		}
	})
}
