package middleware_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/llmtest/storetest"
	"github.com/modelchain/llm/middleware"
)

// bucketsOf is a replica's end of the store.
func bucketsOf(t *testing.T, store middleware.BucketStore) *middleware.Buckets {
	t.Helper()
	b := middleware.NewBuckets(middleware.BucketsConfig{Store: store, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// bucketsRetrying makes a failing call that would be repeated n times, and reports how often it was.
func bucketsRetrying(t *testing.T, budget *middleware.RetryBudget, n int) int {
	t.Helper()
	steps := make([]llmtest.Step, n+1)
	for i := range steps {
		steps[i] = llmtest.Fail(llm.Unavailable)
	}
	model := llmtest.Script(steps...)
	chat := llm.New(middleware.Retry(middleware.RetryConfig{Budget: budget, Max: n, Base: time.Millisecond, Cap: time.Millisecond})).Then(&llm.Deployment{Name: "a", Caller: model})
	if e := cooldownCall(t, chat); e == nil {
		t.Error("it answered")
	}
	return model.Count() - 1
}

func bucketsBudget(b *middleware.Buckets) *middleware.RetryBudget {
	// Ten retries; time brings one back in fourteen days, so that a test can count.
	return middleware.NewRetryBudget(middleware.RetryBudgetConfig{Capacity: 1_000_000, Cost: 100_000, AfterRateLimit: 100_000,
		PerSecond: 1, Shared: b, Name: "retries"})
}

func TestBucketsAreOneForAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewBuckets()
		first, second := bucketsBudget(bucketsOf(t, store)), bucketsBudget(bucketsOf(t, store))
		llmtest.Advance(time.Second)
		if n := bucketsRetrying(t, first, 8); n != 8 {
			t.Fatalf("%d retries, want 8 of 10", n)
		}
		llmtest.Advance(time.Minute)
		if n := bucketsRetrying(t, second, 8); n != 2 {
			t.Errorf("the second replica had %d retries, want the 2 that the first left", n)
		}
		llmtest.Advance(time.Minute)
		if n := first.Tokens(); n > 1000 {
			t.Errorf("the first knows of %d tokens after the second used them up", n)
		}
	})
}

func TestBucketsOfAFallbackAreSharedByRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewBuckets()
		moves := func() (*llmtest.Model, llm.Caller) {
			primary, second := llmtest.Script(llmtest.Fail(llm.Unavailable)), llmtest.Script(llmtest.Fail(llm.Unavailable))
			return second, middleware.Fallback(middleware.FallbackConfig{Budget: middleware.RetryBudgetConfig{
				Capacity: 1_000_000, Cost: 1_000_000, Shared: bucketsOf(t, store), Name: "moves",
			}}, &llm.Deployment{Name: "p", Caller: primary}, &llm.Deployment{Name: "s", Caller: second})
		}
		one, first := moves()
		two, second := moves()
		llmtest.Advance(time.Second)
		cooldownCall(t, first)
		llmtest.Advance(time.Minute)
		cooldownCall(t, second)
		if one.Count() != 1 || two.Count() != 0 {
			t.Errorf("%d and %d moves in vain, want the one that the budget has", one.Count(), two.Count())
		}
	})
}

// A move that is in vain costs all replicas one budget, and one that is not costs nothing, however many are at once.
func TestBucketsPayForMovesInVainAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewBuckets()
		moves := func(second llm.Caller) llm.Caller {
			return middleware.Fallback(middleware.FallbackConfig{Budget: middleware.RetryBudgetConfig{
				Capacity: 1_000_000, Cost: 1_000_000, Shared: bucketsOf(t, store), Name: "moves",
			}}, &llm.Deployment{Name: "p", Caller: llmtest.Script(llmtest.Fail(llm.Unavailable))}, &llm.Deployment{Name: "s", Caller: second})
		}
		answers := llmtest.Script(llmtest.Text("ok"))
		first, other := moves(answers), moves(llmtest.Script(llmtest.Fail(llm.Unavailable)))
		llmtest.Advance(time.Second)
		for i := range 20 {
			if e := cooldownCall(t, first); e != nil {
				t.Fatalf("move %d, which is answered: %v", i+1, e)
			}
		}
		cooldownCall(t, other)
		llmtest.Advance(time.Minute)
		if e := cooldownCall(t, first); e == nil || answers.Count() != 20 {
			t.Errorf("after the other replica used the budget in vain: %v, and %d moves", e, answers.Count())
		}
	})
}

