package tools

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelchain/llm"
)

// Acknowledge says that the results of the turn are kept where they are needed, such as in the stored conversation. Only then
// may [Executor.Prune] delete its records. Without tools that have an effect it does nothing.
func (e *Executor) Acknowledge(ctx context.Context, turn string) error {
	if e.cfg.Store == nil {
		return nil
	}
	if err := e.cfg.Store.Acknowledge(ctx, turn); err != nil {
		return fault(ctx, llm.Unavailable, fmt.Sprintf("the records of turn %q were not acknowledged", turn), err)
	}
	return nil
}

// Doubtful lists the records of calls that nobody knows the outcome of, the oldest first, at most limit.
func (e *Executor) Doubtful(ctx context.Context, limit int) ([]Record, error) {
	if e.cfg.Store == nil {
		return nil, nil
	}
	out, err := e.cfg.Store.Doubtful(ctx, limit)
	if err != nil {
		return nil, fault(ctx, llm.Unavailable, "the records in doubt cannot be listed", err)
	}
	return out, nil
}

// MarkDone settles a record in doubt: somebody found out that the effect happened, and what the model is to be told.
func (e *Executor) MarkDone(ctx context.Context, key string, r Result) error {
	_, b := e.fit(r)
	return e.mark(ctx, key, Move{To: Committed, Result: b})
}

// MarkNotDone settles a record in doubt: somebody found out that the effect did not happen. The next run of the turn runs it.
func (e *Executor) MarkNotDone(ctx context.Context, key string) error {
	return e.mark(ctx, key, Move{To: Requested})
}

func (e *Executor) mark(ctx context.Context, key string, m Move) error {
	if e.cfg.Store == nil {
		return invalid("tools: there is no Store, so there is no record of %.80q", key)
	}
	r, err := e.cfg.Store.Get(ctx, key)
	if errors.Is(err, ErrNoRecord) {
		return invalid("tools: there is no record of %.80q; take the key of a DoubtError or of Doubtful", key)
	}
	owner := e.claimant()
	if err == nil && r.State == Started && !r.Held {
		r.Owner = owner
		r, err = e.cfg.Store.Claim(ctx, r, e.cfg.Lease)
	}
	if err != nil {
		return fault(ctx, llm.Unavailable, "the record was not marked", err)
	}
	if r.State != Started || r.Owner != owner {
		return invalid("tools: the record %s is not in doubt: it is %s, and held by %q; only what is in doubt can be marked",
			key, r.State, r.Owner)
	}
	m.Key, m.Owner = key, owner
	if err := e.cfg.Store.Move(ctx, m); err != nil {
		return fault(ctx, llm.Unavailable, "the record was not marked", err)
	}
	return nil
}

// Prune deletes records that are older than age: acknowledged ones, and those of calls that never began. What is in doubt, and
// what nobody has acknowledged, stays. A turn that is run again later than that runs its tools again, so age must be longer
// than any queue or retry of yours keeps a turn. It returns how many were deleted.
func (e *Executor) Prune(ctx context.Context, age time.Duration) (int, error) {
	switch {
	case age <= 0:
		return 0, invalid("tools: Prune: the age is %v; say how long a turn may still be run again, such as 30*24*time.Hour", age)
	case e.cfg.Store == nil:
		return 0, nil
	}
	n, err := e.cfg.Store.Prune(ctx, age)
	if err != nil {
		return n, fault(ctx, llm.Unavailable, "records were not pruned", err)
	}
	return n, nil
}
