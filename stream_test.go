package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

func deltas(texts ...string) []llm.Delta {
	var ds []llm.Delta
	for _, s := range texts {
		ds = append(ds, llm.Delta{Text: s})
	}
	return ds
}

func TestStreamYieldsThePiecesThenTheWholeAnswer(t *testing.T) {
	d := &llm.Deployment{Name: "d", Caller: llmtest.Script(llmtest.Step{Deltas: deltas("Hel", "lo")})}
	var got []string
	for delta, err := range llm.Stream(t.Context(), d, ask()) {
		if err != nil {
			t.Fatal(err)
		}
		if delta.Kind == llm.DeltaEnd {
			got = append(got, "end:"+delta.Response.Text()+":"+delta.Response.Deployment)
			continue
		}
		got = append(got, delta.Text)
	}
	if want := []string{"Hel", "lo", "end:Hello:d"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestStreamEndsWithTheError(t *testing.T) {
	d := &llm.Deployment{Name: "d", Caller: llmtest.Script(llmtest.Step{Deltas: deltas("x"), Err: llm.Unavailable})}
	n := 0
	var last error
	for _, err := range llm.Stream(t.Context(), d, ask()) {
		n++
		last = err
	}
	if n != 2 || !errors.Is(last, llm.Interrupted) {
		t.Errorf("%d elements, the last with %v", n, last)
	}
}

// A stage may swallow the sink's error and call it again; yielding then would make the range statement panic
// (firebase/genkit#5485, googleapis/go-genai#310).
func TestLeavingTheLoopEndsTheStreamEvenIfAStageSwallowsTheSinksError(t *testing.T) {
	calls := 0
	stubborn := llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
		for range 5 {
			calls++
			_ = req.Sink(llm.Delta{Text: "x"})
		}
		return &llm.Response{}, nil
	})
	n := 0
	for range llm.Stream(t.Context(), stubborn, ask()) {
		n++
		break
	}
	if n != 1 || calls != 5 {
		t.Errorf("%d elements, %d sink calls", n, calls)
	}
}

func TestAStreamCanBeRangedOverOnce(t *testing.T) {
	model := llmtest.Script()
	s := llm.Stream(t.Context(), model, ask())
	for range s {
		continue
	}
	var again error
	for _, err := range s {
		again = err
	}
	if again == nil || model.Count() != 1 {
		t.Errorf("the second loop gave %v and %d calls in all", again, model.Count())
	}
	for _, err := range llm.Stream(t.Context(), model, nil) {
		if !errors.Is(err, llm.Invalid) {
			t.Errorf("nil request: %v", err)
		}
	}
}

