package llm_test

import (
	"math"
	"testing"

	"github.com/modelchain/llm"
)

func TestSumsEndAtTheLargestNumber(t *testing.T) {
	s := llm.Spending{Attempts: math.MaxInt, Tokens: math.MaxInt - 1, CostUSD: math.MaxFloat64}
	if got := s.Add(llm.Spending{Attempts: 1, Tokens: 2}); got.Attempts != math.MaxInt || got.Tokens != math.MaxInt {
		t.Errorf("%+v", got)
	}
	if got := (llm.Spending{Attempts: math.MinInt, Tokens: -3}).Add(llm.Spending{Attempts: -1, Tokens: 2}); got.Attempts != math.MinInt || got.Tokens != -1 {
		t.Errorf("%+v", got)
	}
	u := llm.Usage{Input: math.MaxInt, Output: 7, CachedInput: math.MaxInt, CacheWrite: math.MaxInt, Reasoning: math.MaxInt}
	if got, want := u.Add(u), (llm.Usage{math.MaxInt, 14, math.MaxInt, math.MaxInt, math.MaxInt, false}); got != want {
		t.Errorf("%+v", got)
	}
	for want, u := range map[int]llm.Usage{0: {}, 5: {Input: 2, Output: 3}, 2: {Input: 2, Output: -3}, math.MaxInt: {Input: math.MaxInt, Output: 1}} {
		if got := u.Tokens(); got != want {
			t.Errorf("%+v: %d, want %d", u, got, want)
		}
	}
}

func TestCostOfNonsenseIsNotKnown(t *testing.T) {
	u := llm.Usage{Input: 1e6, Output: 1e6}
	for _, p := range []llm.Price{
		{}, {Input: -1}, {Input: 1, Output: math.NaN()}, {CachedInput: math.Inf(1)}, {Free: true, CacheWrite: math.Inf(-1)},
	} {
		if usd, known := p.Cost(u); usd != 0 || known {
			t.Errorf("%+v: $%v, %t", p, usd, known)
		}
	}
	if usd, known := (llm.Price{Input: 1, Output: 10}).Cost(llm.Usage{Input: -1e6, Output: -1e6, CachedInput: -5, CacheWrite: -5}); usd != 0 || !known {
		t.Errorf("negative counts: $%v, %t", usd, known)
	}
	if usd, known := (llm.Price{Input: 1, Output: 10, CachedInput: 0.5}).Cost(llm.Usage{Input: 1e6, CachedInput: 5e5, Output: 1e6}); usd != 10.75 || !known {
		t.Errorf("$%v, %t", usd, known)
	}
}
