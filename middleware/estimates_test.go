package middleware_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func near(got, want time.Duration) bool { return got >= want && got <= want+want/8+time.Millisecond }

func TestEstimatesAreAQuantileOfWhatWasLearned(t *testing.T) {
	for _, test := range []struct {
		quantile float64
		want     time.Duration
	}{{0, 90 * time.Second / 10}, {0.5, 5 * time.Second}, {0.99, 9900 * time.Millisecond}} {
		e := middleware.NewEstimates(middleware.EstimatesConfig{Quantile: test.quantile})
		for i := range 100 {
			e.Learn("p", time.Duration((i*37)%100+1)*100*time.Millisecond) // 0.1 s to 10 s, in no order
		}
		if got := e.Of("p"); !near(got, test.want) {
			t.Errorf("quantile %v: %v, want %v to an eighth more", test.quantile, got, test.want)
		}
	}
}

func TestEstimatesHoldForEveryScale(t *testing.T) {
	for _, d := range []time.Duration{
		0, time.Microsecond, time.Millisecond, 7 * time.Millisecond, 8 * time.Millisecond, 15 * time.Millisecond, 16 * time.Millisecond,
		17 * time.Millisecond, 100 * time.Millisecond, time.Second, 29 * time.Second, 10 * time.Minute, 59 * time.Minute,
	} {
		e := middleware.NewEstimates(middleware.EstimatesConfig{})
		for range 10 {
			e.Learn("p", d)
		}
		if got := e.Of("p"); !near(got, d) {
			t.Errorf("%v is estimated as %v", d, got)
		}
	}
	e := middleware.NewEstimates(middleware.EstimatesConfig{})
	for _, d := range []time.Duration{-time.Second, 100 * time.Hour, 1<<63 - 1, -1 << 63, 0} {
		e.Learn("p", d)
	}
	if got := e.Of("p"); got < time.Hour {
		t.Errorf("beyond the scale: %v", got)
	}
	for range 10 {
		e.Learn("q", -time.Hour) // a clock that was set back
	}
	if got := e.Of("q"); got > time.Millisecond {
		t.Errorf("below the scale: %v", got)
	}
}

func TestEstimatesAreUnknownUntilThereIsEnough(t *testing.T) {
	e := middleware.NewEstimates(middleware.EstimatesConfig{})
	for i := range 5 {
		if got := e.Of("p"); got != 0 {
			t.Errorf("%v after %d answers", got, i)
		}
		e.Learn("p", time.Second)
	}
	if e.Of("p") == 0 || e.Of("q") != 0 {
		t.Errorf("%v and %v after five answers of p", e.Of("p"), e.Of("q"))
	}
}

func TestEstimatesThatAreFixedAreNotLearned(t *testing.T) {
	fixed := map[string]time.Duration{"p": 3 * time.Second}
	e := middleware.NewEstimates(middleware.EstimatesConfig{Fixed: fixed})
	fixed["p"] = time.Hour // no longer the caller's
	for range 10 {
		e.Learn("p", time.Millisecond)
	}
	if got := e.Of("p"); got != 3*time.Second {
		t.Errorf("%v", got)
	}
}

func TestEstimatesFollowWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := middleware.NewEstimates(middleware.EstimatesConfig{Quantile: 0.5, Memory: time.Minute})
		learn := func(n int, d time.Duration) {
			for range n {
				e.Learn("p", d)
			}
		}
		learn(2000, time.Second)
		learn(2000, 4*time.Second) // as many as before count more, for half of what came earlier is forgotten
		if got := e.Of("p"); !near(got, 4*time.Second) {
			t.Errorf("%v", got)
		}
		// With few answers, time does it.
		e = middleware.NewEstimates(middleware.EstimatesConfig{Quantile: 0.5, Memory: time.Minute})
		learn(40, time.Second)
		for range 4 {
			llmtest.Advance(50 * time.Second)
			learn(5, 4*time.Second)
		}
		if got := e.Of("p"); !near(got, 4*time.Second) {
			t.Errorf("40 old ones against 20 new ones: %v", got)
		}
	})
}

// A slow answer is often the only one of its length.
func TestEstimatesForgetHalfOfWhatIsSingleToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := middleware.NewEstimates(middleware.EstimatesConfig{Quantile: 0.5, Memory: time.Minute})
		for i := range 20 {
			e.Learn("p", time.Second<<i/1000)
		}
		for range 2 {
			llmtest.Advance(50 * time.Second)
			e.Learn("p", time.Second)
		}
		if got := e.Of("p"); got < 500*time.Millisecond || got > 2*time.Second {
			t.Errorf("%v of lengths from 1 ms to 9 min", got)
		}
	})
}

func TestEstimatesAreForgottenWhenNothingNewComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := middleware.NewEstimates(middleware.EstimatesConfig{Memory: time.Minute})
		for range 100 {
			e.Learn("p", 20*time.Second)
		}
		llmtest.Advance(time.Minute - 1)
		if got := e.Of("p"); !near(got, 20*time.Second) {
			t.Errorf("too early: %v", got)
		}
		llmtest.Advance(1)
		if got := e.Of("p"); got != 0 {
			t.Errorf("%v after a Memory of silence", got)
		}
		e.Learn("p", time.Second)
		if got := e.Of("p"); got != 0 {
			t.Errorf("one new answer revives the old ones: %v", got)
		}
	})
}

func TestEstimatesAreSafeForConcurrentUse(t *testing.T) {
	e := middleware.NewEstimates(middleware.EstimatesConfig{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := string(rune('a' + i%4))
			for range 3000 {
				e.Learn(name, time.Second)
				if got := e.Of(name); got != 0 && !near(got, time.Second) {
					t.Errorf("%v", got)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, name := range []string{"a", "b", "c", "d"} {
		if got := e.Of(name); !near(got, time.Second) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestEstimatesPanicOnNonsense(t *testing.T) {
	for want, cfg := range map[string]middleware.EstimatesConfig{
		"Quantile is 1":        {Quantile: 1},
		"Quantile is -0.1":     {Quantile: -0.1},
		"Memory is -1s":        {Memory: -time.Second},
		`Fixed["p"] is -1s`:    {Fixed: map[string]time.Duration{"p": -time.Second}},
		"Quantile is NaN; use": {Quantile: nan()},
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.HasPrefix(got, "llm/middleware: Estimates: ") || !strings.Contains(got, want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			middleware.NewEstimates(cfg)
		}()
	}
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}

func BenchmarkEstimates(b *testing.B) {
	e := middleware.NewEstimates(middleware.EstimatesConfig{})
	b.Run("learn", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e.Learn("p", time.Second)
		}
	})
	b.Run("of", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e.Of("p")
		}
	})
}
