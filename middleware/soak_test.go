package middleware_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

var (
	soakSeed  = flag.Uint64("seed", 0, "run the soak of this seed only")
	soakCalls = flag.Int("calls", leastCalls, "how many calls the soak makes")
)

// callsOfSoak is how many calls one onion has, leastCalls how many it takes until every kind of outcome has come up.
const (
	callsOfSoak = 400
	leastCalls  = 12_000
)

// wrongFlags says what of the flags that are set cannot be meant. "": nothing.
func wrongFlags(set map[string]bool, calls int) string {
	switch {
	case set["seed"] && set["calls"]:
		return fmt.Sprintf("-seed runs one onion of %d calls, so that -calls %d says nothing; leave one of them out", callsOfSoak, calls)
	case calls < leastCalls:
		return fmt.Sprintf("-calls is %d; make at least %d, for with fewer some kinds of outcome never come up (make soak SOAK=%d), or see "+
			"one onion by -seed", calls, leastCalls, leastCalls)
	}
	return ""
}

// again is the command that shows the soak of a seed again.
func again(seed uint64) string {
	return fmt.Sprintf("go test ./middleware -run '^TestSoak$' -count=1 -v -seed %d", seed)
}

func TestFlagsOfTheSoakThatCannotBeMeantAreRefused(t *testing.T) {
	for _, c := range []struct {
		set   map[string]bool
		calls int
		says  string
	}{
		{map[string]bool{"calls": true}, 0, "make at least 12000"},
		{map[string]bool{"calls": true}, -5, "-calls is -5; make at least 12000"},
		{map[string]bool{"calls": true}, leastCalls - 1, "(make soak SOAK=12000)"},
		{map[string]bool{"calls": true, "seed": true}, 1_000_000, "-seed runs one onion of 400 calls, so that -calls 1000000 says nothing"},
		{map[string]bool{"calls": true}, leastCalls, ""},
		{map[string]bool{"seed": true}, leastCalls, ""},
	} {
		if got := wrongFlags(c.set, c.calls); !strings.Contains(got, c.says) || (got == "") != (c.says == "") {
			t.Errorf("%v, %d: %q, and %q was expected", c.set, c.calls, got, c.says)
		}
	}
}

// Calls at random through onions at random, many at a time, with shared cooldowns and budgets, outages, and failures in a mix
// of real ones. Whatever happens, of each call holds what is said of the random scripts, and: it stays within what it may
// spend, what nothing mends is not repeated, what rests is left alone but for one probe, waits are never shorter than asked,
// what the limiter says of its bounds and waits holds and what it refuses rests nobody, the account, the journal and the budget
// agree with what the models saw, and each failure leads to what Decide says.
//
// make soak makes a million of them. To see one soak again, apart from the jitter of waits and from who is first of those
// that act in the same instant: go test ./middleware -run '^TestSoak$' -count=1 -v -seed 1234
func TestSoak(t *testing.T) {
	set := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if wrong := wrongFlags(set, *soakCalls); wrong != "" {
		t.Fatal(wrong)
	}
	if *soakSeed != 0 {
		runSoak(t, *soakSeed, outcomes{})
		return
	}
	var next atomic.Uint64
	all, mu := outcomes{}, sync.Mutex{}
	most := uint64((*soakCalls + callsOfSoak - 1) / callsOfSoak)
	t.Run("soaks", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1); seed <= most && !t.Failed(); seed = next.Add(1) {
					seen := outcomes{}
					runSoak(t, seed, seen)
					mu.Lock()
					for kind, n := range seen {
						all[kind] += n
					}
					mu.Unlock()
				}
			})
		}
	})
	t.Log(all)
	if t.Failed() {
		return
	}
	for _, kind := range []string{
		"answered", "answered by another", "continued", "interrupted", "canceled", "exhausted", "the sink failed", "attempts used up",
		"a probe", "a stand-in", "delivered", "failed: queued", "failed: cooling", "failed: invalid", "failed: quota", "skipped: cooling",
		"skipped: exhausted", "refused by the limiter", "waited for its turn",
	} {
		if all[kind] == 0 {
			t.Errorf("%q never came up: %v", kind, all)
		}
	}
}

// runSoak runs the soak of one seed in a bubble of its own, which finds a goroutine that is left behind.
func runSoak(t *testing.T, seed uint64, seen outcomes) {
	defer func() {
		if v := recover(); v != nil {
			t.Fatalf("a panic, to be seen again by\n%s\n%v\n%s", again(seed), v, debug.Stack())
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w := newSoak(seed)
		w.run(t.Context())
		synctest.Wait()
		w.over()
		for kind, n := range w.seen {
			seen[kind] += n
		}
		if len(w.notes) > 0 {
			t.Errorf("%d wrong, to be seen again by\n%s\nThe first: %s\n%s", len(w.notes), again(seed), w.notes[0],
				strings.Join(w.about, "\n"))
		}
	})
}

// run makes the calls, as they come, and what they left for later.
func (w *soak) run(ctx context.Context) {
	room := make(chan struct{}, w.most)
	for n := range callsOfSoak {
		<-time.NewTimer(time.Duration(w.rnd.ExpFloat64() * float64(w.every))).C
		room <- struct{}{}
		w.calls.Go(func() {
			w.newCall(n).run(ctx)
			<-room
		})
	}
	w.calls.Wait()
}

// newCall is the nth call.
func (w *soak) newCall(n int) *soakCall {
	s := *w.script
	c := &soakCall{script: &s, w: w, n: n, rows: map[int]middleware.JournalAttempt{}, begun: map[int]int{}}
	s.dice, s.about = dice{rand.New(rand.NewPCG(w.seed, uint64(n)<<8|2))}, nil
	s.reads()
	s.plain = s.chance(30)
	s.models = make([]*randomModel, len(w.models))
	for i, m := range w.models {
		s.models[i] = &randomModel{s: &s, name: m.name}
	}
	return c
}

func (c *soakCall) run(ctx context.Context) {
	c.check(c.call(context.WithValue(ctx, soakKey{}, c)))
}

// later delivers a job when its time has come.
func (w *soak) later(ctx context.Context, id string, job middleware.Job) {
	w.mu.Lock()
	w.jobs++
	n := callsOfSoak + w.jobs
	w.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	w.calls.Go(func() {
		<-time.NewTimer(time.Until(job.NotBefore)).C
		c := w.newCall(n)
		c.chat, c.job, c.plain, c.attempts, c.unsafe = w.deliver(id, &job), &job, true, job.Request.MaxAttempts, job.Request.ReplayUnsafe
		c.run(ctx)
	})
}

var _ llm.Caller = (*soakLeaf)(nil)
