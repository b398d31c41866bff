package riverqueue

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// pgRunner runs statements on a pool or in a transaction.
type pgRunner struct {
	on interface {
		Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	}
}

func inPostgres(query string) string {
	return numbered(strings.ReplaceAll(query, "{now}", "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"))
}

func (r pgRunner) exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := r.on.Exec(ctx, inPostgres(query), args...)
	return tag.RowsAffected(), err
}

func (r pgRunner) rows(ctx context.Context, query string, args []any, each func(scan func(...any) error) error) error {
	rows, err := r.on.Query(ctx, inPostgres(query), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

type postgresTx struct {
	pgRunner
	riverTx[pgx.Tx]
}

type postgresEngine struct {
	pgRunner
	pool   *pgxpool.Pool
	own    bool // pool was opened here
	driver *riverpgxv5.Driver
	client *river.Client[pgx.Tx]
	queue  string
	logger *slog.Logger
}

func newPostgres(ctx context.Context, cfg *Config, log *slog.Logger) (engine, error) {
	e := &postgresEngine{pool: cfg.Postgres, queue: cfg.Name, logger: log}
	if e.pool == nil {
		pool, err := pgxpool.New(ctx, cfg.DSN)
		if err != nil {
			return nil, err
		}
		e.pool, e.own = pool, true
	}
	e.pgRunner = pgRunner{e.pool}
	e.driver = riverpgxv5.New(e.pool)
	c, err := river.NewClient(e.driver, &river.Config{Logger: log})
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	e.client = c
	return e, nil
}

// commitTime is how long a commit may take. It is not cut short by the end of ctx, after which nobody would know its outcome.
const commitTime = 5 * time.Second

func (e *postgresEngine) transact(ctx context.Context, do func(transaction) error) error {
	tx, err := e.pool.Begin(ctx)
	if err != nil {
		return err
	}
	err = do(postgresTx{pgRunner{tx}, riverTx[pgx.Tx]{e.client, e.queue, tx}})
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer cancel()
	if err != nil {
		return errors.Join(err, tx.Rollback(last))
	}
	return tx.Commit(last)
}

// migrationLock is the advisory lock of who migrates: "llm_work" as a number.
const migrationLock = 0x6c6c6d5f776f726b

// prepare migrates while it holds a lock, on a connection beside the pool, which may have a single one. River's migrations do
// not all fit in one transaction.
func (e *postgresEngine) prepare(ctx context.Context) (err error) {
	conn, err := pgx.ConnectConfig(ctx, e.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(migrationLock)); err != nil {
		return err
	}
	m, err := rivermigrate.New(e.driver, &rivermigrate.Config{Logger: e.logger})
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error { return migrateOurs(ctx, pgRunner{tx}) })
}

func (e *postgresEngine) worker(cfg *river.Config) (client, error) {
	return river.NewClient(e.driver, cfg)
}

func (e *postgresEngine) close() error {
	if e.own {
		e.pool.Close()
	}
	return nil
}
