package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func fallbackAsk() *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User("hi")}} }

func fallbackTo(callers ...llm.Caller) llm.Caller {
	return middleware.Fallback(middleware.FallbackConfig{}, callers...)
}

func fallbackDep(name string, c llm.Caller) *llm.Deployment {
	return &llm.Deployment{Name: name, Provider: "test", Model: "m-" + name, Caller: c}
}

// fallbackRows is the account as "p f(skipped)".
func fallbackRows(as []llm.Attempt) string {
	var parts []string
	for _, a := range as {
		name := a.Deployment
		if a.Skipped != "" {
			name += "(" + a.Skipped + ")"
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, " ")
}

func fallbackError(t *testing.T, err error) *llm.Error {
	t.Helper()
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		t.Fatalf("the error is %v, want an *llm.Error", err)
	}
	return e
}

func status(c llm.Class, code int, text string) *llm.Error {
	return &llm.Error{Class: c, Owner: c.Owner(), Evidence: llm.Evidence{Status: code, Message: text}}
}

// A panicking model and one that returns nothing are outcomes like any other.
func TestFallbackMovesAsTheReactionOfTheClassSays(t *testing.T) {
	moves := map[llm.Class]bool{
		llm.Unavailable: true, llm.Overloaded: true, llm.Timeout: true, llm.Stalled: true, llm.RateLimited: true, llm.NotFound: true,
		llm.Unsupported: true, llm.BadOutput: true, llm.Interrupted: true, llm.Cooling: true, llm.Exhausted: true,
	}
	outcomes := map[string]struct {
		step  llmtest.Step
		class llm.Class
		moves bool
	}{
		"panic":   {llmtest.Step{Panic: "boom"}, llm.BadOutput, true},
		"empty":   {llmtest.Text(" "), llm.BadOutput, true},
		"foreign": {llmtest.Fail(errors.New("boom")), llm.Unknown, false},
	}
	for c := range llm.Class(llm.NumClasses) {
		outcomes[c.String()] = struct {
			step  llmtest.Step
			class llm.Class
			moves bool
		}{llmtest.Fail(c), c, moves[c]}
	}
	for name, o := range outcomes {
		t.Run(name, func(t *testing.T) {
			p, f := llmtest.Script(o.step), llmtest.Script(llmtest.Text("from f"))
			var first llm.Caller = fallbackDep("p", p)
			if o.class == llm.Canceled || o.class == llm.Exhausted { // no model's failures: they come from stages and contexts
				first = p
			}
			resp, err := fallbackTo(first, fallbackDep("f", f)).Call(t.Context(), fallbackAsk())
			if p.Count() != 1 || (f.Count() == 1) != o.moves || f.Count() > 1 {
				t.Fatalf("%d and %d calls, moved: want %t", p.Count(), f.Count(), o.moves)
			}
			switch {
			case o.moves && (err != nil || resp.Text() != "from f" || resp.Deployment != "f"):
				t.Errorf("answer %v, error %v", resp, err)
			case !o.moves && llm.ClassOf(err) != o.class:
				t.Errorf("error %v, want that of p", err)
			}
		})
	}
}

func TestFallbackAsksOverriddenRows(t *testing.T) {
	policy := status(llm.Refused, 400, "content policy")
	p, f := llmtest.Script(llmtest.Fail(policy)), llmtest.Script(llmtest.Text("from f"))
	routes := []llm.Caller{fallbackDep("p", p), fallbackDep("f", f)}
	_, err := fallbackTo(routes...).Call(t.Context(), fallbackAsk())
	if f.Count() != 0 || llm.ClassOf(err) != llm.Refused || !strings.Contains(err.Error(), "content policy") {
		t.Errorf("by default: %d calls of f, error %v", f.Count(), err)
	}
	optIn := middleware.FallbackConfig{Reactions: middleware.Reactions{llm.Refused: {Elsewhere: middleware.Anywhere}}}
	resp, err := middleware.Fallback(optIn, routes...).Call(t.Context(), fallbackAsk())
	if err != nil || resp.Text() != "from f" {
		t.Errorf("opted in: %v, %v", resp, err)
	}
	// No row brings back a caller who left.
	anyway := middleware.FallbackConfig{Reactions: middleware.Reactions{llm.Canceled: {Elsewhere: middleware.Anywhere}}}
	_, err = middleware.Fallback(anyway, llmtest.Script(llmtest.Fail(llm.Canceled)), routes[1]).Call(t.Context(), fallbackAsk())
	if llm.ClassOf(err) != llm.Canceled || f.Count() != 1 {
		t.Errorf("canceled: %v after %d calls of f", err, f.Count())
	}
}

