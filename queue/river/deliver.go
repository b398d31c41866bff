package riverqueue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/riverqueue/river"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// recordTime is how long a worker tries to record how a delivery ended.
const recordTime = 30 * time.Second

// work is one delivery. It returns an error only if the work could not be claimed, and River is to try again.
func (w *Worker) work(ctx context.Context, job *river.Job[delivery]) error {
	h := &hold{w: w, id: job.Args.Work, owner: rand.Text()}
	p, err := h.claim(ctx, job.ID)
	if errors.Is(err, ErrUnknown) { // canceled, recovered from another worker, or done by a River that did not hear of it
		return nil
	}
	if p == nil {
		return err
	}
	h.from = p
	record := context.WithoutCancel(ctx) // what ends a delivery is our own time limit, Stop, or the loss of the hold
	run, cancel := context.WithCancelCause(record)
	defer cancel(nil)
	h.lose = func() { cancel(errLost) }
	defer context.AfterFunc(w.hard, func() { cancel(errStopping) })()
	defer h.beat(record)()
	if err != nil {
		return h.end(record, job, h.died(err))
	}
	return h.end(record, job, h.deliver(run))
}

// claim makes the work this worker's. ErrUnknown: it is not to be delivered by this job.
func (h *hold) claim(ctx context.Context, job int64) (p *piece, err error) {
	err = h.w.queue.engine.rows(ctx, `UPDATE llm_work SET state = 'running', owner = ?, lease = {now} + ?, begun = '[]'
		WHERE id = ? AND job = ? AND state = 'waiting' RETURNING `+columns,
		[]any{h.owner, h.w.cfg.Lease.Microseconds(), h.id, job}, func(scan func(...any) error) (err error) {
			p, err = scanned(scan)
			return err
		})
	if err == nil && p == nil {
		err = ErrUnknown
	}
	return p, err
}

// deliver calls the onion, and returns the row as it is to be.
func (h *hold) deliver(ctx context.Context) *piece {
	was := h.from
	req := &llm.Request{}
	if err := decode(was.request, req); err != nil {
		return h.died(stored("request", err))
	}
	req.Spent = was.spent
	c, err := h.w.cfg.Callers(was.workflow)
	switch {
	case err == nil && c == nil:
		err = errors.New("the workflow has no onion")
	case err == nil:
		return h.call(ctx, c, &middleware.Job{
			Workflow: was.workflow, Request: req, Requires: was.requires, NotBefore: was.notBefore, Since: was.since,
			Deliveries: was.deliveries, Cause: was.cause,
		})
	}
	next := *was
	next.cause = llm.CopyError(err)
	if time.Since(was.since) > h.w.cfg.MaxAge {
		return next.end(Dead)
	}
	return next.wait(time.Now().Add(noCaller))
}

func (h *hold) call(ctx context.Context, c llm.Caller, job *middleware.Job) *piece {
	limited, cancel := context.WithTimeout(ctx, h.w.cfg.Timeout)
	defer cancel()
	resp, next, err := h.guarded(limited, c, job)
	if resp != nil && resp.Degraded {
		resp, err = nil, standIn(resp)
	}
	p := *h.from
	p.spent = h.total()
	if next != nil {
		p.add(next.Cause.Attempts)
		p.spent, p.deliveries, p.cause = most(next.Request.Spent, p.spent), next.Deliveries, next.Cause
		return p.wait(next.NotBefore)
	}
	switch {
	case resp != nil:
		p.deliveries++
		p.add(resp.Attempts)
		text, failed := encode(resp)
		if failed != nil {
			return h.died(fmt.Errorf("the answer cannot be stored: %w", failed))
		}
		p.answer, p.cause = text, nil
		return p.end(Answered)
	case cutOff(ctx) && (!job.Request.ReplayUnsafe || llm.AsError(err).Commit == llm.CommitNone):
		p.add(llm.AsError(err).Attempts)
		return p.wait(time.Now()) // it counts as no delivery: the work is not to blame
	}
	p.deliveries++
	p.cause = llm.CopyError(err)
	if p.cause.Attempts == nil { // a panic took them along
		p.cause.Attempts = h.unsettled()
	}
	p.add(p.cause.Attempts)
	return p.end(Dead)
}

