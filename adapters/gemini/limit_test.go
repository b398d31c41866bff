package gemini

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/modelchain/llm"
)

func TestAStreamedAnswerIsBounded(t *testing.T) {
	c := &call{m: New(Config{}), ctx: t.Context(), req: &llm.Request{}}
	text := gjson.Parse(`{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}`)
	c.answer.out = maxAnswer - 1
	if err := c.take(text); err != nil {
		t.Errorf("an answer within the bound failed: %v", err)
	}
	if err := c.take(text); llm.ClassOf(err) != llm.BadOutput {
		t.Errorf("an answer above the bound gave %v", err)
	}
}
