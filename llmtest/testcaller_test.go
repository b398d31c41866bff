package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unsafe"

	"github.com/modelchain/llm"
)

// told is what a Caller says in the tests of the suite: pieces of text, then of one call.
func told() []llm.Delta {
	return []llm.Delta{
		{Kind: llm.DeltaText, Text: "aaaa"}, {Kind: llm.DeltaText, Text: "bbbb"},
		{Kind: llm.DeltaToolCall, Call: &llm.ToolCallDelta{ID: "c1", Name: "look", Arguments: `{"a":`}},
		{Kind: llm.DeltaToolCall, Call: &llm.ToolCallDelta{Arguments: `"xy"}`}},
	}
}

// whole is the Response of told.
func whole() *llm.Response {
	return &llm.Response{Parts: []llm.Part{
		llm.Text("aaaabbbb"), {Kind: llm.PartToolCall, Call: &llm.ToolCall{ID: "c1", Name: "look", Arguments: json.RawMessage(`{"a":"xy"}`)}},
	}}
}

func TestASinkMayKeepItsDeltas(t *testing.T) {
	buf := make([]byte, 16)
	reused := func(s string) string { return unsafe.String(&buf[0], copy(buf, s)) }
	var call llm.ToolCallDelta
	for name, c := range map[string]struct {
		change func(llm.Delta) llm.Delta
		resp   *llm.Response
		says   string
	}{
		"right": {func(d llm.Delta) llm.Delta { return d }, whole(), ""},
		"a buffer that is used again for texts": {func(d llm.Delta) llm.Delta {
			if d.Text != "" {
				d.Text = reused(d.Text)
			}
			return d
		}, whole(), "delta 0 was"},
		"a buffer that is used again for arguments": {func(d llm.Delta) llm.Delta {
			if d.Call != nil {
				d.Call.Arguments = reused(d.Call.Arguments)
			}
			return d
		}, whole(), "delta 2 was"},
		"a call that is used again": {func(d llm.Delta) llm.Delta {
			if d.Call != nil {
				call = *d.Call
				d.Call = &call
			}
			return d
		}, whole(), "delta 2 was"},
		"another answer": {func(d llm.Delta) llm.Delta { return d }, &llm.Response{}, "add up to"},
	} {
		said := ""
		s := &callerSuite{T: t, sentence: "sentence", errorf: func(format string, args ...any) { said += fmt.Sprintf(format, args...) }, wire: Wire{
			New: func(*testing.T, string) llm.Caller {
				return llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
					for _, d := range told() {
						if err := req.Sink(c.change(d)); err != nil {
							return nil, err
						}
					}
					return c.resp, nil
				})
			},
			Serve: func(http.ResponseWriter, *http.Request, Answer) {},
		}}
		keptDeltas(s)
		if (said == "") != (c.says == "") || !strings.Contains(said, c.says) {
			t.Errorf("%s: the suite says %q", name, said)
		}
	}
}
