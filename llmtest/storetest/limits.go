package storetest

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/modelchain/llm/middleware"
)

// TestLimits checks that a store keeps the rules of middleware.LimitStore.
func TestLimits(t *testing.T, with Access[middleware.LimitStore]) {
	for name, run := range map[string]func(*limitsSuite){
		"what was granted is missing, and comes back":        limitTaken,
		"the first without room is granted ahead":            limitAhead,
		"each meter has its say":                             limitMeters,
		"what is larger than the burst takes all of it":      limitLarge,
		"what is used counts once, however often it is told": limitOnce,
		"what a lost answer granted comes back":              limitLostAnswer,
		"an older exchange changes nothing":                  limitOlder,
		"what was taken unasked counts, up to a minute":      limitUnasked,
		"slots are as many as there are":                     limitSlots,
		"the slots of who is silent go to others":            limitLease,
		"slots go by turns":                                  limitTurns,
		"a refusal halves it for all":                        limitRefused,
		"nothing goes while the provider wants nothing":      limitRest,
		"what a provider says is missing":                    limitMissing,
		"many at once get no more than there is":             limitRace,
		"replicas are counted":                               limitReplicas,
		"what was canceled is not done":                      limitCanceled,
		"a server that is down fails":                        limitDown,
		"a limit that was lost is as who asks knew it":       limitLost,
		"ten thousand limits":                                limitMany,
		"names are names":                                    limitNames,
	} {
		t.Run(name, func(t *testing.T) {
			run(&limitsSuite{suite: begin(t, with, name), numbers: map[string]uint64{}})
		})
	}
}

type limitsSuite struct {
	suite[middleware.LimitStore]
	numbers map[string]uint64
}

// What the limit is unless a test says other: one an hour, so that time does not matter, and 100 at once.
const (
	limitBurst  = 100
	limitGain   = time.Minute // for one
	limitLeased = time.Hour
)

// news is the next exchange of a replica about the limit "l", which gains one request a minute. used is all that it took.
func (s *limitsSuite) news(replica string, used int, wants ...int) middleware.LimitNews {
	s.numbers[replica]++
	n := middleware.LimitNews{
		Name: "l", Replica: replica, Number: s.numbers[replica], Limits: middleware.Limits{Requests: 1},
		Burst: middleware.Limits{Requests: limitBurst}, Used: middleware.Limits{Requests: used}, Lease: limitLeased,
	}
	for _, w := range wants {
		n.Wants = append(n.Wants, middleware.Limits{Requests: w})
	}
	return n
}

func (s *limitsSuite) exchange(n middleware.LimitNews) middleware.SharedLimit {
	s.Helper()
	got, err := s.store.Exchange(s.Context(), []middleware.LimitNews{n})
	if err != nil {
		s.Fatal(err)
	}
	return got[0]
}

// lacks fails unless so many requests are missing, less what came back during the test.
func (s *limitsSuite) lacks(got middleware.SharedLimit, want int) {
	s.Helper()
	if d := time.Duration(want) * limitGain; got.Lacks.Requests > d || got.Lacks.Requests < d-limitGain && want > 0 {
		s.Errorf("%v are missing, want %v", got.Lacks.Requests, d)
	}
}

func (s *limitsSuite) granted(got middleware.SharedLimit, want int) {
	s.Helper()
	if got.Granted != want || got.Wait != 0 {
		s.Errorf("%d are granted, the last one in %v, want %d at once", got.Granted, got.Wait, want)
	}
}

func limitTaken(s *limitsSuite) {
	got := s.exchange(s.news("a", 0, 10, 20, 30))
	s.granted(got, 3)
	s.lacks(got, 60)
	got = s.exchange(s.news("b", 0, 30, 20, 1))
	s.granted(got, 1)
	s.lacks(got, 90)
	got = s.exchange(s.news("a", 10)) // it used 10 of 60
	s.lacks(got, 40)
	before := got
	for after := before; after.Lacks == before.Lacks; after = s.exchange(s.news("a", 10)) {
		if s.Context().Err() != nil {
			s.Fatal("time brings nothing back")
		}
	}
}

