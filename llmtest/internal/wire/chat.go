package wire

import "github.com/modelchain/llm"

var chatStops = map[llm.StopReason]string{
	llm.StopEnd: "stop", llm.StopLength: "length", llm.StopToolCalls: "tool_calls", llm.StopRefusal: "stop",
	llm.StopFiltered: "content_filter",
}

func (a *Answer) chatUsage() m {
	u := a.Usage
	return m{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     m{"cached_tokens": u.CachedInput},
		"completion_tokens_details": m{"reasoning_tokens": u.Reasoning},
	}
}

func (a *Answer) chat(unfinished bool) m {
	message := m{"role": "assistant", "content": a.text(), "refusal": nil}
	switch {
	case a.Refusal:
		message["content"], message["refusal"] = nil, a.text()
	case len(a.Text) == 0 && len(a.Calls) > 0: // as OpenAI tells that there are calls alone
		message["content"] = nil
	}
	if len(a.Reasoning) > 0 {
		message["reasoning_content"] = a.reasoning()
	}
	var calls []m
	for _, c := range a.Calls {
		calls = append(calls, m{"id": c.ID, "type": "function", "function": m{"name": c.Name, "arguments": string(c.Arguments)}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	choice := m{"index": 0, "message": message, "logprobs": nil, "finish_reason": chatStops[a.Stop]}
	if unfinished {
		delete(choice, "finish_reason")
	}
	v := m{"id": "chatcmpl-" + a.ID, "object": "chat.completion", "created": 1764460800, "model": a.Model, "choices": []m{choice}}
	if !a.NoUsage {
		v["usage"] = a.chatUsage()
	}
	return v
}

func (a *Answer) chatEvents(s *stream) {
	chunk := func(choices []m, usage any) string {
		v := m{
			"id": "chatcmpl-" + a.ID, "object": "chat.completion.chunk", "created": 1764460800, "model": a.Model, "choices": list(choices),
		}
		if usage != nil {
			v["usage"] = usage
		}
		return sse("", v)
	}
	delta := func(d m, finish any) string {
		return chunk([]m{{"index": 0, "delta": d, "logprobs": nil, "finish_reason": finish}}, nil)
	}
	s.add(Frame, delta(m{"role": "assistant", "content": "", "refusal": nil}, nil))
	for _, r := range a.Reasoning {
		s.add(Piece, delta(m{"reasoning_content": r}, nil))
	}
	field := "content"
	if a.Refusal {
		field = "refusal"
	}
	s.texts(a.Text, func(t string) string { return delta(m{field: t}, nil) })
	for i := range a.Calls {
		c := &a.Calls[i]
		s.add(Piece, delta(m{"tool_calls": []m{
			{"index": i, "id": c.ID, "type": "function", "function": m{"name": c.Name, "arguments": ""}},
		}}, nil))
		for _, half := range halves(c) {
			s.add(Piece, delta(m{"tool_calls": []m{{"index": i, "function": m{"arguments": half}}}}, nil))
		}
	}
	s.add(Finish, delta(m{}, chatStops[a.Stop]))
	if s.q.Usage && !a.NoUsage {
		s.add(Done, chunk(nil, a.chatUsage()))
	}
	s.add(Done, "data: [DONE]\n\n")
}

// sse is an event of a stream. name "": it has none.
func sse(name string, v any) string {
	if name != "" {
		name = "event: " + name + "\n"
	}
	return name + "data: " + text(v) + "\n\n"
}