func TestWatchCountsOnlyWhatItsOwnCallerWasHanded(t *testing.T) {
	handed := 0
	req := ask()
	req.Sink = func(llm.Delta) error { handed++; return nil }
	outer, seen := req.Watch()
	held := outer.Clone()
	held.Sink = func(llm.Delta) error { return nil } // a buffer that holds everything back
	inner, within := held.Watch()
	if err := inner.Sink(llm.Delta{Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if within.Deltas() != 1 || seen.Deltas() != 0 || handed != 0 {
		t.Errorf("inner %d, outer %d, handed %d; want 1, 0, 0", within.Deltas(), seen.Deltas(), handed)
	}
	if err := outer.Sink(llm.Delta{Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if seen.Deltas() != 1 || handed != 1 {
		t.Errorf("outer %d, handed %d; want 1, 1", seen.Deltas(), handed)
	}
	plain, none := ask().Watch()
	if plain == nil || none.Deltas() != 0 {
		t.Error("a request without a sink is not watched")
	}
	if r, p := (*llm.Request)(nil).Watch(); r != nil || p.Deltas() != 0 {
		t.Error("a nil request is not handed on as nil")
	}
}

func TestEmitWholeAndAccumulatorAreInverse(t *testing.T) {
	whole := &llm.Response{
		Parts: []llm.Part{
			{Kind: llm.PartReasoning, Text: "hm"}, llm.Text("first"),
			{Kind: llm.PartToolCall, Call: &llm.ToolCall{ID: "1", Name: "f", Arguments: json.RawMessage(`{"a":1}`)}},
			llm.Text("second"),
			{Kind: llm.PartToolCall, Call: &llm.ToolCall{ID: "2", Name: "g", Arguments: json.RawMessage(`{}`)}},
		},
		Refusal: "but no",
	}
	var acc llm.Accumulator
	req := ask()
	req.Sink = func(d llm.Delta) error { acc.Add(d); return nil }
	if err := llm.EmitWhole(req, whole); err != nil {
		t.Fatal(err)
	}
	if got := acc.Response(); !reflect.DeepEqual(got, whole) {
		t.Errorf("got %+v\nwant %+v", got, whole)
	}
	if err := llm.EmitWhole(ask(), whole); err != nil {
		t.Errorf("without a sink: %v", err)
	}
}

func TestAccumulatorPutsInterleavedFragmentsTogether(t *testing.T) {
	var acc llm.Accumulator
	if acc.Partial() != nil {
		t.Error("nothing added, yet there is a part")
	}
	for _, d := range []llm.Delta{
		{Kind: llm.DeltaToolCall, Index: 0, Call: &llm.ToolCallDelta{ID: "a", Name: "f", Arguments: `{"x"`}},
		{Kind: llm.DeltaToolCall, Index: 1, Call: &llm.ToolCallDelta{ID: "b", Name: "g"}},
		{Kind: llm.DeltaToolCall, Index: 0, Call: &llm.ToolCallDelta{Arguments: `:1}`}},
		{Kind: llm.DeltaToolCall, Index: 1, Call: &llm.ToolCallDelta{Arguments: `{"y":`}},
		{Kind: llm.DeltaText, Text: "t"},
	} {
		acc.Add(d)
	}
	calls := acc.Response().ToolCalls()
	if len(calls) != 2 || string(calls[0].Arguments) != `{"x":1}` || calls[1].ID != "b" {
		t.Errorf("calls %+v", calls)
	}
	partial := acc.Partial()
	if got := partial.ToolCalls(); len(got) != 1 || got[0].Name != "f" || partial.Text() != "t" {
		t.Errorf("the partial answer has %+v and %q; a call with half its arguments must not be in it", got, partial.Text())
	}
}

// A provider may number its calls when it announces them and send the arguments of the second one first.
func TestAccumulatorOrdersPartsOfAKindByTheirIndex(t *testing.T) {
	var acc llm.Accumulator
	call := func(index int, name, arguments string) {
		acc.Add(llm.Delta{Kind: llm.DeltaToolCall, Index: index, Call: &llm.ToolCallDelta{Name: name, Arguments: arguments}})
	}
	call(2, "c", `{"z"`)
	acc.Add(llm.Delta{Kind: llm.DeltaText, Text: "t"})
	call(0, "a", `{"x"`)
	call(2, "", `:3}`)
	call(1, "b", `{"y":2}`)
	call(0, "", `:1}`)
	var got []string
	for _, p := range acc.Response().Parts {
		if p.Call == nil {
			got = append(got, p.Text)
			continue
		}
		got = append(got, p.Call.Name+string(p.Call.Arguments))
	}
	if want := []string{`a{"x":1}`, `b{"y":2}`, `c{"z":3}`, "t"}; !slices.Equal(got, want) {
		t.Errorf("parts %q, want %q", got, want)
	}
}

func TestClonesShareTheAccount(t *testing.T) {
	req, _ := ask().Watch()
	clone := req.Clone()
	clone.Skipped(&llm.Error{Class: llm.Cooling, Deployment: "d"})
	as := req.Attempts()
	if len(as) != 1 || as[0].Deployment != "d" || as[0].Skipped == "" {
		t.Errorf("account %+v", as)
	}
}

func TestStagesWithNothingBetweenThemShareACounterButNotACount(t *testing.T) {
	req := ask()
	req.Sink = func(llm.Delta) error { return nil }
	r, outer := req.Watch()
	_ = r.Sink(llm.Delta{Text: "x"})
	same, inner := r.Watch()
	if same != r || inner.Deltas() != 0 || outer.Deltas() != 1 {
		t.Errorf("same request %v, inner %d, outer %d; want the same, 0 and 1", same == r, inner.Deltas(), outer.Deltas())
	}
	var order []string
	outer.OnNext(func() { order = append(order, "first") })
	inner.OnNext(func() { order = append(order, "second") })
	_ = r.Sink(llm.Delta{Text: "y"})
	_ = r.Sink(llm.Delta{Text: "z"})
	if inner.Deltas() != 2 || outer.Deltas() != 3 || !reflect.DeepEqual(order, []string{"first", "second"}) {
		t.Errorf("inner %d, outer %d, hooks %v; want 2, 3 and each once", inner.Deltas(), outer.Deltas(), order)
	}
	(llm.Progress{}).OnNext(func() { t.Error("called without a sink") })
}
