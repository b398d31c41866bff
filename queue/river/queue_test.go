package riverqueue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/pgtest"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func TestSeveralMayOpenAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				q, err := Open(t.Context(), Config{DSN: dsn})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := q.Enqueue(t.Context(), &middleware.Job{Request: question()}); err != nil {
					t.Error(err)
				}
				if err := q.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		n, err := open(t, Config{DSN: dsn}).Count(t.Context())
		if must(t, err); len(n) != 1 || n[0] != (Count{"", Waiting, 6}) {
			t.Errorf("counted %+v", n)
		}
	})
}

func TestSQLiteIsDurableUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	for relaxed, want := range map[bool]int{false: 2, true: 1} {
		q := open(t, Config{DSN: filepath.Join(t.TempDir(), "what? 100% #1.db"), Relaxed: relaxed})
		for pragma, want := range map[string]string{"synchronous": fmt.Sprint(want), "journal_mode": "wal", "busy_timeout": "10000"} {
			var got string
			must(t, q.engine.rows(t.Context(), "PRAGMA "+pragma, nil, func(scan func(...any) error) error { return scan(&got) }))
			if got != want {
				t.Errorf("Relaxed %v: %s is %s, want %s", relaxed, pragma, got, want)
			}
		}
	}
	own := sqliteDSN("file:a.db?_pragma=busy_timeout(1)", "full")
	if strings.Contains(own, "10000") || !strings.Contains(own, "synchronous(full)") {
		t.Errorf("an address with a setting of its own became %s", own)
	}
}

func TestAnOpenDatabaseIsUsedAndNotClosed(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", sqliteDSN(filepath.Join(t.TempDir(), "queue.db"), "full"))
	must(t, err)
	defer db.Close()
	pool, err := pgxpool.New(t.Context(), pgtest.Start(t))
	must(t, err)
	defer pool.Close()
	for _, cfg := range []Config{{SQLite: db}, {Postgres: pool}} {
		q, err := Open(t.Context(), cfg)
		must(t, err)
		_, err = q.Enqueue(t.Context(), &middleware.Job{Request: question()})
		must(t, err)
		must(t, q.Close())
	}
	must(t, db.PingContext(t.Context()))
	must(t, pool.Ping(t.Context()))
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	memory, err := sql.Open("sqlite", ":memory:")
	must(t, err)
	defer memory.Close()
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "set exactly one"},
		{Config{DSN: "a", SQLite: &sql.DB{}}, "set exactly one"},
		{Config{DSN: filepath.Join(t.TempDir(), "no", "such", "folder", "queue.db")}, "unable to open database file"},
		{Config{DSN: filepath.Join(t.TempDir(), "no", "such", "folder", "q?.db")}, filepath.Join("folder", "q?.db: the tables")},
		{Config{DSN: "file:" + t.TempDir() + "/no/such?x=hunter2"}, "/no/such: the tables"},
		{Config{DSN: ":memory:"}, "in memory"},
		{Config{DSN: "file::memory:?cache=shared"}, "in memory"},
		{Config{DSN: "file:a?mode=memory"}, "in memory"},
		{Config{DSN: "file:?x=1"}, "in memory"},
		{Config{SQLite: memory}, "in memory"},
		{Config{DSN: "host=127.0.0.1 port=1 password=hunter2 connect_timeout=1"}, "connect"},
		{Config{DSN: " dbname = x host=127.0.0.1 port=port password=hunter2"}, "port"},
		{Config{DSN: "postgres://user:hunter2@127.0.0.1:1/x?connect_timeout=1"}, "connect"},
		{Config{DSN: "postgres://user:hunter2@127.0.0.1:port/x"}, "port"},
	} {
		q, err := Open(t.Context(), c.cfg)
		if q != nil || err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v, want %q and no password", c.cfg, err, c.want)
		}
	}
}

func TestTablesOfALaterVersionAreLeftAlone(t *testing.T) {
	t.Parallel()
	dsn := filepath.Join(t.TempDir(), "queue.db")
	_, err := open(t, Config{DSN: dsn}).engine.exec(t.Context(), `INSERT INTO llm_work_migration (version) VALUES (99)`)
	must(t, err)
	if _, err := Open(t.Context(), Config{DSN: dsn}); err == nil || !strings.Contains(err.Error(), "later version") {
		t.Errorf("opened with %v", err)
	}
}

func TestNonsensePanics(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(){
		"Config.Keep":              func() { Open(t.Context(), Config{DSN: "x", Keep: -1}) },
		"WorkerConfig.Callers":     func() { (&Queue{}).Start(t.Context(), WorkerConfig{}) },
		"WorkerConfig.Concurrency": func() { (&Queue{}).Start(t.Context(), WorkerConfig{Callers: fast(nil).Callers, Concurrency: -1}) },
	} {
		func() {
			defer func() {
				if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), name) {
					t.Errorf("%s: %v", name, v)
				}
			}()
			do()
		}()
	}
}

