package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// hedgeAfter hedges after a second, as often as it likes.
func hedgeAfter(callers ...llm.Caller) llm.Caller {
	return llm.New().Then(middleware.Hedge(middleware.HedgeConfig{Delay: time.Second, Share: 1}, callers...))
}

// hedgeSays is a model that waits, says its words with a gap between, and then ends as s does.
func hedgeSays(s llmtest.Step, words ...string) *llmtest.Model {
	for _, w := range words {
		s.Deltas = append(s.Deltas, llm.Delta{Text: w})
	}
	return llmtest.Script(s)
}

func hedgeIn(d time.Duration, words ...string) *llmtest.Model {
	return hedgeSays(llmtest.Step{Delay: d}, words...)
}

func hedgeHangs() *llmtest.Model { return llmtest.Script(llmtest.Step{Hang: true}) }

// hedgeCalled is one call of c and all there is to see of it.
type hedgeCalled struct {
	resp *llm.Response
	err  error
	text string // as streamed
	took time.Duration
}

func hedgeCall(ctx context.Context, c llm.Caller, stream bool) (h hedgeCalled) {
	req, start := fallbackAsk(), time.Now()
	if stream {
		req.Sink = func(d llm.Delta) error {
			h.text += d.Text
			return nil
		}
	}
	h.resp, h.err = c.Call(ctx, req)
	h.took = time.Since(start)
	return h
}

// both runs f for calls and for streams, each in a bubble of its own.
func hedgeBoth(t *testing.T, f func(t *testing.T, stream bool)) {
	t.Helper()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%t", stream), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, stream) })
		})
	}
}

func (h hedgeCalled) want(t *testing.T, stream bool, text string, took time.Duration) {
	t.Helper()
	if h.err != nil || h.resp.Text() != text || h.took != took || stream && h.text != text {
		t.Fatalf("answer %q, streamed %q, after %v, error %v; want %q after %v", h.resp.Text(), h.text, h.took, h.err, text, took)
	}
}

func TestHedgeCallsTheNextBesideAFirstWithoutATokenAfterTheDelay(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		a, b := hedgeIn(time.Minute, "a1", "a2"), hedgeIn(2*time.Second, "b1 ", "b2")
		got := hedgeCall(t.Context(), hedgeAfter(fallbackDep("a", a), fallbackDep("b", b)), stream)
		got.want(t, stream, "b1 b2", 3*time.Second)
		if at := b.Calls()[0].At.Sub(a.Calls()[0].At); at != time.Second || a.Count() != 1 || b.Count() != 1 {
			t.Errorf("b was called %v after a; %d and %d calls", at, a.Count(), b.Count())
		}
	})
}

func TestHedgeCallsTheThirdAfterAnotherDelay(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		a, b, c := hedgeHangs(), hedgeHangs(), hedgeIn(time.Second, "c")
		start := time.Now()
		got := hedgeCall(t.Context(), hedgeAfter(fallbackDep("a", a), fallbackDep("b", b), fallbackDep("c", c)), stream)
		got.want(t, stream, "c", 3*time.Second)
		if at := c.Calls()[0].At.Sub(start); at != 2*time.Second {
			t.Errorf("c was called after %v", at)
		}
		if got.resp.Calls() != 3 {
			t.Errorf("%d rows", got.resp.Calls())
		}
	})
}

func TestHedgeLeavesAFirstAloneThatHasATokenInTime(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		b := hedgeIn(0, "b")
		a := hedgeSays(llmtest.Step{Delay: time.Second - 1, Gap: time.Minute}, "a1 ", "a2")
		want := time.Minute + time.Second - 1
		if !stream {
			a, want = hedgeIn(time.Second-1, "a1 a2"), time.Second-1
		}
		hedgeCall(t.Context(), hedgeAfter(fallbackDep("a", a), fallbackDep("b", b)), stream).want(t, stream, "a1 a2", want)
		if b.Count() != 0 {
			t.Error("b was called")
		}
	})
}

func TestHedgeAFirstThatComesInBeforeTheHedgeWins(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		a, b := hedgeIn(2*time.Second, "a1 ", "a2"), hedgeIn(5*time.Second, "b")
		got := hedgeCall(t.Context(), hedgeAfter(fallbackDep("a", a), fallbackDep("b", b)), stream)
		got.want(t, stream, "a1 a2", 2*time.Second)
		rows := map[string]llm.Class{}
		for _, row := range got.resp.Attempts {
			rows[row.Deployment] = row.Class
		}
		if len(rows) != 2 || rows["b"] != llm.Canceled || rows["a"] != 0 || got.resp.Deployment != "a" {
			t.Errorf("rows %v of an answer of %s", rows, got.resp.Deployment)
		}
	})
}

