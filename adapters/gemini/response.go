package gemini

import (
	"bytes"

	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// An answer adds up the chunks of one call and hands their content to the sink. Unary and streamed answers go through it
// alike: a whole answer is one chunk.
type answer struct {
	adapter.Teller
	blocks []*block
	calls  int
	out    int // bytes of content

	id, model string
	// finish is the finish reason of the answer, blocked that of a prompt that gets none, message what was said to either.
	finish, blocked, message string
	refusal                  string
	usage                    usage
	extras                   []member

	begun   bool   // a candidate came, or the word that there is none
	chunk   []byte // the newest chunk
	failed  bool   // it reports an error
	strange bool   // it has nothing of an answer in it
	unread  string // what came and cannot be read
}

// A member is a field that this adapter does not read, a copy of it.
type member struct {
	name  string
	value []byte
}

// set keeps a text that is not empty. Streams repeat most of them with every chunk.
func set(to *string, value []byte) {
	if len(value) > 2 && value[0] == '"' && string(value[1:len(value)-1]) != *to {
		*to = text(value)
	}
}

func (a *answer) finished() bool { return a.finish != "" || a.blocked != "" }

// add takes in a chunk, which is valid JSON and need not outlive the call. Its error is the sink's.
func (a *answer) add(chunk []byte) error {
	a.failed, a.strange, a.chunk = false, true, chunk
	w := walkOf(chunk)
	for w.more() {
		if string(w.key) == "candidates" {
			list := w.enter()
			if list.b == nil || list.object {
				a.odd(w.value())
				continue
			}
			a.begun, a.strange = true, false
			for list.more() {
				if err := a.candidate(&list); err != nil {
					return err
				}
			}
			w.leave(&list)
			continue
		}
		v := w.value()
		if isNull(v) {
			continue
		}
		switch string(w.key) {
		case "usageMetadata":
			a.strange = false
			a.usage.note(a.keep(w.key, v))
		case "promptFeedback":
			a.begun, a.strange = true, false
			a.feedback(v)
			a.keep(w.key, v)
		case "modelVersion":
			set(&a.model, v)
		case "responseId":
			set(&a.id, v)
		case "error":
			a.failed = isFields(v) || text(v) != ""
		default:
			a.keep(w.key, v)
		}
	}
	if a.strange && adapter.HasContent(chunk) {
		a.Lost = true
	}
	return nil
}

// odd takes note of a value that is not what it should be. Unless there is nothing in it, it may hold content.
func (a *answer) odd(value []byte) { a.Lost = a.Lost || !wire.IsVoid(value) }

// candidate takes in a piece of the first alternative. More than one is asked for only through Request.Extra, and not handed
// on.
func (a *answer) candidate(list *walk) error {
	var content, finish, message []byte
	first, more := true, false
	from := *list
	c := list.enter()
	if !c.object {
		a.odd(list.value())
		return nil
	}
	for c.more() {
		switch string(c.key) {
		case "content":
			content = c.value()
		case "index":
			first = string(c.value()) == "0"
		case "finishReason":
			finish = c.value()
		case "finishMessage":
			message, more = c.value(), true
		default:
			more = true
		}
	}
	list.leave(&c)
	if !first {
		return nil
	}
	if err := a.content(content); err != nil {
		return err
	}
	if !unspecified(finish) {
		set(&a.finish, finish)
	}
	set(&a.message, message)
	if !more {
		return nil
	}
	c = from.enter()
	for c.more() {
		switch string(c.key) {
		case "content", "index", "finishReason":
		default:
			if v := c.value(); !isNull(v) {
				a.keep(c.key, v)
				a.Lost = a.Lost || adapter.IsContent(c.key, v)
			}
		}
	}
	return nil
}

func (a *answer) content(v []byte) error {
	w := walkOf(v)
	if !w.object {
		a.odd(v)
		return nil
	}
	for w.more() {
		if string(w.key) != "parts" {
			key := w.key
			a.Lost = adapter.IsContent(key, w.value()) || a.Lost
			continue
		}
		parts := w.enter()
		if parts.b == nil || parts.object {
			a.odd(w.value())
			continue
		}
		for parts.more() {
			if err := a.part(&parts); err != nil {
				return err
			}
		}
		w.leave(&parts)
	}
	return nil
}

// feedback takes in what the filter says about the prompt.
func (a *answer) feedback(v []byte) {
	w := walkOf(v)
	for w.more() {
		switch string(w.key) {
		case "blockReason":
			if v := w.value(); !unspecified(v) {
				set(&a.blocked, v)
			}
		case "blockReasonMessage":
			set(&a.message, w.value())
		}
	}
}

// unspecified tells a reason that is none: some servers send one all the while. Its name differs between the two APIs.
func unspecified(reason []byte) bool { return bytes.HasSuffix(reason, []byte(`_UNSPECIFIED"`)) }

// keep keeps a copy of a field for Response.Extra; streams repeat theirs with every chunk, and the newest counts. The copy is
// good until the next one of that name.
func (a *answer) keep(name, value []byte) []byte {
	for i := range a.extras {
		if e := &a.extras[i]; e.name == string(name) {
			e.value = append(e.value[:0], value...)
			return e.value
		}
	}
	kept := bytes.Clone(value)
	if len(a.extras) < 32 {
		a.extras = append(a.extras, member{string(name), kept})
	}
	return kept
}
