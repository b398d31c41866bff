package bedrock

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
)

// A block is a piece of the message.
type block struct {
	wire      int          // its index on the wire
	kind      llm.PartKind // "": it has no counterpart here and is kept as it is
	told      adapter.Told
	closed    bool            // it ended
	text      strings.Builder // or the arguments
	signature []byte
	redacted  []byte // encrypted reasoning
	citations []json.RawMessage
	format    string // of an image
	data      []byte

	tool    *wireToolUse      // never nil in one that has a kind
	result  *wireOpenTool     // of a tool that ran at the provider
	content []json.RawMessage // of that result
	raw     json.RawMessage   // the whole block, if it came whole
}

// envelope takes in all but the content of an answer that came in one piece, and returns that. ok is false for what is no
// answer.
func (a *answer) envelope(data []byte) (blocks []json.RawMessage, ok bool) {
	var all map[string]json.RawMessage
	var out struct {
		Message *struct {
			Content []json.RawMessage `json:"content"`
		} `json:"message"`
	}
	if json.Unmarshal(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), &all) != nil ||
		json.Unmarshal(all["output"], &out) != nil || out.Message == nil {
		return nil, false
	}
	delete(all, "output")
	a.meta(all)
	return out.Message.Content, true
}

// meta takes in what an answer says about itself.
func (a *answer) meta(fields map[string]json.RawMessage) {
	for name, raw := range fields {
		switch name {
		case "stopReason":
			_ = json.Unmarshal(raw, &a.stop) // one that is no text says nothing
			continue
		case "usage":
			a.count(raw)
		case "trace":
			var trace struct {
				Router struct {
					Model string `json:"invokedModelId"`
				} `json:"promptRouter"`
			}
			if json.Unmarshal(raw, &trace) == nil {
				a.model = trace.Router.Model
			}
		case "p": // padding against who listens
			continue
		}
		if string(raw) == "null" {
			continue
		}
		if a.extra == nil {
			a.extra = map[string]json.RawMessage{}
		}
		a.extra[name] = raw
	}
}

// count takes in the usage. The API's input does not hold what was read from or written to the cache.
func (a *answer) count(raw json.RawMessage) {
	var told map[string]json.RawMessage
	if json.Unmarshal(raw, &told) != nil || told == nil {
		return
	}
	var in, out, read, written adapter.Count
	for name, to := range map[string]*adapter.Count{
		"inputTokens": &in, "outputTokens": &out, "cacheReadInputTokens": &read, "cacheWriteInputTokens": &written,
	} {
		if v, ok := told[name]; ok {
			to.Take(v)
		}
	}
	a.usage = llm.Usage{
		Input: in.N + read.N + written.N, CachedInput: read.N, CacheWrite: written.N, Output: out.N,
		Estimated: in.Odd || out.Odd || read.Odd || written.Odd,
	}
	a.counted = true
}

// response is the whole answer.
func (a *answer) response() *llm.Response {
	r := &llm.Response{Model: a.model, Stop: stopReason(a.stop), StopDetail: a.stop}
	for _, b := range a.blocks {
		if p, ok := b.part(); ok {
			r.Parts = append(r.Parts, p)
		}
	}
	if r.Stop == llm.StopEnd && len(r.ToolCalls()) > 0 { // some models say end_turn for these too
		r.Stop = llm.StopToolCalls
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
	r := &llm.Response{Model: a.model, StopDetail: a.stop}
	for _, b := range a.blocks {
		if !b.told.Before() || b.kind == llm.PartToolCall && !json.Valid([]byte(b.text.String())) {
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
	switch b.kind {
	case llm.PartText:
		p = llm.Text(text)
		if len(b.citations) > 0 {
			content := []object{{"text": text}}
			p.Extra = adapter.ExtraOf(extraName, object{"citationsContent": object{"content": content, "citations": b.citations}})
		}
	case llm.PartReasoning:
		p = llm.Part{Kind: llm.PartReasoning, Text: text}
		if len(b.signature) > 0 {
			p.Extra = adapter.ExtraOf(extraName, object{
				"reasoningContent": object{"reasoningText": object{"signature": string(b.signature)}},
			})
		} else if len(b.redacted) > 0 {
			p.Extra = adapter.ExtraOf(extraName, object{"reasoningContent": object{"redactedContent": b.redacted}})
		}
	case llm.PartToolCall:
		p = llm.Part{Kind: llm.PartToolCall, Call: &llm.ToolCall{ID: b.tool.ID, Name: b.tool.Name, Arguments: json.RawMessage(text)}}
	case llm.PartImage:
		p = llm.Part{Kind: llm.PartImage, Data: b.data, MIME: "image/" + b.format}
		return p, len(b.data) > 0
	default:
		p = llm.Part{Kind: llm.PartReasoning, Extra: b.whole()}
	}
	return p, p.Text != "" || p.Call != nil || p.Extra != nil
}

// whole is the Extra of a block that is kept as it is.
func (b *block) whole() map[string]json.RawMessage {
	switch {
	case b.raw != nil:
		return map[string]json.RawMessage{extraName: b.raw}
	case b.tool.Type != "":
		use := *b.tool
		if use.Input = json.RawMessage(b.text.String()); !json.Valid(use.Input) {
			use.Input = json.RawMessage("{}")
		}
		return adapter.ExtraOf(extraName, object{"toolUse": use})
	case b.result != nil:
		content := b.content
		if content == nil {
			content = []json.RawMessage{}
		}
		return adapter.ExtraOf(extraName, object{"toolResult": struct {
			*wireOpenTool
			Content []json.RawMessage `json:"content"`
		}{b.result, content}})
	}
	return nil
}

// An object is a JSON object that is written here.
type object map[string]any

func stopReason(s string) llm.StopReason {
	switch s {
	case "", "end_turn", "stop_sequence":
		return llm.StopEnd
	case "max_tokens":
		return llm.StopLength
	case "tool_use":
		return llm.StopToolCalls
	case "guardrail_intervened", "content_filtered":
		return llm.StopFiltered
	case "refusal": // Claude's own word, in case it is passed on
		return llm.StopRefusal
	}
	return llm.StopOther
}
