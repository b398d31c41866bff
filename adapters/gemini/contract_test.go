package gemini_test

import (
	"net/http"
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
				Serve: llmtest.Serve,
				Event: wiretest.SSE,
			})
		})
	}
}
