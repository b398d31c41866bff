package gemini_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
	"github.com/modelchain/llm/internal/wiretest"
	"github.com/modelchain/llm/llmtest"
)

func TestCaller(t *testing.T) {
	for name, vertex := range map[string]bool{"gemini": false, "vertex": true} {
		t.Run(name, func(t *testing.T) {
			llmtest.TestCaller(t, llmtest.Wire{
				New: func(t *testing.T, url string) llm.Caller {
					transport := &http.Transport{}
					t.Cleanup(transport.CloseIdleConnections)
					cfg := gemini.Config{BaseURL: url, APIKey: madeUp, HTTPClient: &http.Client{Transport: transport}}
					if vertex {
						cfg.Project, cfg.Location = "my-project", "europe-west4"
					}
					return gemini.New(cfg)
				},
				Serve: serveAnswer,
				Event: wiretest.SSE,
			})
		})
	}
}

// serveAnswer says a as Google does.
func serveAnswer(w http.ResponseWriter, r *http.Request, a llmtest.Answer) {
	_, _ = io.Copy(io.Discard, r.Body)
	var calls []string
	for _, c := range a.Calls {
		calls = append(calls, fmt.Sprintf(`{"functionCall":{"id":%q,"name":%q,"args":%s}}`, c.ID, c.Name, c.Arguments))
	}
	usage := fmt.Sprintf(`,"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d,"totalTokenCount":%d}`,
		a.Usage.Input, a.Usage.Output, a.Usage.Input+a.Usage.Output)
	if !strings.HasSuffix(r.URL.Path, ":streamGenerateContent") {
		parts := calls
		if len(a.Text) > 0 {
			parts = append([]string{`{"text":` + wiretest.Quote(strings.Join(a.Text, "")) + `}`}, calls...)
		}
		w.Header().Set("Content-Type", wiretest.JSON+"; charset=UTF-8")
		_, _ = io.WriteString(w, chunk(strings.Join(parts, ","), stop, usage))
		return
	}
	w.Header().Set("Content-Type", wiretest.SSE)
	send := func(data string) {
		_, _ = io.WriteString(w, events(data))
		_ = http.NewResponseController(w).Flush()
	}
	after := func(i int) {
		if a.After != nil {
			a.After(i)
		}
	}
	send(fmt.Sprintf(`{"usageMetadata":{"promptTokenCount":%d,"totalTokenCount":%d},"responseId":"resp-1"}`, a.Usage.Input, a.Usage.Input))
	after(-1)
	for i, text := range a.Text {
		if a.Garbage > 0 && i == a.Garbage {
			send(`{"candidates":[{"content":{"parts":[{"te`)
		}
		send(piece(text))
		after(i)
	}
	for _, call := range calls {
		send(chunk(call, "", ""))
	}
	if !a.NoEnd {
		send(chunk(`{"text":""}`, stop, usage))
	}
}
