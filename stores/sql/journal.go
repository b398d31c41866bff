package sqlstore

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// A Journal keeps what [middleware.Journal] writes: it is its store.
type Journal struct{ s *Store }

var _ middleware.JournalStore = Journal{}

// Journal is the journal in this database.
func (s *Store) Journal() Journal { return Journal{s} }

// What an attempt's row begins with, and what it is settled with.
const (
	attemptColumns = "call_id, seq, owner, workflow, attempt, requested, deployment, provider, model, reason, after_deployment, " +
		"after_class, start_us, waited_us, state, class, commit_state, status, request_id, took_us, first_delta_us, input_tokens, " +
		"output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, estimated, cost_usd, detail"
	insertAttempt = "INSERT INTO llm_attempt (" + attemptColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, " +
		"?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (call_id, seq) DO "
	beginAttempt  = insertAttempt + "NOTHING"
	settleAttempt = insertAttempt + "UPDATE SET attempt = excluded.attempt, state = excluded.state, class = excluded.class, " +
		"commit_state = excluded.commit_state, status = excluded.status, request_id = excluded.request_id, " +
		"took_us = excluded.took_us, first_delta_us = excluded.first_delta_us, input_tokens = excluded.input_tokens, " +
		"output_tokens = excluded.output_tokens, cached_tokens = excluded.cached_tokens, " +
		"cache_write_tokens = excluded.cache_write_tokens, reasoning_tokens = excluded.reasoning_tokens, " +
		"estimated = excluded.estimated, cost_usd = excluded.cost_usd, detail = excluded.detail"
	insertCall = "INSERT INTO llm_call (call_id, owner, workflow, trace, start_us, took_us, outcome, class, requested, " +
		"deployment, receipt, delivery, refused, partial, skipped, detail) " +
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) " +
		"ON CONFLICT (call_id) DO "
	beginCall  = insertCall + "NOTHING"
	finishCall = insertCall + "UPDATE SET trace = excluded.trace, start_us = excluded.start_us, took_us = excluded.took_us, " +
		"outcome = excluded.outcome, class = excluded.class, requested = excluded.requested, deployment = excluded.deployment, " +
		"receipt = excluded.receipt, delivery = excluded.delivery, refused = excluded.refused, partial = excluded.partial, " +
		"skipped = excluded.skipped, detail = excluded.detail"
)

// The outcomes of calls that have no [middleware.Outcome].
const (
	callRunning  = "running"
	callUnknown  = "unknown"
	callRequeued = "requeued" // in counts
)

// Begin enters an attempt that is about to be made, and with the first one its call. It returns when that is durable.
func (j Journal) Begin(ctx context.Context, a middleware.JournalAttempt) error {
	stmts := []stmt{{beginAttempt, j.attempt(&a)}}
	if a.Seq == 1 {
		stmts = append(stmts, stmt{beginCall, j.call(&middleware.JournalCall{
			Call: a.Call, Workflow: a.Workflow, Start: a.Start, Outcome: callRunning, Requested: a.Requested,
		})})
	}
	return j.s.put(ctx, &write{stmts: stmts})
}

// Settle enters how an attempt ended. It returns when that is durable. After an error it may still be: what could not be
// written is kept, as long as the queue has room, and written when the database is back.
func (j Journal) Settle(ctx context.Context, a middleware.JournalAttempt) error {
	return j.s.put(ctx, &write{stmts: []stmt{{settleAttempt, j.attempt(&a)}}, keep: true})
}

// Finish enters how a call ended, in the same way.
func (j Journal) Finish(ctx context.Context, c middleware.JournalCall) error {
	return j.s.put(ctx, &write{stmts: []stmt{{finishCall, j.call(&c)}}, keep: true})
}

func (j Journal) attempt(a *middleware.JournalAttempt) []any {
	var cost any
	if a.Priced {
		cost = a.CostUSD
	}
	class := ""
	if a.State == middleware.JournalFailed || a.State == middleware.JournalNotMade {
		class = a.Class.String()
	}
	after := ""
	if a.Reason == "retry" || a.Reason == "fallback" {
		after = a.After.String()
	}
	commit := a.Commit
	if a.State == middleware.JournalStarted {
		commit = llm.CommitUnknown
	}
	return []any{
		text(a.Call), a.Seq, j.s.owner, text(a.Workflow), a.Index, text(a.Requested), text(a.Deployment), text(a.Provider),
		text(a.Model), text(a.Reason), text(a.From), after, a.Start.UnixMicro(), a.Waited.Microseconds(), text(string(a.State)), class,
		commit.String(), a.Status, text(a.RequestID), a.Took.Microseconds(), a.FirstDelta.Microseconds(), a.Usage.Input,
		a.Usage.Output, a.Usage.CachedInput, a.Usage.CacheWrite, a.Usage.Reasoning, number(a.Usage.Estimated), cost, text(a.Detail),
	}
}

func (j Journal) call(c *middleware.JournalCall) []any {
	skipped := ""
	if len(c.Skipped) > 0 {
		if b, err := json.Marshal(c.Skipped); err == nil { // of strings and a class: it cannot fail
			skipped = string(b)
		}
	}
	class := ""
	switch c.Outcome {
	case middleware.OutcomeFailed, middleware.OutcomeCanceled:
		class = c.Class.String()
	}
	return []any{
		text(c.Call), j.s.owner, text(c.Workflow), text(c.Trace), c.Start.UnixMicro(), c.Took.Microseconds(), text(string(c.Outcome)),
		class, text(c.Requested), text(c.Deployment), text(c.Receipt), number(c.Delivery), number(c.Refused), number(c.Partial),
		text(skipped), text(c.Detail),
	}
}

// text is s as both databases take it: PostgreSQL refuses bytes of 0 and what is not UTF-8, which a provider's id may be.
func text(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
