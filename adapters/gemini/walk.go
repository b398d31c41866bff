package gemini

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// A walk steps through the members of an object or the elements of a list in one pass: for w.more() { … w.key … w.value() … }.
// The JSON is known to be valid, which makes this a third of the work of a reader that asks.
type walk struct {
	b       []byte
	i       int
	key     []byte // of the member, as it is written; no key that counts is written with escapes. nil in lists
	object  bool
	pending bool // the value at i was not looked at
}

// walkOf walks through nothing where value is neither object nor list.
func walkOf(value []byte) walk {
	w := walk{b: value, pending: true}
	return w.enter()
}

// more steps to the next member.
func (w *walk) more() bool {
	if w.b == nil {
		return false
	}
	if w.pending {
		w.i = valueEnd(w.b, w.i)
	}
	b, i := w.b, w.i
	for b[i] <= ' ' || b[i] == ',' {
		i++
	}
	w.i, w.pending = i, false
	if b[i] == '}' || b[i] == ']' {
		return false
	}
	if w.object {
		end := textEnd(b, i)
		w.key = b[i+1 : end-1]
		for i = end; b[i] <= ' ' || b[i] == ':'; {
			i++
		}
		w.i = i
	}
	w.pending = true
	return true
}

// value is the member's value.
func (w *walk) value() []byte {
	from := w.i
	w.i, w.pending = valueEnd(w.b, from), false
	return w.b[from:w.i]
}

// enter walks through the member's value. Once that is done, leave goes on behind it.
func (w *walk) enter() walk {
	if len(w.b) == 0 || w.b[w.i] != '{' && w.b[w.i] != '[' {
		return walk{}
	}
	return walk{b: w.b, i: w.i + 1, object: w.b[w.i] == '{'}
}

func (w *walk) leave(inner *walk) {
	if inner.b != nil {
		w.i, w.pending = inner.i+1, false
	}
}

// valueEnd is where the value that begins at i ends.
func valueEnd(b []byte, i int) int {
	switch b[i] {
	case '"':
		return textEnd(b, i)
	case '{', '[':
		for depth := 0; ; i++ {
			switch b[i] {
			case '"':
				i = textEnd(b, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i < len(b) && b[i] > ' ' && b[i] != ',' && b[i] != '}' && b[i] != ']' {
		i++
	}
	return i
}

// textEnd is where the text that begins at i ends, past its quote.
func textEnd(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func isNull(value []byte) bool   { return len(value) > 0 && value[0] == 'n' }
func isList(value []byte) bool   { return len(value) > 0 && value[0] == '[' }
func isFields(value []byte) bool { return len(value) > 0 && value[0] == '{' }

// text is a text without its quotes and escapes, "" for anything else.
func text(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	return gjson.ParseBytes(value).Str
}
