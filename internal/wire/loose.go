package wire

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The kinds of loose values.
const (
	none uint8 = iota
	null
	flag
	number
	text
	list
	object
)

// A value is a piece of JSON, or of something near it: error bodies come cut short, printed by Python, or inside
// prose, so the reader below takes what encoding/json must refuse.
type value struct {
	kind uint8
	s    string   // number, flag and text: the text
	keys []string // object: the keys of kids
	kids []value  // list and object
}

const (
	maxNesting = 24   // deeper values are skipped, not built
	maxValues  = 4096 // values built for one body
)

// A reader reads one value from s. It never fails and never recurses deeper than maxNesting: what cannot be read
// ends the value.
type reader struct {
	s    string
	i    int
	left *int // values that may still be built
}

func (r *reader) blank() {
	for r.i < len(r.s) {
		switch r.s[r.i] {
		case ' ', '\t', '\n', '\r':
			r.i++
		default:
			return
		}
	}
}

func (r *reader) value(depth int) value {
	r.blank()
	if r.i >= len(r.s) {
		return value{}
	}
	if *r.left <= 0 || depth > maxNesting {
		r.skip()
		return value{}
	}
	*r.left--
	switch c := r.s[r.i]; c {
	case '{':
		return r.object(depth)
	case '[', '(':
		return r.list(depth)
	case '"', '\'':
		return value{kind: text, s: r.quoted()}
	}
	return r.word()
}

func (r *reader) object(depth int) value {
	v := value{kind: object}
	r.i++
	for {
		r.blank()
		if r.i >= len(r.s) {
			return v
		}
		switch r.s[r.i] {
		case '}':
			r.i++
			return v
		case ',':
			r.i++
			continue
		case '"', '\'':
		default: // not an object: prose in braces
			r.i = len(r.s)
			return v
		}
		key := r.quoted()
		r.blank()
		if r.i >= len(r.s) || r.s[r.i] != ':' {
			r.i = len(r.s)
			return v
		}
		r.i++
		kid := r.value(depth + 1)
		if kid.kind != none {
			if v.keys == nil { // most errors have about four fields
				v.keys, v.kids = make([]string, 0, 4), make([]value, 0, 4)
			}
			v.keys = append(v.keys, key)
			v.kids = append(v.kids, kid)
		}
	}
}

func (r *reader) list(depth int) value {
	v := value{kind: list}
	r.i++
	for {
		r.blank()
		if r.i >= len(r.s) {
			return v
		}
		switch r.s[r.i] {
		case ']', ')', '}':
			r.i++
			return v
		case ',':
			r.i++
			continue
		}
		at := r.i
		kid := r.value(depth + 1)
		if kid.kind != none {
			v.kids = append(v.kids, kid)
		}
		if r.i == at { // nothing that can be read
			r.i++
		}
	}
}

// word reads a bare word: a number, true, null, or Python's True and None.
func (r *reader) word() value {
	from := r.i
	for r.i < len(r.s) && strings.IndexByte(",]}): \t\r\n\"", r.s[r.i]) < 0 {
		r.i++
	}
	w := r.s[from:r.i]
	switch w {
	case "":
		return value{}
	case "null", "None", "nil", "undefined":
		return value{kind: null}
	case "true", "false", "True", "False":
		return value{kind: flag, s: strings.ToLower(w)}
	case "b": // Python's bytes: b'...'
		if r.i < len(r.s) && r.s[r.i] == '"' {
			return value{kind: text, s: r.quoted()}
		}
	}
	if strings.HasPrefix(w, "b'") {
		r.i = from + 1
		return value{kind: text, s: r.quoted()}
	}
	if w[0] == '-' || w[0] >= '0' && w[0] <= '9' {
		return value{kind: number, s: w}
	}
	return value{kind: text, s: w}
}

// quoted reads a string in the quotes it starts with. A string without its end ends with the input.
func (r *reader) quoted() string {
	quote := r.s[r.i]
	r.i++
	from := r.i
	for r.i < len(r.s) {
		switch r.s[r.i] {
		case quote:
			s := r.s[from:r.i]
			r.i++
			return s
		case '\\':
			return r.escaped(from, quote)
		}
		r.i++
	}
	return r.s[from:]
}

func (r *reader) escaped(from int, quote byte) string {
	var b strings.Builder
	b.Grow(r.i - from + 64)
	b.WriteString(r.s[from:r.i])
	for r.i < len(r.s) {
		c := r.s[r.i]
		r.i++
		switch {
		case c == quote:
			return b.String()
		case c != '\\':
			b.WriteByte(c)
			continue
		case r.i >= len(r.s):
			return b.String()
		}
		c = r.s[r.i]
		r.i++
		switch c {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r', 'b', 'f':
			b.WriteByte(' ')
		case 'u':
			b.WriteRune(r.rune())
		case '"', '\'', '\\', '/':
			b.WriteByte(c)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// rune reads the four digits behind \u, and those of a second one where they are a surrogate pair.
func (r *reader) rune() rune {
	one, ok := r.hex4()
	if !ok {
		return utf8.RuneError
	}
	if !utf16.IsSurrogate(one) {
		return one
	}
	if r.i+1 < len(r.s) && r.s[r.i] == '\\' && r.s[r.i+1] == 'u' {
		at := r.i
		r.i += 2
		if two, ok := r.hex4(); ok {
			return utf16.DecodeRune(one, two)
		}
		r.i = at
	}
	return utf8.RuneError
}

func (r *reader) hex4() (rune, bool) {
	if r.i+4 > len(r.s) {
		return 0, false
	}
	var v rune
	for _, c := range []byte(r.s[r.i : r.i+4]) {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			v = v<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	r.i += 4
	return v, true
}

// skip passes over one value without building it and without recursion, so depth costs nothing.
func (r *reader) skip() {
	depth := 0
	for r.i < len(r.s) {
		switch r.s[r.i] {
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
			if depth == 0 {
				return
			}
			if depth--; depth == 0 {
				r.i++
				return
			}
		case ',':
			if depth == 0 {
				return
			}
		case '"':
			r.pass()
			if depth == 0 {
				return
			}
			continue
		}
		r.i++
	}
}

// pass passes over a quoted string.
func (r *reader) pass() {
	quote := r.s[r.i]
	for r.i++; r.i < len(r.s); r.i++ {
		switch r.s[r.i] {
		case '\\':
			r.i++
		case quote:
			r.i++
			return
		}
	}
	r.i = len(r.s)
}

// find looks for a JSON object, or a list of objects, in s, which may have prose around it. It returns the value
// and the prose before it.
func find(s string, left *int) (v value, before string, ok bool) {
	at := 0
	for range 4 { // prose has braces of its own; a few tries are enough
		i := strings.IndexAny(s[at:], "{[")
		if i < 0 {
			return value{}, s, false
		}
		at += i
		if starts(s[at:]) {
			r := reader{s: s, i: at, left: left}
			if v = r.value(0); len(v.kids) > 0 {
				return v, s[:at], true
			}
		}
		at++
	}
	return value{}, s, false
}

// starts reports whether s begins as an object, or as a list of objects or texts, does.
func starts(s string) bool {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case ' ', '\t', '\n', '\r':
		case '{', '[':
			return s[0] == '['
		case '"', '\'':
			return true
		default:
			return false
		}
	}
	return false
}
