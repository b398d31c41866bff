package tokens

import (
	"fmt"
	"sync"

	loader "github.com/pkoukk/tiktoken-go-loader"
)

// An Encoding is a vocabulary of OpenAI's with the rule that splits text before it is looked up.
type Encoding string

// The encodings.
const (
	O200k  Encoding = "o200k_base"  // GPT-4o and everything since
	CL100k Encoding = "cl100k_base" // GPT-4, GPT-3.5
)

// Each vocabulary is read when it is first needed, once for the process. They are embedded in the loader: nothing is
// downloaded.
var (
	o200k  = sync.OnceValues(func() (*vocabulary, error) { return load(O200k, splitO200k) })
	cl100k = sync.OnceValues(func() (*vocabulary, error) { return load(CL100k, splitCL100k) })
)

// vocabulary is that of e.
func (e Encoding) vocabulary() (*vocabulary, error) {
	switch e {
	case O200k:
		return o200k()
	case CL100k:
		return cl100k()
	}
	return nil, fmt.Errorf("llm/tokens: the encoding %q is not known; use %q or %q", string(e), O200k, CL100k)
}

// none is no token.
const none = ^uint32(0)

// A vocabulary is what an encoding knows. A token is its rank: byte-pair encoding always makes the lowest that it can,
// and no token is made of higher ones.
type vocabulary struct {
	splitter splitter
	kinds    *kinds
	ranks    map[string]int
	single   [256]uint32
	// pairs is what two tokens merge to. left and right are the two that a token was merged from; a byte is its own.
	pairs       pairTable
	left, right []uint32
	// bytes is pairs for two bytes, where every encoding starts.
	bytes [256][256]uint32
	// size is the length of each token, longest that of the longest: no text has fewer tokens than its bytes divided by it.
	size    []uint8
	longest int
}

func load(e Encoding, split splitter) (*vocabulary, error) {
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe(string(e) + ".tiktoken")
	if err != nil {
		return nil, fmt.Errorf("llm/tokens: the embedded vocabulary %s cannot be read: %w", e, err)
	}
	v := &vocabulary{splitter: split, kinds: newKinds(), ranks: ranks}
	if err := v.learn(); err != nil {
		return nil, fmt.Errorf("llm/tokens: the embedded vocabulary %s: %w", e, err)
	}
	return v, nil
}

// learn finds the two tokens that each token is merged from, going up the ranks: what they are made of is known then.
func (v *vocabulary) learn() error {
	n := len(v.ranks)
	texts := make([]string, n)
	for text, rank := range v.ranks {
		if rank < 0 || rank >= n || len(text) < 1 || len(text) > 255 {
			return fmt.Errorf("token %q has rank %d of %d", text, rank, n)
		}
		texts[rank] = text
	}
	v.left, v.right, v.size, v.pairs = make([]uint32, n), make([]uint32, n), make([]uint8, n), newPairTable(n)
	for c := range v.single {
		t, ok := v.ranks[string([]byte{byte(c)})]
		if !ok {
			return fmt.Errorf("byte %d has no token", c)
		}
		v.single[c] = uint32(t)
		for d := range v.bytes[c] {
			v.bytes[c][d] = none
		}
	}
	var w room
	for rank, text := range texts {
		t := uint32(rank)
		v.left[t], v.right[t], v.size[t] = t, t, uint8(len(text))
		v.longest = max(v.longest, len(text))
		if len(text) == 1 {
			continue
		}
		parts := v.merge(text, &w)
		if len(parts) != 2 {
			return fmt.Errorf("token %q is made of %d others, want 2", text, len(parts))
		}
		v.left[t], v.right[t] = parts[0].token, parts[1].token
		v.pairs.put(v.left[t], v.right[t], t)
		if len(text) == 2 {
			v.bytes[text[0]][text[1]] = t
		}
	}
	return nil
}
