package tools

import (
	"context"
	"errors"
	"time"

	"github.com/modelchain/llm"
)

// A hold is a record that this process has claimed.
type hold struct {
	e     *Executor
	j     *job
	owner string
	since time.Time // when the lease was last asked for
	doubt string    // why an earlier run may have had the effect. "": none did
}

// claim waits until the call is over or this hold's.
func (h *hold) claim(ctx context.Context) (Record, error) {
	c := h.j.call
	want := Record{
		Key: c.Key, Turn: c.Turn, Tool: c.Tool, CallID: plain(c.ID), Ordinal: c.Ordinal, Arguments: h.j.hash, Owner: h.owner,
	}
	var patience <-chan time.Time
	if h.e.cfg.Wait > 0 {
		t := time.NewTimer(h.e.cfg.Wait)
		defer t.Stop()
		patience = t.C
	}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		h.since = time.Now()
		r, err := step(ctx, h.e, func(ctx context.Context) (Record, error) { return h.e.cfg.Store.Claim(ctx, want, h.e.cfg.Lease) })
		if err != nil {
			return r, h.e.down(ctx, h.j, err)
		}
		if r.State.Over() || r.Owner == h.owner {
			return r, nil
		}
		busy := &BusyError{Key: c.Key, Turn: c.Turn, Tool: c.Tool, Owner: r.Owner}
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-patience:
			next.Stop()
			return r, fault(ctx, llm.Exhausted, "", busy)
		case <-ctx.Done():
			next.Stop()
			busy.Err = ctx.Err()
			return r, fault(ctx, llm.Canceled, "", busy)
		}
	}
}

func (h *hold) move(ctx context.Context, m Move) error {
	m.Key, m.Owner = h.j.call.Key, h.owner
	_, err := step(ctx, h.e, func(ctx context.Context) (struct{}, error) { return struct{}{}, h.e.cfg.Store.Move(ctx, m) })
	return err
}

// letGo is the last step of a hold that got no result. If it fails the lease runs out, which is slower and as safe.
func (h *hold) letGo(ctx context.Context, m Move) {
	_ = h.move(context.WithoutCancel(ctx), m)
}

// back lets go of a record whose tool did nothing this time, and is the error err unless an earlier run is in doubt.
func (h *hold) back(ctx context.Context, err error) error {
	if h.doubt != "" {
		return h.leave(ctx, h.doubt, err)
	}
	h.letGo(ctx, Move{To: Requested})
	return err
}

// leave lets go of a record that stays in doubt.
func (h *hold) leave(ctx context.Context, reason string, err error) error {
	h.letGo(ctx, Move{To: Started, Doubt: reason})
	return h.inDoubt(reason, err, nil)
}

func (h *hold) inDoubt(reason string, err error, r *Result) error {
	c, t := h.j.call, h.j.tool
	return &llm.Error{Class: llm.Unknown, Commit: llm.CommitUnknown, Err: &DoubtError{
		Key: c.Key, Turn: c.Turn, Tool: c.Tool, CallID: c.ID, Reason: reason, Again: t.Effect == Keyed || t.Reconcile != nil,
		Result: r, Err: err,
	}}
}

// run runs the tool, once the record says that it may have been.
func (h *hold) run(ctx context.Context) (Result, error) {
	name := h.j.call.Tool
	h.since = time.Now()
	if err := h.move(ctx, Move{To: Started, Lease: h.e.cfg.Lease}); err != nil {
		return Result{}, h.back(ctx, h.e.down(ctx, h.j, err))
	}
	// The lease counts from when the store took the step, which is not before it was asked.
	if time.Since(h.since) > h.e.cfg.Lease/2 || ctx.Err() != nil {
		return Result{}, h.back(ctx, fault(ctx, llm.Unavailable, name+" was not run: its record took too long to keep", ctx.Err()))
	}
	r, err := h.holding(ctx, h.j.tool.Run)
	switch {
	case err == nil:
		return h.commit(ctx, r)
	case errors.Is(err, ErrNotDone):
		return Result{}, h.back(ctx, fault(ctx, llm.ClassOf(err), name+" was not done", err))
	}
	return Result{}, h.leave(ctx, why(ctx, err), err)
}

