package middleware

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/modelchain/llm"
)

// What there surely is is lent once calls come close upon each other: then neither the call nor its end needs the mutex.
func TestWhatIsLentNeedsNoMutexAndIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := limiterBench(LimiterConfig{Limits: plenty}).(*limiter), benchRequest("")
		for range 3 {
			if _, err := s.Call(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		all := &s.pool.all
		before := all.used
		p, fast := s.take(t.Context(), r)
		if !fast || p.part == nil || all.lent.until.Load() == 0 || all.used != before {
			t.Fatalf("a call that came close upon others took %+v, with %d counted under the mutex, %d before", p, all.used, before)
		}
		state := func() LimiterState { return s.l.Snapshot()[0] }
		if got := state(); got.InFlight != 1 || got.Left.InFlight != plenty.InFlight-1 {
			t.Errorf("while it is under way: %v", got)
		}
		// The snapshot took back what was lent, so its end is seen under the mutex.
		if done, _ := all.lent.giveBack(p.part, &p.cost, &limitCost{}); done {
			t.Error("it was given back to what is lent no more")
		}
		s.release(&p, limitCost{})
		if got := state(); got.InFlight != 0 || got.Left.InFlight != plenty.InFlight {
			t.Errorf("in the end: %v", got)
		}
	})
}

// None may be forgotten by the one that ends, and none too many may go: where a few slots are never lent, and where calls wait
// for what others give back to those that are.
func TestSlotsOfManyGoroutinesAreCountedAndGivenBack(t *testing.T) {
	for _, c := range []struct{ slots, callers, each int }{{3, 16, 3000}, {64, 96, 300}} {
		var now atomic.Int64
		limits := Limits{Requests: 1e9, Output: 1e12, InFlight: c.slots}
		l := NewLimiter(LimiterConfig{Limits: limits})
		chat := l.Stage("pool").Wrap(llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
			defer now.Add(-1)
			if n := int(now.Add(1)); n > c.slots {
				t.Errorf("%d at once of %d", n, c.slots)
			}
			runtime.Gosched()
			return &llm.Response{Usage: llm.Usage{Input: 1, Output: 1}}, nil
		}))
		var all sync.WaitGroup
		for range c.callers {
			all.Go(func() {
				for range c.each {
					if _, err := chat.Call(t.Context(), benchRequest("")); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if s := l.Snapshot()[0]; s.InFlight != 0 || s.Waiting != 0 || s.Left.InFlight != c.slots {
			t.Errorf("in the end there is %v", s)
		}
	}
}
