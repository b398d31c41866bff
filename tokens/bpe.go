package tokens

import "slices"

// The usual implementation of byte-pair encoding looks for the lowest merge again after each merge, so a piece of a
// text costs the square of its length: a second and more for 50 KB of one letter. Here a long piece is encoded a stretch
// at a time. That alone would be wrong where a token crosses the border; but whether two encodings, put one after the
// other, are the encoding of the whole shows at the two tokens that meet, see apart, and where they are not, the stretch
// is encoded again with some of what is before it. The result is exact, and the work grows as the length.

// stretch is how many bytes are encoded at once.
const stretch = 32

// part is a token on its way; with is what it and the next merge to, none if they do not.
type part struct{ token, with uint32 }

// room is what the encoding of pieces needs, kept from one to the next.
type room struct {
	parts  []part
	tokens []uint32
	steps  int // parts looked at so far: the work done
}

// count is the number of tokens of a piece, which is what a splitter makes of a text. It stops soon after most.
func (v *vocabulary) count(piece string, most int, w *room) int {
	if _, whole := v.ranks[piece]; whole {
		return 1
	}
	if len(piece) <= stretch {
		return len(v.merge(piece, w))
	}
	w.tokens = w.tokens[:0]
	for end := 0; end < len(piece) && len(w.tokens) <= most; {
		from := end
		end = min(end+stretch, len(piece))
		parts := v.merge(piece[from:end], w)
		for back := 1; ; back *= 2 {
			n := len(w.tokens)
			if n == 0 || v.apart(w.tokens[n-1], parts[0].token) {
				break
			}
			for _, t := range w.tokens[max(n-back, 0):] {
				from -= int(v.size[t])
			}
			w.tokens = w.tokens[:max(n-back, 0)]
			parts = v.merge(piece[from:end], w)
		}
		w.tokens = slices.Grow(w.tokens, len(parts))
		for i := range parts {
			w.tokens = append(w.tokens, parts[i].token)
		}
	}
	return len(w.tokens)
}

// merge encodes s, which is not empty. All merges to the same token are made in one go from left to right, as a merge
// only ever makes higher ones possible. The result is valid until the next call.
func (v *vocabulary) merge(s string, w *room) []part {
	w.parts = slices.Grow(w.parts[:0], len(s))[:len(s)]
	p := w.parts
	lowest := none
	for i := range len(s) {
		p[i] = part{v.single[s[i]], none}
		if i > 0 {
			p[i-1].with = v.bytes[s[i-1]][s[i]]
			lowest = min(lowest, p[i-1].with)
		}
	}
	for lowest != none {
		w.steps += len(p)
		made := lowest
		lowest = none
		n, fresh := 0, false // parts kept so far, and whether the last of them was just made
		for i := 0; i < len(p); i++ {
			next, now := p[i], p[i].with == made
			if now {
				i++
				next = part{made, p[i].with}
			}
			if n > 0 {
				last := &p[n-1]
				if fresh || now {
					last.with = v.pairs.get(last.token, next.token)
				}
				lowest = min(lowest, last.with)
			}
			p[n] = next
			n, fresh = n+1, now
		}
		p = p[:n]
	}
	return p
}

// apart reports whether encoding leaves a and b as they are where they meet, so that an encoding that ends in a and one
// that begins with b make one. Their merges are undone from the last one backwards: none across the border may have been
// due before the one undone.
func (v *vocabulary) apart(a, b uint32) bool {
	due := none // merges below this one came before
	for {
		if v.pairs.get(a, b) < due {
			return false
		}
		wholeA, wholeB := v.right[a] == a, v.left[b] == b
		switch {
		case wholeA && wholeB:
			return true
		case wholeB || a > b && !wholeA:
			due, a = a, v.right[a]
		default:
			due, b = b+1, v.left[b] // of two equal merges the left one came first
		}
	}
}
