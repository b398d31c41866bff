package adapter

import (
	"encoding/json"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// A Teller hands the pieces of an answer to the sink, and numbers the parts that they belong to.
type Teller struct {
	// Sink is the caller's. nil: whole answer only.
	Sink llm.Sink
	// N is the number of pieces of content that came, also where nobody is told of them.
	N int
	// Lost says that what came may hold content and cannot be read.
	Lost bool

	parts [llm.DeltaEnd]int // parts of each kind that were told of
}

// A Told is the place of a part among those of its kind. It has none until it is told of: parts without content are none.
type Told struct {
	told  bool
	index int
}

// Before reports whether the part was told of before.
func (t *Told) Before() bool { return t.told }

// Tell hands d, a piece of the part p, to the sink. Its error is the sink's.
func (t *Teller) Tell(p *Told, d llm.Delta) error {
	if !p.told {
		p.told, p.index = true, t.parts[d.Kind]
		t.parts[d.Kind]++
	}
	t.N++
	if t.Sink == nil {
		return nil
	}
	d.Index = p.index
	return t.Sink(d)
}

// Begun reports whether content has come.
func (t *Teller) Begun() bool { return t.N > 0 }

// A Count is a number of tokens as a provider tells it, perhaps several times. What is 0 or left out does not undo what was told
// before.
type Count struct {
	N int
	// Odd says that what was told last is no number of tokens, such as a negative one.
	Odd bool
}

// Take takes in what is told.
func (c *Count) Take(raw []byte) {
	switch n, ok := wire.Count(raw); {
	case !ok:
		c.Odd = true
	case n > 0:
		c.N, c.Odd = n, false
	}
}

// ExtraOf is the Extra of an answer, or of a part, that holds fields under an API's name. nil: they are no JSON.
func ExtraOf(name string, fields any) map[string]json.RawMessage {
	raw, err := wire.Marshal(fields)
	if err != nil {
		return nil
	}
	return map[string]json.RawMessage{name: raw}
}
