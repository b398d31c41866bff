package middleware

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// A BucketStore shares budgets of retries and of fallbacks between processes. Package stores/redis has one;
// storetest.TestBuckets holds any to these rules. Amounts are the time in which a bucket gains them by itself.
//
//   - Time is the store's own. A bucket that nobody asked about for as long as it needs to be full is full, and forgotten.
//   - Of one replica each number counts once, also if it is said again, for at least a minute.
//
// Exchange ends with its context, and is safe for concurrent use. Errors carry no secrets.
type BucketStore interface {
	// Exchange takes what News says from its bucket and returns what the bucket then lacks.
	Exchange(ctx context.Context, news BucketNews) (SharedBucket, error)
}

// BucketNews is what a process tells a [BucketStore].
type BucketNews struct {
	// Name is the bucket's, Replica the process's, Number that of this exchange, above all earlier ones of the replica with
	// this bucket.
	Name, Replica string
	Number        uint64
	// Capacity is how much the bucket holds. Taken is what was taken since the last exchange, below 0 what was put in. It may
	// leave the bucket in debt, by up to its Capacity.
	Capacity, Taken time.Duration
}

// SharedBucket is what a [BucketStore] knows of a bucket.
type SharedBucket struct {
	// Lacks is what is missing. 0: it is full.
	Lacks time.Duration
	// Replicas is how many exchanged with the bucket in the last 90 seconds, this one included.
	Replicas int
}

// BucketsConfig sets [NewBuckets].
type BucketsConfig struct {
	// Store keeps the buckets. It must be set.
	Store BucketStore
	// Timeout is the longest that one exchange takes, for which no call waits. 0: 20 ms.
	Timeout time.Duration
	// Meter makes the metrics that tell whether the Store is up. nil: the one registered with package otel.
	Meter metric.MeterProvider
	// Logger gets a record when the Store goes down and one when it is back. nil: slog.Default().
	Logger *slog.Logger
}

// Buckets shares the budgets whose RetryBudgetConfig names it with all processes that use the same store.
//
// No call waits for the store: a budget spends what it knows of, and tells and hears within some hundredths of a second, so
// that replicas may together exceed a budget by what each of them spends in that time. While the store is down each goes on
// with its share of the budget, by the number of replicas last seen, though with room for one retry; then all that was
// spent counts, once.
type Buckets struct {
	cfg     BucketsConfig
	replica string
	health  *storeHealth
	ctx     context.Context //nolint:containedctx // it is the life of its goroutine
	cancel  context.CancelFunc
	ended   sync.WaitGroup
	wake    alarm

	mu      sync.Mutex
	budgets map[string]*RetryBudget
}

const (
	bucketsPause   = 20 * time.Millisecond // between two rounds of exchanges
	bucketsRefresh = 30 * time.Second      // at which a budget that nobody uses shows that it is there
	bucketsForget  = 30 * time.Second      // after which an exchange that may have been lost is not said again
)

// NewBuckets begins to share. It panics without a Store.
func NewBuckets(cfg BucketsConfig) *Buckets {
	if cfg.Store == nil {
		panic("llm/middleware: Buckets: there is no Store; set one, such as that of package stores/redis")
	}
	cfg.Timeout = durationOr("Buckets", "Timeout", cfg.Timeout, 20*time.Millisecond)
	b := &Buckets{
		cfg: cfg, replica: rand.Text(), health: newStoreHealth("buckets", cfg.Meter, cfg.Logger),
		wake: newAlarm(), budgets: map[string]*RetryBudget{},
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.ended.Go(b.run)
	return b
}

// Close ends the sharing, after which each budget goes on alone. It does not end the Store.
func (b *Buckets) Close() error {
	b.cancel()
	b.ended.Wait()
	return nil
}

// join makes r one that is shared, or returns the one of its name that is.
func (b *Buckets) join(r *RetryBudget) *RetryBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.budgets[r.cfg.Name]; old != nil && old.cfg == r.cfg {
		return old
	}
	r.shared = &sharedBudget{all: b}
	r.shared.scale.Store(1)
	b.budgets[r.cfg.Name] = r
	b.wake.rouse()
	return r
}

