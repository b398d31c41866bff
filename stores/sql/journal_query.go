package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// An Unsettled is an attempt that was begun and has no end.
type Unsettled struct {
	middleware.JournalAttempt
	// Alive says that the process which made it still renews its lease: it is under way.
	Alive bool
}

const (
	unsettledColumns = "call_id, seq, workflow, attempt, requested, deployment, provider, model, reason, after_deployment, " +
		"start_us, waited_us, state"
	living = "(SELECT owner FROM llm_owner WHERE until_us > "
)

// Unsettled lists the attempts that have no end, the oldest first: those under way, and those of processes that are gone and
// that nobody called Recover for yet.
func (j Journal) Unsettled(ctx context.Context) ([]Unsettled, error) {
	out, err := all(ctx, j.s.read(), "SELECT "+unsettledColumns+", CASE WHEN owner IN "+living+j.s.kind.now()+") THEN 1 ELSE 0 END "+
		"FROM llm_attempt WHERE state = 'started' ORDER BY start_us, call_id, seq", nil, func(row scanner, u *Unsettled) error {
		alive := 0
		err := scanUnsettled(row, &u.JournalAttempt, &alive)
		u.Alive = alive == 1
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("llm/stores/sql: Unsettled: %w", err)
	}
	return out, nil
}

// Recover marks the attempts that processes which are gone left unsettled, and their calls, as of unknown outcome, and
// returns the attempts: the provider may have done the work and may bill it. A process is gone when it closed its store or
// has not renewed its lease. One that was only halted and goes on settles its rows as they really ended. Of several that
// recover at once each row is told to one. Call it at the start, and from time to time where several processes write.
func (j Journal) Recover(ctx context.Context) (out []middleware.JournalAttempt, err error) {
	err = j.s.do(ctx, func(ctx context.Context, t tx) error {
		gone := " AND owner NOT IN " + living + j.s.kind.now() + ")"
		out, err = all(ctx, t, "UPDATE llm_attempt SET state = 'unknown', commit_state = 'unknown' WHERE state = 'started'"+gone+
			" RETURNING "+unsettledColumns, nil, func(row scanner, a *middleware.JournalAttempt) error { return scanUnsettled(row, a) })
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "UPDATE llm_call SET outcome = 'unknown' WHERE outcome = 'running'"+gone); err != nil {
			return err
		}
		_, err := t.exec(ctx, "DELETE FROM llm_owner WHERE until_us <= "+j.s.kind.now())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("llm/stores/sql: Recover: %w", err)
	}
	return out, nil
}

type scanner interface{ Scan(into ...any) error }

func scanUnsettled(row scanner, a *middleware.JournalAttempt, more ...any) error {
	var start, waited int64
	err := row.Scan(append([]any{
		&a.Call, &a.Seq, &a.Workflow, &a.Index, &a.Requested, &a.Deployment, &a.Provider, &a.Model, &a.Reason, &a.From,
		&start, &waited, &a.State,
	}, more...)...)
	a.Start, a.Waited, a.Commit = time.UnixMicro(start).UTC(), time.Duration(waited)*time.Microsecond, llm.CommitUnknown
	return err
}

// Alerts are the calls of a workflow by how they ended. The first five are the outcomes of calls whose callers stayed. Each
// delivery of queued work is a call of its own, and counts where it ended.
type Alerts struct {
	// Workflow is whose calls these are. "": they do not say.
	Workflow string
	// Primary: the first deployment answered at once, or one called beside it was faster. Retry: after a failure, without another
	// model. Fallback: another one answered. Degraded: a stand-in was given. Failed: the caller got an error.
	Primary, Retry, Fallback, Degraded, Failed int
	// Queued: a queue took the work of a caller, who got a receipt. Requeued: it was delivered, and went back to the queue.
	// Canceled: the caller left.
	Queued, Requeued, Canceled int
	// Unknown: the process ended meanwhile. Running: the call is not over.
	Unknown, Running int
}

// Alerts counts the calls that began at since or later, by workflow. The zero time counts all.
func (j Journal) Alerts(ctx context.Context, since time.Time) ([]Alerts, error) {
	type group struct {
		workflow, outcome string
		n                 int
	}
	from := int64(0)
	if !since.IsZero() {
		from = since.UnixMicro()
	}
	groups, err := all(ctx, j.s.read(), "SELECT workflow, CASE WHEN outcome = 'queued' AND delivery = 1 THEN '"+callRequeued+"' "+
		"ELSE outcome END, count(*) FROM llm_call WHERE start_us >= ? GROUP BY 1, 2 ORDER BY 1", []any{from},
		func(row scanner, g *group) error { return row.Scan(&g.workflow, &g.outcome, &g.n) })
	if err != nil {
		return nil, fmt.Errorf("llm/stores/sql: Alerts: %w", err)
	}
	var out []Alerts
	for _, g := range groups {
		if len(out) == 0 || out[len(out)-1].Workflow != g.workflow {
			out = append(out, Alerts{Workflow: g.workflow})
		}
		a := &out[len(out)-1]
		counts := map[string]*int{
			string(middleware.OutcomePrimary): &a.Primary, string(middleware.OutcomeRetry): &a.Retry,
			string(middleware.OutcomeFallback): &a.Fallback, string(middleware.OutcomeDegraded): &a.Degraded,
			string(middleware.OutcomeFailed): &a.Failed, string(middleware.OutcomeCanceled): &a.Canceled,
			string(middleware.OutcomeQueued): &a.Queued, callRequeued: &a.Requeued, callUnknown: &a.Unknown, callRunning: &a.Running,
		}
		n := counts[g.outcome]
		if n == nil {
			return nil, fmt.Errorf("llm/stores/sql: Alerts: %d calls have the outcome %q, which this program does not know; update it",
				g.n, g.outcome)
		}
		*n += g.n
	}
	return out, nil
}

// pruned is how many rows one transaction removes, so that writers need not wait long.
const pruned = 1000

// Prune removes the rows of calls and attempts that began before a time, apart from those that are not over, and returns
// how many. In SQLite the file does not get smaller; new rows take the room.
func (j Journal) Prune(ctx context.Context, before time.Time) (removed int64, err error) {
	for _, query := range []string{
		"DELETE FROM llm_attempt WHERE (call_id, seq) IN (SELECT call_id, seq FROM llm_attempt WHERE start_us < ? AND " +
			"state <> 'started' LIMIT ?)",
		"DELETE FROM llm_call WHERE call_id IN (SELECT call_id FROM llm_call WHERE start_us < ? AND outcome <> 'running' LIMIT ?)",
	} {
		for {
			var n int64
			err := j.s.do(ctx, func(ctx context.Context, t tx) (err error) {
				n, err = t.exec(ctx, query, before.UnixMicro(), pruned)
				return err
			})
			if err != nil {
				return removed, fmt.Errorf("llm/stores/sql: Prune: %w", err)
			}
			if removed += n; n < pruned {
				break
			}
		}
	}
	return removed, nil
}
