package middleware

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/modelchain/llm"
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
	// Shared shares a budget of NewBudget with all processes that use the same store and the same Workflow, which is the id of
	// this piece of work and must be set. All of them should give it the same ceilings. nil: it is this process's own.
	Shared   *Spends
	Workflow string
}

// A Budget is the ledger of a workflow: what it may spend, what it has spent, and what is reserved for the attempts under
// way. All calls that pass its Stage share it, those at the same time too, and together they never start an attempt whose
// worst case does not fit. It is safe for concurrent use.
type Budget struct {
	cfg   BudgetConfig
	began time.Time

	mu       sync.Mutex
	spent    llm.Spending
	reserved llm.Spending

	elsewhere llm.Spending // what others have spent and reserved, as far as known
	shared    budgetShare
}

func (b *Budget) start() time.Time { return b.began.Add(-time.Duration(b.shared.older.Load())) }

// NewBudget is a budget of which nothing is spent, or with Shared what its workflow has spent, which is asked for before its
// first attempt. It panics on amounts that are none (negative, infinite, NaN), in the Price too, without any ceiling, and on
// Shared without a Workflow.
func NewBudget(cfg BudgetConfig) *Budget {
	cfg.check()
	if cfg.Shared != nil && cfg.Workflow == "" {
		panic("llm/middleware: Budget: it is Shared and has no Workflow; processes know it by that")
	}
	return &Budget{cfg: cfg, began: time.Now()}
}

func (c *BudgetConfig) check() {
	_, priced := c.Price.Cost(llm.Usage{})
	switch {
	case c.Price != (llm.Price{}) && !priced:
		panic(fmt.Sprintf("llm/middleware: Budget: Price %+v: use US dollars for a million tokens, or leave it out", c.Price))
	case c.Attempts < 0 || c.Elapsed < 0 || c.Tokens < 0 || c.Output < 0 || !(c.CostUSD >= 0 && c.CostUSD <= math.MaxFloat64):
		panic(fmt.Sprintf("llm/middleware: Budget: Attempts %d, Elapsed %v, Tokens %d, CostUSD %v, Output %d: use 0 for no ceiling",
			c.Attempts, c.Elapsed, c.Tokens, c.CostUSD, c.Output))
	case c.Attempts == 0 && c.Elapsed == 0 && c.Tokens == 0 && c.CostUSD == 0:
		panic("llm/middleware: Budget: there is no ceiling; set one, or leave the stage out")
	}
	if c.Output == 0 {
		c.Output = 4096
	}
}

// Room is all that the ceilings allow.
func (c BudgetConfig) Room() Room {
	r := NoLimit()
	if c.Elapsed > 0 {
		r.Time = c.Elapsed
	}
	if c.Attempts > 0 {
		r.Attempts = c.Attempts
	}
	if c.Tokens > 0 {
		r.Tokens = c.Tokens
	}
	if c.CostUSD > 0 {
		r.CostUSD = c.CostUSD
	}
	return r
}

// Stage is the stage "budget": every attempt of the calls beneath is reserved for before it is made, settled with what the
// provider reports, and released if it cost nothing. An attempt that does not fit is refused at no cost with class Exhausted,
// before a wait for it too, so that a fallback goes on to a cheaper deployment: a model that is Free stays usable when the
// money is spent. When Elapsed is over, the context of the calls ends.
//
// What is reserved is the worst case: all of the input and the longest answer. Attempts that were canceled or broke off
// after the provider had them are charged with what is known of them, at least their input. What nobody reports is estimated:
// the input as reserved, and the output by the text that came, a token for every three bytes. An attempt whose price is not
// known is not made if there is a ceiling of money. A ceiling of money holds to a billionth of it.
//
// Streams: the same. It belongs inside telemetry, outside deadline and everything that repeats or moves a call. It never ends
// an attempt that has begun, apart from Elapsed, so an answer that is longer than reserved for can exceed a ceiling by that
// much. Within another stage of the same Budget it does nothing. It panics if NewBudget did not make the Budget.
func (b *Budget) Stage() llm.Stage {
	if b == nil || b.began.IsZero() {
		panic("llm/middleware: Budget: it has no ceiling; make it with NewBudget")
	}
	return budgetStage(b.cfg, func(*llm.Request) *Budget { return b })
}