// bucketsCounting counts exchanges, and can lose the answers to those that it made.
type bucketsCounting struct {
	*storetest.Buckets
	mu    sync.Mutex
	n     int
	loses bool
}

func (s *bucketsCounting) Exchange(ctx context.Context, n middleware.BucketNews) (middleware.SharedBucket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	got, err := s.Buckets.Exchange(ctx, n)
	if s.loses {
		return middleware.SharedBucket{}, context.DeadlineExceeded
	}
	return got, err
}

func TestBucketsThatAreFullTellNothingOfASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &bucketsCounting{Buckets: storetest.NewBuckets()}
		budget := middleware.NewRetryBudget(middleware.RetryBudgetConfig{Shared: bucketsOf(t, store), Name: "b"})
		chat := llm.New(middleware.Retry(middleware.RetryConfig{Budget: budget})).Then(&llm.Deployment{Name: "a", Caller: cooldownNoop()})
		llmtest.Advance(time.Second)
		before := store.n
		for range 1000 {
			cooldownCall(t, chat)
		}
		llmtest.Advance(time.Second)
		if store.n != before {
			t.Errorf("1000 calls that succeeded made %d exchanges", store.n-before)
		}
	})
}

func TestBucketsCountAnExchangeOnceWhoseAnswerWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &bucketsCounting{Buckets: storetest.NewBuckets()}
		budget := bucketsBudget(bucketsOf(t, store))
		llmtest.Advance(time.Second)
		store.mu.Lock()
		store.loses = true
		store.mu.Unlock()
		bucketsRetrying(t, budget, 1)
		llmtest.Advance(10 * time.Second)
		store.mu.Lock()
		store.loses = false
		store.mu.Unlock()
		llmtest.Advance(10 * time.Second)
		if n := bucketsRetrying(t, bucketsBudget(bucketsOf(t, store)), 20); n > 10 || n < 9 {
			t.Errorf("a replica that starts had %d retries", n)
		}
		if n := budget.Tokens(); n < 900_000 || n > 901_000 {
			t.Errorf("one retry of 100000 left %d of 1000000 tokens", n)
		}
	})
}

func TestBucketsWithoutAStoreAreEachReplicasShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewBuckets()
		var fleet []*middleware.RetryBudget
		for range 5 {
			fleet = append(fleet, bucketsBudget(bucketsOf(t, store)))
		}
		llmtest.Advance(40 * time.Second) // each has seen the others
		store.Fail(errors.New("down"))
		llmtest.Advance(time.Minute)
		for i, budget := range fleet {
			if n := bucketsRetrying(t, budget, 5); n != 2 {
				t.Errorf("replica %d of 5 had %d retries of the 10, want its share of 2", i, n)
			}
		}
		store.Fail(nil)
		llmtest.Advance(time.Minute)
		for i, budget := range fleet {
			if n := bucketsRetrying(t, budget, 1); n != 0 {
				t.Errorf("replica %d had %d retries of a budget that all together used up", i, n)
			}
		}
	})
}

func TestBucketsOfOneNameAreOneBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bucketsOf(t, storetest.NewBuckets())
		cfg := middleware.RetryBudgetConfig{Shared: b, Name: "a"}
		if a, again := middleware.NewRetryBudget(cfg), middleware.NewRetryBudget(cfg); a != again {
			t.Error("two budgets of one name and settings")
		}
		if middleware.NewRetryBudget(cfg) == middleware.NewRetryBudget(middleware.RetryBudgetConfig{
			Shared: b, Name: "b",
		}) {
			t.Error("one budget of two names")
		}
	})
}

func TestBucketsSayWhatIsMissing(t *testing.T) {
	mustPanic := func(name string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", name)
			}
		}()
		f()
	}
	mustPanic("no store", func() { middleware.NewBuckets(middleware.BucketsConfig{}) })
	synctest.Test(t, func(t *testing.T) {
		b := bucketsOf(t, storetest.NewBuckets())
		mustPanic("no name", func() { middleware.NewRetryBudget(middleware.RetryBudgetConfig{Shared: b}) })
	})
}
