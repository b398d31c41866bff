package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	lib "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// OpenSQLite opens the database in the file at path, which is made if it is missing; its directory must exist. Beside it are
// two more files, path-wal and path-shm, as long as it is open. It must be on a local disk. Several processes of one machine
// may share it.
func OpenSQLite(ctx context.Context, path string, cfg Config) (*Store, error) {
	cfg.check("OpenSQLite")
	if path == "" || strings.Contains(path, ":memory:") {
		return nil, fmt.Errorf("llm/stores/sql: OpenSQLite: the path is %q; give it a file, what is in memory is not durable", path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("llm/stores/sql: OpenSQLite: %w", err)
	}
	sync := "FULL"
	if cfg.Relaxed {
		sync = "NORMAL"
	}
	pragmas := url.Values{
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(" + sync + ")"}, "_txlock": {"immediate"},
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: filepath.ToSlash(abs)}).EscapedPath()+"?"+pragmas.Encode())
	if err != nil {
		return nil, fmt.Errorf("llm/stores/sql: OpenSQLite: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err == nil {
		err = conn.PingContext(ctx)
	}
	var file os.FileInfo
	if err == nil {
		file, err = os.Stat(abs)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("llm/stores/sql: OpenSQLite %s: %w", path, err), db.Close())
	}
	back := &sqliteWriter{conn: conn, file: file, prepared: map[string]*sql.Stmt{}}
	return open(ctx, &Store{cfg: cfg, kind: sqlite, path: abs, db: db, back: back})
}

// sqliteWriter is the connection that writes.
type sqliteWriter struct {
	conn     *sql.Conn
	file     os.FileInfo // that was opened
	prepared map[string]*sql.Stmt
}

func (b *sqliteWriter) close() {
	for _, s := range b.prepared {
		_ = s.Close() // the connection is closed next
	}
	_ = b.conn.Close() // it goes back to a pool that is closed next
}

func (b *sqliteWriter) lone(err error) bool {
	e, ok := errors.AsType[*lib.Error](err)
	if !ok {
		return false
	}
	switch e.Code() & 0xff {
	case codes.SQLITE_CONSTRAINT, codes.SQLITE_MISMATCH, codes.SQLITE_TOOBIG, codes.SQLITE_RANGE:
		return true
	}
	return false
}

// commit writes to a file only if it still has its name: one that was removed takes writes, and loses them.
func (b *sqliteWriter) commit(ctx context.Context, s *Store, batch []*write) (err error) {
	// The driver starts a goroutine for each statement that can be canceled. Waits are bounded by busy_timeout.
	ctx = context.WithoutCancel(ctx)
	now, err := os.Stat(s.path)
	if err != nil || !os.SameFile(now, b.file) {
		return fmt.Errorf("llm/stores/sql: the file %s was removed or replaced; close the store and open it again", s.path)
	}
	if err := b.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		_ = b.exec(ctx, "ROLLBACK") // in case the last one could not be ended
		return fmt.Errorf("llm/stores/sql: %w", err)
	}
	failed := make(map[*write]error)
	defer func() {
		if err != nil {
			back := b.exec(ctx, "ROLLBACK")
			if back != nil && !strings.Contains(back.Error(), "no transaction") { // an error may have ended it
				err = errors.Join(err, back)
			}
			return
		}
		for w, e := range failed {
			w.tell(e)
		}
	}()
	for _, w := range batch {
		for i := range w.stmts {
			if err := b.exec(ctx, w.stmts[i].query, w.stmts[i].args...); err != nil {
				return fmt.Errorf("llm/stores/sql: %w", err)
			}
		}
		if w.fn == nil {
			continue
		}
		if err := b.exec(ctx, "SAVEPOINT one"); err != nil {
			return fmt.Errorf("llm/stores/sql: %w", err)
		}
		if e := w.fn(ctx, tx{b.conn, sqlite}); e != nil {
			failed[w] = e
			if err := b.exec(ctx, "ROLLBACK TO one"); err != nil { // the whole transaction is gone: the disk is full
				return fmt.Errorf("llm/stores/sql: %w", e)
			}
		}
		if err := b.exec(ctx, "RELEASE one"); err != nil {
			return fmt.Errorf("llm/stores/sql: %w", cmp.Or(failed[w], err))
		}
	}
	if err := b.exec(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("llm/stores/sql: %w", err)
	}
	return nil
}

// exec executes a statement that is prepared once.
func (b *sqliteWriter) exec(ctx context.Context, query string, args ...any) (err error) {
	p := b.prepared[query]
	if p == nil {
		if p, err = b.conn.PrepareContext(ctx, query); err != nil {
			return err
		}
		b.prepared[query] = p
	}
	_, err = p.ExecContext(ctx, args...)
	return err
}