func TestFallbackReturnsARefusalThatIsAnAnswer(t *testing.T) {
	p := llmtest.Script(llmtest.Step{Response: &llm.Response{Refusal: "I cannot", Stop: llm.StopRefusal}})
	f := llmtest.Script()
	resp, err := fallbackTo(fallbackDep("p", p), fallbackDep("f", f)).Call(t.Context(), fallbackAsk())
	if err != nil || resp.Refusal != "I cannot" || f.Count() != 0 {
		t.Errorf("%v, %v, %d calls of f", resp, err, f.Count())
	}
}

func TestFallbackMakesAllRetriesOfOneDeploymentBeforeTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		failing := func(name string) llm.Caller {
			return middleware.Retry(middleware.RetryConfig{}).Wrap(fallbackDep(name, llm.CallerFunc(
				func(context.Context, *llm.Request) (*llm.Response, error) {
					order = append(order, name)
					return nil, status(llm.RateLimited, 429, "slow down")
				})))
		}
		_, err := llm.New().Then(fallbackTo(failing("p"), failing("f"))).Call(t.Context(), fallbackAsk())
		if got := strings.Join(order, " "); got != "p p p f f f" {
			t.Errorf("calls %q", got)
		}
		if e := fallbackError(t, err); e.Class != llm.RateLimited || len(e.Attempts) != 6 {
			t.Errorf("error %v with %d attempts", err, len(e.Attempts))
		}
	})
}

func TestFallbackErrorListsEveryDeploymentInOrder(t *testing.T) {
	last := errors.New("socket closed")
	p := fallbackDep("p", llmtest.Script(llmtest.Fail(status(llm.RateLimited, 429, "slow down"))))
	q := &llm.Deployment{Name: "q", Has: llm.CanText, Caller: llmtest.Script()}
	f := fallbackDep("f", llmtest.Script(llmtest.Fail(&llm.Error{
		Class: llm.Unavailable, Evidence: llm.Evidence{Status: 500}, RequestID: "r1", Err: last,
	})))
	req := fallbackAsk()
	req.Tools = []llm.Tool{{Name: "x"}}
	_, err := llm.New().Then(fallbackTo(p, q, f)).Call(t.Context(), req)
	e := fallbackError(t, err)
	if e.Class != llm.Unavailable || e.Deployment != "" || e.Provider != "" || e.Evidence.Status != 500 || e.RequestID != "r1" ||
		e.Owner != llm.OwnerTransient {
		t.Errorf("the facts are not those of the last failure: %+v", e)
	}
	want := "llm: unavailable (HTTP 500): no deployment answered: p: rate_limited (HTTP 429): slow down; " +
		"q not tried: the request needs tools; this deployment has text; f: unavailable (HTTP 500): socket closed"
	if err.Error() != want {
		t.Errorf("the error says\n%s\nwant\n%s", err, want)
	}
	if !errors.Is(err, last) || errors.Is(err, llm.RateLimited) {
		t.Errorf("the chain of %#v is not the deciding cause alone", err)
	}
	if cause, ok := errors.AsType[*llm.Error](e.Err); !ok || cause.Deployment != "f" {
		t.Errorf("the cause is %v, want f's error", e.Err)
	}
	if got := fallbackRows(e.Attempts); got != "p q(the request needs tools; this deployment has text) f" {
		t.Errorf("account %q", got)
	}
}