func limitAhead(s *limitsSuite) {
	n := s.news("a", 0, 95, 5, 3, 3)
	n.Patience = time.Hour
	got := s.exchange(n)
	if d := 3 * limitGain; got.Granted != 3 || got.Wait > d || got.Wait < d-limitGain {
		s.Errorf("%d are granted, the last in %v, want 3, the last in 3m", got.Granted, got.Wait)
	}
	s.lacks(got, 103)
	n = s.news("b", 0, 2)
	n.Patience = 4 * limitGain
	s.granted(s.exchange(n), 0) // its turn comes in five minutes
	n = s.news("b", 0, 2)
	n.Patience = 5 * limitGain
	if got := s.exchange(n); got.Granted != 1 || got.Wait < 4*limitGain {
		s.Errorf("behind another's place %d are granted, in %v", got.Granted, got.Wait)
	}
	s.lacks(s.exchange(s.news("a", 100)), 102) // gives up its place
}

func limitMeters(s *limitsSuite) {
	n := s.news("a", 0)
	n.Limits = middleware.Limits{Requests: 1, Input: 2, Output: 3, Tokens: 4}
	n.Burst = middleware.Limits{Requests: 10, Input: 100, Output: 100, Tokens: 200}
	n.Wants = []middleware.Limits{
		{Requests: 1, Input: 90, Output: 10, Tokens: 100}, {Requests: 1, Input: 10, Output: 10, Tokens: 20},
		{Requests: 1, Output: 80, Tokens: 80}, {Requests: 1, Input: 1, Tokens: 1},
	}
	got := s.exchange(n)
	s.granted(got, 3)
	for i, want := range []struct{ is, want time.Duration }{
		{got.Lacks.Requests, 3 * time.Minute}, {got.Lacks.Input, 50 * time.Minute},
		{got.Lacks.Output, 100 * time.Minute / 3}, {got.Lacks.Tokens, 50 * time.Minute},
	} {
		if want.is > want.want+time.Second || want.is < want.want-time.Minute {
			s.Errorf("of meter %d %v are missing, want %v", i, want.is, want.want)
		}
	}
	n = s.news("b", 0)
	n.Limits, n.Wants = middleware.Limits{Tokens: 4}, []middleware.Limits{{Requests: 1000, Input: 1000, Tokens: 1}}
	n.Burst.Tokens = 201
	s.granted(s.exchange(n), 1) // what is not limited is not counted
}

func limitLarge(s *limitsSuite) {
	s.granted(s.exchange(s.news("a", 0, 1)), 1)
	s.granted(s.exchange(s.news("a", 1, 150)), 0)
	got := s.exchange(s.news("a", 0, 150))
	s.granted(got, 1)
	s.lacks(got, 150)
}

func limitOnce(s *limitsSuite) {
	s.exchange(s.news("a", 0))
	n := s.news("a", 40)
	for range 3 {
		s.lacks(s.exchange(n), 40)
	}
	n = s.news("a", 40, 10)
	for range 3 {
		got := s.exchange(n)
		s.granted(got, 1)
		s.lacks(got, 50)
	}
	s.lacks(s.exchange(s.news("b", 1000)), 50) // it used that before it was known here
}

func limitLostAnswer(s *limitsSuite) {
	s.granted(s.exchange(s.news("a", 0, 60)), 1)
	got := s.exchange(s.news("a", 0, 50)) // it has not heard of the 60
	s.granted(got, 1)
	s.lacks(got, 50)
}

func limitOlder(s *limitsSuite) {
	older := s.news("a", 30, 10)
	s.exchange(s.news("a", 0))
	s.lacks(s.exchange(s.news("a", 20)), 20)
	got := s.exchange(older)
	s.granted(got, 0)
	s.lacks(got, 20)
}

func limitUnasked(s *limitsSuite) {
	s.exchange(s.news("a", 0))
	s.lacks(s.exchange(s.news("a", 90)), 90)
	s.lacks(s.exchange(s.news("a", 9000)), limitBurst+1)
	s.lacks(s.exchange(s.news("a", 0)), 0)
}

