package openai

import (
	"bytes"
	"strings"

	"github.com/modelchain/llm/internal/adapter"
)

// An event is one event of a stream, or a whole response where one came instead. Its bytes are those it was parsed from.
type event struct {
	scan
	kind  []byte // "response.output_text.delta"
	delta []byte
	args  []byte // the arguments of a call, all of them
	id    []byte // of the item
	// The numbers of the item and, within it, of the content or summary. -1: not said.
	output, content int
	item, resp      []byte // the item and the response, as JSON. nil: none
	failure         []byte // the error, as JSON. nil: none
	isError         bool   // the whole is an error by its type
	isResponse      bool   // the whole is a response
	hasOutput       bool   // and has a list of items
	odd             bool   // a field that is read holds something else than it should
	foreign         bool   // there is content where the API has none
}

// parse reads the first JSON value of data and returns what follows it. ok is false for what is not JSON, or no object.
func (e *event) parse(data []byte) (rest []byte, ok bool) {
	*e = event{scan: e.scan, output: -1}
	e.Reset(data)
	for first := e.Open('{'); e.More(&first, '}'); {
		e.field(e.Key())
	}
	if e.Bad() {
		return nil, false
	}
	end := e.Pos()
	e.Peek()
	if len(e.kind) == 0 && (e.isResponse || e.hasOutput) { // some servers do not say what it is
		e.resp = data[:end]
	}
	return e.Rest(), true
}

func (e *event) field(key []byte) {
	if e.Null() {
		return
	}
	switch string(key) {
	case "type":
		if e.kind = e.Text(); string(e.kind) == "error" {
			e.isError = true
		}
	case "delta":
		e.delta = e.words(&e.odd)
	case "output_index":
		e.output = e.Num()
	case "content_index", "summary_index":
		e.content = e.Num()
	case "item_id":
		e.id = e.Text()
	case "arguments":
		e.args = e.words(&e.odd)
	case "item":
		e.item = e.object(&e.odd)
	case "response":
		e.resp = e.object(&e.odd)
	case "error":
		e.failure = e.says()
	case "object":
		switch string(e.Text()) {
		case "response":
			e.isResponse = true
		case "error":
			e.isError = true
		}
	case "output":
		e.hasOutput = e.Peek() == '['
		e.Skip()
	default:
		e.foreign = adapter.IsContent(key, e.Raw()) || e.foreign
	}
}

// object passes over one value and returns it if it is an object. odd: it is something else, which is not nothing.
func (s *scan) object(odd *bool) []byte {
	if s.misses('{', odd) {
		return nil
	}
	return s.Raw()
}

// lossy reports whether the event may hold content that cannot be read. Reasoning is no part of what was asked for, and the
// kinds of events that are not known here may come at any time.
func (e *event) lossy() bool {
	switch string(e.kind) {
	case "":
		return e.resp == nil && (e.odd || e.foreign || len(e.delta) > 0)
	case "response.output_text.delta", "response.refusal.delta", "response.function_call_arguments.delta",
		"response.function_call_arguments.done", "response.output_item.added", "response.output_item.done",
		"response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return e.odd
	}
	return false
}

// reports is the event if it is an error. A failed response is none: it is an answer that says so.
func (e *event) reports(data []byte) []byte {
	kind := string(e.kind)
	switch {
	case e.resp != nil:
	case e.isError, kind == "response.failed", kind == "response.error":
		return data
	case strings.HasPrefix(kind, "response."): // an error in one is that of a tool
	case e.failure != nil, adapter.Says(data):
		return data
	}
	return nil
}

func (e *event) isAnswer() bool {
	return e.resp != nil && (e.hasOutput || e.isResponse && e.failure != nil)
}

func (e *event) begins() bool { return e.resp != nil || bytes.HasPrefix(e.kind, []byte("response.")) }

// A wireItem is an item of an answer as the wire has it.
type wireItem struct {
	raw              []byte
	kind, status     string
	callID, id, name []byte
	args             []byte
	content, summary []wirePart
	// What cannot be read and may be content: of a message, of the arguments of a call.
	lostText, lostArgs bool
}

// A wirePart is a piece of a message or of reasoning.
type wirePart struct {
	refusal bool
	text    []byte
	raw     []byte
}

// itemOf reads an item, which is JSON.
func (s *scan) itemOf(raw []byte) (it wireItem) {
	s.Reset(raw)
	it.raw = raw
	for first := s.Open('{'); s.More(&first, '}'); {
		switch k := s.Key(); {
		case s.Null():
		case string(k) == "type":
			it.kind = string(s.Text())
		case string(k) == "status":
			it.status = string(s.Text())
		case string(k) == "id":
			it.id = s.Text()
		case string(k) == "call_id":
			it.callID = s.Text()
		case string(k) == "name":
			it.name = s.Text()
		case string(k) == "arguments":
			if s.Peek() == '{' { // an object instead of its text
				it.args = s.Raw()
			} else {
				it.args = s.words(&it.lostArgs)
			}
		case string(k) == "content" && s.Peek() == '"': // a text where a list should be
			it.content = []wirePart{{text: s.Text()}}
		case string(k) == "content":
			it.content = s.partsOf(&it.lostText)
		case string(k) == "summary":
			var odd bool
			it.summary = s.partsOf(&odd)
		default:
			s.Skip()
		}
	}
	return it
}

func (s *scan) partsOf(lost *bool) (list []wirePart) {
	if s.misses('[', lost) {
		return nil
	}
	for first := s.Open('['); s.More(&first, ']'); {
		var p wirePart
		if s.misses('{', lost) {
			continue
		}
		from := s.Pos()
		for first := s.Open('{'); s.More(&first, '}'); {
			switch k := s.Key(); {
			case s.Null():
			case string(k) == "text":
				p.text = s.words(lost)
			case string(k) == "refusal":
				p.text, p.refusal = s.words(lost), true
			default:
				s.Skip()
			}
		}
		p.raw = s.Since(from)
		list = append(list, p)
	}
	return list
}