func TestFallbackErrorIsThatOfTheLastWhoCouldHaveAnswered(t *testing.T) {
	down, busy := status(llm.Unavailable, 503, "down"), status(llm.RateLimited, 429, "busy")
	resting := &llm.Error{Class: llm.Cooling, RetryAfter: 12 * time.Second, Message: "resting"}
	for _, test := range []struct {
		name string
		errs []error
		want llm.Class
	}{
		{"failures", []error{down, busy}, llm.RateLimited},
		{"a failure, then one that rests", []error{down, resting}, llm.Unavailable},
		{"one that rests, then a failure", []error{resting, down}, llm.Unavailable},
		{"a failure, then one that lacks something", []error{down, status(llm.Unsupported, 400, "no tools")}, llm.Unavailable},
		{"a failure, then one without the model", []error{busy, status(llm.NotFound, 404, "no model")}, llm.RateLimited},
		{"one without the model, then a failure", []error{status(llm.NotFound, 404, "no model"), busy}, llm.RateLimited},
		{"none has the model", []error{llm.NotFound, llm.Unsupported}, llm.Unsupported},
		{"all rest", []error{resting, resting}, llm.Cooling},
		{"one rests, no time for the other", []error{resting, llm.Exhausted}, llm.Cooling},
		{"no time for any", []error{llm.Exhausted, llm.Exhausted}, llm.Exhausted},
	} {
		t.Run(test.name, func(t *testing.T) {
			var routes []llm.Caller
			for i, err := range test.errs {
				var c llm.Caller = llmtest.Script(llmtest.Fail(err))
				if !errors.Is(err, llm.Exhausted) {
					c = fallbackDep(fmt.Sprint("d", i), c)
				}
				routes = append(routes, c)
			}
			_, err := fallbackTo(routes...).Call(t.Context(), fallbackAsk())
			if llm.ClassOf(err) != test.want {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
}

func TestFallbackErrorOfWhatNobodyCouldTryIsTheOneToMend(t *testing.T) {
	req := fallbackAsk()
	req.Tools = []llm.Tool{{Name: "x"}}
	small := &llm.Deployment{Name: "small", Window: 8000, Counter: fallbackTokens(10_000), Caller: llmtest.Script()}
	dull := &llm.Deployment{Name: "dull", Window: 16_000, Has: llm.CanText, Caller: llmtest.Script()}
	_, err := fallbackTo(small, dull).Call(t.Context(), req)
	if llm.ClassOf(err) != llm.TooLong {
		t.Errorf("%v; a shorter request would do", err)
	}
	_, err = fallbackTo(dull, middleware.Route{Caller: fallbackDep("f", llmtest.Script()), For: []llm.Class{llm.RateLimited}}).
		Call(t.Context(), req)
	if cause, ok := errors.AsType[*llm.Error](fallbackError(t, err).Err); !ok || cause.Deployment != "dull" {
		t.Errorf("%v is decided by one that was not asked", err)
	}
}

func TestFallbackErrorHasTheWholeAccountWithoutAPipeline(t *testing.T) {
	req := fallbackAsk()
	req.Tools = []llm.Tool{{Name: "x"}}
	_, err := fallbackTo(fallbackDep("p", llmtest.Script(llmtest.Fail(llm.Unavailable))),
		&llm.Deployment{Name: "dull", Has: llm.CanText, Caller: llmtest.Script()}).Call(t.Context(), req)
	if e := fallbackError(t, err); e.Class != llm.Unavailable || len(e.Attempts) != 2 || e.Attempts[1].Deployment != "dull" {
		t.Errorf("%v with %+v", err, e.Attempts)
	}
}

func TestFallbackErrorListsTheDeploymentsOfNestedOnes(t *testing.T) {
	dep := func(name string) llm.Caller {
		return fallbackDep(name, llmtest.Script(llmtest.Fail(status(llm.Unavailable, 503, "down"))))
	}
	_, err := fallbackTo(fallbackTo(dep("a"), dep("b")), dep("c")).Call(t.Context(), fallbackAsk())
	want := "no deployment answered: a: unavailable (HTTP 503): down; b: unavailable (HTTP 503): down; c: unavailable (HTTP 503): down"
	if e := fallbackError(t, err); strings.Count(e.Message, "down") != 3 || !strings.HasSuffix(e.Message, "; c: unavailable (HTTP 503): down") {
		t.Errorf("the message is\n%s\nwant\n%s", e.Message, want)
	} else if e.Message != want {
		t.Errorf("the message is\n%s\nwant\n%s", e.Message, want)
	}
}

func TestFallbackErrorTellsTheSmallestWaitThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(d time.Duration) error { return &llm.Error{Class: llm.RateLimited, RetryAfter: d} }
		_, err := fallbackTo(
			fallbackDep("p", llmtest.Script(llmtest.Fail(wait(20*time.Second)))),
			fallbackDep("f", llmtest.Script(llmtest.Step{Delay: 8 * time.Second, Err: wait(time.Minute)})),
			fallbackDep("g", llmtest.Script(llmtest.Fail(llm.Unavailable))),
		).Call(t.Context(), fallbackAsk())
		if e := fallbackError(t, err); e.RetryAfter != 12*time.Second || e.Class != llm.Unavailable {
			t.Errorf("class %v, wait %v, want the 12s left of p's", e.Class, e.RetryAfter)
		}
	})
}

func TestFallbackErrorSaysHowFarAnyProviderGot(t *testing.T) {
	_, err := fallbackTo(
		fallbackDep("p", llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.Timeout, Commit: llm.CommitUnknown}))),
		fallbackDep("f", llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.RateLimited}))),
	).Call(t.Context(), fallbackAsk())
	if e := fallbackError(t, err); e.Class != llm.RateLimited || e.Commit != llm.CommitUnknown {
		t.Errorf("class %v, commit %v; p may have acted on the request", e.Class, e.Commit)
	}
}

func TestFallbackNamesTheCauseWhenAllRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{})
		p, f := llmtest.Script(llmtest.Fail(status(llm.Overloaded, 529, "full"))), llmtest.Script(llmtest.Fail(llm.Unavailable))
		c := llm.New(cooldowns.Stage())
		chat := llm.New().Then(fallbackTo(c.Then(fallbackDep("p", p)), c.Then(fallbackDep("f", f))))
		if _, err := chat.Call(t.Context(), fallbackAsk()); err == nil {
			t.Fatal("answered")
		}
		llmtest.Advance(48 * time.Second)
		_, err := chat.Call(t.Context(), fallbackAsk())
		e := fallbackError(t, err)
		if e.Class != llm.Cooling || e.RetryAfter != 12*time.Second {
			t.Errorf("class %v, wait %v, want cooling for 12s more", e.Class, e.RetryAfter)
		}
		if !errors.Is(err, llm.Overloaded) || !strings.Contains(err.Error(), "p not tried") || p.Count()+f.Count() != 2 {
			t.Errorf("the cause is not found in %v", err)
		}
	})
}

func TestFallbackKeepsEarlierFailuresInAFatalError(t *testing.T) {
	g := llmtest.Script()
	_, err := fallbackTo(
		fallbackDep("p", llmtest.Script(llmtest.Fail(status(llm.Unavailable, 503, "down")))),
		fallbackDep("f", llmtest.Script(llmtest.Fail(status(llm.Auth, 401, "bad key")))),
		fallbackDep("g", g),
	).Call(t.Context(), fallbackAsk())
	e := fallbackError(t, err)
	if e.Class != llm.Auth || e.Deployment != "f" || g.Count() != 0 {
		t.Errorf("error %+v after %d calls of g", e, g.Count())
	}
	if want := "llm: f: auth (HTTP 401): bad key, after p: unavailable (HTTP 503): down"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func TestFallbackNeedsApprovalForQuota(t *testing.T) {
	broke := llmtest.Fail(status(llm.Quota, 429, "insufficient_quota"))
	down := llmtest.Fail(llm.Unavailable)
	for _, test := range []struct {
		name  string
		p     llmtest.Step
		for1  []llm.Class
		f1    llmtest.Step
		for2  []llm.Class
		calls string
		class llm.Class
	}{
		{"none is approved", broke, nil, down, nil, "p", llm.Quota},
		{"an approved one stands in", broke, nil, down, []llm.Class{llm.Quota}, "p f2", 0},
		{"naming other classes does not approve", broke, []llm.Class{llm.RateLimited}, down, []llm.Class{llm.Overloaded}, "p", llm.Quota},
		{"approval is still needed after the approved one fails", broke, []llm.Class{llm.Quota}, down, nil, "p f1", llm.Unavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			resp, err := llm.New().Then(fallbackTo(fallbackDep("p", llmtest.Script(test.p)),
				middleware.Route{Caller: fallbackDep("f1", llmtest.Script(test.f1)), For: test.for1},
				&middleware.Route{Caller: fallbackDep("f2", llmtest.Script()), For: test.for2},
			)).Call(t.Context(), fallbackAsk())
			var rows []llm.Attempt
			if err == nil {
				rows = resp.Attempts
			} else {
				rows = fallbackError(t, err).Attempts
			}
			rows = slices.DeleteFunc(slices.Clone(rows), func(a llm.Attempt) bool { return a.Skipped != "" })
			if got := fallbackRows(rows); got != test.calls || err != nil && llm.ClassOf(err) != test.class || (err == nil) != (test.class == 0) {
				t.Errorf("calls %q, error %v; want %q, %v", got, err, test.calls, test.class)
			}
			if err != nil && !strings.Contains(err.Error(), "f2 not tried: it is not approved for quota") {
				t.Errorf("%v does not say why f2 was not tried", err)
			}
		})
	}
}

