package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

func ask() *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User("hello")}} }

// asError is err as *llm.Error, which every error that leaves a Deployment or Pipeline is.
func asError(t *testing.T, err error) *llm.Error {
	t.Helper()
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		t.Fatalf("error is %T (%v), want *llm.Error", err, err)
	}
	return e
}

func TestDeploymentNamesItselfAndAccountsForTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Step{
			Delay: time.Second,
			Response: &llm.Response{
				Parts: []llm.Part{llm.Text("hi")}, RequestID: "req-1", Status: 200, Usage: llm.Usage{Input: 1000, Output: 2000},
			},
		})
		d := &llm.Deployment{
			Name: "primary", Provider: "openai", Model: "m-1", Price: llm.Price{Input: 1, Output: 2}, Caller: model,
		}
		resp, err := d.Call(t.Context(), ask())
		if err != nil {
			t.Fatal(err)
		}
		if resp.Deployment != "primary" || resp.Model != "m-1" || resp.Text() != "hi" || resp.Calls() != 1 {
			t.Errorf("response names %q, model %q, text %q, %d calls", resp.Deployment, resp.Model, resp.Text(), resp.Calls())
		}
		want := llm.Attempt{
			Deployment: "primary", Provider: "openai", Model: "m-1", Index: 1, Took: time.Second, Status: 200,
			RequestID: "req-1", Usage: llm.Usage{Input: 1000, Output: 2000}, CostUSD: 0.005, Commit: llm.Committed,
		}
		got := resp.Attempts[0]
		want.Start = got.Start
		if !reflect.DeepEqual(got, want) {
			t.Errorf("attempt\n got %+v\nwant %+v", got, want)
		}
		if asked := model.Calls()[0].Request.Model; asked != "m-1" {
			t.Errorf("the model was asked for %q, want the deployment's own", asked)
		}
	})
}

func TestDeploymentCopiesTheResponseSoThatASharedOneIsNotWritten(t *testing.T) {
	shared := &llm.Response{Parts: []llm.Part{llm.Text("x")}}
	d := &llm.Deployment{Name: "a", Caller: llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
		return shared, nil
	})}
	if _, err := d.Call(t.Context(), ask()); err != nil {
		t.Fatal(err)
	}
	if shared.Deployment != "" || shared.Attempts != nil {
		t.Errorf("the model's Response was written to: %+v", shared)
	}
}

