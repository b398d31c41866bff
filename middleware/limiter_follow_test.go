package middleware_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// told is a failure with headers.
func told(c llm.Class, wait time.Duration, header ...string) llmtest.Step {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return llmtest.Fail(&llm.Error{Class: c, RetryAfter: wait, Evidence: llm.Evidence{Status: 429, Header: h}})
}

func TestLimiterKeepsAllWaitingForWhatTheProviderAskedFor(t *testing.T) {
	for name, test := range map[string]struct {
		pool  string
		fixed bool
		step  llmtest.Step
		next  time.Duration
	}{
		"a wait":          {"", false, told(llm.RateLimited, 7*time.Second), 7 * time.Second},
		"no wait":         {"", false, told(llm.RateLimited, 0), 200 * time.Millisecond}, // one at half the rate
		"a rest":          {"", false, told(llm.RateLimited, time.Hour), 0},
		"another class":   {"", false, told(llm.Unavailable, 7*time.Second), 0},
		"fixed":           {"", true, told(llm.RateLimited, 7*time.Second), 0},
		"a pool of yours": {"mine", false, told(llm.RateLimited, 7*time.Second), 0},
		"a refusal of ours": {"", false, llmtest.Fail(&llm.Error{
			Class: llm.RateLimited, RetryAfter: 7 * time.Second, Skipped: true,
		}), 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			model := llmtest.Script(test.step, llmtest.Step{})
			cfg := perMinute(600)
			cfg.Fixed = test.fixed
			l := middleware.NewLimiter(cfg)
			chat := llm.New(l.Stage(test.pool)).Then(&llm.Deployment{Name: "d", Caller: model})
			_, err := chat.Call(t.Context(), limiterAsk("", 1))
			if err == nil {
				t.Fatal("no error")
			}
			began := time.Now()
			_, err = chat.Call(t.Context(), limiterAsk("", 1))
			if got := time.Since(began); err != nil || got != test.next {
				t.Errorf("%s: %v after %v, want %v", name, err, got, test.next)
			}
		})
	}
}

func TestLimiterHasNoMoreLeftThanAFailureSays(t *testing.T) {
	limits := middleware.Limits{Requests: 100, Input: 1000, Output: 1000, Tokens: 1000}
	for name, test := range map[string]struct {
		header []string
		left   middleware.Limits
	}{
		"nothing":     {nil, middleware.Limits{Requests: 99, Input: 1000, Output: 1000, Tokens: 1000}},
		"OpenAI":      {[]string{"x-ratelimit-remaining-requests", "7", "x-ratelimit-remaining-tokens", "70"}, middleware.Limits{Requests: 7, Input: 1000, Output: 1000, Tokens: 70}},
		"Anthropic":   {[]string{"anthropic-ratelimit-input-tokens-remaining", "30", "anthropic-ratelimit-output-tokens-remaining", "0"}, middleware.Limits{Requests: 99, Input: 30, Output: 0, Tokens: 1000}},
		"Cerebras":    {[]string{"x-ratelimit-remaining-tokens-minute", "5"}, middleware.Limits{Requests: 99, Input: 1000, Output: 1000, Tokens: 5}},
		"more":        {[]string{"x-ratelimit-remaining-requests", "5000"}, middleware.Limits{Requests: 99, Input: 1000, Output: 1000, Tokens: 1000}},
		"not told":    {[]string{"x-ratelimit-remaining-requests", "-1", "x-ratelimit-remaining-tokens", "many"}, middleware.Limits{Requests: 99, Input: 1000, Output: 1000, Tokens: 1000}},
		"the smaller": {[]string{"x-ratelimit-remaining-tokens", "70", "anthropic-ratelimit-tokens-remaining", "60"}, middleware.Limits{Requests: 99, Input: 1000, Output: 1000, Tokens: 60}},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, chat := limited(middleware.LimiterConfig{Limits: limits, Burst: time.Minute}, llmtest.Script(told(llm.Unavailable, 0, test.header...)))
			_, _ = chat.Call(t.Context(), limiterAsk("", 1))
			if s := l.Snapshot()[0]; s.Left != test.left {
				t.Errorf("%s: %v", name, s)
			}
		})
	}
}

func TestRefusalsHalveTheLimitsOncePerWindowAndTheyComeBackInSteps(t *testing.T) {
	for _, class := range []llm.Class{llm.RateLimited, llm.Overloaded} {
		synctest.Test(t, func(t *testing.T) {
			fail := llmtest.Step{Delay: time.Millisecond, Err: class}
			steps := append(slices.Repeat([]llmtest.Step{fail}, 8), llmtest.Step{})
			cfg := perMinute(600)
			cfg.Limits.InFlight = 10
			l, chat := limited(cfg, llmtest.Script(steps...))
			share := func(want float64, slots int) {
				t.Helper()
				s := l.Snapshot()[0]
				if d := s.Share - want; d > 1e-9 || d < -1e-9 || s.Left.InFlight != slots {
					t.Errorf("%v: %v after refusals, %d slots, want %v and %d", class, s.Share, s.Left.InFlight, want, slots)
				}
			}
			var together []func()
			for range 5 {
				together = append(together, func() { _, _ = chat.Call(t.Context(), limiterAsk("", 1)) })
			}
			limiterGo(together...) // under way at the same time: one cut
			share(0.5, 5)
			_, _ = chat.Call(t.Context(), limiterAsk("", 1)) // within the window
			share(0.5, 5)
			llmtest.Advance(11 * time.Second)
			share(0.75, 7)
			_, _ = chat.Call(t.Context(), limiterAsk("", 1))
			share(0.375, 3)
			llmtest.Advance(5 * time.Second)
			share(0.475, 4)
			llmtest.Advance(65 * time.Second)
			share(1, 10)
		})
	}
}

func TestACutLimitPacesByWhatIsLeftOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Fail(llm.RateLimited), llmtest.Step{})
		_, chat := limited(perMinute(60), model)
		began := time.Now()
		for range 5 {
			_, _ = chat.Call(t.Context(), limiterAsk("", 1))
		}
		// Half a request a second for 2 s, 0.55 for 2 s, then 0.6: the second is there after 2 s, the third 1/0.55 s later; a tenth of
		// the fourth is there after 4 s, and the rest 0.9/0.6 s later.
		if got, want := model.Calls()[3].At.Sub(began), 5500*time.Millisecond; got < want || got > want+time.Microsecond {
			t.Errorf("the fourth went after %v, want %v", got, want)
		}
	})
}

func TestAfterARefusalNoBurstFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(told(llm.RateLimited, 10*time.Second), llmtest.Step{})
		l, chat := limited(middleware.LimiterConfig{Limits: middleware.Limits{Requests: 600, Tokens: 60_000}}, model)
		_, _ = chat.Call(t.Context(), limiterAsk("", 1))
		llmtest.Advance(10 * time.Second)
		if s := l.Snapshot()[0]; s.Left.Requests > 15 || s.Left.Tokens > 2500 { // what came in by the steps above the first half
			t.Errorf("%v", s)
		}
	})
}