func TestFallbackKeepsToApprovalWhileAnAccountRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resting := middleware.NewCooldowns(middleware.CooldownConfig{}).Stage()
		p, f := llmtest.Script(llmtest.Fail(llm.Quota)), llmtest.Script()
		chat := fallbackTo(resting.Wrap(fallbackDep("p", p)), fallbackDep("f", f))
		for i, want := range []llm.Class{llm.Quota, llm.Cooling} {
			if _, err := chat.Call(t.Context(), fallbackAsk()); llm.ClassOf(err) != want || f.Count() != 0 {
				t.Errorf("call %d: error %v, %d calls of f", i+1, err, f.Count())
			}
		}
		approved := fallbackTo(resting.Wrap(fallbackDep("p", p)), middleware.Route{Caller: fallbackDep("f", f), For: []llm.Class{llm.Quota}})
		if _, err := approved.Call(t.Context(), fallbackAsk()); err != nil || f.Count() != 1 || p.Count() != 1 {
			t.Errorf("approved: error %v after %d and %d calls", err, p.Count(), f.Count())
		}
	})
}

func TestFallbackRouteStandsInForItsClassesOnly(t *testing.T) {
	limited, spare := llmtest.Script(), llmtest.Script()
	p := llmtest.Script(llmtest.Fail(llm.Unavailable), llmtest.Fail(llm.RateLimited))
	chat := fallbackTo(fallbackDep("p", p),
		middleware.Route{Caller: fallbackDep("limited", limited), For: []llm.Class{llm.RateLimited}}, fallbackDep("spare", spare))
	for i, want := range []string{"spare", "limited"} {
		resp, err := chat.Call(t.Context(), fallbackAsk())
		if err != nil || resp.Deployment != want {
			t.Errorf("call %d: %v, %v, want %s", i+1, resp, err, want)
		}
	}
}

func TestFallbackMovesFromTooLongToALargerWindowOnly(t *testing.T) {
	long := status(llm.TooLong, 400, "too many tokens")
	dep := func(name string, window int, err error) llm.Caller {
		return &llm.Deployment{Name: name, Window: window, Caller: llmtest.Script(llmtest.Fail(err))}
	}
	for _, test := range []struct {
		name   string
		routes []llm.Caller
		calls  string
		class  llm.Class
	}{
		{"smaller, equal and unknown ones are passed over", []llm.Caller{
			dep("p", 8000, long), dep("a", 4000, nil), dep("b", 8000, nil), dep("c", 0, nil), dep("d", 9000, llm.Unavailable),
		}, "p d", llm.Unavailable},
		{"any known one is larger than an unknown", []llm.Caller{dep("p", 0, long), dep("a", 0, nil), dep("b", 1, llm.Unavailable)}, "p b",
			llm.Unavailable},
		{"the window needed stays needed", []llm.Caller{dep("p", 8000, long), dep("a", 9000, llm.Unavailable), dep("b", 8000, nil)}, "p a",
			llm.Unavailable},
		{"too long for both", []llm.Caller{dep("p", 8000, long), dep("a", 9000, long), dep("b", 9000, nil)}, "p a", llm.TooLong},
		{"of a nested fallback the largest counts", []llm.Caller{
			fallbackTo(dep("p", 8000, long), dep("q", 16000, long)), dep("a", 12000, nil), dep("b", 32000, llm.Unavailable),
		}, "p q b", llm.Unavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := llm.New().Then(fallbackTo(test.routes...)).Call(t.Context(), fallbackAsk())
			e := fallbackError(t, err)
			rows := slices.DeleteFunc(slices.Clone(e.Attempts), func(a llm.Attempt) bool { return a.Skipped != "" })
			if got := fallbackRows(rows); got != test.calls || e.Class != test.class {
				t.Errorf("calls %q, error %v; want %q, %v", got, err, test.calls, test.class)
			}
			if strings.HasPrefix(test.name, "smaller") && !strings.Contains(err.Error(), "c not tried: its window is unknown") {
				t.Errorf("%v does not tell what is wrong with c", err)
			}
		})
	}
}

