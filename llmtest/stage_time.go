package llmtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
)

// A way is one in which the inside of a stage takes its time.
type way struct {
	name string
	do   llm.CallerFunc
}

// ways are those that a caller may leave in the middle of.
func ways() []way {
	asked := &llm.Error{Class: llm.RateLimited, Owner: llm.OwnerRate, RetryAfter: 20 * time.Second}
	return []way{
		{"silence", hanging},
		{"silence in a stream", func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			if err := handOut(req, 3); err != nil {
				return nil, err
			}
			return hanging(ctx, req)
		}},
		{"a wait that the provider asks for", func(context.Context, *llm.Request) (*llm.Response, error) { return nil, asked }},
		{"failures", failing(llm.Unavailable)},
	}
}

func hanging(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// left calls in each way, with a caller that leaves after d. What check is told of ended because of that.
func (s *stageSuite) left(d time.Duration, check func(how string, o *ended, all *calls)) {
	for _, w := range ways() {
		for _, rec := range []*Recorder{nil, {}} {
			ctx, cancel := context.WithCancel(s.Context())
			if d == 0 {
				cancel()
			} else {
				time.AfterFunc(d, cancel)
			}
			c, all := s.around(w.do)
			o := s.call(ctx, c, stageRequest(), rec)
			cancel()
			check(w.name, o, all)
		}
	}
}

func cancelsAtOnce(s *stageSuite) {
	for _, d := range []time.Duration{0, 300 * time.Millisecond, 3 * time.Second} {
		s.left(d, func(how string, o *ended, _ *calls) {
			if o.took > d {
				s.broken("%s: the caller left after %v, and the call returned after %v", how, d, o.took)
			}
		})
	}
}

func canceledError(s *stageSuite) {
	const d = 300 * time.Millisecond
	s.left(d, func(how string, o *ended, _ *calls) {
		if o.took == d && !errors.Is(o.err, context.Canceled) {
			s.broken("%s: the caller left, and the error is %v", how, o.err)
		}
	})
}

func nothingAfterEnd(s *stageSuite) {
	check := func(how string, o *ended, all *calls) {
		for i, call := range all.seen() {
			if call.ended && i > 0 {
				s.broken("%s: call %d began after the end (%v)", how, i+1, o)
			}
		}
	}
	s.left(300*time.Millisecond, check)
	s.left(3*time.Second, check)
	// The caller leaves while a call fails.
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	c, all := s.around(func(context.Context, *llm.Request) (*llm.Response, error) {
		cancel()
		return nil, llm.Unavailable
	})
	check("failure", s.call(ctx, c, stageRequest(), nil), all)
}

func deadlineKept(s *stageSuite) {
	const d = 2 * time.Second
	for _, w := range ways() {
		ctx, cancel := context.WithTimeout(s.Context(), d)
		end, _ := ctx.Deadline()
		c, all := s.around(w.do)
		o := s.call(ctx, c, stageRequest(), &Recorder{})
		cancel()
		if o.took > d {
			s.broken("%s: %v were left, and the call took %v", w.name, d, o.took)
		}
		for i, call := range all.seen() {
			if got, ok := call.ctx.Deadline(); !ok || got.After(end) {
				s.broken("%s: call %d has a deadline %v after the caller's (has one: %v)", w.name, i+1, got.Sub(end), ok)
			}
		}
	}
}

// ownLimit looks at attempts that end although their caller is there and waits.
func ownLimit(s *stageSuite) {
	for _, rec := range []*Recorder{nil, {}} {
		var wrong atomic.Pointer[string]
		c, _ := s.around(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			if err := handOut(req, 1); err != nil {
				return nil, err
			}
			if err := wait(ctx, 24*time.Hour); err == nil {
				return nil, llm.Unavailable
			}
			cause := context.Cause(ctx)
			if llm.LimitOf(ctx) == nil {
				wrong.Store(new(fmt.Sprintf("%v (%T)", cause, cause)))
			}
			return nil, cause
		})
		o := s.call(s.Context(), c, stageRequest(), rec)
		if w := wrong.Load(); w != nil {
			s.broken("the caller was there, but the context of an attempt ended by %s, which is told as the caller's affair: %v; "+
				"end it by context.WithTimeoutCause or WithCancelCause, with llm.Limit", *w, o)
		}
	}
}

