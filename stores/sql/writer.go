package sqlstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// A write is what is written whole or not at all. It shares its transaction with others.
type write struct {
	// stmts are executed, or fn is run. fn may run again if the transaction it shared failed; it is undone where it returns an
	// error, which the caller gets.
	stmts []stmt
	fn    func(ctx context.Context, t tx) error
	// keep tries again, for as long as the queue has room for it, after the caller was told that it failed or gave up. It is for
	// what may come late and more than once.
	keep bool

	state atomic.Uint32
	done  chan error // has room for one. nil: nobody waits
}

// The states of a write.
const (
	waiting   uint32 = iota
	taken            // by the writer: it may be written
	abandoned        // by the caller: it will not be
)

// backend writes batches.
type backend interface {
	// commit writes all or, with an error, nothing. Where fn of one fails, that one alone is undone and told.
	commit(ctx context.Context, s *Store, batch []*write) error
	// lone reports whether an error is about one write of a batch, so that the others may do without it.
	lone(err error) bool
	close()
}

// put hands w to the writer and returns when it is durable. Its error says when ctx ended first: w is not written then unless
// the writer had begun with it, or keep.
func (s *Store) put(ctx context.Context, w *write) error {
	w.done = make(chan error, 1)
	if err := s.enqueue(ctx, w); err != nil {
		return err
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
	}
	switch {
	case w.keep:
		return fmt.Errorf("llm/stores/sql: not yet written, and tried further: %w", context.Cause(ctx))
	case w.state.CompareAndSwap(waiting, abandoned):
		return fmt.Errorf("llm/stores/sql: not written, the writer did not come to it in time: %w", context.Cause(ctx))
	}
	select {
	case err := <-w.done:
		return err
	default:
		return fmt.Errorf("llm/stores/sql: it is not known whether it will be written, the database is slow: %w", context.Cause(ctx))
	}
}

func (s *Store) enqueue(ctx context.Context, w *write) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.shut {
		return errClosed
	}
	select {
	case s.queue <- w: // also when ctx is over: handing over takes no time
		return nil
	default:
	}
	select {
	case s.queue <- w:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("llm/stores/sql: not written, %d writes wait already: %w", cap(s.queue), context.Cause(ctx))
	}
}

// do runs fn in a transaction, and returns when that is durable or undone. fn must not keep t.
func (s *Store) do(ctx context.Context, fn func(ctx context.Context, t tx) error) error {
	if s.kind == sqlite { // which has one writer at a time
		return s.put(ctx, &write{fn: fn})
	}
	s.mu.RLock()
	shut := s.shut
	s.mu.RUnlock()
	if shut {
		return errClosed
	}
	return s.alone(ctx, fn)
}

// alone runs fn in a transaction of its own.
func (s *Store) alone(ctx context.Context, fn func(ctx context.Context, t tx) error) error {
	t, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer t.Rollback() //nolint:errcheck // it is over already unless fn failed, whose error counts
	if err := fn(ctx, tx{t, s.kind}); err != nil {
		return err
	}
	return t.Commit()
}

// read is for queries outside a transaction.
func (s *Store) read() tx { return tx{s.db, s.kind} }

// write is the writer: the one goroutine that takes from the queue.
func (s *Store) write() {
	defer close(s.dead)
	beat := time.NewTicker(max(s.cfg.Lease/3, time.Millisecond))
	defer beat.Stop()
	for {
		select {
		case w := <-s.queue:
			s.flush(s.gather(w))
		case <-beat.C:
			s.flush(s.gather(s.heartbeat()))
		case <-s.quit:
			for len(s.queue) > 0 {
				s.flush(s.gather(<-s.queue))
			}
			for n := len(s.late) + 1; 0 < len(s.late) && len(s.late) < n; {
				n = len(s.late)
				s.flush(s.gather(&write{}))
			}
			return
		}
	}
}

// gather is first and what else waits.
func (s *Store) gather(first *write) []*write {
	batch := make([]*write, 0, s.cfg.Batch)
	add := func(w *write) {
		if w.state.CompareAndSwap(waiting, taken) || w.keep {
			batch = append(batch, w)
		}
	}
	n := min(len(s.late), s.cfg.Batch/2)
	for _, w := range s.late[:n] {
		add(w)
	}
	s.late = s.late[n:]
	add(first)
	for len(batch) < s.cfg.Batch {
		select {
		case w := <-s.queue:
			add(w)
		default:
			return batch
		}
	}
	return batch
}

func (s *Store) flush(batch []*write) {
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	err := s.back.commit(ctx, s, batch)
	if err != nil && len(batch) > 1 && s.back.lone(err) {
		for _, w := range batch {
			s.flush([]*write{w})
		}
		return
	}
	for _, w := range batch {
		if err != nil && w.keep && !s.back.lone(err) && len(s.late) < s.cfg.Queue {
			s.late = append(s.late, w)
		}
		w.tell(err)
	}
}

// tell ends the wait for w, which may have been told before.
func (w *write) tell(err error) {
	if w.done == nil {
		return
	}
	select {
	case w.done <- err:
	default:
	}
}
