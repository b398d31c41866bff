package llmtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func hi() *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User("hi")}} }

// faulty is a chain of faults around a model that streams three pieces, and the model.
func faulty(cfg llmtest.FaultsConfig) (llm.Caller, *llmtest.Model) {
	m := llmtest.Script(llmtest.Step{Deltas: []llm.Delta{{Text: "one "}, {Text: "two "}, {Text: "three"}}})
	return llm.New(llmtest.Faults(cfg)).Then(&llm.Deployment{Name: "d", Caller: m}), m
}

func TestPassTakesTheNameAndThePlaceOfAStage(t *testing.T) {
	m := llmtest.Script(llmtest.Fail(llm.Unavailable))
	chain, err := llm.New(middleware.Retry(middleware.RetryConfig{})).Replace("retry", llmtest.Pass("retry"))
	if err != nil {
		t.Fatal(err)
	}
	c := chain.Then(&llm.Deployment{Name: "d", Caller: m})
	if _, err := c.Call(t.Context(), hi()); !errors.Is(err, llm.Unavailable) {
		t.Error(err)
	}
	llmtest.Expect(t, m).WasCalled(1)
	if got := c.String(); got != "retry\n  d" {
		t.Errorf("it prints as %q", got)
	}
}

func TestFaultsBefallACallWhereTheySay(t *testing.T) {
	unavailable := &llm.Error{Class: llm.Unavailable, Evidence: llm.Evidence{Status: 503}}
	for _, c := range []struct {
		name         string
		fault        llmtest.Fault
		stream       bool
		calls        int
		text         string // handed out
		class, row   llm.Class
		skipped      bool
		took         time.Duration
		hasPartial   bool
		commitStates llm.CommitState
	}{
		{"before", llmtest.Fault{Err: unavailable}, false, 0, "", llm.Unavailable, llm.Unavailable, true, 0, false, llm.CommitNone},
		{"before a stream", llmtest.Fault{Err: unavailable}, true, 0, "", llm.Unavailable, llm.Unavailable, true, 0, false, llm.CommitNone},
		{"after a wait", llmtest.Fault{Err: unavailable, Delay: time.Second}, false, 0, "", llm.Unavailable, llm.Unavailable, true, time.Second, false, llm.CommitNone},
		{"after", llmtest.Fault{At: llmtest.After, Err: llm.BadOutput}, false, 1, "", llm.BadOutput, llm.BadOutput, false, 0, false, llm.Committed},
		{"after a stream", llmtest.Fault{At: llmtest.After, Err: llm.BadOutput}, true, 1, "one two three", llm.BadOutput, llm.BadOutput, false, 0, true, llm.Committed},
		{"cut", llmtest.Fault{At: llmtest.Middle, Deltas: 2, Err: llm.Interrupted}, true, 1, "one two ", llm.Interrupted, llm.Interrupted, false, 0, true, llm.Committed},
		{"cut before the first", llmtest.Fault{At: llmtest.Middle, Err: llm.Stalled, Delay: time.Minute}, true, 1, "", llm.Stalled, llm.Stalled, false, time.Minute, false, llm.CommitUnknown},
		{"in the middle of no stream", llmtest.Fault{At: llmtest.Middle, Err: llm.BadOutput}, false, 1, "", llm.BadOutput, llm.BadOutput, false, 0, false, llm.Committed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chat, m := faulty(llmtest.FaultsConfig{Faults: []llmtest.Fault{c.fault}})
				rec := &llmtest.Recorder{}
				began := time.Now()
				var err error
				if c.stream {
					_, err = rec.Call(t.Context(), chat, hi())
				} else {
					_, err = chat.Call(t.Context(), hi())
				}
				llmtest.Expect(t, m).WasCalled(c.calls)
				e := llm.AsError(err)
				if e.Class != c.class || e.Commit != c.commitStates || (e.Partial != nil) != c.hasPartial || time.Since(began) != c.took || rec.Text() != c.text {
					t.Errorf("class %v, commit %v, partial %v, handed out %q after %v", e.Class, e.Commit, e.Partial, rec.Text(), time.Since(began))
				}
				if len(e.Attempts) != 1 || e.Attempts[0].Class != c.row || (e.Attempts[0].Skipped != "") != c.skipped {
					t.Errorf("the account is %+v", e.Attempts)
				}
				rec.Check(t)
			})
		})
	}
}

func TestFaultsBefallAsManyCallsAsTheySay(t *testing.T) {
	pattern := func(cfg llmtest.FaultsConfig, n int) string {
		chat, _ := faulty(cfg)
		var b strings.Builder
		for range n {
			if _, err := chat.Call(t.Context(), hi()); err != nil {
				b.WriteString(err.(*llm.Error).Class.String()[:1]) //nolint:errorlint // a Pipeline returns it
			} else {
				b.WriteString(".")
			}
		}
		return b.String()
	}
	unavailable, quota := llmtest.Fault{Err: llm.Unavailable, Skip: 1, Count: 2}, llmtest.Fault{Err: llm.Quota, Skip: 3}
	if got := pattern(llmtest.FaultsConfig{Faults: []llmtest.Fault{unavailable, quota}}, 8); got != ".uuqqqqq" {
		t.Errorf("got %q", got)
	}
	share := func(seed uint64) string {
		return pattern(llmtest.FaultsConfig{Seed: seed, Faults: []llmtest.Fault{{Share: 0.3, Err: llm.Overloaded}}}, 1000)
	}
	a, b := share(1), share(2)
	if a == b || a != share(1) {
		t.Error("the seed does not decide what happens")
	}
	if n := strings.Count(a, "o"); n < 250 || n > 350 {
		t.Errorf("%d of 1000 calls failed, for a share of 0.3", n)
	}
}

func TestFaultsPanicAndMayBeLeftDuringTheirDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chat, _ := faulty(llmtest.FaultsConfig{Faults: []llmtest.Fault{{Panic: "boom", Count: 1}, {Delay: time.Hour}}})
		func() {
			defer func() {
				if v := recover(); v != "boom" {
					t.Errorf("recovered %v", v)
				}
			}()
			_, err := chat.Call(t.Context(), hi())
			t.Errorf("returned %v", err)
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if _, err := chat.Call(ctx, hi()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// Around the model the faults are attempts like any other, which a retry counts.
func TestFaultsWithinADeploymentAreAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := llmtest.Faults(llmtest.FaultsConfig{Faults: []llmtest.Fault{{Err: llm.Unavailable, Count: 2}}}).Wrap(llmtest.Script())
		chat := llm.New(middleware.Retry(middleware.RetryConfig{})).Then(&llm.Deployment{Name: "d", Caller: bad})
		resp, err := chat.Call(t.Context(), hi())
		if err != nil || resp.Calls() != 3 {
			t.Errorf("%d calls, %v", resp.Calls(), err)
		}
	})
}

func TestFaultsRefuseNonsense(t *testing.T) {
	for _, f := range []llmtest.Fault{{}, {Err: llm.Quota, Share: 2}, {Err: llm.Quota, Count: -1}, {Delay: -1}} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.HasPrefix(said, "llm/llmtest: Faults: ") {
					t.Errorf("%+v: %s", f, said)
				}
			}()
			llmtest.Faults(llmtest.FaultsConfig{Faults: []llmtest.Fault{f}})
		}()
	}
}
