package middleware

import (
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
)

func BenchmarkBudget(b *testing.B) {
	gate := &budgetGate{Budget: NewBudget(BudgetConfig{CostUSD: 1e9, Tokens: 1 << 50, Attempts: 1 << 50})}
	d := &llm.Deployment{Name: "d", Price: llm.Price{Input: 1, Output: 10}}
	r := &llm.Request{System: strings.Repeat("x", 300), MaxTokens: 100}
	a := &llm.Attempt{Start: time.Now(), Usage: llm.Usage{Input: 90, Output: 10}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := gate.Start(b.Context(), r, d, a); err != nil {
			b.Fatal(err)
		}
		gate.End(b.Context(), r, d, a)
	}
}
