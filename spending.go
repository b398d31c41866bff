package llm

// Usage counts tokens. Input includes CachedInput and CacheWrite, Output includes Reasoning, as the GenAI semantic
// conventions count them.
type Usage struct {
	Input, Output           int
	CachedInput, CacheWrite int
	Reasoning               int
	// Estimated marks numbers the provider did not report.
	Estimated bool
}

// Add is the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, Output: u.Output + v.Output,
		CachedInput: u.CachedInput + v.CachedInput, CacheWrite: u.CacheWrite + v.CacheWrite,
		Reasoning: u.Reasoning + v.Reasoning,
		Estimated: u.Estimated || v.Estimated,
	}
}

// A Price is in US dollars per million tokens. The zero value is an unknown price, not a free one.
type Price struct {
	Input, Output float64
	// CachedInput and CacheWrite price those parts of the input. 0: as Input.
	CachedInput, CacheWrite float64
	// Free says that the zero prices are meant.
	Free bool
}

// Cost is the price of u in US dollars; known is false where the price is unknown.
func (p Price) Cost(u Usage) (usd float64, known bool) {
	if p == (Price{}) {
		return 0, false
	}
	cached, write := p.CachedInput, p.CacheWrite
	if cached == 0 {
		cached = p.Input
	}
	if write == 0 {
		write = p.Input
	}
	plain := max(u.Input-u.CachedInput-u.CacheWrite, 0)
	return (float64(plain)*p.Input + float64(u.CachedInput)*cached + float64(u.CacheWrite)*write +
		float64(u.Output)*p.Output) / 1e6, true
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

// Add is the sum of s and o.
func (s Spending) Add(o Spending) Spending {
	return Spending{
		Attempts: s.Attempts + o.Attempts, Tokens: s.Tokens + o.Tokens, CostUSD: s.CostUSD + o.CostUSD,
		Estimated: s.Estimated || o.Estimated,
	}
}
