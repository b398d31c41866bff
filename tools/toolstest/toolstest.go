// Package toolstest holds a store of package tools to its contract.
package toolstest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/modelchain/llm/tools"
)

// TestStore checks that a store keeps the contract of tools.Store. open returns one without records; it is called for each case.
func TestStore(t *testing.T, open func(t *testing.T) tools.Store) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(&suite{T: t, store: open(t)}) })
	}
}

var cases = []struct {
	name string
	run  func(*suite)
}{
	{"a first claim makes the record", firstClaim},
	{"what is held is not claimed", heldIsNotClaimed},
	{"what nobody holds is taken over as it is", takeover},
	{"steps are taken in order, by the owner alone", steps},
	{"a committed result stays", committedStays},
	{"what is let go has no owner and keeps its doubt", letGo},
	{"renewing a lease is no change", renewal},
	{"acknowledged are the committed records of the turn", acknowledge},
	{"doubtful is what was started and is held by nobody", doubtful},
	{"pruned is what is old and neither in doubt nor owed", prune},
	{"one of many claims at once wins", race},
	{"an ended context takes no step", ended},
	{"any text is kept as it is", anyText},
	{"what is no text names no record", noText},
}

const (
	hour = time.Hour
	over = time.Nanosecond // a lease that has run out when the next step is taken
)

type suite struct {
	*testing.T
	store tools.Store
}

func record(key, owner string) tools.Record {
	return tools.Record{Key: key, Turn: "turn", Tool: "tool", CallID: "call_1", Ordinal: 2, Arguments: "hash", Owner: owner}
}

// claim claims key for owner.
func (s *suite) claim(key, owner string, lease time.Duration) tools.Record {
	s.Helper()
	r, err := s.store.Claim(s.Context(), record(key, owner), lease)
	if err != nil {
		s.Fatalf("Claim(%s, %s): %v", key, owner, err)
	}
	return r
}

func (s *suite) move(m tools.Move) {
	s.Helper()
	if err := s.store.Move(s.Context(), m); err != nil {
		s.Fatalf("Move(%+v): %v", m, err)
	}
}

func (s *suite) refused(m tools.Move) {
	s.Helper()
	if err := s.store.Move(s.Context(), m); !errors.Is(err, tools.ErrLost) {
		s.Errorf("Move(%+v) = %v, want ErrLost", m, err)
	}
}

func (s *suite) get(key string) tools.Record {
	s.Helper()
	r, err := s.store.Get(s.Context(), key)
	if err != nil {
		s.Fatalf("Get(%s): %v", key, err)
	}
	return r
}

// is checks the fields of r that change.
func (s *suite) is(r tools.Record, state tools.State, owner string, held bool, doubt, result string) {
	s.Helper()
	if r.State != state || r.Owner != owner || r.Held != held || r.Doubt != doubt || string(r.Result) != result {
		s.Errorf("the record is %+v with result %q; want state %s, owner %q, held %v, doubt %q, result %q",
			r, r.Result, state, owner, held, doubt, result)
	}
}

// put makes a record and takes it to a state, held for lease.
func (s *suite) put(key string, to tools.State, lease time.Duration) {
	s.Helper()
	s.claim(key, "maker", lease)
	if to != tools.Requested {
		s.move(tools.Move{Key: key, Owner: "maker", To: tools.Started, Lease: lease})
	}
	if to == tools.Committed {
		s.move(tools.Move{Key: key, Owner: "maker", To: tools.Committed, Result: []byte("result of " + key)})
	}
}

func firstClaim(s *suite) {
	if _, err := s.store.Get(s.Context(), "k"); !errors.Is(err, tools.ErrNoRecord) {
		s.Errorf("Get before any Claim: %v, want ErrNoRecord", err)
	}
	want := record("k", "a")
	want.State, want.Held = tools.Requested, true
	for name, r := range map[string]tools.Record{"Claim": s.claim("k", "a", hour), "Get": s.get("k")} {
		if r.Created.IsZero() || r.Changed.IsZero() || r.Created.After(r.Changed) {
			s.Errorf("%s: created %v, changed %v", name, r.Created, r.Changed)
		}
		r.Created, r.Changed = time.Time{}, time.Time{}
		if len(r.Result) == 0 {
			r.Result = nil
		}
		if !reflect.DeepEqual(r, want) {
			s.Errorf("%s = %+v, want %+v", name, r, want)
		}
	}
}

func heldIsNotClaimed(s *suite) {
	for _, state := range []tools.State{tools.Requested, tools.Started} {
		key := string(state)
		s.put(key, state, hour)
		s.is(s.claim(key, "other", hour), state, "maker", true, "", "")
		s.move(tools.Move{Key: key, Owner: "maker", To: tools.Started, Lease: hour})
	}
}

func takeover(s *suite) {
	for _, state := range []tools.State{tools.Requested, tools.Started} {
		key := string(state)
		s.put(key, state, over)
		s.is(s.claim(key, "other", hour), state, "other", true, "", "")
		s.refused(tools.Move{Key: key, Owner: "maker", To: tools.Started, Lease: hour})
		s.is(s.get(key), state, "other", true, "", "")
	}
}

