package middleware_test

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func TestBudgetHoldsForTheLargestNumbers(t *testing.T) {
	most := llm.Spending{Attempts: math.MaxInt, Tokens: math.MaxInt, CostUSD: math.MaxFloat64}
	for name, test := range map[string]struct {
		cfg    middleware.BudgetConfig
		longer int // MaxTokens
		spent  []llm.Spending
		says   string
	}{
		"the longest answer":  {cfg: middleware.BudgetConfig{Tokens: 100}, longer: math.MaxInt, says: "do not fit the 100 left"},
		"its price":           {cfg: middleware.BudgetConfig{CostUSD: 1}, longer: math.MaxInt, says: "do not fit the $1 left"},
		"attempts elsewhere":  {cfg: middleware.BudgetConfig{Attempts: 3}, spent: []llm.Spending{most}, says: "3 attempts are used"},
		"and again":           {cfg: middleware.BudgetConfig{Attempts: 3}, spent: []llm.Spending{most, most}, says: "3 attempts are used"},
		"tokens elsewhere":    {cfg: middleware.BudgetConfig{Tokens: 1000}, spent: []llm.Spending{most, most}, says: "the 0 left"},
		"money elsewhere":     {cfg: middleware.BudgetConfig{CostUSD: 1}, spent: []llm.Spending{most, most}, says: "the $0 left"},
		"money without end":   {cfg: middleware.BudgetConfig{CostUSD: 1}, spent: []llm.Spending{{CostUSD: math.Inf(1)}}, says: "the $0 left"},
		"nobody knows what":   {cfg: middleware.BudgetConfig{CostUSD: 1}, spent: []llm.Spending{{CostUSD: math.NaN()}}, says: "the $0 left"},
		"a ceiling that high": {cfg: middleware.BudgetConfig{Tokens: math.MaxInt}, spent: []llm.Spending{most}, says: "the 0 left"},
	} {
		model := llmtest.Script(used(10, 10))
		b := middleware.NewBudget(test.cfg)
		own := budgetAsk()
		for _, s := range test.spent {
			b.Charge(s)
			own.Spent = own.Spent.Add(s)
		}
		if test.longer > 0 {
			own.MaxTokens = test.longer
		}
		for which, stage := range map[string]llm.Stage{"one": b.Stage(), "each": middleware.EachBudget(test.cfg)} {
			_, err := llm.New(stage).Then(priced("d", model)).Call(t.Context(), own)
			if !errors.Is(err, llm.Exhausted) || model.Count() != 0 || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s, %s: %v after %d calls, want %q", name, which, err, model.Count(), test.says)
			}
		}
	}
}

func TestBudgetGivesNothingBackForNegativeNumbers(t *testing.T) {
	less := llm.Spending{Attempts: -10, Tokens: -10_000, CostUSD: -10}
	failing := llmtest.Script(llmtest.Fail(llm.Unavailable))
	cfg := middleware.BudgetConfig{Attempts: 1}
	req := budgetAsk()
	req.Spent = less
	again := middleware.Retry(middleware.RetryConfig{Base: 1, Max: 5})
	if _, err := llm.New(middleware.EachBudget(cfg), again).Then(priced("d", failing)).Call(t.Context(), req); err == nil || failing.Count() != 1 {
		t.Errorf("Request.Spent: %v after %d calls, want 1", err, failing.Count())
	}
	b, chat := budgeted(middleware.BudgetConfig{Tokens: 1000, CostUSD: 1}, priced("d", llmtest.Script(used(-5000, -5000), used(100, 100))))
	b.Charge(less)
	spent(t, b, 0, 0, 0, false)
	for range 2 { // a provider's counts may be nonsense, too
		if _, err := chat.Call(t.Context(), budgetAsk()); err != nil {
			t.Fatal(err)
		}
	}
	spent(t, b, 2, 100+1+200, 0.0001+0.00001+0.0011, true)
}

func TestBudgetIsNotPoisonedByAPriceThatIsNone(t *testing.T) {
	b := middleware.NewBudget(middleware.BudgetConfig{CostUSD: 1, Tokens: 1e6})
	for _, price := range []llm.Price{
		{Input: math.NaN()}, {Input: -5, Output: 1}, {Output: math.Inf(1)}, {Input: 1, CachedInput: math.NaN()}, {Input: 1, CacheWrite: -1},
	} {
		model := llmtest.Script(used(100, 100))
		d := priced("d", model)
		d.Price = price
		// In a Fallback nobody looks at it before the call.
		_, err := llm.New(b.Stage()).Then(fallbackTo(d)).Call(t.Context(), budgetAsk())
		if !errors.Is(err, llm.Invalid) || model.Count() != 0 || !strings.Contains(err.Error(), `Deployment "d"`) || !strings.Contains(err.Error(), "Price") {
			t.Errorf("%+v: %v after %d calls", price, err, model.Count())
		}
		if got := panicOf(func() { llm.New(b.Stage()).Then(d) }); !strings.Contains(got, "Price") {
			t.Errorf("%+v: %q", price, got)
		}
	}
	spent(t, b, 0, 0, 0, false)
	if _, err := llm.New(b.Stage()).Then(priced("d", llmtest.Script(used(100, 100)))).Call(t.Context(), budgetAsk()); err != nil {
		t.Error(err)
	}
	spent(t, b, 1, 200, 0.0011, false)
}