// EachBudget is the stage "budget" with a budget of its own for each call, of which Request.Spent is spent, as if by
// [Budget.Charge]. Several are several budgets, each of which counts every attempt that passes it. It panics on Shared, too: a
// call is made in one process.
func EachBudget(cfg BudgetConfig) llm.Stage {
	cfg.check()
	if cfg.Shared != nil {
		panic("llm/middleware: EachBudget: a budget of one call cannot be Shared; make one with NewBudget for each workflow")
	}
	return budgetStage(cfg, func(r *llm.Request) *Budget { return &Budget{cfg: cfg, began: time.Now(), spent: charged(r.Spent)} })
}

func budgetStage(cfg BudgetConfig, of func(*llm.Request) *Budget) llm.Stage {
	return llm.Stage{Name: "budget", Config: cfg, Wrap: wrapping("Budget", func(next llm.Caller) llm.Caller {
		return &budgeted{next: next, cfg: cfg, of: of}
	})}
}

type budgeted struct {
	next llm.Caller
	cfg  BudgetConfig
	of   func(*llm.Request) *Budget
}

func (s *budgeted) Describe() llm.Node {
	return llm.Node{Name: "budget", Config: s.cfg, Children: []llm.Node{llm.Describe(s.next)}}
}

func (s *budgeted) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil {
		return s.next.Call(ctx, nil)
	}
	b, limited := s.of(req), ctx
	if b.counts(req) {
		return s.next.Call(ctx, req)
	}
	if s.cfg.Elapsed > 0 {
		end := b.start().Add(s.cfg.Elapsed)
		if theirs, ok := ctx.Deadline(); !ok || end.Before(theirs) {
			over := limit(llm.Exhausted, "the budget's %v ran out", s.cfg.Elapsed)
			over.Err = context.DeadlineExceeded
			c := &lazyCtx{parent: ctx, end: end, cause: over}
			defer c.stop()
			limited = c
		}
	}
	r := req.Accounted()
	defer r.Enforce(&budgetGate{Budget: b}).Lift()
	resp, err := s.next.Call(limited, r)
	if err != nil {
		return nil, keepLastFailure(r, explain(limited, err))
	}
	return resp, nil
}

// counts reports whether b is in force for r.
func (b *Budget) counts(r *llm.Request) bool {
	for g := range r.Gates() {
		if in, ok := g.(*budgetGate); ok && in.Budget == b {
			return true
		}
	}
	return false
}

// Spent is what was spent so far, without what is reserved for attempts under way. With Shared it is what all have spent, as far
// as this process knows, and what the others have reserved.
func (b *Budget) Spent() llm.Spending {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent.Add(b.elsewhere)
}

// Charge adds what was spent elsewhere on the same work, such as the attempts of an upstream client (see
// [UpstreamAttempts]). It may exceed a ceiling; then nothing more is started. Nothing is given back: negative amounts count
// as 0. Money that is NaN is more than there is.
func (b *Budget) Charge(s llm.Spending) {
	b.mu.Lock()
	s = charged(s)
	b.spent = b.spent.Add(s)
	b.mu.Unlock()
	if b.cfg.Shared != nil {
		b.cfg.Shared.settle(b, rand.Text(), llm.Spending{}, s, true)
	}
}

// charged is s as a ledger takes it in.
func charged(s llm.Spending) llm.Spending {
	s.Attempts, s.Tokens, s.CostUSD = max(s.Attempts, 0), max(s.Tokens, 0), max(s.CostUSD, 0)
	if math.IsNaN(s.CostUSD) {
		s.CostUSD = math.Inf(1)
	}
	return s
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
		add("%v of %v", shortly(time.Since(b.start())), b.cfg.Elapsed)
	}
	return text
}
