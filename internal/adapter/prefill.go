package adapter

import (
	"slices"
	"strings"

	"github.com/modelchain/llm"
)

// Prefill is req, or a copy, whose conversation does not end in space if it ends with the assistant's own words: Anthropic's
// models take no beginning of an answer that does ("final assistant content cannot end with trailing whitespace").
func Prefill(req *llm.Request) *llm.Request {
	last := len(req.Messages) - 1
	if last < 0 || req.Messages[last].Role != llm.RoleAssistant || len(req.Messages[last].Parts) == 0 {
		return req
	}
	parts := req.Messages[last].Parts
	end := len(parts) - 1
	text := strings.TrimRight(parts[end].Text, " \t\r\n")
	if parts[end].Kind != llm.PartText || text == parts[end].Text || text == "" {
		return req
	}
	r := req.Clone()
	r.Messages = slices.Clone(req.Messages)
	r.Messages[last].Parts = slices.Clone(parts)
	r.Messages[last].Parts[end].Text = text
	return r
}
