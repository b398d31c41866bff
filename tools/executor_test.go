package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/tools"
)

// asks is an answer that asks for calls, written "name {arguments}", with ids that no other answer has.
var lastID atomic.Int64

func asks(calls ...string) *llm.Response {
	resp := &llm.Response{Stop: llm.StopToolCalls}
	for _, c := range calls {
		name, args, _ := strings.Cut(c, " ")
		resp.Parts = append(resp.Parts, llm.Part{Kind: llm.PartToolCall, Call: &llm.ToolCall{
			ID: fmt.Sprint("call_", lastID.Add(1)), Name: name, Arguments: json.RawMessage(args),
		}})
	}
	return resp
}

// A world is what tools act on: it counts.
type world struct {
	mu   sync.Mutex
	ran  int
	keys []string
}

func (w *world) act(c tools.Call) tools.Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran++
	w.keys = append(w.keys, c.Key)
	return tools.Text(fmt.Sprintf("done %d", w.ran))
}

func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ran
}

// tool is one that acts on w; edit changes it.
func (w *world) tool(name string, effect tools.Effect, edit ...func(*tools.Tool)) tools.Tool {
	t := tools.Tool{Spec: llm.Tool{Name: name}, Effect: effect, Run: func(_ context.Context, c tools.Call) (tools.Result, error) {
		return w.act(c), nil
	}}
	for _, e := range edit {
		e(&t)
	}
	return t
}

func executor(ts ...tools.Tool) *tools.Executor {
	return tools.New(tools.Config{Store: tools.NewMemory(), Tools: ts})
}

// results runs an answer and lists the texts of the results; an error of the tool's has a "!" before it.
func results(t *testing.T, e *tools.Executor, turn string, resp *llm.Response) []string {
	t.Helper()
	msg, err := e.Run(t.Context(), turn, resp)
	if err != nil {
		t.Fatalf("Run(%s): %v", turn, err)
	}
	calls := resp.ToolCalls()
	if msg.Role != llm.RoleTool || len(msg.Parts) != len(calls) {
		t.Fatalf("the message is %+v, want a result for each of %d calls", msg, len(calls))
	}
	var out []string
	for i, p := range msg.Parts {
		if p.Kind != llm.PartToolResult || p.Result.CallID != calls[i].ID || p.Result.Name != calls[i].Name {
			t.Fatalf("part %d is %+v %+v, for call %+v", i, p, p.Result, calls[i])
		}
		text := ""
		for _, q := range p.Result.Parts {
			text += q.Text
		}
		if p.Result.IsError {
			text = "!" + text
		}
		out = append(out, text)
	}
	return out
}

func want(t *testing.T, got []string, texts ...string) {
	t.Helper()
	if !reflect.DeepEqual(got, texts) {
		t.Errorf("the results are %q, want %q", got, texts)
	}
}

// doubt is the error of a run that must end in doubt.
func doubt(t *testing.T, e *tools.Executor, turn string, resp *llm.Response) *tools.DoubtError {
	t.Helper()
	_, err := e.Run(t.Context(), turn, resp)
	return inDoubt(t, err)
}

func inDoubt(t *testing.T, err error) *tools.DoubtError {
	t.Helper()
	d, ok := errors.AsType[*tools.DoubtError](err)
	if !ok {
		t.Fatalf("the error is %v, want a DoubtError", err)
	}
	if le := llm.AsError(err); le.Class != llm.Unknown || le.Commit != llm.CommitUnknown {
		t.Errorf("the doubt has class %v, commit state %v", le.Class, le.Commit)
	}
	return d
}

// certain is the error of a run that ended without an effect.
func certain(t *testing.T, err error, class llm.Class) {
	t.Helper()
	le, ok := errors.AsType[*llm.Error](err)
	if !ok || le.Class != class || le.Commit != llm.CommitNone {
		t.Errorf("the error is %v (%+v), want class %v and no commit", err, le, class)
	}
}

func TestARepeatedCallGetsTheRecordedResult(t *testing.T) {
	var w world
	e := executor(w.tool("pay", tools.Unkeyed), w.tool("refuse", tools.Keyed, func(tl *tools.Tool) {
		tl.Run = func(_ context.Context, c tools.Call) (tools.Result, error) {
			w.act(c)
			return tools.Failure("no such account"), nil
		}
	}))
	first := results(t, e, "turn 1", asks(`pay {"to":"a","n":1}`, `refuse {}`))
	want(t, first, "done 1", "!no such account")
	// Other ids, another order of fields, another way to write a number: the same calls.
	want(t, results(t, e, "turn 1", asks(`pay { "n": 1.0, "to": "\u0061" }`, `refuse`)), first...)
	if w.count() != 2 {
		t.Errorf("%d runs, want 2", w.count())
	}
	want(t, results(t, e, "turn 2", asks(`pay {"to":"a","n":1}`)), "done 3")
	want(t, results(t, e, "turn 1", asks(`pay {"to":"a","n":2}`)), "done 4")
}