func TestHedgeLosersAreInTheAccountWithTheirUsage(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		a := llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
			<-ctx.Done()
			return nil, &llm.Error{Class: llm.Canceled, Usage: llm.Usage{Input: 7}, Err: ctx.Err()}
		})
		hedged := middleware.Hedge(middleware.HedgeConfig{Delay: time.Second}, fallbackDep("a", a), fallbackDep("b", hedgeIn(0, "b")))
		for name, c := range map[string]llm.Caller{"in a pipeline": llm.New().Then(hedged), "alone": hedged} {
			got := hedgeCall(t.Context(), c, stream)
			got.want(t, stream, "b", time.Second)
			i := slices.IndexFunc(got.resp.Attempts, func(row llm.Attempt) bool { return row.Deployment == "a" })
			if i < 0 || len(got.resp.Attempts) != 2 {
				t.Fatalf("%s: rows %q", name, fallbackRows(got.resp.Attempts))
			}
			row := got.resp.Attempts[i]
			if row.Class != llm.Canceled || row.Usage.Input != 7 || !strings.Contains(row.Err.Error(), "another deployment was faster") {
				t.Errorf("%s: the loser's row is %+v", name, row)
			}
		}
	})
}

func TestHedgeAFailureThatMayMoveStartsTheNextAtOnce(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		fails := llmtest.Step{Delay: time.Second / 2, Err: llm.Unavailable}
		a, b := llmtest.Script(fails), hedgeIn(time.Second/4, "b")
		hedgeCall(t.Context(), hedgeAfter(fallbackDep("a", a), fallbackDep("b", b)), stream).want(t, stream, "b", time.Second*3/4)

		// Beside one that runs: a fails at 1.5 s, b was called at 1 s, c is called in a's place.
		fails.Delay = time.Second * 3 / 2
		c := hedgeIn(time.Second/4, "c")
		all := hedgeAfter(fallbackDep("a", llmtest.Script(fails)), fallbackDep("b", hedgeHangs()), fallbackDep("c", c))
		hedgeCall(t.Context(), all, stream).want(t, stream, "c", time.Second*7/4)

		// The same where it is the hedge that fails: b at 1 s and 0.25 s.
		fails.Delay = time.Second / 4
		all = hedgeAfter(fallbackDep("a", hedgeHangs()), fallbackDep("b", llmtest.Script(fails)), fallbackDep("c", c))
		hedgeCall(t.Context(), all, stream).want(t, stream, "c", time.Second*3/2)
	})
}

func TestHedgeADelayBeginsAnewWithEachCaller(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		a := llmtest.Script(llmtest.Step{Delay: time.Second / 2, Err: llm.Unavailable})
		all := hedgeAfter(fallbackDep("a", a), fallbackDep("b", hedgeHangs()), fallbackDep("c", hedgeIn(0, "c")))
		hedgeCall(t.Context(), all, stream).want(t, stream, "c", time.Second*3/2)
	})
}

func TestHedgeAFailureThatMayNotMoveLeavesItToWhatRuns(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		invalid := llmtest.Step{Delay: time.Second * 3 / 2, Err: status(llm.Invalid, 400, "no such field")}
		c := hedgeIn(0, "c")
		all := hedgeAfter(fallbackDep("a", llmtest.Script(invalid)), fallbackDep("b", hedgeIn(time.Minute, "b")), fallbackDep("c", c))
		hedgeCall(t.Context(), all, stream).want(t, stream, "b", time.Second+time.Minute)

		fails := llmtest.Step{Delay: time.Minute, Err: llm.Unavailable}
		all = hedgeAfter(fallbackDep("a", llmtest.Script(invalid)), fallbackDep("b", llmtest.Script(fails)), fallbackDep("c", c))
		got := hedgeCall(t.Context(), all, stream)
		if llm.ClassOf(got.err) != llm.Invalid || !strings.Contains(got.err.Error(), "no such field, after b: unavailable") {
			t.Errorf("error %v, want a's, and b's with it", got.err)
		}

		invalid.Delay = 0
		b := hedgeIn(0, "b")
		got = hedgeCall(t.Context(), hedgeAfter(fallbackDep("a", llmtest.Script(invalid)), fallbackDep("b", b)), stream)
		if llm.ClassOf(got.err) != llm.Invalid || got.took != 0 || b.Count()+c.Count() != 0 {
			t.Errorf("error %v after %v; %d calls of b, %d of c", got.err, got.took, b.Count(), c.Count())
		}
	})
}

