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

// TestSpends checks that a store keeps the rules of middleware.SpendStore.
func TestSpends(t *testing.T, with Access[middleware.SpendStore]) {
	for name, run := range map[string]func(*spendsSuite){
		"what is reserved counts until it is settled":  spendSettled,
		"a ceiling holds for all who reserve at once":  spendRace,
		"each ceiling holds, and none is none":         spendCeilings,
		"nothing counts twice":                         spendOnce,
		"what comes late counts whatever the ceiling":  spendLate,
		"what is more than can be held is no less":     spendHuge,
		"the smallest amount is one":                   spendSmall,
		"who comes later knows what is spent":          spendRestarted,
		"a server that is down fails, and counts once": spendDown,
		"of what was lost nothing is spent":            spendLost,
		"what was canceled is not done":                spendCanceled,
		"names are names":                              spendNames,
	} {
		t.Run(name, func(t *testing.T) {
			run(&spendsSuite{begin(t, with, name)})
		})
	}
}

type spendsSuite struct {
	suite[middleware.SpendStore]
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
	stores := []middleware.SpendStore{s.store, s.open()}
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
		s.is(s.settle("a", spending(1, 10, 0), false), spending(2, 17, 0))
	}
	got, fits := s.reserve("b", spending(1, 100, 0), llm.Spending{}) // which was on its way when it was settled
	if s.is(got, spending(2, 17, 0)); !fits {
		s.Error("said after it was settled, it does not fit")
	}
	s.reserve("c", spending(1, 100, 0), llm.Spending{}) // its answer is lost
	for range 2 {
		s.is(s.settle("c", spending(1, 8, 0), true), spending(3, 25, 0))
	}
}

func spendRestarted(s *spendsSuite) {
	s.reserve("a", spending(1, 100, 0.5), llm.Spending{})
	s.settle("late", spending(1, 1, 0), true)
	s.store = s.open()
	s.is(s.settle("late", spending(1, 1, 0), true), spending(2, 101, 0.5))
	s.is(s.settle("a", spending(1, 10, 0.1), false), spending(2, 11, 0.1))
}

func spendDown(s *spendsSuite) {
	s.reserve("a", spending(1, 100, 0), llm.Spending{})
	up := s.with.Down(s.T, s.world)
	try := func(d time.Duration) (spent llm.Spending, err error) {
		ctx, cancel := context.WithTimeout(s.Context(), d)
		defer cancel()
		got, fits, err := s.store.Reserve(ctx, "w", "b", spending(1, 10, 0), spending(2, 0, 0))
		if err != nil || !fits {
			return got.Spent, errors.Join(err, errors.New("it does not fit"))
		}
		got, err = s.store.Settle(ctx, "w", "late", spending(1, 1, 0), true)
		return got.Spent, err
	}
	for range 2 {
		if got, err := try(20 * time.Millisecond); err == nil {
			s.Errorf("a server that is down says %+v", got)
		}
	}
	up()
	for { // said again, whether or not it came through before
		got, err := try(time.Second)
		if err == nil {
			s.is(got, spending(3, 111, 0))
			return
		}
		if s.Context().Err() != nil {
			s.Fatal(err)
		}
	}
}

func spendLost(s *spendsSuite) {
	s.reserve("a", spending(1, 100, 0), llm.Spending{})
	s.with.Lose(s.T, s.world)
	s.is(s.settle("a", spending(1, 10, 0), false), llm.Spending{}) // who knows of it says so by another way
	s.is(s.settle("b", spending(1, 7, 0), true), spending(1, 7, 0))
}

// spendHuge reserves, settles and charges what no number holds, each in a workflow of its own. Then nothing fits.
func spendHuge(s *spendsSuite) {
	ceiling := llm.Spending{Attempts: math.MaxInt, Tokens: math.MaxInt, CostUSD: math.MaxFloat64}
	for i, much := range []llm.Spending{
		{Tokens: math.MaxInt}, {Attempts: math.MaxInt}, {Tokens: math.MaxInt - 1}, {CostUSD: math.Inf(1)}, {CostUSD: math.NaN()},
		{CostUSD: math.MaxFloat64}, {CostUSD: 1e12}, spending(math.MaxInt, math.MaxInt, math.Inf(1)),
		{Attempts: math.MinInt, Tokens: math.MinInt, CostUSD: math.Inf(-1)}, // no amount
	} {
		want := counted(much)
		never := func(what string, got llm.Spending, err error) {
			s.Helper()
			if err != nil || got.Attempts < want.Attempts || got.Tokens < want.Tokens || !(got.CostUSD >= want.CostUSD) {
				s.Errorf("%d: %s %+v is %+v, %v: that is less", i, what, much, got, err)
			}
		}
		workflow := strconv.Itoa(i)
		for n := range 3 { // also more than once
			got, err := s.store.Settle(s.Context(), workflow, "charge"+strconv.Itoa(n), much, true)
			never("charged", got.Spent, err)
		}
		if want.Attempts == math.MaxInt || want.Tokens == math.MaxInt || math.IsInf(want.CostUSD, 1) {
			if _, fits, err := s.store.Reserve(s.Context(), workflow, "x", spending(1, 1, 0.01), ceiling); err != nil || fits {
				s.Errorf("%d: beside %+v one more fits: %v, %v", i, much, fits, err)
			}
		}
		workflow += " reserved"
		got, fits, err := s.store.Reserve(s.Context(), workflow, "a", much, llm.Spending{})
		if never("reserved", got.Spent, err); !fits {
			s.Errorf("%d: %+v does not fit under no ceiling", i, much)
		}
		got, err = s.store.Settle(s.Context(), workflow, "a", much, false)
		never("settled", got.Spent, err)
		got, err = s.store.Settle(s.Context(), workflow+" for less", "a", spending(1, 2, 0.5), true)
		if err != nil || got.Spent.Attempts < 1 || got.Spent.Tokens < 2 || !(got.Spent.CostUSD >= 0.5) {
			s.Errorf("%d: settled for less it is %+v, %v", i, got.Spent, err)
		}
	}
}

func spendSmall(s *spendsSuite) {
	if got := s.settle("a", llm.Spending{CostUSD: 1e-18}, true); got.CostUSD <= 0 {
		s.Errorf("what costs next to nothing is free: %+v", got)
	}
	s.reserve("b", llm.Spending{CostUSD: 0.3}, llm.Spending{})
	got := s.settle("b", llm.Spending{CostUSD: 0.1 + 0.2}, false)
	if got.CostUSD > 0.3+3e-9 { // what a double is off by is no cent
		s.Errorf("a part of a billionth became %v", got.CostUSD-0.3)
	}
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
