package middleware

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/rough"
)

// BudgetConfig sets [NewBudget] and [EachBudget]. At least one ceiling must be set; 0 is none.
type BudgetConfig struct {
	// Attempts is the ceiling of provider calls: first tries, retries and fallbacks of every layer.
	Attempts int
	// Elapsed is the ceiling of time, counted from when the budget is made.
	Elapsed time.Duration
	// Tokens is the ceiling of input and output tokens.
	Tokens int
	// CostUSD is the ceiling of money, in US dollars.
	CostUSD float64
	// Price stands in for deployments whose own is unknown. The zero value: with a ceiling of money, those are not called.
	Price llm.Price
	// Output is what is reserved for an answer, in tokens, where neither the request nor the deployment bounds it. 0: 4096.
	Output int
	// Counter counts the input that is reserved for. nil: a token for every three bytes of text, and 1500 for each image, file
	// or audio, which costs no time.
	Counter llm.TokenCounter
}

// A Budget is the ledger of a workflow: what it may spend, what it has spent, and what is reserved for the attempts under
// way. All calls that pass its Stage share it, those at the same time too, and together they never start an attempt whose
// worst case does not fit. It is safe for concurrent use.
type Budget struct {
	cfg   BudgetConfig
	began time.Time

	mu       sync.Mutex
	spent    Spending
	reserved Spending
}

// Spending is what a budget has spent.
type Spending struct {
	Attempts int
	Tokens   int
	CostUSD  float64
	// Estimated says that a part of it is not what a provider reported: attempts that were canceled or broke off, whose bill
	// may still come, and those whose provider reports no usage.
	Estimated bool
}

// NewBudget is a budget of which nothing is spent. It panics on negative amounts and without any ceiling.
func NewBudget(cfg BudgetConfig) *Budget {
	cfg.check()
	return &Budget{cfg: cfg, began: time.Now()}
}

func (c *BudgetConfig) check() {
	switch {
	case c.Attempts < 0 || c.Elapsed < 0 || c.Tokens < 0 || c.Output < 0 || !(c.CostUSD >= 0):
		panic(fmt.Sprintf("llm/middleware: Budget: Attempts %d, Elapsed %v, Tokens %d, CostUSD %v, Output %d: use 0 for no ceiling",
			c.Attempts, c.Elapsed, c.Tokens, c.CostUSD, c.Output))
	case c.Attempts == 0 && c.Elapsed == 0 && c.Tokens == 0 && c.CostUSD == 0:
		panic("llm/middleware: Budget: there is no ceiling; set one, or leave the stage out")
	}
	if c.Output == 0 {
		c.Output = 4096
	}
}

// Stage is the stage "budget": every attempt of the calls beneath is reserved for before it is made, settled with what the
// provider reports, and released if it cost nothing. An attempt that does not fit is refused at no cost with class Exhausted,
// before a wait for it too, so that a fallback goes on to a cheaper deployment: a model that is Free stays usable when the
// money is spent. When Elapsed is over, the context of the calls ends.
//
// What is reserved is the worst case: all of the input and the longest answer. Attempts that were canceled or broke off
// after the provider had them are charged with what is known of them, at least their input. An attempt whose price is not
// known is not made if there is a ceiling of money.
//
// Streams: the same. It belongs inside telemetry, outside deadline and everything that repeats or moves a call. It never ends
// an attempt that has begun, apart from Elapsed, so an answer that is longer than reserved for can exceed a ceiling by that
// much.
func (b *Budget) Stage() llm.Stage {
	return budgetStage(b.cfg, func() *Budget { return b })
}

// EachBudget is the stage "budget" with a budget of its own for each call.
func EachBudget(cfg BudgetConfig) llm.Stage {
	cfg.check()
	return budgetStage(cfg, func() *Budget { return &Budget{cfg: cfg, began: time.Now()} })
}

func budgetStage(cfg BudgetConfig, of func() *Budget) llm.Stage {
	return llm.Stage{Name: "budget", Config: cfg, Wrap: wrapping("Budget", func(next llm.Caller) llm.Caller {
		return &budgeted{next: next, cfg: cfg, of: of}
	})}
}

type budgeted struct {
	next llm.Caller
	cfg  BudgetConfig
	of   func() *Budget
}

func (s *budgeted) Describe() llm.Node {
	return llm.Node{Name: "budget", Config: s.cfg, Children: []llm.Node{llm.Describe(s.next)}}
}

func (s *budgeted) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil {
		return s.next.Call(ctx, nil)
	}
	b, limited := s.of(), ctx
	if s.cfg.Elapsed > 0 {
		end := b.began.Add(s.cfg.Elapsed)
		if theirs, ok := ctx.Deadline(); !ok || end.Before(theirs) {
			over := limit(llm.Exhausted, "the budget's %v ran out", s.cfg.Elapsed)
			over.Err = context.DeadlineExceeded
			c := &lazyCtx{parent: ctx, end: end, cause: over}
			defer c.stop()
			limited = c
		}
	}
	r := req.Accounted()
	defer r.Enforce(b).Lift()
	resp, err := s.next.Call(limited, r)
	if err != nil {
		return nil, keepLastFailure(r, explain(limited, err))
	}
	return resp, nil
}

// Spent is what was spent so far, without what is reserved for attempts under way.
func (b *Budget) Spent() Spending {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}

// Charge adds what was spent elsewhere on the same work, such as the attempts of an upstream client (see
// [UpstreamAttempts]). It may exceed a ceiling; then nothing more is started.
func (b *Budget) Charge(s Spending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent.add(s, 1)
}

