package middleware

import (
	"context"
	"time"

	"github.com/modelchain/llm"
)

// A SpendStore keeps what workflows spend, for processes that work on the same one. Package stores/redis has one;
// storetest.TestSpends holds any to these rules:
//
//   - Reserving and checking are one step: what is reserved at the same time never exceeds a ceiling together.
//   - What is reserved counts as spent until it is settled. If it never is, it stays so: the worst case.
//   - All methods may be called again with the same id, as after a time-out, and nothing counts twice. Reserve is not called
//     again once Settle was: what is settled and was not late leaves no trace. A late settlement is known for an hour; said
//     again after that, it counts again.
//   - What is spent is never less: what a store cannot hold it says is math.MaxInt, or +Inf dollars, and counts as too much for
//     any ceiling. Dollars that are NaN are +Inf, amounts below 0 are 0.
//   - A workflow is forgotten a day after it was last spent on. Its time is the store's own.
//
// Methods end with their context, and are safe for concurrent use. Errors carry no secrets.
type SpendStore interface {
	// Reserve reserves want, called id, if it fits under the ceiling, of which zero amounts are none. fits is false where it
	// does not; then nothing is reserved.
	Reserve(ctx context.Context, workflow, id string, want, ceiling llm.Spending) (now SharedSpend, fits bool, err error)
	// Settle replaces what was reserved as id by is. Where nothing is, that changes nothing, unless late says that it was never
	// reserved: then is counts, once, whatever the ceilings.
	Settle(ctx context.Context, workflow, id string, is llm.Spending, late bool) (SharedSpend, error)
}

// SharedSpend is what a [SpendStore] knows of a workflow.
type SharedSpend struct {
	// Spent is what all have spent, and reserved.
	Spent llm.Spending
	// Age is how long ago the store first heard of it.
	Age time.Duration
}
