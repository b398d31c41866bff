package tools_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/tools"
)

var errDown = errors.New("the database is down")

// flaky is a store that fails: while down is set, and the steps from number from on, count of them. A step that fails late has
// been taken.
type flaky struct {
	tools.Store
	down              atomic.Bool
	step, from, count int
	late              bool
}

func (f *flaky) fails() bool {
	f.step++
	return f.down.Load() || f.step > f.from && f.step <= f.from+f.count
}

func (f *flaky) Claim(ctx context.Context, r tools.Record, lease time.Duration) (tools.Record, error) {
	if !f.fails() {
		return f.Store.Claim(ctx, r, lease)
	}
	if f.late {
		_, _ = f.Store.Claim(ctx, r, lease)
	}
	return tools.Record{}, errDown
}

func (f *flaky) Move(ctx context.Context, m tools.Move) error {
	if !f.fails() {
		return f.Store.Move(ctx, m)
	}
	if f.late {
		_ = f.Store.Move(ctx, m)
	}
	return errDown
}

func TestAStoreThatFailsAtAnyStepNeitherRepeatsNorLosesAnEffect(t *testing.T) {
	for _, effect := range []tools.Effect{tools.Unkeyed, tools.Keyed} {
		for _, late := range []bool{false, true} {
			for from := range 4 {
				for _, count := range []int{1, 2, 1000} {
					t.Run(fmt.Sprint(effect, " late:", late, " from:", from, " count:", count), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { storeFails(t, effect, late, from, count) })
					})
				}
			}
		}
	}
}

func storeFails(t *testing.T, effect tools.Effect, late bool, from, count int) {
	var w world
	inner := tools.NewMemory()
	store := &flaky{Store: inner, from: from, count: count, late: late}
	e := tools.New(tools.Config{Store: store, Tools: []tools.Tool{w.tool("pay", effect, func(tl *tools.Tool) {
		tl.Run = func(ctx context.Context, c tools.Call) (tools.Result, error) {
			if r, err := inner.Get(ctx, c.Key); err != nil || r.State != tools.Started || !r.Held {
				t.Errorf("the effect begins while its record is %+v, %v", r, err)
			}
			return w.act(c), nil
		}
	})}})
	msg, err := e.Run(t.Context(), "t", asks("pay"))
	d, inDoubt := errors.AsType[*tools.DoubtError](err)
	switch {
	case err == nil:
		if w.count() != 1 || msg.Parts[0].Result.Parts[0].Text != "done 1" {
			t.Fatalf("it succeeded after %d effects: %+v", w.count(), msg)
		}
	case inDoubt:
		if w.count() != 1 || d.Result == nil {
			t.Fatalf("in doubt after %d effects: %v", w.count(), d)
		}
	default:
		certain(t, err, llm.Unavailable)
		if w.count() != 0 {
			t.Fatalf("%d effects, and the error is %v", w.count(), err)
		}
	}
	before := w.count()
	store.count = 0 // it is up again; leases run out while this waits
	resp := asks("pay")
	msg, err = e.Run(t.Context(), "t", resp)
	if again, ok := errors.AsType[*tools.DoubtError](err); ok && effect == tools.Unkeyed {
		if w.count() != before {
			t.Fatalf("%d effects more: %v", w.count()-before, again)
		}
		// Nobody knows, so a person looks, and finds what the world has.
		if before == 1 {
			err = e.MarkDone(t.Context(), again.Key, tools.Text("done 1"))
		} else {
			err = e.MarkNotDone(t.Context(), again.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
		msg, err = e.Run(t.Context(), "t", resp)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range w.keys {
		if k != w.keys[0] || i > 0 && effect == tools.Unkeyed {
			t.Errorf("effects with the keys %q", w.keys)
		}
	}
	if text := msg.Parts[0].Result.Parts[0].Text; text != fmt.Sprint("done ", w.count()) {
		t.Errorf("the result is %q after %d effects", text, w.count())
	}
}

func TestAStoreThatHangsHoldsACallNoLongerThanItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		e := tools.New(tools.Config{Store: hung{tools.NewMemory()}, Tools: []tools.Tool{w.tool("pay", tools.Unkeyed)}})
		began := time.Now()
		_, err := e.Run(t.Context(), "t", asks("pay"))
		certain(t, err, llm.Unavailable)
		if took := time.Since(began); took != 5*time.Second || w.count() != 0 {
			t.Errorf("after %v and %d effects: %v", took, w.count(), err)
		}
	})
}

type hung struct{ tools.Store }

func (hung) Claim(ctx context.Context, _ tools.Record, _ time.Duration) (tools.Record, error) {
	<-ctx.Done()
	return tools.Record{}, ctx.Err()
}