func TestOnePartOfARecordedResultIsAsGoodAsAnother(t *testing.T) {
	rich := tools.Result{Parts: []llm.Part{llm.Text("a"), {Kind: llm.PartImage, Data: []byte{0, 1, 255}, MIME: "image/png"},
		{Kind: llm.PartFile, URL: "https://example.com/x", Name: "x", Extra: map[string]json.RawMessage{"p": json.RawMessage(`{"a":1}`)}}}}
	e := executor(tools.Tool{Spec: llm.Tool{Name: "draw"}, Run: func(context.Context, tools.Call) (tools.Result, error) { return rich, nil }})
	for range 2 {
		msg, err := e.Run(t.Context(), "t", asks("draw"))
		if err != nil || !reflect.DeepEqual(msg.Parts[0].Result.Parts, rich.Parts) {
			t.Errorf("%+v, %v", msg.Parts[0].Result.Parts, err)
		}
	}
}

func TestTwoIdenticalCallsOfOneAnswerAreTwo(t *testing.T) {
	var w world
	e := executor(w.tool("coffee", tools.Unkeyed))
	want(t, results(t, e, "t", asks(`coffee {}`, `coffee {"milk":true}`, `coffee`)), "done 1", "done 2", "done 3")
	want(t, results(t, e, "t", asks(`coffee {}`, `coffee {"milk":true}`, `coffee`)), "done 1", "done 2", "done 3")
}

func TestWhatChangesNothingIsRunEachTime(t *testing.T) {
	var w world
	e := tools.New(tools.Config{Tools: []tools.Tool{w.tool("look", tools.ReadOnly)}}) // without a store
	want(t, results(t, e, "t", asks("look")), "done 1")
	want(t, results(t, e, "t", asks("look")), "done 2")
	failing := executor(w.tool("look", tools.ReadOnly, func(tl *tools.Tool) {
		tl.Run = func(context.Context, tools.Call) (tools.Result, error) { return tools.Result{}, llm.RateLimited }
	}))
	_, err := failing.Run(t.Context(), "t", asks("look"))
	certain(t, err, llm.RateLimited)
}

func TestTheModelIsToldOfItsOwnMistakes(t *testing.T) {
	var w world
	e := executor(w.tool("pay", tools.Unkeyed))
	got := results(t, e, "t", asks("fly {}", "pay [1]", `pay {"a":1,"a":2}`, `pay {"n":9007199254740993}`, `pay {"ok":1}`))
	for i, part := range []string{"!There is no tool called \"fly\"", "!pay was not run: the arguments must be one JSON object",
		"!pay was not run: the arguments are not a JSON object that can be told from others: Duplicate key", "write it as a string", "done 1"} {
		if !strings.Contains(got[i], part) {
			t.Errorf("result %d is %q, want %q in it", i, got[i], part)
		}
	}
}

func TestWhatIsNoAnswerWithCallsIsNotRun(t *testing.T) {
	var w world
	e := executor(w.tool("pay", tools.Unkeyed))
	refused, stale := asks("pay"), asks("pay")
	refused.Stop, stale.Degraded = llm.StopFiltered, true
	for _, c := range []struct {
		name, turn string
		resp       *llm.Response
	}{
		{"no calls", "t", &llm.Response{}}, {"nil", "t", nil}, {"no turn", "", asks("pay")}, {"a long turn", strings.Repeat("t", 513), asks("pay")},
		{"a turn that is no text", "\xff", asks("pay")}, {"a turn with a zero", "a\x00", asks("pay")},
		{"refused", "t", refused}, {"a stand-in", "t", stale},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := e.Run(t.Context(), c.turn, c.resp)
			certain(t, err, llm.Invalid)
		})
	}
	if w.count() != 0 {
		t.Errorf("%d runs", w.count())
	}
}

func TestCallsRunBesideEachOtherOnlyWhereTheirToolsSaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		var now, most atomic.Int32
		slow := func(parallel bool) func(*tools.Tool) {
			return func(tl *tools.Tool) {
				tl.Parallel = parallel
				tl.Run = func(ctx context.Context, c tools.Call) (tools.Result, error) {
					most.Store(max(most.Load(), now.Add(1)))
					defer now.Add(-1)
					wait(ctx, time.Second)
					return w.act(c), nil
				}
			}
		}
		e := tools.New(tools.Config{Store: tools.NewMemory(), MaxParallel: 3, Tools: []tools.Tool{
			w.tool("many", tools.Keyed, slow(true)), w.tool("one", tools.Keyed, slow(false)),
		}})
		for _, c := range []struct {
			calls []string
			took  time.Duration
			most  int32
		}{
			{[]string{"many", "many", "nothing", "many"}, time.Second, 3},
			{[]string{"many", "many", "many", "many"}, 2 * time.Second, 3},
			{[]string{"one", "one", "one"}, 3 * time.Second, 1},
			{[]string{"many", "many", "one", "many", "many"}, 3 * time.Second, 2},
		} {
			most.Store(0)
			began := time.Now()
			results(t, e, fmt.Sprint(c), asks(c.calls...))
			if took := time.Since(began); took != c.took || most.Load() != c.most {
				t.Errorf("%q took %v with %d at once, want %v with %d", c.calls, took, most.Load(), c.took, c.most)
			}
		}
	})
}

