package openai

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// An input is the conversation as items, while it is written.
type input struct {
	m       *Model
	stored  bool // the provider knows earlier answers by their ids
	items   []*inputItem
	pending []json.RawMessage // reasoning, which is sent only with the item that came of it
}

// list is the items as they are sent.
func (in *input) list() ([]any, *llm.Error) {
	list := make([]any, len(in.items))
	for i, it := range in.items {
		list[i] = it
		if it.raw != nil {
			list[i] = it.raw
		}
		if it.extra == nil {
			continue
		}
		raw, err := wire.Marshal(it)
		if err != nil {
			return nil, adapter.Invalid("the request cannot be written as JSON: %v", err)
		}
		list[i] = json.RawMessage(wire.Merge(raw, it.extra))
	}
	return list, nil
}

// message adds one turn. What is an item of its own, such as a tool's result, comes before the rest of a user's message, and
// in its place in an assistant's.
func (in *input) message(from *llm.Message, i int) *llm.Error {
	before := len(in.items)
	msg := &inputItem{Type: "message", Role: string(from.Role)}
	if msg.Role == "" {
		msg.Role = string(llm.RoleUser)
	}
	if from.Role != llm.RoleAssistant {
		in.pending = nil // of an answer that was cut before anything came of it
	}
	for j := range from.Parts {
		p := &from.Parts[j]
		done, err := in.item(p, i, j)
		switch {
		case err != nil || done:
		case from.Role == llm.RoleAssistant:
			err = in.said(p, before, i, j)
		default:
			var c any
			c, err = in.m.piece(p, i, j)
			msg.Content = append(msg.Content, c)
		}
		if err != nil {
			return err
		}
	}
	if len(msg.Content) > 0 {
		in.items = append(in.items, msg)
	}
	return nil
}

// said adds a text of the model, whose turn begins with the item of the index before. Neighbouring texts are one message,
// unless they say that they were several.
func (in *input) said(p *llm.Part, before, i, j int) *llm.Error {
	switch p.Kind {
	case llm.PartText, "":
	case llm.PartImage, llm.PartFile, llm.PartAudio:
		return adapter.Unsupported("Messages[%d].Parts[%d] holds %s; this API takes text from an assistant", i, j, p.Kind)
	default:
		return adapter.Invalid("Messages[%d].Parts[%d] is of the unknown kind %q", i, j, p.Kind)
	}
	patch, bad := in.own(p, i, j)
	if bad != nil {
		return bad
	}
	var c any = inputPart{Type: "output_text", Text: &p.Text}
	if notes := pick(patch, true, notesOfText()); notes != nil {
		raw, err := wire.Marshal(c)
		if err != nil {
			return adapter.Invalid("Messages[%d].Parts[%d] cannot be written as JSON: %v", i, j, err)
		}
		c = json.RawMessage(wire.Merge(raw, notes))
	}
	extra := pick(patch, false, notesOfText())
	if n := len(in.items); n > before && len(in.pending) == 0 {
		if last := in.items[n-1]; last.Role == string(llm.RoleAssistant) && bytes.Equal(last.extra, extra) {
			last.Content = append(last.Content, c)
			return nil
		}
	}
	in.add(&inputItem{Type: "message", Role: string(llm.RoleAssistant), Content: []any{c}, extra: extra})
	return nil
}

// notesOfText are the fields of a text that are neither its type nor its words; those of its message are the others.
func notesOfText() []string { return []string{"annotations", "logprobs"} }

// add adds what the pending reasoning led to.
func (in *input) add(it *inputItem) {
	for _, raw := range in.pending {
		in.items = append(in.items, &inputItem{raw: raw})
	}
	in.pending = nil
	in.items = append(in.items, it)
}