func TestAJobKeepsAllThatItNeeds(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		q := open(t, Config{DSN: dsn})
		spent := llm.Spending{Attempts: 3, Tokens: 40, CostUSD: 0.1 + 0.2, Estimated: true}
		req := question()
		req.Spent = spent
		since, due := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		_, err := q.Enqueue(t.Context(), &middleware.Job{
			Workflow: "support", Request: req, Requires: llm.CanTools | llm.CanText, NotBefore: due, Since: since, Deliveries: 4,
			Cause: &llm.Error{Class: llm.Quota, Message: "paid up", RetryAfter: time.Hour, Attempts: []llm.Attempt{{Deployment: "primary"}}},
		})
		must(t, err)
		p, err := find(t.Context(), q.engine, `workflow = ?`, "support")
		must(t, err)
		switch {
		case p.spent != spent || p.requires != llm.CanTools|llm.CanText || p.deliveries != 4:
			t.Errorf("the row is %+v", p)
		case p.since.Sub(since).Abs() > time.Microsecond || p.notBefore.Sub(due).Abs() > time.Microsecond:
			t.Errorf("since %v, not before %v; want %v and %v", p.since, p.notBefore, since, due)
		case p.cause.Class != llm.Quota || p.cause.Message != "paid up" || p.cause.RetryAfter != time.Hour || len(p.ledger) != 1:
			t.Errorf("cause %+v, ledger %+v", p.cause, p.ledger)
		}
		for _, job := range []*middleware.Job{nil, {}} {
			if _, err := q.Enqueue(t.Context(), job); err == nil {
				t.Errorf("%+v was queued", job)
			}
		}
	})
}

func TestRequirementsHoldOnDelivery(t *testing.T) {
	t.Parallel()
	q := open(t, Config{DSN: t.TempDir() + "/queue.db"})
	m := llmtest.Script()
	receipt, err := q.Enqueue(t.Context(), &middleware.Job{Request: question(), Requires: llm.CanTools})
	must(t, err)
	start(t, q, fast(llm.New().Then(&llm.Deployment{Name: "primary", Caller: m, Has: llm.CanText})))
	if o := wait(t, q, receipt.ID); o.State != Dead || o.Err.Class != llm.Unsupported || m.Count() != 0 {
		t.Errorf("after %d calls it is %+v", m.Count(), o)
	}
}

func TestARequestThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	q := open(t, Config{DSN: t.TempDir() + "/queue.db", MaxBytes: 1000})
	req := &llm.Request{Messages: []llm.Message{llm.User(strings.Repeat("x", 1000))}}
	_, err := q.Enqueue(t.Context(), &middleware.Job{Request: req})
	if err == nil || !strings.Contains(err.Error(), "takes 1000; raise Config.MaxBytes") {
		t.Errorf("it ended with %v", err)
	}
	if n, err := q.Count(t.Context()); err != nil || len(n) != 0 {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestNothingOfAProvidersHeadersAndBodiesIsOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q, err := Open(t.Context(), Config{DSN: dir + "/queue.db"})
	must(t, err)
	secret := func() *llm.Error {
		return &llm.Error{Class: llm.Overloaded, Evidence: llm.Evidence{
			Header: http.Header{"Set-Cookie": {"s3cret"}}, Body: "the s3cret body", Message: "a plain message",
		}}
	}
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "s3cret")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, `{"error":{"message":"down, said to %s"}}`, r.Header.Get("Authorization"))
	})
	queued(t, onionAt(q, p.URL, middleware.BudgetConfig{Attempts: 3}), question())
	cause := secret()
	cause.Err, cause.Attempts = secret(), []llm.Attempt{{Err: secret()}}
	_, err = q.Enqueue(t.Context(), &middleware.Job{Request: question(), Cause: cause})
	must(t, err)
	must(t, q.Close())
	var all strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	}))
	text := all.String()
	if strings.Contains(text, "s3cret") || strings.Contains(text, "sk-secret") ||
		!strings.Contains(text, "a plain message") || !strings.Contains(text, "down, said to") {
		t.Error("the files hold what they should not, or not what they should")
	}
}

func keyed(key, text string) *middleware.Job {
	return &middleware.Job{Workflow: "support", Request: &llm.Request{
		Messages: []llm.Message{llm.User(text)}, Labels: map[string]string{"idempotency_key": key},
	}}
}

