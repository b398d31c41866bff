package redisstore

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/redistest"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// region: share
// oneOfMany is a replica: what it learns, the others know.
func oneOfMany(store *Store, deployment *llm.Deployment) (chat llm.Caller, closing []func() error) {
	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{Store: store.Cooldowns()})
	limiter := middleware.NewLimiter(middleware.LimiterConfig{Limits: middleware.Limits{Requests: 600}, Store: store.Limits()})
	buckets := middleware.NewBuckets(middleware.BucketsConfig{Store: store.Buckets()})
	retries := middleware.NewRetryBudget(middleware.RetryBudgetConfig{Shared: buckets, Name: "retries"})
	onion := llm.New(cooldowns.Stage(), middleware.Retry(middleware.RetryConfig{Budget: retries}), limiter.Stage("openai"))
	return onion.Then(deployment), []func() error{cooldowns.Close, limiter.Close, buckets.Close}
}

// endregion

func TestOneLineEachMakesReplicasOne(t *testing.T) {
	server := redistest.Own(t)
	models := [2]*llmtest.Model{llmtest.Script(llmtest.Fail(llm.NotFound)), llmtest.Script(llmtest.Text("yes"))}
	chats := [2]llm.Caller{}
	for i := range chats {
		store := open(t, Config{URL: server.URL})
		chat, closing := oneOfMany(store, &llm.Deployment{Name: "d", Caller: models[i]})
		chats[i] = chat
		for _, f := range closing {
			t.Cleanup(func() {
				if err := f(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if _, err := chats[0].Call(t.Context(), hello()); llm.ClassOf(err) != llm.NotFound {
		t.Fatal(err)
	}
	for {
		_, err := chats[1].Call(t.Context(), hello())
		if llm.ClassOf(err) == llm.Cooling {
			break
		}
		if err != nil || t.Context().Err() != nil {
			t.Fatalf("the other replica never learned of the rest: %v", err)
		}
	}
}
