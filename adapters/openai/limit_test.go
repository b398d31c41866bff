package openai

import (
	"strings"
	"testing"

	"github.com/modelchain/llm"
)

func TestAStreamedAnswerIsBounded(t *testing.T) {
	s := &streaming{call: New(Config{}).newCall(t.Context(), &llm.Request{})}
	s.Most = 10
	piece := []byte(`{"choices":[{"delta":{"content":"` + strings.Repeat("x", 6) + `"}}]}`)
	if err := s.Event(nil, piece); err != nil {
		t.Errorf("an answer within the bound failed: %v", err)
	}
	if err := s.Event(nil, piece); llm.ClassOf(err) != llm.Interrupted && llm.ClassOf(err) != llm.BadOutput {
		t.Errorf("an answer above the bound gave %v", err)
	}
}