func steps(s *suite) {
	s.refused(tools.Move{Key: "none", Owner: "a", To: tools.Started})
	s.claim("k", "a", hour)
	s.refused(tools.Move{Key: "k", Owner: "a", To: tools.Committed})
	s.refused(tools.Move{Key: "k", Owner: "a", To: tools.Acknowledged})
	s.refused(tools.Move{Key: "k", Owner: "b", To: tools.Started})
	s.refused(tools.Move{Key: "k", Owner: "", To: tools.Started})
	s.refused(tools.Move{Key: "k", Owner: "a", To: "nonsense"})
	s.is(s.get("k"), tools.Requested, "a", true, "", "")
	s.move(tools.Move{Key: "k", Owner: "a", To: tools.Started, Lease: hour})
	s.is(s.get("k"), tools.Started, "a", true, "", "")
	s.move(tools.Move{Key: "k", Owner: "a", To: tools.Started, Lease: hour}) // repeated
	s.move(tools.Move{Key: "k", Owner: "a", To: tools.Requested, Lease: hour})
	s.move(tools.Move{Key: "k", Owner: "a", To: tools.Started, Lease: 0})
	s.refused(tools.Move{Key: "k", Owner: "a", To: tools.Committed})
	s.claim("k", "b", over) // and nobody else takes it
	s.move(tools.Move{Key: "k", Owner: "b", To: tools.Committed, Result: []byte("r")})
	s.is(s.get("k"), tools.Committed, "b", false, "", "r")
}

func committedStays(s *suite) {
	s.put("k", tools.Committed, hour)
	s.move(tools.Move{Key: "k", Owner: "maker", To: tools.Committed, Result: []byte("another")})
	s.refused(tools.Move{Key: "k", Owner: "other", To: tools.Committed})
	s.refused(tools.Move{Key: "k", Owner: "maker", To: tools.Started, Lease: hour})
	s.refused(tools.Move{Key: "k", Owner: "maker", To: tools.Requested})
	s.refused(tools.Move{Key: "k", Owner: "maker", To: tools.Acknowledged})
	s.is(s.claim("k", "other", hour), tools.Committed, "maker", false, "", "result of k")
	s.is(s.get("k"), tools.Committed, "maker", false, "", "result of k")
}

func letGo(s *suite) {
	s.put("k", tools.Started, hour)
	s.move(tools.Move{Key: "k", Owner: "maker", To: tools.Started, Doubt: "it panicked"})
	s.is(s.get("k"), tools.Started, "", false, "it panicked", "")
	s.refused(tools.Move{Key: "k", Owner: "maker", To: tools.Started, Lease: hour})
	s.refused(tools.Move{Key: "k", Owner: "", To: tools.Started, Lease: hour})
	s.is(s.claim("k", "next", hour), tools.Started, "next", true, "it panicked", "")
	s.move(tools.Move{Key: "k", Owner: "next", To: tools.Requested})
	s.is(s.get("k"), tools.Requested, "", false, "", "")
}

func renewal(s *suite) {
	s.put("k", tools.Started, over)
	before := s.get("k")
	s.move(tools.Move{Key: "k", Owner: "maker", To: tools.Started, Lease: hour})
	after := s.get("k")
	if !after.Held || !after.Changed.Equal(before.Changed) || !after.Created.Equal(before.Created) {
		s.Errorf("after a renewal the record is %+v, before %+v", after, before)
	}
}

func acknowledge(s *suite) {
	s.put("done", tools.Committed, hour)
	s.put("running", tools.Started, hour)
	other := record("other", "maker")
	other.Turn = "another turn"
	if _, err := s.store.Claim(s.Context(), other, hour); err != nil {
		s.Fatal(err)
	}
	s.move(tools.Move{Key: "other", Owner: "maker", To: tools.Started, Lease: hour})
	s.move(tools.Move{Key: "other", Owner: "maker", To: tools.Committed, Result: []byte("r")})
	for _, turn := range []string{"turn", "turn", "unknown turn"} {
		if err := s.store.Acknowledge(s.Context(), turn); err != nil {
			s.Fatal(err)
		}
	}
	s.is(s.get("done"), tools.Acknowledged, "maker", false, "", "result of done")
	s.is(s.claim("done", "next", hour), tools.Acknowledged, "maker", false, "", "result of done")
	s.refused(tools.Move{Key: "done", Owner: "maker", To: tools.Committed})
	s.is(s.get("running"), tools.Started, "maker", true, "", "")
	s.is(s.get("other"), tools.Committed, "maker", false, "", "r")
}

