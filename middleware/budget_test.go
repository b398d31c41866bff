package middleware_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// priced is a deployment at a dollar for a million tokens in and ten for a million out.
func priced(name string, model llm.Caller) *llm.Deployment {
	return &llm.Deployment{Name: name, Provider: "test", Model: "m-" + name, Caller: model, Price: llm.Price{Input: 1, Output: 10}}
}

func budgetAsk() *llm.Request {
	return &llm.Request{System: strings.Repeat("x", 300), MaxTokens: 100} // 100 tokens in, 100 out: $0.0011 at most
}

func used(in, out int) llmtest.Step {
	return llmtest.Step{Response: &llm.Response{Parts: []llm.Part{llm.Text("ok")}, Usage: llm.Usage{Input: in, Output: out}}}
}

func budgeted(cfg middleware.BudgetConfig, c llm.Caller) (*middleware.Budget, llm.Caller) {
	b := middleware.NewBudget(cfg)
	return b, llm.New(b.Stage()).Then(c)
}

func spent(t *testing.T, b *middleware.Budget, attempts, tokens int, usd float64, estimated bool) {
	t.Helper()
	got := b.Spent()
	if got.Attempts != attempts || got.Tokens != tokens || got.CostUSD < usd-1e-12 || got.CostUSD > usd+1e-12 || got.Estimated != estimated {
		t.Errorf("spent %+v, want %d attempts, %d tokens, $%v, estimated %t", got, attempts, tokens, usd, estimated)
	}
}

func TestBudgetCountsTheAttemptsOfEveryLayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := llmtest.Script(llmtest.Fail(llm.Unavailable)), llmtest.Script(llmtest.Fail(llm.Unavailable))
		retry := llm.New(middleware.Retry(middleware.RetryConfig{}))
		b, chat := budgeted(middleware.BudgetConfig{Attempts: 5}, fallbackTo(retry.Then(fallbackDep("p", p)), retry.Then(fallbackDep("f", f))))
		_, err := chat.Call(t.Context(), fallbackAsk())
		if p.Count() != 3 || f.Count() != 2 || !errors.Is(err, llm.Unavailable) {
			t.Errorf("%d and %d calls: %v", p.Count(), f.Count(), err)
		}
		spent(t, b, 5, 0, 0, false)
		start := time.Now()
		_, err = chat.Call(t.Context(), fallbackAsk())
		if p.Count()+f.Count() != 5 || !errors.Is(err, llm.Exhausted) || time.Since(start) != 0 || !strings.Contains(err.Error(), "the budget's 5 attempts are used") {
			t.Errorf("after %d calls and %v: %v", p.Count()+f.Count(), time.Since(start), err)
		}
	})
}

func TestBudgetReservesTheWorstCaseAndSettlesWhatIsReported(t *testing.T) {
	model := llmtest.Script(used(90, 10))
	b, chat := budgeted(middleware.BudgetConfig{CostUSD: 0.0015, Tokens: 1000}, priced("d", model))
	for i := range 3 {
		if _, err := chat.Call(t.Context(), budgetAsk()); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	spent(t, b, 3, 300, 0.00057, false) // 0.00019 each
	_, err := chat.Call(t.Context(), budgetAsk())
	if !errors.Is(err, llm.Exhausted) || model.Count() != 3 || !strings.Contains(err.Error(), "up to $0.0011 do not fit the $0.00093 left of the budget's $0.0015") {
		t.Errorf("%v after %d calls", err, model.Count())
	}
	if got := b.String(); got != "300 of 1000 tokens, $0.00057 of $0.0015" {
		t.Errorf("%q", got)
	}
	b, chat = budgeted(middleware.BudgetConfig{Tokens: 350}, priced("d", model))
	_, first := chat.Call(t.Context(), budgetAsk())
	_, second := chat.Call(t.Context(), budgetAsk())
	_, third := chat.Call(t.Context(), budgetAsk())
	if first != nil || second != nil || !errors.Is(third, llm.Exhausted) || !strings.Contains(third.Error(), "up to 200 tokens do not fit the 150 left") {
		t.Errorf("%v, %v, %v", first, second, third)
	}
	spent(t, b, 2, 200, 0.00038, false)
}

func TestBudgetOfManyCallsAtOnceIsNotOverspent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		model := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
			n := now.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			<-time.NewTimer(time.Second).C
			now.Add(-1)
			return &llm.Response{Parts: []llm.Part{llm.Text("ok")}, Usage: llm.Usage{Input: 100, Output: 100}}, nil
		})
		b, chat := budgeted(middleware.BudgetConfig{CostUSD: 0.0112}, priced("d", model)) // ten and a bit
		var answered, refused atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				switch _, err := chat.Call(t.Context(), budgetAsk()); {
				case err == nil:
					answered.Add(1)
				case errors.Is(err, llm.Exhausted):
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		if answered.Load() != 10 || refused.Load() != 90 || most.Load() != 10 {
			t.Errorf("%d answered, %d refused, %d at once", answered.Load(), refused.Load(), most.Load())
		}
		spent(t, b, 10, 2000, 0.011, false)
	})
}