func TestDeploymentRefusesAtNoCost(t *testing.T) {
	counter := countFunc(func(*llm.Request, int) (int, error) { return 900, nil })
	broken := countFunc(func(*llm.Request, int) (int, error) { return 0, errors.New("no vocabulary") })
	image := llm.Message{Role: llm.RoleUser, Parts: []llm.Part{{Kind: llm.PartImage, URL: "http://x/y.png"}}}
	for _, test := range []struct {
		name  string
		d     llm.Deployment
		req   *llm.Request
		class llm.Class // 0: let through
		text  string
	}{
		{"nil request", llm.Deployment{}, nil, llm.Invalid, "request is nil"},
		{"empty request", llm.Deployment{}, &llm.Request{}, llm.Invalid, "no messages"},
		{"negative MaxTokens", llm.Deployment{}, &llm.Request{System: "s", MaxTokens: -1}, llm.Invalid, "MaxTokens is -1"},
		{
			"tool call without Call", llm.Deployment{},
			&llm.Request{Messages: []llm.Message{{Parts: []llm.Part{{Kind: llm.PartToolCall}}}}}, llm.Invalid, "Messages[0].Parts[0]",
		},
		{
			"tool result without Result", llm.Deployment{},
			&llm.Request{Messages: []llm.Message{{Parts: []llm.Part{{Kind: llm.PartToolResult}}}}}, llm.Invalid, "without Result",
		},
		{
			"image without data", llm.Deployment{},
			&llm.Request{Messages: []llm.Message{{Parts: []llm.Part{{Kind: llm.PartImage}}}}}, llm.Invalid, "without Data or URL",
		},
		{"only a system text", llm.Deployment{}, &llm.Request{System: "s"}, 0, ""},
		{
			"image to a text model", llm.Deployment{Has: llm.CanText},
			&llm.Request{Messages: []llm.Message{image}}, llm.Unsupported, "needs images",
		},
		{"image to an image model", llm.Deployment{Has: llm.CanImages}, &llm.Request{Messages: []llm.Message{image}}, 0, ""},
		{"image where nothing is known", llm.Deployment{}, &llm.Request{Messages: []llm.Message{image}}, 0, ""},
		{
			"tools to a text model", llm.Deployment{Has: llm.CanText | llm.CanImages},
			&llm.Request{System: "s", Tools: []llm.Tool{{Name: "t"}}}, llm.Unsupported, "needs tools",
		},
		{
			"schema to a model with JSON only", llm.Deployment{Has: llm.CanJSON},
			&llm.Request{System: "s", Format: &llm.Format{Kind: llm.FormatSchema}}, llm.Unsupported, "needs schema",
		},
		{
			"answer longer than the model gives", llm.Deployment{MaxOutput: 10},
			&llm.Request{System: "s", MaxTokens: 11}, llm.Unsupported, "at most 10",
		},
		{"longest answer", llm.Deployment{MaxOutput: 10}, &llm.Request{System: "s", MaxTokens: 10}, 0, ""},
		{
			"output alone fills the window", llm.Deployment{Window: 100},
			&llm.Request{System: "s", MaxTokens: 100}, llm.TooLong, "no room for input",
		},
		{
			"input and output exceed the window", llm.Deployment{Window: 1000, Counter: counter},
			&llm.Request{System: "s", MaxTokens: 101}, llm.TooLong, "900 tokens",
		},
		{
			"input and output fill the window", llm.Deployment{Window: 1000, Counter: counter},
			&llm.Request{System: "s", MaxTokens: 100}, 0, "",
		},
		{"no counter", llm.Deployment{Window: 1}, &llm.Request{System: "long text"}, 0, ""},
		{"a counter that fails leaves it to the provider", llm.Deployment{Window: 1, Counter: broken}, ask(), 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			model := llmtest.Script()
			test.d.Name, test.d.Caller = "d", model
			_, err := test.d.Call(t.Context(), test.req)
			if test.class == 0 {
				if err != nil || model.Count() != 1 {
					t.Fatalf("error %v, %d calls; want it let through", err, model.Count())
				}
				return
			}
			if !errors.Is(err, test.class) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("error %q, want class %v and %q in it", err, test.class, test.text)
			}
			if model.Count() != 0 {
				t.Errorf("the model was called %d times", model.Count())
			}
			if test.req == nil {
				return
			}
			as := asError(t, err).Attempts
			if len(as) != 1 || as[0].Skipped == "" || as[0].Deployment != "d" || as[0].Index != 0 {
				t.Errorf("account %+v, want one skipped row of d", as)
			}
		})
	}
}

type countFunc func(*llm.Request, int) (int, error)

func (f countFunc) CountTokens(_ context.Context, r *llm.Request, limit int) (int, error) {
	return f(r, limit)
}

func TestDeploymentUsesTheCounterOfTheRequestWhereItHasNone(t *testing.T) {
	d := &llm.Deployment{Name: "d", Window: 10, Caller: llmtest.Script()}
	req := ask().WithCounter(countFunc(func(*llm.Request, int) (int, error) { return 11, nil }))
	if _, err := d.Call(t.Context(), req); !errors.Is(err, llm.TooLong) {
		t.Errorf("error %v, want too_long", err)
	}
}

func TestDeploymentTurnsAPanicIntoAnErrorThatNamesIt(t *testing.T) {
	d := &llm.Deployment{Name: "shaky", Caller: llmtest.Script(llmtest.Step{Panic: "boom"}, llmtest.Text("fine"))}
	_, err := d.Call(t.Context(), ask())
	p, ok := errors.AsType[*llm.PanicError](err)
	if !ok || p.Value != "boom" || len(p.Stack) == 0 {
		t.Fatalf("error %v carries no PanicError with value and stack", err)
	}
	if e := asError(t, err); e.Deployment != "shaky" || e.Class != llm.BadOutput || e.Commit != llm.CommitUnknown {
		t.Errorf("error %+v, want bad_output of shaky with an unknown outcome", e)
	}
	if !strings.Contains(err.Error(), "shaky") || !strings.Contains(err.Error(), "boom") {
		t.Errorf("message %q names neither deployment nor panic", err)
	}
	if resp, err := d.Call(t.Context(), ask()); err != nil || resp.Text() != "fine" {
		t.Errorf("the next call gave %v, %v", resp.Text(), err)
	}
}

