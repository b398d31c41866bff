package policy_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/llmtest/storetest"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/policy"
)

const sharedCard = `workflow: w
retry: {max: 5, base_ms: 1, cap_ms: 1}
cooldown: {rest_ms: 60000}
---
routes:
  a: {provider: script, model: one}
`

// sharing are Options of a process that shares what it learns.
func sharing(t *testing.T, rests middleware.CooldownStore, buckets middleware.BucketStore, a llm.Caller) policy.Options {
	t.Helper()
	o := scripted(map[string]llm.Caller{"a": a})
	o.Telemetry.Logger = slog.New(slog.DiscardHandler)
	o.Cooldowns = rests
	o.Buckets = middleware.NewBuckets(middleware.BucketsConfig{Store: buckets, Logger: o.Telemetry.Logger})
	t.Cleanup(func() {
		if err := o.Buckets.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func closed(t *testing.T, l *live) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestOneProcessMeetsTheOutageAndTheCardsOfAllRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rests, buckets := storetest.NewCooldowns(), storetest.NewBuckets()
		fail := llmtest.Fail(llm.Unavailable)
		first := goLive(t, sharing(t, rests, buckets, llmtest.Script(fail, fail, fail, fail, fail, fail)), sharedCard)
		defer closed(t, first)
		model := llmtest.Script(llmtest.Text("hi"))
		second := goLive(t, sharing(t, rests, buckets, model), sharedCard)
		defer closed(t, second)
		synctest.Wait()
		if _, err := call(t, first.Set, "w"); !errors.Is(err, llm.Unavailable) {
			t.Fatal(err)
		}
		llmtest.Advance(time.Second)
		if _, err := call(t, second.Set, "w"); !errors.Is(err, llm.Cooling) || model.Count() != 0 {
			t.Errorf("the second process: %v after %d calls", err, model.Count())
		}
		llmtest.Advance(30 * time.Second) // each asks what there is at least so often
		for i, l := range []*live{first, second} {
			if text := l.Describe("w").String(); strings.Contains(text, "140 of 140 tokens") {
				t.Errorf("process %d knows of no retry:\n%s", i, text)
			}
		}
		// Who starts now knows of the rest, and ends it for nobody.
		third := goLive(t, sharing(t, rests, buckets, model), sharedCard)
		defer closed(t, third)
		synctest.Wait()
		for i, l := range []*live{first, second, third} {
			if _, err := call(t, l.Set, "w"); !errors.Is(err, llm.Cooling) {
				t.Errorf("process %d: %v", i, err)
			}
		}
		// A route that is another one now rests nowhere.
		second.becomes(strings.Replace(sharedCard, "model: one", "model: two", 1))
		if resp, err := call(t, second.Set, "w"); err != nil || resp.Text() != "hi" {
			t.Errorf("a route that is new: %v", err)
		}
	})
}

func TestASetThatIsClosedGoesOnAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		rests := storetest.NewCooldowns()
		l := goLive(t, sharing(t, rests, storetest.NewBuckets(), llmtest.Script(llmtest.Text("hi"))), sharedCard)
		l.becomes(strings.Replace(sharedCard, "rest_ms: 60000", "rest_ms: 50000", 1)) // other rests take the place of the first
		closed(t, l)
		closed(t, l)
		if _, err := call(t, l.Set, "w"); err != nil {
			t.Error(err)
		}
		if err := l.Reload(); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("a reload after Close: %v", err)
		}
	})
}
