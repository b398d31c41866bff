package sqlstore

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/modelchain/llm/internal/pgtest"
)

// A place is an empty database, and how to open it.
type place struct {
	kind string
	name string // the path or address
	open func(ctx context.Context, cfg Config) (*Store, error)
}

// onBoth runs a test on an empty database of each kind.
func onBoth(t *testing.T, test func(t *testing.T, p place)) {
	t.Run("sqlite", func(t *testing.T) { test(t, sqlitePlace(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, postgresPlace(t)) })
}

func sqlitePlace(t testing.TB) place {
	path := filepath.Join(t.TempDir(), "a journal?.db")
	return place{"sqlite", path, func(ctx context.Context, cfg Config) (*Store, error) { return OpenSQLite(ctx, path, cfg) }}
}

func postgresPlace(t testing.TB) place {
	dsn := pgtest.Start(t)
	return place{"postgres", dsn, func(ctx context.Context, cfg Config) (*Store, error) { return OpenPostgres(ctx, dsn, cfg) }}
}

// mustOpen opens p until the test ends.
func mustOpen(t testing.TB, p place, cfg Config) *Store {
	t.Helper()
	s, err := p.open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestProcessesThatOpenAnEmptyDatabaseAtOnceMakeOneSchema(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { mustOpen(t, p, Config{}) })
		}
		all.Wait()
		s := mustOpen(t, p, Config{})
		var steps, owners int
		if err := s.read().one(t.Context(), "SELECT count(*) FROM llm_schema", nil, &steps); err != nil {
			t.Fatal(err)
		}
		if err := s.read().one(t.Context(), "SELECT count(*) FROM llm_owner", nil, &owners); err != nil {
			t.Fatal(err)
		}
		if steps != len(migrations()) || owners != 9 {
			t.Errorf("%d of %d steps, %d owners; want 9", steps, len(migrations()), owners)
		}
	})
}

func TestASchemaOfANewerProgramIsLeftAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		s := mustOpen(t, p, Config{})
		if _, err := s.read().exec(t.Context(), "INSERT INTO llm_schema VALUES (99, 'later', 0)"); err != nil {
			t.Fatal(err)
		}
		if other, err := p.open(t.Context(), Config{}); err == nil {
			t.Errorf("it opened: %v", other.Close())
		}
	})
}

func TestWhatFailsInASharedTransactionFailsAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		s := mustOpen(t, p, Config{})
		bad := errors.New("no")
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				err := s.do(t.Context(), func(ctx context.Context, tx tx) error {
					if _, err := tx.exec(ctx, "INSERT INTO llm_schema VALUES (?, 'x', 0)", 100+i); err != nil {
						return err
					}
					if i%2 == 0 {
						return bad
					}
					return nil
				})
				if want := i%2 == 0; errors.Is(err, bad) != want || !want && err != nil {
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		all.Wait()
		var n, odd int
		err := s.read().one(t.Context(), "SELECT count(*), coalesce(sum(version % 2), 0) FROM llm_schema WHERE version >= 100", nil, &n, &odd)
		if err != nil || n != 25 || odd != 25 {
			t.Errorf("%d rows, %d of them odd, %v; want 25 odd ones", n, odd, err)
		}
	})
}

func TestAClosedStoreSaysSo(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		s, err := p.open(t.Context(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("the second Close: %v", err)
		}
		if err := s.put(t.Context(), s.heartbeat()); !errors.Is(err, errClosed) {
			t.Errorf("put: %v", err)
		}
		if err := s.do(t.Context(), func(context.Context, tx) error { return nil }); !errors.Is(err, errClosed) {
			t.Errorf("do: %v", err)
		}
	})
}

// Rows and views of an older schema are there, with the new columns, when a newer program opens it.
func TestAnOlderJournalIsBroughtUpToDate(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		old := mustOpen(t, p, Config{})
		noErr(t, old.Journal().Begin(t.Context(), attemptRow(1)))
		for _, step := range []string{
			"DROP VIEW llm_calls", "DROP VIEW llm_outcomes", "ALTER TABLE llm_call DROP COLUMN delivery",
			"CREATE VIEW llm_calls AS SELECT call_id FROM llm_call", "CREATE VIEW llm_outcomes AS SELECT outcome FROM llm_call",
			"DELETE FROM llm_schema WHERE name = 'deliveries'",
		} {
			_, err := old.read().exec(t.Context(), step)
			noErr(t, err)
		}
		want(t, "the call", texts(t, mustOpen(t, p, Config{}), "SELECT outcome || delivery FROM llm_calls"), []string{"running0"})
	})
}
