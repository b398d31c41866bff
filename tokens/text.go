package tokens

import (
	"context"
	"math"
	"strings"
	"unicode/utf8"
)

// pause is after how many pieces the context is looked at.
const pause = 1 << 12

// text counts a text, until the answer is known.
//
// A piece counts as its tokens times the factor, but never as more than its bytes, which bound every tokenizer's count.
// So what is counted never exceeds the bytes it took, and sum+rest never falls below the whole count.
func (t *tally) text(ctx context.Context, s string) error {
	size := len(s)
	if size == 0 || t.known() {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.rest -= size
	before := t.sum
	if least := before + int(float64(size/t.longest)*min(t.factor, 1)); t.limit > 0 && least > t.limit {
		t.sum = least
		return nil
	}
	if !utf8.ValidString(s) {
		s = replaceInvalid(s)
	}
	units, perToken := 0, int(math.Ceil(t.factor*unit))
	for pieces := 1; s != ""; pieces++ {
		end := t.splitter(t.kinds, s, t.digits)
		n := t.vocabulary.count(s[:end], t.pieceLimit(), &t.room)
		units += min(n*perToken, end*unit)
		s = s[end:]
		t.sum = before + min((units+unit-1)/unit, size)
		if t.limit > 0 && (t.sum > t.limit || t.sum+len(s)+t.rest <= t.limit) {
			t.rest += len(s)
			return nil
		}
		if pieces%pause == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// pieceSlack is by how much the count of a piece may be over before it stops: the encoding of what is left can make the
// last tokens of it others, but not so many fewer.
const pieceSlack = 256

func (t *tally) pieceLimit() int {
	if t.limit <= 0 {
		return math.MaxInt
	}
	return int(float64(t.limit-t.sum+1)/min(t.factor, 1)) + pieceSlack
}

// replaceInvalid puts U+FFFD for each byte that is not UTF-8, as encoding the request in JSON does.
func replaceInvalid(s string) string {
	var b strings.Builder
	b.Grow(len(s) + len(s)/2)
	for _, r := range s {
		b.WriteRune(r)
	}
	return b.String()
}
