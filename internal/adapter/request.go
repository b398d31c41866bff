package adapter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/rough"
	"github.com/modelchain/llm/internal/wire"
)

// A Place says where in a request a part stands.
type Place struct{ Message, Part int }

// String is the place as the caller wrote it.
func (p Place) String() string { return fmt.Sprintf("Messages[%d].Parts[%d]", p.Message, p.Part) }

// ModelOf is the model that req asks for, own if it names none. A request without a model or without messages cannot be sent
// anywhere, nor one with a tool's message that holds anything but results: APIs without such messages would take the rest for
// the user's words, the others for a result of no call.
func ModelOf(req *llm.Request, own string) (model string, _ *llm.Error) {
	model = req.Model
	FillIn(&model, own)
	switch {
	case len(req.Messages) == 0 && req.System == "":
		return model, Invalid("the request has no messages; set Request.Messages")
	case model == "":
		return model, Invalid("no model is named; set Model of the request, the deployment or the adapter")
	}
	for i := range req.Messages {
		if bad := resultsAlone(&req.Messages[i], i); bad != nil {
			return model, bad
		}
	}
	return model, nil
}

// resultsAlone is what is wrong with a tool's message. Parts that are an API's own may be results in its form.
func resultsAlone(m *llm.Message, i int) *llm.Error {
	if m.Role != llm.RoleTool {
		return nil
	}
	if len(m.Parts) == 0 {
		return Invalid("Messages[%d] is a tool's message without a result", i)
	}
	for j := range m.Parts {
		switch kind := m.Parts[j].Kind; kind {
		case llm.PartText, llm.PartImage, llm.PartFile, llm.PartAudio, llm.PartToolCall, "":
			return Invalid("%v is of kind %q beside the results of a tool's message, which holds nothing else; "+
				"put it into a result or into a message of the user's", Place{i, j}, cmp.Or(kind, llm.PartText))
		}
	}
	return nil
}

// HasCallID is what is wrong with a tool's result for an API that knows results by their calls.
func HasCallID(r *llm.ToolResult, at Place) *llm.Error {
	if r.CallID == "" {
		return Invalid("the tool result %v has no CallID", at)
	}
	return nil
}

// ExtraNames are the keys of Extra that are meant for an API: its own name, then the provider's, which is the more
// particular.
func ExtraNames(own, provider string) []string {
	if provider == own {
		return []string{own}
	}
	return []string{own, provider}
}

// Extend is a body with what the request's Extra under names wants in it, the last name over the others.
func Extend(body []byte, req *llm.Request, names []string) ([]byte, *llm.Error) {
	patches, bad := Patches(req.Extra, names)
	for _, patch := range patches {
		body = wire.Merge(body, patch)
	}
	return body, bad
}

// Patches are the objects in a request's Extra under names, in their order.
func Patches(extra map[string]json.RawMessage, names []string) (all []json.RawMessage, _ *llm.Error) {
	for _, name := range names {
		patch, ok := extra[name]
		if !ok {
			continue
		}
		if !wire.IsObject(patch) {
			return nil, Invalid("Extra[%q] is not a JSON object", name)
		}
		all = append(all, patch)
	}
	return all, nil
}

// Patch is what a part's Extra under names wants with it. nil: nothing.
func Patch(p *llm.Part, names []string, at Place) (json.RawMessage, *llm.Error) {
	var patch json.RawMessage
	if len(p.Extra) == 0 {
		return nil, nil
	}
	for _, name := range names {
		more, ok := p.Extra[name]
		switch {
		case !ok:
		case !wire.IsObject(more):
			return nil, Invalid("Extra[%q] of %v is not a JSON object", name, at)
		case patch == nil:
			patch = more
		default:
			patch = wire.Compose(patch, more)
		}
	}
	return patch, nil
}

// Arguments are those of a tool call, which must be a JSON object; none are the empty one.
func Arguments(c *llm.ToolCall, at Place) (json.RawMessage, *llm.Error) {
	switch {
	case c == nil:
		return nil, Invalid("%v is a tool call without Call", at)
	case len(c.Arguments) == 0:
		return json.RawMessage("{}"), nil
	case !wire.IsObject(c.Arguments):
		return nil, Invalid("the arguments of the tool call %v are not a JSON object", at)
	}
	return c.Arguments, nil
}

// Parameters are those of a tool as a JSON Schema, which must be an object; none are those of a tool without arguments.
func Parameters(t *llm.Tool) (json.RawMessage, *llm.Error) {
	switch {
	case len(t.Parameters) == 0:
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	case !wire.IsObject(t.Parameters):
		return nil, Invalid("the parameters of the tool %q are not a JSON object", t.Name)
	}
	return t.Parameters, nil
}

// UnknownMode is the error of a tool choice whose mode there is not.
func UnknownMode(mode llm.ToolMode) *llm.Error {
	return Invalid("ToolChoice.Mode is %q; use %q, %q, %q or %q", mode, llm.ToolAuto, llm.ToolNone, llm.ToolRequired, llm.ToolNamed)
}

// Hash is the 64-bit FNV-1a of s, by which ids that a provider would not take become others that stay apart.
func Hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// CallID is a tool call's id for an API that takes letters, digits, _ and - in it, at most so many; most 0: no bound. Ids of
// other providers may hold more. The same id always becomes the same, and two that differ stay apart.
func CallID(id string, most int) string {
	clean := []byte(id)
	bad := id == "" || most > 0 && len(id) > most
	for i, c := range clean {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '_' && c != '-' {
			clean[i], bad = '_', true
		}
	}
	if !bad {
		return id
	}
	if most > 0 {
		clean = clean[:min(len(clean), most-17)]
	}
	return fmt.Sprintf("%s_%016x", bytes.TrimLeft(clean, "_"), Hash(id))
}

// Estimate is the usage that the provider told. Where it did not get to, it is a rough one, of the request and the bytes of
// content that came, if any did.
func (c *Call) Estimate(told llm.Usage, counted bool, out int) llm.Usage {
	switch {
	case counted:
		return told
	case !c.API.Begun():
		return llm.Usage{}
	}
	return llm.Usage{Input: tokens(c.Req), Output: max((out+3)/4, 1), Estimated: true}
}

// WithCached is u with an input that holds what was read from a cache, also where a gateway's does not: then it is at least that.
func WithCached(u llm.Usage) llm.Usage {
	if u.Input < u.CachedInput {
		u.Input, u.Estimated = u.CachedInput, true
	}
	return u
}

// tokens is a rough count of the input.
func tokens(req *llm.Request) int {
	bytes, media := rough.Input(req)
	return (bytes + 4000*media + 3) / 4
}