func TestAKeyIsQueuedOnce(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		q := open(t, Config{DSN: dsn})
		ids := make([]string, 16)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				r, err := q.Enqueue(t.Context(), keyed("k1", "how long?"))
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = r.ID
			})
		}
		all.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Errorf("two receipts: %v", ids)
			}
		}
		if _, err := q.Enqueue(t.Context(), keyed("k1", "how short?")); !errors.Is(err, ErrConflict) {
			t.Errorf("another question with the key: %v", err)
		}
		other, elsewhere := keyed("k2", "how long?"), keyed("k1", "how long?")
		elsewhere.Workflow = "sales"
		for _, job := range []*middleware.Job{other, elsewhere} {
			if r, err := q.Enqueue(t.Context(), job); err != nil || r.ID == ids[0] {
				t.Errorf("%+v: %+v, %v", job, r, err)
			}
		}
		fewer := keyed("k1", "how long?")
		fewer.Request.MaxAttempts = 3 // of which another failure left fewer
		if r, err := q.Enqueue(t.Context(), fewer); err != nil || r.ID != ids[0] {
			t.Errorf("with fewer attempts left: %+v, %v", r, err)
		}
		must(t, q.Cancel(t.Context(), ids[0]))
		again, err := q.Enqueue(t.Context(), keyed("k1", "how short?"))
		if must(t, err); again.ID == ids[0] {
			t.Error("dead work did not give up its key")
		}
		start(t, q, fast(onion(q, llmtest.Script(), middleware.BudgetConfig{Attempts: 1})))
		wait(t, q, again.ID)
		if r, err := q.Enqueue(t.Context(), keyed("k1", "how short?")); err != nil || r.ID != again.ID {
			t.Errorf("after the answer: %+v, %v", r, err)
		}
	})
}

func TestWaitingWorkCanBeCanceled(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		q := open(t, Config{DSN: dsn})
		m := llmtest.Script()
		cause := &llm.Error{Class: llm.Overloaded, Attempts: []llm.Attempt{{Deployment: "primary"}}}
		gone, err := q.Enqueue(t.Context(), &middleware.Job{Request: question(), Cause: cause})
		must(t, err)
		must(t, q.Cancel(t.Context(), gone.ID))
		stays, err := q.Enqueue(t.Context(), &middleware.Job{Request: question()})
		must(t, err)
		w := start(t, q, fast(onion(q, m, middleware.BudgetConfig{Attempts: 1})))
		wait(t, q, stays.ID)
		must(t, w.Stop(t.Context()))
		o, err := q.Result(t.Context(), gone.ID)
		must(t, err)
		if o.State != Dead || o.Err.Class != llm.Canceled || len(o.Err.Attempts) != 1 || !errors.Is(o.Err.Err, llm.Overloaded) || m.Count() != 1 {
			t.Errorf("after %d calls it is %+v", m.Count(), o)
		}
		if err := q.Cancel(t.Context(), stays.ID); err == nil || !strings.Contains(err.Error(), "it is answered") {
			t.Errorf("answered work was canceled: %v", err)
		}
	})
}

func TestUnknownWorkIsSaidToBe(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		q := open(t, Config{DSN: dsn})
		for _, id := range []string{"nothing", "no\x00", "no\xff"} {
			_, result := q.Result(t.Context(), id)
			_, waited := q.Wait(t.Context(), id)
			for _, err := range []error{result, waited, q.Cancel(t.Context(), id)} {
				if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), fmt.Sprintf("%q", id)) {
					t.Errorf("%v", err)
				}
			}
			for _, f := range []Filter{{Workflow: id}, {State: State(id)}} {
				if list, err := q.List(t.Context(), f); err != nil || len(list) != 0 {
					t.Errorf("%+v lists %+v, %v", f, list, err)
				}
			}
		}
		receipt, err := q.Enqueue(t.Context(), &middleware.Job{Request: question()})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if _, err := q.Wait(ctx, receipt.ID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait for work that nobody does: %v", err)
		}
	})
}

func TestWorkIsListedAndCounted(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		q := open(t, Config{DSN: dsn})
		began := time.Now()
		var ids []string
		for i, workflow := range []string{"a", "b", "a", "a"} {
			r, err := q.Enqueue(t.Context(), &middleware.Job{
				Workflow: workflow, Request: question(), Since: began.Add(time.Duration(i) * time.Second),
			})
			must(t, err)
			ids = append(ids, r.ID)
		}
		must(t, q.Cancel(t.Context(), ids[2]))
		for _, c := range []struct {
			filter Filter
			want   []int
		}{
			{Filter{}, []int{0, 1, 2, 3}},
			{Filter{Workflow: "a"}, []int{0, 2, 3}},
			{Filter{State: Dead}, []int{2}},
			{Filter{Workflow: "a", State: Waiting, Limit: 1, Offset: 1}, []int{3}},
			{Filter{Workflow: "c"}, nil},
		} {
			list, err := q.List(t.Context(), c.filter)
			must(t, err)
			var got, want []string
			for _, o := range list {
				got = append(got, o.ID)
			}
			for _, i := range c.want {
				want = append(want, ids[i])
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%+v lists %v, want %v", c.filter, got, want)
			}
		}
		n, err := q.Count(t.Context())
		if must(t, err); fmt.Sprint(n) != "[{a dead 1} {a waiting 2} {b waiting 1}]" {
			t.Errorf("counted %v", n)
		}
	})
}