// wait is a tool at work.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func TestAFailureEndsTheTurnAndNoOtherCall(t *testing.T) {
	var w world
	beside := func(tl *tools.Tool) { tl.Parallel = true }
	bad := func(tl *tools.Tool) {
		tl.Run = func(context.Context, tools.Call) (tools.Result, error) {
			return tools.Result{}, errors.New("lost the connection")
		}
	}
	store := tools.NewMemory()
	broken := tools.New(tools.Config{Store: store, Tools: []tools.Tool{
		w.tool("pay", tools.Unkeyed, beside), w.tool("bad", tools.Unkeyed, beside, bad), w.tool("last", tools.Unkeyed),
	}})
	resp := asks(`bad {"n":1}`, "pay", `bad {"n":2}`, "last")
	_, err := broken.Run(t.Context(), "t", resp)
	inDoubt(t, err)
	if !strings.Contains(err.Error(), "2 calls failed") || w.count() != 1 {
		t.Errorf("after %d effects: %v", w.count(), err)
	}
	open, err := broken.Doubtful(t.Context(), 10)
	if err != nil || len(open) != 2 {
		t.Fatalf("%d in doubt, %v, want 2", len(open), err)
	}
	for _, r := range open {
		if err := broken.MarkDone(t.Context(), r.Key, tools.Text("found "+r.Tool)); err != nil {
			t.Fatal(err)
		}
	}
	want(t, results(t, broken, "t", resp), "found bad", "done 1", "found bad", "done 2")
}

func TestNonsenseIsRefusedAtConstruction(t *testing.T) {
	run := func(context.Context, tools.Call) (tools.Result, error) { return tools.Result{}, nil }
	tool := func(edit func(*tools.Tool)) tools.Config {
		tl := tools.Tool{Spec: llm.Tool{Name: "x"}, Run: run}
		edit(&tl)
		return tools.Config{Store: tools.NewMemory(), Tools: []tools.Tool{tl}}
	}
	ok := tools.Tool{Spec: llm.Tool{Name: "x"}, Run: run}
	for says, cfg := range map[string]tools.Config{
		"has no name":                 tool(func(tl *tools.Tool) { tl.Spec.Name = "" }),
		"bytes that are no text":      tool(func(tl *tools.Tool) { tl.Spec.Name = "a\x00" }),
		"has no Run":                  tool(func(tl *tools.Tool) { tl.Run = nil }),
		"has Effect 9":                tool(func(tl *tools.Tool) { tl.Effect = 9 }),
		"never in doubt":              tool(func(tl *tools.Tool) { tl.Effect, tl.Reconcile = tools.ReadOnly, run }),
		"has Timeout -1s":             tool(func(tl *tools.Tool) { tl.Timeout = -time.Second }),
		"Parameters that are no JSON": tool(func(tl *tools.Tool) { tl.Spec.Parameters = json.RawMessage("{") }),
		"two tools are called":        {Store: tools.NewMemory(), Tools: []tools.Tool{ok, ok}},
		"there is no Store":           {Tools: []tools.Tool{ok}},
		"Lease -1s":                   {Lease: -time.Second},
		"more than half of Lease":     {Lease: time.Second, StoreTimeout: time.Second},
		"MaxResult 5":                 {MaxResult: 5},
		"MaxParallel -1":              {MaxParallel: -1},
	} {
		t.Run(says, func(t *testing.T) {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.Contains(p, says) || !strings.HasPrefix(p, "llm/tools: New: ") {
					t.Errorf("it panicked with %q", p)
				}
			}()
			tools.New(cfg)
		})
	}
}

func TestSpecsAreInOrderAndBelongToTheCaller(t *testing.T) {
	var w world
	e := executor(w.tool("b", tools.Keyed), w.tool("a", tools.ReadOnly))
	specs := e.Specs()
	specs[0].Name = "changed"
	if got := e.Specs(); len(got) != 2 || got[0].Name != "b" || got[1].Name != "a" {
		t.Errorf("Specs = %+v", got)
	}
}