func TestBudgetGivesBackWhatFailedBeforeTheProviderHadIt(t *testing.T) {
	for name, test := range map[string]struct {
		err       error
		tokens    int
		usd       float64
		estimated bool
	}{
		"not sent":           {&llm.Error{Class: llm.Unavailable}, 0, 0, false},
		"turned away":        {status(llm.RateLimited, 429, "slow down"), 0, 0, false},
		"outcome not known":  {&llm.Error{Class: llm.Unavailable, Commit: llm.CommitUnknown}, 100, 0.0001, true},
		"broke off":          {&llm.Error{Class: llm.Interrupted, Commit: llm.Committed, Usage: llm.Usage{Input: 80, Output: 5, Estimated: true}}, 85, 0.00013, true},
		"reported by itself": {&llm.Error{Class: llm.BadOutput, Commit: llm.Committed, Usage: llm.Usage{Input: 80, Output: 5}}, 85, 0.00013, false},
	} {
		b, chat := budgeted(middleware.BudgetConfig{CostUSD: 1}, priced("d", llmtest.Script(llmtest.Fail(test.err))))
		if _, err := chat.Call(t.Context(), budgetAsk()); err == nil {
			t.Fatal(name)
		}
		t.Log(name)
		spent(t, b, 1, test.tokens, test.usd, test.estimated)
	}
	synctest.Test(t, func(t *testing.T) {
		b, chat := budgeted(middleware.BudgetConfig{CostUSD: 1}, priced("d", llmtest.Script(llmtest.Step{Hang: true})))
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if _, err := chat.Call(ctx, budgetAsk()); llm.ClassOf(err) != llm.Canceled {
			t.Error(err)
		}
		spent(t, b, 1, 100, 0.0001, true) // the caller left, the input is paid for
	})
}

func TestBudgetKeepsAFreeModelUsableAndNeverMovesItToAPaidOne(t *testing.T) {
	free := priced("free", llmtest.Script(used(100, 100), llmtest.Fail(llm.Unavailable)))
	free.Price = llm.Price{Free: true}
	paid := llmtest.Script(used(100, 100))
	b := middleware.NewBudget(middleware.BudgetConfig{CostUSD: 0.001})
	chat := llm.New(b.Stage()).Then(fallbackTo(free, priced("paid", paid)))
	if resp, err := chat.Call(t.Context(), budgetAsk()); err != nil || resp.Deployment != "free" {
		t.Errorf("%v, %v", resp, err)
	}
	_, err := chat.Call(t.Context(), budgetAsk())
	if paid.Count() != 0 || !errors.Is(err, llm.Unavailable) || !strings.Contains(err.Error(), "do not fit") {
		t.Errorf("%d paid calls: %v", paid.Count(), err)
	}
}

func TestBudgetOfMoneyRefusesAPriceThatIsNotKnown(t *testing.T) {
	model := llmtest.Script(used(100, 100))
	d := priced("d", model)
	d.Price = llm.Price{}
	_, chat := budgeted(middleware.BudgetConfig{CostUSD: 1}, d)
	if _, err := chat.Call(t.Context(), budgetAsk()); !errors.Is(err, llm.Exhausted) || model.Count() != 0 || !strings.Contains(err.Error(), "Deployment.Price") {
		t.Errorf("%v after %d calls", err, model.Count())
	}
	b, chat := budgeted(middleware.BudgetConfig{CostUSD: 1, Price: llm.Price{Input: 2, Output: 2}}, d)
	if _, err := chat.Call(t.Context(), budgetAsk()); err != nil {
		t.Error(err)
	}
	spent(t, b, 1, 200, 0.0004, false)
}

func TestBudgetSendsACallToWhatItCanStillPay(t *testing.T) {
	cheap := priced("cheap", llmtest.Script(used(100, 10)))
	cheap.Price = llm.Price{Input: 0.1, Output: 0.1}
	dear := llmtest.Script(used(100, 100))
	b := middleware.NewBudget(middleware.BudgetConfig{CostUSD: 0.0005})
	resp, err := llm.New(b.Stage()).Then(fallbackTo(priced("dear", dear), cheap)).Call(t.Context(), budgetAsk())
	if err != nil || resp.Deployment != "cheap" || dear.Count() != 0 {
		t.Errorf("%v, %v after %d calls of the dear one", resp, err, dear.Count())
	}
}

func TestBudgetOfTimeEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, chat := budgeted(middleware.BudgetConfig{Elapsed: 5 * time.Second}, priced("d", llmtest.Script(llmtest.Step{Delay: 3 * time.Second})))
		if _, err := chat.Call(t.Context(), budgetAsk()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err := chat.Call(t.Context(), budgetAsk())
		if time.Since(start) != 2*time.Second || !errors.Is(err, llm.Exhausted) || !strings.Contains(err.Error(), "the budget's 5s ran out") {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		_, err = chat.Call(t.Context(), budgetAsk())
		if time.Since(start) != 2*time.Second || !errors.Is(err, llm.Exhausted) {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if got := b.String(); got != "5s of 5s" {
			t.Errorf("%q", got)
		}
	})
}

func TestEachCallHasABudgetOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Fail(llm.Unavailable))
		chat := llm.New(middleware.EachBudget(middleware.BudgetConfig{Attempts: 2}), middleware.Retry(middleware.RetryConfig{Max: 9})).
			Then(priced("d", model))
		for want := 2; want <= 6; want += 2 {
			_, err := chat.Call(t.Context(), budgetAsk())
			if model.Count() != want || !errors.Is(err, llm.Unavailable) || llm.AsError(err).Attempts[2].Skipped == "" {
				t.Errorf("%d calls, want %d: %v", model.Count(), want, err)
			}
			llmtest.Advance(time.Hour)
		}
	})
}

func TestBudgetTakesInWhatWasSpentElsewhere(t *testing.T) {
	model := llmtest.Script()
	b, chat := budgeted(middleware.BudgetConfig{Attempts: 3}, priced("d", model))
	h := http.Header{}
	middleware.WriteAttempts(h, 2)
	b.Charge(llm.Spending{Attempts: middleware.UpstreamAttempts(h)})
	_, first := chat.Call(t.Context(), budgetAsk())
	_, second := chat.Call(t.Context(), budgetAsk())
	if first != nil || !errors.Is(second, llm.Exhausted) || model.Count() != 1 {
		t.Errorf("%v, %v after %d calls", first, second, model.Count())
	}
	for want, h := range map[int]http.Header{
		0:    {"X-Stainless-Retry-Count": {"0"}, "X-Envoy-Attempt-Count": {"1"}, "X-Request-Attempts": {"-3", "x"}},
		1:    {"X-Stainless-Retry-Count": {"1"}},
		4:    {"X-Stainless-Retry-Count": {"1"}, "X-Envoy-Attempt-Count": {"5"}},
		1000: {"X-Request-Attempts": {"999999999"}},
	} {
		if got := middleware.UpstreamAttempts(h); got != want {
			t.Errorf("%v: %d, want %d", h, got, want)
		}
	}
}

// Counting costs more than all the rest of a budget.
func TestBudgetCountsTheInputOfACallOnce(t *testing.T) {
	counted := 0
	counter := inputCount(func(*llm.Request) int { counted++; return 100 })
	b, chat := budgeted(middleware.BudgetConfig{CostUSD: 1, Counter: counter}, priced("d", llmtest.Script(llmtest.Fail(llm.Timeout))))
	if _, err := chat.Call(t.Context(), budgetAsk()); err == nil || counted != 1 {
		t.Errorf("%v, counted %d times", err, counted)
	}
	spent(t, b, 1, 100, 0.0001, true)
}

type inputCount func(*llm.Request) int

func (f inputCount) CountTokens(_ context.Context, r *llm.Request, _ int) (int, error) {
	return f(r), nil
}

func TestBudgetPanicsOnNonsense(t *testing.T) {
	for want, cfg := range map[string]middleware.BudgetConfig{
		"there is no ceiling": {}, "Attempts -1": {Attempts: -1}, "CostUSD -1": {CostUSD: -1}, "Tokens -5": {Tokens: -5},
		"Elapsed -1s": {Elapsed: -time.Second},
	} {
		for _, f := range []func(){func() { middleware.NewBudget(cfg) }, func() { middleware.EachBudget(cfg) }} {
			if got := panicOf(f); !strings.Contains(got, want) {
				t.Errorf("%+v: %q", cfg, got)
			}
		}
	}
}

func TestASilentPrimaryHasStalledWhereTheTimeIsTheBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := llmtest.Script()
		onion := llm.New(
			middleware.EachBudget(middleware.BudgetConfig{Elapsed: 9 * time.Second}),
			middleware.Deadline(middleware.DeadlineConfig{Total: 9 * time.Second}),
		).Then(middleware.Fallback(middleware.FallbackConfig{},
			&llm.Deployment{Name: "first", Caller: llmtest.Script(llmtest.Step{Hang: true})},
			middleware.Route{Caller: &llm.Deployment{Name: "second", Caller: second}, For: []llm.Class{llm.Stalled}},
		))
		resp, err := onion.Call(t.Context(), retryAsk())
		if err != nil || resp.Deployment != "second" || resp.Attempts[0].Class != llm.Stalled {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}
