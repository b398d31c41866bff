package middleware_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/llmtest/storetest"
	"github.com/modelchain/llm/middleware"
)

// spendsBudget is the budget of workflow "w" in a process of its own.
func spendsBudget(t *testing.T, store middleware.SpendStore, cfg middleware.BudgetConfig) (*middleware.Budget, *middleware.Spends) {
	t.Helper()
	s := middleware.NewSpends(middleware.SpendsConfig{Store: store, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = s.Close() })
	cfg.Shared, cfg.Workflow = s, "w"
	return middleware.NewBudget(cfg), s
}

// spendsCall makes one attempt on b, which uses so many tokens, two of them for its answer.
func spendsCall(t *testing.T, b *middleware.Budget, tokens int) *llm.Error {
	t.Helper()
	model := llmtest.Script(llmtest.Step{Response: &llm.Response{
		Parts: []llm.Part{llm.Text("ok")}, Usage: llm.Usage{Input: tokens - 2, Output: 2},
	}})
	return cooldownCall(t, llm.New(b.Stage()).Then(&llm.Deployment{Name: "a", MaxOutput: 1000, Caller: model}))
}

func TestSpendsOneBudgetForAllProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewSpends()
		first, _ := spendsBudget(t, store, middleware.BudgetConfig{Attempts: 3})
		second, _ := spendsBudget(t, store, middleware.BudgetConfig{Attempts: 3})
		for i, b := range []*middleware.Budget{first, second, first} {
			if e := spendsCall(t, b, 10); e != nil {
				t.Fatalf("attempt %d of 3: %v", i+1, e)
			}
			synctest.Wait()
		}
		for _, b := range []*middleware.Budget{first, second} {
			if e := spendsCall(t, b, 10); e == nil || e.Class != llm.Exhausted || e.Attempts[0].Skipped == "" {
				t.Errorf("the fourth attempt: %v", e)
			}
			if got := b.Spent(); got.Attempts != 3 || got.Tokens != 30 {
				t.Errorf("spent is %+v, want 3 attempts and 30 tokens", got)
			}
		}
		if n := store.Kept(); n != 0 {
			t.Errorf("the store keeps %d of what is settled", n)
		}
	})
}

func TestSpendsWhatWasReservedTooMuchIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewSpends()
		first, _ := spendsBudget(t, store, middleware.BudgetConfig{Tokens: 1500})
		second, _ := spendsBudget(t, store, middleware.BudgetConfig{Tokens: 1500})
		for i := range 4 { // each reserves about 1000 and uses 100
			b := first
			if i%2 == 1 {
				b = second
			}
			if e := spendsCall(t, b, 100); e != nil {
				t.Errorf("call %d: %v", i, e)
			}
			synctest.Wait()
		}
		if got := second.Spent().Tokens; got != 400 {
			t.Errorf("spent are %d tokens, want 400", got)
		}
	})
}

func TestSpendsTheWorstCaseStaysWhereAProcessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewSpends()
		first, process := spendsBudget(t, store, middleware.BudgetConfig{Tokens: 1500})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			model := llmtest.Script(llmtest.Step{Hang: true})
			_, _ = llm.New(first.Stage()).Then(&llm.Deployment{Name: "a", MaxOutput: 1000, Caller: model}).Call(ctx, retryAsk())
		}()
		synctest.Wait()
		if err := process.Close(); err != nil {
			t.Fatal(err)
		}
		second, _ := spendsBudget(t, store, middleware.BudgetConfig{Tokens: 1500})
		if e := spendsCall(t, second, 100); e == nil || e.Class != llm.Exhausted {
			t.Errorf("what the process that ended had reserved is spent again: %v", e)
		}
	})
}