// slot is the next exchange of a replica that has so many slots of three and wants more.
func (s *limitsSuite) slot(replica string, has, wants int) middleware.LimitNews {
	n := s.news(replica, 0)
	n.Limits, n.Burst, n.Used = middleware.Limits{InFlight: 3}, middleware.Limits{}, middleware.Limits{InFlight: has}
	for range wants {
		n.Wants = append(n.Wants, middleware.Limits{Requests: 1, InFlight: 1})
	}
	return n
}

func limitSlots(s *limitsSuite) {
	got := s.exchange(s.slot("a", 0, 2))
	s.granted(got, 2)
	if got.InFlight != 2 {
		s.Errorf("%d in flight, want 2", got.InFlight)
	}
	s.granted(s.exchange(s.slot("b", 0, 2)), 1)
	s.granted(s.exchange(s.slot("a", 1, 0)), 0)
	got = s.exchange(s.slot("b", 1, 5))
	s.granted(got, 1)
	if got.InFlight != 3 {
		s.Errorf("%d in flight, want 3", got.InFlight)
	}
	s.exchange(s.slot("a", 0, 0))
	if got := s.exchange(s.slot("b", 0, 0)); got.InFlight != 0 {
		s.Errorf("%d in flight when all have ended", got.InFlight)
	}
}

func limitLease(s *limitsSuite) {
	n := s.slot("a", 0, 3)
	n.Lease = 50 * time.Millisecond
	s.granted(s.exchange(n), 3)
	for got := s.exchange(s.slot("b", 0, 1)); got.Granted == 0; got = s.exchange(s.slot("b", 0, 1)) {
		if s.Context().Err() != nil {
			s.Fatal("the slots of a silent replica stay its own")
		}
	}
	if got := s.exchange(s.slot("b", 1, 2)); got.Granted != 2 || got.InFlight != 3 {
		s.Errorf("%+v, want the other two slots", got)
	}
	// Who was silent and goes on says what it has, and nobody gets more until there is room.
	if got := s.exchange(s.slot("a", 3, 1)); got.InFlight != 6 || got.Granted != 0 {
		s.Errorf("%+v, want 6 in flight", got)
	}
}

func limitTurns(s *limitsSuite) {
	s.granted(s.exchange(s.slot("a", 0, 3)), 3)
	s.granted(s.exchange(s.slot("b", 0, 1)), 0)
	for range 100 { // who waits keeps asking
		s.granted(s.exchange(s.slot("b", 0, 1)), 0)
		if got := s.exchange(s.slot("a", 2, 1)); got.Granted != 0 {
			s.Error("who gave a slot back has it again, before the one that waits for it")
		}
		s.granted(s.exchange(s.slot("b", 0, 1)), 1)
		s.granted(s.exchange(s.slot("a", 2, 1)), 0)
		s.exchange(s.slot("b", 0, 0))
		s.granted(s.exchange(s.slot("a", 2, 1)), 1)
		s.granted(s.exchange(s.slot("b", 0, 1)), 0)
	}
	for got := s.exchange(s.slot("a", 2, 1)); got.Granted == 0; got = s.exchange(s.slot("a", 2, 1)) {
		if s.Context().Err() != nil {
			s.Fatal("a slot is kept for who does not ask any more")
		}
	}
}

func limitRace(s *limitsSuite) {
	stores := []middleware.LimitStore{s.store, s.open()}
	var all sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for i := range 30 {
		n := s.news(strconv.Itoa(i), 0, 1, 1, 1, 1, 1)
		all.Go(func() {
			got, err := stores[i%2].Exchange(s.Context(), []middleware.LimitNews{n})
			if err != nil {
				s.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			granted += got[0].Granted
		})
	}
	all.Wait()
	if granted != limitBurst {
		s.Errorf("%d were granted, want %d", granted, limitBurst)
	}
}

func limitReplicas(s *limitsSuite) {
	for i := range 5 {
		for range 2 {
			if got := s.exchange(s.news(strconv.Itoa(i), 0)); got.Replicas != i+1 {
				s.Errorf("%d replicas, want %d", got.Replicas, i+1)
			}
		}
	}
}
