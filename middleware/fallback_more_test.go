package middleware_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func TestFallbackTriesDoubledCallersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := llmtest.Fail(status(llm.Unavailable, 503, "down"))
		p, f := llmtest.Script(down), llmtest.Script(down)
		dep, other := fallbackDep("p", p), fallbackDep("p", p)
		retried := middleware.Retry(middleware.RetryConfig{Max: 1}).Wrap(other)
		for name, chat := range map[string]llm.Caller{
			"the same Caller":             fallbackTo(dep, dep, fallbackDep("f", f)),
			"another around it":           fallbackTo(dep, other, middleware.Route{Caller: retried}, fallbackDep("f", f)),
			"in a nested fallback":        fallbackTo(dep, fallbackTo(other, fallbackDep("f", f))),
			"after a nested fallback":     fallbackTo(fallbackTo(dep, fallbackDep("f", f)), other),
			"a nested fallback, twice":    fallbackTo(fallbackTo(dep, fallbackDep("f", f)), fallbackTo(dep, fallbackDep("f", f))),
			"a model that is no leaf":     fallbackTo(p, p, f, f),
			"nested in one that is twice": fallbackTo(dep, fallbackTo(other, fallbackTo(other, fallbackDep("f", f), other))),
		} {
			before := [2]int{p.Count(), f.Count()}
			_, err := llm.New().Then(chat).Call(t.Context(), fallbackAsk())
			if p.Count()-before[0] != 1 || f.Count()-before[1] != 1 {
				t.Errorf("%s: %d and %d calls", name, p.Count()-before[0], f.Count()-before[1])
			}
			e := fallbackError(t, err)
			if e.Class != llm.Unavailable || strings.Contains(e.Error(), "already tried") {
				t.Errorf("%s: %v", name, err)
			}
			if name == "after a nested fallback" && len(e.Attempts) != 2 {
				t.Errorf("%s: account %q", name, fallbackRows(e.Attempts))
			}
		}
	})
}

func TestFallbackReachedThroughItselfTriesEachOnce(t *testing.T) {
	a, b := llmtest.Script(llmtest.Fail(llm.Unavailable)), llmtest.Script(llmtest.Fail(llm.Overloaded))
	depA, depB := fallbackDep("a", a), fallbackDep("b", b)
	// link is a Caller that does not say what is behind it.
	link := func(to *llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, r *llm.Request) (*llm.Response, error) { return (*to).Call(ctx, r) })
	}
	var self, behind, one, two, hidden llm.Caller
	self = fallbackTo(depA, link(&self), depB)
	behind = fallbackTo(link(&behind), depA, depB)
	one, two = fallbackTo(depA, link(&two)), fallbackTo(depB, link(&one))
	hidden = fallbackTo(fallbackTo(link(&hidden), depA), depB)
	for name, c := range map[string]llm.Caller{"itself": self, "first": behind, "over another": one, "deeper": hidden} {
		before := [2]int{a.Count(), b.Count()}
		_, err := llm.New().Then(c).Call(t.Context(), fallbackAsk())
		if a.Count()-before[0] != 1 || b.Count()-before[1] != 1 || llm.ClassOf(err) != llm.Overloaded {
			t.Errorf("%s: %d and %d calls, %v", name, a.Count()-before[0], b.Count()-before[1], err)
		}
	}
}

// A model behind a Deployment that leads back is not foreseen, but it must not run for ever.
func TestFallbackEndsACycleThroughADeployment(t *testing.T) {
	var chat llm.Caller
	calls := 0
	chat = fallbackTo(fallbackDep("a", llm.CallerFunc(func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		calls++
		return chat.Call(ctx, r)
	})), fallbackDep("b", llmtest.Script(llmtest.Fail(llm.Unavailable))))
	_, err := llm.New().Then(chat).Call(t.Context(), fallbackAsk())
	if err == nil || calls > 2 {
		t.Errorf("%d calls, error %v", calls, err)
	}
}

func TestFallbackEndsACycleThatLosesItsContext(t *testing.T) {
	var chat llm.Caller
	down := llmtest.Script(llmtest.Fail(llm.Unavailable))
	chat = fallbackTo(fallbackDep("a", down), llm.CallerFunc(func(_ context.Context, r *llm.Request) (*llm.Response, error) {
		return chat.Call(context.Background(), r) //nolint:usetesting // it is lost on purpose
	}))
	_, err := llm.New().Then(chat).Call(t.Context(), fallbackAsk())
	if llm.ClassOf(err) != llm.Unavailable || down.Count() > 200 {
		t.Errorf("%d calls, error %v", down.Count(), llm.ClassOf(err))
	}
}

func TestFallbackUnderARetryMayTryAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := llmtest.Script(llmtest.Fail(llm.Unavailable)), llmtest.Script(llmtest.Fail(llm.Unavailable))
		retried := func(n int) llm.Chain { return llm.New(middleware.Retry(middleware.RetryConfig{Max: n})) }
		chat := retried(1).Then(fallbackTo(retried(2).Then(fallbackDep("p", p)), fallbackDep("f", f)))
		if _, err := chat.Call(t.Context(), fallbackAsk()); err == nil || p.Count() != 6 || f.Count() != 2 {
			t.Errorf("%d and %d calls, want 2 times 3 and 2 times 1: %v", p.Count(), f.Count(), err)
		}
		req := fallbackAsk()
		req.MaxAttempts = 5
		_, err := chat.Call(t.Context(), req)
		if total := p.Count() + f.Count() - 8; total != 5 {
			t.Errorf("%d calls beyond the bound of 5: %v", total, err)
		}
	})
}

func TestFallbackStreams(t *testing.T) {
	cut := &llm.Error{Class: llm.Interrupted, Message: "cut"}
	words := []llm.Delta{{Text: "a"}, {Text: "b"}}
	for _, test := range []struct {
		name  string
		p     llmtest.Step
		want  string
		class llm.Class
	}{
		{"moves while nothing was handed out", llmtest.Step{Deltas: []llm.Delta{}, Err: cut}, "from f", 0},
		{"does not move after the first delta", llmtest.Step{Deltas: words, Err: cut}, "ab", llm.Interrupted},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := llmtest.Script(llmtest.Text("from f"))
			chat := llm.New().Then(fallbackTo(fallbackDep("p", llmtest.Script(test.p)), fallbackDep("f", f)))
			text := ""
			var failure error
			for d, err := range llm.Stream(t.Context(), chat, fallbackAsk()) {
				text += d.Text
				failure = err
			}
			if text != test.want || (failure == nil) != (test.class == 0) {
				t.Fatalf("%q, %v", text, failure)
			}
			if failure == nil {
				return
			}
			e := fallbackError(t, failure)
			if e.Class != test.class || e.Partial == nil || e.Deployment != "p" || f.Count() != 0 {
				t.Errorf("%+v after %d calls of f", e, f.Count())
			}
		})
	}
}

func TestFallbackSaysThatPartOfTheAnswerIsOut(t *testing.T) {
	plain := llm.CallerFunc(func(_ context.Context, r *llm.Request) (*llm.Response, error) {
		return nil, errors.Join(r.Sink(llm.Delta{Text: "a"}), status(llm.Unavailable, 503, "down"))
	})
	f := llmtest.Script()
	req := fallbackAsk()
	req.Sink = func(llm.Delta) error { return nil }
	_, err := fallbackTo(plain, fallbackDep("f", f)).Call(t.Context(), req)
	if e := fallbackError(t, err); e.Partial == nil || e.Commit != llm.Committed || f.Count() != 0 {
		t.Errorf("%+v after %d calls of f", e, f.Count())
	}
}

func TestFallbackNeverBlamesTheNextForAStreamThatWasCut(t *testing.T) {
	p := llmtest.Script(llmtest.Step{Deltas: []llm.Delta{{Text: "half an ans"}}, Err: llm.Unavailable})
	f := llmtest.Script(llmtest.Fail(status(llm.Invalid, 400, "ends with an assistant message")))
	req := fallbackAsk()
	req.Sink = func(llm.Delta) error { return nil }
	_, err := fallbackTo(fallbackDep("p", p), fallbackDep("f", f)).Call(t.Context(), req)
	if e := fallbackError(t, err); e.Class != llm.Interrupted || !errors.Is(err, llm.Unavailable) || f.Count() != 0 || e.Deployment != "p" {
		t.Errorf("%v after %d calls of f", err, f.Count())
	}
	// What P wrote is not added to what F is asked.
	p = llmtest.Script(llmtest.Step{Deltas: []llm.Delta{}, Err: llm.Interrupted})
	if _, err = fallbackTo(fallbackDep("p", p), fallbackDep("f", f)).Call(t.Context(), req); llm.ClassOf(err) != llm.Invalid {
		t.Error(err)
	}
	if got := f.Calls()[0].Request.Messages; len(got) != 1 || got[0].Role != llm.RoleUser {
		t.Errorf("f was asked %+v", got)
	}
}

func TestFallbackWithASinkThatFailsDoesNotMove(t *testing.T) {
	full := errors.New("disk full")
	f := llmtest.Script()
	req := fallbackAsk()
	req.Sink = func(llm.Delta) error { return full }
	_, err := fallbackTo(fallbackDep("p", llmtest.Script()), fallbackDep("f", f)).Call(t.Context(), req)
	if !errors.Is(err, full) || f.Count() != 0 {
		t.Errorf("%v after %d calls of f", err, f.Count())
	}
}

