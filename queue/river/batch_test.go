package riverqueue

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func count(t *testing.T, q *Queue) (n int) {
	t.Helper()
	list, err := q.Count(t.Context())
	must(t, err)
	for _, c := range list {
		n += c.N
	}
	return n
}

func TestWhoEnqueuesWaitsForALockedFileAsLongAsToldAndNoLonger(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/queue.db"
	q := open(t, Config{DSN: path})
	other, err := sql.Open("sqlite", sqliteDSN(path, "full"))
	must(t, err)
	defer other.Close()
	lock, err := other.BeginTx(t.Context(), nil)
	must(t, err)
	began := time.Now()
	for _, job := range []*middleware.Job{{Request: question()}, keyed("k", "how long?")} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if r, err := q.Enqueue(ctx, job); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a locked file: %+v, %v", r, err)
		}
		cancel()
	}
	if took := time.Since(began); took > batchTime/2 {
		t.Errorf("two that had 50 ms each were told after %v", took)
	}
	done := make(chan error)
	go func() {
		_, err := q.Enqueue(t.Context(), &middleware.Job{Request: question()})
		done <- err
	}()
	must(t, lock.Rollback())
	must(t, <-done)
	if n := count(t, q); n != 1 {
		t.Errorf("%d pieces are queued, want the one that was patient", n)
	}
}

// A meddler is an engine with something that happens in each transaction that enqueues.
type meddler struct {
	engine
	mu     sync.Mutex
	before func()            // the rows are written
	sealed func()            // it is committed
	after  func(error) error // it was
}

func (m *meddler) hooks() (before, sealed func(), after func(error) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, sealed, after = m.before, m.sealed, m.after
	m.before, m.sealed, m.after = nil, nil, nil
	return before, sealed, after
}

func (m *meddler) transact(ctx context.Context, do func(transaction) error) error {
	before, sealed, after := m.hooks()
	err := m.engine.transact(ctx, func(tx transaction) error {
		err := do(meddled{tx, before})
		if sealed != nil {
			sealed()
		}
		return err
	})
	if after != nil {
		err = after(err)
	}
	return err
}

type meddled struct {
	transaction
	before func()
}

func (m meddled) insert(ctx context.Context, pieces ...*piece) ([]int64, error) {
	if m.before != nil {
		m.before()
	}
	return m.transaction.insert(ctx, pieces...)
}

func TestWhatItsCallerWasToldIsNotQueuedIsNotDelivered(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		q := open(t, Config{DSN: dsn})
		m := &meddler{engine: q.engine}
		q.engine = m

		// While its row is written, a caller leaves. It is told at once.
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan struct{})
		m.before = func() { cancel(); <-told }
		_, err := q.Enqueue(ctx, &middleware.Job{Workflow: "left", Request: question()})
		close(told)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("who left was told %v", err)
		}
		must(t, enqueued(t, q, "stays"))

		// While it is committed, a caller leaves. It hears how that ended.
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		m.mu.Lock()
		m.sealed = cancel
		m.mu.Unlock()
		if r, err := q.Enqueue(ctx, &middleware.Job{Workflow: "sealed", Request: question()}); err != nil || r.ID == "" {
			t.Errorf("who left during the commit was told %+v, %v", r, err)
		}

		// It is committed, and the database cannot say so any more.
		m.mu.Lock()
		m.after = func(err error) error { return errors.Join(err, errors.New("the connection broke")) }
		m.mu.Unlock()
		if err := enqueued(t, q, "broke"); err == nil || !strings.Contains(err.Error(), "it is taken back: the connection broke") {
			t.Errorf("after a commit of unknown outcome: %v", err)
		}
		until(t, func() bool { return count(t, q) == 2 })

		model := llmtest.Script()
		start(t, q, fast(llm.New().Then(&llm.Deployment{Name: "primary", Caller: model})))
		list, err := q.List(t.Context(), Filter{})
		must(t, err)
		for _, o := range list {
			if o.Workflow != "stays" && o.Workflow != "sealed" {
				t.Errorf("%s is queued", o.Workflow)
			}
			wait(t, q, o.ID)
		}
		if model.Count() != 2 {
			t.Errorf("%d calls, want 2", model.Count())
		}
	})
}

func enqueued(t *testing.T, q *Queue, workflow string) error {
	t.Helper()
	_, err := q.Enqueue(t.Context(), &middleware.Job{Workflow: workflow, Request: question()})
	return err
}

func TestABatchIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	b := &batch{}
	for _, size := range []int{batchBytes * 3, 1, batchBytes / 2, batchBytes / 2, 1, batchBytes + 1} {
		b.waiting = append(b.waiting, &entry{piece: &piece{request: strings.Repeat("x", size)}})
	}
	for _, want := range []int{1, 2, 2, 1, 0} {
		if n := len(b.take()); n != want {
			t.Errorf("took %d, want %d", n, want)
		}
	}
}
