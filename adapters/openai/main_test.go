package openai_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a provider and returns a model that speaks to it.
func serve(t testing.TB, h http.Handler, cfg openai.Config) *openai.Model {
	t.Helper()
	return openai.New(served(t, h, cfg))
}

// serveResponses is serve for the Responses API.
func serveResponses(t testing.TB, h http.Handler, cfg openai.Config) *openai.Responses {
	t.Helper()
	return openai.NewResponses(served(t, h, cfg))
}

func served(t testing.TB, h http.Handler, cfg openai.Config) openai.Config {
	t.Helper()
	url, client := wiretest.Serve(t, h)
	cfg.BaseURL = url
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = client
	}
	if cfg.Model == "" {
		cfg.Model = "gpt-4o"
	}
	return cfg
}