func TestFallbackCountsNothingAsAnAnswer(t *testing.T) {
	nothing := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return nil, nil })
	resp, err := fallbackTo(nothing, fallbackDep("f", llmtest.Script())).Call(t.Context(), fallbackAsk())
	if err != nil || resp.Deployment != "f" {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestFallbackGoesOnPastADeploymentThatAGateHoldsBack(t *testing.T) {
	gate := &fallbackGate{closed: "f"}
	f, g, between := llmtest.Script(), llmtest.Script(), 0
	counting := llm.New(llm.Stage{Name: "counting", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
			between++
			return next.Call(ctx, r)
		})
	}})
	req := fallbackAsk().Accounted()
	req.Enforce(gate)
	resp, err := llm.New().Then(fallbackTo(fallbackDep("p", llmtest.Script(llmtest.Fail(llm.Unavailable))),
		counting.Then(fallbackDep("f", f)), fallbackDep("g", g))).Call(t.Context(), req)
	if err != nil || resp.Deployment != "g" || f.Count() != 0 {
		t.Fatalf("%v, %v", resp, err)
	}
	if between != 0 {
		t.Error("the stages around f were asked in vain")
	}
	if got := fallbackRows(resp.Attempts); got != "p f(closed) g" {
		t.Errorf("account %q", got)
	}
	gate.closed = "" // for all
	_, err = llm.New().Then(fallbackTo(llmtest.Script(llmtest.Fail(llm.Unavailable)), fallbackDep("f", f), g)).Call(t.Context(), req)
	if f.Count() != 0 || g.Count() != 1 || llm.ClassOf(err) != llm.Unavailable {
		t.Errorf("a closed call: %d and %d calls, %v", f.Count(), g.Count(), err)
	}
}

// fallbackGate holds back one deployment, or, without a name, everything.
type fallbackGate struct {
	llm.OpenGate
	closed string
}

func (g *fallbackGate) Ask(_ context.Context, _ *llm.Request, d *llm.Deployment, _ time.Time) error {
	if g.closed == "" || d != nil && d.Name == g.closed {
		return &llm.Error{Class: llm.Exhausted, Message: "closed"}
	}
	return nil
}

func TestFallbackSparesARouteThatFailsAsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := llmtest.Fail(status(llm.Unavailable, 503, "down"))
		p, f := llmtest.Script(down), llmtest.Script(down)
		chat := fallbackTo(fallbackDep("p", p), fallbackDep("f", f))
		var err error
		for range 100 {
			_, err = chat.Call(t.Context(), fallbackAsk())
		}
		if p.Count() != 100 || f.Count() != 10 {
			t.Errorf("%d calls, %d moves; want 100, and the 10 of a full budget", p.Count(), f.Count())
		}
		e := fallbackError(t, err)
		if e.Class != llm.Unavailable || !strings.Contains(e.Error(), "its budget for standing in is used up (0 of 140 tokens)") {
			t.Errorf("it says %v", err)
		}
		llmtest.Advance(14 * time.Second)
		if _, err = chat.Call(t.Context(), fallbackAsk()); f.Count() != 11 {
			t.Errorf("%d moves after time put something in, %v", f.Count(), err)
		}
	})
}