func TestDeploymentLetsAPanicOfTheSinkThrough(t *testing.T) {
	d := &llm.Deployment{Name: "d", Caller: llmtest.Script()}
	req := ask()
	req.Sink = func(llm.Delta) error { panic("mine") }
	defer func() {
		if v := recover(); v != "mine" {
			t.Errorf("recovered %v, want the sink's own panic", v)
		}
	}()
	resp, err := d.Call(t.Context(), req)
	t.Errorf("Call returned %v, %v", resp, err)
}

func TestDeploymentEndsItsRowWhenTheGoroutineEnds(t *testing.T) {
	var row llm.Attempt
	g := &gateFuncs{end: func(a *llm.Attempt) { row = *a }}
	d := &llm.Deployment{Name: "d", Caller: llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
		runtime.Goexit()
		return nil, nil
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := d.Call(t.Context(), under(ask(), g))
		t.Errorf("Call returned %v", err)
	}()
	<-done
	if row.Err == nil || row.Commit != llm.CommitUnknown {
		t.Errorf("row %+v, want one that failed with an unknown outcome", row)
	}
}

func TestDeploymentRejectsUnusableAnswers(t *testing.T) {
	call := func(name, args string) llm.Part {
		return llm.Part{Kind: llm.PartToolCall, Call: &llm.ToolCall{Name: name, Arguments: json.RawMessage(args)}}
	}
	for _, test := range []struct {
		name string
		resp *llm.Response
		ok   bool
	}{
		{"nothing", nil, false},
		{"no parts", &llm.Response{Stop: llm.StopEnd}, false},
		{"blank text", &llm.Response{Parts: []llm.Part{llm.Text(" \n")}}, false},
		{"reasoning alone", &llm.Response{Parts: []llm.Part{{Kind: llm.PartReasoning, Text: "hm"}}}, false},
		{"cut tool arguments", &llm.Response{Parts: []llm.Part{llm.Text("x"), call("f", `{"a":`)}}, false},
		{"tool call without a name", &llm.Response{Parts: []llm.Part{call("", `{}`)}}, false},
		{"tool call alone", &llm.Response{Parts: []llm.Part{call("f", `{"a":1}`)}}, true},
		{"tool call without arguments", &llm.Response{Parts: []llm.Part{call("f", ``)}}, true},
		{"empty because the limit cut it", &llm.Response{Stop: llm.StopLength}, true},
		{"refusal", &llm.Response{Refusal: "no"}, true},
		{"filtered", &llm.Response{Stop: llm.StopFiltered}, true},
		{"text", &llm.Response{Parts: []llm.Part{llm.Text("x")}}, true},
		{"paused within a provider's own tool", &llm.Response{Stop: llm.StopOther, Parts: []llm.Part{{Kind: llm.PartReasoning}}}, true},
		{"stopped for a reason of its own with nothing", &llm.Response{Stop: llm.StopOther}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := &llm.Deployment{Name: "d", Caller: llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
				return test.resp, nil
			})}
			resp, err := d.Call(t.Context(), ask())
			if test.ok && err != nil {
				t.Errorf("error %v, want the answer", err)
			}
			if !test.ok && (!errors.Is(err, llm.BadOutput) || resp != nil) {
				t.Errorf("got %v, %v, want bad_output", resp, err)
			}
		})
	}
}

func TestDeploymentStopsAtMaxAttempts(t *testing.T) {
	model := llmtest.Script(llmtest.Fail(llm.Unavailable))
	d := &llm.Deployment{Name: "d", Caller: model}
	thrice := llm.New(llm.Stage{Name: "thrice", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (resp *llm.Response, err error) {
			for range 3 {
				resp, err = next.Call(ctx, req)
			}
			return resp, err
		})
	}})
	req := ask()
	req.MaxAttempts = 2
	_, err := thrice.Then(d).Call(t.Context(), req)
	if model.Count() != 2 {
		t.Errorf("%d calls, want 2", model.Count())
	}
	if !errors.Is(err, llm.Exhausted) || !errors.Is(err, llm.Unavailable) {
		t.Errorf("error %v, want exhausted with the last failure in its chain", err)
	}
	if as := asError(t, err).Attempts; len(as) != 3 || as[2].Skipped != "2 of 2 attempts used" {
		t.Errorf("account %+v, want two calls and a skipped third", as)
	}
}

func TestDeploymentSaysWhoseTimeRanOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &llm.Deployment{Name: "d", Caller: llmtest.Script(llmtest.Step{Hang: true})}
		limit := llm.Limit(llm.Stalled, "no answer within 1s")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		left := errors.New("the user closed the page")
		for _, test := range []struct {
			name    string
			ctx     func() (context.Context, context.CancelFunc)
			class   llm.Class
			is, not error
			text    string
			commit  llm.CommitState
		}{
			{
				"the caller's deadline",
				func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), time.Second) },
				llm.Exhausted, context.DeadlineExceeded, context.Canceled, "the caller's deadline", llm.CommitUnknown,
			},
			{
				"the caller leaves",
				func() (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(time.Second, cancel)
					return ctx, cancel
				},
				llm.Canceled, context.Canceled, context.DeadlineExceeded, "the caller left", llm.CommitUnknown,
			},
			{
				"the caller leaves with a cause",
				func() (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(time.Second, func() { cancel(left) })
					return ctx, func() { cancel(nil) }
				},
				llm.Canceled, left, context.DeadlineExceeded, "closed the page", llm.CommitUnknown,
			},
			{
				"a limit on the attempt",
				func() (context.Context, context.CancelFunc) {
					return context.WithTimeoutCause(t.Context(), time.Second, limit)
				},
				llm.Stalled, llm.Stalled, context.DeadlineExceeded, "no answer within 1s", llm.CommitUnknown,
			},
			{
				"the caller leaves because of another call's failure",
				func() (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(time.Second, func() { cancel(&llm.Error{Class: llm.RateLimited, Deployment: "sibling"}) })
					return ctx, func() { cancel(nil) }
				},
				llm.Canceled, context.Canceled, nil, "sibling", llm.CommitUnknown,
			},
			{
				"over before it began",
				func() (context.Context, context.CancelFunc) { return ended, func() {} },
				llm.Canceled, context.Canceled, nil, "the caller left", llm.CommitNone,
			},
		} {
			ctx, cancel := test.ctx()
			_, err := d.Call(ctx, ask())
			cancel()
			e := asError(t, err)
			if e.Class != test.class || e.Commit != test.commit || e.Deployment != "d" || !errors.Is(err, test.is) {
				t.Errorf("%s: error %+v, want %v with commit %v that is %v", test.name, e, test.class, test.commit, test.is)
			}
			if test.not != nil && errors.Is(err, test.not) {
				t.Errorf("%s: error %v also is %v", test.name, err, test.not)
			}
			if !strings.Contains(err.Error(), test.text) {
				t.Errorf("%s: message %q lacks %q", test.name, err, test.text)
			}
		}
	})
}

func TestDeploymentKeepsACancelThatIsNotTheCallersApart(t *testing.T) {
	d := &llm.Deployment{Name: "d", Caller: llmtest.Script(llmtest.Fail(context.Canceled))}
	_, err := d.Call(t.Context(), ask())
	if c := llm.ClassOf(err); c == llm.Canceled {
		t.Errorf("class %v although the caller's context is alive", c)
	}
	// 499 of a proxy that was left by somebody else, or ran into a limit of its own
	d.Caller = llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.Canceled, Evidence: llm.Evidence{Status: 499}}))
	_, err = d.Call(t.Context(), ask())
	if e := llm.AsError(err); e.Class != llm.Unavailable || e.Owner != llm.OwnerTransient || e.Commit != llm.CommitUnknown {
		t.Errorf("%v of class %v, owner %v, commit %v", err, e.Class, e.Owner, e.Commit)
	}
}

func TestDeploymentCallsABrokenStreamInterruptedAndKeepsTheCause(t *testing.T) {
	d := &llm.Deployment{Name: "d", Caller: llmtest.Script(llmtest.Step{
		Deltas: []llm.Delta{{Text: "Hel"}}, Err: &llm.Error{Class: llm.RateLimited, RetryAfter: time.Second},
	})}
	req := ask()
	req.Sink = func(llm.Delta) error { return nil }
	_, err := d.Call(t.Context(), req)
	e := asError(t, err)
	if e.Class != llm.Interrupted || e.Commit != llm.Committed || e.Partial == nil || e.RetryAfter != time.Second {
		t.Errorf("error %+v, want interrupted, committed, with Partial and the wait", e)
	}
	if !errors.Is(err, llm.RateLimited) {
		t.Errorf("error %v lost its cause", err)
	}
}

