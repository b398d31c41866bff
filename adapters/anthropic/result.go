package anthropic

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// response is the whole answer.
func (a *answer) response() *llm.Response {
	r := &llm.Response{Model: a.model, Stop: stopReason(a.stop), StopDetail: a.stop, Refusal: a.refusal}
	for _, b := range a.blocks {
		if p, ok := b.part(); ok {
			r.Parts = append(r.Parts, p)
		}
	}
	if r.Stop == llm.StopEnd && len(r.ToolCalls()) > 0 { // gateways say end_turn for these too
		r.Stop = llm.StopToolCalls
	}
	if a.usage.raw != nil {
		a.keep("usage", gjson.ParseBytes(a.usage.raw))
	}
	if len(a.extra) > 0 {
		r.Extra = adapter.ExtraOf(extraName, a.extra)
	}
	return r
}

// partial is what a broken answer has of content, without calls whose arguments are not complete. nil: nothing.
func (a *answer) partial() *llm.Response {
	if !a.Begun() {
		return nil
	}
	r := &llm.Response{Model: a.model, StopDetail: a.stop, Refusal: a.refusal}
	for _, b := range a.blocks {
		if !b.told.Before() || b.kind == llm.DeltaToolCall && !json.Valid([]byte(b.text.String())) {
			continue
		}
		if p, ok := b.part(); ok {
			r.Parts = append(r.Parts, p)
		}
	}
	return r
}

// part is a block as a part of the answer. ok is false for one that holds nothing.
func (b *block) part() (p llm.Part, ok bool) {
	text := b.text.String()
	extra := b.extra
	with := func(name string, value []byte) {
		more := make(map[string]json.RawMessage, len(extra)+1)
		maps.Copy(more, extra)
		more[name] = value
		extra = more
	}
	switch {
	case b.other:
		p.Kind = llm.PartReasoning
		if text == "" {
			text = b.input
		}
		if json.Valid([]byte(text)) {
			with("input", []byte(text))
		}
	case b.kind == llm.DeltaReasoning:
		p.Kind, p.Text = llm.PartReasoning, text
		if raw, err := wire.Marshal(b.signature.String()); err == nil && b.signature.Len() > 0 {
			with("signature", raw)
		}
	case b.kind == llm.DeltaToolCall:
		p.Kind = llm.PartToolCall
		p.Call = &llm.ToolCall{ID: b.id, Name: b.name, Arguments: json.RawMessage(text)}
	default:
		p.Kind, p.Text = llm.PartText, text
		if len(b.citations) > 0 {
			with("citations", []byte("["+strings.Join(b.citations, ",")+"]"))
		}
	}
	if len(extra) > 0 {
		p.Extra = adapter.ExtraOf(extraName, extra)
	}
	return p, p.Text != "" || p.Call != nil || p.Extra != nil
}

// find is the block at index i of the wire, nil if there is none.
func (a *answer) find(i int) *block {
	for _, b := range slices.Backward(a.blocks) {
		if b.wire == i {
			return b
		}
	}
	return nil
}

func (a *answer) keep(name string, v gjson.Result) {
	if v.Type == gjson.Null {
		return
	}
	if a.extra == nil {
		a.extra = map[string]json.RawMessage{}
	}
	a.extra[strings.Clone(name)] = json.RawMessage(v.Raw)
}

func (b *block) keep(name string, v gjson.Result) {
	if v.Type == gjson.Null {
		return
	}
	if b.extra == nil {
		b.extra = map[string]json.RawMessage{}
	}
	b.extra[strings.Clone(name)] = json.RawMessage(v.Raw)
}

func stopReason(s string) llm.StopReason {
	switch s {
	case "", "end_turn", "stop_sequence":
		return llm.StopEnd
	case "max_tokens":
		return llm.StopLength
	case "tool_use":
		return llm.StopToolCalls
	case "refusal":
		return llm.StopRefusal
	}
	return llm.StopOther // pause_turn: the answer goes back as it is, and the model goes on
}
