package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

var errSoakStore = errors.New("the store is down")

// soakBook is a store in memory that enters each row with its call, and is down for a minute in down. 0: never.
type soakBook struct{ down int }

func (b *soakBook) fails() error {
	if b.down > 0 && time.Now().Minute()%10 == b.down-1 {
		return errSoakStore
	}
	return nil
}

func (b *soakBook) Begin(ctx context.Context, a middleware.JournalAttempt) error {
	if err := b.fails(); err != nil {
		return err
	}
	c := soakOf(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun[a.Seq]++
	if _, there := c.rows[a.Seq]; !there {
		c.rows[a.Seq] = a
	}
	return nil
}

func (b *soakBook) Settle(ctx context.Context, a middleware.JournalAttempt) error {
	c := soakOf(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := b.fails(); err != nil {
		c.unkept++
		return err
	}
	c.rows[a.Seq] = a
	return nil
}

func (b *soakBook) Finish(ctx context.Context, row middleware.JournalCall) error {
	c := soakOf(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := b.fails(); err != nil {
		c.unkept++
		return err
	}
	c.ends = append(c.ends, row)
	return nil
}

// checkJournal checks that the journal has each attempt once, as the account has it.
func (c *soakCall) checkJournal(say func(string, ...any)) {
	if c.w.book == nil {
		return
	}
	rows := map[int]middleware.JournalAttempt{}
	for seq, row := range c.rows {
		if c.begun[seq] > 1 {
			say("row %d was begun %d times", seq, c.begun[seq])
		}
		if row.Index == 0 {
			continue
		}
		if _, there := rows[row.Index]; there && row.State != middleware.JournalStarted {
			say("the journal has attempt %d twice", row.Index)
		}
		rows[row.Index] = row
	}
	for _, a := range c.account {
		if a.Skipped != "" {
			continue
		}
		row, there := rows[a.Index]
		delete(rows, a.Index)
		state := middleware.JournalAnswered
		if a.Err != nil {
			state = middleware.JournalFailed
		}
		switch {
		case !there:
			say("the journal has no attempt %d", a.Index)
		case row.Deployment != a.Deployment || !row.Start.Equal(a.Start):
			say("the journal has attempt %d as %+v", a.Index, row)
		case c.unkept == 0 && (row.State != state || row.Class != a.Class || row.Took != a.Took || row.Usage != a.Usage):
			say("the journal has attempt %d as %+v", a.Index, row)
		}
	}
	for index, row := range rows {
		if c.unkept == 0 {
			say("the journal has attempt %d, which was not made: %+v", index, row)
		}
	}
	if c.unkept == 0 && len(c.ends) != 1 {
		say("the journal has %d ends of it", len(c.ends))
	}
}

// soakQueue delivers what it takes when its time has come.
type soakQueue struct {
	w *soak

	mu    sync.Mutex
	taken int
}

func (q *soakQueue) Enqueue(ctx context.Context, job *middleware.Job) (*middleware.Receipt, error) {
	c := soakOf(ctx)
	if wait := time.Until(job.NotBefore); wait < job.Cause.RetryAfter {
		q.w.bad(c, "it was queued for %v, and %v were asked for", wait, job.Cause.RetryAfter)
	}
	if row := middleware.DefaultReactions()[job.Cause.Class]; !row.Waits {
		q.w.bad(c, "it was queued after %v", job.Cause)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken++
	id := fmt.Sprint("job-", q.taken)
	q.w.later(ctx, id, *job)
	return &middleware.Receipt{ID: id, Workflow: job.Workflow, NotBefore: job.NotBefore}, nil
}

// deliver is the Caller of a call that delivers a job.
func (w *soak) deliver(id string, job *middleware.Job) llm.Caller {
	return llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
		resp, next, err := middleware.Deliver(ctx, w.chat, id, job)
		if next != nil {
			if next.NotBefore.Before(time.Now().Add(next.Cause.RetryAfter)) {
				w.bad(nil, "job %s comes back at %v, and %v were asked for", id, next.NotBefore, next.Cause.RetryAfter)
			}
			if next.Deliveries < 3 {
				w.later(ctx, id, *next)
			}
		}
		return resp, err
	})
}
