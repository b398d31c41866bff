package middleware

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/modelchain/llm"
)

// budgetShare is the part of a Budget that is about the Store. The Budget's mu guards it.
type budgetShare struct {
	told   llm.Spending // of ours, in what the store knows
	before llm.Spending // what others had spent when the store lost it
	ids    map[*llm.Attempt]spendReservation
	older  atomic.Int64 // how much longer ago the workflow began than this budget, in nanoseconds
}

// spendReservation is what was reserved for an attempt. late says that the store may not have done it.
type spendReservation struct {
	id   string
	late bool
}

// reserveShared reserves with the store, which the caller, who holds mu, waits for without it.
func (b *Budget) reserveShared(ctx context.Context, a *llm.Attempt, want llm.Spending) bool {
	b.mu.Unlock()
	id, late, fits := b.cfg.Shared.reserve(ctx, b, want)
	b.mu.Lock()
	if fits {
		if b.shared.ids == nil {
			b.shared.ids = map[*llm.Attempt]spendReservation{}
		}
		b.shared.ids[a] = spendReservation{id, late}
	}
	return fits
}

// settleShared tells the store what an attempt was. The caller holds mu.
func (b *Budget) settleShared(a *llm.Attempt, want, is llm.Spending) {
	if r, ok := b.shared.ids[a]; ok {
		delete(b.shared.ids, a)
		b.cfg.Shared.settle(b, r.id, want, is, r.late)
	}
}

// learn takes over what the store knows, after it was told so much.
func (b *Budget) learn(got *SharedSpend, told llm.Spending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.shared
	s.told = s.told.Add(told)
	others := less(got.Spent, s.told)
	if others.Attempts < 0 || others.Tokens < 0 || others.CostUSD < -1e-6 { // it has lost what it was told
		s.before, s.told = b.elsewhere, notBelow(told)
		others = less(got.Spent, s.told)
	}
	b.elsewhere = s.before.Add(notBelow(others))
	if older := got.Age - time.Since(b.began); older > 0 {
		s.older.Store(int64(older))
	}
}

// notBelow is s without debts.
func notBelow(s llm.Spending) llm.Spending {
	s.Attempts, s.Tokens, s.CostUSD = max(s.Attempts, 0), max(s.Tokens, 0), max(s.CostUSD, 0)
	return s
}

// less is s without o. Of more than there is any amount leaves that.
func less(s, o llm.Spending) llm.Spending {
	s = s.Add(negative(o))
	if math.IsNaN(s.CostUSD) {
		s.CostUSD = math.Inf(1)
	}
	return s
}

func negative(s llm.Spending) llm.Spending {
	return llm.Spending{Attempts: -s.Attempts, Tokens: -s.Tokens, CostUSD: -s.CostUSD}
}
