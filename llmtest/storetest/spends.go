package storetest

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
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
	began time.Time
	spent llm.Spending
	ids   map[string]*llm.Spending // nil: it is settled
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

// change runs f on a workflow, for which it may add what f returns.
func (s *Spends) change(
	ctx context.Context, workflow string, f func(h *heldSpend) (add llm.Spending, changed bool),
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
		h = &heldSpend{began: time.Now(), ids: map[string]*llm.Spending{}}
	}
	if add, changed := f(h); changed {
		h.spent = h.spent.Add(add)
		s.workflows[workflow] = h
	}
	if s.err != nil {
		return middleware.SharedSpend{}, s.err
	}
	return middleware.SharedSpend{Spent: h.spent, Age: time.Since(h.began)}, nil
}

// Reserve is as middleware.SpendStore says.
func (s *Spends) Reserve(
	ctx context.Context, workflow, id string, want, ceiling llm.Spending,
) (now middleware.SharedSpend, fits bool, err error) {
	now, err = s.change(ctx, workflow, func(h *heldSpend) (llm.Spending, bool) {
		fits = true
		if _, said := h.ids[id]; said {
			return llm.Spending{}, false
		}
		sum := h.spent.Add(want)
		fits = !(ceiling.Attempts > 0 && want.Attempts > 0 && sum.Attempts > ceiling.Attempts ||
			ceiling.Tokens > 0 && want.Tokens > 0 && sum.Tokens > ceiling.Tokens ||
			ceiling.CostUSD > 0 && want.CostUSD > 0 && sum.CostUSD > ceiling.CostUSD+1e-9)
		if !fits {
			return llm.Spending{}, false
		}
		h.ids[id] = &want
		return want, true
	})
	return now, fits, err
}

// Settle is as middleware.SpendStore says.
func (s *Spends) Settle(ctx context.Context, workflow, id string, is llm.Spending, late bool) (middleware.SharedSpend, error) {
	return s.change(ctx, workflow, func(h *heldSpend) (llm.Spending, bool) {
		reserved, said := h.ids[id]
		if said && reserved == nil || !said && !late {
			return llm.Spending{}, false
		}
		h.ids[id] = nil
		if said {
			is = is.Add(llm.Spending{Attempts: -reserved.Attempts, Tokens: -reserved.Tokens, CostUSD: -reserved.CostUSD})
		}
		return is, true
	})
}

// SpendsTest says how [TestSpends] reaches what it tests.
type SpendsTest struct {
	// Open opens a store. Those of one world share all, those of two nothing. It is closed when the test ends.
	Open func(t *testing.T, world string) middleware.SpendStore
}

// TestSpends checks that a store keeps the rules of middleware.SpendStore.
func TestSpends(t *testing.T, with SpendsTest) {
	for name, run := range map[string]func(*spendsSuite){
		"what is reserved counts until it is settled": spendSettled,
		"a ceiling holds for all who reserve at once": spendRace,
		"each ceiling holds, and none is none":        spendCeilings,
		"nothing counts twice":                        spendOnce,
		"what comes late counts whatever the ceiling": spendLate,
		"what was canceled is not done":               spendCanceled,
		"names are names":                             spendNames,
	} {
		t.Run(name, func(t *testing.T) {
			s := &spendsSuite{T: t, with: with, world: strings.ReplaceAll(name, " ", "-")}
			s.store = with.Open(t, s.world)
			run(s)
		})
	}
}

type spendsSuite struct {
	*testing.T
	with  SpendsTest
	world string
	store middleware.SpendStore
}

func (s *spendsSuite) reserve(id string, want, ceiling llm.Spending) (spent llm.Spending, fits bool) {
	s.Helper()
	now, fits, err := s.store.Reserve(s.Context(), "w", id, want, ceiling)
	if err != nil {
		s.Fatal(err)
	}
	return now.Spent, fits
}

func (s *spendsSuite) settle(id string, is llm.Spending, late bool) llm.Spending {
	s.Helper()
	now, err := s.store.Settle(s.Context(), "w", id, is, late)
	if err != nil {
		s.Fatal(err)
	}
	return now.Spent
}

func (s *spendsSuite) is(got, want llm.Spending) {
	s.Helper()
	if math.Abs(got.CostUSD-want.CostUSD) < 1e-8 {
		got.CostUSD = want.CostUSD
	}
	if got != want {
		s.Errorf("spent is %+v, want %+v", got, want)
	}
}

func spending(attempts, tokens int, usd float64) llm.Spending {
	return llm.Spending{Attempts: attempts, Tokens: tokens, CostUSD: usd}
}

