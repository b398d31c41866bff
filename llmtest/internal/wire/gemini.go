package wire

import "github.com/modelchain/llm"

var geminiStops = map[llm.StopReason]string{
	llm.StopEnd: "STOP", llm.StopLength: "MAX_TOKENS", llm.StopToolCalls: "STOP", llm.StopRefusal: "PROHIBITED_CONTENT",
	llm.StopFiltered: "SAFETY",
}

func (a *Answer) geminiParts(reasoning, words string, calls []llm.ToolCall) []m {
	var parts []m
	if reasoning != "" {
		parts = append(parts, m{"text": reasoning, "thought": true})
	}
	if words != "" {
		parts = append(parts, m{"text": words})
	}
	for _, c := range calls {
		parts = append(parts, m{"functionCall": m{"id": c.ID, "name": c.Name, "args": c.Arguments}})
	}
	return parts
}

func (a *Answer) geminiUsage() m {
	u := a.Usage
	return m{
		"promptTokenCount": u.Input, "cachedContentTokenCount": u.CachedInput, "candidatesTokenCount": u.Output - u.Reasoning,
		"thoughtsTokenCount": u.Reasoning, "totalTokenCount": u.Input + u.Output,
	}
}

// candidate is a response with parts. finish "": it does not say why the answer ended.
func (a *Answer) candidate(parts []m, finish string, usage bool) m {
	c := m{"index": 0}
	if parts != nil {
		c["content"] = m{"role": "model", "parts": parts}
	}
	if finish != "" {
		c["finishReason"] = finish
	}
	v := m{"candidates": []m{c}, "modelVersion": a.Model, "responseId": "resp-" + a.ID}
	if usage && !a.NoUsage {
		v["usageMetadata"] = a.geminiUsage()
	}
	return v
}

// blocked is the answer to a prompt that a filter stopped.
func (a *Answer) blocked() m {
	v := a.candidate(nil, "", true)
	delete(v, "candidates")
	v["promptFeedback"] = m{"blockReason": "PROHIBITED_CONTENT"}
	return v
}

func (a *Answer) content(unfinished bool) m {
	finish := geminiStops[a.Stop]
	if unfinished {
		finish = ""
	}
	if a.Stop == llm.StopRefusal && len(a.Text) == 0 {
		return a.blocked()
	}
	return a.candidate(a.geminiParts(a.reasoning(), a.text(), a.Calls), finish, true)
}

func (a *Answer) geminiEvents(s *stream) {
	event := func(v m) string { return s.geminiEvent(text(v)) }
	if a.Stop == llm.StopRefusal && len(a.Text) == 0 {
		s.add(Finish, event(a.blocked()))
		s.geminiEnd()
		return
	}
	begun := m{"promptTokenCount": a.Usage.Input, "totalTokenCount": a.Usage.Input}
	s.add(Frame, event(m{"usageMetadata": begun, "responseId": "resp-" + a.ID}))
	for _, r := range a.Reasoning {
		s.add(Piece, event(a.candidate(a.geminiParts(r, "", nil), "", false)))
	}
	s.texts(a.Text, func(t string) string { return event(a.candidate(a.geminiParts("", t, nil), "", false)) })
	for i := range a.Calls { // this API sends a call whole
		s.add(Piece, event(a.candidate(a.geminiParts("", "", a.Calls[i:i+1]), "", false)))
	}
	s.add(Finish, event(a.candidate([]m{{"text": ""}}, geminiStops[a.Stop], true)))
	s.geminiEnd()
}

// geminiEvent is a value of the stream: an event with the line ends that Google sends, or an element of a list.
func (s *stream) geminiEvent(value string) string {
	s.n++
	switch {
	case !s.q.List:
		return "data: " + value + "\r\n\r\n"
	case s.n == 1:
		return "[" + value
	}
	return ",\r\n" + value
}

func (s *stream) geminiEnd() {
	if s.q.List {
		s.add(Done, "]")
	}
}
