package gemini

import (
	"testing"

	"github.com/modelchain/llm"
)

func TestAStreamedAnswerIsBounded(t *testing.T) {
	c := New(Config{}).newCall(t.Context(), &llm.Request{})
	piece := []byte(`{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}`)
	c.answer.out = maxAnswer - 1
	if err := c.take(piece); err != nil {
		t.Errorf("an answer within the bound failed: %v", err)
	}
	if err := c.take(piece); llm.ClassOf(err) != llm.BadOutput {
		t.Errorf("an answer above the bound gave %v", err)
	}
}
