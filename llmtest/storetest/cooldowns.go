package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// TestCooldowns checks that a store keeps the rules of middleware.CooldownStore.
func TestCooldowns(t *testing.T, with Access[middleware.CooldownStore]) {
	for name, run := range map[string]func(*cooldownsSuite){
		"the later end holds":                               laterEnd,
		"times are the store's own":                         ownClock,
		"a generation decides nothing about a later one":    generations,
		"a failure after a success is not ended by it":      failureAfterSuccess,
		"one probe of all that ask":                         oneProbe,
		"a lease runs out":                                  leaseRunsOut,
		"a probe that is given back is free":                freedProbe,
		"what is said twice counts once":                    saidTwice,
		"what was canceled is not done":                     canceled,
		"a server that is down fails, and holds nobody up":  serverDown,
		"what was lost is in no later generation's way":     lost,
		"who watches hears of every change":                 watched,
		"who comes later knows what was noted":              restarted,
		"two race, and one rest comes of it":                raced,
		"ten thousand names":                                manyNames,
		"names are names, whatever is in them":              hostileNames,
		"a probe for a rest that nobody knows makes it one": probeOfUnknown,
	} {
		t.Run(name, func(t *testing.T) {
			run(&cooldownsSuite{begin(t, with, name)})
		})
	}
}

type cooldownsSuite struct {
	suite[middleware.CooldownStore]
}

// cooldownKey is the name of most cases.
var cooldownKey = middleware.CooldownKey{Scope: middleware.Itself, Name: "gpt-4o"}

// must is an operation that has to succeed.
func (s *cooldownsSuite) must(got middleware.SharedCooldown, err error) middleware.SharedCooldown {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	return got
}

func (s *cooldownsSuite) rest(n middleware.CooldownNews) middleware.SharedCooldown {
	s.Helper()
	return s.must(s.store.Rest(s.Context(), cooldownKey, n))
}

func (s *cooldownsSuite) read() middleware.SharedCooldown {
	s.Helper()
	got, err := s.store.Read(s.Context(), []middleware.CooldownKey{cooldownKey})
	if err != nil || len(got) != 1 {
		s.Fatalf("read: %d, %v", len(got), err)
	}
	return got[0]
}

func (s *cooldownsSuite) probe(base uint64, token string, lease time.Duration) middleware.SharedCooldown {
	s.Helper()
	n := middleware.CooldownNews{Base: base}
	return s.must(s.store.Probe(s.Context(), cooldownKey, n, token, lease))
}

func (s *cooldownsSuite) end(base uint64, ago time.Duration, force bool) middleware.SharedCooldown {
	s.Helper()
	return s.must(s.store.End(s.Context(), cooldownKey, base, ago, force))
}

func fresh(base uint64, left time.Duration, why string) middleware.CooldownNews {
	return middleware.CooldownNews{
		Base: base, Fresh: true, Left: left, Cause: middleware.CooldownCause{Class: llm.Overloaded, Why: why},
	}
}

func laterEnd(s *cooldownsSuite) {
	long := s.rest(fresh(0, time.Hour, "long"))
	short := s.rest(fresh(0, time.Minute, "short"))
	if !short.Until.Equal(long.Until) || short.Gen != long.Gen || short.Cause.Why != "long" {
		s.Errorf("after 1h and 1m: until %v because of %q, want %v because of the longer", short.Until, short.Cause.Why, long.Until)
	}
	longest := s.rest(middleware.CooldownNews{Base: long.Gen, Left: 2 * time.Hour, Cause: middleware.CooldownCause{Why: "longest"}})
	if d := longest.Until.Sub(long.Until); d < 59*time.Minute || longest.Gen != long.Gen || longest.Cause.Why != "longest" {
		s.Errorf("1h made 2h is %v longer, in generation %d of %d, because of %q", d, longest.Gen, long.Gen, longest.Cause.Why)
	}
	failed := s.rest(fresh(long.Gen, time.Minute, "a failed probe"))
	if failed.Until.Before(longest.Until) || failed.Gen <= long.Gen {
		s.Errorf("a failed probe shortened the rest by %v, in generation %d after %d", longest.Until.Sub(failed.Until),
			failed.Gen, long.Gen)
	}
}