func (b *Buckets) run() {
	timer := time.NewTimer(bucketsRefresh)
	defer timer.Stop()
	for failed := 0; ; {
		select {
		case <-b.ctx.Done():
			return
		case <-b.wake:
		case <-timer.C:
		}
		wait := bucketsPause
		if b.round() {
			failed = 0
		} else {
			wait = storePause(failed)
			failed++
		}
		pause := time.NewTimer(wait)
		select {
		case <-b.ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		next := bucketsRefresh
		if failed > 0 {
			next = 0
		}
		timer.Reset(next)
	}
}

// round exchanges what there is to tell. false: the store failed.
func (b *Buckets) round() bool {
	b.mu.Lock()
	budgets := make([]*RetryBudget, 0, len(b.budgets))
	for _, r := range b.budgets {
		budgets = append(budgets, r)
	}
	b.mu.Unlock()
	ok := true
	for _, r := range budgets {
		if ok {
			ok = b.exchange(r)
		}
	}
	for _, r := range budgets {
		r.shared.degrade(r, b.health.down())
	}
	return ok
}

// sharedBudget is the part of a RetryBudget that is about the Store.
type sharedBudget struct {
	all *Buckets
	// pending is what was taken and not yet told, in nanoseconds, told whether the round knows that there is something.
	pending atomic.Int64
	told    atomic.Bool
	// scale is by how much all costs here, while the Store is down: as if the bucket were smaller by so much. 1: it is not.
	scale atomic.Int64

	// The rest is the round's.
	number   uint64
	taken    time.Duration // of the exchange called number, which may have been lost. 0: none was
	since    time.Time
	last     time.Time // of the last exchange
	replicas int
}

// spent notes that so much was taken, below 0 put in.
func (s *sharedBudget) spent(amount int64) {
	s.pending.Add(amount)
	if !s.told.Load() && !s.told.Swap(true) {
		s.all.wake.rouse()
	}
}

// degrade makes all cost more while the store is down.
func (s *sharedBudget) degrade(r *RetryBudget, down bool) {
	scale := int64(1)
	if down {
		scale = int64(min(max(s.replicas, 1), r.cfg.Capacity/max(r.cfg.Cost, r.cfg.AfterRateLimit)))
	}
	s.scale.Store(scale)
}

// exchange tells what was taken from r and takes over what there is.
func (b *Buckets) exchange(r *RetryBudget) bool {
	s := r.shared
	now := time.Now()
	if s.taken != 0 && now.Sub(s.since) > bucketsForget {
		s.taken = 0 // the store may not know any more that it knows
	}
	s.told.Store(false)
	if s.taken == 0 {
		s.taken = time.Duration(s.pending.Swap(0))
		if s.taken == 0 && now.Sub(s.last) < bucketsRefresh && !b.health.down() && s.number > 0 {
			return true
		}
		s.number++
		s.since = now
	}
	ctx, cancel := context.WithTimeout(b.ctx, b.cfg.Timeout)
	defer cancel()
	var got SharedBucket
	err := guarded(ctx, func(ctx context.Context) (err error) {
		got, err = b.cfg.Store.Exchange(ctx, BucketNews{
			Name: r.cfg.Name, Replica: b.replica, Number: s.number, Capacity: time.Duration(r.capacity), Taken: s.taken,
		})
		if err == nil && got.Lacks < 0 {
			err = errors.New("the bucket lacks less than nothing")
		}
		return err
	})
	if b.ctx.Err() != nil {
		return true
	}
	b.health.note(storeOps, err)
	if err != nil {
		return false
	}
	s.taken, s.last, s.replicas = 0, now, got.Replicas
	r.adopt(int64(got.Lacks))
	return true
}