func doubtful(s *suite) {
	s.put("held", tools.Started, hour)
	s.put("requested", tools.Requested, over)
	s.put("committed", tools.Committed, over)
	for i := range 3 {
		s.put(fmt.Sprint("left", i), tools.Started, over)
	}
	for limit, want := range map[int]int{10: 3, 3: 3, 2: 2, 0: 0} {
		out, err := s.store.Doubtful(s.Context(), limit)
		if err != nil || len(out) != want {
			s.Fatalf("Doubtful(%d) = %d records, %v, want %d", limit, len(out), err, want)
		}
		for i, r := range out {
			if r.State != tools.Started || r.Held || r.Tool != "tool" || i > 0 && r.Changed.Before(out[i-1].Changed) {
				s.Errorf("Doubtful(%d)[%d] = %+v", limit, i, r)
			}
		}
	}
}

func prune(s *suite) {
	s.put("acknowledged", tools.Committed, hour)
	if err := s.store.Acknowledge(s.Context(), "turn"); err != nil {
		s.Fatal(err)
	}
	s.put("never begun", tools.Requested, over)
	stays := []string{"about to begin", "running", "left", "owed"}
	s.put(stays[0], tools.Requested, hour)
	s.put(stays[1], tools.Started, hour)
	s.put(stays[2], tools.Started, over)
	s.put(stays[3], tools.Committed, hour)
	// An age below zero makes everything old.
	for _, c := range []struct {
		age  time.Duration
		want int
	}{{hour, 0}, {-hour, 2}, {-hour, 0}} {
		if n, err := s.store.Prune(s.Context(), c.age); n != c.want || err != nil {
			s.Errorf("Prune(%v) = %d, %v, want %d", c.age, n, err, c.want)
		}
	}
	for _, key := range stays {
		s.get(key)
	}
}

func race(s *suite) {
	for round := range 10 {
		key := fmt.Sprint("k", round)
		if round%2 == 1 {
			s.put(key, tools.Started, over)
		}
		winners := make([]string, 8)
		errs := make([]error, len(winners))
		var wg sync.WaitGroup
		for i := range winners {
			wg.Go(func() {
				r, err := s.store.Claim(s.Context(), record(key, fmt.Sprint("owner", i)), hour)
				winners[i], errs[i] = r.Owner, err
			})
		}
		wg.Wait()
		for i, w := range winners {
			if w != winners[0] || w == "maker" || errs[i] != nil {
				s.Fatalf("round %d: claims at once say that the owners are %q, errors %v", round, winners, errs)
			}
		}
	}
}

func ended(s *suite) {
	s.put("k", tools.Started, hour)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, claim := s.store.Claim(ctx, record("new", "a"), hour)
	_, get := s.store.Get(ctx, "k")
	_, list := s.store.Doubtful(ctx, 1)
	_, pruned := s.store.Prune(ctx, -hour)
	for name, err := range map[string]error{
		"Claim": claim, "Get": get, "Doubtful": list, "Prune": pruned, "Acknowledge": s.store.Acknowledge(ctx, "turn"),
		"Move": s.store.Move(ctx, tools.Move{Key: "k", Owner: "maker", To: tools.Committed, Result: []byte("r")}),
	} {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("%s with an ended context: %v, want context.Canceled", name, err)
		}
	}
	s.is(s.get("k"), tools.Started, "maker", true, "", "")
	if _, err := s.store.Get(s.Context(), "new"); !errors.Is(err, tools.ErrNoRecord) {
		s.Errorf("a Claim with an ended context made a record: %v", err)
	}
}

func anyText(s *suite) {
	r := record("k'\"\\%_", "o'; --")
	r.Turn, r.Tool, r.CallID = "Gespräch 🌍\n", "tool\t?", "$1 {}"
	if _, err := s.store.Claim(s.Context(), r, hour); err != nil {
		s.Fatal(err)
	}
	s.move(tools.Move{Key: r.Key, Owner: r.Owner, To: tools.Started, Lease: hour, Doubt: "why? 'this' ☃"})
	result := "{\"a\":\"\x00\xff\"}"
	s.is(s.get(r.Key), tools.Started, r.Owner, true, "why? 'this' ☃", "")
	s.move(tools.Move{Key: r.Key, Owner: r.Owner, To: tools.Committed, Result: []byte(result)})
	got := s.get(r.Key)
	s.is(got, tools.Committed, r.Owner, false, "", result)
	if got.Turn != r.Turn || got.Tool != r.Tool || got.CallID != r.CallID {
		s.Errorf("texts changed: %+v, want %+v", got, r)
	}
}

func noText(s *suite) {
	ctx := s.Context()
	for _, name := range []string{"a\x00", "a\xff"} {
		if _, err := s.store.Get(ctx, name); !errors.Is(err, tools.ErrNoRecord) {
			s.Errorf("Get(%q): %v, want ErrNoRecord", name, err)
		}
		s.refused(tools.Move{Key: name, Owner: "maker", To: tools.Started})
		s.refused(tools.Move{Key: "k", Owner: name, To: tools.Started})
		if err := s.store.Acknowledge(ctx, name); err != nil {
			s.Errorf("Acknowledge(%q), of which there is no record: %v", name, err)
		}
	}
}