func spendSettled(s *spendsSuite) {
	got, fits := s.reserve("a", spending(1, 1000, 0.02), llm.Spending{})
	if s.is(got, spending(1, 1000, 0.02)); !fits {
		s.Error("it does not fit under no ceiling")
	}
	s.reserve("b", spending(1, 500, 0.01), llm.Spending{})
	s.is(s.settle("a", spending(1, 300, 0.000123456), false), spending(2, 800, 0.010123456))
	s.is(s.settle("b", llm.Spending{}, false), spending(1, 300, 0.000123456)) // it cost nothing
	estimated := spending(1, 10, 0)
	estimated.Estimated = true
	s.reserve("c", spending(1, 10, 0), llm.Spending{})
	if got := s.settle("c", estimated, false); !got.Estimated {
		s.Errorf("of an estimate became %+v", got)
	}
}

func spendRace(s *spendsSuite) {
	stores := []middleware.SpendStore{s.store, s.with.Open(s.T, s.world)}
	var all sync.WaitGroup
	var mu sync.Mutex
	n := 0
	for i := range 40 {
		all.Go(func() {
			_, fits, err := stores[i%2].Reserve(s.Context(), "w", strconv.Itoa(i), spending(1, 10, 0.001), spending(7, 0, 0))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				s.Error(err)
			}
			if fits {
				n++
			}
		})
	}
	all.Wait()
	if n != 7 {
		s.Errorf("%d of 40 attempts fit under a ceiling of 7", n)
	}
	s.is(s.settle("none", llm.Spending{}, false), spending(7, 70, 0.007))
}

func spendCeilings(s *spendsSuite) {
	for i, c := range []struct {
		want, ceiling llm.Spending
		fits          bool
	}{
		{spending(1, 100, 0.5), spending(1, 100, 0.5), true}, // to the last
		{spending(1, 0, 0), spending(1, 0, 0), false},
		{spending(0, 1, 0), spending(0, 100, 0), false},
		{spending(0, 0, 0.000001), spending(0, 0, 0.5), false},
		{spending(1, 1, 0), spending(2, 0, 0.1), true}, // what is free fits where the money is spent
		{spending(9, 9, 9), llm.Spending{}, true},
	} {
		if _, fits := s.reserve(strconv.Itoa(i), c.want, c.ceiling); fits != c.fits {
			s.Errorf("%+v under %+v: %v", c.want, c.ceiling, fits)
		}
	}
}

func spendOnce(s *spendsSuite) {
	for range 2 {
		got, fits := s.reserve("a", spending(1, 100, 0), spending(1, 0, 0))
		if s.is(got, spending(1, 100, 0)); !fits {
			s.Error("said again, it does not fit beside itself")
		}
	}
	s.is(s.settle("a", spending(1, 10, 0), false), spending(1, 10, 0))
	for range 2 {
		s.is(s.settle("b", spending(1, 7, 0), true), spending(2, 17, 0))
		s.is(s.settle("a", spending(1, 10, 0), true), spending(2, 17, 0))
	}
	s.store = s.with.Open(s.T, s.world)
	got, _ := s.reserve("a", spending(1, 100, 0), llm.Spending{})
	s.is(got, spending(2, 17, 0))
}

func spendLate(s *spendsSuite) {
	s.reserve("a", spending(1, 0, 0), spending(1, 0, 0))
	s.is(s.settle("unknown", spending(1, 0, 0), false), spending(1, 0, 0))
	s.is(s.settle("late", spending(3, 0, 0), true), spending(4, 0, 0))
}

func spendCanceled(s *spendsSuite) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, _, err := s.store.Reserve(ctx, "w", "a", spending(1, 0, 0), llm.Spending{}); !errors.Is(err, context.Canceled) {
		s.Errorf("the error is %v", err)
	}
	s.is(s.settle("x", llm.Spending{}, false), llm.Spending{})
}

func spendNames(s *spendsSuite) {
	for i, name := range []string{"", "{w}", "}{", "w ", "\x00", "\xff", "模型", strings.Repeat("x", 10_000)} {
		for _, id := range []string{"", "began", "spent", "a b", "\xff\x00"} {
			if _, _, err := s.store.Reserve(s.Context(), name, id, spending(i+1, 0, 0), llm.Spending{}); err != nil {
				s.Errorf("%q, %q: %v", name, id, err)
			}
		}
		got, err := s.store.Settle(s.Context(), name, "none", llm.Spending{}, false)
		if err != nil || got.Spent.Attempts != 5*(i+1) {
			s.Errorf("%q: %+v, %v, want %d attempts", name, got.Spent, err, 5*(i+1))
		}
	}
}
