package middleware_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/tokens"
)

func routerTooLong() *llm.Error {
	return &llm.Error{Class: llm.TooLong, Owner: llm.OwnerRequest, Message: "maximum context length is 8000 tokens"}
}

// The count was too low, or the window smaller than configured.
func TestTokenRouterTriesALargerWindowIfTheProviderSaysTooLong(t *testing.T) {
	dep := func(name string, window int, err error) *llm.Deployment {
		d, _ := routerFails(name, window, err)
		return d
	}
	for _, e := range []struct {
		name         string
		normal, long llm.Caller
		want         string // the calls made
		class        llm.Class
	}{
		{"larger", dep("normal", 8000, routerTooLong()), dep("long", 9000, llm.Unavailable), "normal long", llm.Unavailable},
		{"equal", dep("normal", 8000, routerTooLong()), dep("long", 8000, nil), "normal", llm.TooLong},
		{"smaller", dep("normal", 8000, routerTooLong()), dep("long", 4000, nil), "normal", llm.TooLong},
		{"a Long whose window is not known", dep("normal", 8000, routerTooLong()), dep("long", 0, llm.Unavailable), "normal long", llm.Unavailable},
		{"a Normal whose window is not known", dep("normal", 0, routerTooLong()), dep("long", 8000, llm.Unavailable), "normal long", llm.Unavailable},
		{"the same deployment", dep("normal", 0, routerTooLong()), dep("normal", 0, nil), "normal", llm.TooLong},
		{"another failure", dep("normal", 8000, llm.Unavailable), dep("long", 9000, nil), "normal", llm.Unavailable},
		{"too long for both", dep("normal", 8000, routerTooLong()), dep("long", 9000, routerTooLong()), "normal long", llm.TooLong},
		{"no Long", dep("normal", 8000, routerTooLong()), nil, "normal", llm.TooLong},
		{"of a fallback the largest that was too small counts", fallbackTo(dep("a", 8000, routerTooLong()), dep("b", 64_000, routerTooLong())),
			fallbackTo(dep("c", 32_000, nil)), "a b", llm.TooLong},
	} {
		t.Run(e.name, func(t *testing.T) {
			router := middleware.TokenRouter(middleware.TokenRouterConfig{Counter: routerCounts(10), Normal: e.normal, Long: e.long})
			_, err := llm.New().Then(router).Call(t.Context(), routerAsk(0))
			var calls []string
			for _, a := range llm.AsError(err).Attempts {
				if a.Skipped == "" {
					calls = append(calls, a.Deployment)
				}
			}
			if got := strings.Join(calls, " "); got != e.want || llm.ClassOf(err) != e.class {
				t.Errorf("calls %q, error %v; want %q, %v", got, err, e.want, e.class)
			}
		})
	}
}

func TestTokenRouterAsksOverriddenRows(t *testing.T) {
	normal, _ := routerFails("normal", 8000, llm.BadOutput)
	for want, reactions := range map[string]middleware.Reactions{
		"":     nil,
		"long": {llm.BadOutput: {Elsewhere: middleware.Larger}},
	} {
		router := middleware.TokenRouter(middleware.TokenRouterConfig{
			Counter: routerCounts(10), Normal: normal, Long: routerDep("long", 9000), Reactions: reactions,
		})
		resp, err := router.Call(t.Context(), routerAsk(0))
		if want == "" && err == nil || want != "" && (err != nil || resp.Deployment != want) {
			t.Errorf("with %v: %v, %v", reactions, resp, err)
		}
	}
}