func TestFallbackNeverSparesARouteThatAnswers(t *testing.T) {
	p, f := llmtest.Script(llmtest.Fail(llm.Unavailable)), llmtest.Script(llmtest.Text("ok"))
	chat := fallbackTo(fallbackDep("p", p), fallbackDep("f", f))
	for range 1000 {
		if _, err := chat.Call(t.Context(), fallbackAsk()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFallbackGetsBackWhatARouteThatWasNotCalledCost(t *testing.T) {
	small := fallbackDep("f", llmtest.Script(llmtest.Text("ok")))
	small.MaxOutput = 1
	chat := fallbackTo(fallbackDep("p", llmtest.Script(llmtest.Fail(llm.Unavailable))), small)
	for i := range 100 {
		req := fallbackAsk()
		req.MaxTokens = 2
		if _, err := chat.Call(t.Context(), req); err == nil || strings.Contains(err.Error(), "budget") {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}

func TestFallbackOfOneReturnsItsFailureAsItIs(t *testing.T) {
	want := &llm.Error{Class: llm.Unavailable, Deployment: "x"}
	_, err := fallbackTo(llmtest.Script(llmtest.Fail(want))).Call(t.Context(), fallbackAsk())
	if err != error(want) { //nolint:errorlint // the very same error
		t.Errorf("%v", err)
	}
}

func TestFallbackAnswersANilRequestWithAnError(t *testing.T) {
	p := llmtest.Script()
	if _, err := fallbackTo(p).Call(t.Context(), nil); llm.ClassOf(err) != llm.Invalid || p.Count() != 0 {
		t.Error(err)
	}
}

func TestFallbackDescribesItsRoutes(t *testing.T) {
	p := fallbackDep("p", llmtest.Script())
	retried := middleware.Retry(middleware.RetryConfig{Max: 1}).Wrap(fallbackDep("f", llmtest.Script()))
	chat := fallbackTo(p, middleware.Route{Caller: retried, For: []llm.Class{llm.Quota}}, middleware.Route{Caller: llmtest.Script()})
	got := llm.Describe(chat).String()
	for i, want := range []string{"fallback", "  p (test/m-p)", "  route {For:[quota]}", "    retry {Max:1", "      f (test/m-f)", "  *llmtest.Model"} {
		if lines := strings.Split(got, "\n"); i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d of\n%s\nis not %q", i+1, got, want)
		}
	}
}

func TestFallbackPanicsOnNonsense(t *testing.T) {
	dep := fallbackDep("p", llmtest.Script())
	var noDep *llm.Deployment
	var noFunc llm.CallerFunc
	var noRoute *middleware.Route
	for want, callers := range map[string][]llm.Caller{
		"there are no callers":                     {},
		"caller 2 of 2 is nil":                     {dep, nil},
		"caller 1 of 1 is nil":                     {noDep},
		"caller 1 of 2 is nil":                     {noFunc, dep},
		"caller 3 of 3 is nil":                     {dep, dep, middleware.Route{}},
		"caller 4 of 4 is nil":                     {dep, dep, dep, noRoute},
		"a Deployment of caller 1 has no Name":     {&llm.Deployment{Caller: dep}},
		"caller 2 is a Route for refused, which":   {dep, middleware.Route{Caller: dep, For: []llm.Class{llm.Refused}}},
		"caller 2 is a Route for class(99), which": {dep, middleware.Route{Caller: dep, For: []llm.Class{99}}},
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.HasPrefix(got, "llm/middleware: Fallback: ") || !strings.Contains(got, want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			fallbackTo(callers...)
		}()
	}
}

func TestFallbackErrorKeepsLongTextsShort(t *testing.T) {
	long := status(llm.Unavailable, 500, strings.Repeat("é", 1000))
	_, err := fallbackTo(fallbackDep("p", llmtest.Script(llmtest.Fail(long))), fallbackDep("f", llmtest.Script(llmtest.Fail(long)))).
		Call(t.Context(), fallbackAsk())
	if n := len(err.Error()); n < 600 || n > 800 {
		t.Errorf("%d bytes", n)
	}
}

// fallbackCosts counts the allocations of stage around an instant model, beyond those of the model and its leaf.
func costs(t *testing.T, wrap func(llm.Caller) llm.Caller, req *llm.Request) float64 {
	t.Helper()
	answer := &llm.Response{Parts: []llm.Part{llm.Text("ok")}, Stop: llm.StopEnd}
	leaf := &llm.Deployment{Name: "p", Caller: llm.CallerFunc(func(_ context.Context, r *llm.Request) (*llm.Response, error) {
		if r.Sink != nil {
			if err := r.Sink(llm.Delta{Text: "ok"}); err != nil {
				return nil, err
			}
		}
		return answer, nil
	})}
	measure := func(c llm.Caller) float64 {
		return testing.AllocsPerRun(200, func() {
			if _, err := c.Call(context.Background(), req); err != nil { //nolint:usetesting // Background has no machinery
				t.Fatal(err)
			}
		})
	}
	return measure(llm.New().Then(wrap(leaf))) - measure(llm.New().Then(leaf))
}

func TestFallbackCostsNothingOnSuccess(t *testing.T) {
	f := fallbackDep("f", llmtest.Script())
	if n := costs(t, func(c llm.Caller) llm.Caller { return fallbackTo(c, f) }, fallbackAsk()); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkFallback(b *testing.B) {
	answer := &llm.Response{Parts: []llm.Part{llm.Text("ok")}, Stop: llm.StopEnd}
	dep := fallbackDep("p", llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return answer, nil }))
	for name, c := range map[string]llm.Caller{"leaf": dep, "fallback": fallbackTo(dep, fallbackDep("f", dep.Caller))} {
		b.Run(name, func(b *testing.B) {
			chat, req := llm.New().Then(c), fallbackAsk()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := chat.Call(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
