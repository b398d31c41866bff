package llmtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelchain/llm"
)

func pieces(texts ...string) (ds []llm.Delta) {
	for _, text := range texts {
		ds = append(ds, llm.Delta{Text: text})
	}
	return ds
}

// Each way to misuse a sink, by a script or by hand, is found and said.
func TestRecorderFindsWhatBreaksTheContractOfASink(t *testing.T) {
	look := llm.Delta{Kind: llm.DeltaToolCall, Call: &llm.ToolCallDelta{ID: "c1", Name: "look", Arguments: `{"a":1}`}}
	errFull := errors.New("full")
	for name, c := range map[string]struct {
		step Step
		each func(int, llm.Delta) error
		says string
	}{
		"nothing wrong":            {step: Step{Deltas: append(pieces("a", "b"), look)}},
		"an answer in one piece":   {step: Text("whole")},
		"a sink that fails":        {step: Step{Deltas: pieces("a", "b")}, each: func(int, llm.Delta) error { return errFull }},
		"late":                     {step: Step{Deltas: pieces("a"), Misuse: LateSink}, says: "delta 1 after the call had returned"},
		"another goroutine":        {step: Step{Deltas: pieces("a"), Misuse: ForeignSink}, says: "delta 0 from another goroutine"},
		"another one, in one":      {step: Step{Text: "a", Misuse: ForeignSink}, says: "delta 0 from another goroutine"},
		"texts written to":         {step: Step{Deltas: pieces("aaa", "bbb"), Misuse: ReusedDeltas}, says: `delta 0 was "aaa" and has been written to: "bbb"`},
		"calls written to":         {step: Step{Deltas: []llm.Delta{look, {Kind: llm.DeltaToolCall, Index: 1, Call: &llm.ToolCallDelta{Name: "x"}}}, Misuse: ReusedDeltas}, says: "delta 0 was"},
		"a sink that is not heard": {step: Step{Deltas: pieces("a", "b"), Misuse: DeafSink}, each: func(int, llm.Delta) error { return errFull }, says: "delta 1 after it had failed"},
		"another text":             {step: Step{Deltas: pieces("a"), Response: textResponse("b")}, says: `the deltas add up to "a", the Response is "b"`},
		"another call":             {step: Step{Deltas: []llm.Delta{look}, Response: &llm.Response{}}, says: `the tool calls [look({"a":1})], the Response has []`},
		"nothing":                  {step: Step{Deltas: pieces("")}, says: "delta 0, of kind text, carries nothing"},
		"an empty call":            {step: Step{Deltas: []llm.Delta{{Kind: llm.DeltaToolCall}}}, says: "delta 0, of kind tool_call, carries nothing"},
		"an end":                   {step: Step{Deltas: []llm.Delta{{Kind: llm.DeltaEnd, Text: "x"}}, Text: "x"}, says: "of kind end"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := Script(c.step)
				r := &Recorder{Each: c.each}
				_, err := r.Call(t.Context(), m, stageRequest())
				if c.each != nil && c.says == "" && !errors.Is(err, errFull) {
					t.Errorf("the sink's error became %v", err)
				}
				m.Release()
				h := &heard{TB: t}
				r.Check(h)
				said := strings.Join(h.said, "; ")
				if (said == "") != (c.says == "") || !strings.Contains(said, c.says) {
					t.Errorf("found %q, want %q", said, c.says)
				}
			})
		})
	}
}

func TestRecorderFindsDeltasThatComeTwoAtATime(t *testing.T) {
	r := &Recorder{}
	var sink llm.Sink
	r.Each = func(n int, _ llm.Delta) error {
		if n == 0 {
			return sink(llm.Delta{Text: "within"})
		}
		return nil
	}
	_, err := r.Call(t.Context(), llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
		sink = req.Sink
		return textResponse("ab"), req.Sink(llm.Delta{Text: "a"})
	}), stageRequest())
	if f := r.Faults(); len(f) == 0 || !strings.Contains(f[0], "delta 1 while it had another") {
		t.Errorf("found %q, error %v", f, err)
	}
}

func TestRecorderGivesWhatWasSaid(t *testing.T) {
	r := &Recorder{}
	resp, err := r.Call(t.Context(), Script(Step{Deltas: stageDeltas(), Response: stageAnswer()}), stageRequest())
	if err != nil || r.Text() != resp.Text() || len(r.ToolCalls()) != 1 || len(r.Deltas()) != len(stageDeltas()) {
		t.Errorf("text %q, calls %v, %d deltas, %v", r.Text(), r.ToolCalls(), len(r.Deltas()), err)
	}
	r.Check(t)
	if _, err := (&Recorder{}).Call(t.Context(), Script(), nil); !errors.Is(err, llm.Invalid) {
		t.Errorf("a nil request became %v", err)
	}
}