func TestTokenRouterDoesNotMoveAfterOutput(t *testing.T) {
	normal := llmtest.Script(llmtest.Step{Deltas: []llm.Delta{{Text: "half"}}, Err: routerTooLong()}, llmtest.Fail(routerTooLong()))
	long, l := routerFails("long", 128_000, llm.Unavailable)
	router := middleware.TokenRouter(middleware.TokenRouterConfig{Counter: routerCounts(10), Normal: normal, Long: long})
	req, got := routerAsk(0), ""
	req.Sink = func(d llm.Delta) error {
		got += d.Text
		return nil
	}
	_, err := router.Call(t.Context(), req)
	if l.Count() != 0 || got != "half" || llm.ClassOf(err) != llm.TooLong || llm.AsError(err).Partial == nil {
		t.Errorf("%d calls of long after %q: %v", l.Count(), got, err)
	}
	// A sink to which nothing was handed does not hold it back.
	router = middleware.TokenRouter(middleware.TokenRouterConfig{Counter: routerCounts(10), Normal: normal, Long: routerDep("long", 128_000)})
	got = ""
	if resp, err := router.Call(t.Context(), req); err != nil || resp.Deployment != "long" || got != "long" {
		t.Errorf("before output: %v, %v, handed out %q", resp, err, got)
	}
}

func TestTokenRouterDoesNotMoveWhatMayHaveActedOnTheWorld(t *testing.T) {
	for commit, want := range map[llm.CommitState]int{llm.CommitNone: 1, llm.CommitUnknown: 0, llm.Committed: 0} {
		e := routerTooLong()
		e.Commit = commit
		normal, _ := routerFails("normal", 8000, e)
		long, l := routerFails("long", 128_000, llm.Unavailable)
		req := routerAsk(0)
		req.ReplayUnsafe = true
		router := middleware.TokenRouter(middleware.TokenRouterConfig{Counter: routerCounts(10), Normal: normal, Long: long})
		if _, err := router.Call(t.Context(), req); l.Count() != want || err == nil {
			t.Errorf("commit %v: %d calls of long, want %d; %v", commit, l.Count(), want, err)
		}
	}
}

func TestTokenRouterDoesNotMoveWithoutAttemptsLeft(t *testing.T) {
	normal, _ := routerFails("normal", 8000, routerTooLong())
	long, l := routerFails("long", 128_000, llm.Unavailable)
	router := middleware.TokenRouter(middleware.TokenRouterConfig{Counter: routerCounts(10), Normal: normal, Long: long})
	req := routerAsk(0)
	req.MaxAttempts = 1
	_, err := llm.New().Then(router).Call(t.Context(), req)
	e := llm.AsError(err)
	if e.Class != llm.TooLong || e.Deployment != "normal" || l.Count() != 0 {
		t.Fatalf("%v after %d calls of long; want the failure of normal", err, l.Count())
	}
	if last := e.Attempts[len(e.Attempts)-1]; last.Deployment != "long" || last.Class != llm.Exhausted || !strings.Contains(last.Skipped, "1 of 1 attempts used") {
		t.Errorf("the account does not say why long was not called: %+v", e.Attempts)
	}
}

// Every attempt beneath asks again whether it fits; the text is looked at once.
func TestTokenRouterCountsOnceForAllAttemptsBeneath(t *testing.T) {
	c := &routerTokens{n: 10_000}
	p, _ := routerFails("p", 128_000, llm.Unavailable)
	q, _ := routerFails("q", 128_000, llm.Unavailable)
	small, _ := routerFails("small", 8000, llm.Unavailable)
	small2, _ := routerFails("small2", 8000, llm.Unavailable)
	router := middleware.TokenRouter(middleware.TokenRouterConfig{Counter: c, Normal: fallbackTo(p, small, q, small2)})
	if _, err := llm.New().Then(router).Call(t.Context(), routerAsk(0)); llm.ClassOf(err) != llm.Unavailable {
		t.Fatal(err)
	}
	// Once for each window that there is.
	if n := c.asked.Load(); n != 2 {
		t.Errorf("counted %d times, want 2", n)
	}
}

// A stage beneath may shorten the request.
func TestTokenRouterCountsAnewWhatAStageBeneathHasReplaced(t *testing.T) {
	byMessages := routerCounter(func(req *llm.Request) int { return 5000 * len(req.Messages) })
	shorten := llm.Stage{Name: "shorten", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			req = req.Clone()
			req.Messages = req.Messages[1:]
			return next.Call(ctx, req)
		})
	}}
	limited, _ := routerFails("limited", 128_000, llm.Unavailable)
	router := middleware.TokenRouter(middleware.TokenRouterConfig{
		Counter: byMessages, Normal: fallbackTo(limited, llm.New(shorten).Then(routerDep("small", 8000))),
	})
	req := &llm.Request{Messages: []llm.Message{llm.User("a"), llm.User("b")}}
	if resp, err := llm.New().Then(router).Call(t.Context(), req); err != nil || resp.Deployment != "small" {
		t.Errorf("got %v, %v; want the shortened request to fit", resp, err)
	}
}

