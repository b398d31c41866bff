package middleware_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func TestHedgeLearnsItsDelayFromTheFirst(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		a := llm.CallerFunc(nil)
		first := fallbackDep("a", llm.CallerFunc(func(ctx context.Context, r *llm.Request) (*llm.Response, error) { return a(ctx, r) }))
		b := hedgeIn(0, "b")
		hedged := middleware.Hedge(middleware.HedgeConfig{Share: 1}, first, fallbackDep("b", b))
		a = hedgeIn(time.Minute, "slow").Call
		hedgeCall(t.Context(), hedged, stream).want(t, stream, "slow", time.Minute) // nothing is known
		hedgeCall(t.Context(), hedged, !stream)                                     // another kind of call tells nothing of these
		a = hedgeSays(llmtest.Step{Delay: time.Second, Gap: time.Minute}, "a1", "a2").Call
		if !stream {
			a = hedgeIn(time.Second, "a").Call
		}
		for range 4 {
			hedgeCall(t.Context(), hedged, stream)
		}
		if b.Count() != 0 {
			t.Fatalf("b was called %d times before five calls were known", b.Count())
		}
		for range 100 {
			hedgeCall(t.Context(), hedged, stream)
		}
		n := b.Count()
		a = hedgeHangs().Call
		got := hedgeCall(t.Context(), hedged, stream)
		if b.Count() != n+1 || got.took < time.Second || got.took > time.Second*9/8 {
			t.Errorf("hedged %d times, after %v; want once, within an eighth of a second after the first", b.Count()-n, got.took)
		}
	})
}

func TestHedgeTheLearnedDelayIsNeverShorterThanMinDelay(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		for set, want := range map[time.Duration]time.Duration{0: 50 * time.Millisecond, time.Second: time.Second} {
			first := llmtest.Script(llmtest.Step{}, llmtest.Step{}, llmtest.Step{}, llmtest.Step{}, llmtest.Step{}, llmtest.Step{Hang: true})
			hedged := middleware.Hedge(middleware.HedgeConfig{MinDelay: set}, fallbackDep("a", first), fallbackDep("b", hedgeIn(0, "b")))
			for range 5 {
				hedgeCall(t.Context(), hedged, stream).want(t, stream, "ok", 0)
			}
			hedgeCall(t.Context(), hedged, stream).want(t, stream, "b", want)
		}
	})
}

// If only the answers of a first that was fast enough were learned, the delay would be shorter with each; if all the time
// until another answered, it would be longer with each while the first hangs.
func TestHedgeLosersLeaveTheDelayAsItIs(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		known, name := middleware.NewEstimates(middleware.EstimatesConfig{Quantile: 0.95}), "a"
		if stream {
			name = "a, first token"
		}
		for range 5 {
			known.Learn(name, time.Second)
		}
		at := known.Of(name)
		step := llmtest.Step{Hang: true}
		a := llmtest.Script(llmtest.Step{Func: func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
			return llmtest.Script(step).Call(ctx, r)
		}})
		hedged := middleware.Hedge(middleware.HedgeConfig{Estimates: known, Share: 1}, fallbackDep("a", a),
			fallbackDep("b", hedgeIn(7*time.Second, "b")))
		for range 300 {
			hedgeCall(t.Context(), hedged, stream).want(t, stream, "b", at+7*time.Second)
		}
		// One in ten is slow: they keep the delay where it is against nine that are fast.
		for i := range 2000 {
			step = llmtest.Step{Delay: time.Second / 10}
			if i%10 == 0 {
				step = llmtest.Step{Hang: true}
			}
			hedgeCall(t.Context(), hedged, stream)
		}
		if now := known.Of(name); now != at {
			t.Errorf("the delay went from %v to %v", at, now)
		}
	})
}

func TestHedgeTheFirstIsTheOneWhoseTimesCount(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		known := middleware.NewEstimates(middleware.EstimatesConfig{})
		hedged := middleware.Hedge(middleware.HedgeConfig{Estimates: known}, fallbackDep("a", llmtest.Script(llmtest.Fail(llm.Unavailable))),
			fallbackDep("b", hedgeIn(time.Second, "b")))
		for range 20 {
			hedgeCall(t.Context(), hedged, stream)
		}
		if got := known.String(); got != "0.9 quantile over 10m0s, 0 deployments known" {
			t.Errorf("it learned from b: %s", got)
		}
	})
}

