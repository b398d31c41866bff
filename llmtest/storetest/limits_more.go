package storetest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelchain/llm/middleware"
)

func limitCanceled(s *limitsSuite) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.store.Exchange(ctx, []middleware.LimitNews{s.news("a", 0, 10)}); !errors.Is(err, context.Canceled) {
		s.Errorf("the error is %v", err)
	}
	s.lacks(s.exchange(s.news("b", 0)), 0)
}

func limitDown(s *limitsSuite) {
	s.exchange(s.news("a", 0, 10))
	up := s.with.Down(s.T, s.world)
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Millisecond)
	if got, err := s.store.Exchange(ctx, []middleware.LimitNews{s.news("a", 10, 50)}); err == nil {
		s.Errorf("a server that is down says %+v", got)
	}
	cancel()
	up()
	n := s.news("a", 20) // meanwhile it took 10 unasked, and nobody told it of the 50
	for {
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		got, err := s.store.Exchange(ctx, []middleware.LimitNews{n})
		cancel()
		if err == nil {
			s.lacks(got[0], 20)
			return
		}
		if s.Context().Err() != nil {
			s.Fatal(err)
		}
	}
}

func limitLost(s *limitsSuite) {
	got := s.exchange(s.news("a", 0, 70))
	s.with.Lose(s.T, s.world)
	n := s.news("a", 70, 40, 10)
	n.Lacks = got.Lacks
	got = s.exchange(n)
	s.granted(got, 0)
	s.lacks(got, 70)
	n = s.slot("b", 2, 2)
	n.Name = "slots"
	s.granted(s.exchange(n), 1)
}

func limitMany(s *limitsSuite) {
	const limits, at = 10_000, 250
	all := make([]middleware.LimitNews, limits)
	for i := range all {
		all[i] = s.news("a", 0, i%7)
		all[i].Name = strconv.Itoa(i)
	}
	n := 0
	for some := range slices.Chunk(all, at) {
		got, err := s.store.Exchange(s.Context(), some)
		if err != nil || len(got) != len(some) {
			s.Fatal(len(got), err)
		}
		for _, g := range got {
			s.granted(g, 1)
			s.lacks(g, n%7)
			n++
		}
	}
	if n != limits {
		s.Errorf("%d answers to %d", n, limits)
	}
}

func limitNames(s *limitsSuite) {
	names := []string{"", "{l}", "l ", "}{", "l:replicas", "l:leases", "\x00", "\xff", "模型", strings.Repeat("x", 10_000)}
	for i, name := range names {
		n := s.slot("r "+name, i%2, 1)
		n.Name, n.Limits.Requests, n.Burst.Requests = name, 1, limitBurst
		n.Wants[0].Requests = i + 1
		got, err := s.store.Exchange(s.Context(), []middleware.LimitNews{n, n})
		if err != nil {
			s.Fatalf("%q: %v", name, err)
		}
		s.granted(got[0], 1)
		s.lacks(got[1], i+1)
		if got[1].Replicas != 1 || got[1].InFlight != i%2+1 {
			s.Errorf("%q: %+v", name, got[1])
		}
	}
}

func limitRefused(s *limitsSuite) {
	n := s.slot("a", 0, 2)
	n.Limits.Requests, n.Burst.Requests, n.Refused = 1, limitBurst, true
	got := s.exchange(n)
	s.granted(got, 1) // half of three
	if got.Share != 0.5 || got.Lacks.Requests > 2*limitGain || got.Lacks.Requests < limitGain {
		s.Errorf("after a refusal the share is %v, and one request comes back in %v", got.Share, got.Lacks.Requests)
	}
	n = s.slot("b", 0, 1)
	n.Refused = true
	for range 2 {
		if got = s.exchange(n); got.Share != 0.5 {
			s.Errorf("after a second refusal at once the share is %v", got.Share)
		}
		s.granted(got, 0)
		n.Number++
	}
	for ; got.Share == 0.5; got = s.exchange(n) {
		if s.Context().Err() != nil {
			s.Fatal("it does not rise again")
		}
	}
	if got.Share != 0.55 {
		s.Errorf("it rose to %v", got.Share)
	}
}

func limitMissing(s *limitsSuite) {
	n := s.news("a", 0, 10)
	n.Missing.Requests = 30
	got := s.exchange(n)
	s.granted(got, 1)
	s.lacks(got, 40)
	n = s.news("b", 0)
	n.Missing.Requests = 30
	s.lacks(s.exchange(n), 40) // that is so already
}

func limitRest(s *limitsSuite) {
	n := s.slot("a", 0, 1)
	n.Limits.Requests, n.Burst.Requests, n.Rest = 1, limitBurst, time.Hour
	got := s.exchange(n)
	s.granted(got, 0)
	s.lacks(got, limitBurst+60)
	if got.Rest != time.Hour {
		s.Errorf("nothing goes for %v, want 1h", got.Rest)
	}
	n = s.slot("b", 0, 1) // of which there is enough
	n.Rest = time.Minute
	got = s.exchange(n)
	s.granted(got, 0)
	if got.Rest > time.Hour || got.Rest < 59*time.Minute {
		s.Errorf("nothing goes for %v, want what is left of the hour", got.Rest)
	}
	n.Number++
	n.Patience = time.Hour
	if got = s.exchange(n); got.Granted != 1 || got.Wait < 59*time.Minute {
		s.Errorf("%d are granted, in %v", got.Granted, got.Wait)
	}
}