func TestHedgeIfAllFailThereIsOneErrorThatListsThem(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		fails := func(in time.Duration, c llm.Class) *llmtest.Model {
			return llmtest.Script(llmtest.Step{Delay: in, Err: c})
		}
		all := hedgeAfter(fallbackDep("a", fails(3*time.Second, llm.Unavailable)), fallbackDep("b", fails(4*time.Second, llm.Overloaded)),
			middleware.Route{Caller: fallbackDep("c", fails(0, llm.Timeout)), For: []llm.Class{llm.RateLimited}})
		got := hedgeCall(t.Context(), all, stream)
		e := fallbackError(t, got.err)
		const want = "llm: overloaded: no deployment answered: a: unavailable; b: overloaded; c not tried: it does not stand in for overloaded"
		if e.Error() != want || !errors.Is(e, llm.Overloaded) || len(e.Attempts) != 3 || got.took != 5*time.Second {
			t.Errorf("after %v: %v\nrows %q", got.took, e, fallbackRows(e.Attempts))
		}
	})
}

func TestHedgeOnlyTheWinnersDeltasReachTheSinkOnTheGoroutineOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goroutine := func() string {
			buf := make([]byte, 64)
			return strings.Fields(string(buf[:runtime.Stack(buf, false)]))[1]
		}
		for name, a := range map[string]*llmtest.Model{
			"the first wins": hedgeSays(llmtest.Step{Delay: 2 * time.Second, Gap: time.Second}, "1", "2", "3"),
			"the hedge wins": hedgeSays(llmtest.Step{Delay: 4 * time.Second, Gap: time.Second}, "x", "y", "z"),
		} {
			b := hedgeSays(llmtest.Step{Delay: 2 * time.Second, Gap: time.Second}, "1", "2", "3")
			mine, text, over := goroutine(), "", false
			req := fallbackAsk()
			req.Sink = func(d llm.Delta) error {
				if goroutine() != mine || over {
					t.Errorf("%s: %q on goroutine %s, not %s, or after the call: %t", name, d.Text, goroutine(), mine, over)
				}
				text += d.Text
				return nil
			}
			_, err := hedgeAfter(fallbackDep("a", a), fallbackDep("b", b)).Call(t.Context(), req)
			over = true
			if llmtest.Advance(time.Hour); err != nil || text != "123" {
				t.Errorf("%s: %q, %v", name, text, err)
			}
		}
	})
}

// hedgeStubborn lets go of its context only after a while, and goes on streaming meanwhile.
func hedgeStubborn(after time.Duration, gone *bool) llm.Caller {
	return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		<-ctx.Done()
		for range 3 {
			<-time.NewTimer(after / 3).C
			if req.Sink != nil {
				_ = req.Sink(llm.Delta{Text: "too late"})
			}
		}
		*gone = true
		return &llm.Response{Parts: []llm.Part{llm.Text("too late")}}, nil
	})
}

func TestHedgeWaitsForLosersAndHandsOutNothingOfThem(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		gone := false
		stubborn := hedgeStubborn(6*time.Second, &gone)
		first := hedgeAfter(fallbackDep("a", stubborn), fallbackDep("b", hedgeIn(time.Second, "b1 ", "b2")))
		hedgeCall(t.Context(), first, stream).want(t, stream, "b1 b2", 8*time.Second)
		if !gone {
			t.Error("the first was not waited for")
		}
		gone = false
		second := hedgeAfter(fallbackDep("a", hedgeIn(2*time.Second, "a1 ", "a2")), fallbackDep("b", stubborn))
		hedgeCall(t.Context(), second, stream).want(t, stream, "a1 a2", 8*time.Second)
		if !gone {
			t.Error("the hedge was not waited for")
		}
	})
}

func TestHedgeAWinnerProducesADeltaOnlyWhenTheLastOneWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		produced, taken := 0, 0
		b := llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
			for range 100 {
				produced++
				if err := req.Sink(llm.Delta{Text: "x"}); err != nil {
					return nil, err
				}
				if taken != produced {
					t.Errorf("%d produced, %d taken", produced, taken)
				}
			}
			return &llm.Response{Parts: []llm.Part{llm.Text(strings.Repeat("x", 100))}}, nil
		})
		req := fallbackAsk()
		req.Sink = func(llm.Delta) error {
			<-time.NewTimer(time.Second).C
			taken++
			return nil
		}
		if _, err := hedgeAfter(fallbackDep("a", hedgeHangs()), fallbackDep("b", b)).Call(t.Context(), req); err != nil || taken != 100 {
			t.Errorf("%d taken, %v", taken, err)
		}
	})
}

