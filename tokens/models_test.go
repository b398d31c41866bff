package tokens_test

import (
	"math"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/tokens"
)

func TestAModelIsCountedByItsFamily(t *testing.T) {
	for model, want := range map[string]string{
		"gpt-4o":                         "by o200k_base",
		"gpt-4o-mini-2024-07-18":         "by o200k_base",
		"openai/gpt-4.1":                 "by o200k_base",
		"ft:gpt-4o-2024-08-06:org::id":   "by o200k_base",
		"GPT-5":                          "by o200k_base",
		"gpt-6-astra":                    "by o200k_base",
		"o1-preview":                     "by o200k_base",
		"o3":                             "by o200k_base",
		"o4-mini":                        "by o200k_base",
		"gpt-oss-120b":                   "by o200k_base",
		"gpt-4":                          "by cl100k_base",
		"gpt-4-1106-preview":             "by cl100k_base",
		"gpt-4-turbo-2024-04-09":         "by cl100k_base",
		"gpt-35-turbo":                   "by cl100k_base",
		"gpt-3.5-turbo-0125":             "by cl100k_base",
		"claude-3-5-sonnet-20241022":     "by cl100k_base ×1.5",
		"claude-3.7-sonnet":              "by cl100k_base ×1.5",
		"claude-opus-4-20250514":         "by cl100k_base ×1.5",
		"us.anthropic.claude-sonnet-4-6": "by cl100k_base ×1.5",
		"claude-opus-4-7":                "by cl100k_base ×2",
		"claude-sonnet-5":                "by cl100k_base ×2",
		"models/gemini-2.5-pro":          "by cl100k_base ×1.25",
		"meta-llama/Llama-3.3-70B":       "by cl100k_base ×1.1",
		"llama-2-70b-chat":               "by cl100k_base ×2",
		"open-mixtral-8x7b":              "by cl100k_base ×2",
		"mistral-large-latest":           "by cl100k_base ×1.5",
		"deepseek-chat":                  "by cl100k_base ×1.25",
		"Qwen/Qwen3-235B":                "by cl100k_base ×1.25",
		"grok-4":                         "by cl100k_base ×1.25",
		"my-own-model":                   "by cl100k_base ×1.5",
	} {
		if got := tokens.For(model).String(); got != model+" "+want {
			t.Errorf("%s is counted %q, want %q", model, got, want)
		}
	}
	if got := tokens.For("").String(); got != "by the request's model" {
		t.Errorf("without a model: %q", got)
	}
}

func TestAnotherTokenizersTextIsMultiplied(t *testing.T) {
	text := strings.Repeat("Unquestionably everybody understands tokenization. ", 50)
	base := trueCount(t, tokens.CL100k, text)
	for model, factor := range map[string]float64{"claude-3-opus": 1.5, "claude-opus-4-8": 2, "gemini-3-pro": 1.25, "who-knows": 1.5} {
		// Each full stop is a token of one byte and cannot be more.
		want := float64(base-50)*factor + 50
		if n := countText(t, tokens.For(model), text); math.Abs(float64(n)-want) > 2 {
			t.Errorf("%s: %d tokens, want %.0f for %d of cl100k_base", model, n, want, base)
		}
	}
}

func TestATokenizerThatTakesDigitsOneByOneGetsThemSo(t *testing.T) {
	digits := strings.Repeat("1234567890", 30)
	for _, model := range []string{"claude-3-opus", "gemini-2.5-pro", "qwen3-max", "mistral-large", "who-knows"} {
		if n := countText(t, tokens.For(model), digits); n != len(digits) {
			t.Errorf("%s: %d digits are %d tokens, want one each", model, len(digits), n)
		}
	}
}

func TestWhatTheUserSaysOfTheModelCounts(t *testing.T) {
	exact := tokens.New(tokens.Config{Model: "my-azure-deployment", Encoding: tokens.O200k})
	if n, want := countText(t, exact, sample), trueCount(t, tokens.O200k, sample); n != want {
		t.Errorf("with an Encoding a text is %d tokens, want exactly %d", n, want)
	}
	double := tokens.New(tokens.Config{Model: "gpt-4o", Factor: 2})
	if n, want := countText(t, double, "unquestionably"), 2*trueCount(t, tokens.O200k, "unquestionably"); n != want {
		t.Errorf("with a Factor of 2 a text is %d tokens, want %d", n, want)
	}
}

func TestWithoutAModelTheRequestsOwnCounts(t *testing.T) {
	c := tokens.New(tokens.Config{})
	for _, model := range []string{"gpt-4o", "gpt-4", "claude-opus-5", "who-knows", ""} {
		req := user("人民共和国 unquestionably")
		req.Model = model
		want := tokens.For(model)
		if model == "" {
			want = tokens.For("who-knows")
		}
		if n, want := count(t, c, req, 0), count(t, want, req, 0); n != want {
			t.Errorf("a request for %q is %d tokens, want %d", model, n, want)
		}
	}
}

func TestClaudesToolPromptCounts(t *testing.T) {
	req := user("hi")
	c := tokens.For("claude-3-opus")
	plain := count(t, c, req, 0)
	req.Tools = []llm.Tool{{Name: "f"}}
	if n := count(t, c, req, 0) - plain; n < 530 {
		t.Errorf("a tool adds %d tokens, want at least the 530 of the prompt that comes with it", n)
	}
}

func TestTheSystemMessageOfHarmonyCounts(t *testing.T) {
	if n, plain := count(t, tokens.For("gpt-oss-20b"), user("hi"), 0), count(t, tokens.For("gpt-4o"), user("hi"), 0); n < plain+80 {
		t.Errorf("%d tokens, %d without the system message that the format adds", n, plain)
	}
}
