package riverqueue

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/url"
	"strings"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// sqlRunner runs statements on a pool or in a transaction.
type sqlRunner struct {
	on interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
}

func inSQLite(query string) string {
	return strings.ReplaceAll(query, "{now}", "CAST(unixepoch('subsec') * 1000000 AS INTEGER)")
}

func (r sqlRunner) exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := r.on.ExecContext(ctx, inSQLite(query), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (r sqlRunner) rows(ctx context.Context, query string, args []any, each func(scan func(...any) error) error) (err error) {
	rows, err := r.on.QueryContext(ctx, inSQLite(query), args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

type sqliteTx struct {
	sqlRunner
	riverTx[*sql.Tx]
}

type sqliteEngine struct {
	sqlRunner
	db     *sql.DB
	own    bool // db was opened here
	driver *riversqlite.Driver
	client *river.Client[*sql.Tx]
	queue  string
	logger *slog.Logger
}

// sqliteDSN is a file's name, or an address that begins with "file:", with the settings that it does not have yet.
func sqliteDSN(dsn, synchronous string) string {
	if !strings.HasPrefix(dsn, "file:") {
		dsn = "file:" + (&url.URL{Path: dsn}).EscapedPath()
	}
	for _, s := range []struct{ name, setting string }{
		{"busy_timeout", "_pragma=busy_timeout(10000)"},
		{"journal_mode", "_pragma=journal_mode(wal)"},
		{"synchronous", "_pragma=synchronous(" + synchronous + ")"},
		{"_txlock", "_txlock=immediate"},
	} {
		if strings.Contains(dsn, s.name) {
			continue
		}
		if strings.Contains(dsn, "?") {
			dsn += "&" + s.setting
		} else {
			dsn += "?" + s.setting
		}
	}
	return dsn
}

func newSQLite(cfg *Config, log *slog.Logger) (engine, error) {
	e := &sqliteEngine{db: cfg.SQLite, queue: cfg.Name, logger: log}
	if e.db == nil {
		synchronous := "full"
		if cfg.Relaxed {
			synchronous = "normal"
		}
		db, err := sql.Open("sqlite", sqliteDSN(cfg.DSN, synchronous))
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1) // SQLite has one writer, and waiting for a connection is cheaper than for a lock
		e.db, e.own = db, true
	}
	e.sqlRunner = sqlRunner{e.db}
	e.driver = riversqlite.New(e.db)
	c, err := river.NewClient(e.driver, &river.Config{Logger: log})
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	e.client = c
	return e, nil
}

func (e *sqliteEngine) begin(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		if undo := tx.Rollback(); !errors.Is(undo, sql.ErrTxDone) {
			err = errors.Join(err, undo)
		}
		return err
	}
	return tx.Commit()
}

func (e *sqliteEngine) transact(ctx context.Context, do func(transaction) error) error {
	return e.begin(ctx, func(tx *sql.Tx) error {
		return do(sqliteTx{sqlRunner{tx}, riverTx[*sql.Tx]{e.client, e.queue, tx}})
	})
}

// prepare migrates in one transaction, which holds SQLite's only lock for writing.
func (e *sqliteEngine) prepare(ctx context.Context) error {
	m, err := rivermigrate.New(e.driver, &rivermigrate.Config{Logger: e.logger})
	if err != nil {
		return err
	}
	return e.begin(ctx, func(tx *sql.Tx) error {
		if err := onDisk(ctx, sqlRunner{tx}); err != nil {
			return err
		}
		//nolint:staticcheck // discouraged for PostgreSQL's migrations; those of SQLite fit in one transaction, which is the lock
		if _, err := m.MigrateTx(ctx, tx, rivermigrate.DirectionUp, nil); err != nil {
			return err
		}
		return migrateOurs(ctx, sqlRunner{tx})
	})
}

// onDisk is an error for a database in memory, or in a file that goes when it is closed: however it was addressed, SQLite knows.
func onDisk(ctx context.Context, r runner) error {
	var file string
	const query = `SELECT COALESCE(file, '') FROM pragma_database_list WHERE name = 'main'`
	err := r.rows(ctx, query, nil, func(scan func(...any) error) error { return scan(&file) })
	if err == nil && file == "" {
		err = errors.New("the database is in memory, and what is queued must outlive the process; give the queue a file")
	}
	return err
}

func (e *sqliteEngine) worker(cfg *river.Config) (client, error) {
	return river.NewClient(e.driver, cfg)
}

func (e *sqliteEngine) close() error {
	if !e.own {
		return nil
	}
	return e.db.Close()
}