func TestDeploymentBlamesTheSinkForItsError(t *testing.T) {
	mine := errors.New("disk full")
	for name, model := range map[string]llm.Caller{
		"returned": llmtest.Script(),
		"swallowed": llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
			for range 3 {
				_ = req.Sink(llm.Delta{Text: "x"})
			}
			return &llm.Response{Parts: []llm.Part{llm.Text("xxx")}}, nil
		}),
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			req := ask()
			req.Sink = func(llm.Delta) error { n++; return mine }
			_, err := (&llm.Deployment{Name: "d", Caller: model}).Call(t.Context(), req)
			if !errors.Is(err, mine) || llm.ClassOf(err) != llm.Canceled {
				t.Errorf("error %v, want canceled around the sink's", err)
			}
			if n != 1 {
				t.Errorf("the sink was called %d times after it failed", n-1)
			}
		})
	}
}

func TestDeploymentStreamsTheAnswerOfAModelThatKnowsNoStreams(t *testing.T) {
	d := &llm.Deployment{Name: "d", Caller: llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
		return &llm.Response{Parts: []llm.Part{llm.Text("whole")}}, nil
	})}
	got := ""
	req := ask()
	req.Sink = func(d llm.Delta) error { got += d.Text; return nil }
	if _, err := d.Call(t.Context(), req); err != nil || got != "whole" {
		t.Errorf("sink got %q, error %v", got, err)
	}
}

func TestDeploymentClassifiesByTheClassifierInForce(t *testing.T) {
	d := &llm.Deployment{Name: "d", Caller: llmtest.Script(llmtest.Fail(errors.New("odd")))}
	silent := &classGate{classify: func(error) *llm.Error { return nil }}
	knows := &classGate{classify: func(err error) *llm.Error { return &llm.Error{Class: llm.Overloaded, Err: err} }}
	_, err := d.Call(t.Context(), under(ask(), knows, silent))
	e := asError(t, err)
	if e.Class != llm.Overloaded || e.Owner != llm.OwnerTransient || e.Attempts[0].Class != llm.Overloaded {
		t.Errorf("error %+v, want overloaded in error and account", e)
	}
}

type classGate struct {
	llm.OpenGate
	classify func(error) *llm.Error
}

func (g *classGate) Classify(_ context.Context, _ *llm.Deployment, err error) *llm.Error {
	return g.classify(err)
}

// under is req with gates in force, the last one the newest.
func under(req *llm.Request, gates ...llm.Gate) *llm.Request {
	r := req.Accounted()
	for _, g := range gates {
		r.Enforce(g)
	}
	return r
}

type gateFuncs struct {
	llm.OpenGate
	ask   func() error
	start func() error
	end   func(*llm.Attempt)
}

func (g *gateFuncs) Ask(context.Context, *llm.Request, *llm.Deployment, time.Time) error {
	if g.ask != nil {
		return g.ask()
	}
	return nil
}

type gateKey struct{}

func (g *gateFuncs) Start(ctx context.Context, _ *llm.Request, _ *llm.Deployment, _ *llm.Attempt) (context.Context, error) {
	if g.start != nil {
		return ctx, g.start()
	}
	return context.WithValue(ctx, gateKey{}, "attempt"), nil
}

func (g *gateFuncs) End(ctx context.Context, _ *llm.Request, _ *llm.Deployment, a *llm.Attempt) {
	if g.end != nil {
		g.end(a)
	}
}

