package riverqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelchain/llm"
)

// ErrUnknown is the cause of an error about work that the queue does not have: it never had it, or its result was kept long
// enough.
var ErrUnknown = errors.New("no such work in the queue")

// State says where a piece of work is.
type State string

// The states. Work that is Answered or Dead has ended.
const (
	Waiting  State = "waiting"
	Running  State = "running" // a worker has it
	Answered State = "answered"
	Dead     State = "dead" // it failed for good, or was canceled
)

// An Outcome is what the queue knows of a piece of work.
type Outcome struct {
	ID, Workflow string
	State        State
	// Since is when the work came in first, NotBefore when it is delivered next at the earliest, Ended when it ended, which is
	// the zero time before that.
	Since, NotBefore, Ended time.Time
	// Deliveries is how often it was delivered; Lost how many of those ended with their worker's death.
	Deliveries, Lost int
	// Spent is what it has cost so far, also before it came in. The attempts of a delivery that was lost count by their number;
	// what they cost is not known.
	Spent llm.Spending
	// Response is the answer, with the attempts of the delivery that got it. nil: there is none.
	Response *llm.Response
	// Err says why it waits or, of dead work, what ended it. It carries Attempts. nil: it was answered.
	Err *llm.Error
	// Attempts lists what was attempted over all deliveries, and before the work came in: the last thousand.
	Attempts []llm.Attempt
}

func (p *piece) outcome() (*Outcome, error) {
	o := &Outcome{
		ID: p.id, Workflow: p.workflow, State: p.state, Since: p.since, NotBefore: p.notBefore, Ended: p.ended,
		Deliveries: p.deliveries, Lost: p.lost, Spent: p.spent, Attempts: p.ledger,
	}
	if p.state != Answered && p.cause != nil {
		o.Err = p.cause
		o.Err.Attempts = p.ledger
	}
	if p.answer != "" {
		o.Response = &llm.Response{}
		return o, stored("answer", decode(p.answer, o.Response))
	}
	return o, nil
}

// Result is what is known of the work with that id. Work the queue does not have is an error that wraps [ErrUnknown].
func (q *Queue) Result(ctx context.Context, id string) (*Outcome, error) {
	if !isText(id) { // of which PostgreSQL would only say that
		return nil, about("Result", id, ErrUnknown)
	}
	p, err := find(ctx, q.engine, `id = ?`, id)
	if err != nil {
		return nil, about("Result", id, err)
	}
	o, err := p.outcome()
	return o, about("Result", id, err)
}

func about(what, id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("riverqueue: %s of %q: %w", what, id, err)
}

// Wait returns the result when the work has ended. It looks for it each Config.Poll.
func (q *Queue) Wait(ctx context.Context, id string) (*Outcome, error) {
	if !isText(id) {
		return nil, about("Wait", id, ErrUnknown)
	}
	tick := time.NewTicker(q.cfg.Poll)
	defer tick.Stop()
	for {
		var state State
		err := q.engine.rows(ctx, `SELECT state FROM llm_work WHERE id = ?`, []any{id}, func(scan func(...any) error) error {
			return scan((*string)(&state))
		})
		if err != nil {
			return nil, about("Wait", id, err)
		}
		if state != Waiting && state != Running { // "" is unknown
			return q.Result(ctx, id)
		}
		select {
		case <-ctx.Done():
			return nil, about("Wait", id, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// Cancel ends work that waits: it is dead, with an error of class Canceled. It is an error if a worker has it or it has ended.
func (q *Queue) Cancel(ctx context.Context, id string) error {
	if !isText(id) {
		return about("Cancel", id, ErrUnknown)
	}
	err := q.engine.transact(ctx, func(tx transaction) error {
		p, err := find(ctx, tx, `id = ?`, id)
		if err != nil {
			return err
		}
		was := p.cause
		p.cause = &llm.Error{Class: llm.Canceled, Message: "it was canceled while it waited"}
		if was != nil {
			p.cause.Err = was
		}
		cause, _, err := p.texts()
		if err != nil {
			return err
		}
		n, err := tx.exec(ctx, `UPDATE llm_work SET state = 'dead', ended = {now}, cause = ? WHERE id = ? AND state = 'waiting'`,
			cause, id)
		if err == nil && n == 0 {
			err = fmt.Errorf("it is %s; only work that waits can be canceled", p.state)
		}
		return err
	})
	return about("Cancel", id, err)
}

// Filter says which work List returns.
type Filter struct {
	// Workflow is whose work. "": any.
	Workflow string
	// State is in what state. "": any.
	State State
	// Limit is how many at most. 0: 100.
	Limit int
	// Offset is how many are skipped. 0: none.
	Offset int
}

// List is work for a person to look at, the oldest first, without the answers.
func (q *Queue) List(ctx context.Context, f Filter) ([]Outcome, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	if !isText(f.Workflow) || !isText(string(f.State)) {
		return nil, nil
	}
	var list []Outcome
	err := q.engine.rows(ctx, `SELECT `+columns+` FROM llm_work
		WHERE (CAST(? AS TEXT) = '' OR workflow = ?) AND (CAST(? AS TEXT) = '' OR state = ?)
		ORDER BY since, id LIMIT CAST(? AS BIGINT) OFFSET CAST(? AS BIGINT)`,
		[]any{f.Workflow, f.Workflow, string(f.State), string(f.State), limit, max(f.Offset, 0)}, func(scan func(...any) error) error {
			p, err := scanned(scan)
			if err != nil {
				return err
			}
			p.answer = ""
			o, err := p.outcome()
			if err == nil {
				list = append(list, *o)
			}
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("riverqueue: List: %w", err)
	}
	return list, nil
}

// A Count is how much work of a workflow is in a state.
type Count struct {
	Workflow string
	State    State
	N        int
}

// Count counts the work by workflow and state.
func (q *Queue) Count(ctx context.Context) ([]Count, error) {
	var list []Count
	err := q.engine.rows(ctx, `SELECT workflow, state, COUNT(*) FROM llm_work GROUP BY workflow, state ORDER BY 1, 2`, nil,
		func(scan func(...any) error) error {
			var c Count
			err := scan(&c.Workflow, (*string)(&c.State), &c.N)
			list = append(list, c)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("riverqueue: Count: %w", err)
	}
	return list, nil
}