// known is what the context of a caller carries, such as its trace.
type known struct{}

func contextDerived(s *stageSuite) {
	for _, do := range []llm.CallerFunc{answering, failing(llm.Unavailable)} {
		for _, rec := range []*Recorder{nil, {}} {
			c, all := s.around(do)
			s.call(context.WithValue(s.Context(), known{}, "yes"), c, stageRequest(), rec)
			for i, call := range all.seen() {
				if call.ctx.Value(known{}) != "yes" {
					s.broken("call %d has a context without the caller's values", i+1)
				}
			}
		}
	}
}

func panicPasses(s *stageSuite) {
	for name, ends := range map[string]func(context.Context, *llm.Request){
		"a panic":        func(context.Context, *llm.Request) { panic(s.scripted()) },
		"runtime.Goexit": func(context.Context, *llm.Request) { runtime.Goexit() },
		"a panic in a stream": func(_ context.Context, req *llm.Request) {
			_ = handOut(req, 2) // the panic is the subject
			panic(s.scripted())
		},
	} {
		for _, rec := range []*Recorder{nil, {}} {
			c, all := s.around(answering)
			all.before = ends
			o := s.call(s.Context(), c, stageRequest(), rec)
			if o.panicked == nil && !o.exited && o.err == nil {
				s.broken("%s became %v", name, o)
			}
			all.before = nil
			Advance(time.Hour) // whatever rests has rested
			s.notLocked(name, c)
		}
	}
}

// notLocked calls c, and looks whether that waits for a lock.
func (s *stageSuite) notLocked(after string, c llm.Caller) {
	o, done := s.start(s.Context(), c, stageRequest(), nil)
	switch await(done, time.Hour) {
	case awaitedLock:
		s.broken("after %s: the next call waits for a lock", after)
		if s.unlock == nil {
			panic("llm/llmtest: TestStage: " + s.sentence + ", but after " + after + " the next call waits for a lock")
		}
		s.unlock()
		<-done
	case awaitedLong:
		s.broken("after %s: the next call waits for ever", after)
	default:
		if o.panicked != nil || o.resp == nil && (o.err == nil || !s.may(MayRefuse)) {
			s.broken("after %s: %v", after, o)
		}
	}
}

// What await saw.
const (
	awaitedDone = iota
	awaitedLock // somebody waits for a lock, and nobody goes on meanwhile
	awaitedLong // most is over
)

// await waits for done for up to most. Nobody knows of a lock in a bubble: time stands still where somebody waits for one. So it
// looks at what goroutines wait for before it lets time pass.
func await(done <-chan struct{}, most time.Duration) int {
	end, stuck := time.Now().Add(most), 0
	for step := time.Millisecond; ; {
		runtime.Gosched()
		select {
		case <-done:
			return awaitedDone
		default:
		}
		heads := strings.Join(goroutines()[1:], "\n")
		switch {
		case strings.Contains(heads, "[runn"): // runnable, running
			stuck = 0
		case strings.Contains(heads, "[sync.Mutex") || strings.Contains(heads, "[sync.RWMutex"):
			if stuck++; stuck == 20 { // it may be somebody else's for a moment
				return awaitedLock
			}
		case !time.Now().Before(end):
			return awaitedLong
		default: // it waits for something that time may bring
			stuck = 0
			t := time.NewTimer(step)
			select {
			case <-done:
			case <-t.C:
			}
			t.Stop()
			step = min(2*step, time.Minute)
		}
	}
}

