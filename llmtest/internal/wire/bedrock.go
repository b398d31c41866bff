package wire

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/modelchain/llm"
)

var bedrockStops = map[llm.StopReason]string{
	llm.StopEnd: "end_turn", llm.StopLength: "max_tokens", llm.StopToolCalls: "tool_use", llm.StopRefusal: "guardrail_intervened",
	llm.StopFiltered: "content_filtered",
}

func (a *Answer) bedrockUsage() m {
	u := a.Usage
	return m{
		"inputTokens": max(u.Input-u.CachedInput-u.CacheWrite, 0), "outputTokens": u.Output, "totalTokens": u.Input + u.Output,
		"cacheReadInputTokens": u.CachedInput, "cacheWriteInputTokens": u.CacheWrite,
	}
}

func (a *Answer) converse(unfinished bool) m {
	var blocks []m
	if len(a.Reasoning) > 0 {
		blocks = append(blocks, m{"reasoningContent": m{"reasoningText": m{"text": a.reasoning(), "signature": "c2lnbmF0dXJl"}}})
	}
	if len(a.Text) > 0 {
		blocks = append(blocks, m{"text": a.text()})
	}
	for _, c := range a.Calls {
		blocks = append(blocks, m{"toolUse": m{"toolUseId": c.ID, "name": c.Name, "input": c.Arguments}})
	}
	v := m{
		"output":     m{"message": m{"role": "assistant", "content": list(blocks)}},
		"stopReason": bedrockStops[a.Stop], "metrics": m{"latencyMs": 321},
	}
	if unfinished {
		delete(v, "stopReason")
	}
	if !a.NoUsage {
		v["usage"] = a.bedrockUsage()
	}
	return v
}

func (a *Answer) bedrockEvents(s *stream) {
	event := func(kind string, v m) string {
		v["p"] = "abcdefgh"
		return bedrockFrame("event", kind, text(v))
	}
	s.add(Frame, event("messageStart", m{"role": "assistant"}))
	n := 0
	delta := func(d m) string { return event("contentBlockDelta", m{"contentBlockIndex": n, "delta": d}) }
	shut := func() {
		s.add(Frame, event("contentBlockStop", m{"contentBlockIndex": n}))
		n++
	}
	if len(a.Reasoning) > 0 {
		for _, r := range a.Reasoning {
			s.add(Piece, delta(m{"reasoningContent": m{"text": r}}))
		}
		s.add(Frame, delta(m{"reasoningContent": m{"signature": "c2lnbmF0dXJl"}}))
		shut()
	}
	if len(a.Text) > 0 {
		s.texts(a.Text, func(t string) string { return delta(m{"text": t}) })
		shut()
	}
	for i := range a.Calls {
		c := &a.Calls[i]
		s.add(Piece, event("contentBlockStart", m{"contentBlockIndex": n, "start": m{"toolUse": m{"toolUseId": c.ID, "name": c.Name}}}))
		for _, half := range append([]string{""}, halves(c)...) {
			s.add(Piece, delta(m{"toolUse": m{"input": half}}))
		}
		shut()
	}
	s.add(Finish, event("messageStop", m{"stopReason": bedrockStops[a.Stop]}))
	meta := m{"metrics": m{"latencyMs": 321}}
	if !a.NoUsage {
		meta["usage"] = a.bedrockUsage()
	}
	s.add(Done, event("metadata", meta))
}

// bedrockFrame is a message of AWS's event streams: a prelude of two lengths and their checksum, headers, the payload, and a
// checksum of all that. type is "event" or "exception".
func bedrockFrame(typ, kind, payload string) string {
	var head []byte
	for _, h := range [][2]string{{":" + typ + "-type", kind}, {":content-type", JSON}, {":message-type", typ}} {
		head = append(head, byte(len(h[0])))
		head = append(head, h[0]...)
		head = append(head, 7) // a text follows
		head = binary.BigEndian.AppendUint16(head, uint16(len(h[1])))
		head = append(head, h[1]...)
	}
	total := 12 + len(head) + len(payload) + 4
	b := make([]byte, 0, total)
	b = binary.BigEndian.AppendUint32(b, uint32(total))
	b = binary.BigEndian.AppendUint32(b, uint32(len(head)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, head...), payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}