// fallbackTokens counts every request as so many tokens.
type fallbackTokens int

func (n fallbackTokens) CountTokens(context.Context, *llm.Request, int) (int, error) {
	return int(n), nil
}

func TestFallbackPassesOverAWindowThatIsTooSmall(t *testing.T) {
	dep := func(name string, window int, c llm.Caller) llm.Caller {
		return &llm.Deployment{Name: name, Window: window, Counter: fallbackTokens(10_000), Caller: c}
	}
	limited := llmtest.Script(llmtest.Fail(status(llm.RateLimited, 429, "slow down")))
	small, unknown := llmtest.Script(), llmtest.Script()
	chat := llm.New().Then(fallbackTo(dep("p", 128_000, limited), dep("small", 8000, small), dep("large", 200_000, llmtest.Script())))
	resp, err := chat.Call(t.Context(), fallbackAsk())
	if err != nil || resp.Deployment != "large" || small.Count() != 0 {
		t.Fatalf("%v, %v after %d calls of the small one", resp, err, small.Count())
	}
	if a := resp.Attempts[1]; a.Deployment != "small" || a.Class != llm.TooLong || a.Skipped == "" {
		t.Errorf("the account does not say why the small one was passed over: %+v", a)
	}
	// What was passed over after a failure demands nothing of the next one.
	chat = llm.New().Then(fallbackTo(dep("p", 128_000, limited), dep("small", 8000, small), dep("unknown", 0, unknown)))
	if _, err = chat.Call(t.Context(), fallbackAsk()); err != nil || unknown.Count() != 1 {
		t.Errorf("error %v after %d calls of the last", err, unknown.Count())
	}
	fits := fallbackTo(dep("p", 8000, small), dep("small", 4000, small))
	if _, err = fits.Call(t.Context(), fallbackAsk()); llm.ClassOf(err) != llm.TooLong || small.Count() != 0 {
		t.Errorf("what fits nowhere: error %v after %d calls", err, small.Count())
	}
}

func TestFallbackDoesNotMoveWhatMayHaveActedOnTheWorld(t *testing.T) {
	for commit, want := range map[llm.CommitState]int{llm.CommitNone: 1, llm.CommitUnknown: 0, llm.Committed: 0} {
		f := llmtest.Script()
		p := llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.Unavailable, Commit: commit}))
		req := fallbackAsk()
		req.ReplayUnsafe = true
		_, err := fallbackTo(fallbackDep("p", p), fallbackDep("f", f)).Call(t.Context(), req)
		if f.Count() != want {
			t.Errorf("commit %v: %d calls of f, want %d", commit, f.Count(), want)
		}
		if want == 0 && (llm.ClassOf(err) != llm.Unavailable || !strings.Contains(err.Error(), "acted on the request")) {
			t.Errorf("commit %v: the error does not say why: %v", commit, err)
		}
	}
}

func TestFallbackStopsAtMaxAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var routes []llm.Caller
		models := make([]*llmtest.Model, 5)
		for i := range models {
			models[i] = llmtest.Script(llmtest.Fail(status(llm.Unavailable, 500, "down")))
			routes = append(routes, middleware.Retry(middleware.RetryConfig{Max: 3}).Wrap(fallbackDep(fmt.Sprint("d", i), models[i])))
		}
		req := fallbackAsk()
		req.MaxAttempts = 6
		_, err := llm.New().Then(fallbackTo(routes...)).Call(t.Context(), req)
		total := 0
		for _, m := range models {
			total += m.Count()
		}
		// The last one is no repetition at d1, as d2 has not been asked.
		if total != 6 || models[0].Count() != 4 || models[1].Count() != 1 || models[2].Count() != 1 {
			t.Errorf("%d calls, %d of them at d0, %d at d1, %d at d2; want 4, 1 and 1", total,
				models[0].Count(), models[1].Count(), models[2].Count())
		}
		if e := fallbackError(t, err); e.Class != llm.Unavailable || !strings.Contains(e.Message, "d4 not tried: 6 of 6 attempts used") {
			t.Errorf("error %v", err)
		}
	})
}