func TestGatesRefuseAnAttemptAtNoCostAndHearHowOthersEnded(t *testing.T) {
	for _, test := range []struct {
		name string
		gate gateFuncs
	}{
		{"when asked", gateFuncs{ask: func() error { return &llm.Error{Class: llm.Cooling, Message: "rests"} }}},
		{"at the start", gateFuncs{start: func() error { return &llm.Error{Class: llm.Cooling, Message: "rests"} }}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ended := 0
			inner := &gateFuncs{end: func(*llm.Attempt) { ended++ }}
			test.gate.end = func(*llm.Attempt) { t.Error("End of a gate that refused") }
			started := 0
			inner.start = func() error { started++; return nil }
			model := llmtest.Script()
			req := under(ask(), &test.gate, inner)
			_, err := (&llm.Deployment{Name: "d", Caller: model}).Call(t.Context(), req)
			if !errors.Is(err, llm.Cooling) || model.Count() != 0 {
				t.Errorf("error %v after %d calls", err, model.Count())
			}
			as := req.Attempts()
			if len(as) != 1 || as[0].Skipped != "rests" || as[0].Index != 0 || as[0].Deployment != "d" {
				t.Errorf("account %+v, want one skipped row", as)
			}
			if started != ended {
				t.Errorf("%d attempts started, %d ended", started, ended)
			}
		})
	}

	var row llm.Attempt
	d := &llm.Deployment{Name: "d", Caller: llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
		if ctx.Value(gateKey{}) != "attempt" {
			t.Error("the attempt does not run under the context of the gate")
		}
		return nil, llm.Overloaded
	})}
	_, err := d.Call(t.Context(), under(ask(), &gateFuncs{end: func(a *llm.Attempt) { row = *a }}))
	if row.Class != llm.Overloaded || !errors.Is(err, llm.Overloaded) {
		t.Errorf("the gate heard %+v of %v", row, err)
	}
}

func TestAskSaysBeforeAWaitWhetherItIsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req, _ := ask().Watch()
		if err := req.Ask(ctx, nil, time.Now().Add(4*time.Second)); err != nil {
			t.Errorf("a wait that fits: %v", err)
		}
		if err := req.Ask(ctx, nil, time.Now().Add(5*time.Second)); !errors.Is(err, llm.Exhausted) || !strings.Contains(err.Error(), "5s") {
			t.Errorf("a wait as long as the time left: %v", err)
		}
		shut := req.Enforce(&gateFuncs{ask: func() error { return llm.Cooling }})
		if err := req.Ask(ctx, nil, time.Now()); !errors.Is(err, llm.Cooling) {
			t.Errorf("a gate that is shut: %v", err)
		}
		shut.Lift()
		if err := req.Ask(ctx, nil, time.Now()); err != nil {
			t.Errorf("a gate that was lifted: %v", err)
		}
		cancel()
		if err := req.Ask(ctx, nil, time.Now()); !errors.Is(err, context.Canceled) {
			t.Errorf("after cancel: %v", err)
		}
		if err := (*llm.Request)(nil).Ask(t.Context(), nil, time.Now().Add(time.Hour)); err != nil {
			t.Errorf("nil request: %v", err)
		}
	})
}

func TestTheAccountHoldsTheRowsOfBranchesThatRunAtTheSameTime(t *testing.T) {
	const branches = 50
	d := &llm.Deployment{Name: "d", Caller: llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
		return &llm.Response{Parts: []llm.Part{llm.Text("ok")}}, nil
	})}
	p := llm.New(llm.Stage{Name: "branches", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			var wg sync.WaitGroup
			for range branches {
				wg.Go(func() {
					if _, err := next.Call(ctx, req); err != nil {
						t.Error(err)
					}
					req.Skipped(&llm.Error{Deployment: "other", Class: llm.Cooling})
				})
			}
			wg.Wait()
			return next.Call(ctx, req)
		})
	}}).Then(d)
	resp, err := p.Call(t.Context(), &llm.Request{System: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	indexes := map[int]bool{}
	for _, a := range resp.Attempts {
		if a.Skipped == "" {
			indexes[a.Index] = true
		}
	}
	if len(resp.Attempts) != 2*branches+1 || resp.Calls() != branches+1 || len(indexes) != branches+1 {
		t.Errorf("%d rows, %d calls, %d numbers", len(resp.Attempts), resp.Calls(), len(indexes))
	}
}

// A hedging stage of a team's own, which does not wait for the branch that lost. What its caller gets is its caller's.
func TestABranchThatNobodyWaitsForDoesNotTouchTheRowsThatWereHandedOut(t *testing.T) {
	for _, failures := range []int{0, 1} {
		lost, go2, done := 0, make(chan struct{}), make(chan struct{})
		model := llm.CallerFunc(func(_ context.Context, r *llm.Request) (*llm.Response, error) {
			if r.Seed != nil {
				<-go2
			} else if lost < failures {
				lost++
				return nil, llm.Unavailable
			}
			return &llm.Response{Parts: []llm.Part{llm.Text("ok")}}, nil
		})
		hedge := llm.Stage{Name: "hedge", Wrap: func(next llm.Caller) llm.Caller {
			return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
				for range failures {
					_, _ = next.Call(ctx, req)
				}
				go func() {
					defer close(done)
					other := req.Clone()
					other.Seed = new(int64)
					_, _ = next.Call(ctx, other)
					_, _ = next.Call(ctx, other)
				}()
				return next.Call(ctx, req)
			})
		}}
		resp, err := llm.New(hedge).Then(&llm.Deployment{Name: "d", Caller: model}).Call(t.Context(), ask())
		if err != nil || len(resp.Attempts) != failures+1 {
			t.Fatalf("%v, %v", resp, err)
		}
		close(go2)
		for i := range resp.Attempts { // the race detector sees who else reads or writes them
			resp.Attempts[i].Deployment = "mine"
		}
		<-done
	}
}

