package middleware_test

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest/storetest"
	"github.com/modelchain/llm/middleware"
)

func TestSpendsWhatIsMoreThanThereIsIsSpentForAll(t *testing.T) {
	for name, much := range map[string]llm.Spending{
		"dollars":     {CostUSD: math.Inf(1)},
		"no number":   {CostUSD: math.NaN()},
		"tokens":      {Tokens: math.MaxInt},
		"all of them": {Attempts: math.MaxInt, Tokens: math.MaxInt, CostUSD: math.MaxFloat64},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := storetest.NewSpends()
				cfg := middleware.BudgetConfig{Attempts: 9, Tokens: 1 << 40, CostUSD: 1e15, Price: llm.Price{Input: 1, Output: 1}}
				first, _ := spendsBudget(t, store, cfg)
				for range 2 { // what is charged twice is no less
					first.Charge(much)
					synctest.Wait()
				}
				second, _ := spendsBudget(t, store, cfg)
				for i, b := range []*middleware.Budget{first, second, first, second} {
					if i == 2 { // and each knows it for itself
						store.Fail(errors.New("down"), false)
					}
					if e := spendsCall(t, b, 10); e == nil || e.Class != llm.Exhausted {
						t.Errorf("call %d was made: %v", i, e)
					}
					synctest.Wait()
					if got := b.Spent(); math.IsNaN(got.CostUSD) || got.Attempts < 0 || got.Tokens < 0 {
						t.Errorf("spent is %+v", got)
					}
				}
			})
		})
	}
}