// standIn is the failure for which an onion gave a stand-in. Nobody waits for one here, and recorded as the answer it would keep
// the key.
func standIn(resp *llm.Response) error {
	e := &llm.Error{Message: "no deployment could answer; a stand-in of the onion is no answer to record", Attempts: resp.Attempts}
	for i := range resp.Attempts {
		a := &resp.Attempts[i]
		if a.Err != nil && a.Class != llm.Canceled {
			e.Class, e.Owner, e.Err = a.Class, a.Class.Owner(), a.Err
		}
		if a.Skipped == "" {
			e.Commit = max(e.Commit, a.Commit)
		}
	}
	return e
}

// cutOff tells whether the worker ended a delivery, and not what it met.
func cutOff(ctx context.Context) bool {
	why := context.Cause(ctx)
	return errors.Is(why, errStopping) || errors.Is(why, errLost)
}

// most is the larger of two accounts of the same, by their attempts.
func most(a, b llm.Spending) llm.Spending {
	a.Attempts = max(a.Attempts, b.Attempts)
	return a
}

// guarded is Deliver, with a panic of the onion as an error.
func (h *hold) guarded(
	ctx context.Context, c llm.Caller, job *middleware.Job,
) (resp *llm.Response, next *middleware.Job, err error) {
	defer func() {
		if v := recover(); v != nil {
			resp, next, err = nil, nil, &llm.Error{Message: "the onion panicked", Err: &llm.PanicError{Value: v, Stack: debug.Stack()}}
		}
	}()
	return middleware.Deliver(ctx, llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		r := req.Accounted()
		defer r.Enforce(h).Lift()
		return c.Call(ctx, r)
	}), h.id, job)
}

// died is the row, which ended by err that no provider is to blame for.
func (h *hold) died(err error) *piece {
	p := *h.from
	p.spent = h.total()
	p.deliveries++
	p.add(h.unsettled())
	p.cause = &llm.Error{Message: "the queue cannot deliver it", Err: err}
	return p.end(Dead)
}

func (p *piece) end(s State) *piece {
	p.state = s
	return p
}

func (p *piece) wait(until time.Time) *piece {
	p.state, p.notBefore = Waiting, until
	return p
}

// end records how the delivery ended, in one transaction with the end of River's job and the next one: what was spent is durable
// before the work can be taken again.
func (h *hold) end(ctx context.Context, job *river.Job[delivery], p *piece) error {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		select {
		case <-ctx.Done(): // the lease passes, and the delivery is taken for lost
			return nil
		case <-pause.C:
		}
		err := h.w.queue.engine.transact(ctx, func(tx transaction) error {
			if err := settle(ctx, tx, p, h.owner); err != nil {
				return err
			}
			return tx.complete(ctx, job)
		})
		if err == nil || errors.Is(err, errLost) {
			return nil
		}
		pause.Reset(wait)
	}
}

// settle writes p, which owner has, and has River deliver it if it waits.
func settle(ctx context.Context, tx transaction, p *piece, owner string) error {
	cause, ledger, err := p.texts()
	if err != nil {
		return err
	}
	job, ended := p.job, `{now}`
	if p.state == Waiting {
		ended = `0`
		jobs, err := tx.insert(ctx, p)
		if err != nil {
			return err
		}
		job = jobs[0]
	}
	n, err := tx.exec(ctx, `UPDATE llm_work SET state = ?, owner = '', begun = '[]', job = ?, not_before = ?, ended = `+ended+`,
		deliveries = ?, lost = ?, attempts = ?, tokens = ?, cost = ?, estimated = ?, cause = ?, ledger = ?, answer = ?
		WHERE id = ? AND owner = ? AND state = 'running'`,
		string(p.state), job, p.notBefore.UnixMicro(), p.deliveries, p.lost, p.spent.Attempts, p.spent.Tokens, p.spent.CostUSD,
		number(p.spent.Estimated), cause, ledger, p.answer, p.id, owner)
	if err == nil && n == 0 {
		err = errLost
	}
	return err
}
