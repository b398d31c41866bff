package middleware_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// aheadCase is an onion around a and b in which a fails, and b may take the last attempt or not.
type aheadCase struct {
	name  string
	a, b  *llm.Deployment
	onion func(a, b llm.Caller) llm.Caller
	req   func(*llm.Request)
	calls []int // of a and of b
}

func TestTheLastAttemptIsKeptForWhoCanTakeIt(t *testing.T) {
	inARow := func(a, b llm.Caller) llm.Caller { return middleware.Fallback(middleware.FallbackConfig{}, a, b) }
	bounded := func(cfg middleware.BudgetConfig) func(a, b llm.Caller) llm.Caller {
		return func(a, b llm.Caller) llm.Caller { return middleware.EachBudget(cfg).Wrap(inARow(a, b)) }
	}
	two := func(r *llm.Request) { r.MaxAttempts = 2 }
	none := func(*llm.Request) {}
	tools := func(r *llm.Request) { r.MaxAttempts, r.Tools = 2, []llm.Tool{{Name: "t"}} }
	cheap := llm.Price{Input: 0.001, Output: 0.001}
	for _, test := range []aheadCase{
		{name: "b can", onion: inARow, req: two, calls: []int{1, 1}},
		{
			name: "b is too expensive", req: none, calls: []int{2, 0}, a: &llm.Deployment{Price: cheap}, b: &llm.Deployment{Price: llm.Price{Input: 1e6}},
			onion: bounded(middleware.BudgetConfig{Attempts: 2, CostUSD: 0.01}),
		},
		{
			name: "the price of b is not known", req: none, calls: []int{2, 0}, a: &llm.Deployment{Price: cheap},
			onion: bounded(middleware.BudgetConfig{Attempts: 2, CostUSD: 0.01}),
		},
		{
			name: "the approval of b has ended", req: two, calls: []int{2, 0},
			onion: func(a, b llm.Caller) llm.Caller { return inARow(a, middleware.Route{Caller: b, Until: time.Now()}) },
		},
		{
			name: "the approval of b has not ended", req: two, calls: []int{1, 1},
			onion: func(a, b llm.Caller) llm.Caller {
				return inARow(a, middleware.Route{Caller: b, Until: time.Now().Add(time.Hour)})
			},
		},
		{name: "b lacks tools", onion: inARow, req: tools, calls: []int{2, 0}, b: &llm.Deployment{Has: llm.CanText}},
		{
			name: "the answer is too long for b", onion: inARow, calls: []int{2, 0}, b: &llm.Deployment{MaxOutput: 10},
			req: func(r *llm.Request) { r.MaxAttempts, r.MaxTokens = 2, 11 },
		},
		{
			name: "b in an inner fallback, behind one that does not stand in", req: two, calls: []int{1, 1},
			onion: func(a, b llm.Caller) llm.Caller {
				c := &llm.Deployment{Name: "c", Caller: llmtest.Script()}
				return inARow(inARow(a, middleware.Route{Caller: c, For: []llm.Class{llm.Quota}}), b)
			},
		},
		{
			name: "b at the head of an inner fallback", req: two, calls: []int{1, 1},
			onion: func(a, b llm.Caller) llm.Caller {
				c := &llm.Deployment{Name: "c", Caller: llmtest.Script()}
				return inARow(a, inARow(b, middleware.Route{Caller: c, For: []llm.Class{llm.Quota}}))
			},
		},
		{
			name: "b would hedge", req: two, calls: []int{1, 1},
			onion: func(a, b llm.Caller) llm.Caller {
				return middleware.Hedge(middleware.HedgeConfig{Delay: time.Hour}, a, b)
			},
		},
		{
			name: "b has the larger window that mends it", req: two, calls: []int{1, 1},
			a: &llm.Deployment{Window: 100}, b: &llm.Deployment{Window: 1000},
			onion: func(a, b llm.Caller) llm.Caller {
				return middleware.TokenRouter(middleware.TokenRouterConfig{
					Normal: a, Long: b, Counter: words100{},
					Reactions: middleware.Reactions{llm.Unavailable: {Again: middleware.Always, Elsewhere: middleware.Larger}},
				})
			},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			first := llmtest.Script(llmtest.Fail(llm.Unavailable), llmtest.Text("mended"))
			second := llmtest.Script()
			a, b := &llm.Deployment{}, &llm.Deployment{}
			if test.a != nil {
				a = test.a
			}
			if test.b != nil {
				b = test.b
			}
			a.Name, a.Caller, b.Name, b.Caller = "a", first, "b", second
			per := func(d *llm.Deployment) llm.Caller {
				return llm.New(middleware.Retry(middleware.RetryConfig{Max: 5})).Then(d)
			}
			req := retryAsk()
			test.req(req)
			_, err := test.onion(per(a), per(b)).Call(t.Context(), req)
			if err != nil || first.Count() != test.calls[0] || second.Count() != test.calls[1] {
				t.Errorf("%s: %d calls of a and %d of b, want %v: %v", test.name, first.Count(), second.Count(), test.calls, err)
			}
		})
	}
}

