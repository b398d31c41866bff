package gemini_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestWhatEveryAdapterDoes(t *testing.T) {
	failure := func(message string) string { return `{"error":{"message":` + wiretest.Quote(message) + `}}` }
	wiretest.Test(t, wiretest.API{
		New: func(s wiretest.Settings) llm.Caller {
			return gemini.New(gemini.Config{
				BaseURL: s.URL, HTTPClient: s.HTTP, APIKey: s.APIKey, Key: s.Key, Header: s.Header, Model: "m",
			})
		},
		Whole: chunk(`{"text":"Hello"}`, stop, used), Cut: `{"candidates":[`,
		Kind: wiretest.SSE, Silent: ": ping\n\n", Hel: events(piece("Hel")),
		Hello:   events(piece("Hel"), chunk(`{"text":"lo"}`, stop, used)),
		Failure: failure, InBand: func(message string) string { return events(failure(message)) },
	})
}
