package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/pgtest"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// An outage makes a store impossible to write, and returns what ends it. nil: nothing does.
type outage func(t *testing.T, s *Store, p place) (end func())

func run(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(context.WithoutCancel(t.Context()), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func pragma(broken, mended string) outage {
	return func(t *testing.T, s *Store, _ place) func() {
		b, ok := s.back.(*sqliteWriter)
		if !ok {
			t.Fatalf("the store writes by %T", s.back)
		}
		set := func(p string) {
			if _, err := b.conn.ExecContext(t.Context(), "PRAGMA "+p); err != nil {
				t.Fatal(err)
			}
		}
		set(broken)
		return func() { set(mended) }
	}
}

func outages() map[string]map[string]outage {
	closed := func(t *testing.T, s *Store, _ place) func() {
		noErr(t, s.Close())
		return nil
	}
	return map[string]map[string]outage{
		"sqlite": {
			"closed": closed,
			"file removed": func(t *testing.T, s *Store, _ place) func() {
				noErr(t, os.Remove(s.path))
				return nil
			},
			"file replaced": func(t *testing.T, s *Store, _ place) func() {
				noErr(t, os.Rename(s.path, s.path+".old"))
				noErr(t, os.WriteFile(s.path, nil, 0o600))
				return nil
			},
			"read-only": pragma("query_only = 1", "query_only = 0"),
			"disk full": func(t *testing.T, s *Store, p place) func() {
				end := pragma("max_page_count = 1", "max_page_count = 1000000")(t, s, p) // no further page
				for n, failed := int64(0), 0; failed < 3; n++ {                          // and those that there are get full
					a := attemptRow(n)
					a.Deployment = "filler"
					if s.Journal().Begin(t.Context(), a) != nil {
						failed++
					}
				}
				return end
			},
			"locked by another": func(t *testing.T, s *Store, _ place) func() {
				conn, err := s.db.Conn(t.Context())
				noErr(t, err)
				_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
				noErr(t, err)
				return func() {
					_, err := conn.ExecContext(t.Context(), "ROLLBACK")
					noErr(t, errors.Join(err, conn.Close()))
				}
			},
		},
		"postgres": {
			"closed": closed,
			"server gone": func(t *testing.T, _ *Store, p place) func() {
				u, err := url.Parse(p.name)
				noErr(t, err)
				name := strings.TrimPrefix(u.Path, "/")
				admin, err := sql.Open("pgx", pgtest.Admin(t))
				noErr(t, err)
				t.Cleanup(func() { noErr(t, admin.Close()) })
				run(t, admin, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false")
				run(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
				return func() { run(t, admin, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS true") }
			},
			"table locked": func(t *testing.T, s *Store, _ place) func() {
				tx, err := s.db.BeginTx(context.WithoutCancel(t.Context()), nil)
				noErr(t, err)
				_, err = tx.ExecContext(t.Context(), "LOCK TABLE llm_attempt IN ACCESS EXCLUSIVE MODE")
				noErr(t, err)
				return func() { noErr(t, tx.Rollback()) }
			},
		},
	}
}

func TestAStoreThatCannotBeWrittenIsLeftToThePolicy(t *testing.T) {
	places := map[string]func(testing.TB) place{"sqlite": sqlitePlace, "postgres": postgresPlace}
	for kind, all := range outages() {
		for name, broken := range all {
			for policy, down := range map[string]middleware.JournalDown{"refuse": middleware.DownRefuse, "go on": middleware.DownGoOn} {
				t.Run(kind+"/"+name+"/"+policy, func(t *testing.T) {
					p := places[kind](t)
					s, err := p.open(t.Context(), Config{})
					noErr(t, err)
					defer func() { // a Close that is the second one is nil
						if err := s.Close(); err != nil != strings.HasPrefix(name, "file") {
							t.Errorf("Close: %v", err)
						}
					}()
					model := llmtest.Script()
					chat := llm.New(middleware.Journal(middleware.JournalConfig{
						Store: s.Journal(), Down: down, Timeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
					})).Then(&llm.Deployment{Name: "a", Caller: model})
					ask := func() error {
						_, err := chat.Call(t.Context(), &llm.Request{Messages: []llm.Message{llm.User("hi")}})
						return err
					}
					end := broken(t, s, p)
					err = ask()
					switch {
					case down == middleware.DownRefuse && (!errors.Is(err, middleware.ErrJournalDown) || model.Count() != 0):
						t.Errorf("%v after %d calls of the provider", err, model.Count())
					case down == middleware.DownGoOn && (err != nil || model.Count() != 1):
						t.Errorf("%v after %d calls of the provider", err, model.Count())
					}
					if end == nil {
						return
					}
					end()
					for n := 0; ask() != nil; n++ {
						if n == 100_000 {
							t.Fatal("the store is not back")
						}
					}
					// What could not be written was kept: the first call is settled, made or not, and nothing is left behind.
					state := map[middleware.JournalDown]string{middleware.DownRefuse: "not_made", middleware.DownGoOn: "answered"}[down]
					var rows []string
					for n := 0; len(rows) == 0 || rows[0] != state; n++ {
						if n == 1000 {
							t.Fatalf("the rows are %q, want the first to be %s", rows, state)
						}
						noErr(t, s.put(t.Context(), s.heartbeat()))
						rows = texts(t, s, "SELECT state FROM llm_attempt WHERE deployment = 'a' ORDER BY start_us")
					}
				})
			}
		}
	}
}

func TestAFullQueueKeepsACallNoLongerThanItsTime(t *testing.T) {
	s := mustOpen(t, sqlitePlace(t), Config{Queue: 1, Batch: 1})
	end := outages()["sqlite"]["locked by another"](t, s, place{})
	var full, late int
	for n := range int64(5) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := s.Journal().Begin(ctx, attemptRow(n))
		cancel()
		switch {
		case !errors.Is(err, context.DeadlineExceeded):
			t.Fatal(err)
		case strings.Contains(err.Error(), "writes wait already"):
			full++
		default:
			late++
		}
	}
	end()
	if full == 0 || late == 0 {
		t.Errorf("%d found the queue full, %d waited in it", full, late)
	}
	noErr(t, s.put(t.Context(), s.heartbeat())) // after all that was queued
	// The first may have been begun with when its caller gave up; the others never were.
	if rows := texts(t, s, "SELECT call_id FROM llm_attempt"); len(rows) > 1 {
		t.Errorf("written although their callers were told that they are not: %q", rows)
	}
}

func TestDurabilityIsAsTheConfigurationSays(t *testing.T) {
	for _, relaxed := range []bool{false, true} {
		s := mustOpen(t, sqlitePlace(t), Config{Relaxed: relaxed})
		b, ok := s.back.(*sqliteWriter)
		if !ok {
			t.Fatalf("the store writes by %T", s.back)
		}
		var level, mode string
		noErr(t, b.conn.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&level))
		noErr(t, b.conn.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode))
		want(t, "synchronous and mode", level+mode, map[bool]string{false: "2wal", true: "1wal"}[relaxed])
	}
	dsn := pgtest.Start(t)
	for _, relaxed := range []bool{false, true} {
		s, err := OpenPostgres(t.Context(), dsn, Config{Relaxed: relaxed})
		noErr(t, err)
		want(t, "synchronous_commit", texts(t, s, "SHOW synchronous_commit"), map[bool][]string{false: {"on"}, true: {"off"}}[relaxed])
		run(t, s.db, "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET synchronous_commit = off'; END $$")
		noErr(t, s.Close())
	}
	s, err := OpenPostgres(t.Context(), dsn, Config{})
	noErr(t, err)
	defer func() { noErr(t, s.Close()) }()
	want(t, "synchronous_commit where the database's own is off", texts(t, s, "SHOW synchronous_commit"), []string{"on"})
}

func TestWhatCannotBeOpenedSaysWhy(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	noErr(t, os.WriteFile(text, []byte(strings.Repeat("no database ", 200)), 0o600))
	for path, want := range map[string]string{
		"": "give it a file", ":memory:": "not durable", filepath.Join(dir, "missing", "x.db"): "unable to open", text: "not a database",
	} {
		s, err := OpenSQLite(t.Context(), path, Config{})
		if err == nil {
			t.Errorf("%q opened: %v", path, s.Close())
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", path, err, want)
		}
	}
	for _, dsn := range []string{"postgres://u:hunter2@127.0.0.1:1/db", "postgres://u:hunter2@127.0.0.1:port/db", "host=127.0.0.1 port=1 password=hunter2 x"} {
		s, err := OpenPostgres(t.Context(), dsn, Config{})
		if err == nil {
			t.Errorf("%q opened: %v", dsn, s.Close())
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password is in %v", err)
		}
	}
	defer func() {
		if v, ok := recover().(string); !ok || !strings.Contains(v, "Batch -1") {
			t.Errorf("nonsense: %v", v)
		}
	}()
	_, err := OpenSQLite(t.Context(), text, Config{Batch: -1})
	t.Errorf("nonsense: %v", err)
}
