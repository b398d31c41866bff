package middleware

import (
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/modelchain/llm"
)

// oftenTaken are buckets of 600 tokens a minute, 100 at once, that were asked for so often that they no longer ask the limiter.
func oftenTaken(t *testing.T) (*buckets, time.Time) {
	t.Helper()
	b, now := newBuckets(Limits{Output: 600}, 0, 0), time.Now()
	c := costOf(1, 0, 1)
	for range 2 {
		if !b.take(now, &c) {
			t.Fatal("refused")
		}
	}
	if !b.isSure {
		t.Fatal("it still asks")
	}
	return &b, now
}

func takenAtOnce(b *buckets, now time.Time) (n int) {
	for c := costOf(1, 0, 1); b.take(now, &c); n++ {
	}
	return n
}

func TestWhatComesBackNeverMakesMoreThanBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			after time.Duration
			want  int
		}{"at once": {0, 100}, "after a pause": {time.Minute, 100}} {
			b, now := oftenTaken(t)
			reserved, used := costOf(0, 0, 50), limitCost{}
			b.settle(&reserved, &used)
			b.settle(&reserved, &used)
			if got := takenAtOnce(b, now.Add(test.after)); got != test.want {
				t.Errorf("%s: %d, want %d", name, got, test.want)
			}
		}
	})
}

func TestWhatIsRefusedTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, now := newBuckets(Limits{Requests: 600, Output: 600}, 10*time.Second, 0), time.Now()
		large, small := costOf(1, 0, 100), costOf(1, 0, 0)
		if !b.take(now, &large) {
			t.Fatal("refused")
		}
		for range 50 {
			if b.take(now, &large) {
				t.Fatal("not refused")
			}
		}
		n := 0
		for ; b.take(now, &small); n++ {
		}
		if n != 99 {
			t.Errorf("%d requests left, want 99", n)
		}
	})
}

func TestASmallCallDoesNotOvertakeALargeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitLine{buckets: newBuckets(Limits{Output: 600}, 0, 0)}
		now, most, some := time.Now(), costOf(1, 0, 90), costOf(1, 0, 5)
		if !l.enter(now, &most, new(bool)) {
			t.Fatal("refused")
		}
		large := &limitWaiter{cost: most, wake: make(chan struct{}, 1)}
		l.push(large, 0)
		if l.enter(now, &some, new(bool)) {
			t.Error("it went, though another waits and there were 10")
		}
		if l.leave(large); !l.enter(now, &some, new(bool)) {
			t.Error("it did not go, though nobody waits")
		}
	})
}

func TestAWaitThatWasAskedForHoldsCallsThatOnlyFlightLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newLimitPool("p", &LimiterConfig{Limits: Limits{InFlight: 2}}, nil)
		p.follow(time.Now(), &llm.Error{Class: llm.RateLimited, RetryAfter: 3 * time.Second})
		now, c := time.Now(), costOf(1, 0, 0)
		if p.all.enter(now, &c, new(bool)) {
			t.Error("it went")
		}
		if wait, _ := p.all.wait(now, &limitCost{}, &c); wait != 3*time.Second || !p.all.enter(now.Add(wait), &c, new(bool)) {
			t.Errorf("a wait of %v", wait)
		}
	})
}

// What a wait is said to be is what it takes, also while the share grows.
func TestAWaitIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, perMinute := range []int{1, 7, 59, 60, 601, 123_457} {
			for _, share := range []float64{1, 0.5, 1.0 / 32} {
				b, now := newBuckets(Limits{Tokens: perMinute}, time.Second, 0), time.Now()
				b.grow(now, share, cutStep, cutEvery)
				c := costOf(0, 0, b.burst[perToken])
				b.charge(perToken, now, 2*c[perToken])
				wait, _ := b.wait(now, &limitCost{}, &c)
				early, late := b, b
				early.of[perToken], late.of[perToken] = copyOf(&b, now), copyOf(&b, now)
				if early.take(now.Add(wait-wait/1000-time.Microsecond), &c) || !late.take(now.Add(wait), &c) {
					t.Errorf("%d a minute at %v: %v is not the wait", perMinute, share, wait)
				}
			}
		}
	})
}

// copyOf is a limiter in the state of that of tokens.
func copyOf(b *buckets, now time.Time) *rate.Limiter {
	l := rate.NewLimiter(b.of[perToken].Limit(), b.burst[perToken])
	for range 2 { // in debt as b is
		l.ReserveN(now, b.burst[perToken])
	}
	return l
}