func TestHedgeAFirstThatFailedIsNoLoser(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		known := middleware.NewEstimates(middleware.EstimatesConfig{})
		for range 5 {
			known.Learn("a", time.Second)
			known.Learn("a, first token", time.Second)
		}
		hedged := middleware.Hedge(middleware.HedgeConfig{Estimates: known, Share: 1}, fallbackDep("a", llmtest.Script(llmtest.Fail(llm.NotFound))),
			fallbackDep("b", hedgeHangs()), fallbackDep("c", hedgeIn(time.Minute, "c")))
		for range 11 {
			if got := hedgeCall(t.Context(), hedged, stream); got.err != nil || got.took > 2*time.Minute {
				t.Fatalf("%v after %v", got.err, got.took)
			}
			if known.Of("a, first token") == 0 {
				return // it is forgotten, as nothing new is known of a
			}
		}
		t.Errorf("a, which fails, is taken for one that has a token within %v", known.Of("a"))
	})
}

func TestHedgeNeverHedgesMoreThanItsShare(t *testing.T) {
	for share, want := range map[float64]int{0: 10 + 50, 0.5: 10 + 500, 1: 1000} {
		hedgeBoth(t, func(t *testing.T, stream bool) {
			hedged := func(b *llmtest.Model) llm.Caller {
				return middleware.Hedge(middleware.HedgeConfig{Delay: time.Second, Share: share}, fallbackDep("a", hedgeIn(time.Minute, "a")),
					fallbackDep("b", b))
			}
			b := hedgeIn(0, "b")
			one := hedged(b)
			for range 1000 {
				hedgeCall(t.Context(), one, stream)
			}
			if n := b.Count(); n > want || n < want-1 {
				t.Errorf("share %v: %d of 1000 calls were hedged, want %d", share, n, want)
			}
			// Side by side they earn nothing until the first of them has taken a token.
			b = hedgeIn(0, "b")
			many := hedged(b)
			var wg sync.WaitGroup
			for range 1000 {
				wg.Go(func() { hedgeCall(t.Context(), many, stream) })
				llmtest.Advance(10 * time.Millisecond)
			}
			wg.Wait()
			if n := b.Count(); n > want || n < want-100 {
				t.Errorf("share %v: %d of 1000 calls were hedged side by side, want at most %d and nearly so many", share, n, want)
			}
		})
	}
}

// hedgeSpend makes hedged calls until one token is left.
func hedgeSpend(t *testing.T, hedged llm.Caller, left int) {
	t.Helper()
	for range 10 - left {
		hedgeCall(t.Context(), hedged, false)
	}
}

func TestHedgeOneThatCalledNobodyCostsNothing(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		asked, slow := 0, hedgeIn(time.Second*3/2, "a") // so short that time puts little into the budget for standing in
		rests := llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
			asked++
			return nil, req.Skipped(&llm.Error{Class: llm.Cooling, Deployment: "b", Message: "it rests"})
		})
		cfg := middleware.HedgeConfig{Delay: time.Second, Share: 1e-6}
		hedged := middleware.Hedge(cfg, fallbackDep("a", slow), rests)
		for range 20 {
			hedgeCall(t.Context(), hedged, stream).want(t, stream, "a", time.Second*3/2)
		}
		if asked != 20 {
			t.Errorf("%d of 20 calls were hedged, as if the tokens had been used", asked)
		}
		// Who takes over takes its token too.
		c := hedgeIn(0, "c")
		hedged = middleware.Hedge(cfg, fallbackDep("a", slow), rests, fallbackDep("c", c))
		for range 20 {
			hedgeCall(t.Context(), hedged, stream)
		}
		if c.Count() != 10 {
			t.Errorf("%d of 20 calls were hedged with 10 tokens", c.Count())
		}
	})
}

func TestHedgeNeverHedgesWhatMayNotBeSentTwice(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		for name, set := range map[string]func(*llm.Request){
			"ReplayUnsafe":  func(r *llm.Request) { r.ReplayUnsafe = true },
			"MaxAttempts 1": func(r *llm.Request) { r.MaxAttempts = 1 },
		} {
			b, req, start := hedgeIn(0, "b"), fallbackAsk(), time.Now()
			if stream {
				req.Sink = func(llm.Delta) error { return nil }
			}
			set(req)
			resp, err := hedgeAfter(fallbackDep("a", hedgeIn(time.Minute, "a")), fallbackDep("b", b)).Call(t.Context(), req)
			if err != nil || resp.Text() != "a" || b.Count() != 0 || time.Since(start) != time.Minute {
				t.Errorf("%s: %v, %v; b was called %d times", name, resp, err, b.Count())
			}
		}
	})
}