func ownClock(s *cooldownsSuite) {
	n := fresh(0, time.Hour, "x")
	n.Ago, n.Failed, n.Cause.Asked, n.Cause.Deployment = time.Minute, 3, 7*time.Second, "d"
	got := s.rest(n)
	if got.Until.Sub(got.Now) != time.Hour || got.Now.Sub(got.Since) != time.Minute {
		s.Errorf("it ends in %v and began %v ago by the store's clock, want 1h and 1m", got.Until.Sub(got.Now), got.Now.Sub(got.Since))
	}
	if got.Failed != 3 || got.Cause != n.Cause || !got.Resting || got.CooldownKey != cooldownKey {
		s.Errorf("it kept %+v of %+v", got, n)
	}
	again := s.read()
	if again.Now.Before(got.Now) || !again.Until.Equal(got.Until) || again.Gen != got.Gen || again.Cause != n.Cause {
		s.Errorf("read %+v after %+v", again, got)
	}
}

func generations(s *cooldownsSuite) {
	if got := s.read(); got.Gen != 0 || got.Resting {
		s.Errorf("what nobody noted is %+v", got)
	}
	first := s.rest(fresh(0, 0, "first"))
	second := s.rest(fresh(first.Gen, 0, "second"))
	if second.Gen <= first.Gen {
		s.Fatalf("a failed probe made generation %d of %d", second.Gen, first.Gen)
	}
	if got := s.end(first.Gen, 0, false); !got.Resting || got.Gen != second.Gen {
		s.Errorf("a success of the first generation ended the second: %+v", got)
	}
	if got := s.rest(fresh(first.Gen, 0, "late")); got.Gen != second.Gen {
		s.Errorf("a failure of the first generation made %d of %d", got.Gen, second.Gen)
	}
	ended := s.end(second.Gen, 0, false)
	if ended.Resting || ended.Gen <= second.Gen {
		s.Fatalf("a success left %+v", ended)
	}
	late := fresh(first.Gen, time.Hour, "before the success")
	late.Ago = time.Hour
	if got := s.rest(late); got.Resting {
		s.Errorf("a failure from before the end began a rest: %+v", got)
	}
	if got := s.rest(fresh(first.Gen, time.Hour, "after the success")); !got.Resting || got.Gen <= ended.Gen {
		s.Errorf("a failure after the end, of one who did not hear of it, began none: %+v", got)
	}
	if got := s.end(0, time.Hour, true); got.Resting {
		s.Errorf("by force it did not end: %+v", got)
	}
	if got := s.rest(fresh(s.read().Gen, time.Minute, "next")); !got.Resting {
		s.Errorf("a failure of the newest generation began no rest: %+v", got)
	}
}

func failureAfterSuccess(s *cooldownsSuite) {
	rest := s.rest(fresh(0, 0, "x"))
	if got := s.end(rest.Gen, time.Hour, false); !got.Resting {
		s.Errorf("a success an hour before the failure ended the rest: %+v", got)
	}
	if got := s.end(rest.Gen, 0, false); got.Resting {
		s.Errorf("a success after it did not: %+v", got)
	}
}

func oneProbe(s *cooldownsSuite) {
	rest := s.rest(fresh(0, time.Hour, "x"))
	if got := s.probe(rest.Gen, "early", time.Hour); got.Token != "" {
		s.Errorf("a probe went out an hour early: %+v", got)
	}
	s.end(rest.Gen, 0, true)
	rest = s.rest(fresh(s.read().Gen, 0, "x"))
	other := s.open()
	var mu sync.Mutex
	var won []string
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			store := s.store
			if i%2 == 0 {
				store = other
			}
			token := fmt.Sprint("token ", i)
			got, err := store.Probe(s.Context(), cooldownKey, middleware.CooldownNews{Base: rest.Gen}, token, time.Hour)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				s.Error(err)
			}
			if got.Token == token {
				won = append(won, token)
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		s.Fatalf("%d of 32 are the probe: %v", len(won), won)
	}
	if got := s.probe(rest.Gen, won[0], time.Hour); got.Token != won[0] {
		s.Errorf("the probe asked again, as after a time-out, and is not: %+v", got)
	}
	if got := s.rest(fresh(rest.Gen, 0, "its failure")); got.Token != "" {
		s.Errorf("the next rest begins with a probe: %+v", got)
	}
}

