// Package sqlstore keeps journals and records of tools in SQLite or PostgreSQL.
//
//	store, err := sqlstore.OpenSQLite(ctx, "llm.db", sqlstore.Config{})
//	middleware.Journal(middleware.JournalConfig{Store: store.Journal(), Workflow: "support-answer"})
//
// SQLite is one file and needs nothing else: for one process, or a few on one machine. PostgreSQL is for many. The tables are
// made, and brought up to date, when a store is opened, by one of those that open it at once; llm_schema says up to which
// version. A program that finds a newer schema than it knows does not open it.
//
// # What is durable when
//
// A write is acknowledged when the transaction that it shared is on the disk. What comes in while one is written makes up
// the next, so that many calls at once pay for one wait for the disk and nobody waits for a batch to fill up. An acknowledged
// row survives kill -9, a crash of the operating system and a loss of power, as far as the disk does what it is told; with
// Config.Relaxed it survives the first alone. An error means that the row is not written, with two exceptions that its text
// tells: the caller gave up while it was being written; or it is the end of an attempt or a call, which is kept in memory,
// as many as Config.Queue says, and written when the database is back.
//
// The queue of writes is bounded. When it is full, a caller waits for room as long as its context allows. In SQLite a batch
// is written only if the file still has its name: one that was removed would take rows and lose them. Then the store has to
// be opened again.
//
// # After a crash
//
// A store renews a lease in llm_owner, by the database's clock. Attempts in state started whose owner has no lease any more
// are those whose outcome nobody knows: [Journal.Unsettled] lists them, [Journal.Recover] marks them, and their calls, as
// unknown and returns them. Those of processes that live are not touched.
//
// # Schema
//
// The tables of the journal are llm_call, a row for each call, and llm_attempt, one for each attempt, by (call_id, seq);
// llm_tool_call has the records of tools, see [Store.Tools]. Times in them are microseconds since 1970, in UTC. People read the
// views:
//
//   - llm_calls: call_id, workflow, started, took_ms, outcome, class, requested, deployment (which answered), refused,
//     partial, skipped (JSON), detail, receipt (of a queue), trace, attempts, tokens, cost_usd, delivery (1: made by a queue, to
//     deliver its work). outcome is a middleware.Outcome, or running, or unknown.
//   - llm_attempts: call_id, seq, workflow, attempt (its number among the provider calls; 0: not made), requested, deployment,
//     provider, model, reason (initial, retry, fallback, hedge), after_deployment and after_class (the failure it moved away
//     from), started, waited_ms, state (started, answered, failed, not_made, unknown), class, commit_state (none, unknown,
//     committed), status, request_id, took_ms, first_delta_ms, the tokens, estimated, cost_usd (NULL: the price is not
//     known), detail.
//   - llm_unsettled: attempts without an end, with alive = 1 for those whose process lives.
//   - llm_spend: workflow, day (UTC), deployment, attempts, input_tokens, output_tokens, cost_usd, unpriced (attempts of
//     unknown price, which cost_usd leaves out), estimated (attempts whose tokens are).
//   - llm_outcomes: workflow, day, outcome, calls, deliveries (those of the calls that a queue made). With the outcome queued
//     calls - deliveries is how often work was taken, and deliveries how often it went back.
//
// What a workflow spent a day, and how often it needed another deployment:
//
//	SELECT day, sum(cost_usd), sum(unpriced) FROM llm_spend WHERE workflow = 'support-answer' GROUP BY day;
//	SELECT day, outcome, calls FROM llm_outcomes WHERE workflow = 'support-answer';
//
// No row has a prompt, an answer or a provider's words. [Journal.Prune] removes what is old.
package sqlstore
