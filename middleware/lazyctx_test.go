package middleware

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
)

var errLazyTest = &llm.Error{Class: llm.Stalled, Message: "our limit"}

func newLazy(parent context.Context, in time.Duration) *lazyCtx {
	c := &lazyCtx{parent: parent, cause: errLazyTest}
	if in > 0 {
		c.end = time.Now().Add(in)
	}
	return c
}

func TestLazyContextEndsInItsTimeWithItsCause(t *testing.T) {
	for name, look := range map[string]func(context.Context) error{
		"its Err, by the clock": func(c context.Context) error {
			<-time.NewTimer(time.Second).C
			return c.Err()
		},
		"its Done": func(c context.Context) error {
			<-c.Done()
			return c.Err()
		},
		"a child": func(c context.Context) error {
			child, cancel := context.WithCancel(c)
			defer cancel()
			<-child.Done()
			if context.Cause(child) != error(errLazyTest) { //nolint:errorlint // the very same error
				t.Errorf("a child's cause is %v", context.Cause(child))
			}
			return c.Err()
		},
		"a child with a longer deadline and a value": func(c context.Context) error {
			child, cancel := context.WithTimeout(context.WithValue(c, errLazyTest, 1), time.Hour)
			defer cancel()
			<-child.Done()
			return context.Cause(child)
		},
		"a function after it": func(c context.Context) error {
			done := make(chan struct{})
			context.AfterFunc(c, func() { close(done) })
			<-done
			return c.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, c := time.Now(), newLazy(t.Context(), time.Second)
				defer c.stop()
				if c.Err() != nil || context.Cause(c) != nil {
					t.Error("ended before its time")
				}
				if end, ok := c.Deadline(); !ok || end.Sub(start) != time.Second {
					t.Errorf("deadline %v", end)
				}
				err := look(c)
				if time.Since(start) != time.Second || err == nil {
					t.Errorf("ended after %v with %v", time.Since(start), err)
				}
				if context.Cause(c) != error(errLazyTest) || !errors.Is(c.Err(), context.DeadlineExceeded) { //nolint:errorlint // the same
					t.Errorf("cause %v, error %v", context.Cause(c), c.Err())
				}
			})
		})
	}
}

func TestLazyContextEndsWithItsParentAndThatCause(t *testing.T) {
	left := errors.New("the user closed the window")
	for _, waited := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			parent, cancel := context.WithCancelCause(t.Context())
			c := newLazy(parent, time.Minute)
			defer c.stop()
			var child context.Context = c
			if waited {
				var stop context.CancelFunc
				child, stop = context.WithCancel(c)
				defer stop()
			}
			cancel(left)
			for _, ctx := range []context.Context{c, child} {
				if !errors.Is(context.Cause(ctx), left) || !errors.Is(ctx.Err(), context.Canceled) {
					t.Errorf("waited %t: cause %v, error %v", waited, context.Cause(ctx), ctx.Err())
				}
			}
			select {
			case <-c.Done():
			default:
				t.Errorf("waited %t: not done", waited)
			}
		})
	}
}

func TestLazyContextOfTwoPassedDeadlinesNamesTheEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		c := newLazy(parent, time.Second)
		defer c.stop()
		<-parent.Done()
		synctest.Wait()
		if context.Cause(c) != error(errLazyTest) { //nolint:errorlint // the very same error
			t.Errorf("cause %v, want the one whose time was over first", context.Cause(c))
		}
	})
}

func TestLazyContextKnowsBeforeItsTimeWhetherItWasCanceled(t *testing.T) {
	parent, leave := context.WithCancel(t.Context())
	c := newLazy(parent, time.Hour)
	defer c.stop()
	if known, err := c.ErrBefore(time.Now()); !known || err != nil {
		t.Errorf("in time: known %t, %v", known, err)
	}
	if known, _ := c.ErrBefore(time.Now().Add(2 * time.Hour)); known {
		t.Error("it claims to know beyond its time")
	}
	leave()
	if known, err := c.ErrBefore(time.Now()); !known || !errors.Is(err, context.Canceled) {
		t.Errorf("after the caller left: known %t, %v", known, err)
	}
	c.stop()
	if known, _ := c.ErrBefore(time.Now()); known || c.Err() == nil {
		t.Errorf("stopped: known %t, %v", known, c.Err())
	}
}

func TestLazyContextKeepsItsFirstEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		c := newLazy(parent, time.Second)
		defer c.stop()
		cancel()
		first := context.Cause(c)
		<-time.NewTimer(2 * time.Second).C
		if again := context.Cause(c); !errors.Is(again, first) || !errors.Is(first, context.Canceled) {
			t.Errorf("cause %v, later %v", first, again)
		}
	})
}

