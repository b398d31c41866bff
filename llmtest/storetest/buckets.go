package storetest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelchain/llm/middleware"
)

// Buckets is a middleware.BucketStore in memory. It is safe for concurrent use.
type Buckets struct {
	mu      sync.Mutex
	buckets map[string]*heldBucket
	err     error
}

type heldBucket struct {
	full     time.Time
	replicas map[string]*bucketReplica
}

type bucketReplica struct {
	number uint64
	seen   time.Time
}

// NewBuckets is one whose buckets are full.
func NewBuckets() *Buckets { return &Buckets{buckets: map[string]*heldBucket{}} }

// Fail makes every exchange end with err. nil: no more.
func (s *Buckets) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Lose forgets everything.
func (s *Buckets) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.buckets)
}

// Exchange is as middleware.BucketStore says.
func (s *Buckets) Exchange(ctx context.Context, n middleware.BucketNews) (middleware.SharedBucket, error) {
	if err := ctx.Err(); err != nil {
		return middleware.SharedBucket{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return middleware.SharedBucket{}, s.err
	}
	now := time.Now()
	b := s.buckets[n.Name]
	if b == nil {
		b = &heldBucket{replicas: map[string]*bucketReplica{}}
		s.buckets[n.Name] = b
	}
	r := b.replicas[n.Replica]
	if r == nil {
		r = &bucketReplica{}
		b.replicas[n.Replica] = r
	}
	r.seen = now
	lacks := max(b.full.Sub(now), 0)
	if n.Taken != 0 && n.Number > r.number {
		lacks = min(max(lacks+n.Taken, 0), 2*n.Capacity)
		b.full, r.number = now.Add(lacks), n.Number
	}
	for name, other := range b.replicas {
		if now.Sub(other.seen) > 90*time.Second {
			delete(b.replicas, name)
		}
	}
	return middleware.SharedBucket{Lacks: lacks, Replicas: len(b.replicas)}, nil
}

// TestBuckets checks that a store keeps the rules of middleware.BucketStore.
func TestBuckets(t *testing.T, with Access[middleware.BucketStore]) {
	for name, run := range map[string]func(*bucketsSuite){
		"what is taken is missing, and comes back": bucketTaken,
		"a number counts once":                     bucketOnce,
		"many at once lose nothing":                bucketRace,
		"replicas are counted":                     bucketReplicas,
		"a bucket is at most full, and has a debt": bucketBounds,
		"what was canceled is not done":            bucketCanceled,
		"a server that is down fails":              bucketDown,
		"a bucket that was lost is full":           bucketLost,
		"names are names":                          bucketNames,
	} {
		t.Run(name, func(t *testing.T) {
			run(&bucketsSuite{begin(t, with, name)})
		})
	}
}

type bucketsSuite struct {
	suite[middleware.BucketStore]
}

// exchange is one of the bucket "b", which holds an hour, that must succeed.
func (s *bucketsSuite) exchange(replica string, number uint64, taken time.Duration) middleware.SharedBucket {
	s.Helper()
	got, err := s.store.Exchange(s.Context(), middleware.BucketNews{
		Name: "b", Replica: replica, Number: number, Capacity: time.Hour, Taken: taken,
	})
	if err != nil {
		s.Fatal(err)
	}
	return got
}

// lacks fails unless what is missing is want, less what came back during the test.
func (s *bucketsSuite) lacks(got middleware.SharedBucket, want time.Duration) {
	s.Helper()
	if got.Lacks > want || got.Lacks < want-time.Minute && want > 0 {
		s.Errorf("it lacks %v, want %v", got.Lacks, want)
	}
}

func bucketTaken(s *bucketsSuite) {
	s.lacks(s.exchange("a", 1, 0), 0)
	s.lacks(s.exchange("a", 2, 10*time.Minute), 10*time.Minute)
	s.lacks(s.exchange("b", 1, 20*time.Minute), 30*time.Minute)
	s.lacks(s.exchange("b", 2, -15*time.Minute), 15*time.Minute)
	before := s.exchange("a", 3, 0)
	for after := before; after.Lacks == before.Lacks; after = s.exchange("a", 4, 0) {
		if s.Context().Err() != nil {
			s.Fatal("time puts nothing in")
		}
	}
}

func bucketOnce(s *bucketsSuite) {
	for range 3 {
		s.lacks(s.exchange("a", 1, 10*time.Minute), 10*time.Minute)
	}
	s.exchange("a", 2, 10*time.Minute)
	s.lacks(s.exchange("a", 1, 10*time.Minute), 20*time.Minute)
}

func bucketRace(s *bucketsSuite) {
	stores := []middleware.BucketStore{s.store, s.open()}
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			n := middleware.BucketNews{Name: "b", Replica: strconv.Itoa(i), Number: 1, Capacity: time.Hour, Taken: time.Minute}
			if _, err := stores[i%2].Exchange(s.Context(), n); err != nil {
				s.Error(err)
			}
		})
	}
	all.Wait()
	s.lacks(s.exchange("x", 1, 0), 30*time.Minute)
}

func bucketReplicas(s *bucketsSuite) {
	for i := range 5 {
		for n := range 2 {
			if got := s.exchange(strconv.Itoa(i), uint64(n+1), 0); got.Replicas != i+1 {
				s.Errorf("%d replicas, want %d", got.Replicas, i+1)
			}
		}
	}
}

func bucketBounds(s *bucketsSuite) {
	s.lacks(s.exchange("a", 1, -time.Hour), 0)
	s.lacks(s.exchange("a", 2, 10*time.Hour), 2*time.Hour)
	s.lacks(s.exchange("a", 3, -90*time.Minute), 30*time.Minute)
}

func bucketCanceled(s *bucketsSuite) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	n := middleware.BucketNews{Name: "b", Replica: "a", Number: 1, Capacity: time.Hour, Taken: time.Minute}
	if _, err := s.store.Exchange(ctx, n); !errors.Is(err, context.Canceled) {
		s.Errorf("the error is %v", err)
	}
	s.lacks(s.exchange("a", 2, 0), 0)
}

func bucketDown(s *bucketsSuite) {
	s.exchange("a", 1, 10*time.Minute)
	up := s.with.Down(s.T, s.world)
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Millisecond)
	n := middleware.BucketNews{Name: "b", Replica: "a", Number: 2, Capacity: time.Hour, Taken: 10 * time.Minute}
	if got, err := s.store.Exchange(ctx, n); err == nil {
		s.Errorf("a server that is down says %+v", got)
	}
	cancel()
	up()
	for { // said again, whether or not it came through before
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		got, err := s.store.Exchange(ctx, n)
		cancel()
		if err == nil {
			s.lacks(got, 20*time.Minute)
			return
		}
		if s.Context().Err() != nil {
			s.Fatal(err)
		}
	}
}

func bucketLost(s *bucketsSuite) {
	s.exchange("a", 1, 10*time.Minute)
	s.with.Lose(s.T, s.world)
	s.lacks(s.exchange("a", 2, 0), 0)
}

func bucketNames(s *bucketsSuite) {
	names := []string{"", "{b}", "b ", "}{", "b:replicas", "b:said:a", "\x00", "\xff", "模型", strings.Repeat("x", 10_000)}
	for i, name := range names {
		n := middleware.BucketNews{Name: name, Replica: name, Number: 1, Capacity: time.Hour, Taken: time.Duration(i+1) * time.Minute}
		got, err := s.store.Exchange(s.Context(), n)
		if err != nil || got.Replicas != 1 {
			s.Errorf("%q: %+v, %v", name, got, err)
		}
		s.lacks(got, n.Taken)
	}
}
