package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// A Sink receives an answer piece by piece. It is called in order and never concurrently, and may keep what it receives. Its
// error ends the call, which returns an error that wraps it.
type Sink func(Delta) error

// DeltaKind says what a [Delta] carries.
type DeltaKind uint8

// The kinds of deltas.
const (
	DeltaText      DeltaKind = iota // Text continues the answer
	DeltaReasoning                  // Text continues the reasoning
	DeltaRefusal                    // Text continues the refusal
	DeltaToolCall                   // Call continues a tool call
	DeltaEnd                        // Response is the whole answer; the last element of [Stream], never handed to a Sink
	DeltaNotice                     // Text is not the model's: a stage tells the reader something, such as that the answer broke off
)

var deltaNames = [...]string{"text", "reasoning", "refusal", "tool_call", "end", "notice"}

// String is the kind in lower case.
func (k DeltaKind) String() string {
	if int(k) < len(deltaNames) {
		return deltaNames[k]
	}
	return fmt.Sprintf("delta(%d)", uint8(k))
}

// A Delta is one piece of a streamed answer. Every Delta carries something: adapters hand on no empty pieces, no roles and
// no keep-alives, so the first Delta is the point after which a call cannot be repeated unseen.
type Delta struct {
	Kind DeltaKind
	// Index tells apart several parts of one kind: the first tool call is 0, the second 1.
	Index    int
	Text     string
	Call     *ToolCallDelta
	Response *Response
}

// A ToolCallDelta is a piece of a tool call. The first piece of a call carries ID and Name; Arguments are fragments of JSON
// that add up to the whole.
type ToolCallDelta struct {
	ID, Name, Arguments string
}

var (
	errStopped   = errors.New("llm: the loop over the stream was left")
	errStreamRan = errors.New("llm: a stream was ranged over twice; call Stream again for a second answer")
)

// Stream calls c and yields the answer piece by piece, then one [DeltaEnd] with the whole [Response]. An error is the last
// element, with a zero Delta. Leaving the loop early ends the call. The sequence can be ranged over once; req.Sink is
// replaced.
//
// The call runs on the goroutine of the loop, inside its body's frame: a slow body holds the connection open and counts
// against the call's time.
func Stream(ctx context.Context, c Caller, req *Request) iter.Seq2[Delta, error] {
	ran := false
	return func(yield func(Delta, error) bool) {
		if ran {
			yield(Delta{}, errStreamRan)
			return
		}
		ran = true
		if req == nil {
			yield(Delta{}, errNilRequest())
			return
		}
		if c == nil {
			yield(Delta{}, &Error{Class: Invalid, Owner: OwnerRequest, Message: "Stream has no Caller to call"})
			return
		}
		// A stage may swallow the sink's error and go on; yield must not be called again then.
		stopped := false
		r := req.Clone()
		r.Sink = func(d Delta) error {
			if stopped || !yield(d, nil) {
				stopped = true
				return errStopped
			}
			return nil
		}
		resp, err := c.Call(ctx, r)
		switch {
		case stopped:
		case err != nil:
			yield(Delta{}, err)
		default:
			yield(Delta{Kind: DeltaEnd, Response: resp}, nil)
		}
	}
}

// Progress counts what one stage's caller was handed. The zero value is that of a call without a sink.
type Progress struct {
	w    *watched
	base int // what others had counted before
}

// watched is a request whose sink counts.
type watched struct {
	Request
	derived // what Request carries
	n       int
	next    Sink
	first   func()
}

// Deltas is the number of deltas handed out so far. Above zero, the stage must neither repeat the call nor move it.
func (p Progress) Deltas() int {
	if p.w == nil {
		return 0
	}
	return p.w.n - p.base
}

// OnNext has f called, once, when the next delta arrives, before it is handed out.
func (p Progress) OnNext(f func()) {
	if p.w == nil {
		return
	}
	if before := p.w.first; before != nil {
		own := f
		f = func() {
			before()
			own()
		}
	}
	p.w.first = f
}

func (w *watched) sink(d Delta) error {
	if f := w.first; f != nil {
		w.first = nil
		f()
	}
	w.n++
	return w.next(d)
}

