package llmtest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// A chain meets a provider that is rate limited, breaks off a stream, and then is well. In a test it would be NewProvider.
func ExampleStartProvider() {
	p, err := llmtest.StartProvider("127.0.0.1:0", llmtest.Turns(
		llmtest.Turn{Do: llmtest.DoRateLimited, RetryAfter: 10 * time.Millisecond},
		llmtest.Turn{Do: llmtest.DoResetBody, Text: "Hello from", At: 1},
		llmtest.Turn{Text: "Hello from the third attempt."},
	))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	chat := llm.New(middleware.Retry(middleware.RetryConfig{Base: time.Millisecond}), middleware.Commit(middleware.CommitConfig{})).
		Then(&llm.Deployment{Name: "d", Caller: openai.New(openai.Config{
			BaseURL: p.URL + "/v1", APIKey: "any", Model: "gpt-4o", HTTPClient: p.Client(),
		})})
	req := &llm.Request{Messages: []llm.Message{llm.User("Hello?")}, Sink: func(llm.Delta) error { return nil }}
	resp, err := chat.Call(context.Background(), req)
	fmt.Println(resp.Text(), err)
	p.Wait()
	for _, x := range p.Exchanges() {
		fmt.Println(x.N, x.API, x.Model, x.Did, x.Status)
	}
	// Output:
	// Hello from the third attempt. <nil>
	// 1 chat gpt-4o rate_limited 429
	// 2 chat gpt-4o reset_body 200
	// 3 chat gpt-4o answer 200
}

// A test in fake time: the model is silent for a minute at a time, and the test takes no time.
func TestSilenceInFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmtest.NewPipeProvider(t, llmtest.Turns(llmtest.Turn{Do: llmtest.DoSilence}))
		model := llm.New(middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Total: time.Minute})).
			Then(&llm.Deployment{Name: "d", Caller: openai.New(openai.Config{
				BaseURL: p.URL, APIKey: "any", Model: "gpt-4o", HTTPClient: p.Client(),
			})})
		_, err := model.Call(t.Context(), &llm.Request{Messages: []llm.Message{llm.User("Hello?")}})
		p.Wait()
		if x := p.Exchanges()[0]; llm.ClassOf(err) != llm.Stalled || !x.HungUp || x.HungUpAfter != time.Minute {
			t.Errorf("%v; the provider saw %+v", err, x)
		}
	})
}

func ExampleReadScenario() {
	cfg, err := llmtest.ReadScenario(strings.NewReader(`{"routes": [
		{"model": "gpt-*", "quota": {"requests": 10, "per": "1m"}},
		{"outages": [{"from": "30s", "to": "60s", "turn": {"do": "overloaded"}}]}]}`))
	fmt.Println(len(cfg.Routes), cfg.Routes[0].Quota.Per, err)

	_, err = llmtest.ReadScenario(strings.NewReader(`{"routes": [
		{"turns": [{"do": "rate-limited"}]}]}`))
	fmt.Println(err)
	// Output:
	// 2 1m0s <nil>
	// line 2: routes[0].turns[0].do: there is no act "rate-limited"; did you mean "rate_limited"?
}
