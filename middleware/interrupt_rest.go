package middleware

import (
	"sync"

	"github.com/modelchain/llm"
)

// ownBreaks is the gate of a stream that may be continued: it knows the rests that were begun by its own break. One break says
// little against a deployment, so the continuation there is the first probe of such a rest, before it is due.
type ownBreaks struct {
	llm.OpenGate

	mu    sync.Mutex
	began map[*restCell]uint64 // the generation of the rest
	broke string               // the deployment whose stream broke last, while it is asked to go on
}

// noteBreak remembers the rest of generation gen that c began with e, if e is the break of a stream of the call that r is of.
func noteBreak(r *llm.Request, c *restCell, gen uint64, e *llm.Error) {
	if gen == 0 || e.Partial == nil || !breaks(e) {
		return
	}
	for g := range r.Gates() {
		if own, ok := g.(*ownBreaks); ok {
			own.mu.Lock()
			if own.began == nil {
				own.began = map[*restCell]uint64{}
			}
			own.began[c] = gen
			own.mu.Unlock()
		}
	}
}

// asking says that the deployment whose stream broke with err may be asked to go on.
func (o *ownBreaks) asking(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.broke = llm.AsError(err).Deployment
}

// ownRests are the generations of the rests in s that the call of r began itself by a break and may end by a continuation.
// 0: none.
func (s *cooldown) ownRests(r *llm.Request) (gens [3]uint64) {
	for g := range r.Gates() {
		own, ok := g.(*ownBreaks)
		if !ok {
			continue
		}
		own.mu.Lock()
		if s.deployment != nil && s.deployment.Name == own.broke {
			for i, c := range s.cells {
				gens[i] = max(gens[i], own.began[c])
			}
		}
		own.mu.Unlock()
	}
	return gens
}

// isOwn reports whether st is the rest of generation gen, which nothing has confirmed since and nobody probes.
func (st *restState) isOwn(gen uint64) bool {
	return gen != 0 && st.resting && st.gen == gen && st.probe == 0 && !st.confirmed
}