// item adds a part that is an item of its own. done is false for one that belongs into a message.
func (in *input) item(p *llm.Part, i, j int) (done bool, _ *llm.Error) {
	switch p.Kind {
	case llm.PartText, llm.PartImage, llm.PartFile, llm.PartAudio, "":
		return false, nil
	}
	patch, err := in.own(p, i, j)
	if err != nil {
		return false, err
	}
	switch p.Kind {
	case llm.PartToolCall:
		if p.Call == nil {
			return false, adapter.Invalid("Messages[%d].Parts[%d] is a tool call without Call", i, j)
		}
		it := &inputItem{Type: "function_call", CallID: in.m.callID(p.Call.ID), Name: p.Call.Name, extra: patch}
		it.Arguments = string(p.Call.Arguments)
		adapter.FillIn(&it.Arguments, "{}")
		in.add(it)
		return true, nil
	case llm.PartToolResult:
		if p.Result == nil {
			return false, adapter.Invalid("Messages[%d].Parts[%d] is a tool result without Result", i, j)
		}
		out, err := in.result(p.Result, i, j)
		if err != nil {
			return false, err
		}
		if bad := adapter.HasCallID(p.Result, adapter.Place{Message: i, Part: j}); bad != nil {
			return false, bad
		}
		in.add(&inputItem{Type: "function_call_output", CallID: in.m.callID(p.Result.CallID), Output: out, extra: patch})
		return true, nil
	}
	kind := typeOf(patch)
	switch {
	case kind == "" && p.Kind == llm.PartReasoning: // another provider's
		return true, nil
	case kind == "":
		return false, nil
	case kind == "reasoning":
		if in.stored || selfContained(patch) {
			in.pending = append(in.pending, patch)
		}
		return true, nil
	}
	in.add(&inputItem{raw: patch})
	return true, nil
}

// own is what a part holds of this provider's. nil: nothing. A key that all providers read is OpenAI's own: no other could do
// anything with an id or an encrypted text of it.
func (in *input) own(p *llm.Part, i, j int) (json.RawMessage, *llm.Error) {
	names := in.m.extraNames()
	if len(names) > 1 {
		names = names[1:]
	}
	var patch json.RawMessage
	for _, name := range names {
		v, ok := p.Extra[name]
		if !ok {
			continue
		}
		if !wire.IsObject(v) {
			return nil, adapter.Invalid("Extra[%q] of Messages[%d].Parts[%d] is not a JSON object", name, i, j)
		}
		patch = v
	}
	return patch, nil
}

// result is a tool's result: its text, or a list where it holds more than text.
func (in *input) result(r *llm.ToolResult, i, j int) (any, *llm.Error) {
	plain := true
	for k := range r.Parts {
		switch r.Parts[k].Kind {
		case llm.PartText:
		case llm.PartImage, llm.PartFile:
			plain = false
		default:
			return nil, adapter.Unsupported("the tool result Messages[%d].Parts[%d] holds %s; this API takes text, images and files there",
				i, j, r.Parts[k].Kind)
		}
	}
	if plain {
		return resultText(r, i, j)
	}
	var list []any
	if r.IsError { // there is no field that says so
		mark := "Error:"
		list = append(list, inputPart{Type: "input_text", Text: &mark})
	}
	for k := range r.Parts {
		c, err := in.m.piece(&r.Parts[k], i, j)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// isItem reports whether an Extra is what an answer's text was taken from.
func isItem(extra []byte) bool { return typeOf(extra) == "message" }

// typeOf is the type of an item. "": it has none, or b is no object.
func typeOf(b []byte) string { return stringOf(wire.Find(wire.Members(b), []byte("type"))) }

// stringOf is the text that a JSON string stands for. "": b is none.
func stringOf(b []byte) string {
	s := scanOf(b)
	if s.Peek() != '"' {
		return ""
	}
	return string(s.Text())
}

// selfContained reports whether a reasoning item says what it is about to a provider that kept nothing.
func selfContained(item []byte) bool {
	has := wire.Members(item)
	if v := wire.Find(has, []byte("encrypted_content")); len(v) > 2 && v[0] == '"' {
		return true
	}
	v := wire.Find(has, []byte("content")) // open models do not encrypt
	return len(wire.Members(firstOf(v))) > 0
}

// firstOf is the first value of a list. nil: there is none.
func firstOf(list []byte) []byte {
	s := scanOf(list)
	if s.Peek() != '[' {
		return nil
	}
	if first := s.Open('['); s.More(&first, ']') {
		return s.Raw()
	}
	return nil
}

// pick is an object with those members alone that have one of the names, or with all others. nil: nothing is left.
func pick(obj []byte, wanted bool, names []string) json.RawMessage {
	var out json.RawMessage
	for _, m := range wire.Members(obj) {
		if slices.Contains(names, string(m.Key)) != wanted {
			continue
		}
		if out == nil {
			out = append(out, '{')
		} else {
			out = append(out, ',')
		}
		out = append(append(append(out, m.Name...), ':'), m.Value...)
	}
	if out != nil {
		out = append(out, '}')
	}
	return out
}