func TestHedgeTheSinksErrorEndsTheWinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, a := range map[string]*llmtest.Model{"the first": hedgeIn(2*time.Second, "1", "2", "3"), "the hedge": hedgeHangs()} {
			full, n := errors.New("the disk is full"), 0
			b := hedgeIn(2*time.Second, "1", "2", "3")
			req := fallbackAsk()
			req.Sink = func(llm.Delta) error {
				if n++; n == 2 {
					return full
				}
				return nil
			}
			_, err := hedgeAfter(fallbackDep("a", a), fallbackDep("b", b)).Call(t.Context(), req)
			if !errors.Is(err, full) || llm.ClassOf(err) != llm.Canceled || n != 2 || len(fallbackError(t, err).Attempts) != 2 {
				t.Errorf("%s: %v after %d deltas", name, err, n)
			}
		}
	})
}

func TestHedgeABreakOfTheWinnerEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaks, gone := llmtest.Step{Delay: time.Second / 2, Err: llm.Unavailable}, false
		stubborn := hedgeStubborn(time.Minute, &gone)
		c := hedgeIn(0, "c")
		for name, all := range map[string]llm.Caller{
			"the first": hedgeAfter(fallbackDep("a", hedgeSays(breaks, "half")), fallbackDep("c", c)),
			"the hedge": hedgeAfter(fallbackDep("a", hedgeHangs()), fallbackDep("b", hedgeSays(breaks, "half")), fallbackDep("c", c)),
			"the hedge, without a pipeline": middleware.Hedge(middleware.HedgeConfig{Delay: time.Second}, fallbackDep("a", stubborn),
				fallbackDep("b", hedgeSays(breaks, "half"))),
		} {
			got := hedgeCall(t.Context(), all, true)
			e := fallbackError(t, got.err)
			if len(e.Attempts) == 0 || e.Attempts[len(e.Attempts)-1].Err == nil || len(e.Attempts) != strings.Count(name, "hedge")+1 {
				t.Errorf("%s: rows %q", name, fallbackRows(e.Attempts))
			}
			if e.Class != llm.Interrupted || e.Partial == nil || e.Commit != llm.Committed || got.text != "half" || c.Count() != 0 {
				t.Errorf("%s: %v, %q, %d calls of c", name, e, got.text, c.Count())
			}
		}
	})
}

// A Caller that is no Deployment may not say that part of its answer went out.
func TestHedgeABreakSaysThatSomethingWasHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaks := hedgeSays(llmtest.Step{Err: llm.Unavailable}, "half")
		for name, all := range map[string]llm.Caller{"the first": hedgeAfter(breaks, hedgeHangs()), "the hedge": hedgeAfter(hedgeHangs(), breaks)} {
			got := hedgeCall(t.Context(), all, true)
			if e := fallbackError(t, got.err); e.Partial == nil || e.Commit != llm.Committed || got.text != "half" {
				t.Errorf("%s: %v, Partial %v, Commit %v", name, e, e.Partial, e.Commit)
			}
		}
	})
}

func TestHedgeACallerWhoLeavesEndsAllBranches(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		c := hedgeIn(0, "c")
		all := hedgeAfter(fallbackDep("a", hedgeHangs()), fallbackDep("b", hedgeHangs()), middleware.Route{
			Caller: fallbackDep("c", c), For: []llm.Class{llm.RateLimited},
		})
		got := hedgeCall(ctx, all, stream)
		if !errors.Is(got.err, context.Canceled) || llm.ClassOf(got.err) != llm.Canceled || got.took != 5*time.Second || c.Count() != 0 {
			t.Errorf("%v after %v", got.err, got.took)
		}
		if e := fallbackError(t, got.err); len(e.Attempts) != 2 || !strings.HasSuffix(e.Error(), "canceled: the caller left: context canceled") {
			t.Errorf("%v, rows %q", e, fallbackRows(e.Attempts))
		}
	})
}

func TestHedgeADeadlineEndsAllBranches(t *testing.T) {
	hedgeBoth(t, func(t *testing.T, stream bool) {
		hedged := middleware.Hedge(middleware.HedgeConfig{Delay: time.Second}, fallbackDep("a", hedgeHangs()), fallbackDep("b", hedgeHangs()))
		got := hedgeCall(t.Context(), llm.New(middleware.Deadline(middleware.DeadlineConfig{Total: 10 * time.Second})).Then(hedged), stream)
		if llm.ClassOf(got.err) != llm.Exhausted || got.took != 10*time.Second || len(fallbackError(t, got.err).Attempts) != 2 {
			t.Errorf("%v after %v", got.err, got.took)
		}
	})
}
