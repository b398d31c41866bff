package openai_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestWhatEveryAdapterDoes(t *testing.T) {
	event := func(message string) string { return `{"error":{"message":` + wiretest.Quote(message) + `}}` }
	wiretest.Test(t, wiretest.API{
		New: func(s wiretest.Settings) llm.Caller {
			return openai.New(openai.Config{
				BaseURL: s.URL, HTTPClient: s.HTTP, APIKey: s.APIKey, Key: s.Key, Header: s.Header, Model: "m",
			})
		},
		Whole: `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`, Cut: `{"choices":[`,
		Kind: wiretest.SSE, Silent: ": hi\n\n", Hel: first, Hello: first + second + end + usage + done,
		Failure: event, InBand: func(message string) string { return "data: " + event(message) + "\n\n" },
	})
}

func TestWhatEveryAdapterDoesWithResponses(t *testing.T) {
	failure := func(message string) string { return `{"error":{"message":` + wiretest.Quote(message) + `}}` }
	wiretest.Test(t, wiretest.API{
		New: func(s wiretest.Settings) llm.Caller {
			return openai.NewResponses(openai.Config{
				BaseURL: s.URL, HTTPClient: s.HTTP, APIKey: s.APIKey, Key: s.Key, Header: s.Header, Model: "m",
			})
		},
		Whole: wholeResponse("completed", llm.Usage{Input: 9, Output: 2}, messageItem("Hello")), Cut: `{"object":"response","output":[`,
		Kind: wiretest.SSE, Silent: created, Hel: created + added + hel, Hello: helloWhole,
		Failure: failure,
		InBand:  func(message string) string { return "event: error\ndata: " + failure(message) + "\n\n" },
	})
}
