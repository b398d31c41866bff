package wire

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the deepest nesting that is read.
const maxDepth = 500

// A Scan reads JSON in one pass without building it, which costs a fifth of encoding/json for the small chunks of a stream.
// It accepts exactly what encoding/json accepts, except that text must be valid UTF-8: a rune that was cut on the way is
// damage, not an answer. Once bad, it stays bad and every loop over it ends.
type Scan struct {
	b   []byte
	i   int
	bad bool
	tmp []byte // unescaped text; slices handed out stay valid until reset
}

// Reset begins anew with b. What was handed out before is not valid any more.
func (s *Scan) Reset(b []byte) { s.b, s.i, s.bad, s.tmp = b, 0, false, s.tmp[:0] }

// Bad reports whether something was read that is not JSON, or not what was asked for.
func (s *Scan) Bad() bool { return s.bad }

// Since is the input that was read since the place from, which Pos gave.
func (s *Scan) Since(from int) []byte { return s.b[from:s.i] }

// Pos is the place in the input.
func (s *Scan) Pos() int { return s.i }

// Rest is the input that was not read yet.
func (s *Scan) Rest() []byte { return s.b[s.i:] }

// Peek is the next byte that is no blank, 0 at the end.
func (s *Scan) Peek() byte {
	if s.i < len(s.b) && s.b[s.i] > ' ' {
		return s.b[s.i]
	}
	return s.pass()
}

func (s *Scan) pass() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// Open steps into an object or a list: for first := s.Open('{'); s.More(&first, '}'); { … }.
func (s *Scan) Open(c byte) (first bool) {
	if s.Peek() != c {
		s.bad = true
		return false
	}
	s.i++
	return true
}

// More steps to the next member, or out past the end.
func (s *Scan) More(first *bool, end byte) bool {
	if s.bad {
		return false
	}
	c := s.Peek()
	if c == end && c != 0 {
		s.i++
		return false
	}
	if !*first {
		if c != ',' {
			s.bad = true
			return false
		}
		s.i++
		if s.Peek() == end {
			s.bad = true
			return false
		}
	}
	*first = false
	return true
}

// Key reads a member's name and its colon.
func (s *Scan) Key() []byte {
	k := s.str()
	if s.Peek() != ':' {
		s.bad = true
		return nil
	}
	s.i++
	return k
}

// Null passes over a null.
func (s *Scan) Null() bool {
	if s.Peek() != 'n' {
		return false
	}
	s.word("null")
	return true
}

func (s *Scan) word(w string) {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		s.bad = true
		return
	}
	s.i += len(w)
}

// Text reads a string and passes over anything else, which it takes for empty.
func (s *Scan) Text() []byte {
	if s.Peek() != '"' {
		s.Skip()
		return nil
	}
	return s.str()
}

// str reads a string. The result is a part of the input where nothing is escaped.
func (s *Scan) str() []byte {
	if s.Peek() != '"' {
		s.bad = true
		return nil
	}
	from := s.i + 1
	var high byte
	for i, c := range s.b[from:] {
		if c != '"' && c != '\\' && c >= ' ' {
			high |= c
			continue
		}
		out := s.b[from : from+i]
		s.i = from + i
		switch {
		case c == '\\':
			return s.escaped(from)
		case c != '"', high >= utf8.RuneSelf && !utf8.Valid(out):
			s.bad = true
			return nil
		}
		s.i++
		return out
	}
	s.bad = true
	return nil
}