func TestHedgeNeverMakesMoreAttemptsThanTheRequestAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, req := hedgeIn(0, "c"), fallbackAsk()
		req.MaxAttempts = 2
		all := hedgeAfter(fallbackDep("a", hedgeIn(time.Minute, "a")), fallbackDep("b", hedgeHangs()),
			fallbackTo(fallbackDep("c", c), fallbackDep("d", c)))
		resp, err := all.Call(t.Context(), req)
		if err != nil || resp.Text() != "a" || c.Count() != 0 || fallbackRows(resp.Attempts) != "a b" {
			t.Errorf("%v, %v; c was called %d times", resp, err, c.Count())
		}
	})
}

func TestHedgeSparesACallerThatStoodInInVain(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		cfg := middleware.HedgeConfig{Delay: time.Second, Budget: middleware.RetryBudgetConfig{Capacity: 14}}
		b := llmtest.Script(llmtest.Fail(llm.Unavailable))
		hedged := middleware.Hedge(cfg, fallbackDep("a", hedgeIn(2*time.Second, "a")), fallbackDep("b", b))
		for _, want := range []string{"b a", "a", "a"} {
			got := hedgeCall(t.Context(), llm.New().Then(hedged), stream)
			if got.want(t, stream, "a", 2*time.Second); fallbackRows(got.resp.Attempts) != want {
				t.Errorf("rows %q, want %q", fallbackRows(got.resp.Attempts), want)
			}
		}
	})
}

// hedgeRefusal is a gate that lets nobody to a deployment.
type hedgeRefusal struct {
	llm.OpenGate
	name   string
	panics bool
}

func (g *hedgeRefusal) Ask(_ context.Context, _ *llm.Request, d *llm.Deployment, _ time.Time) error {
	if d == nil || d.Name != g.name {
		return nil
	}
	if g.panics {
		panic("a gate of the user's")
	}
	return llm.Cooling
}

func hedgeUnder(g llm.Gate, c llm.Caller) llm.Caller {
	return llm.New(llm.Stage{Name: "gate", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
			defer r.Enforce(g).Lift()
			return next.Call(ctx, r)
		})
	}}).Then(c)
}

func TestHedgeAsksTheGatesBeforeItHedges(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		a, b := fallbackDep("a", hedgeIn(time.Minute, "a")), hedgeIn(0, "b")
		got := hedgeCall(t.Context(), hedgeUnder(&hedgeRefusal{name: "b"}, hedgeAfter(a, fallbackDep("b", b))), stream)
		got.want(t, stream, "a", time.Minute)
		if b.Count() != 0 || fallbackRows(got.resp.Attempts) != "a" {
			t.Errorf("rows %q", fallbackRows(got.resp.Attempts))
		}
		// A deadline that b would miss.
		known := middleware.NewEstimates(middleware.EstimatesConfig{Fixed: map[string]time.Duration{"b": 5 * time.Second}})
		late := llm.New(middleware.Deadline(middleware.DeadlineConfig{Total: 5 * time.Second, Estimates: known}))
		hedgeCall(t.Context(), late.Then(hedgeAfter(fallbackDep("a", hedgeIn(4*time.Second, "a")), fallbackDep("b", b))), stream).
			want(t, stream, "a", 4*time.Second)
		if b.Count() != 0 {
			t.Error("b was called without time for it")
		}
		// The one after it may be asked in its place.
		c := fallbackDep("c", hedgeIn(0, "c"))
		got = hedgeCall(t.Context(), hedgeUnder(&hedgeRefusal{name: "b"}, hedgeAfter(a, fallbackDep("b", b), c)), stream)
		got.want(t, stream, "c", time.Second)
	})
}

func TestHedgeARouteIsHedgedWithIfItStandsInForStalled(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		a, b := fallbackDep("a", hedgeIn(time.Minute, "a")), fallbackDep("b", hedgeIn(0, "b"))
		hedgeCall(t.Context(), hedgeAfter(a, middleware.Route{Caller: b, For: []llm.Class{llm.Quota}}), stream).
			want(t, stream, "a", time.Minute)
		hedgeCall(t.Context(), hedgeAfter(a, middleware.Route{Caller: b, For: []llm.Class{llm.Stalled}}), stream).
			want(t, stream, "b", time.Second)
		a = fallbackDep("a", llmtest.Script(llmtest.Fail(llm.Quota)))
		hedgeCall(t.Context(), hedgeAfter(a, middleware.Route{Caller: b, For: []llm.Class{llm.Quota}}), stream).want(t, stream, "b", 0)
	})
}

