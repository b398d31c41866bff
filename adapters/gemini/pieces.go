package gemini

import (
	"crypto/rand"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelchain/llm"
)

// A block is a part of the answer: neighbouring pieces of one kind, unless they carry something apart from their text.
type block struct {
	kind  llm.PartKind
	delta llm.DeltaKind
	index int // among those of its kind that were told of
	told  bool
	text  strings.Builder
	call  *llm.ToolCall
	data  []byte
	url   string
	mime  string
	extra []member // what else the part has
}

// part takes in a part of the answer, or a piece of one.
func (a *answer) part(p gjson.Result) error {
	var text, call, data gjson.Result
	var thought, inline, other bool
	var extra []member
	p.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "text":
			text = v
		case "thought":
			thought = v.Bool()
		case "functionCall":
			call = v
		case "inlineData":
			data, inline = v, true
		case "fileData":
			data = v
		default:
			if v.Type != gjson.Null {
				other = other || k.Str != "thoughtSignature" && v.IsObject()
				extra = append(extra, member{k.Str, v.Raw})
			}
		}
		return true
	})
	switch {
	case call.IsObject():
		return a.toolCall(call, extra)
	case data.IsObject() && !thought:
		if b := mediaBlock(data, inline, extra); b != nil {
			a.blocks = append(a.blocks, b)
			a.n++
			a.out += len(b.data)
			return nil
		}
		return a.whole(p)
	case text.Exists(), !other && !data.Exists() && len(extra) > 0: // a signature may come without a text
		kind, delta := llm.PartText, llm.DeltaText
		if thought {
			kind, delta = llm.PartReasoning, llm.DeltaReasoning
		}
		return a.words(kind, delta, text.Str, extra)
	}
	return a.whole(p)
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
	return a.emit(b, llm.Delta{Text: text})
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
func (a *answer) toolCall(v gjson.Result, extra []member) error {
	c := &llm.ToolCall{Arguments: []byte("{}")}
	v.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "id":
			set(&c.ID, v.Str)
		case "name":
			set(&c.Name, v.Str)
		case "args":
			if v.Type != gjson.Null {
				c.Arguments = []byte(v.Raw)
			}
		case "partialArgs", "willContinue":
			if v.IsArray() || v.Bool() {
				a.unread = "the arguments of a tool call came in pieces, which this adapter does not read; " +
					"leave streamFunctionCallArguments out of Request.Extra"
			}
		}
		return true
	})
	if a.unread != "" {
		return nil
	}
	if c.ID == "" {
		set(&a.id, a.chunk.Get("responseId").Str) // which stands behind the candidates
		id := a.id
		if id == "" {
			id = rand.Text()
		}
		c.ID = madeID + strconv.Itoa(a.calls) + "-" + id
	}
	a.calls++
	b := &block{kind: llm.PartToolCall, delta: llm.DeltaToolCall, call: c, extra: extra}
	a.blocks = append(a.blocks, b)
	a.out += len(c.Arguments)
	return a.emit(b, llm.Delta{Call: &llm.ToolCallDelta{ID: c.ID, Name: c.Name, Arguments: string(c.Arguments)}})
}

// mediaBlock is a part with data as a block, nil if its data cannot be read.
func mediaBlock(v gjson.Result, inline bool, extra []member) *block {
	b := &block{extra: extra}
	set(&b.mime, v.Get("mimeType").Str)
	set(&b.url, v.Get("fileUri").Str)
	if inline {
		data, err := base64.StdEncoding.DecodeString(v.Get("data").Str)
		if err != nil {
			return nil
		}
		b.data = data
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
func (a *answer) whole(p gjson.Result) error {
	b := &block{kind: llm.PartReasoning}
	p.ForEach(func(k, v gjson.Result) bool {
		b.extra = append(b.extra, member{k.Str, v.Raw})
		return true
	})
	if len(b.extra) > 0 {
		a.blocks = append(a.blocks, b)
		a.out += len(p.Raw)
	}
	return nil
}

func (a *answer) emit(b *block, d llm.Delta) error {
	a.n++
	if !b.told {
		b.told = true
		b.index = a.counts[b.delta]
		a.counts[b.delta]++
	}
	if a.sink == nil {
		return nil
	}
	d.Kind, d.Index = b.delta, b.index
	return a.hand(d)
}
