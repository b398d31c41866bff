package tokens

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A splitter is the length of the first piece of s, which is not empty and valid UTF-8. digits is the longest run of
// digits in one piece. Tokens never cross pieces. The two splitters do by hand what the regular expressions of the
// encodings say, which a backtracking engine needs up to three seconds a megabyte for.
type splitter func(k *kinds, s string, digits int) int

// The kinds of characters that the expressions tell apart, as bits.
const (
	upper   uint8 = 1 << iota // \p{Lu}\p{Lt}
	lower                     // \p{Ll}
	both                      // \p{Lm}\p{Lo}: neither or both
	mark                      // \p{M}
	number                    // \p{N}
	space                     // \s without the next
	newline                   // \r\n
	other
	letter = upper | lower | both
)

// kinds is the kind of every character.
type kinds [unicode.MaxRune + 1]uint8

func newKinds() *kinds {
	k := new(kinds)
	for i := range k {
		k[i] = other
	}
	set := func(kind uint8, tables ...*unicode.RangeTable) {
		for _, t := range tables {
			for _, r := range t.R16 {
				for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
					k[c] = kind
				}
			}
			for _, r := range t.R32 {
				for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
					k[c] = kind
				}
			}
		}
	}
	set(upper, unicode.Lu, unicode.Lt)
	set(lower, unicode.Ll)
	set(both, unicode.Lm, unicode.Lo)
	set(mark, unicode.M)
	set(number, unicode.N)
	set(space, unicode.White_Space)
	k['\r'], k['\n'] = newline, newline
	return k
}

// at is the kind and length of the character of s at i.
func (k *kinds) at(s string, i int) (uint8, int) {
	if c := s[i]; c < utf8.RuneSelf {
		return k[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return k[r], n
}

// run is the end of the characters of the given kinds from i on.
func (k *kinds) run(s string, i int, of uint8) int {
	for i < len(s) {
		kind, n := k.at(s, i)
		if kind&of == 0 {
			break
		}
		i += n
	}
	return i
}

// splitCL100k follows
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func splitCL100k(k *kinds, s string, digits int) int {
	if n := contraction(s); n > 0 {
		return n
	}
	kind, n := k.at(s, 0)
	if kind&letter != 0 {
		return k.run(s, n, letter)
	}
	if kind&number != 0 {
		return k.numbers(s, digits)
	}
	if kind&newline == 0 {
		if end := k.run(s, n, letter); end > n {
			return end
		}
	}
	if end := k.symbols(s); end > 0 {
		return k.run(s, end, newline)
	}
	return k.whitespace(s)
}

// splitO200k follows
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
func splitO200k(k *kinds, s string, digits int) int {
	kind, n := k.at(s, 0)
	if kind&number != 0 {
		return k.numbers(s, digits)
	}
	if kind&newline == 0 {
		if end := k.wordO200k(s, kind, n); end > 0 {
			return end + contraction(s[end:])
		}
	}
	if end := k.symbols(s); end > 0 {
		for end < len(s) && (s[end] == '\r' || s[end] == '\n' || s[end] == '/') {
			end++
		}
		return end
	}
	return k.whitespace(s)
}

// wordO200k is the end of the word that s starts with, 0 if it starts with none. The first character, of the given kind
// and length, may be any but a newline or number; one that is no letter belongs to the word that follows it.
func (k *kinds) wordO200k(s string, kind uint8, n int) int {
	if kind&letter != 0 {
		n = 0
	}
	// Capitals and then small letters. Where no small letter follows, the last character that can pass for one ends it.
	end, small := n, 0
	for end < len(s) {
		c, size := k.at(s, end)
		if c&(upper|both|mark) == 0 {
			if c&lower != 0 {
				return k.run(s, end, lower|both|mark)
			}
			break
		}
		end += size
		if c&(both|mark) != 0 {
			small = end
		}
	}
	switch {
	case small > 0:
		return small
	case kind&mark != 0:
		return n // a mark before capitals passes for a small letter itself
	case end > n:
		return end
	}
	return 0
}

// contraction is the length of the English contraction that s starts with.
func contraction(s string) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	switch s[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s) < 3 {
		return 0
	}
	switch [2]byte{s[1] | 0x20, s[2] | 0x20} {
	case [2]byte{'r', 'e'}, [2]byte{'v', 'e'}, [2]byte{'l', 'l'}:
		return 3
	}
	return 0
}

func (k *kinds) numbers(s string, digits int) int {
	end := 0
	for ; digits > 0 && end < len(s); digits-- {
		kind, n := k.at(s, end)
		if kind&number == 0 {
			break
		}
		end += n
	}
	return end
}

// symbols is the end of the symbols that s starts with, a space before them included.
func (k *kinds) symbols(s string) int {
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	if end := k.run(s, i, mark|other); end > i {
		return end
	}
	return 0
}

// whitespace is the end of the first piece of the whitespace that s starts with: up to its last newline, else up to the
// last space before a word, which goes with the word.
func (k *kinds) whitespace(s string) int {
	end := k.run(s, 0, space|newline)
	if i := strings.LastIndexAny(s[:end], "\r\n"); i >= 0 {
		return i + 1
	}
	if end == len(s) {
		return end
	}
	if _, n := utf8.DecodeLastRuneInString(s[:end]); n < end {
		return end - n
	}
	return end
}
