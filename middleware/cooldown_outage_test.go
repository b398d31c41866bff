package middleware_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// cooldownPair is a primary in cooldown and retry, and what answers when it does not.
func cooldownPair(retry middleware.RetryConfig, primary, fallback llm.Caller) llm.Caller {
	c := middleware.NewCooldowns(middleware.CooldownConfig{})
	first := llm.New(c.Stage(), middleware.Retry(retry)).Then(&llm.Deployment{Name: "p", Caller: primary})
	return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		if resp, err := first.Call(ctx, req); err == nil {
			return resp, nil
		}
		return fallback.Call(ctx, req)
	})
}

func TestCooldownSparesADeploymentThatIsDownAndReturnsToItSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var down, up atomic.Int64
		primary := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
			if time.Since(start) < time.Minute {
				down.Add(1)
				return nil, llm.Unavailable
			}
			up.Add(1)
			return &llm.Response{Parts: []llm.Part{llm.Text("primary")}}, nil
		})
		chat := cooldownPair(middleware.RetryConfig{Max: 1}, primary, llmtest.Script())
		for range 23 {
			before := time.Now()
			if _, err := chat.Call(t.Context(), retryAsk()); err != nil || time.Since(before) > 2*time.Second {
				t.Errorf("error %v after %v, want each call answered soon", err, time.Since(before))
			}
			llmtest.Advance(4 * time.Second)
		}
		if down.Load() > 6 || up.Load() == 0 {
			t.Errorf("%d attempts during the outage, %d in the half minute after; want at most six, and some", down.Load(),
				up.Load())
		}
	})
}

func TestCooldownMakesCallsToAHangingDeploymentFailFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		hanging := cooldownAround(c, "hanging", llmtest.Script(llmtest.Step{Delay: 20 * time.Second, Err: llm.Stalled}))
		healthy := cooldownAround(c, "healthy", llmtest.Script(llmtest.Step{Delay: time.Second}))
		took := func(chat llm.Caller) time.Duration {
			start := time.Now()
			_, _ = chat.Call(t.Context(), retryAsk())
			return time.Since(start)
		}
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() { took(hanging) })
		}
		llmtest.Advance(time.Second)
		if d := took(healthy); d != time.Second {
			t.Errorf("the healthy deployment took %v meanwhile, want its second", d)
		}
		wg.Wait()
		for range 200 {
			if d := took(hanging); d != 0 {
				t.Fatalf("a call took %v after the rest began, want none", d)
			}
		}
		if d := took(healthy); d != time.Second {
			t.Errorf("the healthy deployment took %v afterwards, want its second", d)
		}
	})
}

func TestCooldownAndRetryGiveTheFallbackItsTimeWhenTheWaitIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		primary, fallback := llmtest.Script(llmtest.Fail(retryAfter(time.Minute))), llmtest.Script()
		chat, start := cooldownPair(middleware.RetryConfig{}, primary, fallback), time.Now()
		if _, err := chat.Call(ctx, retryAsk()); err != nil || time.Since(start) != 0 || primary.Count() != 1 {
			t.Errorf("error %v after %v and %d calls, want the fallback's answer at once", err, time.Since(start),
				primary.Count())
		}
		llmtest.Advance(time.Second)
		if _, err := chat.Call(ctx, retryAsk()); err != nil || primary.Count() != 1 || fallback.Count() != 2 {
			t.Errorf("error %v, %d calls of the primary, want it to rest", err, primary.Count())
		}
	})
}

// cooldownNoop answers with an answer that may be shared.
func cooldownNoop() llm.Caller {
	resp := &llm.Response{Parts: []llm.Part{llm.Text("ok")}}
	return llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return resp, nil })
}

func cooldownStages() map[string]llm.Chain {
	c := middleware.NewCooldowns(middleware.CooldownConfig{OnChange: func(middleware.CooldownState) {}})
	retry := middleware.Retry(middleware.RetryConfig{})
	return map[string]llm.Chain{
		"none": llm.New(), "cooldown": llm.New(c.Stage()), "retry": llm.New(retry), "both": llm.New(c.Stage(), retry),
	}
}

func TestCooldownAndRetryAllocateOnceOnTheWayToAnAnswer(t *testing.T) {
	allocs := map[string]float64{}
	req := retryAsk()
	for name, chain := range cooldownStages() {
		chat := chain.Then(&llm.Deployment{Name: "a", Quota: "q", Credential: "k", Caller: cooldownNoop()})
		allocs[name] = testing.AllocsPerRun(1000, func() {
			if _, err := chat.Call(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		})
	}
	if allocs["retry"] > allocs["none"] || allocs["both"] > allocs["none"]+1 {
		t.Errorf("allocations %v, want none for retry and one for cooldown", allocs)
	}
}

func BenchmarkRetryAndCooldown(b *testing.B) {
	for _, name := range []string{"none", "cooldown", "retry", "both"} {
		chat := cooldownStages()[name].Then(&llm.Deployment{Name: "a", Quota: "q", Credential: "k", Caller: cooldownNoop()})
		req := retryAsk()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := chat.Call(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := chat.Call(b.Context(), req); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func BenchmarkCooldownRefusal(b *testing.B) {
	chat := cooldownAround(middleware.NewCooldowns(middleware.CooldownConfig{Rest: time.Hour}), "a",
		llmtest.Script(llmtest.Fail(llm.Unavailable)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := chat.Call(b.Context(), retryAsk()); err == nil {
			b.Fatal("no error")
		}
	}
}
