package bedrock

import (
	"encoding/json"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// block appends a part to what the API takes. It leaves out what the API does not take and does not miss: blank texts, which
// it refuses, and other models' reasoning, which it cannot verify.
func (e *encoder) block(to []json.RawMessage, p *llm.Part, at adapter.Place) ([]json.RawMessage, *llm.Error) {
	patch, cache, err := e.patch(p, at)
	if err != nil {
		return nil, err
	}
	out := patch
	name := blockNames[p.Kind]
	if patch == nil || member(patch, name) { // else the patch is a block of another kind, or one that has no part
		content, err := e.content(p, patch != nil, at)
		if err != nil {
			return nil, err
		}
		if out, err = merged(name, content, patch, at); err != nil {
			return nil, err
		}
	}
	if out != nil {
		to = append(to, out)
	}
	if cache != nil {
		to = append(to, cache)
	}
	return to, nil
}

// blockNames are the API's names of the blocks that parts become.
var blockNames = map[llm.PartKind]string{
	"": "text", llm.PartText: "text", llm.PartReasoning: "reasoningContent", llm.PartImage: "image", llm.PartFile: "document",
	llm.PartAudio: "audio", llm.PartToolCall: "toolUse", llm.PartToolResult: "toolResult",
}

// member reports whether an object has a member of that name.
func member(raw json.RawMessage, name string) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return false
	}
	_, ok := members[name]
	return ok
}

// merged is a block with what a part's Extra wants with it, nil for one without content.
func merged(name string, content any, patch json.RawMessage, at adapter.Place) (json.RawMessage, *llm.Error) {
	if content == nil {
		return nil, nil
	}
	raw, err := wire.Marshal(object{name: content})
	if err != nil {
		return nil, adapter.Invalid("%v cannot be written as JSON: %v", at, err)
	}
	if patch != nil {
		raw = wire.Merge(raw, patch)
	}
	return raw, nil
}

// patch is what a part's Extra wants with its block, and the cache mark that it wants after it. nil: nothing.
func (e *encoder) patch(p *llm.Part, at adapter.Place) (patch, cache json.RawMessage, _ *llm.Error) {
	patch, bad := adapter.Patch(p, e.m.extraNames(), at)
	if patch == nil {
		return nil, nil, bad
	}
	var members map[string]json.RawMessage
	if ok := json.Unmarshal(patch, &members) == nil; !ok {
		return patch, nil, nil
	}
	if mark, ok := members["cachePoint"]; ok {
		delete(members, "cachePoint")
		if string(mark) != "null" {
			cache = json.RawMessage(`{"cachePoint":` + string(mark) + `}`)
		}
		patch = wire.Merge(patch, []byte(`{"cachePoint":null}`))
	}
	if len(members) == 0 {
		patch = nil
	}
	return patch, cache, nil
}

// content is what is in the block of a part, nil for a part that is left out.
func (e *encoder) content(p *llm.Part, patched bool, at adapter.Place) (any, *llm.Error) {
	switch p.Kind {
	case llm.PartText, "":
		if strings.TrimSpace(p.Text) == "" {
			return nil, nil
		}
		return p.Text, nil
	case llm.PartReasoning:
		switch {
		case !patched:
			return nil, nil
		case p.Text == "":
			return object{}, nil
		}
		return object{"reasoningText": object{"text": p.Text}}, nil
	case llm.PartImage, llm.PartFile, llm.PartAudio:
		return e.media(p, at)
	case llm.PartToolCall:
		e.calls = true
		return toolUse(p.Call, at)
	case llm.PartToolResult:
		e.calls = true
		return e.toolResult(p.Result, at)
	}
	return nil, adapter.Invalid("%v is of the unknown kind %q", at, p.Kind)
}

func toolUse(c *llm.ToolCall, at adapter.Place) (any, *llm.Error) {
	args, err := adapter.Arguments(c, at)
	if err != nil {
		return nil, err
	}
	return object{"toolUseId": adapter.CallID(c.ID, maxID), "name": c.Name, "input": args}, nil
}

func (e *encoder) toolResult(r *llm.ToolResult, at adapter.Place) (any, *llm.Error) {
	if r == nil {
		return nil, adapter.Invalid("%v is a tool result without Result", at)
	}
	content := []json.RawMessage{}
	for i := range r.Parts {
		p := &r.Parts[i]
		switch p.Kind {
		case llm.PartText, llm.PartImage, llm.PartFile, "":
		default:
			return nil, adapter.Unsupported("the tool result %v holds %s; this API takes text, images and files there", at, p.Kind)
		}
		var err *llm.Error
		if content, err = e.block(content, p, at); err != nil {
			return nil, err
		}
	}
	out := object{"toolUseId": adapter.CallID(r.CallID, maxID), "content": content}
	if r.IsError {
		out["status"] = "error"
	}
	return out, nil
}

// maxID is the length of the longest id of a tool call that the API takes.
const maxID = 64
