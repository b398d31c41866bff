package storetest

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// Spends is a middleware.SpendStore in memory. It is safe for concurrent use.
type Spends struct {
	mu        sync.Mutex
	workflows map[string]*heldSpend
	err       error
	lost      bool
}

type heldSpend struct {
	began    time.Time
	settled  llm.Spending
	reserved map[string]llm.Spending
	late     map[string]time.Time // when they were settled
}

// lateKnown is how long a late settlement is known.
const lateKnown = time.Hour

// spent is what counts. What is reserved is added each time: from infinite sums nothing can be taken away.
func (h *heldSpend) spent() llm.Spending {
	sum := h.settled
	for _, r := range h.reserved {
		sum = sum.Add(r)
	}
	return sum
}

// counted is s as the ledger takes it in.
func counted(s llm.Spending) llm.Spending {
	s.Attempts, s.Tokens, s.CostUSD = max(s.Attempts, 0), max(s.Tokens, 0), max(s.CostUSD, 0)
	if math.IsNaN(s.CostUSD) {
		s.CostUSD = math.Inf(1)
	}
	return s
}

// NewSpends is one in which nothing is spent.
func NewSpends() *Spends { return &Spends{workflows: map[string]*heldSpend{}} }

// Fail makes every operation end with err; with afterwards what it asked for is done, and only its answer lost. nil: no more.
func (s *Spends) Fail(err error, afterwards bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.lost = err, afterwards
}

// Lose forgets everything.
func (s *Spends) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.workflows)
}

// Kept is how many reservations and late settlements are kept, of all workflows.
func (s *Spends) Kept() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.workflows {
		n += len(h.reserved) + len(h.late)
	}
	return n
}

// change runs f on a workflow, which is new unless f changed it.
func (s *Spends) change(
	ctx context.Context, workflow string, f func(h *heldSpend) (changed bool),
) (middleware.SharedSpend, error) {
	if err := ctx.Err(); err != nil {
		return middleware.SharedSpend{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil && !s.lost {
		return middleware.SharedSpend{}, s.err
	}
	h := s.workflows[workflow]
	if h == nil {
		h = &heldSpend{began: time.Now(), reserved: map[string]llm.Spending{}, late: map[string]time.Time{}}
	}
	for id, at := range h.late {
		if time.Since(at) > lateKnown {
			delete(h.late, id)
		}
	}
	if f(h) {
		s.workflows[workflow] = h
	}
	if s.err != nil {
		return middleware.SharedSpend{}, s.err
	}
	return middleware.SharedSpend{Spent: h.spent(), Age: time.Since(h.began)}, nil
}

// Reserve is as middleware.SpendStore says.
func (s *Spends) Reserve(
	ctx context.Context, workflow, id string, want, ceiling llm.Spending,
) (now middleware.SharedSpend, fits bool, err error) {
	want = counted(want)
	now, err = s.change(ctx, workflow, func(h *heldSpend) bool {
		fits = true
		_, reserved := h.reserved[id]
		_, late := h.late[id]
		if reserved || late {
			return false
		}
		spent := h.spent() // differences are never too large for an int
		fits = !(ceiling.Attempts > 0 && want.Attempts > 0 && want.Attempts > ceiling.Attempts-spent.Attempts ||
			ceiling.Tokens > 0 && want.Tokens > 0 && want.Tokens > ceiling.Tokens-spent.Tokens ||
			ceiling.CostUSD > 0 && want.CostUSD > 0 && want.CostUSD > ceiling.CostUSD-spent.CostUSD+1e-9)
		if fits {
			h.reserved[id] = want
		}
		return fits
	})
	return now, fits, err
}

// Settle is as middleware.SpendStore says.
func (s *Spends) Settle(ctx context.Context, workflow, id string, is llm.Spending, late bool) (middleware.SharedSpend, error) {
	return s.change(ctx, workflow, func(h *heldSpend) bool {
		_, reserved := h.reserved[id]
		_, known := h.late[id]
		if known || !reserved && !late {
			return false
		}
		delete(h.reserved, id)
		if late {
			h.late[id] = time.Now()
		}
		h.settled = h.settled.Add(counted(is))
		return true
	})
}