// Watch derives the request that a stage passes on when it may call more than once: its Progress counts the deltas handed
// to that stage's own caller. Without a Sink nothing is handed out and the count stays zero. Each stage has a count of its
// own: inside a buffer, an inner stage may have handed out what its outer stages held back.
func (r *Request) Watch() (*Request, Progress) {
	if r == nil {
		return nil, Progress{}
	}
	r, _, _ = begin(r)
	if r.Sink == nil {
		return r, Progress{}
	}
	// Two stages with nothing between them see the same deltas. A request that was derived since is another value.
	more := r.scope.extras()
	if w := more.watched; w != nil && r == &w.Request {
		return r, Progress{w, w.n}
	}
	w := &watched{Request: *r, next: r.Sink}
	w.Sink = w.sink
	more.watched = w
	w.derived = more
	w.scope.derived = &w.derived
	return &w.Request, Progress{w: w}
}

// EmitWhole hands a whole answer to req.Sink as deltas, one for each part. Without a sink it does nothing. Its error is the
// sink's.
func EmitWhole(req *Request, resp *Response) error {
	if req == nil || req.Sink == nil || resp == nil {
		return nil
	}
	var index [DeltaEnd]int
	emit := func(d Delta) error {
		d.Index = index[d.Kind]
		index[d.Kind]++
		return req.Sink(d)
	}
	for i := range resp.Parts {
		p := &resp.Parts[i]
		var d Delta
		switch {
		case p.Kind == PartText && p.Text != "":
			d = Delta{Kind: DeltaText, Text: p.Text}
		case p.Kind == PartReasoning && p.Text != "":
			d = Delta{Kind: DeltaReasoning, Text: p.Text}
		case p.Kind == PartToolCall && p.Call != nil:
			d = Delta{Kind: DeltaToolCall, Call: &ToolCallDelta{p.Call.ID, p.Call.Name, string(p.Call.Arguments)}}
		default:
			continue
		}
		if err := emit(d); err != nil {
			return err
		}
	}
	if resp.Refusal != "" {
		return emit(Delta{Kind: DeltaRefusal, Text: resp.Refusal})
	}
	return nil
}

// An Accumulator adds up deltas to a [Response]. The zero value is empty and ready.
type Accumulator struct {
	parts   []*accPart
	last    int // the part that the newest delta belongs to
	refusal strings.Builder
}

type accPart struct {
	kind     DeltaKind
	index    int
	id, name string
	text     strings.Builder
}

// Add adds d.
func (a *Accumulator) Add(d Delta) {
	if d.Kind == DeltaRefusal {
		a.refusal.WriteString(d.Text)
		return
	}
	if d.Kind >= DeltaEnd {
		return
	}
	p := a.part(d.Kind, d.Index)
	p.text.WriteString(d.Text)
	if d.Call != nil {
		if d.Call.ID != "" {
			p.id = d.Call.ID
		}
		if d.Call.Name != "" {
			p.name = d.Call.Name
		}
		p.text.WriteString(d.Call.Arguments)
	}
}

func (a *Accumulator) part(kind DeltaKind, index int) *accPart {
	if a.last < len(a.parts) {
		if p := a.parts[a.last]; p.kind == kind && p.index == index {
			return p
		}
	}
	for i, p := range a.parts {
		if p.kind == kind && p.index == index {
			a.last = i
			return p
		}
	}
	p := &accPart{kind: kind, index: index}
	a.last = slices.IndexFunc(a.parts, func(o *accPart) bool { return o.kind == kind && o.index > index })
	if a.last < 0 {
		a.last = len(a.parts)
	}
	a.parts = slices.Insert(a.parts, a.last, p)
	return p
}

// Response is what the deltas add up to: Parts in the order of their first piece, those of one kind by their Index,
// and Refusal.
func (a *Accumulator) Response() *Response { return a.response(true) }

// Partial is what the deltas of a broken answer add up to, without tool calls whose arguments are not complete. nil:
// nothing.
func (a *Accumulator) Partial() *Response {
	if len(a.parts) == 0 && a.refusal.Len() == 0 {
		return nil
	}
	return a.response(false)
}

func (a *Accumulator) response(whole bool) *Response {
	r := &Response{Refusal: a.refusal.String()}
	for _, p := range a.parts {
		switch p.kind {
		case DeltaText:
			r.Parts = append(r.Parts, Text(p.text.String()))
		case DeltaReasoning:
			r.Parts = append(r.Parts, Part{Kind: PartReasoning, Text: p.text.String()})
		case DeltaToolCall:
			args := json.RawMessage(p.text.String())
			if !whole && !json.Valid(args) {
				continue
			}
			r.Parts = append(r.Parts, Part{Kind: PartToolCall, Call: &ToolCall{ID: p.id, Name: p.name, Arguments: args}})
		}
	}
	return r
}
