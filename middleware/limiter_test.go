package middleware_test

import (
	"context"
	"errors"
	"math"
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

func limiterAsk(tenant string, maxTokens int) *llm.Request {
	return &llm.Request{System: strings.Repeat("x", 300), MaxTokens: maxTokens, Labels: map[string]string{"tenant": tenant}}
}

// limited is the stage around a deployment "d" of model.
func limited(cfg middleware.LimiterConfig, model llm.Caller) (*middleware.Limiter, llm.Caller) {
	l := middleware.NewLimiter(cfg)
	return l, llm.New(l.Stage("")).Then(&llm.Deployment{Name: "d", Caller: model})
}

func perMinute(n int) middleware.LimiterConfig {
	return middleware.LimiterConfig{Limits: middleware.Limits{Requests: n}}
}

// limiterGo makes calls in order, each once the one before waits or is under way, and waits for all.
func limiterGo(calls ...func()) {
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(call)
		synctest.Wait()
	}
	all.Wait()
}

// refusal is err, which must be one of ours with a wait.
func refusal(t *testing.T, err error, wait time.Duration) {
	t.Helper()
	if e := llm.AsError(err); err == nil || e.Class != llm.RateLimited || !e.Skipped || e.RetryAfter != wait {
		t.Errorf("%v, skipped %t, retry after %v; want a refusal of ours with %v", err, e != nil && e.Skipped, e.RetryAfter, wait)
	}
}

// callTimes are when m was called, from a moment on.
func callTimes(m *llmtest.Model, from time.Time) string {
	var at []string
	for _, c := range m.Calls() {
		at = append(at, c.At.Sub(from).String())
	}
	return strings.Join(at, " ")
}

func TestLimiterPacesRequestsInTheOrderInWhichTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script()
		_, chat := limited(perMinute(60), model)
		began := time.Now()
		var calls []func()
		for i := range 5 {
			calls = append(calls, func() {
				resp, err := chat.Call(t.Context(), limiterAsk("", i+1))
				if err != nil || resp.Attempts[0].Waited != time.Duration(i)*time.Second {
					t.Errorf("%d: waited %v, %v", i, resp.Attempts[0].Waited, err)
				}
			})
		}
		limiterGo(calls...)
		for i, c := range model.Calls() {
			if c.Request.MaxTokens != i+1 {
				t.Errorf("call %d is number %d", i, c.Request.MaxTokens)
			}
		}
		if got := callTimes(model, began); got != "0s 1s 2s 3s 4s" {
			t.Errorf("called at %s", got)
		}
	})
}

func TestLimiterSettlesWhatItReserved(t *testing.T) {
	failed := func(e llm.Error) llmtest.Step { return llmtest.Fail(&e) }
	for name, test := range map[string]struct {
		step          llmtest.Step
		requests, out int // left of 100 and 1000
	}{
		"less is given back":         {used(100, 40), 99, 960},
		"more is owed":               {used(100, 1500), 99, -500},
		"turned away":                {failed(llm.Error{Class: llm.Invalid, Evidence: llm.Evidence{Status: 400}}), 99, 1000},
		"never reached":              {failed(llm.Error{Class: llm.Unavailable, Evidence: llm.Evidence{Phase: llm.PhaseConnect}}), 100, 1000},
		"broke off after a part":     {failed(llm.Error{Class: llm.Interrupted, Commit: llm.Committed, Usage: llm.Usage{Input: 100, Output: 7}}), 99, 993},
		"who knows":                  {failed(llm.Error{Class: llm.Timeout, Commit: llm.CommitUnknown}), 99, 700},
		"a panic is not known":       {llmtest.Step{Panic: "boom"}, 99, 700},
		"an answer without an usage": {llmtest.Step{}, 99, 700},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, chat := limited(middleware.LimiterConfig{
				Limits: middleware.Limits{Requests: 100, Output: 1000}, Burst: time.Minute, Fixed: true,
			}, llmtest.Script(test.step))
			_, _ = chat.Call(t.Context(), limiterAsk("", 300))
			s := l.Snapshot()[0]
			if s.Left.Requests != test.requests || s.Left.Output != test.out || s.InFlight != 0 {
				t.Errorf("%s: %v", name, s)
			}
		})
	}
}