type routerCounter func(req *llm.Request) int

func (c routerCounter) CountTokens(_ context.Context, req *llm.Request, _ int) (int, error) {
	return c(req), nil
}

// F91: the provider counts 1.2 times the estimate; what seemed to fit then goes to the larger model.
func TestTokenRouterLearnsFromWhatTheProviderCounts(t *testing.T) {
	const factor = 1.2
	c := tokens.For("gpt-4o")
	req := &llm.Request{Messages: []llm.Message{llm.User(strings.Repeat("word ", 880))}}
	n, err := c.CountTokens(t.Context(), req, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := llmtest.Script(llmtest.Step{Func: func(context.Context, *llm.Request) (*llm.Response, error) {
		return &llm.Response{Parts: []llm.Part{llm.Text("ok")}, Usage: llm.Usage{Input: int(float64(n) * factor)}}, nil
	}})
	router := middleware.TokenRouter(middleware.TokenRouterConfig{
		Counter: c, Normal: &llm.Deployment{Name: "normal", Window: 1000, Caller: m}, Long: &llm.Deployment{Name: "long", Window: 2000, Caller: m},
	})
	var served []string
	for range 50 {
		resp, err := router.Call(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		served = append(served, resp.Deployment)
	}
	if served[0] != "normal" || served[49] != "long" {
		t.Errorf("%d tokens of a window of 1000, really %.0f, went to %v", n, float64(n)*factor, served)
	}
	if got := c.Correction(); got < 1.19 || got > 1.21 {
		t.Errorf("the correction is %v, want 1.2", got)
	}
}

// routerPupil notes what it is told.
type routerPupil struct {
	routerTokens
	taught []int
}

func (p *routerPupil) Learn(_ context.Context, _ *llm.Request, limit, input int) {
	p.taught = append(p.taught, limit, input)
}

func TestTokenRouterTeachesOnlyWhatIsWorthIt(t *testing.T) {
	shared, own := &routerPupil{routerTokens: routerTokens{n: 10}}, &routerPupil{routerTokens: routerTokens{n: 10}}
	for _, e := range []struct {
		name         string
		own          bool
		resp         llm.Response
		err          error
		shared, own2 []int
	}{
		{name: "a request that fills the window", resp: llm.Response{Usage: llm.Usage{Input: 7000}}, shared: []int{7900, 7000}},
		{name: "the deployment's own counter", own: true, resp: llm.Response{Usage: llm.Usage{Input: 7000}}, own2: []int{7900, 7000}},
		{name: "a small request", resp: llm.Response{Usage: llm.Usage{Input: 500}}},
		{name: "an estimate", resp: llm.Response{Usage: llm.Usage{Input: 7000, Estimated: true}}},
		{name: "an answer in two parts", resp: llm.Response{Usage: llm.Usage{Input: 7000}, Continued: true}},
		{name: "a failure", err: errors.New("boom")},
	} {
		shared.taught, own.taught = nil, nil
		e.resp.Parts = []llm.Part{llm.Text("ok")}
		d := &llm.Deployment{Name: "normal", Window: 8000, Caller: llmtest.Script(llmtest.Step{Response: &e.resp, Err: e.err})}
		if e.own {
			d.Counter = own
		}
		router := middleware.TokenRouter(middleware.TokenRouterConfig{Counter: shared, Normal: d})
		if _, err := router.Call(t.Context(), routerAsk(100)); (err != nil) != (e.err != nil) {
			t.Fatal(err)
		}
		if !slices.Equal(shared.taught, e.shared) || !slices.Equal(own.taught, e.own2) {
			t.Errorf("%s: taught %v and its own %v; want %v and %v", e.name, shared.taught, own.taught, e.shared, e.own2)
		}
	}
}
