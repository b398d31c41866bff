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
}

type countedInput struct {
	of     *llm.Request
	tokens int
}

// Ask refuses what does not fit. Where the deployment is not known, only its own part is asked for: an attempt and time.
func (g *budgetGate) Ask(ctx context.Context, r *llm.Request, d *llm.Deployment, at time.Time) error {
	want := llm.Spending{Attempts: 1}
	if d != nil {
		want = g.worst(ctx, r, d)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fits(want, d, at)
}

// attemptsLeft is how many attempts are neither made nor under way. math.MaxInt: they are not bounded.
func (b *Budget) attemptsLeft() int {
	if b.cfg.Attempts == 0 {
		return math.MaxInt
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg.Attempts - b.used().Attempts
}

// Start reserves for an attempt.
func (g *budgetGate) Start(ctx context.Context, r *llm.Request, d *llm.Deployment, a *llm.Attempt) (context.Context, error) {
	want := g.worst(ctx, r, d)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.fits(want, d, a.Start); err != nil {
		return ctx, err
	}
	g.reserved = g.reserved.Add(want)
	if g.cfg.Shared == nil || g.reserveShared(ctx, a, want) {
		return ctx, nil
	}
	g.reserved = g.reserved.Add(negative(want))
	if err := g.fits(want, d, a.Start); err != nil {
		return ctx, err
	}
	return ctx, g.no(d, "the rest of the budget is reserved for an attempt of another process")
}

// End settles what Start reserved.
func (g *budgetGate) End(ctx context.Context, r *llm.Request, d *llm.Deployment, a *llm.Attempt) {
	want := g.worst(ctx, r, d)
	is := llm.Spending{Attempts: 1}
	usage := a.Usage
	switch {
	case a.Skipped != "":
		is = llm.Spending{}
	case usage == (llm.Usage{}) && (a.Err == nil || a.Commit != llm.CommitNone):
		usage = llm.Usage{Input: g.input(ctx, r), Estimated: true} // the provider had it, and may bill it
		fallthrough
	default:
		is.Tokens, is.Estimated = usage.Input+usage.Output, usage.Estimated
		is.CostUSD, _ = g.price(d).Cost(usage)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reserved = g.reserved.Add(negative(want))
	g.spent = g.spent.Add(is)
	g.settleShared(a, want, is)
}

// used is what is spent and reserved. The caller holds mu.
func (b *Budget) used() llm.Spending { return b.spent.Add(b.reserved).Add(b.elsewhere) }

func (b *Budget) price(d *llm.Deployment) llm.Price {
	if d.Price == (llm.Price{}) {
		return b.cfg.Price
	}
	return d.Price
}

// worst is the most that an attempt can cost.
func (g *budgetGate) worst(ctx context.Context, r *llm.Request, d *llm.Deployment) llm.Spending {
	s := llm.Spending{Attempts: 1}
	if g.cfg.Tokens == 0 && g.cfg.CostUSD == 0 {
		return s
	}
	usage := llm.Usage{Input: g.input(ctx, r), Output: g.cfg.Output}
	switch {
	case r.MaxTokens > 0:
		usage.Output = r.MaxTokens
	case d.MaxOutput > 0:
		usage.Output = d.MaxOutput
	}
	s.Tokens = usage.Input + usage.Output
	s.CostUSD, _ = g.price(d).Cost(usage)
	return s
}

func (g *budgetGate) input(ctx context.Context, r *llm.Request) int {
	if g.cfg.Counter != nil {
		if last := g.last.Load(); last != nil && last.of == r {
			return last.tokens
		}
		if n, err := g.cfg.Counter.CountTokens(ctx, r, 0); err == nil {
			g.last.Store(&countedInput{r, n})
			return n
		}
	}
	bytes, media := rough.Input(r)
	return (bytes+2)/3 + 1500*media
}

// fits is called with mu held.
func (b *Budget) fits(want llm.Spending, d *llm.Deployment, at time.Time) error {
	c, used := &b.cfg, b.used()
	no := func(format string, args ...any) error { return b.no(d, format, args...) }
	switch {
	case c.Attempts > 0 && used.Attempts+want.Attempts > c.Attempts:
		return no("the budget's %d attempts are used", c.Attempts)
	case c.Elapsed > 0 && at.Sub(b.start()) >= c.Elapsed:
		return no("the budget's %v are over", c.Elapsed)
	case c.Tokens > 0 && used.Tokens+want.Tokens > c.Tokens:
		return no("up to %d tokens do not fit the %d left of the budget's %d", want.Tokens,
			max(c.Tokens-used.Tokens, 0), c.Tokens)
	case c.CostUSD == 0 || d == nil:
		return nil
	case b.price(d) == (llm.Price{}):
		return no("its price is not known and the budget is in US dollars; set Deployment.Price or BudgetConfig.Price")
	case want.CostUSD > 0 && used.CostUSD+want.CostUSD > c.CostUSD:
		return no("up to $%.4g do not fit the $%.4g left of the budget's $%.4g", want.CostUSD,
			max(c.CostUSD-used.CostUSD, 0), c.CostUSD)
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
