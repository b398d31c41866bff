package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Config sets [OpenSQLite] and [OpenPostgres]. The zero value is usable.
type Config struct {
	// Batch is the most writes that share one transaction. A batch is what came in while the one before it was written, so
	// nobody waits for it to fill up. 0: 256.
	Batch int
	// Queue is the most writes that wait to be written. When it is full, a further one waits for room as long as its caller
	// allows, and then fails. 0: 4096.
	Queue int
	// Lease is how long a process that was killed, or cannot reach the database, still counts as alive; then [Journal.Recover]
	// takes what it left. It is renewed three times as often. 0: 30 s.
	Lease time.Duration
	// Relaxed trades durability for speed. false: what is acknowledged survives a loss of power. true: it survives the end of
	// the process, by kill -9 too, but a crash of the operating system or a loss of power may take the last moments before it;
	// the database stays whole. SQLite: synchronous NORMAL in place of FULL. PostgreSQL: synchronous_commit off in place of
	// the server's own setting, and there a crash of the server counts as one of the operating system.
	Relaxed bool
}

func (c *Config) check(where string) {
	if c.Batch < 0 || c.Queue < 0 || c.Lease < 0 {
		panic(fmt.Sprintf("llm/stores/sql: %s: Batch %d, Queue %d, Lease %v: use 0 for the defaults", where, c.Batch, c.Queue, c.Lease))
	}
	if c.Batch == 0 {
		c.Batch = 256
	}
	if c.Queue == 0 {
		c.Queue = 4096
	}
	if c.Lease == 0 {
		c.Lease = 30 * time.Second
	}
}

// A Store is an open database. It is safe for concurrent use; several processes may have the same database open.
type Store struct {
	cfg   Config
	kind  dialect
	path  string // SQLite's file
	db    *sql.DB
	pool  *pgxpool.Pool // PostgreSQL's
	back  backend
	owner string // this opening's name in llm_owner

	queue chan *write
	late  []*write // that failed and are tried again; the writer's own as long as it runs
	mu    sync.RWMutex
	shut  bool          // under mu: nothing more is put into queue
	quit  chan struct{} // closed to end the writer
	dead  chan struct{} // closed when it has ended
}

var errClosed = errors.New("llm/stores/sql: the store is closed")

// Batches share a transaction, so none may take longer than this.
const flushTimeout = 10 * time.Second

// open brings the schema up to date and starts the writer.
func open(ctx context.Context, s *Store) (*Store, error) {
	s.owner = rand.Text()
	s.queue = make(chan *write, s.cfg.Queue)
	s.quit, s.dead = make(chan struct{}), make(chan struct{})
	err := s.migrate(ctx)
	if err == nil {
		err = s.back.commit(ctx, s, []*write{s.heartbeat()})
	}
	if err != nil {
		s.back.close()
		return nil, errors.Join(err, s.db.Close())
	}
	go s.write()
	return s, nil
}

// Close writes what is queued, gives up the lease and closes the database. Calls still under way find the store closed. Its
// error says how many ends of attempts and calls could not be written, if any.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.shut {
		s.mu.Unlock()
		<-s.dead
		return nil
	}
	s.shut = true
	s.mu.Unlock()
	close(s.quit)
	<-s.dead
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	left := s.back.commit(ctx, s, []*write{{stmts: []stmt{{"DELETE FROM llm_owner WHERE owner = ?", []any{s.owner}}}}})
	if n := len(s.late); n > 0 {
		left = errors.Join(fmt.Errorf("llm/stores/sql: %d ends of attempts and calls are lost", n), left)
	}
	s.back.close()
	return errors.Join(left, s.db.Close())
}

// heartbeat renews the lease, by the database's own clock.
func (s *Store) heartbeat() *write {
	return &write{stmts: []stmt{{
		"INSERT INTO llm_owner (owner, since_us, until_us) VALUES (?, " + s.kind.now() + ", " + s.kind.now() + " + ?) " +
			"ON CONFLICT (owner) DO UPDATE SET until_us = excluded.until_us", []any{s.owner, s.cfg.Lease.Microseconds()},
	}}}
}
