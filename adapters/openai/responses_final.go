package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// final takes in the response at the end of a stream, whose event says its status, or one that came whole.
func (o *output) final(a *answer, status string) error {
	var list [][]byte
	said, reason, lost := "", "", false
	s := scanOf(o.resp)
	for first := s.Open('{'); s.More(&first, '}'); {
		switch k := s.Key(); {
		case s.Null():
		case string(k) == "id":
			raw := s.Raw()
			a.keep(member{k, raw})
			a.id = stringOf(raw)
		case string(k) == "model":
			a.model = string(s.Text())
		case string(k) == "status":
			said = string(s.Text())
		case string(k) == "error":
			o.failed = s.says() // of use only until the next event
		case string(k) == "incomplete_details":
			reason = stringOf(wire.Find(wire.Members(s.Raw()), []byte("reason")))
		case string(k) == "usage":
			if u, ok := s.tokens(); ok {
				a.usage, a.counted = u, true
			}
		case string(k) == "output":
			if s.misses('[', &lost) {
				continue
			}
			for first := s.Open('['); s.More(&first, ']'); {
				list = append(list, bytes.Clone(s.Raw()))
			}
		case repeats(string(k)):
			s.Skip()
		default:
			a.keep(member{k, s.Raw()})
		}
	}
	a.finish = ending(status, said, reason, o.failed != nil)
	if notEnded(a.finish) || a.finish == finishFailed {
		return nil // no answer, so nothing of it is handed out
	}
	if o.lost = lost; lost {
		return nil
	}
	return o.reconcile(a, list)
}

// ending is the status of an answer, or why it is incomplete. A gateway may call complete in its event what says in the
// response that it is not.
func ending(event, said, reason string, failed bool) string {
	status := event
	if status == "" || status == finishDone && (said == finishCut || said == finishFailed || said == finishCancelled) {
		status = said
	}
	switch {
	case status == "" && failed:
		return finishFailed
	case reason != "" && (status == "" || status == finishDone || status == finishCut):
		return reason
	case status == "":
		return finishDone
	}
	return status
}

// notEnded reports a status other than failed that says that there is no whole answer.
func notEnded(status string) bool {
	switch status {
	case finishCancelled, "canceled", finishQueued, finishRunning:
		return true
	}
	return false
}

// repeats reports a field of a response that repeats the request, or that is read elsewhere.
func repeats(field string) bool {
	switch field {
	case "object", "output_text", "created_at", "completed_at", "background", "instructions", "input", "include", "tools",
		"tool_choice", "parallel_tool_calls", "max_output_tokens", "max_tool_calls", "temperature", "top_p", "top_logprobs",
		"frequency_penalty", "presence_penalty", "reasoning", "text", "truncation", "metadata", "store", "stream", "user",
		"safety_identifier", "prompt", "prompt_cache_key", "prompt_cache_retention", "previous_response_id":
		return true
	}
	return false
}

// reconcile brings the items that came piece by piece to what the final response says they are.
func (o *output) reconcile(a *answer, list [][]byte) error {
	err := o.complete(a, list)
	if err == nil && a.sink != nil && !o.inOrder() {
		o.torn = true
	}
	return err
}

// inOrder reports whether texts and calls were told of in the order that the answer has them in.
func (o *output) inOrder() bool {
	var next [llm.DeltaEnd]int
	for _, it := range o.items {
		for _, p := range it.pieces {
			if !p.told || p.kind == llm.DeltaReasoning || p.kind == llm.DeltaRefusal {
				continue
			}
			if p.index != next[p.kind] {
				return false
			}
			next[p.kind]++
		}
	}
	return true
}

func (o *output) complete(a *answer, list [][]byte) error {
	o.output = -1
	if len(list) == 0 { // some gateways leave it out: then what came is all there is
		return o.closeCalls(a)
	}
	came, ends := o.items, make([]wireItem, len(list))
	o.items = nil
	for i, raw := range list {
		s := scanOf(raw) // of its own: its texts are read further down
		if s.misses('{', &o.lost) {
			continue
		}
		ends[i] = s.itemOf(raw)
		o.lost = o.lost || ends[i].lost()
	}
	if o.lost {
		return nil
	}
	for i := range ends {
		kind := ends[i].kind
		if at := slices.IndexFunc(came, func(it *outItem) bool { return it.kind == kind && !it.matched }); at >= 0 {
			o.items = append(o.items, came[at])
		} else {
			o.open(kind)
		}
		o.items[i].matched = true
	}
	for _, it := range came {
		if a.sink != nil && it.told() && !it.matched && it.kind != itemReasoning {
			o.torn = true
		}
	}
	for i, it := range o.items {
		if o.torn {
			return nil
		}
		if err := o.end(a, it, &ends[i]); err != nil {
			return err
		}
	}
	thoughts := slices.DeleteFunc(came, func(it *outItem) bool { return it.kind != itemReasoning || it.matched || !it.told() })
	o.items = append(thoughts, o.items...)
	return nil
}

func (it *outItem) told() bool {
	return slices.ContainsFunc(it.pieces, func(p *outPiece) bool { return p.told })
}

