package riverqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/modelchain/llm"
)

// A hold is a worker's hold of a piece of work, for one delivery. As a gate of the onion it writes each attempt down before it
// begins, so that those of a delivery that is lost are known, and no attempt begins after the hold was lost.
type hold struct {
	llm.OpenGate
	w         *Worker
	id, owner string
	from      *piece
	lose      func() // ends the delivery

	mu    sync.Mutex
	begun []llm.Attempt // without how they ended
	spent llm.Spending  // of those that ended; Attempts counts the others too
}

// Start writes down that an attempt begins.
func (h *hold) Start(ctx context.Context, _ *llm.Request, _ *llm.Deployment, a *llm.Attempt) (context.Context, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	row := llm.Attempt{
		Deployment: a.Deployment, Provider: a.Provider, Model: a.Model, Index: a.Index, Start: a.Start, Commit: llm.CommitUnknown,
	}
	begun := append(slices.Clip(h.begun), row)
	text, err := encode(begun)
	if err == nil {
		err = h.renew(ctx, text)
	}
	if err != nil {
		h.lose()
		return ctx, &llm.Error{Class: llm.Canceled, Message: "the queue could not write down that an attempt begins", Err: err}
	}
	h.begun = begun
	h.spent.Attempts++
	return ctx, nil
}

// End adds up what attempts spent.
func (h *hold) End(_ context.Context, _ *llm.Request, _ *llm.Deployment, a *llm.Attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	silent := a.Usage == (llm.Usage{}) && (a.Err == nil || a.Commit != llm.CommitNone)
	h.spent = h.spent.Add(llm.Spending{
		Tokens: a.Usage.Tokens(), CostUSD: a.CostUSD, Estimated: a.Usage.Estimated || silent,
	})
}

// total is what was spent on the work, this delivery included.
func (h *hold) total() llm.Spending {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.from.spent.Add(h.spent)
}

// unsettled are the attempts begun, where nothing else tells how they ended.
func (h *hold) unsettled() []llm.Attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun
}

// renew makes the lease last as long as it is from now on. begun "": what was begun stays. errLost: another has the work.
func (h *hold) renew(ctx context.Context, begun string) error {
	n, err := h.w.queue.engine.exec(ctx, `UPDATE llm_work SET lease = {now} + ?, begun = COALESCE(NULLIF(CAST(? AS TEXT), ''), begun)
		WHERE id = ? AND owner = ? AND state = 'running'`, h.w.cfg.Lease.Microseconds(), begun, h.id, h.owner)
	if err == nil && n == 0 {
		err = errLost
	}
	return err
}

// beat renews the lease until the function it returns is called. A hold that is lost, or may be soon since the database was
// silent for most of the lease, ends the delivery.
func (h *hold) beat(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(max(h.w.cfg.Lease/3, time.Millisecond))
		defer tick.Stop()
		for held := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			asked := time.Now()
			try, done := context.WithTimeout(ctx, h.w.cfg.Lease/3)
			err := h.renew(try, "")
			done()
			switch {
			case err == nil:
				held = asked
			case errors.Is(err, errLost) || time.Since(held) > h.w.cfg.Lease*2/3:
				h.lose()
				return
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// keep recovers lost work and deletes old results, until ctx ends. Every worker does: what two do at once, one of them does.
func (w *Worker) keep(ctx context.Context) {
	tick := time.NewTicker(max(w.cfg.Lease/3, time.Millisecond))
	defer tick.Stop()
	for {
		w.recover(ctx, silent, func(tx transaction, p *piece, owner string) error {
			return settle(ctx, tx, p.lose(w.cfg.MaxLost), owner)
		})
		w.recover(ctx, orphaned, func(tx transaction, p *piece, _ string) error { return readopt(ctx, tx, p) })
		w.prune(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// What is recovered: work whose worker was silent for longer than its lease, and work that is due and has no job of River's,
// because somebody cleared it away.
const (
	silent   = `state = 'running' AND lease < {now}`
	orphaned = `state = 'waiting' AND not_before < {now} AND NOT EXISTS (SELECT 1 FROM river_job WHERE river_job.id = llm_work.job
		AND river_job.state IN ('available', 'pending', 'retryable', 'running', 'scheduled'))`
)

// recover mends all work of which condition holds. If the database fails, the next round does it.
func (w *Worker) recover(ctx context.Context, condition string, mend func(tx transaction, p *piece, owner string) error) {
	type held struct{ id, owner string }
	var lost []held
	err := w.queue.engine.rows(ctx, `SELECT id, owner FROM llm_work WHERE `+condition+` LIMIT 100`, nil,
		func(scan func(...any) error) error {
			var h held
			err := scan(&h.id, &h.owner)
			lost = append(lost, h)
			return err
		})
	if err != nil {
		w.report(ctx, "lost work cannot be found", err)
		return
	}
	for _, l := range lost {
		err := w.queue.engine.transact(ctx, func(tx transaction) error {
			p, err := find(ctx, tx, `id = ? AND owner = ? AND `+condition, l.id, l.owner)
			if err != nil {
				return err
			}
			return mend(tx, p, l.owner)
		})
		if err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, errLost) {
			w.report(ctx, "lost work cannot be put back", err)
		}
	}
}

// readopt has River deliver p again, unless somebody else just did.
func readopt(ctx context.Context, tx transaction, p *piece) error {
	jobs, err := tx.insert(ctx, p)
	if err != nil {
		return err
	}
	n, err := tx.exec(ctx, `UPDATE llm_work SET job = ? WHERE id = ? AND job = ? AND state = 'waiting'`, jobs[0], p.id, p.job)
	if err == nil && n == 0 {
		err = errLost
	}
	return err
}

// lose is p after its worker's death. The attempts it had begun count, and one if none is known of: nobody knows how they ended.
func (p *piece) lose(most int) *piece {
	e := &llm.Error{
		Class: llm.Unknown, Commit: llm.CommitUnknown,
		Message: "the worker that had it fell silent; how its attempts ended is not known",
	}
	rows := slices.Clone(p.begun)
	if len(rows) == 0 {
		rows = []llm.Attempt{{Index: 1, Start: time.Now()}}
	}
	for i := range rows {
		rows[i].Commit, rows[i].Err = llm.CommitUnknown, e
	}
	p.add(rows)
	p.spent = p.spent.Add(llm.Spending{Attempts: len(rows), Estimated: true})
	p.deliveries++
	p.lost++
	p.cause = e
	dead := func(message string) *piece {
		p.cause = &llm.Error{Commit: llm.CommitUnknown, Message: message, Err: e}
		return p.end(Dead)
	}
	req := &llm.Request{}
	switch err := decode(p.request, req); {
	case err != nil:
		return dead(stored("request", err).Error())
	case req.ReplayUnsafe && len(p.begun) > 0:
		return dead("it must not be sent again after an attempt whose outcome is not known (ReplayUnsafe)")
	case p.lost > most:
		return dead(fmt.Sprintf("%d deliveries were lost with their workers", p.lost))
	}
	return p.wait(time.Now())
}

// prune deletes results that were kept for long enough.
func (w *Worker) prune(ctx context.Context) {
	_, err := w.queue.engine.exec(ctx, `DELETE FROM llm_work WHERE ended > 0 AND ended < {now} - ?`, w.queue.cfg.Keep.Microseconds())
	if err != nil {
		w.report(ctx, "old results cannot be deleted", err)
	}
}

func (w *Worker) report(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		w.queue.cfg.Logger.ErrorContext(ctx, "riverqueue: "+what, "error", err)
	}
}