func noGoroutines(s *stageSuite) {
	count := func() int {
		synctest.Wait()
		return len(goroutines())
	}
	for _, rec := range []*Recorder{nil, {}} {
		for _, w := range append(ways(), way{"an answer", answering}, way{"a broken stream", breaking(llm.Interrupted)},
			way{"a Caller that ignores its context", deaf},
			way{"an answer beside one that ignores its context", inTurn(after(time.Second, answering), deaf)}) {
			if rec != nil {
				rec = &Recorder{}
			}
			c, all := s.around(w.do)
			before := count()
			ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
			s.call(ctx, c, stageRequest(), rec)
			if after := count(); after > before {
				s.broken("%s: %d in its bubble before, and %d after %s", w.name, before, after, times(all.count()))
			}
			cancel()
		}
	}
	if s.found.loose {
		return
	}
	c, all := s.around(answering)
	all.before = func(context.Context, *llm.Request) { panic(s.scripted()) }
	before := count()
	s.call(s.Context(), c, stageRequest(), nil)
	if after := count(); after > before {
		s.broken("a panic: %d in its bubble before, and %d after it", before, after)
	}
}

func concurrentStage(s *stageSuite) {
	hurry := make(chan struct{}) // closed where no time can pass
	c, _ := s.around(named(hurry))
	alone, _ := s.around(named(nil)) // what a call is answered beside no other
	want := func(name, text string) string {
		if !s.may(MayChangeAnswer) {
			return text
		}
		return s.call(s.Context(), alone, namedRequest(name), nil).resp.Text()
	}
	shared := namedRequest("shared") // by all that do not stream
	wantShared := want("shared", "shared0 shared1 shared2 ")
	texts := make([]string, 16)
	for i := range texts {
		texts[i] = want(fmt.Sprintf("n%d.", i), fmt.Sprintf("n%[1]d.0 n%[1]d.1 n%[1]d.2 ", i))
	}
	var wg sync.WaitGroup
	for i, text := range texts {
		wg.Go(func() {
			o, err := c.Call(s.Context(), shared)
			if err != nil || o.Text() != wantShared {
				s.broken("a call beside others: %s, %v", answerOf(o), err)
			}
		})
		wg.Go(func() {
			rec := &Recorder{}
			_, err := rec.Call(s.Context(), c, namedRequest(fmt.Sprintf("n%d.", i)))
			if err != nil || rec.Text() != text {
				s.broken("a stream beside others: want %q, got %q, %v", text, rec.Text(), err)
			}
			for _, f := range rec.Faults() {
				s.broken("a stream beside others: %s", f)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	switch await(done, 24*time.Hour) {
	case awaitedLock:
		s.broken("a call waits for a lock that another one holds while what the stage wraps is under way, and a lock cannot be left " +
			"when the caller leaves: unlock before you call on, or wait on a channel beside ctx.Done()")
	case awaitedLong:
		s.broken("of %d calls at once some have not returned after a day", 2*len(texts))
	}
	close(hurry)
	<-done
}

// named answers with what the request is called, once that takes its time.
func named(hurry <-chan struct{}) llm.CallerFunc {
	return func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		name := req.Labels["name"]
		for i := range 3 {
			t := time.NewTimer(time.Millisecond) // so that all are in the middle at once
			select {
			case <-t.C:
			case <-hurry:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			if req.Sink != nil {
				if err := req.Sink(llm.Delta{Text: fmt.Sprintf("%s%d ", name, i)}); err != nil {
					return nil, err
				}
			}
		}
		return &llm.Response{Parts: []llm.Part{llm.Text(fmt.Sprintf("%[1]s0 %[1]s1 %[1]s2 ", name))}, Stop: llm.StopEnd}, nil
	}
}

func namedRequest(name string) *llm.Request {
	req := stageRequest()
	req.Labels = map[string]string{"name": name}
	return req
}

func sharesNothing(s *stageSuite) {
	if s.may(MayShare) {
		return
	}
	all, other := &calls{}, &calls{}
	stage := s.stage(all.leaf("second", answering))
	bad := s.wrap(stage, all.leaf("bad", failing(llm.Unavailable)))
	good := s.wrap(stage, other.leaf("good", answering))
	for range manyFailures {
		s.call(s.Context(), bad, stageRequest(), nil)
	}
	if o := s.call(s.Context(), good, stageRequest(), nil); o.err != nil || other.count() != 1 {
		s.broken("one Caller failed %d times, and of the other, after %s, came %v", manyFailures, times(other.count()), o)
	}
}
