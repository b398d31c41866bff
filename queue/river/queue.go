package riverqueue

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// ErrConflict is the cause of an error of Enqueue: another request of the workflow has the same idempotency key.
var ErrConflict = errors.New("another request has the same idempotency key")

// errTaken says that somebody else enqueued the key between our look and our insert.
var errTaken = errors.New("the key was taken meanwhile")

// Enqueue returns when the job is durable, with a receipt. A request with an idempotency key that the workflow has in the queue
// already, or whose answer can still be fetched, is not enqueued a second time: the receipt is that of the first. It is an error
// if that one asked something else. Work that is dead gives its key up.
func (q *Queue) Enqueue(ctx context.Context, job *middleware.Job) (*middleware.Receipt, error) {
	if job == nil || job.Request == nil {
		return nil, errors.New("riverqueue: Enqueue: the job has no request")
	}
	p, err := q.pieceOf(job)
	if err != nil {
		return nil, fmt.Errorf("riverqueue: Enqueue: %w", err)
	}
	if p.key == "" {
		err = q.batch.insert(ctx, q.engine, p, q.undo)
	} else {
		for err = errTaken; errors.Is(err, errTaken); {
			err = q.engine.transact(ctx, func(tx transaction) error { return q.insertOnce(ctx, tx, p) })
		}
	}
	if err != nil {
		return nil, fmt.Errorf("riverqueue: Enqueue: %w", err)
	}
	return &middleware.Receipt{ID: p.id, Workflow: job.Workflow, NotBefore: p.notBefore, Cause: job.Cause}, nil
}

// maxName bounds a workflow and a key, which an index of PostgreSQL has no more room for.
const maxName = 1024

// pieceOf is job as a row.
func (q *Queue) pieceOf(job *middleware.Job) (*piece, error) {
	p := &piece{
		id: rand.Text(), workflow: job.Workflow, state: Waiting, since: job.Since, notBefore: job.NotBefore,
		deliveries: job.Deliveries, spent: job.Request.Spent, requires: job.Requires, key: job.Request.Labels[q.cfg.KeyLabel],
	}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	if p.notBefore.IsZero() {
		p.notBefore = time.Now()
	}
	for _, s := range []string{p.workflow, p.key} {
		if !isText(s) {
			return nil, fmt.Errorf("the workflow or key %q is no text that a database takes", s)
		}
		if len(s) > maxName {
			return nil, fmt.Errorf("the workflow or key %.40q… has %d bytes; at most %d are taken", s, len(s), maxName)
		}
	}
	var err error
	if p.request, err = encode(job.Request); err != nil {
		return nil, fmt.Errorf("the request cannot be stored: %w", err)
	}
	if len(p.request) > q.cfg.MaxBytes {
		return nil, fmt.Errorf("the request has %d bytes as JSON, and the queue takes %d; raise Config.MaxBytes, or give images and "+
			"files by their URL", len(p.request), q.cfg.MaxBytes)
	}
	if p.key != "" {
		if p.digest, err = digest(job.Request); err != nil {
			return nil, err
		}
	}
	p.cause = job.Cause
	if job.Cause != nil {
		p.ledger = job.Cause.Attempts
	}
	return p, nil
}

// isText reports whether any database takes s: PostgreSQL refuses bytes of 0 and what is not UTF-8.
func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// digest tells requests of one key apart by what they ask. Labels say whose they are, and MaxAttempts how many are left.
func digest(r *llm.Request) (string, error) {
	asked := r.Clone()
	asked.Labels, asked.MaxAttempts = nil, 0
	text, err := encode(asked)
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:]), err
}

// insertOnce makes p durable, or makes it the piece that has its key.
func (q *Queue) insertOnce(ctx context.Context, tx transaction, p *piece) error {
	first, err := find(ctx, tx, `workflow = ? AND idem = ?`, p.workflow, p.key)
	switch {
	case errors.Is(err, ErrUnknown):
	case err != nil:
		return err
	case first.state == Dead:
		if _, err := tx.exec(ctx, `UPDATE llm_work SET idem = NULL WHERE id = ?`, first.id); err != nil {
			return err
		}
	case first.digest != p.digest:
		return fmt.Errorf("the key %q of workflow %q: %w; give each request its own", p.key, p.workflow, ErrConflict)
	default:
		p.id, p.notBefore = first.id, first.notBefore
		return nil
	}
	return insert(ctx, tx, []*piece{p})
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// piece is a piece of work: a row of llm_work.
type piece struct {
	id, workflow, key, digest string
	state                     State
	job                       int64 // of River, that delivers it
	since, notBefore, ended   time.Time
	deliveries, lost          int
	spent                     llm.Spending
	requires                  llm.Capabilities
	cause                     *llm.Error    // why it waits, or what ended it
	ledger                    []llm.Attempt // of all deliveries that ended
	begun                     []llm.Attempt // of the one under way
	request, answer           string
}

// maxLedger bounds the account that is kept of a piece of work. What is older goes.
const maxLedger = 1000

// add enters what a delivery attempted.
func (p *piece) add(rows []llm.Attempt) {
	p.ledger = append(p.ledger[:len(p.ledger):len(p.ledger)], rows...)
	if over := len(p.ledger) - maxLedger; over > 0 {
		p.ledger = p.ledger[over:]
	}
}

// texts are the columns cause and ledger.
func (p *piece) texts() (cause, ledger string, err error) {
	if cause, err = encode(p.cause); err != nil {
		return "", "", fmt.Errorf("the failure cannot be stored: %w", err)
	}
	if ledger, err = encode(p.ledger); err != nil {
		return "", "", fmt.Errorf("the attempts cannot be stored: %w", err)
	}
	return cause, ledger, nil
}

const columns = `id, workflow, state, COALESCE(idem, ''), digest, job, since, not_before, ended, deliveries, lost, attempts,
	tokens, cost, estimated, requires, request, cause, ledger, begun, answer`

// scanned reads columns.
func scanned(scan func(...any) error) (*piece, error) {
	p := &piece{}
	var since, notBefore, ended, estimated, requires int64
	var state, cause, ledger, begun string
	err := scan(&p.id, &p.workflow, &state, &p.key, &p.digest, &p.job, &since, &notBefore, &ended, &p.deliveries, &p.lost,
		&p.spent.Attempts, &p.spent.Tokens, &p.spent.CostUSD, &estimated, &requires, &p.request, &cause, &ledger, &begun, &p.answer)
	if err != nil {
		return nil, err
	}
	p.state, p.spent.Estimated, p.requires = State(state), estimated != 0, llm.Capabilities(requires) //nolint:gosec // as written
	p.since, p.notBefore = time.UnixMicro(since), time.UnixMicro(notBefore)
	if ended != 0 {
		p.ended = time.UnixMicro(ended)
	}
	return p, errors.Join(stored("cause", decode(cause, &p.cause)), stored("ledger", decode(ledger, &p.ledger)),
		stored("attempts begun", decode(begun, &p.begun)))
}

func stored(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the stored %s cannot be read: %w", what, err)
}

// find is the one piece of which condition holds. There is none: ErrUnknown.
func find(ctx context.Context, r runner, condition string, args ...any) (p *piece, err error) {
	err = r.rows(ctx, `SELECT `+columns+` FROM llm_work WHERE `+condition, args, func(scan func(...any) error) (err error) {
		p, err = scanned(scan)
		return err
	})
	if err == nil && p == nil {
		err = ErrUnknown
	}
	return p, err
}
