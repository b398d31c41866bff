package middleware

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/rough"
)

// budgetGate is the gate of one call, which counts the input of a request once, however often it is asked about it.
type budgetGate struct {
	*Budget
	last atomic.Pointer[countedInput]

	// What its attempts under way have reserved, under Budget.mu: the first two need no allocation.
	open [2]reservation
	more []reservation
}

type countedInput struct {
	of     *llm.Request
	tokens int
}

// A reservation is the most that an attempt can cost. It is kept for as long as that is under way: what is released has to be
// what was reserved, and a Counter does not count under a context that has ended.
type reservation struct {
	of     *llm.Attempt // nil: free for another
	input  int          // -1: not counted
	tokens int
	usd    float64
	priced bool // the price is known
}

func (r *reservation) spending() llm.Spending {
	return llm.Spending{Attempts: 1, Tokens: r.tokens, CostUSD: r.usd}
}

// Ask refuses what does not fit. Where the deployment is not known, only its own part is asked for: an attempt and time.
func (g *budgetGate) Ask(ctx context.Context, r *llm.Request, d *llm.Deployment, at time.Time) error {
	var want reservation
	if d != nil {
		want = g.worst(ctx, r, d)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fits(&want, d, at)
}

// attemptsLeft is how many attempts are neither made nor under way. math.MaxInt: they are not bounded.
func (b *Budget) attemptsLeft() int {
	if b.cfg.Attempts == 0 {
		return math.MaxInt
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.cfg.Attempts-b.used().Attempts, 0)
}

// Start reserves for an attempt.
func (g *budgetGate) Start(ctx context.Context, r *llm.Request, d *llm.Deployment, a *llm.Attempt) (context.Context, error) {
	want := g.worst(ctx, r, d)
	want.of = a
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.fits(&want, d, a.Start); err != nil {
		return ctx, err
	}
	g.reserve(&want)
	if g.cfg.Shared == nil || g.reserveShared(ctx, a, want.spending()) {
		return ctx, nil
	}
	g.release(a)
	if err := g.fits(&want, d, a.Start); err != nil {
		return ctx, err
	}
	return ctx, g.no(d, "the rest of the budget is reserved for an attempt of another process")
}

// End settles what Start reserved.
func (g *budgetGate) End(ctx context.Context, r *llm.Request, d *llm.Deployment, a *llm.Attempt) {
	is := g.charge(ctx, r, d.Price, a)
	g.mu.Lock()
	defer g.mu.Unlock()
	want := g.release(a)
	g.spent = g.spent.Add(is)
	g.settleShared(a, want, is)
}

// used is what is spent and reserved, here and elsewhere. It is called with mu held.
func (b *Budget) used() llm.Spending { return b.spent.Add(b.reserved).Add(b.elsewhere) }

// charge is what a, at a deployment of that price, has spent.
func (g *budgetGate) charge(ctx context.Context, r *llm.Request, price llm.Price, a *llm.Attempt) llm.Spending {
	if a.Skipped != "" {
		return llm.Spending{}
	}
	usage := g.consumed(ctx, r, a)
	cost, _ := g.price(price).Cost(usage)
	return llm.Spending{Attempts: 1, Tokens: usage.Tokens(), CostUSD: cost, Estimated: usage.Estimated}
}

// consumed is what a used, where the provider does not say it as far as it can be told: it may bill what it had.
func (g *budgetGate) consumed(ctx context.Context, r *llm.Request, a *llm.Attempt) llm.Usage {
	u := a.Usage
	if u == (llm.Usage{}) && a.Err != nil && a.Commit == llm.CommitNone {
		return u // it never had it
	}
	if u.Input <= 0 {
		u.Input, u.Estimated = g.counted(ctx, r, a), true
	}
	if came := a.OutputBytes(); came > 0 && u.Output <= 0 {
		u.Output, u.Estimated = roughTokens(came), true
	}
	return u
}

// counted is the input that was reserved for a.
func (g *budgetGate) counted(ctx context.Context, r *llm.Request, a *llm.Attempt) int {
	g.mu.Lock()
	input := -1
	if s := g.slot(a); s != nil {
		input = s.input
	}
	g.mu.Unlock()
	if input < 0 { // there is no ceiling for it
		input = g.input(ctx, r)
	}
	return input
}

// slot is where the reservation of a is kept. It is called with mu held.
func (g *budgetGate) slot(a *llm.Attempt) *reservation {
	for i := range g.open {
		if g.open[i].of == a {
			return &g.open[i]
		}
	}
	for i := range g.more {
		if g.more[i].of == a {
			return &g.more[i]
		}
	}
	return nil
}

// reserve is called with mu held.
func (g *budgetGate) reserve(want *reservation) {
	if free := g.slot(nil); free != nil {
		*free = *want
	} else {
		g.more = append(g.more, *want)
	}
	g.reserved.Attempts++
	g.reserved.Tokens += want.tokens
	g.reserved.CostUSD += want.usd
}

// release gives back what was reserved for a, and returns it. It is called with mu held.
func (g *budgetGate) release(a *llm.Attempt) (reserved llm.Spending) {
	was := g.slot(a)
	if was == nil {
		return llm.Spending{}
	}
	reserved = was.spending()
	g.reserved.Attempts--
	g.reserved.Tokens -= was.tokens
	g.reserved.CostUSD -= was.usd
	if g.reserved.Attempts == 0 { // what sums of floats leave over must not add up
		g.reserved.CostUSD = 0
	}
	*was = reservation{}
	return reserved
}

// price is that of a deployment, or what stands in for one that is not known.
func (b *Budget) price(own llm.Price) llm.Price {
	if own == (llm.Price{}) {
		return b.cfg.Price
	}
	return own
}

// worst is the most that an attempt can cost of what has a ceiling.
func (g *budgetGate) worst(ctx context.Context, r *llm.Request, d *llm.Deployment) reservation {
	if g.cfg.Tokens == 0 && g.cfg.CostUSD == 0 {
		return reservation{input: -1}
	}
	usage := llm.Usage{Input: g.input(ctx, r), Output: g.cfg.Output}
	switch {
	case r.MaxTokens > 0:
		usage.Output = r.MaxTokens
	case d.MaxOutput > 0:
		usage.Output = d.MaxOutput
	}
	s := reservation{input: usage.Input}
	if g.cfg.Tokens > 0 {
		s.tokens = usage.Tokens()
	}
	if g.cfg.CostUSD > 0 {
		s.usd, s.priced = g.price(d.Price).Cost(usage)
	}
	return s
}

func (g *budgetGate) input(ctx context.Context, r *llm.Request) int {
	if g.cfg.Counter != nil {
		if last := g.last.Load(); last != nil && last.of == r {
			return last.tokens
		}
		if n, err := g.cfg.Counter.CountTokens(ctx, r, 0); err == nil && n >= 0 {
			g.last.Store(&countedInput{r, n})
			return n
		}
	}
	return roughInput(r)
}

// roughInput is the input of r in tokens where nobody counts it: rather too many than too few.
func roughInput(r *llm.Request) int {
	bytes, media := rough.Input(r)
	return roughTokens(bytes) + 1500*media
}

// roughTokens is how many tokens the text is, likewise.
func roughTokens(bytes int) int { return (bytes + 2) / 3 }

// fits is called with mu held.
func (b *Budget) fits(want *reservation, d *llm.Deployment, at time.Time) error {
	c, used := &b.cfg, b.used() // nothing in it is negative, so no difference here is too large for an int
	no := func(format string, args ...any) error { return b.no(d, format, args...) }
	switch {
	case c.Attempts > 0 && c.Attempts-used.Attempts < 1:
		return no("the budget's %d attempts are used", c.Attempts)
	case c.Elapsed > 0 && at.Sub(b.start()) >= c.Elapsed:
		return no("the budget's %v are over", c.Elapsed)
	}
	if left := c.Tokens - used.Tokens; c.Tokens > 0 && want.tokens > left {
		return no("up to %d tokens do not fit the %d left of the budget's %d", want.tokens, max(left, 0), c.Tokens)
	}
	if c.CostUSD == 0 || d == nil {
		return nil
	}
	if !want.priced {
		return no("its price is not known and the budget is in US dollars; set Deployment.Price or BudgetConfig.Price")
	}
	// Sums of amounts such as 0.1 are off by less than a billionth, which must not make a difference.
	if left := c.CostUSD - used.CostUSD; want.usd > 0 && want.usd > left+c.CostUSD*1e-9 {
		asked, rest := dollars(want.usd, max(left, 0))
		return no("up to %s do not fit the %s left of the budget's $%.4g", asked, rest, c.CostUSD)
	}
	return nil
}

func (b *Budget) no(d *llm.Deployment, format string, args ...any) error {
	e := &llm.Error{Class: llm.Exhausted, Message: fmt.Sprintf(format, args...)}
	if d != nil {
		e.Deployment, e.Provider, e.Model = d.Name, d.Provider, d.Model
	}
	return e
}

// dollars are two amounts with as many digits as tell them apart, at least four.
func dollars(a, b float64) (string, string) {
	for digits := 4; ; digits++ {
		x, y := fmt.Sprintf("$%.*g", digits, a), fmt.Sprintf("$%.*g", digits, b)
		if x != y || digits == 17 {
			return x, y
		}
	}
}