// words100 counts few tokens.
type words100 struct{}

func (words100) CountTokens(context.Context, *llm.Request, int) (int, error) { return 5, nil }

func TestTheLastAttemptIsNotKeptForWhoHasMovedInVainTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := llmtest.Script(llmtest.Fail(llm.Unavailable))
		second := llmtest.Script(llmtest.Fail(llm.Unavailable))
		per := func(name string, m llm.Caller) llm.Caller {
			return llm.New(middleware.Retry(middleware.RetryConfig{Base: time.Millisecond})).Then(&llm.Deployment{Name: name, Caller: m})
		}
		onion := middleware.Fallback(middleware.FallbackConfig{}, per("a", first), per("b", second))
		for range 12 {
			req := retryAsk()
			req.MaxAttempts = 2
			_, _ = onion.Call(t.Context(), req)
		}
		before := second.Count()
		req := retryAsk()
		req.MaxAttempts = 2
		_, _ = onion.Call(t.Context(), req)
		if second.Count() != before || first.Count()+second.Count() != 26 {
			t.Errorf("%d calls of a, %d of b, one of them when its moves were used up", first.Count(), second.Count())
		}
	})
}

func TestLongIsNotCalledForAnythingWhereNoClassNeedsALargerWindow(t *testing.T) {
	long := llmtest.Script()
	router := middleware.TokenRouter(middleware.TokenRouterConfig{
		Normal:    &llm.Deployment{Name: "a", Caller: llmtest.Script(llmtest.Fail(llm.NotFound))},
		Long:      &llm.Deployment{Name: "d", Caller: long},
		Reactions: middleware.Reactions{llm.TooLong: {}},
	})
	if _, err := router.Call(t.Context(), retryAsk()); llm.ClassOf(err) != llm.NotFound || long.Count() != 0 {
		t.Errorf("%v after %d calls of Long", err, long.Count())
	}
}

func TestReplayFollowsAFailureThatChangedItsClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := middleware.State{
			Left: middleware.NoLimit(), Retry: middleware.RetryOption{Left: 2},
			Routes: []middleware.RouteOption{{Name: "b", For: []llm.Class{llm.NotFound}}},
		}
		a := llm.New(middleware.Retry(middleware.RetryConfig{})).Then(&llm.Deployment{
			Name: "a", Caller: llmtest.Script(llmtest.Fail(llm.Unavailable), llmtest.Fail(llm.NotFound)),
		})
		b := &llm.Deployment{Name: "b", Caller: llmtest.Script()}
		resp, err := middleware.Fallback(middleware.FallbackConfig{}, a, middleware.Route{Caller: b, For: s.Routes[0].For}).
			Call(t.Context(), retryAsk())
		if err != nil {
			t.Fatal(err)
		}
		d := middleware.Replay(s, resp.Attempts)
		if len(d) != 2 || d[0].Action != middleware.ActionRetry || d[1].Action != middleware.ActionFallback {
			t.Errorf("%v", d)
		}
	})
}

func TestExplainKnowsWhichOutcomesAreUncertain(t *testing.T) {
	s := open()
	s.ReplayUnsafe = true
	text := middleware.Explain(s)
	for _, c := range []llm.Class{llm.Timeout, llm.Stalled, llm.Interrupted, llm.BadOutput} {
		if !hasLine(text, c.String(), "fail closed", "outcome is not known") {
			t.Errorf("%v:\n%s", c, text)
		}
	}
	if !hasLine(text, "overloaded", "retry ×2", "fallback to backup") {
		t.Errorf("what was turned away:\n%s", text)
	}
}

// hasLine reports whether a line of text begins with a word and has all the others.
func hasLine(text, word string, others ...string) bool {
	for line := range strings.Lines(text) {
		found := strings.HasPrefix(line, word+" ")
		for _, o := range others {
			found = found && strings.Contains(line, o)
		}
		if found {
			return true
		}
	}
	return false
}

func TestARouteWhoseApprovalEndedIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := llmtest.Script()
		onion := middleware.Fallback(middleware.FallbackConfig{},
			&llm.Deployment{Name: "a", Caller: llmtest.Script(llmtest.Fail(llm.Overloaded))},
			middleware.Route{Caller: &llm.Deployment{Name: "b", Caller: b}, Until: time.Now().Add(time.Hour)},
		)
		if _, err := onion.Call(t.Context(), retryAsk()); err != nil {
			t.Error(err)
		}
		llmtest.Advance(time.Hour)
		_, err := onion.Call(t.Context(), retryAsk())
		if llm.ClassOf(err) != llm.Overloaded || b.Count() != 1 || !strings.Contains(err.Error(), "b not tried: its approval ended on 2000-01-01T01:00:00Z") {
			t.Errorf("%v after %d calls", err, b.Count())
		}
	})
}
