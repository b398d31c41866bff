package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelchain/llm/middleware"
)

func lost(s *cooldownsSuite) {
	rest := s.rest(fresh(0, time.Hour, "x"))
	s.with.Lose(s.T, s.world)
	if got := s.read(); got.Gen != 0 || got.Resting {
		s.Fatalf("it did not lose %+v", got)
	}
	if got := s.end(rest.Gen, 0, false); got.Resting {
		s.Errorf("ending what was lost left %+v", got)
	}
	if got := s.rest(fresh(0, time.Hour, "another's")); got.Gen <= rest.Gen {
		s.Errorf("the next rest, of one who knew nothing, is of generation %d, not above %d", got.Gen, rest.Gen)
	}
}

func watched(s *cooldownsSuite) {
	watcher := s.open()
	ctx, cancel := context.WithCancel(s.Context())
	ready, heard, done := make(chan struct{}, 8), make(chan middleware.SharedCooldown, 64), make(chan error, 1)
	go func() {
		done <- watcher.Watch(ctx, func() { ready <- struct{}{} }, func(c middleware.SharedCooldown) { heard <- c })
	}()
	select {
	case <-ready:
	case err := <-done:
		cancel()
		s.Fatalf("watching ended: %v", err)
	}
	rest := s.rest(fresh(0, 0, "x"))
	if d := s.rest(middleware.CooldownNews{Base: rest.Gen, Left: 20 * time.Millisecond}).Until.Sub(rest.Until); d <= 0 {
		s.Errorf("the end is %v later", d)
	}
	for now := s.read(); now.Until.After(now.Now); now = s.read() {
		s.pause(time.Millisecond)
	}
	want := []middleware.SharedCooldown{ // and not that the end is later by less than a second
		rest, s.probe(rest.Gen, "t", time.Hour), s.must(s.store.Free(s.Context(), cooldownKey, "t")), s.end(rest.Gen, 0, false),
	}
	s.end(rest.Gen, 0, false) // no change
	for i, w := range want {
		select {
		case got := <-heard:
			if got != w {
				s.Errorf("change %d was told as %+v, and is %+v", i, got, w)
			}
		case err := <-done:
			s.Fatalf("watching ended: %v", err)
		case <-s.Context().Done():
			s.Fatalf("change %d was not told", i)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		s.Errorf("watching ended with %v", err)
	}
	if len(heard) > 0 {
		s.Errorf("and what is no change was told: %+v", <-heard)
	}
}

func restarted(s *cooldownsSuite) {
	rest := s.rest(fresh(0, time.Hour, "x"))
	s.store = s.open()
	if got := s.read(); got.Gen != rest.Gen || !got.Until.Equal(rest.Until) || got.Cause != rest.Cause {
		s.Errorf("a store opened later knows %+v of %+v", got, rest)
	}
}

func raced(s *cooldownsSuite) {
	stores := []middleware.CooldownStore{s.store, s.open()}
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			n := fresh(0, time.Duration(i+1)*time.Minute, strconv.Itoa(i))
			if _, err := stores[i%2].Rest(s.Context(), cooldownKey, n); err != nil {
				s.Error(err)
			}
		})
	}
	all.Wait()
	got := s.read()
	if d := got.Until.Sub(got.Since); d < 64*time.Minute || d > 65*time.Minute || got.Cause.Why != "63" {
		s.Errorf("64 rests of up to 64m at once are one of %v because of %q", d, got.Cause.Why)
	}
}

func manyNames(s *cooldownsSuite) {
	const n = 10_000
	keys := make([]middleware.CooldownKey, n)
	for i := range keys {
		keys[i] = middleware.CooldownKey{Scope: middleware.SharedQuota, Name: fmt.Sprint("quota ", i)}
	}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < n; i += 8 {
				if _, err := s.store.Rest(s.Context(), keys[i], fresh(0, time.Duration(i+1)*time.Second, "x")); err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	for from := 0; from < n; from += 256 {
		some := keys[from:min(from+256, n)]
		got, err := s.store.Read(s.Context(), some)
		if err != nil || len(got) != len(some) {
			s.Fatalf("read %d of %d: %v", len(got), len(some), err)
		}
		for i, g := range got {
			if want := time.Duration(from+i+1) * time.Second; g.CooldownKey != some[i] || !g.Resting || g.Until.Sub(g.Since) != want {
				s.Fatalf("%v rests for %v, want %v for %v", g.CooldownKey, g.Until.Sub(g.Since), some[i], want)
			}
		}
	}
}

func hostileNames(s *cooldownsSuite) {
	names := []string{
		"", " ", "a", "A", "a ", "{a}", "}{", "{", "a:b", "itself:a", "a\x00b", "a\nb", "a\r\n*1\r\n$8\r\nFLUSHALL\r\n",
		"*", "?", "[a]", "\xff\xfe", "%s%n", "../a", "a/b", "~a", "ß", "模型", "'; return redis.call('FLUSHALL') --", "\u202e", "7:a",
		strings.Repeat("x", 10_000), strings.Repeat("x", 10_001),
	}
	var keys []middleware.CooldownKey
	for _, scope := range []middleware.Scope{middleware.Itself, middleware.SharedQuota, middleware.SharedCredential} {
		for _, name := range names {
			keys = append(keys, middleware.CooldownKey{Scope: scope, Name: name})
		}
	}
	for i, key := range keys {
		n := fresh(0, time.Duration(i+1)*time.Second, key.Name)
		n.Cause.Deployment = key.Name
		if got := s.must(s.store.Rest(s.Context(), key, n)); got.CooldownKey != key || got.Cause != n.Cause {
			s.Errorf("%q became %q because of %q", key, got.CooldownKey, got.Cause)
		}
	}
	got, err := s.store.Read(s.Context(), keys)
	if err != nil {
		s.Fatal(err)
	}
	for i, g := range got {
		if g.CooldownKey != keys[i] || g.Until.Sub(g.Since) != time.Duration(i+1)*time.Second {
			s.Errorf("%q reads as %q, resting for %v, want %v s", keys[i], g.CooldownKey, g.Until.Sub(g.Since), i+1)
		}
	}
}

func probeOfUnknown(s *cooldownsSuite) {
	got := s.probe(7, "first", time.Hour)
	if got.Token != "first" || !got.Resting || got.Gen <= 7 {
		s.Fatalf("the probe of a rest that was lost is %+v", got)
	}
	if other := s.probe(7, "second", time.Hour); other.Token != "first" {
		s.Errorf("and it is not the only one: %+v", other)
	}
	s.end(got.Gen, 0, false)
	n := middleware.CooldownNews{Base: got.Gen, Ago: time.Hour}
	if late := s.must(s.store.Probe(s.Context(), cooldownKey, n, "third", time.Hour)); late.Token != "" || late.Resting {
		s.Errorf("who did not hear of the end is a probe: %+v", late)
	}
}
