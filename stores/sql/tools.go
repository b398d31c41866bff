package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/modelchain/llm/tools"
)

func toolsSchema(d dialect) []string {
	bytes := "BLOB"
	if d == postgres {
		bytes = "BYTEA"
	}
	return []string{
		"CREATE TABLE llm_tool_call (key TEXT PRIMARY KEY, turn TEXT NOT NULL, tool TEXT NOT NULL, call_id TEXT NOT NULL, " +
			"ordinal INTEGER NOT NULL, arguments TEXT NOT NULL, state TEXT NOT NULL, owner TEXT NOT NULL, until_us BIGINT NOT NULL, " +
			"doubt TEXT NOT NULL, result " + bytes + ", created_us BIGINT NOT NULL, changed_us BIGINT NOT NULL)",
		"CREATE INDEX llm_tool_call_turn ON llm_tool_call (turn)",
		"CREATE INDEX llm_tool_call_state ON llm_tool_call (state, changed_us)",
	}
}

// Tools keeps the records of tools in the table llm_tool_call. A step is durable when it returns, unless the Store was opened
// Relaxed: then a loss of power may take the record of an effect that happened, and its tool would be run again.
func (s *Store) Tools() tools.Store { return toolStore{s} }

type toolStore struct{ *Store }

// columns is what toolRecord scans; held by the database's clock.
func (s toolStore) columns() string {
	return "key, turn, tool, call_id, ordinal, arguments, state, owner, until_us > " + s.kind.now() +
		", doubt, result, created_us, changed_us"
}

func toolRecord(row scanner, r *tools.Record) error {
	var created, changed int64
	err := row.Scan(&r.Key, &r.Turn, &r.Tool, &r.CallID, &r.Ordinal, &r.Arguments, &r.State, &r.Owner, &r.Held, &r.Doubt, &r.Result,
		&created, &changed)
	r.Created, r.Changed = time.UnixMicro(created), time.UnixMicro(changed)
	return err
}

// step runs statements that are one step: in SQLite in a transaction shared with others, in PostgreSQL by themselves, since
// only the first of them writes. What fn gives to its caller counts only without an error: it may still run after ctx ended.
func (s toolStore) step(ctx context.Context, fn func(ctx context.Context, t tx) error) error {
	err := context.Cause(ctx)
	switch {
	case err != nil:
	case s.kind == sqlite:
		err = s.do(ctx, fn)
	default:
		err = fn(ctx, s.read())
	}
	if err == nil || errors.Is(err, tools.ErrLost) || errors.Is(err, tools.ErrNoRecord) {
		return err
	}
	return fmt.Errorf("llm/stores/sql: tools: %w", err)
}

// Claim looks first, so that whoever waits for a result writes nothing.
func (s toolStore) Claim(ctx context.Context, r tools.Record, lease time.Duration) (tools.Record, error) {
	for _, v := range []string{r.Key, r.Turn, r.Tool, r.CallID, r.Arguments, r.Owner} {
		if v != text(v) {
			return tools.Record{}, fmt.Errorf("llm/stores/sql: tools: Claim: %q in the record is no text that a database takes", v)
		}
	}
	for {
		have, err := s.Get(ctx, r.Key)
		if err == nil && (have.State.Over() || have.Held) || err != nil && !errors.Is(err, tools.ErrNoRecord) {
			return have, err
		}
		var mine tools.Record
		err = s.step(ctx, func(ctx context.Context, t tx) error {
			now := s.kind.now()
			row := t.QueryRowContext(ctx, s.kind.bind("INSERT INTO llm_tool_call (key, turn, tool, call_id, ordinal, arguments, owner, "+
				"until_us, state, doubt, created_us, changed_us) "+
				"VALUES (?, ?, ?, ?, ?, ?, ?, "+now+" + ?, 'requested', '', "+now+", "+now+") "+
				"ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, until_us = excluded.until_us, changed_us = excluded.changed_us "+
				"WHERE llm_tool_call.state IN ('requested', 'started') AND llm_tool_call.until_us <= "+now+" RETURNING "+s.columns()),
				r.Key, r.Turn, r.Tool, r.CallID, r.Ordinal, r.Arguments, r.Owner, lease.Microseconds())
			mine = tools.Record{}
			return toolRecord(row, &mine)
		})
		if err == nil {
			return mine, nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return tools.Record{}, err
		}
		// Somebody else was faster: look again.
	}
}