func TestLimiterReservesInputAndOutputOrBothTogether(t *testing.T) {
	for name, test := range map[string]struct {
		cfg    middleware.LimiterConfig
		max    int
		tokens int
	}{
		"by bytes":          {middleware.LimiterConfig{}, 200, 300},
		"by a counter":      {middleware.LimiterConfig{Counter: fixedCount(77)}, 200, 277},
		"a failing counter": {middleware.LimiterConfig{Counter: fixedCount(-1)}, 200, 300},
		"a wrong counter":   {middleware.LimiterConfig{Counter: fixedCount(-77)}, 200, 300},
		"no bound":          {middleware.LimiterConfig{}, 0, 100 + 4096},
		"at most Output":    {middleware.LimiterConfig{Output: 50}, 200, 150},
		"no bound, Output":  {middleware.LimiterConfig{Output: 60}, 0, 160},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := test.cfg
			cfg.Limits, cfg.Burst = middleware.Limits{Tokens: 10_000, Input: 9000, Output: 8000}, time.Minute
			l, chat := limited(cfg, llmtest.Script(llmtest.Step{Delay: time.Nanosecond}))
			go func() { _, _ = chat.Call(t.Context(), limiterAsk("", test.max)) }()
			synctest.Wait()
			s := l.Snapshot()[0]
			got := 10_000 - s.Left.Tokens
			if both := 9000 - s.Left.Input + 8000 - s.Left.Output; got != test.tokens || both != got {
				t.Errorf("%s: %d and %d reserved, want %d", name, got, both, test.tokens)
			}
		})
	}
}

// fixedCount counts every request the same, or fails at -1.
type fixedCount int

func (n fixedCount) CountTokens(context.Context, *llm.Request, int) (int, error) {
	if n == -1 {
		return 0, errors.New("cannot count")
	}
	return int(n), nil
}

func TestLimiterCountsCachedInputUnlessItIsFree(t *testing.T) {
	for free, left := range map[bool]int{false: 900, true: 970} {
		synctest.Test(t, func(t *testing.T) {
			answer := llmtest.Step{Response: &llm.Response{Usage: llm.Usage{Input: 100, CachedInput: 70, Output: 1}}}
			l, chat := limited(middleware.LimiterConfig{
				Limits: middleware.Limits{Input: 1000}, Burst: time.Minute, CachedFree: free,
			}, llmtest.Script(answer))
			_, _ = chat.Call(t.Context(), limiterAsk("", 1))
			if s := l.Snapshot()[0]; s.Left.Input != left {
				t.Errorf("free %t: %v", free, s)
			}
		})
	}
}

func TestLimiterLetsNoMoreGoAtOnceThanBurst(t *testing.T) {
	for burst, want := range map[time.Duration]int{0: 2, time.Second: 2, 10 * time.Second: 20, time.Minute: 120} {
		synctest.Test(t, func(t *testing.T) {
			model := llmtest.Script()
			cfg := perMinute(120)
			cfg.Burst = burst
			_, chat := limited(cfg, model)
			llmtest.Advance(time.Hour) // idle
			began := time.Now()
			for range want + 1 {
				if _, err := chat.Call(t.Context(), limiterAsk("", 1)); err != nil {
					t.Fatal(err)
				}
			}
			calls := model.Calls()
			if last := calls[want-1].At.Sub(began); last != 0 || time.Since(began) != 500*time.Millisecond {
				t.Errorf("burst %v: number %d went after %v, the next one after %v", burst, want, last, time.Since(began))
			}
		})
	}
}

func TestLimiterLetsALargeRequestGoAloneAndRefusesAnImpossibleOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Step{Func: func(_ context.Context, r *llm.Request) (*llm.Response, error) {
			return &llm.Response{Parts: []llm.Part{llm.Text("ok")}, Usage: llm.Usage{Output: r.MaxTokens}}, nil
		}})
		_, chat := limited(middleware.LimiterConfig{Limits: middleware.Limits{Output: 600}}, model) // 10 a second, 100 at once
		began := time.Now()
		if _, err := chat.Call(t.Context(), limiterAsk("", 601)); llm.ClassOf(err) != llm.Unsupported { // though all is there
			t.Error(err)
		}
		for _, n := range []int{400, 100, 400} {
			if _, err := chat.Call(t.Context(), limiterAsk("", n)); err != nil {
				t.Fatal(err)
			}
		}
		// 400 leave a debt of 300, so 100 are there after 40 s, and once more 10 s later.
		if got := callTimes(model, began); got != "0s 40s 50s" {
			t.Errorf("called at %s", got)
		}
		_, err := chat.Call(t.Context(), limiterAsk("", 601))
		if e := llm.AsError(err); e.Class != llm.Unsupported || !e.Skipped || time.Since(began) != 50*time.Second ||
			!strings.Contains(err.Error(), "601 output tokens, and the limit is 600 a minute") {
			t.Errorf("%v", err)
		}
		if _, err := chat.Call(t.Context(), limiterAsk("", 0)); err != nil { // what is only guessed is made to fit
			t.Error(err)
		}
	})
}

func TestLimiterRampsUpAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script()
		cfg := perMinute(60)
		cfg.Ramp = 12 * time.Second
		_, chat := limited(cfg, model)
		for range 2 {
			began, before := time.Now(), model.Count()
			for range 9 {
				if _, err := chat.Call(t.Context(), limiterAsk("", 1)); err != nil {
					t.Fatal(err)
				}
			}
			// A quarter for 4 s, a half, three quarters, and then one a second.
			var at []string
			for _, c := range model.Calls()[before:] {
				at = append(at, c.At.Sub(began).Round(10*time.Millisecond).String())
			}
			if got := strings.Join(at, " "); got != "0s 4s 6s 8s 9.33s 10.67s 12s 13s 14s" {
				t.Errorf("called at %s", got)
			}
			llmtest.Advance(12 * time.Second)
		}
	})
}

func TestLimiterSharesAPoolByQuotaOrByName(t *testing.T) {
	of := func(l *middleware.Limiter, pool, name, quota string) llm.Caller {
		return llm.New(l.Stage(pool)).Then(&llm.Deployment{Name: name, Quota: quota, Caller: llmtest.Script()})
	}
	for name, test := range map[string]struct {
		pool    string
		quotas  [2]string
		pools   []string
		waiting time.Duration
	}{
		"each its own": {"", [2]string{}, []string{"a", "b"}, 0},
		"one quota":    {"", [2]string{"q", "q"}, []string{"q"}, time.Second},
		"one pool":     {"all", [2]string{"q", ""}, []string{"all"}, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := middleware.NewLimiter(perMinute(60))
			a, b := of(l, test.pool, "a", test.quotas[0]), of(l, test.pool, "b", test.quotas[1])
			began := time.Now()
			_, err := a.Call(t.Context(), limiterAsk("", 1))
			_, err2 := b.Call(t.Context(), limiterAsk("", 1))
			var pools []string
			for _, s := range l.Snapshot() {
				pools = append(pools, s.Pool)
			}
			if err != nil || err2 != nil || time.Since(began) != test.waiting || !slices.Equal(pools, test.pools) {
				t.Errorf("%s: %v, pools %q, %v, %v", name, time.Since(began), pools, err, err2)
			}
		})
	}
}

func TestLimiterAroundSeveralDeploymentsCountsEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := middleware.NewLimiter(middleware.LimiterConfig{Limits: middleware.Limits{Requests: 100, Tokens: 10_000}, Burst: time.Minute})
		broken := llmtest.Fail(&llm.Error{Class: llm.Interrupted, Commit: llm.Committed, Usage: llm.Usage{Input: 100, Output: 30}})
		chat := llm.New(l.Stage("work")).Then(fallbackTo(
			fallbackDep("p", llmtest.Script(broken)), fallbackDep("f", llmtest.Script(used(100, 50)))))
		if _, err := chat.Call(t.Context(), limiterAsk("", 1000)); err != nil {
			t.Fatal(err)
		}
		if s := l.Snapshot()[0]; s.Left.Requests != 98 || s.Left.Tokens != 10_000-280 {
			t.Errorf("%v", s)
		}
	})
}

func TestARequestBeyondAllNumbersIsUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, chat := limited(middleware.LimiterConfig{Limits: middleware.Limits{Tokens: 60_000}}, llmtest.Script())
		_, err := chat.Call(t.Context(), limiterAsk("", math.MaxInt))
		if e := llm.AsError(err); e == nil || e.Class != llm.Unsupported || !e.Skipped {
			t.Errorf("a request for %d tokens of 60,000 a minute ends with %v", math.MaxInt, err)
		}
	})
}

// A provider may say that it used what nobody can. The pool is not held up for it longer than for a minute's worth.
func TestUsageBeyondAllNumbersCostsAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, chat := limited(middleware.LimiterConfig{Limits: middleware.Limits{Output: 60, Tokens: 600}}, llmtest.Script(used(math.MaxInt, math.MaxInt)))
		if _, err := chat.Call(t.Context(), limiterAsk("", 1)); err != nil {
			t.Fatal(err)
		}
		if left := l.Snapshot()[0].Left; left.Output != -60 || left.Tokens != -600 {
			t.Errorf("left is %+v, want a minute's limit to be missing", left)
		}
	})
}
