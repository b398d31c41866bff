package openai

import (
	"bytes"
	"slices"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// An output reads the answer of one call: the events of its stream, or the response that came whole, which goes through the
// same hands as the one at a stream's end. What of the content has been handed out is known for each piece, so that a later
// word on it, in response.output_item.done or in the final response, adds what was left out.
type output struct {
	event
	read   scan // for what is inside the event
	items  []*outItem
	last   *outItem          // that the newest delta belongs to
	parts  [llm.DeltaEnd]int // parts of each kind that have an index
	over   bool              // the final response came
	torn   bool              // it contradicts what was handed out
	lost   bool              // an item holds what may be content and cannot be read
	failed []byte            // the error of a response that failed
}

// An outItem is an item of the answer while it comes.
type outItem struct {
	wire     int // its index on the wire. -1: not said
	kind     string
	id, name string // of a call: id is the one by which its result is returned
	raw      []byte // the item as its end has it. nil: it has not come
	pieces   []*outPiece
	source   string // of reasoning: the "summary" or the "content", whichever came first
	para     int    // of reasoning: the index of its newest paragraph
	matched  bool   // the final response has it
}

// An outPiece is a text, a refusal, the text of a reasoning or the arguments of a call.
type outPiece struct {
	kind  llm.DeltaKind
	num   int // its index within the item
	index int // among those of its kind in the answer
	told  bool
	known bool // index is: calls have theirs before they are told of
	text  strings.Builder
	raw   []byte // as the item's end has it
}

const (
	itemMessage   = "message"
	itemReasoning = "reasoning"
	itemCall      = "function_call"

	// paragraph stands between the paragraphs of a reasoning.
	paragraph = "\n\n"
)

// The ends of an answer beside the reasons of an incomplete one.
const (
	finishDone      = "completed"
	finishCut       = "incomplete"
	finishFailed    = "failed"
	finishCancelled = "cancelled"
	finishQueued    = "queued"
	finishRunning   = "in_progress"
	finishTorn      = "torn"
)

// take takes in the event. Its error is the sink's.
func (o *output) take(a *answer) error {
	if o.over || o.lossy() {
		return nil
	}
	err := o.takeEvent(a)
	if o.torn && err == nil {
		a.finish = finishTorn
	}
	return err
}

// quotes leaves out what a response repeats of its request: instructions, tools, metadata.
func (o *output) quotes(data []byte) []byte {
	if before, _, ok := bytes.Cut(data, []byte(`"response":`)); ok {
		return before
	}
	if (o.isResponse || o.hasOutput) && wire.IsObject(data) {
		return pick(data, true, []string{"id", "object", "status", "model", "error", "incomplete_details", "output", "usage"})
	}
	return data
}

// note has nothing to do: an event that is an error says nothing of the call.
func (o *output) note(*answer) {}

// lossy reports whether content may be lost.
func (o *output) lossy() bool { return o.lost || o.event.lossy() }

func (o *output) takeEvent(a *answer) error {
	switch string(o.kind) {
	case "response.output_text.delta":
		return o.more(a, itemMessage, llm.DeltaText)
	case "response.refusal.delta":
		return o.more(a, itemMessage, llm.DeltaRefusal)
	case "response.function_call_arguments.delta":
		return o.more(a, itemCall, llm.DeltaToolCall)
	case "response.reasoning_summary_text.delta":
		return o.think(a, "summary")
	case "response.reasoning_text.delta":
		return o.think(a, "content")
	case "response.function_call_arguments.done":
		if it := o.current(itemCall); len(o.args) > 0 {
			return o.settle(a, it, it.piece(llm.DeltaToolCall, 0), string(o.args))
		}
	case "response.output_item.added":
		if o.item != nil {
			it := o.read.itemOf(o.item)
			o.announce(&it)
		}
	case "response.output_item.done":
		if o.item != nil {
			return o.done(a)
		}
	case "response.created", "response.in_progress", "response.queued":
		o.begin(a)
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled", "":
		if o.resp != nil {
			o.over = true
			return o.final(a, strings.TrimPrefix(string(o.kind), "response."))
		}
	}
	return nil
}

// begin learns the names of the answer from its first events.
func (o *output) begin(a *answer) {
	if o.resp == nil || a.id != "" {
		return
	}
	s := &o.read
	s.Reset(o.resp)
	for first := s.Open('{'); s.More(&first, '}'); {
		switch k := s.Key(); {
		case s.Null():
		case string(k) == "id":
			a.id = string(s.Text())
		case string(k) == "model":
			a.model = string(s.Text())
		default:
			s.Skip()
		}
	}
}

// current is the item of some kind that the event is about. Servers that number their items badly (none, or 0 for all) are
// understood by the order in which they come.
func (o *output) current(kind string) *outItem {
	if it := o.last; it != nil && it.kind == kind && (it.wire == o.output || o.output < 0) {
		return it
	}
	for i := len(o.items) - 1; i >= 0; i-- {
		if it := o.items[i]; it.kind == kind && (it.wire == o.output || o.output < 0) {
			o.last = it
			return it
		}
	}
	return o.open(kind)
}

// announce opens an item that the server says will come. Calls are numbered here, as the answer has them in the order in which
// they are announced, while the first of their arguments may come in any. One announced twice is one.
func (o *output) announce(w *wireItem) {
	if w.kind == itemCall && len(w.callID) > 0 {
		for _, it := range o.items {
			if it.kind == itemCall && it.wire == o.output && it.id == string(w.callID) {
				o.last = it
				return
			}
		}
	}
	it := o.open(w.kind)
	it.named(w)
	if it.kind == itemCall {
		o.number(it.piece(llm.DeltaToolCall, 0))
	}
}

// number gives a piece its index, once.
func (o *output) number(p *outPiece) {
	if !p.known {
		p.known, p.index = true, o.parts[p.kind]
		o.parts[p.kind]++
	}
}

func (o *output) open(kind string) *outItem {
	it := &outItem{wire: o.output, kind: kind}
	o.items = append(o.items, it)
	o.last = it
	return it
}

// named learns the name of a call and the id by which its result is returned.
func (it *outItem) named(w *wireItem) {
	adapter.FillIn(&it.name, string(w.name))
	adapter.FillIn(&it.id, string(w.callID))
	if it.kind == itemCall {
		adapter.FillIn(&it.id, string(w.id))
	}
}

// piece is a piece of the item, a new one in its place where there is none.
func (it *outItem) piece(kind llm.DeltaKind, num int) *outPiece {
	at := len(it.pieces)
	for at > 0 && it.pieces[at-1].num >= num {
		if at--; it.pieces[at].num == num && it.pieces[at].kind == kind {
			return it.pieces[at]
		}
	}
	p := &outPiece{kind: kind, num: num}
	it.pieces = slices.Insert(it.pieces, at, p)
	return p
}

// more continues a piece of an item.
func (o *output) more(a *answer, item string, kind llm.DeltaKind) error {
	it, num := o.current(item), o.content
	if kind == llm.DeltaToolCall {
		num = 0
	}
	return o.emit(a, it, it.piece(kind, num), string(o.delta))
}

// think continues the reasoning of an item, of which the summary or the content is told, whichever comes. Its paragraphs
// become one text.
func (o *output) think(a *answer, source string) error {
	it := o.current(itemReasoning)
	adapter.FillIn(&it.source, source)
	if it.source != source || len(o.delta) == 0 {
		return nil
	}
	p, text := it.piece(llm.DeltaReasoning, 0), string(o.delta)
	if p.told && it.para != o.content {
		text = paragraph + text
	}
	it.para = o.content
	return o.emit(a, it, p, text)
}

// emit hands out more of a piece. A call is told of with the first of its arguments, and not before its name is known: what
// comes earlier is kept for then.
func (o *output) emit(a *answer, it *outItem, p *outPiece, text string) error {
	if text == "" {
		return nil
	}
	if p.kind == llm.DeltaToolCall && it.name == "" {
		p.text.WriteString(text)
		return nil
	}
	o.number(p)
	d := llm.Delta{Kind: p.kind, Text: text}
	if p.kind == llm.DeltaToolCall {
		d.Text, d.Call = "", &llm.ToolCallDelta{Arguments: text}
		if !p.told {
			adapter.FillIn(&it.id, a.callID(p.index))
			*d.Call = llm.ToolCallDelta{ID: it.id, Name: it.name, Arguments: p.text.String() + text}
		}
	}
	p.text.WriteString(text)
	p.told = true
	if p.kind != llm.DeltaRefusal { // an answer has one refusal
		d.Index = p.index
	}
	return a.emit(d)
}

// settle brings a piece to its whole text. One that was told otherwise tears the answer, except for reasoning, which is no
// part of what was asked for. An empty whole says nothing: some gateways end an item as they began it.
func (o *output) settle(a *answer, it *outItem, p *outPiece, whole string) error {
	if !p.told {
		p.text.Reset() // arguments that wait for a name
	}
	rest, ok := strings.CutPrefix(whole, p.text.String())
	switch {
	case ok:
		return o.emit(a, it, p, rest)
	case whole == "":
	case a.sink == nil:
		p.text.Reset()
		p.text.WriteString(whole)
	case p.kind != llm.DeltaReasoning:
		o.torn = true
	}
	return nil
}

// done takes in an item that is complete.
func (o *output) done(a *answer) error {
	w := o.read.itemOf(bytes.Clone(o.item))
	if o.lost = w.lost(); o.lost {
		return nil
	}
	it := o.current(w.kind)
	if it.raw != nil { // said twice, or another one under the same number
		if w.kind != itemCall || it.id == string(w.callID) {
			return nil
		}
		it = o.open(w.kind)
	}
	return o.end(a, it, &w)
}

// lost reports whether the item may hold content that cannot be read.
func (w *wireItem) lost() bool {
	return w.lostText && w.kind == itemMessage || w.lostArgs && w.kind == itemCall
}

// end takes in an item as it is at its end, and hands out what is missing of it.
func (o *output) end(a *answer, it *outItem, w *wireItem) error {
	it.raw = w.raw
	it.named(w)
	switch it.kind {
	case itemMessage:
		for i := range w.content {
			c := &w.content[i]
			kind := llm.DeltaText
			if c.refusal {
				kind = llm.DeltaRefusal
			}
			p := it.piece(kind, i)
			p.raw = c.raw
			if err := o.settle(a, it, p, string(c.text)); err != nil {
				return err
			}
		}
	case itemCall:
		args := string(w.args)
		if args == "" && w.status != "incomplete" {
			args = "{}" // which it stands for
		}
		return o.settle(a, it, it.piece(llm.DeltaToolCall, 0), args)
	case itemReasoning:
		list := w.summary
		if it.source == "content" || it.source == "" && len(list) == 0 {
			list = w.content
		}
		texts := make([]string, len(list))
		for i := range list {
			texts[i] = string(list[i].text)
		}
		return o.settle(a, it, it.piece(llm.DeltaReasoning, 0), strings.Join(texts, paragraph))
	}
	return nil
}