func TestResultsThatAreTooBigOrUnfitSaySo(t *testing.T) {
	var w world
	var give tools.Result
	e := tools.New(tools.Config{Store: tools.NewMemory(), MaxResult: 2000, Tools: []tools.Tool{
		{Spec: llm.Tool{Name: "big"}, Run: func(_ context.Context, c tools.Call) (tools.Result, error) {
			w.act(c)
			return give, nil
		}},
	}})
	for name, c := range map[string]struct {
		result tools.Result
		says   string
	}{
		"long":         {tools.Text("begin" + strings.Repeat("é", 5000)), "which has 10"},
		"control":      {tools.Text("begin" + strings.Repeat("\x01", 5000)), "which has 30"},
		"an image":     {tools.Result{Parts: []llm.Part{llm.Text("begin"), {Kind: llm.PartImage, Data: make([]byte, 9000)}}}, "which has 12"},
		"broken extra": {tools.Result{Parts: []llm.Part{{Text: "begin", Kind: llm.PartText, Extra: map[string]json.RawMessage{"p": json.RawMessage("{")}}}}, "no valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			give = c.result
			give.IsError = name == "long"
			before := w.count()
			first := results(t, e, name, asks("big"))
			text := strings.TrimPrefix(first[0], "!")
			if !strings.HasPrefix(text, "begin") || !strings.Contains(text, c.says) || len(text) > 2000 || give.IsError == (text == first[0]) {
				t.Errorf("the result is %q, want %q in it", first[0], c.says)
			}
			want(t, results(t, e, name, asks("big")), first...)
			if w.count() != before+1 {
				t.Errorf("%d runs", w.count()-before)
			}
		})
	}
}

func TestPanicsAndLostGoroutinesAreErrors(t *testing.T) {
	for name, run := range map[string]func(context.Context, tools.Call) (tools.Result, error){
		"the tool panicked: oops":      func(context.Context, tools.Call) (tools.Result, error) { panic("oops") },
		"the tool ended its goroutine": func(context.Context, tools.Call) (tools.Result, error) { runtime.Goexit(); return tools.Result{}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			e := executor(tools.Tool{Spec: llm.Tool{Name: "act"}, Run: run}, tools.Tool{Spec: llm.Tool{Name: "look"}, Run: run, Effect: tools.ReadOnly})
			d := doubt(t, e, "t", asks("act"))
			if d.Again || !strings.Contains(d.Error(), name) || !strings.Contains(d.Error(), "MarkDone") {
				t.Errorf("the doubt is %v", d)
			}
			_, err := e.Run(t.Context(), "t", asks("look"))
			certain(t, err, llm.Unknown)
			if !strings.Contains(err.Error(), name) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// What a tool returned and what is recorded of it may differ in how it is written. All runs of the turn get the same.
func TestTheFirstRunGetsWhatTheNextOnesGet(t *testing.T) {
	odd := []llm.Part{
		llm.Text("ok\x00\xff"),
		{Kind: llm.PartText, Text: "x", Extra: map[string]json.RawMessage{"a": json.RawMessage("{ \"b\" :\n 1, \"c\": \"<&>\" }"), "d": nil}},
		{Kind: llm.PartFile, Name: "\xc3", Data: []byte{}, MIME: "text/plain"},
		{Kind: llm.PartToolCall, Call: &llm.ToolCall{ID: "\xfe", Arguments: json.RawMessage(" 1.0 ")}},
	}
	result := tools.Result{Parts: odd}
	run := func(context.Context, tools.Call) (tools.Result, error) { return result, nil }
	e := executor(tools.Tool{Spec: llm.Tool{Name: "write"}, Run: run}, tools.Tool{Spec: llm.Tool{Name: "read"}, Run: run, Effect: tools.ReadOnly})
	first, err := e.Run(t.Context(), "turn", asks("write {}", "read {}"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := e.Run(t.Context(), "turn", asks("write {}", "read {}"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range first.Parts {
		a, b := first.Parts[i].Result.Parts, second.Parts[i].Result.Parts
		if !reflect.DeepEqual(a, b) || a[0].Text != "ok\x00\uFFFD" {
			t.Errorf("call %d: first %+v, then %+v", i, a, b)
		}
	}
	// Each level is JSON, and all of them are deeper than what is read.
	deep := strings.Repeat("[", 9999) + strings.Repeat("]", 9999)
	result = tools.Result{Parts: []llm.Part{{Kind: llm.PartText, Extra: map[string]json.RawMessage{"a": json.RawMessage(deep)}}}}
	want(t, results(t, e, "deep", asks("write {}")), results(t, e, "deep", asks("write {}"))...)
	result = tools.Result{Parts: []llm.Part{}}
	none := results(t, e, "empty", asks("write {}"))
	want(t, results(t, e, "empty", asks("write {}")), none...)
}
