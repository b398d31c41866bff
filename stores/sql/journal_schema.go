package sqlstore

import "strings"

// journalSchema is the tables and views of the journal. Times are in microseconds since 1970; the views show them as times.
func journalSchema(d dialect) []string {
	return named(d, []string{
		`CREATE TABLE llm_call (
			call_id TEXT PRIMARY KEY, owner TEXT NOT NULL, workflow TEXT NOT NULL, trace TEXT NOT NULL,
			start_us BIGINT NOT NULL, took_us BIGINT NOT NULL,
			outcome TEXT NOT NULL, class TEXT NOT NULL, requested TEXT NOT NULL, deployment TEXT NOT NULL,
			receipt TEXT NOT NULL, refused INTEGER NOT NULL, partial INTEGER NOT NULL, skipped TEXT NOT NULL, detail TEXT NOT NULL
		){rowless}`,
		`CREATE INDEX llm_call_start ON llm_call (start_us)`,
		`CREATE INDEX llm_call_running ON llm_call (owner) WHERE outcome = 'running'`,
		`CREATE TABLE llm_attempt (
			call_id TEXT NOT NULL, seq INTEGER NOT NULL, owner TEXT NOT NULL, workflow TEXT NOT NULL,
			attempt INTEGER NOT NULL, requested TEXT NOT NULL, deployment TEXT NOT NULL,
			provider TEXT NOT NULL, model TEXT NOT NULL,
			reason TEXT NOT NULL, after_deployment TEXT NOT NULL, after_class TEXT NOT NULL,
			start_us BIGINT NOT NULL, waited_us BIGINT NOT NULL,
			state TEXT NOT NULL, class TEXT NOT NULL, commit_state TEXT NOT NULL,
			status INTEGER NOT NULL, request_id TEXT NOT NULL, took_us BIGINT NOT NULL, first_delta_us BIGINT NOT NULL,
			input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, cached_tokens BIGINT NOT NULL,
			cache_write_tokens BIGINT NOT NULL, reasoning_tokens BIGINT NOT NULL, estimated INTEGER NOT NULL,
			cost_usd DOUBLE PRECISION, detail TEXT NOT NULL,
			PRIMARY KEY (call_id, seq)
		){rowless}`,
		`CREATE INDEX llm_attempt_start ON llm_attempt (start_us)`,
		`CREATE INDEX llm_attempt_started ON llm_attempt (owner) WHERE state = 'started'`,
		`CREATE VIEW llm_calls AS
			SELECT c.call_id, c.workflow, {start} AS started, c.took_us / 1000.0 AS took_ms, c.outcome, c.class, c.requested,
				c.deployment, c.refused, c.partial, c.skipped, c.detail, c.receipt, c.trace,
				(SELECT count(*) FROM llm_attempt a WHERE a.call_id = c.call_id AND a.state <> 'not_made') AS attempts,
				(SELECT coalesce(sum(a.input_tokens + a.output_tokens), 0) FROM llm_attempt a WHERE a.call_id = c.call_id) AS tokens,
				(SELECT coalesce(sum(a.cost_usd), 0) FROM llm_attempt a WHERE a.call_id = c.call_id) AS cost_usd
			FROM llm_call c`,
		`CREATE VIEW llm_attempts AS
			SELECT call_id, seq, workflow, attempt, requested, deployment, provider, model, reason, after_deployment, after_class,
				{start} AS started, waited_us / 1000.0 AS waited_ms, state, class, commit_state, status, request_id,
				took_us / 1000.0 AS took_ms, first_delta_us / 1000.0 AS first_delta_ms, input_tokens, output_tokens,
				cached_tokens, cache_write_tokens, reasoning_tokens, estimated, cost_usd, detail
			FROM llm_attempt`,
		`CREATE VIEW llm_unsettled AS
			SELECT a.call_id, a.seq, a.workflow, a.requested, a.deployment, a.provider, a.model, {start} AS started, a.state,
				CASE WHEN a.state = 'started' AND EXISTS (SELECT 1 FROM llm_owner o WHERE o.owner = a.owner AND o.until_us > {now})
				THEN 1 ELSE 0 END AS alive
			FROM llm_attempt a WHERE a.state IN ('started', 'unknown')`,
		`CREATE VIEW llm_spend AS
			SELECT workflow, {day} AS day, deployment, count(*) AS attempts,
				sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(coalesce(cost_usd, 0)) AS cost_usd,
				sum(CASE WHEN cost_usd IS NULL THEN 1 ELSE 0 END) AS unpriced, sum(estimated) AS estimated
			FROM llm_attempt WHERE state <> 'not_made' GROUP BY workflow, {day}, deployment`,
		`CREATE VIEW llm_outcomes AS
			SELECT workflow, {day} AS day, outcome, count(*) AS calls FROM llm_call GROUP BY workflow, {day}, outcome`,
	})
}

// deliveriesSchema tells calls that a queue made from those that it took.
func deliveriesSchema(d dialect) []string {
	return named(d, []string{
		`ALTER TABLE llm_call ADD COLUMN delivery INTEGER NOT NULL DEFAULT 0`,
		`DROP VIEW llm_calls`,
		`CREATE VIEW llm_calls AS
			SELECT c.call_id, c.workflow, {start} AS started, c.took_us / 1000.0 AS took_ms, c.outcome, c.class, c.requested,
				c.deployment, c.refused, c.partial, c.skipped, c.detail, c.receipt, c.trace,
				(SELECT count(*) FROM llm_attempt a WHERE a.call_id = c.call_id AND a.state <> 'not_made') AS attempts,
				(SELECT coalesce(sum(a.input_tokens + a.output_tokens), 0) FROM llm_attempt a WHERE a.call_id = c.call_id) AS tokens,
				(SELECT coalesce(sum(a.cost_usd), 0) FROM llm_attempt a WHERE a.call_id = c.call_id) AS cost_usd, c.delivery
			FROM llm_call c`,
		`DROP VIEW llm_outcomes`,
		`CREATE VIEW llm_outcomes AS
			SELECT workflow, {day} AS day, outcome, count(*) AS calls, sum(delivery) AS deliveries
			FROM llm_call GROUP BY workflow, {day}, outcome`,
	})
}

// named is steps in the words of a database.
func named(d dialect, steps []string) []string {
	names := strings.NewReplacer(
		"{rowless}", d.rowless(), "{now}", d.now(), "{start}", d.time("start_us"), "{day}", d.day("start_us"),
	)
	for i := range steps {
		steps[i] = names.Replace(steps[i])
	}
	return steps
}
