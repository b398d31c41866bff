package classify

import "strings"

// maxGap bounds what a * in a phrase stands for, so that two words far apart in a long message do not meet.
const maxGap = 120

// A phrase is a text to look for: parts in order, each at most maxGap bytes after the one before.
type phrase struct {
	parts []string
	grams [3]uint16 // trigrams that a message must hold for the phrase to be in it
}

func newPhrase(s string) phrase {
	p := phrase{parts: strings.Split(fold(s), "*")}
	longest := ""
	for i, part := range p.parts {
		if len(p.parts) > 1 { // the gap may be one blank, or none
			part = strings.TrimSpace(part)
			p.parts[i] = part
		}
		if len(part) > len(longest) {
			longest = part
		}
	}
	for i := range p.grams {
		if n := len(longest) - 3; n >= 0 {
			p.grams[i] = gram(longest, n*i/2)
		}
	}
	return p
}

func (p *phrase) in(text string) bool {
	for {
		i := strings.Index(text, p.parts[0])
		if i < 0 {
			return false
		}
		text = text[i+len(p.parts[0]):]
		if follow(text, p.parts[1:]) {
			return true
		}
	}
}

func follow(text string, parts []string) bool {
	for _, part := range parts {
		i := strings.Index(text[:min(len(text), maxGap+len(part))], part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}

// A sieve tells most phrases that are not in a text without looking: it holds the text's trigrams.
type sieve [1 << 12 / 64]uint64

func gram(s string, i int) uint16 {
	h := uint32(s[i])<<16 | uint32(s[i+1])<<8 | uint32(s[i+2])
	return uint16(h * 0x9E3779B1 >> 20)
}

func (v *sieve) fill(text string) {
	for i := 0; i+3 <= len(text); i++ {
		g := gram(text, i)
		v[g>>6] |= 1 << (g & 63)
	}
}

func (v *sieve) may(p *phrase) bool {
	for _, g := range p.grams {
		if g != 0 && v[g>>6]&(1<<(g&63)) == 0 {
			return false
		}
	}
	return true
}

// fold makes the spellings of a text meet: lower case, plain apostrophes, single blanks.
func fold(s string) string {
	b := make([]byte, 0, len(s))
	blank := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c |= 0x20
		case c == ' ', c == '\t', c == '\n', c == '\r':
			if blank {
				continue
			}
			blank = true
			b = append(b, ' ')
			continue
		case c == 0xE2 && i+2 < len(s) && s[i+1] == 0x80: // ’ ‘ “ ”
			switch s[i+2] {
			case 0x98, 0x99:
				c = '\''
				i += 2
			case 0x9C, 0x9D:
				c = '"'
				i += 2
			}
		}
		blank = false
		b = append(b, c)
	}
	return string(b)
}