func leaseRunsOut(s *cooldownsSuite) {
	rest := s.rest(fresh(0, 0, "x"))
	const lease = 50 * time.Millisecond
	first := s.probe(rest.Gen, "first", lease)
	if first.Token != "first" || first.Lease.Sub(first.Now) != lease {
		s.Fatalf("the probe is %+v", first)
	}
	for {
		got := s.probe(rest.Gen, "second", time.Hour)
		if got.Token == "second" {
			if got.Now.Before(first.Lease) {
				s.Errorf("it was taken over %v early", first.Lease.Sub(got.Now))
			}
			break
		}
		if got.Now.After(first.Lease) {
			s.Fatalf("its lease is over since %v, and it is still out", got.Now.Sub(first.Lease))
		}
		s.pause(time.Millisecond)
	}
	if got := s.end(rest.Gen, 0, false); got.Resting {
		s.Errorf("the first probe's success, which came late, did not end its rest: %+v", got)
	}
}

// pause is for waiting on the clock of a store, whose time no test can move.
func (s *cooldownsSuite) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.Context().Done():
		s.Fatal("the test is over")
	}
}

func freedProbe(s *cooldownsSuite) {
	rest := s.rest(fresh(0, 0, "x"))
	s.probe(rest.Gen, "first", time.Hour)
	if got := s.must(s.store.Free(s.Context(), cooldownKey, "other")); got.Token != "first" {
		s.Errorf("another's token freed it: %+v", got)
	}
	for range 2 {
		if got := s.must(s.store.Free(s.Context(), cooldownKey, "first")); got.Token != "" || !got.Resting || got.Gen != rest.Gen {
			s.Errorf("given back, it is %+v", got)
		}
	}
	if got := s.probe(rest.Gen, "second", time.Hour); got.Token != "second" {
		s.Errorf("and nobody else got it: %+v", got)
	}
}

func saidTwice(s *cooldownsSuite) {
	n := fresh(0, time.Minute, "x")
	once := s.rest(n)
	twice := s.rest(n)
	if twice.Gen != once.Gen || twice.Failed != once.Failed || twice.Until.Sub(once.Until) > twice.Now.Sub(once.Now) {
		s.Errorf("the same rest noted twice is %+v after %+v", twice, once)
	}
	s.end(once.Gen, 0, false)
	if a, b := s.read(), s.end(once.Gen, 0, false); a.Gen != b.Gen || b.Resting {
		s.Errorf("ended twice it is %+v after %+v", b, a)
	}
}

func canceled(s *cooldownsSuite) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.store.Rest(ctx, cooldownKey, fresh(0, time.Hour, "x")); !errors.Is(err, context.Canceled) {
		s.Errorf("the error is %v", err)
	}
	if _, err := s.store.Read(ctx, []middleware.CooldownKey{cooldownKey}); !errors.Is(err, context.Canceled) {
		s.Errorf("the error is %v", err)
	}
	if got := s.read(); got.Gen != 0 {
		s.Errorf("it was done: %+v", got)
	}
}

func serverDown(s *cooldownsSuite) {
	rest := s.rest(fresh(0, time.Hour, "x"))
	up := s.with.Down(s.T, s.world)
	for range 5 {
		ctx, cancel := context.WithTimeout(s.Context(), 20*time.Millisecond)
		if got, err := s.store.Read(ctx, []middleware.CooldownKey{cooldownKey}); err == nil {
			s.Errorf("a server that is down says %+v", got)
		}
		cancel()
	}
	up()
	for {
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		got, err := s.store.Read(ctx, []middleware.CooldownKey{cooldownKey})
		cancel()
		if err == nil {
			if got[0].Gen != rest.Gen || !got[0].Until.Equal(rest.Until) {
				s.Errorf("back, it knows %+v of %+v", got[0], rest)
			}
			return
		}
		s.pause(5 * time.Millisecond)
	}
}
