package gemini_test

import (
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
	"github.com/modelchain/llm/internal/wiretest"
)

// apart are events, a stream of each.
func apart(data ...string) []string {
	for i := range data {
		data[i] = events(data[i])
	}
	return data
}

// config is that of a model with a name.
func config(s wiretest.Settings) gemini.Config {
	return gemini.Config{
		BaseURL: s.URL, HTTPClient: s.HTTP, APIKey: s.APIKey, Key: s.Key, Header: s.Header, Model: "m",
	}
}

func TestWhatEveryAdapterDoes(t *testing.T) {
	failure := func(message string) string { return `{"error":{"message":` + wiretest.Quote(message) + `}}` }
	wiretest.Test(t, wiretest.API{
		New:    func(s wiretest.Settings) llm.Caller { return gemini.New(config(s)) },
		Config: func(s wiretest.Settings) any { return config(s) },
		Whole:  chunk(`{"text":"Hello"}`, stop, used), Cut: `{"candidates":[`,
		Kind: wiretest.SSE, Silent: ": ping\n\n", Hel: events(piece("Hel")),
		Hello: events(piece("Hel"), chunk(`{"text":"lo"}`, stop, used)),
		Damaged: apart(
			`{"candidates":"lost"}`, `{"candidates":{"content":{"parts":[{"text":"lost"}]}}}`, `{"candidates":["lost"]}`,
			`{"candidates":[["lost"]]}`, `{"candidates":[{"content":"lost"}]}`, `{"candidates":[{"content":["lost"]}]}`, `{"candidates":[{"content":{"text":"lost"}}]}`,
			`{"candidates":[{"content":{"parts":"lost"}}]}`, `{"candidates":[{"content":{"parts":{"text":"lost"}}}]}`,
			`{"candidates":[{"content":{"parts":["lost"]}}]}`, `{"candidates":[{"content":{"parts":[["lost"]]}}]}`, `{"candidates":[{"output":"lost"}]}`,
			chunk(`{"text":["lost"]}`, "", ""), chunk(`{"text":7}`, "", ""), `{"response":{"candidates":[{"content":{"parts":[{"text":"lost"}]}}]}}`,
			`{"choices":[{"delta":{"content":"lost"}}]}`, `{"text":"lost"}`, `{bad`, `lost text`, `["lost"]`, `"lost"`, `7`, `ping`,
		),
		Lost: []string{
			`{"candidates":["lost"]}`, `{"candidates":[{"content":"lost","finishReason":"STOP"}]}`, chunk(`"lost"`, stop, used),
			chunk(`{"text":["lost"]}`, stop, used), `["lost"]`, `lost`,
		},
		Nothing: append(apart(
			`{"candidates":[]}`, `{"candidates":null}`, `{"candidates":{}}`, `{"candidates":[null]}`, `{"candidates":[{}]}`, `{"candidates":[{"content":null}]}`,
			`{"candidates":[{"content":[]}]}`, `{"candidates":[{"content":{"role":"model"}}]}`, `{"candidates":[{"content":{"parts":null}}]}`,
			`{"candidates":[{"content":{"parts":[]}}]}`, `{"candidates":[{"content":{"parts":{}}}]}`, chunk(`{"text":null}`, "", ""), chunk(`{}`, "", ""), chunk(`null`, "", ""),
			`{"candidates":[{"index":1,"content":"of another"}]}`, `{"responseId":"x"}`, `{"usageMetadata":{}}`, `{"hello":"there"}`, `: keepalive`, ``, `[{}]`,
		), ": comment\n\n", "event: ping\ndata: x\n\n"),
		Counted: func(input, output string) string {
			return chunk(`{"text":"Hello"}`, stop, `,"usageMetadata":{"promptTokenCount":`+input+`,"candidatesTokenCount":`+output+`}`)
		},
		Failure: failure, InBand: func(message string) string { return events(failure(message)) },
	})
}
