package anthropic_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestWhatEveryAdapterDoes(t *testing.T) {
	failure := func(message string) string {
		return `{"type":"error","error":{"type":"api_error","message":` + wiretest.Quote(message) + `}}`
	}
	wiretest.Test(t, wiretest.API{
		New: func(s wiretest.Settings) llm.Caller {
			return anthropic.New(anthropic.Config{
				BaseURL: s.URL, HTTPClient: s.HTTP, APIKey: s.APIKey, Key: s.Key, Header: s.Header, Model: "m",
			})
		},
		Whole: hello, Cut: `{"id":"msg_1"`,
		Kind: wiretest.SSE, Silent: events(begun, opened), Hel: events(begun, opened, piece("Hel")),
		Hello:   events(begun, opened, piece("Hel"), piece("lo"), closed, ended, over),
		Failure: failure, InBand: func(message string) string { return events(failure(message)) },
	})
}
