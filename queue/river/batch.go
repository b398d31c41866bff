package riverqueue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// What one transaction takes at most of those who enqueue at the same time.
const (
	batchPieces = 64
	batchBytes  = 4 << 20 // but one piece, however large
	batchTime   = 5 * time.Second
)

// batch has pieces made durable together: a commit waits for the disk, and one wait does for all who came meanwhile.
type batch struct {
	mu      sync.Mutex
	waiting []*entry
	busy    bool
	stop    context.CancelFunc // ends the wait for the database, which is for nobody once nothing waits
}

type entry struct {
	piece *piece
	done  chan error
	stage stage // under batch.mu
}

type stage uint8

const (
	entryWaits  stage = iota
	entryTaken        // its row is being written
	entrySealed       // its row is being committed
	entryGone         // whoever enqueued it was told that it is not queued
)

// insert returns when p is durable. If ctx ends before that, p is not enqueued: it is left out, or its row is deleted before the
// transaction is committed. Only the commit itself is waited for, since nobody is to be told that work was not queued which then
// is delivered. undo is given pieces of which even that does not tell.
func (b *batch) insert(ctx context.Context, e engine, p *piece, undo func([]*piece)) error {
	mine := &entry{piece: p, done: make(chan error, 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, mine)
	lead := !b.busy
	b.busy = true
	b.mu.Unlock()
	if lead {
		go b.run(context.WithoutCancel(ctx), e, undo)
	}
	select {
	case err := <-mine.done:
		return err
	case <-ctx.Done():
		if b.leave(mine) {
			return context.Cause(ctx)
		}
		return <-mine.done
	}
}

// leave gives e up, unless it is being committed.
func (b *batch) leave(e *entry) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.stage == entrySealed {
		return false
	}
	e.stage = entryGone
	if i := slices.Index(b.waiting, e); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
		if len(b.waiting) == 0 && b.stop != nil {
			b.stop()
		}
	}
	return true
}

// run works off what waits, until nothing does.
func (b *batch) run(ctx context.Context, e engine, undo func([]*piece)) {
	for {
		limited, cancel := context.WithTimeout(ctx, batchTime)
		if !b.begin(cancel) {
			cancel()
			return
		}
		var entries []*entry
		sealed := false
		err := e.transact(limited, func(tx transaction) error {
			if entries = b.take(); len(entries) == 0 { // all left while the database was waited for
				return nil
			}
			if err := insert(limited, tx, pieces(entries)); err != nil {
				return err
			}
			sealed = true
			for _, left := range b.seal(entries) {
				if _, err := tx.exec(limited, `DELETE FROM llm_work WHERE id = ?`, left.piece.id); err != nil {
					return err
				}
			}
			return nil
		})
		late := limited.Err() != nil
		cancel()
		switch {
		case err == nil:
		case sealed:
			undo(pieces(entries))
			err = fmt.Errorf("it is not known whether it was stored, and it is taken back: %w", err)
		case entries == nil && !late:
			entries = b.take()
		case entries == nil: // each who waits knows for how long
			continue
		}
		for i := range entries {
			entries[i].done <- err
		}
	}
}

// begin reports whether anything waits. Nothing: run is over.
func (b *batch) begin(stop context.CancelFunc) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = len(b.waiting) > 0
	b.stop = stop
	return b.busy
}

// take is what is written now. It is asked for when the database can be written, so that a wait for it is part of no transaction.
func (b *batch) take() []*entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop = nil
	n, size := 0, 0
	for n < min(len(b.waiting), batchPieces) {
		if size += len(b.waiting[n].piece.request); n > 0 && size > batchBytes {
			break
		}
		b.waiting[n].stage = entryTaken
		n++
	}
	taken := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	return taken
}

// seal has nobody leave any more, and returns those who did.
func (b *batch) seal(entries []*entry) (gone []*entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range entries {
		if e.stage == entryGone {
			gone = append(gone, e)
			continue
		}
		e.stage = entrySealed
	}
	return gone
}

func pieces(entries []*entry) []*piece {
	list := make([]*piece, len(entries))
	for i := range entries {
		list[i] = entries[i].piece
	}
	return list
}

// undo deletes pieces whose commit failed in a way that does not tell whether they are in the database, as soon as it can be
// asked. What a worker was faster with stays.
func (q *Queue) undo(list []*piece) {
	q.undoing.Go(func() {
		ctx, cancel := context.WithTimeout(q.open, undoTime)
		defer cancel()
		pause := time.NewTimer(0)
		defer pause.Stop()
		for wait := 50 * time.Millisecond; ; wait = min(wait*2, time.Second) {
			select {
			case <-ctx.Done():
				return
			case <-pause.C:
			}
			err := q.engine.transact(ctx, func(tx transaction) error {
				for _, p := range list {
					if _, err := tx.exec(ctx, `DELETE FROM llm_work WHERE id = ? AND state = 'waiting' AND deliveries = ?`,
						p.id, p.deliveries); err != nil {
						return err
					}
				}
				return nil
			})
			if err == nil {
				return
			}
			pause.Reset(wait)
		}
	})
}

// undoTime is for how long that is tried.
const undoTime = 10 * time.Minute

// insert makes new rows, with the jobs that deliver them.
func insert(ctx context.Context, tx transaction, pieces []*piece) error {
	jobs, err := tx.insert(ctx, pieces...)
	if err != nil {
		return err
	}
	const row = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	args := make([]any, 0, 17*len(pieces))
	for i, p := range pieces {
		cause, ledger, err := p.texts()
		if err != nil {
			return err
		}
		var key any
		if p.key != "" {
			key = p.key
		}
		args = append(args, p.id, p.workflow, string(p.state), key, p.digest, jobs[i], p.since.UnixMicro(), p.notBefore.UnixMicro(),
			p.deliveries, p.spent.Attempts, p.spent.Tokens, p.spent.CostUSD, number(p.spent.Estimated), int64(p.requires), p.request,
			cause, ledger)
	}
	rows := strings.Repeat(row+", ", len(pieces)-1) + row
	n, err := tx.exec(ctx, `INSERT INTO llm_work (id, workflow, state, idem, digest, job, since, not_before, deliveries, attempts,
		tokens, cost, estimated, requires, request, cause, ledger) VALUES `+rows+` ON CONFLICT DO NOTHING`, args...)
	if err == nil && n != int64(len(pieces)) {
		err = errTaken
	}
	return err
}