func (s *Spending) add(o Spending, sign int) {
	s.Attempts += sign * o.Attempts
	s.Tokens += sign * o.Tokens
	s.CostUSD += float64(sign) * o.CostUSD
	s.Estimated = s.Estimated || o.Estimated
}

// String is what is spent of what: "2 of 3 attempts, 1200 of 5000 tokens, $0.0031 of $0.02".
func (b *Budget) String() string {
	s, text := b.Spent(), ""
	add := func(format string, args ...any) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf(format, args...)
	}
	if b.cfg.Attempts > 0 {
		add("%d of %d attempts", s.Attempts, b.cfg.Attempts)
	}
	if b.cfg.Tokens > 0 {
		add("%d of %d tokens", s.Tokens, b.cfg.Tokens)
	}
	if b.cfg.CostUSD > 0 {
		add("$%.4g of $%.4g", s.CostUSD, b.cfg.CostUSD)
	}
	if b.cfg.Elapsed > 0 {
		add("%v of %v", shortly(time.Since(b.began)), b.cfg.Elapsed)
	}
	return text
}

// Ask refuses what does not fit. Where the deployment is not known, only its own part is asked for: an attempt and time.
func (b *Budget) Ask(ctx context.Context, r *llm.Request, d *llm.Deployment, at time.Time) error {
	want := Spending{Attempts: 1}
	if d != nil {
		want = b.worst(ctx, r, d)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fits(want, d, at)
}

// Start reserves for an attempt.
func (b *Budget) Start(ctx context.Context, r *llm.Request, d *llm.Deployment, a *llm.Attempt) (context.Context, error) {
	want := b.worst(ctx, r, d)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.fits(want, d, a.Start); err != nil {
		return ctx, err
	}
	b.reserved.add(want, 1)
	return ctx, nil
}

// End settles what Start reserved.
func (b *Budget) End(ctx context.Context, r *llm.Request, d *llm.Deployment, a *llm.Attempt) {
	want := b.worst(ctx, r, d)
	is := Spending{Attempts: 1}
	usage := a.Usage
	switch {
	case a.Skipped != "":
		is = Spending{}
	case usage == (llm.Usage{}) && (a.Err == nil || a.Commit != llm.CommitNone):
		usage = llm.Usage{Input: b.input(ctx, r), Estimated: true} // the provider had it, and may bill it
		fallthrough
	default:
		is.Tokens, is.Estimated = usage.Input+usage.Output, usage.Estimated
		is.CostUSD, _ = b.price(d).Cost(usage)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved.add(want, -1)
	b.spent.add(is, 1)
}

func (b *Budget) price(d *llm.Deployment) llm.Price {
	if d.Price == (llm.Price{}) {
		return b.cfg.Price
	}
	return d.Price
}

// worst is the most that an attempt can cost. A negative cost is one that is not known.
func (b *Budget) worst(ctx context.Context, r *llm.Request, d *llm.Deployment) Spending {
	s := Spending{Attempts: 1}
	if b.cfg.Tokens == 0 && b.cfg.CostUSD == 0 {
		return s
	}
	usage := llm.Usage{Input: b.input(ctx, r), Output: b.cfg.Output}
	switch {
	case r.MaxTokens > 0:
		usage.Output = r.MaxTokens
	case d.MaxOutput > 0:
		usage.Output = d.MaxOutput
	}
	s.Tokens = usage.Input + usage.Output
	s.CostUSD, _ = b.price(d).Cost(usage)
	return s
}

func (b *Budget) input(ctx context.Context, r *llm.Request) int {
	if b.cfg.Counter != nil {
		if n, err := b.cfg.Counter.CountTokens(ctx, r, 0); err == nil {
			return n
		}
	}
	bytes, media := rough.Input(r)
	return (bytes+2)/3 + 1500*media
}

// fits is called with mu held.
func (b *Budget) fits(want Spending, d *llm.Deployment, at time.Time) error {
	c := &b.cfg
	no := func(format string, args ...any) error {
		e := &llm.Error{Class: llm.Exhausted, Message: fmt.Sprintf(format, args...)}
		if d != nil {
			e.Deployment, e.Provider, e.Model = d.Name, d.Provider, d.Model
		}
		return e
	}
	switch {
	case c.Attempts > 0 && b.spent.Attempts+b.reserved.Attempts+want.Attempts > c.Attempts:
		return no("the budget's %d attempts are used", c.Attempts)
	case c.Elapsed > 0 && at.Sub(b.began) >= c.Elapsed:
		return no("the budget's %v are over", c.Elapsed)
	case c.Tokens > 0 && b.spent.Tokens+b.reserved.Tokens+want.Tokens > c.Tokens:
		return no("up to %d tokens do not fit the %d left of the budget's %d", want.Tokens,
			max(c.Tokens-b.spent.Tokens-b.reserved.Tokens, 0), c.Tokens)
	case c.CostUSD == 0 || d == nil:
		return nil
	case b.price(d) == (llm.Price{}):
		return no("its price is not known and the budget is in US dollars; set Deployment.Price or BudgetConfig.Price")
	case want.CostUSD > 0 && b.spent.CostUSD+b.reserved.CostUSD+want.CostUSD > c.CostUSD:
		return no("up to $%.4g do not fit the $%.4g left of the budget's $%.4g", want.CostUSD,
			max(c.CostUSD-b.spent.CostUSD-b.reserved.CostUSD, 0), c.CostUSD)
	}
	return nil
}
