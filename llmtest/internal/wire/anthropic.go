package wire

import "github.com/modelchain/llm"

// Claude has one word for what it declines and for what a filter stops.
var anthropicStops = map[llm.StopReason]string{
	llm.StopEnd: "end_turn", llm.StopLength: "max_tokens", llm.StopToolCalls: "tool_use", llm.StopRefusal: "refusal",
	llm.StopFiltered: "refusal",
}

func (a *Answer) message(unfinished bool) m {
	var blocks []m
	if len(a.Reasoning) > 0 {
		blocks = append(blocks, m{"type": "thinking", "thinking": a.reasoning(), "signature": "c2lnbmF0dXJl"})
	}
	if len(a.Text) > 0 {
		blocks = append(blocks, m{"type": "text", "text": a.text()})
	}
	for _, c := range a.Calls {
		blocks = append(blocks, m{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.Arguments})
	}
	v := m{
		"id": "msg_" + a.ID, "type": "message", "role": "assistant", "model": a.Model, "content": list(blocks),
		"stop_reason": anthropicStops[a.Stop], "stop_sequence": nil,
	}
	if unfinished {
		v["stop_reason"] = nil
	}
	if !a.NoUsage {
		v["usage"] = a.anthropicUsage(a.Usage.Output)
	}
	return v
}

// anthropicUsage counts what was cached apart from the rest of the input, as this API does.
func (a *Answer) anthropicUsage(output int) m {
	u := a.Usage
	return m{
		"input_tokens": max(u.Input-u.CachedInput-u.CacheWrite, 0), "cache_creation_input_tokens": u.CacheWrite,
		"cache_read_input_tokens": u.CachedInput, "output_tokens": output,
	}
}

func (a *Answer) anthropicEvents(s *stream) {
	event := func(kind string, fields m) string {
		fields["type"] = kind
		return sse(kind, fields)
	}
	start := Answer{ID: a.ID, Model: a.Model, Usage: a.Usage, NoUsage: true}
	message := start.message(true)
	if !a.NoUsage {
		message["usage"] = a.anthropicUsage(1)
	}
	s.add(Frame, event("message_start", m{"message": message}))
	s.add(Frame, event("ping", m{}))
	n := 0
	open := func(block m) { s.add(Frame, event("content_block_start", m{"index": n, "content_block": block})) }
	delta := func(d m) string { return event("content_block_delta", m{"index": n, "delta": d}) }
	shut := func() {
		s.add(Frame, event("content_block_stop", m{"index": n}))
		n++
	}
	if len(a.Reasoning) > 0 {
		open(m{"type": "thinking", "thinking": "", "signature": ""})
		for _, r := range a.Reasoning {
			s.add(Piece, delta(m{"type": "thinking_delta", "thinking": r}))
		}
		s.add(Frame, delta(m{"type": "signature_delta", "signature": "c2lnbmF0dXJl"}))
		shut()
	}
	if len(a.Text) > 0 {
		open(m{"type": "text", "text": ""})
		s.texts(a.Text, func(t string) string { return delta(m{"type": "text_delta", "text": t}) })
		shut()
	}
	for i := range a.Calls {
		c := &a.Calls[i]
		open(m{"type": "tool_use", "id": c.ID, "name": c.Name, "input": m{}})
		for _, half := range append([]string{""}, halves(c)...) {
			s.add(Piece, delta(m{"type": "input_json_delta", "partial_json": half}))
		}
		shut()
	}
	end := m{"delta": m{"stop_reason": anthropicStops[a.Stop], "stop_sequence": nil}}
	if !a.NoUsage {
		end["usage"] = m{"output_tokens": a.Usage.Output}
	}
	s.add(Finish, event("message_delta", end))
	s.add(Done, event("message_stop", m{}))
}
