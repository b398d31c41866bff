package gemini

import (
	"strconv"
	"strings"

	sdk "google.golang.org/genai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
)

// Capabilities is what a Gemini model can do through this adapter, for Deployment.Has. It goes by the generation in the
// model's name and takes a name that tells none for one of the newest: CanReasoning, which is the effort, from Gemini 2.5 on.
// Never CanPrefill: a conversation has to end with a user's turn or tool results.
func Capabilities(model string) llm.Capabilities {
	has := llm.CanText | llm.CanStream | llm.CanTools | llm.CanImages | llm.CanFiles | llm.CanAudio | llm.CanJSON | llm.CanSchema
	if version(model) >= 25 {
		has |= llm.CanReasoning
	}
	return has
}

const newest = 1000

// version is 25 for gemini-2.5-pro and publishers/google/models/gemini-2.5-flash-001, 30 for gemini-3-pro-preview.
func version(model string) int {
	_, name, ok := strings.Cut(strings.ToLower(model), "gemini-")
	if !ok {
		return newest
	}
	name, _, _ = strings.Cut(name, "-")
	major, minor, _ := strings.Cut(name, ".")
	v, err := strconv.Atoi(major)
	if err != nil || v < 0 || v >= 100 {
		return newest
	}
	if n, err := strconv.Atoi(minor); err == nil && n >= 0 {
		return 10*v + min(n, 9)
	}
	return 10 * v
}

// thinking is the effort as the API takes it: a level from Gemini 3 on, before that a budget of tokens, for which the
// numbers are those of Google's own translation of levels. An effort that is a number is a budget; "none" is one of 0.
// Thoughts are asked for along with it, since a model that is told how to think can tell what it thought.
func thinking(model, effort string) (*sdk.ThinkingConfig, *llm.Error) {
	if effort == "" {
		return nil, nil
	}
	budget := func(n int32) (*sdk.ThinkingConfig, *llm.Error) {
		return &sdk.ThinkingConfig{ThinkingBudget: &n, IncludeThoughts: n != 0}, nil
	}
	if n, err := strconv.ParseInt(effort, 10, 32); err == nil {
		return budget(int32(n))
	}
	level := strings.ToLower(effort)
	switch {
	case level == "none":
		return budget(0)
	case version(model) >= 30:
		return &sdk.ThinkingConfig{ThinkingLevel: sdk.ThinkingLevel(strings.ToUpper(effort)), IncludeThoughts: true}, nil
	}
	switch level {
	case "minimal", "low":
		return budget(1024)
	case "medium":
		return budget(8192)
	case "high":
		return budget(24576)
	}
	return nil, adapter.Unsupported(
		`%q is no reasoning effort of the model %q; use "none", "low", "medium", "high" or a number of tokens`, effort, model)
}