func (s toolStore) Move(ctx context.Context, m tools.Move) error {
	if m.To.From() == nil || m.Owner == "" || m.Key != text(m.Key) || m.Owner != text(m.Owner) {
		return tools.ErrLost
	}
	now := s.kind.now()
	set := "state = ?, doubt = ?, result = ?, until_us = " + now + " + ?"
	changed := "CASE WHEN state = '" + string(m.To) + "' THEN changed_us ELSE " + now + " END"
	if m.Lease == 0 {
		changed = now
		if m.To != tools.Committed {
			set += ", owner = ''"
		}
	}
	may := "'requested', 'started'"
	if m.To == tools.Committed {
		may = "'started'"
	}
	update := "UPDATE llm_tool_call SET " + set + ", changed_us = " + changed +
		" WHERE key = ? AND owner = ? AND state IN (" + may + ")"
	return s.step(ctx, func(ctx context.Context, t tx) error {
		n, err := t.exec(ctx, update, string(m.To), text(m.Doubt), m.Result, m.Lease.Microseconds(), m.Key, m.Owner)
		if err != nil || n > 0 {
			return err
		}
		if m.To == tools.Committed {
			err := t.one(ctx, "SELECT 1 FROM llm_tool_call WHERE key = ? AND owner = ? AND state = 'committed'",
				[]any{m.Key, m.Owner}, new(int))
			if !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		return tools.ErrLost
	})
}

func (s toolStore) Get(ctx context.Context, key string) (tools.Record, error) {
	if key != text(key) { // PostgreSQL does not even look
		return tools.Record{}, cmp.Or(context.Cause(ctx), tools.ErrNoRecord)
	}
	var r tools.Record
	err := toolRecord(s.db.QueryRowContext(ctx, s.kind.bind("SELECT "+s.columns()+" FROM llm_tool_call WHERE key = ?"), key), &r)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return tools.Record{}, tools.ErrNoRecord
	case err != nil:
		return tools.Record{}, fmt.Errorf("llm/stores/sql: tools: %w", err)
	}
	return r, nil
}

func (s toolStore) Acknowledge(ctx context.Context, turn string) error {
	if turn != text(turn) {
		return context.Cause(ctx)
	}
	return s.step(ctx, func(ctx context.Context, t tx) error {
		_, err := t.exec(ctx, "UPDATE llm_tool_call SET state = 'acknowledged', changed_us = "+s.kind.now()+
			" WHERE turn = ? AND state = 'committed'", turn)
		return err
	})
}

func (s toolStore) Doubtful(ctx context.Context, limit int) ([]tools.Record, error) {
	out, err := all(ctx, s.read(), "SELECT "+s.columns()+" FROM llm_tool_call WHERE state = 'started' AND until_us <= "+s.kind.now()+
		" ORDER BY changed_us, key LIMIT ?", []any{max(limit, 0)}, toolRecord)
	if err != nil {
		return nil, fmt.Errorf("llm/stores/sql: tools: %w", err)
	}
	return out, nil
}

func (s toolStore) Prune(ctx context.Context, age time.Duration) (int, error) {
	var n int64
	err := s.step(ctx, func(ctx context.Context, t tx) (err error) {
		now := s.kind.now()
		n, err = t.exec(ctx, "DELETE FROM llm_tool_call WHERE (state = 'acknowledged' OR state = 'requested' AND until_us <= "+now+
			") AND changed_us < "+now+" - ?", age.Microseconds())
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(n), nil
}