func TestOnlyWhatIsInDoubtCanBeMarked(t *testing.T) {
	var w world
	store := tools.NewMemory()
	e := tools.New(tools.Config{Store: store, Tools: []tools.Tool{w.tool("pay", tools.Unkeyed)}})
	results(t, e, "t", asks("pay"))
	key, err := tools.Key("t", "pay", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Claim(t.Context(), tools.Record{Key: "held", Owner: "other"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := store.Move(t.Context(), tools.Move{Key: "held", Owner: "other", To: tools.Started, Lease: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for key, says := range map[string]string{key: "it is committed", "held": "held by \"other\"", "none": "there is no record"} {
		for name, err := range map[string]error{
			"MarkDone": e.MarkDone(t.Context(), key, tools.Text("x")), "MarkNotDone": e.MarkNotDone(t.Context(), key),
		} {
			if certain(t, err, llm.Invalid); !strings.Contains(fmt.Sprint(err), says) {
				t.Errorf("%s(%s) = %v, want %q in it", name, key, err, says)
			}
		}
	}
	want(t, results(t, e, "t", asks("pay")), "done 1")
}

func TestPruneKeepsWhatIsOwedOrInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		fails := errors.New("lost")
		e := executor(w.tool("pay", tools.Unkeyed), w.tool("bad", tools.Unkeyed, failing(&w, &fails)))
		results(t, e, "kept", asks("pay"))
		results(t, e, "owed", asks("pay"))
		doubt(t, e, "in doubt", asks("bad"))
		if err := e.Acknowledge(t.Context(), "kept"); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			age  time.Duration
			want int
		}{{2 * time.Hour, 0}, {time.Minute, 1}, {time.Minute, 0}} {
			wait(t.Context(), time.Hour/2)
			if n, err := e.Prune(t.Context(), c.age); n != c.want || err != nil {
				t.Errorf("Prune(%v) = %d, %v, want %d", c.age, n, err, c.want)
			}
		}
		want(t, results(t, e, "owed", asks("pay")), "done 2")
		doubt(t, e, "in doubt", asks("bad"))
		want(t, results(t, e, "kept", asks("pay")), "done 4") // too late: forgotten
		_, err := e.Prune(t.Context(), 0)
		certain(t, err, llm.Invalid)
	})
}

func TestCareWithoutAStoreAndWithABrokenOne(t *testing.T) {
	none := tools.New(tools.Config{})
	if list, err := none.Doubtful(t.Context(), 1); list != nil || err != nil {
		t.Errorf("Doubtful = %v, %v", list, err)
	}
	if n, err := none.Prune(t.Context(), 1); n != 0 || err != nil {
		t.Errorf("Prune = %d, %v", n, err)
	}
	if err := none.Acknowledge(t.Context(), "t"); err != nil {
		t.Error(err)
	}
	certain(t, none.MarkNotDone(t.Context(), "k"), llm.Invalid)

	broken := tools.New(tools.Config{Store: downStore{}})
	_, list := broken.Doubtful(t.Context(), 1)
	_, prune := broken.Prune(t.Context(), 1)
	for _, err := range []error{list, prune, broken.Acknowledge(t.Context(), "t"), broken.MarkNotDone(t.Context(), "k")} {
		if certain(t, err, llm.Unavailable); !errors.Is(err, errDown) {
			t.Errorf("the error is %v", err)
		}
	}
}

type downStore struct{ tools.Store }

func (downStore) Get(context.Context, string) (tools.Record, error)     { return tools.Record{}, errDown }
func (downStore) Acknowledge(context.Context, string) error             { return errDown }
func (downStore) Doubtful(context.Context, int) ([]tools.Record, error) { return nil, errDown }
func (downStore) Prune(context.Context, time.Duration) (int, error)     { return 0, errDown }

func TestWhatAStoreIsToldFitsAnyDatabase(t *testing.T) {
	var w world
	store := tools.NewMemory()
	e := tools.New(tools.Config{Store: store, Tools: []tools.Tool{w.tool("pay", tools.Unkeyed)}})
	resp := asks("pay")
	resp.ToolCalls()[0].ID = "a\x00b\xff" + strings.Repeat("é", 200)
	want(t, results(t, e, "t", resp), "done 1") // with the id as the model has it
	key, err := tools.Key("t", "pay", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Get(t.Context(), key)
	if err != nil || !strings.HasPrefix(r.CallID, "abéé") || len(r.CallID) > 256 || !utf8.ValidString(r.CallID) {
		t.Errorf("the record is %+v, %v", r, err)
	}
}
