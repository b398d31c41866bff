package riverqueue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Config says where a queue is kept and what it takes. One of DSN, SQLite and Postgres must be set.
type Config struct {
	// DSN is the name of a SQLite file, which is made if it is not there, or an address that begins with "file:"; or that of a
	// PostgreSQL database, which begins with "postgres://" or is a list of key=value as libpq has them. A database in memory is
	// refused. "": see SQLite and Postgres.
	DSN string
	// SQLite is a database that is open. It must have WAL, a busy_timeout and _txlock=immediate, and is not closed here. nil: DSN.
	SQLite *sql.DB
	// Postgres is a pool that is open. A worker holds one of its connections to listen. It is not closed here. nil: DSN.
	Postgres *pgxpool.Pool
	// Relaxed opens SQLite with synchronous=NORMAL: what was acknowledged outlives the process, but the last of it may not
	// outlive the machine losing power. false: FULL, which outlives that too.
	Relaxed bool
	// Name is that of River's queue, so that several may share a database. Workers deliver what was enqueued under their own
	// name. "": "llm".
	Name string
	// KeyLabel is the label of a request that holds its idempotency key. "": "idempotency_key".
	KeyLabel string
	// MaxBytes bounds a request as JSON; images and files in it count 4/3 of their bytes. 0: 16 MiB.
	MaxBytes int
	// Keep is for how long a result can be fetched after the work ended. Workers delete older ones. 0: 7 days.
	Keep time.Duration
	// Poll is how often Wait looks for a result. 0: 250 ms.
	Poll time.Duration
	// Logger hears what River has to say. nil: nobody does.
	Logger *slog.Logger
}

// A Queue is a durable queue. It is a middleware.Queuer, safe for concurrent use.
type Queue struct {
	engine  engine
	cfg     Config
	batch   batch
	open    context.Context //nolint:containedctx // it is the queue's: its end, by Close, ends undoing
	shut    context.CancelFunc
	undoing sync.WaitGroup
}

// Open opens the queue and brings its tables up to date, River's and its own, also when several processes do so at once. It
// delivers nothing: see [Queue.Start]. It panics on negative settings.
func Open(ctx context.Context, cfg Config) (*Queue, error) {
	for _, c := range []struct {
		name string
		n    int64
	}{{"MaxBytes", int64(cfg.MaxBytes)}, {"Keep", int64(cfg.Keep)}, {"Poll", int64(cfg.Poll)}} {
		mustNotBeNegative("Config", c.name, c.n)
	}
	cfg.Name = cmp.Or(cfg.Name, "llm")
	cfg.KeyLabel = cmp.Or(cfg.KeyLabel, "idempotency_key")
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 16<<20)
	cfg.Keep = cmp.Or(cfg.Keep, 7*24*time.Hour)
	cfg.Poll = cmp.Or(cfg.Poll, 250*time.Millisecond)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	e, err := newEngine(ctx, &cfg)
	if err != nil {
		return nil, fmt.Errorf("riverqueue: open: %w", err)
	}
	if err := e.prepare(ctx); err != nil {
		err = errors.Join(err, e.close())
		return nil, fmt.Errorf("riverqueue: open%s: the tables cannot be brought up to date: %w", cfg.file(), err)
	}
	q := &Queue{engine: e, cfg: cfg}
	q.open, q.shut = context.WithCancel(context.WithoutCancel(ctx))
	return q, nil
}

func mustNotBeNegative(where, name string, n int64) {
	if n < 0 {
		panic(fmt.Sprintf("llm/queue/river: %s.%s is negative; use 0 for what its comment says", where, name))
	}
}

func (c *Config) postgres() bool {
	if c.Postgres != nil || strings.HasPrefix(c.DSN, "postgres://") || strings.HasPrefix(c.DSN, "postgresql://") {
		return true
	}
	key, _, list := strings.Cut(c.DSN, "=")
	return list && slices.Contains([]string{
		"host", "hostaddr", "port", "dbname", "user", "password", "passfile", "service", "servicefile", "sslmode", "sslrootcert",
		"connect_timeout", "application_name", "target_session_attrs", "pool_max_conns",
	}, strings.TrimSpace(key))
}

// file is the SQLite file for an error.
func (c *Config) file() string {
	if c.DSN == "" || c.postgres() { // an address of PostgreSQL may have a password
		return ""
	}
	name := c.DSN
	if strings.HasPrefix(name, "file:") {
		name, _, _ = strings.Cut(name, "?")
	}
	return " " + name
}

func newEngine(ctx context.Context, cfg *Config) (engine, error) {
	given := 0
	for _, set := range []bool{cfg.DSN != "", cfg.SQLite != nil, cfg.Postgres != nil} {
		if set {
			given++
		}
	}
	if given != 1 {
		return nil, fmt.Errorf("%d of Config.DSN, SQLite and Postgres are set; set exactly one", given)
	}
	if cfg.postgres() {
		return newPostgres(ctx, cfg, cfg.Logger)
	}
	return newSQLite(cfg, cfg.Logger)
}

// Close closes what Open opened. Workers must have been stopped.
func (q *Queue) Close() error {
	q.shut()
	q.undoing.Wait()
	return q.engine.close()
}