func TestBudgetLetsThroughWhatFitsExactly(t *testing.T) {
	for _, test := range []struct {
		usd   float64
		calls int
	}{{0.3, 3}, {0.7, 7}, {1, 10}, {2.3, 23}, {100, 1000}} {
		model := llmtest.Script(used(1, 1000))
		d := priced("d", model)
		d.Price = llm.Price{Output: 100} // $0.1 a call
		b, chat := budgeted(middleware.BudgetConfig{CostUSD: test.usd}, d)
		req := &llm.Request{System: "x", MaxTokens: 1000}
		for i := range test.calls {
			if _, err := chat.Call(t.Context(), req); err != nil {
				t.Fatalf("$%v, call %d: %v", test.usd, i+1, err)
			}
		}
		if _, err := chat.Call(t.Context(), req); !errors.Is(err, llm.Exhausted) || model.Count() != test.calls {
			t.Errorf("$%v: %v after %d calls", test.usd, err, model.Count())
		}
		if s := b.Spent(); s.Attempts != test.calls || s.Tokens != 1001*test.calls {
			t.Errorf("$%v: spent %+v", test.usd, s)
		}
	}
}

func TestBudgetSaysByHowLittleAnAttemptDoesNotFit(t *testing.T) {
	d := priced("d", llmtest.Script())
	d.Price = llm.Price{Output: 100}
	_, chat := budgeted(middleware.BudgetConfig{CostUSD: 100}, d)
	_, err := chat.Call(t.Context(), &llm.Request{System: "x", MaxTokens: 1_000_001})
	if err == nil || !strings.Contains(err.Error(), "up to $100.0001 do not fit the $100 left of the budget's $100") {
		t.Errorf("%v", err)
	}
}

func TestBudgetPanicsOnAmountsThatAreNone(t *testing.T) {
	for want, cfg := range map[string]middleware.BudgetConfig{
		"CostUSD NaN":       {CostUSD: math.NaN()},
		"CostUSD +Inf":      {CostUSD: math.Inf(1)},
		"Price {Input:-1":   {CostUSD: 1, Price: llm.Price{Input: -1}},
		"Price {Input:NaN":  {CostUSD: 1, Price: llm.Price{Input: math.NaN()}},
		"Price {Input:+Inf": {Attempts: 1, Price: llm.Price{Input: math.Inf(1)}},
	} {
		for _, f := range []func(){func() { middleware.NewBudget(cfg) }, func() { middleware.EachBudget(cfg) }} {
			if got := panicOf(f); !strings.Contains(got, want) {
				t.Errorf("%+v: %q, want %q", cfg, got, want)
			}
		}
	}
}

// Without NewBudget there is no ceiling, which nobody means.
func TestBudgetThatNobodyMadePanics(t *testing.T) {
	for _, b := range []*middleware.Budget{nil, {}} {
		if got := panicOf(func() { b.Stage() }); !strings.Contains(got, "Budget: ") || !strings.Contains(got, "NewBudget") {
			t.Errorf("%q", got)
		}
	}
}

func TestBudgetTwiceInTheWayOfACallCountsOnce(t *testing.T) {
	b := middleware.NewBudget(middleware.BudgetConfig{Attempts: 3, Tokens: 700})
	model := llmtest.Script(used(100, 100))
	for name, chat := range map[string]llm.Caller{
		"in a chain": llm.New(b.Stage(), b.Stage()).Then(priced("d", model)),
		"in a route": llm.New(b.Stage()).Then(fallbackTo(llm.New(b.Stage()).Then(priced("d", model)))),
		"in a hedge": llm.New(b.Stage()).Then(middleware.Hedge(middleware.HedgeConfig{}, llm.New(b.Stage()).Then(priced("d", model)), priced("e", model))),
	} {
		if _, err := chat.Call(t.Context(), budgetAsk()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	spent(t, b, 3, 600, 0.0033, false)
	// Two budgets are two, also where they are alike.
	cfg := middleware.BudgetConfig{Attempts: 2}
	work, route := middleware.NewBudget(cfg), middleware.NewBudget(cfg)
	if _, err := llm.New(work.Stage(), route.Stage()).Then(priced("d", model)).Call(t.Context(), budgetAsk()); err != nil {
		t.Error(err)
	}
	spent(t, work, 1, 200, 0.0011, false)
	spent(t, route, 1, 200, 0.0011, false)
}

func TestBudgetWhoseTimeIsOverBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script()
		b, chat := budgeted(middleware.BudgetConfig{Elapsed: time.Second}, fallbackTo(priced("d", model), priced("e", model)))
		llmtest.Advance(3 * time.Second)
		r := &reader{}
		start := time.Now()
		for _, req := range []*llm.Request{budgetAsk(), r.ask()} {
			_, err := chat.Call(t.Context(), req)
			if !errors.Is(err, llm.Exhausted) || !strings.Contains(err.Error(), "the budget's 1s") || model.Count() != 0 || time.Since(start) != 0 {
				t.Errorf("%v after %d calls and %v", err, model.Count(), time.Since(start))
			}
		}
		spent(t, b, 0, 0, 0, false)
		if got := b.String(); got != "3s of 1s" {
			t.Errorf("%q", got)
		}
	})
}

// What was reserved by many at once is gone when they ended, to the last cent.
func TestBudgetReleasesAllThatItReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := priced("d", llmtest.Script(llmtest.Step{Delay: time.Second, Err: llm.Unavailable}))
		d.Price = llm.Price{Output: 33.3}
		b, chat := budgeted(middleware.BudgetConfig{CostUSD: 0.0333, Attempts: 100}, d)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() { _, _ = chat.Call(t.Context(), &llm.Request{System: "x", MaxTokens: 3 + i}) })
		}
		wg.Wait()
		if s := b.Spent(); s.CostUSD != 0 || s.Attempts < 20 {
			t.Fatalf("%+v", s)
		}
		d.Caller = llmtest.Script(used(1, 1000))
		if _, err := chat.Call(t.Context(), &llm.Request{System: "x", MaxTokens: 1000}); err != nil {
			t.Error(err)
		}
	})
}