// closeCalls gives calls without arguments, of whose end nothing was said, the empty object that they stand for.
func (o *output) closeCalls(a *answer) error {
	for _, it := range o.items {
		if it.kind != itemCall || it.raw != nil || it.told() {
			continue
		}
		if err := o.emit(a, it, it.piece(llm.DeltaToolCall, 0), "{}"); err != nil {
			return err
		}
	}
	return nil
}

// close has nothing to do: an answer that came whole ended with its response.
func (o *output) close(*answer) error { return nil }

// broken is why an answer is none. What it quotes of a failure is the error alone: a response repeats the request's texts.
func (o *output) broken(a *answer, _ string) *llm.Error {
	switch a.finish {
	case finishFailed:
		if o.failed == nil {
			return &llm.Error{Class: llm.Unavailable, Message: "the response failed, and the provider does not say why"}
		}
		return &llm.Error{Evidence: llm.Evidence{Body: wire.Start(slices.Concat([]byte(`{"error":`), o.failed, []byte("}")))}}
	case finishCancelled, "canceled":
		return &llm.Error{
			Class: llm.Interrupted, Message: "the response was cancelled at the provider", Evidence: llm.Evidence{Code: a.finish},
		}
	case finishQueued, finishRunning:
		return &llm.Error{
			Class: llm.Invalid, Commit: llm.Committed,
			Message:  "the response goes on in the background at the provider; this adapter waits for none, so send no background",
			Evidence: llm.Evidence{Code: a.finish},
		}
	case finishTorn:
		a.finish = "" // a word of this adapter's, not the provider's
		return &llm.Error{
			Class: llm.Interrupted, Message: "what the stream brought piece by piece is not what the response says at its end",
		}
	}
	return nil
}

// response is the whole answer.
func (o *output) response(a *answer, provider string) *llm.Response {
	r := &llm.Response{Model: a.model, Usage: a.usage, StopDetail: a.finish, Extra: a.extra(provider)}
	waits := false
	for i, it := range o.items {
		extra := func(raw []byte) map[string]json.RawMessage {
			if raw == nil {
				return nil
			}
			return map[string]json.RawMessage{provider: raw}
		}
		switch it.kind {
		case itemMessage:
			for _, p := range it.pieces {
				switch {
				case p.text.Len() == 0:
				case p.kind == llm.DeltaRefusal:
					r.Refusal += p.text.String()
				default:
					r.Parts = append(r.Parts, llm.Part{Kind: llm.PartText, Text: p.text.String(), Extra: extra(it.textExtra(p))})
				}
			}
		case itemCall:
			c := &llm.ToolCall{ID: it.id, Name: it.name, Arguments: json.RawMessage(it.piece(llm.DeltaToolCall, 0).text.String())}
			rest := pick(it.raw, false, []string{"type", "call_id", "name", "arguments"})
			r.Parts = append(r.Parts, llm.Part{Kind: llm.PartToolCall, Call: c, Extra: extra(rest)})
		case itemReasoning:
			if text := it.piece(llm.DeltaReasoning, 0).text.String(); text != "" || it.raw != nil {
				r.Parts = append(r.Parts, llm.Part{Kind: llm.PartReasoning, Text: text, Extra: extra(it.raw)})
			}
		default:
			if it.raw == nil || it.kind == "" {
				continue
			}
			p := llm.Part{Kind: llm.PartReasoning, Extra: extra(it.raw)}
			switch {
			case it.waits(o.items[i+1:]):
				p.Kind, waits = llm.PartKind(it.kind), true
			case it.kind == "image_generation_call":
				p.Kind = llm.PartKind(it.kind)
			}
			r.Parts = append(r.Parts, p)
		}
	}
	r.Stop = o.stop(a, r, waits)
	return r
}

// waits reports whether an item of a tool waits for its caller: it has an id to answer it by, and none of those after it
// does.
func (it *outItem) waits(later []*outItem) bool {
	const answer = "_output"
	if it.kind == "mcp_approval_request" {
		return true
	}
	return it.id != "" && !strings.HasSuffix(it.kind, answer) && !slices.ContainsFunc(later, func(l *outItem) bool {
		return l.id == it.id && strings.HasSuffix(l.kind, answer)
	})
}

// textExtra is what a text has beyond its words: the fields of its message, and its citations. Its type tells it from what
// a caller wants with a text.
func (it *outItem) textExtra(p *outPiece) []byte {
	extra := pick(it.raw, false, []string{"role", "content"})
	for _, m := range wire.Members(pick(p.raw, true, notesOfText())) {
		if len(wire.Members(firstOf(m.Value))) > 0 { // empty lists are the rule
			extra = wire.Merge(extra, slices.Concat([]byte{'{'}, m.Name, []byte{':'}, m.Value, []byte{'}'}))
		}
	}
	return extra
}

func (o *output) stop(a *answer, r *llm.Response, waits bool) llm.StopReason {
	switch a.finish {
	case "max_output_tokens", "max_tokens", "length":
		return llm.StopLength
	case "content_filter":
		return llm.StopFiltered
	}
	switch {
	case waits || len(r.ToolCalls()) > 0:
		return llm.StopToolCalls
	case r.Refusal != "":
		return llm.StopRefusal
	case a.finish == finishDone:
		return llm.StopEnd
	}
	return llm.StopOther
}
