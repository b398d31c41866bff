package bedrock_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/bedrock"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestWhatEveryAdapterDoes(t *testing.T) {
	failure := func(message string) string { return `{"message":` + wiretest.Quote(message) + `}` }
	wiretest.Test(t, wiretest.API{
		New: func(s wiretest.Settings) llm.Caller {
			return bedrock.New(bedrock.Config{
				Region: "us-east-1", BaseURL: s.URL, HTTPClient: s.HTTP, APIKey: s.APIKey, Key: s.Key, Header: s.Header, Model: "m",
			})
		},
		Whole: hello, Cut: `{"output"`,
		Kind: frameType, Silent: begun, Hel: begun + piece("Hel"), Hello: begun + piece("Hel") + piece("lo") + closed + ended + told,
		Failure: failure,
		InBand:  func(message string) string { return exception("internalServerException", failure(message)) },
	})
}