func TestFallbackLeavesTheRequestAsItWas(t *testing.T) {
	req := fallbackAsk()
	req.System, req.Tools, req.Labels = "be short", []llm.Tool{{Name: "a"}}, map[string]string{"tenant": "t"}
	p := llm.CallerFunc(func(_ context.Context, r *llm.Request) (*llm.Response, error) {
		r.System, r.Messages, r.Tools, r.MaxTokens = "changed", append(r.Messages, llm.User("more")), nil, 1
		return nil, llm.Unavailable
	})
	f := llmtest.Script()
	if _, err := fallbackTo(fallbackDep("p", p), fallbackDep("f", f)).Call(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	got := f.Calls()[0].Request
	if got.System != "be short" || len(got.Messages) != 1 || len(got.Tools) != 1 || got.MaxTokens != 0 || got.Labels["tenant"] != "t" {
		t.Errorf("f was asked %+v", got)
	}
}

func TestFallbackRecordsAPrimaryThatCannotBeFound(t *testing.T) {
	unknown := fallbackDep("p", llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.NotFound, Message: "no such deployment"})))
	resp, err := llm.New().Then(fallbackTo(unknown, fallbackDep("f", llmtest.Script()))).Call(t.Context(), fallbackAsk())
	if err != nil || resp.Deployment != "f" || len(resp.Attempts) != 2 || resp.Attempts[0].Class != llm.NotFound {
		t.Errorf("%+v, %v", resp, err)
	}
}

func TestFallbackLeavesWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		p, f := llmtest.Script(llmtest.Step{Hang: true}), llmtest.Script()
		start := time.Now()
		_, err := llm.New().Then(fallbackTo(fallbackDep("p", p), fallbackDep("f", f))).Call(ctx, fallbackAsk())
		if took := time.Since(start); took != 50*time.Millisecond || f.Count() != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("after %v and %d calls of f: %v", took, f.Count(), err)
		}
	})
}

func TestFallbackSaysThatTheCallerLeftAfterAFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := llmtest.Script()
	p := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
		defer cancel()
		return nil, status(llm.Unavailable, 503, "down")
	})
	_, err := fallbackTo(p, fallbackDep("f", f)).Call(ctx, fallbackAsk()) // no Deployment, which would see the cancellation
	if llm.ClassOf(err) != llm.Canceled || !errors.Is(err, llm.Unavailable) || f.Count() != 0 {
		t.Errorf("error %v after %d calls of f", err, f.Count())
	}
}

func TestFallbackTakesWholeStacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := llmtest.Script(llmtest.Fail(llm.Unavailable))
		retried := llm.New(middleware.Retry(middleware.RetryConfig{Max: 1}))
		inner := retried.Then(fallbackTo(fallbackDep("a", down), fallbackDep("b", down)))
		resp, err := llm.New().Then(fallbackTo(inner, fallbackDep("c", llmtest.Script()))).Call(t.Context(), fallbackAsk())
		if err != nil {
			t.Fatal(err)
		}
		if got := fallbackRows(resp.Attempts); got != "a b a b c" {
			t.Errorf("account %q, want the inner fallback repeated as a whole", got)
		}
	})
}

func TestFallbackIsSafeForConcurrentUse(t *testing.T) {
	p, f := llmtest.Script(llmtest.Fail(llm.Unavailable)), llmtest.Script()
	chat := llm.New().Then(fallbackTo(fallbackDep("p", p), fallbackTo(fallbackDep("q", p), fallbackDep("f", f))))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if resp, err := chat.Call(t.Context(), fallbackAsk()); err != nil || resp.Calls() != 3 {
				t.Errorf("%v, %v", resp, err)
			}
		})
	}
	wg.Wait()
}