// why is the reason for a doubt, in words of ours: those of the tool may say what no record should.
func why(ctx context.Context, err error) string {
	switch {
	case errors.Is(err, ErrLost):
		return "its record was lost to another process, or could not be held, while it ran"
	case ctx.Err() != nil:
		return "the caller left while it ran"
	case errors.Is(err, llm.Stalled):
		return "it ran out of time"
	}
	return "it ended without a result"
}

// settle finds out about a call that was started and left.
func (h *hold) settle(ctx context.Context, r Record) (Result, error) {
	h.doubt = r.Doubt
	if h.doubt == "" {
		h.doubt = "the process that ran it is gone"
	}
	switch t := h.j.tool; {
	case t.Reconcile != nil:
		out, err := h.holding(ctx, t.Reconcile)
		switch {
		case err == nil:
			return h.commit(ctx, out)
		case errors.Is(err, ErrNotDone):
			h.doubt = ""
			return h.run(ctx)
		}
		// The record keeps the first reason: this one would grow with each try.
		h.letGo(ctx, Move{To: Started, Doubt: h.doubt})
		return Result{}, h.inDoubt(h.doubt+", and its Reconcile cannot tell", err, nil)
	case t.Effect == Keyed:
		return h.run(ctx)
	}
	return Result{}, h.leave(ctx, h.doubt, nil)
}

// holding calls f within the tool's time and renews the lease meanwhile, also once the caller has left: f may be slow to
// notice. A lease that cannot be renewed ends f.
func (h *hold) holding(ctx context.Context, f func(context.Context, Call) (Result, error)) (Result, error) {
	timed, cancel := h.j.tool.limit(ctx)
	defer cancel()
	running, lose := context.WithCancelCause(timed)
	defer lose(nil)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		if err := h.renew(context.WithoutCancel(ctx), h.since, stop); err != nil {
			lose(err)
		}
	}()
	r, err := guarded(running, f, h.j.call)
	close(stop)
	<-stopped
	if err != nil && errors.Is(context.Cause(running), ErrLost) {
		err = errors.Join(ErrLost, err)
	}
	return r, err
}

// renew extends the lease until stop. It fails with ErrLost once the lease is another's or about to run out.
func (h *hold) renew(ctx context.Context, since time.Time, stop <-chan struct{}) error {
	lease := h.e.cfg.Lease
	beat := time.NewTicker(max(lease/3, time.Millisecond))
	defer beat.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-beat.C:
		}
		asked := time.Now()
		err := h.move(ctx, Move{To: Started, Lease: lease})
		switch {
		case err == nil:
			since = asked
		case errors.Is(err, ErrLost), time.Since(since) > lease*2/3:
			return errors.Join(ErrLost, err)
		}
	}
}

// commit records what the tool returned. The effect has happened, so neither a caller that left nor a store that stumbles may
// lose it.
func (h *hold) commit(ctx context.Context, r Result) (Result, error) {
	r, b := h.e.fit(r)
	ctx = context.WithoutCancel(ctx)
	until := time.Now().Add(2 * h.e.cfg.StoreTimeout)
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		err := h.move(ctx, Move{To: Committed, Result: b})
		if err == nil {
			return r, nil
		}
		if errors.Is(err, ErrLost) {
			return h.overtaken(ctx, r, err)
		}
		if time.Now().Add(pause).After(until) {
			return Result{}, h.inDoubt("it ran, and its result could not be recorded", err, &r)
		}
		wait := time.NewTimer(pause)
		<-wait.C
	}
}

// overtaken is the result of a call whose record was taken over while it ran: the one that is recorded.
func (h *hold) overtaken(ctx context.Context, r Result, lost error) (Result, error) {
	rec, err := step(ctx, h.e, func(ctx context.Context) (Record, error) { return h.e.cfg.Store.Get(ctx, h.j.call.Key) })
	if err == nil && rec.State.Over() {
		return recorded(h.j, rec)
	}
	return Result{}, h.inDoubt("it ran, and another process had taken over its record meanwhile", errors.Join(lost, err), &r)
}
