package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// OpenPostgres opens the database at dsn, a URL or a list of key=value as libpq has them; pool_max_conns in it bounds the
// connections. The tables are made in the first schema of the search_path. The password is in no error.
func OpenPostgres(ctx context.Context, dsn string, cfg Config) (*Store, error) {
	cfg.check("OpenPostgres")
	pc, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("llm/stores/sql: OpenPostgres: %w", err)
	}
	setting := "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
	if cfg.Relaxed {
		setting = "SELECT set_config('synchronous_commit', 'off', false)"
	}
	pc.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, setting)
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("llm/stores/sql: OpenPostgres: %w", err)
	}
	db := stdlib.OpenDBFromPool(pool)
	if err := db.PingContext(ctx); err != nil {
		err = errors.Join(fmt.Errorf("llm/stores/sql: OpenPostgres: %w", err), db.Close())
		pool.Close()
		return nil, err
	}
	return open(ctx, &Store{cfg: cfg, kind: postgres, db: db, pool: pool, back: postgresWriter{pool}})
}

type postgresWriter struct{ pool *pgxpool.Pool }

func (b postgresWriter) close() { b.pool.Close() }

// lone reports whether it is about the data of a row.
func (b postgresWriter) lone(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && len(e.Code) == 5 && (e.Code[:2] == "22" || e.Code[:2] == "23")
}

// commit sends all in one go: without BEGIN what comes before the end of a batch is one transaction.
func (b postgresWriter) commit(ctx context.Context, s *Store, batch []*write) error {
	var all pgx.Batch
	for _, w := range batch {
		for i := range w.stmts {
			all.Queue(s.kind.bind(w.stmts[i].query), w.stmts[i].args...)
		}
	}
	if all.Len() == 0 {
		return nil
	}
	if err := b.pool.SendBatch(ctx, &all).Close(); err != nil {
		return fmt.Errorf("llm/stores/sql: %w", err)
	}
	return nil
}