func TestRejectTurnsAnAnswerIntoAFailureAndCorrectsTheAccount(t *testing.T) {
	d := &llm.Deployment{Name: "d", Provider: "p", Caller: llmtest.Script(llmtest.Step{
		Response: &llm.Response{Parts: []llm.Part{llm.Text("x")}, RequestID: "r", Usage: llm.Usage{Output: 3}},
	})}
	var before []llm.Attempt
	reject := llm.Stage{Name: "reject", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err != nil {
				return nil, err
			}
			before = resp.Attempts
			return nil, resp.Reject(&llm.Error{Class: llm.BadOutput, Message: "no"})
		})
	}}
	_, err := llm.New(reject).Then(d).Call(t.Context(), ask())
	e := asError(t, err)
	if e.Deployment != "d" || e.Provider != "p" || e.RequestID != "r" || e.Usage.Output != 3 || e.Commit != llm.Committed {
		t.Errorf("error %+v lacks what the answer knew", e)
	}
	if a := e.Attempts[0]; a.Class != llm.BadOutput || a.Usage.Output != 3 || a.Err == nil {
		t.Errorf("row %+v, want a failed one that keeps its usage", a)
	}
	if before[0].Class != 0 {
		t.Error("a row already handed out changed")
	}
}

type uncomparable struct{ causes []string }

func (u uncomparable) Error() string { return "odd" }

func TestErrorsThatCannotBeComparedDoNotPanic(t *testing.T) {
	d := &llm.Deployment{Name: "d", Caller: llmtest.Script(llmtest.Fail(uncomparable{[]string{"a"}}))}
	_, err := llm.New().Then(d).Call(t.Context(), ask())
	if u, ok := errors.AsType[uncomparable](err); !ok || len(u.causes) != 1 || llm.ClassOf(err) != llm.Unknown {
		t.Errorf("error %v of class %v", err, llm.ClassOf(err))
	}
}

func TestAModelThatWritesToItsRequestChangesNothingForTheNext(t *testing.T) {
	for _, own := range []string{"", "own"} {
		for _, sink := range []llm.Sink{nil, func(llm.Delta) error { return nil }} {
			rude := &llm.Deployment{Name: "rude", Model: own, Caller: llm.CallerFunc(
				func(_ context.Context, req *llm.Request) (*llm.Response, error) {
					req.Model, req.System, req.Messages, req.Tools, req.Sink = "x", "x", nil, nil, nil
					return nil, llm.Unavailable
				})}
			polite := llmtest.Script()
			next := &llm.Deployment{Name: "next", Caller: polite}
			req := &llm.Request{Model: "m", System: "s", Messages: []llm.Message{llm.User("hi")}, Tools: []llm.Tool{{Name: "t"}}, Sink: sink}
			both := llm.Stage{Name: "both", Wrap: func(c llm.Caller) llm.Caller {
				return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
					for range 2 {
						if _, err := c.Call(ctx, req); !errors.Is(err, llm.Unavailable) {
							t.Errorf("the rude model gave %v", err)
						}
					}
					return next.Call(ctx, req)
				})
			}}
			if _, err := llm.New(both).Then(rude).Call(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			got := polite.Calls()[0].Request
			if got.Model != "m" || got.System != "s" || len(got.Messages) != 1 || len(got.Tools) != 1 || (got.Sink == nil) != (sink == nil) {
				t.Errorf("the next model was sent %+v", got)
			}
			if req.Model != "m" || req.System != "s" || len(req.Messages) != 1 {
				t.Errorf("the caller's request became %+v", req)
			}
		}
	}
}
