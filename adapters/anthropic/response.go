package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// stopWindow is the stop reason of an answer that filled the model's window.
const stopWindow = "model_context_window_exceeded"

// blockSize is what a block costs beside its content.
const blockSize = 512

// An answer adds up the blocks of one message and hands their content to the sink. Unary and streamed answers go through it
// alike: a whole block is one that starts with all it has.
type answer struct {
	adapter.Teller
	blocks []*block
	out    int // bytes of content
	held   int // bytes of all that is kept, about

	id, model, requestID string
	stop, refusal        string
	usage                usage
	extra                map[string]json.RawMessage
}

// A block is a piece of the message.
type block struct {
	wire      int // its index on the wire
	kind      llm.DeltaKind
	other     bool // it has no counterpart here: it is kept as it is
	told      adapter.Told
	closed    bool
	id, name  string
	text      strings.Builder // or the arguments
	input     string          // the arguments that the start had
	signature strings.Builder
	citations []string
	extra     map[string]json.RawMessage // what else its start had
}

// whole takes in an answer that came in one piece.
func (a *answer) whole(msg gjson.Result) error {
	a.begin(msg)
	var err error
	msg.Get("content").ForEach(func(_, v gjson.Result) bool {
		i := len(a.blocks)
		if err = a.start(i, v); err == nil {
			err = a.close(a.find(i))
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	a.usage.final = true
	return a.end(msg, gjson.Result{})
}

// begin takes in what is known of the message before its content.
func (a *answer) begin(msg gjson.Result) {
	msg.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "id":
			a.id = strings.Clone(v.Str)
		case "model":
			a.model = strings.Clone(v.Str)
		case "usage":
			a.count(v)
		case "content", "role", "type", "stop_reason", "stop_sequence", "stop_details":
		default:
			a.keep(k.Str, v)
		}
		return true
	})
}

// start opens the block at index i of the wire. One that is none is opened by what follows.
func (a *answer) start(i int, from gjson.Result) error {
	if !from.IsObject() {
		a.odd(from)
		return nil
	}
	b := &block{wire: i}
	kind := from.Get("type").Str
	switch kind {
	case "text", "":
	case "thinking":
		b.kind = llm.DeltaReasoning
	case "tool_use":
		b.kind = llm.DeltaToolCall
	default:
		b.other = true
	}
	text := ""
	from.ForEach(func(k, v gjson.Result) bool {
		name := k.Str
		switch {
		case name == "input" && (b.other || b.kind == llm.DeltaToolCall):
			b.input = v.Raw
		case b.other:
			b.keep(name, v)
		case name == "type":
		case name == "text" && b.kind == llm.DeltaText:
			text = a.words(v)
		case name == "thinking" && b.kind == llm.DeltaReasoning:
			text = v.Str
		case name == "signature" && b.kind == llm.DeltaReasoning:
			b.signature.WriteString(v.Str)
		case name == "id" && b.kind == llm.DeltaToolCall:
			b.id = strings.Clone(v.Str)
		case name == "name" && b.kind == llm.DeltaToolCall:
			b.name = strings.Clone(v.Str)
		case name == "citations" && v.IsArray():
			for _, c := range v.Array() {
				b.citations = append(b.citations, c.Raw)
			}
		default:
			b.keep(name, v)
		}
		return true
	})
	a.blocks = append(a.blocks, b)
	a.held += blockSize + len(from.Raw)
	return a.more(b, text)
}

// odd takes note of a value that is not what it should be. Unless there is nothing in it, it may hold content.
func (a *answer) odd(v gjson.Result) { a.Lost = a.Lost || !wire.IsVoid([]byte(v.Raw)) }

// words is a text.
func (a *answer) words(v gjson.Result) string {
	if v.Type != gjson.String {
		a.odd(v)
	}
	return v.Str
}

// delta continues the block at index i. A stream that never opened it opens it so. Kinds of deltas that are not known here may
// come at any time.
func (a *answer) delta(i int, d gjson.Result) error {
	var kind, piece gjson.Result
	if !d.IsObject() {
		a.odd(d)
		return nil
	}
	d.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "type":
			kind = v
		case "text", "thinking", "partial_json", "signature", "citation":
			piece = v
		}
		return true
	})
	b := a.find(i)
	switch {
	case kind.Str == "" && adapter.HasContent([]byte(d.Raw)):
		a.Lost = true
		return nil
	case b == nil:
		b = &block{wire: i}
		switch kind.Str {
		case "thinking_delta", "signature_delta":
			b.kind = llm.DeltaReasoning
		case "input_json_delta":
			b.kind = llm.DeltaToolCall
		}
		a.blocks = append(a.blocks, b)
		a.held += blockSize
	}
	switch {
	case kind.Str == "signature_delta":
		b.signature.WriteString(piece.Str)
	case kind.Str == "citations_delta":
		b.citations = append(b.citations, piece.Raw)
	case kind.Str == "input_json_delta", kind.Str == "text_delta" && !b.other:
		return a.more(b, a.words(piece))
	case kind.Str == "thinking_delta" && !b.other:
		return a.more(b, piece.Str)
	}
	a.held += len(piece.Raw)
	return nil
}

// more adds text, or a part of the arguments, to a block.
func (a *answer) more(b *block, s string) error {
	if s == "" {
		return nil
	}
	b.text.WriteString(s)
	a.held += len(s)
	if b.other {
		return nil
	}
	a.out += len(s)
	if b.kind != llm.DeltaToolCall {
		return a.Tell(&b.told, llm.Delta{Kind: b.kind, Text: s})
	}
	d := llm.ToolCallDelta{Arguments: s}
	if !b.told.Before() { // the name waits for the first argument: until then the provider has committed to nothing
		d.ID, d.Name = b.id, b.name
	}
	return a.Tell(&b.told, llm.Delta{Kind: b.kind, Call: &d})
}

// close ends a block. A call whose arguments did not come piece by piece has those of its start.
func (a *answer) close(b *block) error {
	if b == nil || b.closed {
		return nil
	}
	b.closed = true
	if b.kind != llm.DeltaToolCall || b.text.Len() > 0 {
		return nil
	}
	adapter.FillIn(&b.input, "{}")
	return a.more(b, b.input)
}

// end takes in why the message ended. Blocks left open end with it.
func (a *answer) end(d, used gjson.Result) error {
	for _, b := range a.blocks {
		if err := a.close(b); err != nil {
			return err
		}
	}
	why := ""
	d.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "stop_reason":
			if v.Str != "" {
				a.stop = strings.Clone(v.Str)
			}
		case "stop_details":
			why = v.Get("explanation").Str
			a.keep(k.Str, v)
		case "stop_sequence", "container":
			a.keep(k.Str, v)
		}
		return true
	})
	if used.IsObject() {
		a.count(used)
		a.usage.final = true
	}
	if a.stop != "refusal" || a.refusal != "" || why == "" {
		return nil
	}
	a.refusal = strings.Clone(why)
	return a.Tell(&adapter.Told{}, llm.Delta{Kind: llm.DeltaRefusal, Text: a.refusal})
}
