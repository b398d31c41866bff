package adapter

import (
	"testing"

	"github.com/modelchain/llm"
)

func TestPrefillEndsInNoSpace(t *testing.T) {
	call := llm.Part{Kind: llm.PartToolCall, Call: &llm.ToolCall{Name: "f"}}
	for name, test := range map[string]struct {
		last llm.Message
		want string // of its last part; the request itself where nothing changes
		same bool
	}{
		"space":          {llm.Assistant("List:\n\n"), "List:", false},
		"none":           {llm.Assistant("List:"), "List:", true},
		"space alone":    {llm.Assistant(" \n"), " \n", true},
		"a user's":       {llm.User("List: "), "List: ", true},
		"a call":         {llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{call}}, "", true},
		"after a call":   {llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{call, llm.Text("So ")}}, "So", false},
		"without a part": {llm.Message{Role: llm.RoleAssistant}, "", true},
	} {
		req := &llm.Request{Messages: []llm.Message{llm.User("hi "), test.last}}
		got := Prefill(req)
		last := got.Messages[1]
		if (got == req) != test.same || len(last.Parts) > 0 && last.Parts[len(last.Parts)-1].Text != test.want || got.Messages[0].Parts[0].Text != "hi " {
			t.Errorf("%s: %+v", name, got.Messages)
		}
		if n := len(test.last.Parts); n > 0 && test.last.Parts[n-1].Kind == llm.PartText && !test.same && test.last.Parts[n-1].Text == test.want {
			t.Errorf("%s: the caller's own message was changed", name)
		}
	}
	if empty := (&llm.Request{}); Prefill(empty) != empty {
		t.Error("a request without messages is another")
	}
}
