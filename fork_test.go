package llm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

// forkGate counts what it hears of, by deployment, and refuses one of them.
type forkGate struct {
	llm.OpenGate
	heard   map[string]int
	refuses string
}

func (g *forkGate) Ask(_ context.Context, _ *llm.Request, d *llm.Deployment, _ time.Time) error {
	if d != nil && d.Name == g.refuses {
		return llm.Cooling
	}
	return nil
}

func (g *forkGate) End(_ context.Context, _ *llm.Request, d *llm.Deployment, _ *llm.Attempt) {
	g.heard[d.Name]++
}

func TestABranchPassesTheGatesThatWereInForceAndItsOwn(t *testing.T) {
	dep := func(name string) *llm.Deployment { return &llm.Deployment{Name: name, Caller: llmtest.Script()} }
	outer, ofA, ofB := &forkGate{heard: map[string]int{}}, &forkGate{heard: map[string]int{}}, &forkGate{heard: map[string]int{}}
	r := ask().Accounted()
	defer r.Enforce(outer).Lift()
	fork := r.Fork()
	shutA := r.Enforce(ofA)
	b := r.Branch(fork)
	shutB := b.Enforce(ofB)
	inner, _ := b.Watch() // what is derived from a branch belongs to it
	for name, req := range map[string]*llm.Request{"a": r, "b": b, "b2": inner} {
		if _, err := dep(name).Call(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range []struct {
		name  string
		gate  *forkGate
		heard map[string]int
	}{{"outer", outer, map[string]int{"a": 1, "b": 1, "b2": 1}}, {"a's", ofA, map[string]int{"a": 1}}, {"b's", ofB, map[string]int{"b": 1, "b2": 1}}} {
		for _, d := range []string{"a", "b", "b2"} {
			if g.gate.heard[d] != g.heard[d] {
				t.Errorf("the %s gate heard %d times of %s, want %d", g.name, g.gate.heard[d], d, g.heard[d])
			}
		}
	}
	ofA.refuses = "d"
	if err := b.Ask(t.Context(), dep("d"), time.Now()); err != nil {
		t.Errorf("a's gate has a say in b: %v", err)
	}
	if err := r.Ask(t.Context(), dep("d"), time.Now()); !errors.Is(err, llm.Cooling) {
		t.Errorf("a's gate has no say in a: %v", err)
	}
	if n := len(r.Attempts()); n != 3 || len(b.Attempts()) != 3 || b.Made() != 3 {
		t.Errorf("%d rows, want one account for all three", n)
	}
	shutB.Lift()
	shutA.Lift()
	for g := range b.Gates() {
		if g != llm.Gate(outer) {
			t.Errorf("%v is in force after Lift", g)
		}
	}
}

func TestABranchOfARequestWithoutACallIsAClone(t *testing.T) {
	r := ask()
	b := r.Branch(r.Fork())
	if b == r || b.Made() != 0 || len(b.Messages) != len(r.Messages) || (*llm.Request)(nil).Branch(llm.Fork{}) != nil {
		t.Errorf("%+v", b)
	}
}
