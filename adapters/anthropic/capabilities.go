package anthropic

import (
	"strings"

	"github.com/modelchain/llm"
)

// Capabilities is what a Claude model can do through this adapter, for Deployment.Has. It goes by the generation in the
// model's name and takes a name that tells none for one of the newest:
//
//   - CanPrefill up to Claude 4.5: later ones refuse a conversation that ends with an assistant's message. This adapter
//     sends such a conversation as it is.
//   - CanSchema from Claude 4.5 on.
//   - CanReasoning, which is the effort, from Claude 4.6 on, and Opus 4.5.
//   - Never CanJSON, since the API has no JSON without a schema, and never CanAudio.
func Capabilities(model string) llm.Capabilities {
	has := llm.CanText | llm.CanStream | llm.CanTools | llm.CanImages | llm.CanFiles
	v := version(model)
	if v <= 45 {
		has |= llm.CanPrefill
	}
	if v >= 45 {
		has |= llm.CanSchema
	}
	if v > 45 || v == 45 && strings.Contains(model, "opus") {
		has |= llm.CanReasoning
	}
	return has
}

const newest = 1000

// version is 45 for claude-opus-4-5-20251101, 40 for claude-sonnet-4@20250514 and anthropic.claude-4-opus-20250514-v1:0.
func version(model string) int {
	_, name, ok := strings.Cut(strings.ToLower(model), "claude-")
	if !ok {
		return newest
	}
	v := 0
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '-' || r == '@' || r == '.' || r == ':' }) {
		if n, ok := digits(word); ok {
			if v > 0 {
				return v + min(n, 9)
			}
			v = 10 * n
		} else if v > 0 {
			return v
		}
	}
	if v == 0 {
		return newest
	}
	return v
}

// digits is a number of one or two digits; longer ones are dates.
func digits(word string) (n int, ok bool) {
	for i := range len(word) {
		if word[i] < '0' || word[i] > '9' {
			return 0, false
		}
		n = 10*n + int(word[i]-'0')
	}
	return n, len(word) == 1 || len(word) == 2
}
