package wire

import (
	"strconv"

	"github.com/modelchain/llm"
)

// status is how a response ended: the status and, where it is incomplete, why.
func (a *Answer) status(unfinished bool) (string, any) {
	switch {
	case unfinished:
		return "in_progress", nil
	case a.Stop == llm.StopLength:
		return "incomplete", m{"reason": "max_output_tokens"}
	case a.Stop == llm.StopFiltered:
		return "incomplete", m{"reason": "content_filter"}
	}
	return "completed", nil
}

func (a *Answer) response(status string, incomplete any) m {
	v := m{
		"id": "resp_" + a.ID, "object": "response", "created_at": 1764460800, "status": status, "error": nil,
		"incomplete_details": incomplete, "model": a.Model, "output": list(a.items()), "parallel_tool_calls": true,
		"store": false, "tools": []m{}, "usage": nil,
	}
	if !a.NoUsage {
		u := a.Usage
		v["usage"] = m{
			"input_tokens": u.Input, "input_tokens_details": m{"cached_tokens": u.CachedInput}, "output_tokens": u.Output,
			"output_tokens_details": m{"reasoning_tokens": u.Reasoning}, "total_tokens": u.Input + u.Output,
		}
	}
	return v
}

func (a *Answer) items() []m {
	var items []m
	if len(a.Reasoning) > 0 {
		summary := []m{{"type": "summary_text", "text": a.reasoning()}}
		items = append(items, m{"id": "rs_" + a.ID, "type": "reasoning", "summary": summary})
	}
	if len(a.Text) > 0 {
		items = append(items, a.item([]m{a.part(a.text())}, "completed"))
	}
	for i := range a.Calls {
		items = append(items, a.callItem(i, string(a.Calls[i].Arguments), "completed"))
	}
	return items
}

func (a *Answer) item(content []m, status string) m {
	return m{"id": "msg_" + a.ID, "type": "message", "status": status, "role": "assistant", "content": list(content)}
}

func (a *Answer) part(text string) m {
	if a.Refusal {
		return m{"type": "refusal", "refusal": text}
	}
	return m{"type": "output_text", "annotations": []m{}, "logprobs": []m{}, "text": text}
}

func (a *Answer) callID(i int) string { return "fc_" + a.ID + "_" + strconv.Itoa(i) }

func (a *Answer) callItem(i int, args, status string) m {
	c := &a.Calls[i]
	return m{"id": a.callID(i), "type": "function_call", "status": status, "call_id": c.ID, "name": c.Name, "arguments": args}
}

func (a *Answer) responsesEvents(s *stream) {
	event := func(kind string, fields m) string {
		fields["type"], fields["sequence_number"] = kind, s.n
		s.n++
		return sse(kind, fields)
	}
	begun := Answer{ID: a.ID, Model: a.Model, NoUsage: true}
	s.add(Frame, event("response.created", m{"response": begun.response("in_progress", nil)}))
	s.add(Frame, event("response.in_progress", m{"response": begun.response("in_progress", nil)}))
	n := 0 // items so far
	if len(a.Reasoning) > 0 {
		id := "rs_" + a.ID
		at := func(more m) m {
			more["item_id"], more["output_index"], more["summary_index"] = id, 0, 0
			return more
		}
		item := m{"id": id, "type": "reasoning", "summary": []m{}}
		s.add(Frame, event("response.output_item.added", m{"output_index": 0, "item": item}))
		s.add(Frame, event("response.reasoning_summary_part.added", at(m{"part": m{"type": "summary_text", "text": ""}})))
		for _, r := range a.Reasoning {
			s.add(Piece, event("response.reasoning_summary_text.delta", at(m{"delta": r})))
		}
		s.add(Frame, event("response.reasoning_summary_text.done", at(m{"text": a.reasoning()})))
		s.add(Frame, event("response.output_item.done", m{"output_index": 0, "item": a.items()[0]}))
		n = 1
	}
	if len(a.Text) > 0 {
		at := func(more m) m {
			more["item_id"], more["output_index"], more["content_index"] = "msg_"+a.ID, n, 0
			return more
		}
		kind, field := "output_text", "text"
		if a.Refusal {
			kind, field = "refusal", "refusal"
		}
		s.add(Frame, event("response.output_item.added", m{"output_index": n, "item": a.item(nil, "in_progress")}))
		s.add(Frame, event("response.content_part.added", at(m{"part": a.part("")})))
		s.texts(a.Text, func(t string) string { return event("response."+kind+".delta", at(m{"delta": t})) })
		s.add(Frame, event("response."+kind+".done", at(m{field: a.text()})))
		s.add(Frame, event("response.content_part.done", at(m{"part": a.part(a.text())})))
		s.add(Frame, event("response.output_item.done", m{"output_index": n, "item": a.items()[n]}))
		n++
	}
	for i := range a.Calls {
		at := func(more m) m {
			more["item_id"], more["output_index"] = a.callID(i), n+i
			return more
		}
		args := string(a.Calls[i].Arguments)
		s.add(Piece, event("response.output_item.added", m{"output_index": n + i, "item": a.callItem(i, "", "in_progress")}))
		for _, half := range halves(&a.Calls[i]) {
			s.add(Piece, event("response.function_call_arguments.delta", at(m{"delta": half})))
		}
		s.add(Frame, event("response.function_call_arguments.done", at(m{"arguments": args})))
		s.add(Frame, event("response.output_item.done", m{"output_index": n + i, "item": a.callItem(i, args, "completed")}))
	}
	status, why := a.status(false)
	s.add(Finish, event("response."+status, m{"response": a.response(status, why)}))
}
