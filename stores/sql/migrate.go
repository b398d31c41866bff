package sqlstore

import (
	"context"
	"fmt"
)

// A migration is one step of the schema. Once released it is never changed; the next one mends it.
type migration struct {
	name  string
	steps func(dialect) []string
}

// migrations is the schema, in order. Each kind of table adds its own at the end.
func migrations() []migration {
	return []migration{
		{"owners", func(d dialect) []string {
			return []string{
				"CREATE TABLE llm_owner (owner TEXT PRIMARY KEY, since_us BIGINT NOT NULL, until_us BIGINT NOT NULL)" + d.rowless(),
			}
		}},
		{"journal", journalSchema},
		{"tools", toolsSchema},
		{"deliveries", deliveriesSchema},
	}
}

// schemaLock is the number of the lock that those who migrate take in PostgreSQL: "llm_sche" in ASCII.
const schemaLock = 0x6c6c6d5f73636865

// migrate brings the schema up to date. Of several processes that open the database at once, one does it.
func (s *Store) migrate(ctx context.Context) error {
	steps := migrations()
	err := s.alone(ctx, func(ctx context.Context, t tx) error {
		if s.kind == postgres {
			if _, err := t.exec(ctx, "SELECT pg_advisory_xact_lock(?)", int64(schemaLock)); err != nil {
				return err
			}
		}
		if _, err := t.exec(ctx, "CREATE TABLE IF NOT EXISTS llm_schema (version INTEGER PRIMARY KEY, name TEXT NOT NULL, "+
			"applied_us BIGINT NOT NULL)"); err != nil {
			return err
		}
		var have int
		if err := t.one(ctx, "SELECT coalesce(max(version), 0) FROM llm_schema", nil, &have); err != nil {
			return err
		}
		if have > len(steps) {
			return fmt.Errorf("the schema has version %d, and this program knows those up to %d; update the program", have, len(steps))
		}
		for i, m := range steps[have:] {
			for _, step := range m.steps(s.kind) {
				if _, err := t.exec(ctx, step); err != nil {
					return fmt.Errorf("migration %d (%s): %w", have+i+1, m.name, err)
				}
			}
			if _, err := t.exec(ctx, "INSERT INTO llm_schema (version, name, applied_us) VALUES (?, ?, "+s.kind.now()+")",
				have+i+1, m.name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("llm/stores/sql: the schema: %w", err)
	}
	return nil
}
