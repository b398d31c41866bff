package gemini

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
)

// A block is a part of the answer: neighbouring pieces of one kind, unless they carry something apart from their text.
type block struct {
	kind  llm.PartKind
	delta llm.DeltaKind
	told  adapter.Told
	text  strings.Builder
	call  *llm.ToolCall
	data  []byte
	url   string
	mime  string
	extra []member // what else the part has
}

// part takes in a part of the answer, or a piece of one.
func (a *answer) part(list *walk) error {
	var words, call, data []byte
	var thought, inline, other bool
	var extra []member
	from := *list
	w := list.enter()
	if !w.object {
		a.odd(list.value())
		return nil
	}
	for w.more() {
		v := w.value()
		switch string(w.key) {
		case "text":
			if words = v; len(v) > 0 && v[0] != '"' {
				a.odd(v)
			}
		case "thought":
			thought = string(v) == "true"
		case "functionCall":
			call = v
		case "inlineData":
			data, inline = v, true
		case "fileData":
			data = v
		default:
			if !isNull(v) {
				other = other || string(w.key) != "thoughtSignature" && isFields(v)
				extra = append(extra, member{string(w.key), bytes.Clone(v)})
			}
		}
	}
	list.leave(&w)
	switch {
	case isFields(call):
		return a.toolCall(call, extra)
	case isFields(data) && !thought:
		if b := mediaBlock(data, inline, extra); b != nil {
			a.blocks = append(a.blocks, b)
			a.N++
			a.out += len(b.data)
			return nil
		}
	case words != nil, !other && data == nil && len(extra) > 0: // a signature may come without a text
		kind, delta := llm.PartText, llm.DeltaText
		if thought {
			kind, delta = llm.PartReasoning, llm.DeltaReasoning
		}
		return a.words(kind, delta, text(words), extra)
	}
	a.whole(from.value())
	return nil
}

// words adds text. One that carries something of its own, such as a signature, stays apart: signatures are bound to their
// parts.
func (a *answer) words(kind llm.PartKind, delta llm.DeltaKind, text string, extra []member) error {
	if text == "" && len(extra) == 0 {
		return nil
	}
	var b *block
	if n := len(a.blocks); n > 0 {
		b = a.blocks[n-1]
	}
	if b == nil || b.kind != kind || len(b.extra)+len(extra) > 0 {
		b = &block{kind: kind, delta: delta, extra: extra}
		a.blocks = append(a.blocks, b)
	}
	if text == "" {
		return nil
	}
	b.text.WriteString(text)
	a.out += len(text)
	return a.Tell(&b.told, llm.Delta{Kind: b.delta, Text: text})
}

// madeID begins the ids of calls to which the API gave none. They are for the use of the caller and are not sent back.
const madeID = "gemini-"

// sentID is a call's id as the API has it.
func sentID(id string) string {
	if strings.HasPrefix(id, madeID) {
		return ""
	}
	return id
}

// toolCall takes in a call, which comes whole.
func (a *answer) toolCall(v []byte, extra []member) error {
	c := &llm.ToolCall{Arguments: []byte("{}")}
	w := walkOf(v)
	for w.more() {
		v := w.value()
		switch string(w.key) {
		case "id":
			set(&c.ID, v)
		case "name":
			set(&c.Name, v)
		case "args":
			if !isNull(v) {
				c.Arguments = bytes.Clone(v)
			}
		case "partialArgs", "willContinue":
			if isList(v) || string(v) == "true" {
				a.unread = "the arguments of a tool call came in pieces, which this adapter does not read; " +
					"leave streamFunctionCallArguments out of Request.Extra"
				return nil
			}
		}
	}
	if c.ID == "" {
		c.ID = a.idOfCall()
	}
	a.calls++
	b := &block{kind: llm.PartToolCall, delta: llm.DeltaToolCall, call: c, extra: extra}
	a.blocks = append(a.blocks, b)
	a.out += len(c.Arguments)
	d := &llm.ToolCallDelta{ID: c.ID, Name: c.Name, Arguments: string(c.Arguments)}
	return a.Tell(&b.told, llm.Delta{Kind: b.delta, Call: d})
}

// idOfCall makes the id of the next call from that of the answer, which stands behind the candidates.
func (a *answer) idOfCall() string {
	w := walkOf(a.chunk)
	for w.more() {
		if string(w.key) == "responseId" {
			set(&a.id, w.value())
		}
	}
	id := a.id
	if id == "" {
		id = rand.Text()
	}
	return madeID + strconv.Itoa(a.calls) + "-" + id
}

// mediaBlock is a part with data as a block, nil if its data cannot be read.
func mediaBlock(v []byte, inline bool, extra []member) *block {
	b := &block{extra: extra}
	var data []byte
	w := walkOf(v)
	for w.more() {
		switch string(w.key) {
		case "mimeType":
			set(&b.mime, w.value())
		case "fileUri":
			set(&b.url, w.value())
		case "data":
			data = w.value()
		}
	}
	if inline {
		raw, err := base64.StdEncoding.DecodeString(text(data))
		if err != nil {
			return nil
		}
		b.data = raw
	}
	switch kind, _, _ := strings.Cut(b.mime, "/"); kind {
	case "image":
		b.kind = llm.PartImage
	case "audio":
		b.kind = llm.PartAudio
	default:
		b.kind = llm.PartFile
	}
	return b
}

// whole keeps a part that has no counterpart here.
func (a *answer) whole(p []byte) {
	b := &block{kind: llm.PartReasoning}
	w := walkOf(p)
	for w.more() {
		b.extra = append(b.extra, member{string(w.key), bytes.Clone(w.value())})
	}
	if len(b.extra) > 0 {
		a.blocks = append(a.blocks, b)
		a.out += len(p)
	}
}