func TestLazyContextIsOverWhenStopped(t *testing.T) {
	for _, waited := range []bool{false, true} {
		c := newLazy(t.Context(), time.Minute)
		var child context.Context = c
		if waited {
			var cancel context.CancelFunc
			child, cancel = context.WithCancel(c)
			defer cancel()
		}
		c.stop()
		<-c.Done()
		<-child.Done()
		if !errors.Is(c.Err(), context.Canceled) || context.Cause(c) == error(errLazyTest) { //nolint:errorlint // the very same error
			t.Errorf("waited %t: %v, %v", waited, c.Err(), context.Cause(c))
		}
	}
}

func TestLazyContextsInEachOtherEndTogether(t *testing.T) {
	left := errors.New("left")
	for _, loose := range []bool{false, true} {
		for _, waited := range []bool{false, true} {
			parent, cancel := context.WithCancelCause(t.Context())
			outer := newLazy(parent, time.Hour)
			if loose {
				outer.loosen()
			}
			inner := newLazy(outer, time.Minute)
			if waited {
				inner.Done()
			}
			if !outer.unmade() && !loose {
				t.Error("the outer one was made for nothing")
			}
			if loose {
				outer.cancel(left)
			} else {
				cancel(left)
			}
			<-inner.Done()
			if !errors.Is(context.Cause(inner), left) || inner.Err() == nil {
				t.Errorf("loose %t, waited %t: %v", loose, waited, context.Cause(inner))
			}
			inner.stop()
			outer.stop()
			cancel(nil)
		}
	}
}

func TestLazyContextCanBeCanceledBeforeItsTime(t *testing.T) {
	early := errors.New("early")
	for _, in := range []time.Duration{0, time.Minute} {
		for _, waited := range []bool{false, true} {
			c := newLazy(t.Context(), in)
			c.loosen()
			if waited {
				c.Done()
			}
			c.cancel(early)
			<-c.Done()
			if context.Cause(c) != early || c.Err() == nil { //nolint:errorlint // the very same error
				t.Errorf("end in %v, waited %t: cause %v", in, waited, context.Cause(c))
			}
			c.stop()
		}
	}
}

type lazyKey struct{}

func TestLazyContextHasItsParentsValues(t *testing.T) {
	c := newLazy(context.WithValue(t.Context(), lazyKey{}, "v"), time.Minute)
	defer c.stop()
	for range 2 {
		if c.Value(lazyKey{}) != "v" || c.Value("other") != nil {
			t.Error("the parent's values are lost")
		}
		c.Done()
	}
}

func TestLazyContextIsOneAllocation(t *testing.T) {
	parent := t.Context()
	n := testing.AllocsPerRun(100, func() {
		c := newLazy(parent, time.Minute)
		if c.Err() != nil || c.Value(lazyKey{}) != nil {
			t.Error("ended")
		}
		c.stop()
	})
	if n != 1 {
		t.Errorf("%v allocations", n)
	}
}

// The bubble itself fails if a goroutine is left waiting.
func TestLazyContextLeavesNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int32
		for range 10 {
			c := newLazy(t.Context(), time.Minute)
			context.AfterFunc(c, func() { ran.Add(1) })
			go func() { <-c.Done() }()
			c.stop()
		}
		synctest.Wait()
		if ran.Load() != 10 {
			t.Errorf("%d of 10 were told", ran.Load())
		}
	})
}

func TestLazyContextIsSafeForConcurrentUse(t *testing.T) {
	for range 50 {
		parent, cancel := context.WithCancel(t.Context())
		c := newLazy(parent, time.Millisecond)
		c.loosen()
		var wg sync.WaitGroup
		for _, f := range []func(){
			func() { <-c.Done() }, func() { _ = c.Err() }, func() { _ = context.Cause(c) }, cancel, c.stop,
			func() { c.cancel(errLazyTest) }, func() { c.Value(lazyKey{}) },
			func() {
				child, stop := context.WithCancel(c)
				defer stop()
				<-child.Done()
			},
		} {
			wg.Go(f)
		}
		wg.Wait()
		if c.Err() == nil || context.Cause(c) == nil {
			t.Error("not ended")
		}
	}
}

func BenchmarkLazyContext(b *testing.B) {
	ctx := b.Context()
	b.Run("standard", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, cancel := context.WithDeadlineCause(ctx, time.Now().Add(time.Minute), errLazyTest)
			cancel()
		}
	})
	b.Run("lazy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c := newLazy(ctx, time.Minute)
			c.stop()
		}
	})
	b.Run("lazy and waited for", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c := newLazy(ctx, time.Minute)
			c.Done()
			c.stop()
		}
	})
}