func TestSpendsGoOnWithoutTheStoreAndTellItThen(t *testing.T) {
	for name, afterwards := range map[string]bool{"down": false, "answers are lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := storetest.NewSpends()
				first, _ := spendsBudget(t, store, middleware.BudgetConfig{Attempts: 5})
				if e := spendsCall(t, first, 1); e != nil {
					t.Fatal(e)
				}
				synctest.Wait()
				store.Fail(errors.New("down"), afterwards)
				start := time.Now()
				for i := range 6 {
					if e := spendsCall(t, first, 1); (e != nil) != (i >= 4) {
						t.Errorf("attempt %d of 5: %v", i+2, e)
					}
				}
				if d := time.Since(start); d != 0 {
					t.Errorf("the calls took %v", d)
				}
				llmtest.Advance(10 * time.Second)
				store.Fail(nil, false)
				llmtest.Advance(10 * time.Second)
				second, _ := spendsBudget(t, store, middleware.BudgetConfig{Attempts: 7})
				for i := range 3 {
					if e := spendsCall(t, second, 1); (e != nil) != (i >= 2) {
						t.Errorf("attempt %d of the 2 that the first left: %v", i+1, e)
					}
				}
			})
		})
	}
}

func TestSpendsAStoreThatLosesAllFreesNothingThatIsKnownHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewSpends()
		first, _ := spendsBudget(t, store, middleware.BudgetConfig{Attempts: 4})
		second, _ := spendsBudget(t, store, middleware.BudgetConfig{Attempts: 4})
		for _, b := range []*middleware.Budget{first, second, first} {
			spendsCall(t, b, 1)
			synctest.Wait()
		}
		store.Lose()
		if e := spendsCall(t, first, 1); e != nil {
			t.Errorf("the fourth attempt: %v", e)
		}
		synctest.Wait()
		if e := spendsCall(t, first, 1); e == nil {
			t.Error("there was a fifth attempt of 4")
		}
	})
}

// spendsDeaf answers nothing until its context ends.
type spendsDeaf struct{ middleware.SpendStore }

func (spendsDeaf) Reserve(
	ctx context.Context, _, _ string, _, _ llm.Spending,
) (middleware.SharedSpend, bool, error) {
	<-ctx.Done()
	return middleware.SharedSpend{}, false, ctx.Err()
}

func TestSpendsAStoreThatDoesNotAnswerDelaysAnAttemptByItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := spendsBudget(t, spendsDeaf{storetest.NewSpends()}, middleware.BudgetConfig{Attempts: 4})
		start := time.Now()
		if e := spendsCall(t, b, 1); e != nil {
			t.Error(e)
		}
		if d := time.Since(start); d != 20*time.Millisecond {
			t.Errorf("it waited for %v, want 20ms", d)
		}
	})
}

func TestSpendsTimeIsTheWorkflows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewSpends()
		cfg := middleware.BudgetConfig{Attempts: 10, Elapsed: time.Minute}
		first, _ := spendsBudget(t, store, cfg)
		spendsCall(t, first, 1)
		llmtest.Advance(50 * time.Second)
		second, _ := spendsBudget(t, store, cfg)
		if e := spendsCall(t, second, 1); e != nil {
			t.Error(e)
		}
		llmtest.Advance(11 * time.Second)
		if e := spendsCall(t, second, 1); e == nil || e.Class != llm.Exhausted {
			t.Errorf("61s after the workflow began: %v", e)
		}
	})
}

func TestSpendsChargeIsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewSpends()
		first, _ := spendsBudget(t, store, middleware.BudgetConfig{Attempts: 2})
		first.Charge(llm.Spending{Attempts: 2})
		synctest.Wait()
		second, _ := spendsBudget(t, store, middleware.BudgetConfig{Attempts: 2})
		if e := spendsCall(t, second, 1); e == nil {
			t.Error("what was charged elsewhere is spent again")
		}
	})
}

func TestSpendsSayWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := spendsBudget(t, storetest.NewSpends(), middleware.BudgetConfig{Attempts: 1})
		for name, f := range map[string]func(){
			"no store":    func() { middleware.NewSpends(middleware.SpendsConfig{}) },
			"no workflow": func() { middleware.NewBudget(middleware.BudgetConfig{Attempts: 1, Shared: s}) },
			"each call":   func() { middleware.EachBudget(middleware.BudgetConfig{Attempts: 1, Shared: s, Workflow: "w"}) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: no panic", name)
					}
				}()
				f()
			}()
		}
	})
}
