package bedrock

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// An answer adds up the content blocks of one message and hands their content to the sink. Unary and streamed answers go
// through it alike: a whole block is one that starts, gets all it has at once, and stops.
type answer struct {
	adapter.Teller
	blocks []*block
	out    int // bytes of content
	size   int // bytes of everything that is kept

	model   string // as the prompt router chose it
	stop    string
	usage   llm.Usage
	counted bool
	extra   map[string]json.RawMessage
}

// A wireBlock is a whole block, or the start of one. One of its fields is set.
type wireBlock struct {
	Text      *string       `json:"text"`
	ToolUse   *wireToolUse  `json:"toolUse"`
	Reasoning *wireThought  `json:"reasoningContent"`
	Cited     *wireCited    `json:"citationsContent"`
	Image     *wireImage    `json:"image"`
	Result    *wireOpenTool `json:"toolResult"`
}

type wireToolUse struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Type  string          `json:"type,omitempty"` // "server_tool_use": it ran already
	Input json.RawMessage `json:"input"`
}

type wireThought struct {
	Text *struct {
		Text      string `json:"text"`
		Signature string `json:"signature"`
	} `json:"reasoningText"`
	Redacted []byte `json:"redactedContent"`
}

type wireCited struct {
	Content   []struct{ Text string } `json:"content"`
	Citations []json.RawMessage       `json:"citations"`
}

type wireImage struct {
	Format string `json:"format"`
	Source struct {
		Bytes []byte `json:"bytes"`
	} `json:"source"`
}

// wireOpenTool is the start of a result of a tool that ran at the provider.
type wireOpenTool struct {
	ID     string `json:"toolUseId"`
	Status string `json:"status,omitempty"`
	Type   string `json:"type,omitempty"`
}

// A wireDelta continues a block. One of the fields of Delta is set.
type wireDelta struct {
	Index int `json:"contentBlockIndex"`
	Delta struct {
		Text    string `json:"text"`
		ToolUse *struct {
			Input string `json:"input"`
		} `json:"toolUse"`
		Reasoning *struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
			Redacted  []byte `json:"redactedContent"`
		} `json:"reasoningContent"`
		Citation json.RawMessage   `json:"citation"`
		Image    *wireImage        `json:"image"`
		Result   []json.RawMessage `json:"toolResult"`
	} `json:"delta"`
}

// block takes in a block that came whole.
func (a *answer) block(i int, raw json.RawMessage) error {
	var w wireBlock
	read := json.Unmarshal(raw, &w) == nil
	switch {
	case wire.IsVoid(raw):
		return nil
	case !read:
		a.Lost = true
		return nil
	case w.kind() == "":
		a.blocks = append(a.blocks, &block{wire: i, raw: raw})
		return nil
	}
	b := a.start(i, &w)
	a.size += len(raw)
	switch {
	case w.Text != nil:
		return a.more(b, *w.Text)
	case w.ToolUse != nil:
		if in := bytes.TrimSpace(w.ToolUse.Input); len(in) > 0 && string(in) != "null" {
			return a.more(b, string(in))
		}
	case w.Reasoning != nil:
		b.redacted = w.Reasoning.Redacted
		if t := w.Reasoning.Text; t != nil {
			b.signature = append(b.signature, t.Signature...)
			return a.more(b, t.Text)
		}
	case w.Cited != nil:
		b.citations = w.Cited.Citations
		for _, c := range w.Cited.Content {
			if err := a.more(b, c.Text); err != nil {
				return err
			}
		}
	case w.Image != nil:
		b.data = w.Image.Source.Bytes
	}
	return a.close(b)
}

// kind is the kind of part that the block is, "" for one without a counterpart.
func (w *wireBlock) kind() llm.PartKind {
	switch {
	case w.Text != nil, w.Cited != nil:
		return llm.PartText
	case w.ToolUse != nil && !strings.HasPrefix(w.ToolUse.Type, "server"):
		return llm.PartToolCall
	case w.Reasoning != nil:
		return llm.PartReasoning
	case w.Image != nil:
		return llm.PartImage
	}
	return ""
}