func TestResultsAreKeptForAsLongAsToldAndNoLonger(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		q := open(t, Config{DSN: dsn, Keep: time.Hour})
		c := onion(q, llmtest.Script(), middleware.BudgetConfig{Attempts: 1})
		old, err := q.Enqueue(t.Context(), &middleware.Job{Request: question()})
		must(t, err)
		fresh, err := q.Enqueue(t.Context(), &middleware.Job{Request: question()})
		must(t, err)
		w := start(t, q, fast(c))
		wait(t, q, old.ID)
		wait(t, q, fresh.ID)
		must(t, w.Stop(t.Context()))
		_, err = q.engine.exec(t.Context(), `DELETE FROM river_job`) // as River's cleaners do in time
		must(t, err)
		_, err = q.engine.exec(t.Context(), `UPDATE llm_work SET ended = ended - ? WHERE id = ?`, (2 * time.Hour).Microseconds(), old.ID)
		must(t, err)
		start(t, q, fast(c))
		until(t, func() bool {
			_, err := q.Result(t.Context(), old.ID)
			return errors.Is(err, ErrUnknown)
		})
		if o := wait(t, q, fresh.ID); o.State != Answered {
			t.Errorf("a fresh result is %+v", o)
		}
	})
}

func TestAThousandAttemptsAreKept(t *testing.T) {
	t.Parallel()
	p := &piece{}
	for i := range maxLedger + 5 {
		p.add([]llm.Attempt{{Index: i}})
	}
	if len(p.ledger) != maxLedger || p.ledger[0].Index != 5 {
		t.Errorf("%d rows from %d", len(p.ledger), p.ledger[0].Index)
	}
}

// stuck is an engine whose transactions wait until they may go on.
type stuck struct {
	engine
	entered, leave chan struct{}
}

func (s *stuck) transact(ctx context.Context, do func(transaction) error) error {
	s.entered <- struct{}{}
	<-s.leave
	return s.engine.transact(ctx, do)
}

func TestACallerThatLeavesWhileTheDatabaseIsWaitedForIsNotQueued(t *testing.T) {
	t.Parallel()
	q := open(t, Config{DSN: t.TempDir() + "/queue.db"})
	s := &stuck{q.engine, make(chan struct{}), make(chan struct{})}
	q.engine = s
	ctx, cancel := context.WithCancel(t.Context())
	ends := make(chan error)
	enqueue := func(ctx context.Context) {
		_, err := q.Enqueue(ctx, &middleware.Job{Request: question()})
		ends <- err
	}
	go enqueue(ctx)
	<-s.entered
	go enqueue(ctx)
	cancel()
	for range 2 {
		if err := <-ends; !errors.Is(err, context.Canceled) {
			t.Errorf("one who left was told %v", err)
		}
	}
	go enqueue(t.Context())
	s.leave <- struct{}{}
	for done := false; !done; { // at once, or with the next transaction
		select {
		case <-s.entered:
			s.leave <- struct{}{}
		case err := <-ends:
			must(t, err)
			done = true
		}
	}
	if n, err := q.Count(t.Context()); err != nil || len(n) != 1 || n[0].N != 1 {
		t.Errorf("queued %+v, %v; want the one who stayed", n, err)
	}
}

func TestTextThatNoDatabaseTakesIsRefused(t *testing.T) {
	t.Parallel()
	q := open(t, Config{DSN: t.TempDir() + "/queue.db"})
	for _, workflow := range []string{"a\x00b", "\xff", strings.Repeat("w", 1025)} {
		if _, err := q.Enqueue(t.Context(), &middleware.Job{Workflow: workflow, Request: question()}); err == nil {
			t.Errorf("workflow %q was queued", workflow)
		}
	}
}

func BenchmarkEnqueue(b *testing.B) {
	q := open(b, Config{DSN: filepath.Join(b.TempDir(), "queue.db")})
	job := &middleware.Job{Workflow: "support", Request: question()}
	const callers = 64
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := q.Enqueue(b.Context(), job); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "enqueued/s")
}