func TestHedgeCallersOfOneDeploymentAreCalledOnce(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		a := hedgeIn(time.Minute, "a")
		again := llm.New().Then(fallbackDep("a", a))
		hedgeCall(t.Context(), hedgeAfter(fallbackDep("a", a), again), stream).want(t, stream, "a", time.Minute)
		nested := fallbackTo(again, fallbackDep("b", hedgeIn(0, "b"))) // reached again while it runs
		hedgeCall(t.Context(), hedgeAfter(fallbackDep("a", a), nested), stream).want(t, stream, "b", time.Second)
		if a.Count() != 2 {
			t.Errorf("a was called %d times in two calls", a.Count())
		}
	})
}

func TestHedgeADeploymentThatWasNotCalledMayBeReachedAnotherWay(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		b := fallbackDep("b", hedgeIn(0, "b"))
		rests := llm.New(llm.Stage{Name: "rests", Wrap: func(llm.Caller) llm.Caller {
			return llm.CallerFunc(func(_ context.Context, r *llm.Request) (*llm.Response, error) {
				return nil, r.Skipped(&llm.Error{Class: llm.Cooling, Deployment: "b", Message: "it rests"})
			})
		}})
		shown := hedgeShown{rests.Then(b), b}
		all := hedgeAfter(fallbackDep("a", hedgeHangs()), shown, fallbackTo(b, fallbackDep("c", hedgeIn(0, "c"))))
		hedgeCall(t.Context(), all, stream).want(t, stream, "b", time.Second)
	})
}

// hedgeShown is a Caller that shows a deployment beneath.
type hedgeShown struct {
	llm.Caller
	d *llm.Deployment
}

func (s hedgeShown) Describe() llm.Node { return s.d.Describe() }

func TestHedgeWorksWithinAFallbackAndAroundOne(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		a := fallbackDep("a", llmtest.Script(llmtest.Step{Delay: 3 * time.Second, Err: llm.Unavailable}))
		b := fallbackDep("b", llmtest.Script(llmtest.Step{Delay: time.Second, Err: llm.Unavailable}))
		c := fallbackDep("c", hedgeIn(0, "c"))
		for name, chat := range map[string]llm.Caller{
			"within": fallbackTo(hedgeAfter(a, b), c), "around": hedgeAfter(a, fallbackTo(b, c)), "around the first": hedgeAfter(fallbackTo(a, c), b),
		} {
			got := hedgeCall(t.Context(), llm.New().Then(chat), stream)
			took, rows := 3*time.Second, "b a c"
			if name == "around" {
				took = 2 * time.Second
			}
			if name == "around" && !stream { // a is let go when c has answered
				rows = "b c a"
			}
			if got.want(t, stream, "c", took); fallbackRows(got.resp.Attempts) != rows {
				t.Errorf("%s: rows %q, want %q", name, fallbackRows(got.resp.Attempts), rows)
			}
		}
	})
}

// A call that might have been hedged, but for others that took the tokens, must not hang on a silent first.
func TestHedgeWithoutATokenTheFirstGivesWayInTime(t *testing.T) {
	released := 0
	knowsContextsOnly := llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	for _, a := range []llm.Caller{fallbackDep("a", hedgeHangs()), knowsContextsOnly} {
		hedgeGivesWay(t, a)
	}
	// What a context holds is released when its caller is done.
	synctest.Test(t, func(t *testing.T) {
		a := llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			context.AfterFunc(ctx, func() { released++ })
			return hedgeIn(0, "a").Call(ctx, req)
		})
		hedgeCall(t.Context(), hedgeAfter(a, knowsContextsOnly), false).want(t, false, "a", 0)
		if synctest.Wait(); released != 1 {
			t.Error("the context of the first lives on")
		}
	})
}

