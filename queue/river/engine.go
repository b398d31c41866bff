package riverqueue

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"
)

// delivery is the job that River keeps: one delivery of a piece of work. What the work is and what was spent on it is in our own
// row, since it outlives the job.
type delivery struct {
	Work string `json:"work"`
}

// Kind is how River tells our jobs from others.
func (delivery) Kind() string { return "llm_delivery" }

// runner runs statements. A ? stands for an argument, {now} for the clock of the database in microseconds.
type runner interface {
	exec(ctx context.Context, query string, args ...any) (affected int64, err error)
	// rows calls each with a function that scans the row it is at.
	rows(ctx context.Context, query string, args []any, each func(scan func(...any) error) error) error
}

// transaction is a runner whose statements are durable together with what happens to River's jobs.
type transaction interface {
	runner
	// insert has pieces delivered when their time has come, and returns the jobs that do it, in their order.
	insert(ctx context.Context, pieces ...*piece) (jobs []int64, err error)
	// complete ends the job that is being worked.
	complete(ctx context.Context, job *river.Job[delivery]) error
}

// engine is a database with River's tables and ours in it.
type engine interface {
	runner
	transact(ctx context.Context, do func(transaction) error) error
	// prepare makes the tables, also when several processes do it at once.
	prepare(ctx context.Context) error
	// worker makes a client of River that works jobs.
	worker(cfg *river.Config) (client, error)
	close() error
}

// client is what is needed of River's, whatever the engine.
type client interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	StopAndCancel(ctx context.Context) error
}

// riverTx is what a transaction does to River's jobs.
type riverTx[T any] struct {
	client *river.Client[T]
	queue  string
	tx     T
}

// maxAttempts is for jobs whose claim fails, because the database does: River is to go on trying.
const maxAttempts = 30_000

func (r riverTx[T]) insert(ctx context.Context, pieces ...*piece) ([]int64, error) {
	params := make([]river.InsertManyParams, len(pieces))
	now := time.Now()
	for i, p := range pieces {
		opts := &river.InsertOpts{Queue: r.queue, MaxAttempts: maxAttempts}
		if p.notBefore.After(now) {
			opts.ScheduledAt = p.notBefore
		}
		params[i] = river.InsertManyParams{Args: delivery{p.id}, InsertOpts: opts}
	}
	results, err := r.client.InsertManyTx(ctx, r.tx, params)
	if err != nil {
		return nil, err
	}
	of := make(map[string]int64, len(results)) // in whatever order the database returned them
	for _, res := range results {
		var d delivery
		if err := json.Unmarshal(res.Job.EncodedArgs, &d); err != nil {
			return nil, err
		}
		of[d.Work] = res.Job.ID
	}
	jobs := make([]int64, len(pieces))
	for i, p := range pieces {
		jobs[i] = of[p.id]
	}
	return jobs, nil
}

func (r riverTx[T]) complete(ctx context.Context, job *river.Job[delivery]) error {
	_, err := river.JobCompleteTx[riverdriver.Driver[T]](ctx, r.tx, job)
	if errors.Is(err, rivertype.ErrNotFound) { // River took it for stuck: it comes again, and finds the work done
		return nil
	}
	return err
}

// numbered is query with $1, $2 for each ?.
func numbered(query string) string {
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, more := strings.Cut(query, "?")
		b.WriteString(before)
		if !more {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		query = after
	}
}

// migrations are the statements that made our tables what they are, in order. What was released is not changed.
func migrations() [][]string {
	return [][]string{{
		`CREATE TABLE llm_work (
			id TEXT PRIMARY KEY, workflow TEXT NOT NULL, state TEXT NOT NULL, idem TEXT, digest TEXT NOT NULL,
			job BIGINT NOT NULL, owner TEXT NOT NULL DEFAULT '', lease BIGINT NOT NULL DEFAULT 0,
			since BIGINT NOT NULL, not_before BIGINT NOT NULL, ended BIGINT NOT NULL DEFAULT 0,
			deliveries BIGINT NOT NULL, lost BIGINT NOT NULL DEFAULT 0, begun TEXT NOT NULL DEFAULT '[]',
			attempts BIGINT NOT NULL, tokens BIGINT NOT NULL, cost DOUBLE PRECISION NOT NULL, estimated BIGINT NOT NULL,
			requires BIGINT NOT NULL, request TEXT NOT NULL, cause TEXT NOT NULL, ledger TEXT NOT NULL, answer TEXT NOT NULL DEFAULT ''
		)`,
		`CREATE UNIQUE INDEX llm_work_idem ON llm_work (workflow, idem) WHERE idem IS NOT NULL`,
		`CREATE INDEX llm_work_state ON llm_work (state, workflow, since, id)`,
		`CREATE INDEX llm_work_due ON llm_work (not_before) WHERE state = 'waiting'`,
		`CREATE INDEX llm_work_lease ON llm_work (lease) WHERE state = 'running'`,
		`CREATE INDEX llm_work_ended ON llm_work (ended) WHERE ended > 0`,
	}}
}

// migrateOurs brings our tables up to date. The caller sees to it that no other process does so meanwhile.
func migrateOurs(ctx context.Context, r runner) error {
	if _, err := r.exec(ctx, `CREATE TABLE IF NOT EXISTS llm_work_migration (version BIGINT PRIMARY KEY)`); err != nil {
		return err
	}
	var have int
	err := r.rows(ctx, `SELECT COALESCE(MAX(version), 0) FROM llm_work_migration`, nil, func(scan func(...any) error) error {
		return scan(&have)
	})
	if err != nil {
		return err
	}
	all := migrations()
	if have > len(all) {
		return errors.New("the tables were made by a later version of this package; update it")
	}
	for i, statements := range all[have:] {
		for _, s := range statements {
			if _, err := r.exec(ctx, s); err != nil {
				return err
			}
		}
		if _, err := r.exec(ctx, `INSERT INTO llm_work_migration (version) VALUES (?)`, have+i+1); err != nil {
			return err
		}
	}
	return nil
}