// start opens the block at index i of the wire.
func (a *answer) start(i int, w *wireBlock) *block {
	b := &block{wire: i, kind: w.kind(), tool: &wireToolUse{}}
	switch {
	case w.ToolUse != nil:
		b.tool = w.ToolUse
	case w.Image != nil:
		b.format = w.Image.Format
	case w.Result != nil:
		b.result = w.Result
	}
	a.blocks = append(a.blocks, b)
	return b
}

// delta continues a block. Text and reasoning come without a start.
func (a *answer) delta(d *wireDelta) error {
	b := a.find(d.Index)
	if b == nil {
		b = &block{wire: d.Index, kind: llm.PartText, tool: &wireToolUse{}}
		switch {
		case d.Delta.Reasoning != nil:
			b.kind = llm.PartReasoning
		case d.Delta.ToolUse != nil:
			b.kind = llm.PartToolCall
		case d.Delta.Image != nil:
			b.kind = llm.PartImage
		}
		a.blocks = append(a.blocks, b)
	}
	if d.Delta.Text != "" && b.kind == "" {
		if b.tool.Type != "" || b.result != nil { // text where a tool of the provider's speaks
			a.Lost = true
			return nil
		}
		b.kind = llm.PartText // its start did not say what it is
	}
	switch r := d.Delta.Reasoning; {
	case r != nil:
		b.signature = append(b.signature, r.Signature...)
		b.redacted = append(b.redacted, r.Redacted...)
		return a.more(b, r.Text)
	case d.Delta.ToolUse != nil:
		return a.more(b, d.Delta.ToolUse.Input)
	case d.Delta.Citation != nil:
		b.citations = append(b.citations, d.Delta.Citation)
	case d.Delta.Image != nil:
		b.data = append(b.data, d.Delta.Image.Source.Bytes...)
	case d.Delta.Result != nil:
		b.content = append(b.content, d.Delta.Result...)
	default:
		return a.more(b, d.Delta.Text)
	}
	return nil
}

// more adds text, or a part of the arguments, to a block.
func (a *answer) more(b *block, s string) error {
	if s == "" {
		return nil
	}
	b.text.WriteString(s)
	a.size += len(s)
	var d llm.Delta
	switch b.kind {
	case llm.PartText:
		d = llm.Delta{Kind: llm.DeltaText, Text: s}
	case llm.PartReasoning:
		d = llm.Delta{Kind: llm.DeltaReasoning, Text: s}
	case llm.PartToolCall:
		call := &llm.ToolCallDelta{Arguments: s}
		if !b.told.Before() { // the name waits for the first argument: until then the provider has committed to nothing
			call.ID, call.Name = b.tool.ID, b.tool.Name
		}
		d = llm.Delta{Kind: llm.DeltaToolCall, Call: call}
	default: // images, and what a server's tool does, come whole or not at all
		return nil
	}
	a.out += len(s)
	return a.Tell(&b.told, d)
}

// close ends a block. A call without arguments has empty ones.
func (a *answer) close(b *block) error {
	if b == nil || b.closed {
		return nil
	}
	b.closed = true
	if b.kind != llm.PartToolCall || b.text.Len() > 0 {
		return nil
	}
	return a.more(b, "{}")
}

// end ends the message. Blocks left open end with it.
func (a *answer) end(stop string) error {
	for _, b := range a.blocks {
		if err := a.close(b); err != nil {
			return err
		}
	}
	a.stop = stop
	return nil
}

// find is the block at index i of the wire, nil if there is none.
func (a *answer) find(i int) *block {
	for n := len(a.blocks) - 1; n >= 0; n-- {
		if a.blocks[n].wire == i {
			return a.blocks[n]
		}
	}
	return nil
}
