package riverqueue

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// What one transaction takes at most of those who enqueue at the same time.
const (
	batchPieces = 64
	batchBytes  = 16 << 20
	batchTime   = 5 * time.Second
)

// batch has pieces made durable together: a commit waits for the disk, and one wait does for all who came meanwhile.
type batch struct {
	mu      sync.Mutex
	waiting []*entry
	busy    bool
}

type entry struct {
	piece *piece
	done  chan error
}

// insert returns when p is durable. If ctx ends before its turn has come, it is not enqueued; after that its outcome is waited
// for, since nobody is to be told that work was not queued which then is delivered.
func (b *batch) insert(ctx context.Context, e engine, p *piece) error {
	mine := &entry{p, make(chan error, 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, mine)
	lead := !b.busy
	b.busy = true
	b.mu.Unlock()
	if lead {
		go b.run(context.WithoutCancel(ctx), e)
	}
	select {
	case err := <-mine.done:
		return err
	case <-ctx.Done():
		if b.withdraw(mine) {
			return context.Cause(ctx)
		}
		return <-mine.done
	}
}

func (b *batch) withdraw(e *entry) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, e)
	if i < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return true
}

// run works off what waits, until nothing does.
func (b *batch) run(ctx context.Context, e engine) {
	for {
		entries := b.take()
		if len(entries) == 0 {
			return
		}
		pieces := make([]*piece, len(entries))
		for i := range entries {
			pieces[i] = entries[i].piece
		}
		limited, cancel := context.WithTimeout(ctx, batchTime)
		err := e.transact(limited, func(tx transaction) error { return insert(limited, tx, pieces) })
		cancel()
		for i := range entries {
			entries[i].done <- err
		}
	}
}

// take is the next batch. None: run is over.
func (b *batch) take() []*entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, size := 0, 0
	for n < min(len(b.waiting), batchPieces) {
		if size += len(b.waiting[n].piece.request); n > 0 && size > batchBytes {
			break
		}
		n++
	}
	taken := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	b.busy = n > 0
	return taken
}

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
