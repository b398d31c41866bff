package riverqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/modelchain/llm"
)

// WorkerConfig sets [Queue.Start]. Only Callers must be set.
type WorkerConfig struct {
	// Callers is the onion of a workflow, with the stage that queued the work. An error says that there is none now: the work
	// waits a minute for it.
	Callers func(workflow string) (llm.Caller, error)
	// Concurrency is how many deliveries run at once. 0: 8.
	Concurrency int
	// Timeout bounds a delivery. 0: 15 min.
	Timeout time.Duration
	// Lease is how long a worker may be silent, by the clock of the database, before its deliveries are taken for lost and made
	// again. Workers renew theirs three times as often. 0: 1 min.
	Lease time.Duration
	// MaxLost is how many deliveries of the same work may be lost before it is dead: it may be what kills its workers. 0: 3.
	MaxLost int
	// MaxAge is for how long after it came in work waits for a workflow without an onion before it is dead. 0: 24 h.
	MaxAge time.Duration
	// Poll is how often a worker looks for work that no notification told of. 0: 1 s.
	Poll time.Duration
}

// noCaller is how long work waits for a workflow without an onion.
const noCaller = time.Minute

// A Worker delivers work. See [Queue.Start].
type Worker struct {
	queue  *Queue
	cfg    WorkerConfig
	client client
	hard   context.Context //nolint:containedctx // it is the worker's: its end, by errStopping, ends what runs
	halt   context.CancelCauseFunc
	keeper sync.WaitGroup // of lost work and old results
	leave  context.CancelFunc
}

var (
	errStopping = errors.New("the worker stops")
	errLost     = errors.New("the worker lost its hold of the work")
)

// Start delivers work until Stop. ctx bounds nothing but the start. Several workers, in one process or many, share the queue: one
// has a piece of work at a time. It panics without Callers and on negative settings.
func (q *Queue) Start(ctx context.Context, cfg WorkerConfig) (*Worker, error) {
	if cfg.Callers == nil {
		panic("llm/queue/river: Start: WorkerConfig.Callers is nil; set the function that returns the onion of a workflow")
	}
	for _, c := range []struct {
		name string
		n    int64
	}{
		{"Concurrency", int64(cfg.Concurrency)}, {"Timeout", int64(cfg.Timeout)}, {"Lease", int64(cfg.Lease)},
		{"MaxLost", int64(cfg.MaxLost)}, {"MaxAge", int64(cfg.MaxAge)}, {"Poll", int64(cfg.Poll)},
	} {
		mustNotBeNegative("WorkerConfig", c.name, c.n)
	}
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 8)
	cfg.Timeout = cmp.Or(cfg.Timeout, 15*time.Minute)
	cfg.Lease = cmp.Or(cfg.Lease, time.Minute)
	cfg.MaxLost = cmp.Or(cfg.MaxLost, 3)
	cfg.MaxAge = cmp.Or(cfg.MaxAge, 24*time.Hour)
	cfg.Poll = cmp.Or(cfg.Poll, time.Second)
	base := context.WithoutCancel(ctx)
	w := &Worker{queue: q, cfg: cfg}
	w.hard, w.halt = context.WithCancelCause(base)
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(w.work))
	// River's own rescue of stuck jobs has no heartbeat. It only tidies up what the lease has long made good.
	limit := cfg.Timeout + recordTime + cfg.Lease
	c, err := q.engine.worker(&river.Config{
		Logger: q.cfg.Logger, Workers: workers, JobTimeout: limit, RescueStuckJobsAfter: limit + time.Minute,
		FetchCooldown: min(cfg.Poll, river.FetchCooldownDefault), FetchPollInterval: cfg.Poll,
		CompletedJobRetentionPeriod: time.Hour, RetryPolicy: retryPolicy{},
		Queues: map[string]river.QueueConfig{q.cfg.Name: {MaxWorkers: cfg.Concurrency}},
	})
	if err == nil {
		err = c.Start(base)
	}
	if err != nil {
		w.halt(errStopping)
		return nil, fmt.Errorf("riverqueue: Start: %w", err)
	}
	w.client = c
	keep, leave := context.WithCancel(base)
	w.leave = leave
	w.keeper.Go(func() { w.keep(keep) })
	return w, nil
}

// retryPolicy is for jobs that could not even begin, because the database failed.
type retryPolicy struct{}

func (retryPolicy) NextRetry(job *rivertype.JobRow) time.Time {
	return time.Now().Add(min(time.Duration(max(job.Attempt, 1))*time.Second, time.Minute))
}

// Stop takes no more work, and waits for what runs until ctx ends. Then it cancels what runs, which goes back to the queue with
// what it spent, and waits up to half a minute for that.
func (w *Worker) Stop(ctx context.Context) error {
	err := w.client.Stop(ctx)
	if err != nil {
		w.halt(errStopping)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
		defer cancel()
		err = w.client.StopAndCancel(last)
	}
	w.halt(errStopping)
	w.leave()
	w.keeper.Wait()
	if err != nil {
		return fmt.Errorf("riverqueue: Stop: deliveries that do not end were left behind: %w", err)
	}
	return nil
}