func (s *Scan) escaped(from int) []byte {
	start := len(s.tmp)
	for s.i < len(s.b) {
		c := s.b[s.i]
		switch {
		case c == '"':
			s.tmp = append(s.tmp, s.b[from:s.i]...)
			s.i++
			out := s.tmp[start:len(s.tmp):len(s.tmp)]
			if !utf8.Valid(out) {
				s.bad = true
				return nil
			}
			return out
		case c < ' ':
			s.bad = true
			return nil
		case c != '\\':
			s.i++
			continue
		}
		s.tmp = append(s.tmp, s.b[from:s.i]...)
		if s.i++; s.i >= len(s.b) {
			break
		}
		c = s.b[s.i]
		s.i++
		switch c {
		case '"', '\\', '/':
			s.tmp = append(s.tmp, c)
		case 'n':
			s.tmp = append(s.tmp, '\n')
		case 't':
			s.tmp = append(s.tmp, '\t')
		case 'r':
			s.tmp = append(s.tmp, '\r')
		case 'b':
			s.tmp = append(s.tmp, '\b')
		case 'f':
			s.tmp = append(s.tmp, '\f')
		case 'u':
			s.tmp = utf8.AppendRune(s.tmp, s.rune())
		default:
			s.bad = true
			return nil
		}
		if s.bad {
			return nil
		}
		from = s.i
	}
	s.bad = true
	return nil
}

// rune reads the digits of an escaped rune, and of its second half where it is one of a pair.
func (s *Scan) rune() rune {
	one := s.hex4()
	if !utf16.IsSurrogate(one) {
		return one
	}
	if at := s.i; !s.bad && len(s.b)-at >= 6 && s.b[at] == '\\' && s.b[at+1] == 'u' {
		s.i += 2
		if r := utf16.DecodeRune(one, s.hex4()); r != utf8.RuneError {
			return r
		}
		s.i = at
	}
	return utf8.RuneError
}

func (s *Scan) hex4() (r rune) {
	if len(s.b)-s.i < 4 {
		s.bad = true
		return 0
	}
	for _, c := range s.b[s.i : s.i+4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			s.bad = true
			return 0
		}
	}
	s.i += 4
	return r
}

// Num reads a number, also one in a text, as a whole one and passes over anything else, which it takes for 0.
func (s *Scan) Num() int {
	if c := s.Peek(); c == '"' {
		n, err := strconv.Atoi(string(s.str()))
		if err != nil {
			return 0
		}
		return n
	} else if c != '-' && (c < '0' || c > '9') {
		s.Skip()
		return 0
	}
	from := s.i
	s.number()
	if s.bad {
		return 0
	}
	text := s.b[from:s.i]
	if len(text) <= 9 {
		n := 0
		for _, c := range text {
			if c < '0' || c > '9' {
				n = -1
				break
			}
			n = n*10 + int(c-'0')
		}
		if n >= 0 {
			return n
		}
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f < -1<<53 || f > 1<<53 {
		return 0
	}
	return int(f)
}

func (s *Scan) digits() {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	if s.i == from {
		s.bad = true
	}
}

func (s *Scan) at(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }

func (s *Scan) number() {
	if s.at('-') {
		s.i++
	}
	if s.at('0') {
		s.i++
	} else {
		s.digits()
	}
	if s.at('.') {
		s.i++
		s.digits()
	}
	if s.at('e') || s.at('E') {
		s.i++
		if s.at('+') || s.at('-') {
			s.i++
		}
		s.digits()
	}
}

// Raw passes over one value and returns it.
func (s *Scan) Raw() []byte {
	s.Peek()
	from := s.i
	s.Skip()
	if s.bad {
		return nil
	}
	return s.b[from:s.i]
}

// Whole reports whether the input is one value and nothing else.
func (s *Scan) Whole() bool {
	s.Skip()
	return !s.bad && s.Peek() == 0 && s.i == len(s.b)
}

// Skip passes over one value, checking it.
func (s *Scan) Skip() { s.skipAt(0) }

func (s *Scan) skipAt(depth int) {
	if depth > maxDepth {
		s.bad = true
		return
	}
	switch c := s.Peek(); c {
	case '{':
		for first := s.Open('{'); s.More(&first, '}'); {
			mark := len(s.tmp)
			s.Key()
			s.tmp = s.tmp[:mark]
			s.skipAt(depth + 1)
		}
	case '[':
		for first := s.Open('['); s.More(&first, ']'); {
			s.skipAt(depth + 1)
		}
	case '"':
		mark := len(s.tmp)
		s.str()
		s.tmp = s.tmp[:mark]
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		if c != '-' && (c < '0' || c > '9') {
			s.bad = true
			return
		}
		s.number()
	}
}
