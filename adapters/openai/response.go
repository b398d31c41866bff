package openai

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
)

// An answer adds up the chunks of one call and hands their content to the sink. Unary and streamed answers go through it
// alike.
type answer struct {
	sink  llm.Sink // nil: whole answer only
	acc   llm.Accumulator
	calls []openCall
	out   int // bytes of content
	n     int // deltas
	told  int // deltas handed to the sink

	id, model string
	usage     llm.Usage
	counted   bool
	finish    string
	extras    []member
}

// An openCall is a tool call on its way.
type openCall struct {
	wire     int // its index on the wire
	id, name string
	args     int // bytes so far
}

// note takes in what a chunk says of the call.
func (a *answer) note(c *chunk) {
	if a.id == "" && len(c.id) > 0 {
		a.id = string(c.id)
	}
	if a.model == "" && len(c.model) > 0 {
		a.model = string(c.model)
	}
	if c.counted && (c.usage != llm.Usage{} || !a.counted) {
		a.usage, a.counted = c.usage, true
	}
	for _, e := range c.extras {
		a.keep(e)
	}
}

// add takes in a chunk. Its error is the sink's.
func (a *answer) add(c *chunk) error {
	a.note(c)
	ch := &c.choice
	if len(ch.reasoning) > 0 {
		if err := a.emit(llm.Delta{Kind: llm.DeltaReasoning, Text: string(ch.reasoning)}); err != nil {
			return err
		}
	}
	if len(ch.content) > 0 {
		if err := a.emit(llm.Delta{Kind: llm.DeltaText, Text: string(ch.content)}); err != nil {
			return err
		}
	}
	if len(ch.refusal) > 0 {
		if err := a.emit(llm.Delta{Kind: llm.DeltaRefusal, Text: string(ch.refusal)}); err != nil {
			return err
		}
	}
	for i := range ch.calls {
		if err := a.call(&ch.calls[i]); err != nil {
			return err
		}
	}
	if len(ch.finish) > 0 && a.finish == "" {
		a.finish = string(ch.finish)
		return a.closeCalls()
	}
	return nil
}

func (a *answer) emit(d llm.Delta) error {
	a.n++
	a.out += len(d.Text)
	if d.Call != nil {
		a.out += len(d.Call.Arguments)
	}
	a.acc.Add(d)
	if a.sink == nil {
		return nil
	}
	a.told++
	return a.sink(d)
}

// call takes in a piece of a tool call. Servers that number their calls badly (none, or 0 for all) are understood by their
// ids; those that send no ids are given some, since results are returned by them.
func (a *answer) call(p *piece) error {
	n := len(a.calls)
	at := -1
	for i := n - 1; i >= 0; i-- {
		if p.index < 0 || a.calls[i].wire == p.index {
			at = i
			break
		}
	}
	fresh := at < 0 || len(p.name) > 0 && len(p.id) > 0 && a.calls[at].id != string(p.id) && a.calls[at].name != ""
	if fresh && at < 0 && len(p.id) == 0 && len(p.name) == 0 && len(p.args) == 0 {
		return nil
	}
	if p.index < 0 && at >= 0 && len(p.id) == 0 && len(p.name) > 0 && a.calls[at].name != "" {
		fresh = true
	}
	d := llm.ToolCallDelta{Arguments: string(p.args)}
	if fresh {
		at = n
		d.ID, d.Name = string(p.id), string(p.name)
		if d.ID == "" {
			d.ID = a.callID(at)
		}
		a.calls = append(a.calls, openCall{wire: p.index, id: d.ID, name: d.Name})
	} else if a.calls[at].name == "" && len(p.name) > 0 {
		d.Name = string(p.name)
		a.calls[at].name = d.Name
	}
	if !fresh && d.Name == "" && d.Arguments == "" {
		return nil
	}
	a.calls[at].args += len(d.Arguments)
	return a.emit(llm.Delta{Kind: llm.DeltaToolCall, Index: at, Call: &d})
}

// callID is an id for the tool call of an index.
func (a *answer) callID(index int) string {
	id := "call_" + strconv.Itoa(index)
	if a.id != "" {
		id += "_" + a.id
	}
	return id
}

// closeCalls gives calls without arguments the empty object that they stand for.
func (a *answer) closeCalls() error {
	for i := range a.calls {
		if a.calls[i].args > 0 {
			continue
		}
		a.calls[i].args = 2
		if err := a.emit(llm.Delta{Kind: llm.DeltaToolCall, Index: i, Call: &llm.ToolCallDelta{Arguments: "{}"}}); err != nil {
			return err
		}
	}
	return nil
}

// keep keeps a field for Response.Extra; streams repeat theirs with every chunk, mostly unchanged.
func (a *answer) keep(m member) {
	for i := range a.extras {
		if bytes.Equal(a.extras[i].name, m.name) {
			if !bytes.Equal(a.extras[i].value, m.value) {
				a.extras[i].value = bytes.Clone(m.value)
			}
			return
		}
	}
	if len(a.extras) < 32 {
		a.extras = append(a.extras, member{bytes.Clone(m.name), bytes.Clone(m.value)})
	}
}

// response is the whole answer.
func (a *answer) response(provider string) *llm.Response {
	r := a.acc.Response()
	r.Model, r.Usage, r.StopDetail = a.model, a.usage, a.finish
	r.Stop = a.stop(r)
	r.Extra = a.extra(provider)
	return r
}

// extra is what the provider added beyond the fields of an answer.
func (a *answer) extra(provider string) map[string]json.RawMessage {
	if len(a.extras) == 0 {
		return nil
	}
	fields := make(map[string]json.RawMessage, len(a.extras))
	for _, m := range a.extras {
		fields[string(m.name)] = m.value
	}
	return adapter.ExtraOf(provider, fields)
}

func (a *answer) stop(r *llm.Response) llm.StopReason {
	switch a.finish {
	case "length", "max_tokens", "model_length", "max_output_tokens":
		return llm.StopLength
	case "content_filter", "safety":
		return llm.StopFiltered
	case "refusal":
		return llm.StopRefusal
	}
	switch { // servers say "stop" for these too
	case len(a.calls) > 0:
		return llm.StopToolCalls
	case r.Refusal != "":
		return llm.StopRefusal
	}
	switch a.finish {
	case "", "stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete", "COMPLETE":
		return llm.StopEnd
	case "tool_calls", "function_call":
		return llm.StopToolCalls
	}
	return llm.StopOther
}

// broken reports a finish reason that says that the answer is not whole, whatever came before it.
func broken(finish string) bool {
	switch finish {
	case "error", "abort", "aborted", "cancelled", "canceled", "timeout", "insufficient_system_resource", "network_error":
		return true
	}
	return false
}