func hedgeGivesWay(t *testing.T, a llm.Caller) {
	t.Helper()
	hedgeBoth(t, func(t *testing.T, stream bool) {
		hedged := middleware.Hedge(middleware.HedgeConfig{Delay: time.Second, Share: 1e-6}, a, fallbackDep("b", hedgeIn(0, "b")))
		hedgeSpend(t, hedged, 1)
		chat := llm.New(middleware.Deadline(middleware.DeadlineConfig{Total: 20 * time.Second})).Then(hedged)
		var wg sync.WaitGroup
		var took [2]time.Duration
		for i := range took {
			wg.Go(func() {
				got := hedgeCall(t.Context(), chat, stream)
				took[i] = got.took
				if got.err != nil || got.resp.Text() != "b" {
					t.Errorf("%v, %v", got.resp, got.err)
				}
			})
		}
		wg.Wait()
		if first, second := min(took[0], took[1]), max(took[0], took[1]); first != time.Second || second < 15*time.Second || second > 19*time.Second {
			t.Errorf("after %v and %v, want one that was hedged after a second and one whose first gave way in time", first, second)
		}
		hedgeCall(t.Context(), chat, stream).want(t, stream, "b", 18*time.Second) // without a token it is a fallback
	})
}

func TestHedgePanicsOnNonsense(t *testing.T) {
	a, b := fallbackDep("a", llmtest.Script()), fallbackDep("b", llmtest.Script())
	for want, f := range map[string]func(){
		"there are 0 callers":                      func() { middleware.Hedge(middleware.HedgeConfig{}) },
		"there are 1 callers; give it another one": func() { middleware.Hedge(middleware.HedgeConfig{}, a) },
		"Hedge: caller 2 of 2 is nil":              func() { middleware.Hedge(middleware.HedgeConfig{}, a, nil) },
		"Hedge: a Deployment of caller 2 has no Name": func() {
			middleware.Hedge(middleware.HedgeConfig{}, a, &llm.Deployment{Caller: b.Caller})
		},
		"Hedge: caller 2 is a Route for invalid, which moves nowhere; leave the class out, or override its row in HedgeConfig.Reactions": func() {
			middleware.Hedge(middleware.HedgeConfig{}, a, middleware.Route{Caller: b, For: []llm.Class{llm.Invalid}})
		},
		"Delay is -1s; use 0":     func() { middleware.Hedge(middleware.HedgeConfig{Delay: -time.Second}, a, b) },
		"MinDelay is -1s; use 0":  func() { middleware.Hedge(middleware.HedgeConfig{MinDelay: -time.Second}, a, b) },
		"Share is -0.1; use 0":    func() { middleware.Hedge(middleware.HedgeConfig{Share: -0.1}, a, b) },
		"Share is 1.5; use 0":     func() { middleware.Hedge(middleware.HedgeConfig{Share: 1.5}, a, b) },
		"so that nothing is lear": func() { middleware.Hedge(middleware.HedgeConfig{Delay: 1, MinDelay: 1}, a, b) },
		"RetryBudget: Cost is -1": func() { middleware.Hedge(middleware.HedgeConfig{Budget: middleware.RetryBudgetConfig{Cost: -1}}, a, b) },
	} {
		if got := panicOf(f); !strings.Contains(got, want) || !strings.HasPrefix(got, "llm/middleware: ") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestHedgeShowsItsSettingsAndCallers(t *testing.T) {
	a, b := fallbackDep("a", llmtest.Script()), fallbackDep("b", llmtest.Script())
	for want, cfg := range map[string]middleware.HedgeConfig{
		"hedge {MinDelay:50ms Share:0.05 Estimates:0.95 quantile over 10m0s, 0 deployments known}": {},
		"hedge {Delay:1s Share:0.1}": {Delay: time.Second, Share: 0.1},
	} {
		want += "\n  a (test/m-a)\n  route {For:[stalled]}\n    b (test/m-b)"
		hedged := middleware.Hedge(cfg, a, middleware.Route{Caller: b, For: []llm.Class{llm.Stalled}})
		if got := fmt.Sprint(llm.Describe(hedged)); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

func TestHedgeThatIsBeneathItselfSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var itself llm.Caller
		again := llm.CallerFunc(func(ctx context.Context, r *llm.Request) (*llm.Response, error) { return itself.Call(ctx, r) })
		itself = hedgeAfter(again, fallbackDep("b", hedgeIn(0, "b")))
		hedgeCall(t.Context(), itself, false).want(t, false, "b", 0)
		itself = hedgeAfter(fallbackDep("a", hedgeIn(time.Minute, "a")), again)
		got := hedgeCall(t.Context(), itself, false)
		got.want(t, false, "a", time.Minute)
	})
}
