package llm

import "math"

// Usage counts tokens. Input includes CachedInput and CacheWrite, Output includes Reasoning, as the GenAI semantic
// conventions count them.
type Usage struct {
	Input, Output           int
	CachedInput, CacheWrite int
	Reasoning               int
	// Estimated marks numbers the provider did not report.
	Estimated bool
}

// Add is the sum of u and v. What an int cannot hold is the largest or smallest.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: sum(u.Input, v.Input), Output: sum(u.Output, v.Output),
		CachedInput: sum(u.CachedInput, v.CachedInput), CacheWrite: sum(u.CacheWrite, v.CacheWrite),
		Reasoning: sum(u.Reasoning, v.Reasoning),
		Estimated: u.Estimated || v.Estimated,
	}
}

// Tokens is the input and the output, at most math.MaxInt. Negative numbers count as 0.
func (u Usage) Tokens() int { return sum(max(u.Input, 0), max(u.Output, 0)) }

// sum is a + b, or what of an int comes next to it: a ledger that wraps around has room for everything.
func sum(a, b int) int {
	switch {
	case b > 0 && a > math.MaxInt-b:
		return math.MaxInt
	case b < 0 && a < math.MinInt-b:
		return math.MinInt
	}
	return a + b
}

// A Price is in US dollars per million tokens. The zero value is an unknown price, not a free one. Negative and infinite
// numbers and NaN are no prices: a [Deployment] refuses to be called for them.
type Price struct {
	Input, Output float64
	// CachedInput and CacheWrite price those parts of the input. 0: as Input.
	CachedInput, CacheWrite float64
	// Free says that the zero prices are meant.
	Free bool
}

// sound reports whether p can be the price of something, or is the unknown one.
func (p *Price) sound() bool {
	return p.Input >= 0 && p.Input <= math.MaxFloat64 && p.Output >= 0 && p.Output <= math.MaxFloat64 &&
		p.CachedInput >= 0 && p.CachedInput <= math.MaxFloat64 && p.CacheWrite >= 0 && p.CacheWrite <= math.MaxFloat64
}

// Cost is the price of u in US dollars; known is false where the price is unknown, or none. Negative counts are free.
func (p Price) Cost(u Usage) (usd float64, known bool) {
	if p == (Price{}) || !p.sound() {
		return 0, false
	}
	cached, write := p.CachedInput, p.CacheWrite
	if cached == 0 {
		cached = p.Input
	}
	if write == 0 {
		write = p.Input
	}
	reads, writes := max(u.CachedInput, 0), max(u.CacheWrite, 0)
	plain := max(max(u.Input, 0)-reads-writes, 0)
	return (float64(plain)*p.Input + float64(reads)*cached + float64(writes)*write +
		float64(max(u.Output, 0))*p.Output) / 1e6, true
}

// Spending is what was spent on a piece of work.
type Spending struct {
	Attempts int
	Tokens   int // input and output
	CostUSD  float64
	// Estimated says that a part of it is not what a provider reported: attempts that were canceled or broke off, whose bill
	// may still come, and those whose provider reports no usage.
	Estimated bool
}

// Add is the sum of s and o. What an int cannot hold is the largest or smallest.
func (s Spending) Add(o Spending) Spending {
	return Spending{
		Attempts: sum(s.Attempts, o.Attempts), Tokens: sum(s.Tokens, o.Tokens), CostUSD: s.CostUSD + o.CostUSD,
		Estimated: s.Estimated || o.Estimated,
	}
}
