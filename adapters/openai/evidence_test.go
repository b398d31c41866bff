package openai_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestEvidenceOfFailures(t *testing.T) {
	tests := []struct {
		name     string
		provider string
		class    llm.Class
		code     string
		wait     time.Duration
	}{
		{"rate_limit", "", llm.RateLimited, "rate_limit_exceeded", 494 * time.Millisecond},
		{"quota", "", llm.Quota, "insufficient_quota", 0},
		{"context_length", "", llm.TooLong, "context_length_exceeded", 0},
		{"model_not_found", "", llm.NotFound, "model_not_found", 0},
		{"key", "", llm.Auth, "invalid_api_key", 0},
		{"policy", "", llm.Refused, "content_policy_violation", 0},
		{"server_error", "", llm.Unavailable, "", 0},
		{"overloaded", "", llm.Overloaded, "", 0},
		{"azure_filter", "azure", llm.Refused, "content_filter", 0},
		{"azure_deployment", "azure", llm.NotFound, "DeploymentNotFound", 0},
		{"deepseek_balance", "deepseek", llm.Quota, "invalid_request_error", 0},
		{"xai_credits", "xai", llm.Quota, "", 0},
		{"groq_tools", "groq", llm.BadOutput, "tool_use_failed", 0},
		{"mistral_flat", "mistral", llm.Overloaded, "3505", 0},
		{"ollama_text", "ollama", llm.NotFound, "", 0},
		{"vllm_flat", "vllm", llm.TooLong, "400", 0},
		{"openrouter_nested", "openrouter", llm.TooLong, "", 0},
		{"error_in_200", "openrouter", llm.RateLimited, "429", 0},
		{"html_502", "", llm.Unavailable, "", 0},
		{"html_200", "", llm.BadOutput, "", 0},
		{"empty_200", "", llm.BadOutput, "", 0},
		{"cut_json_200", "", llm.BadOutput, "", 0},
		{"no_choices_200", "", llm.BadOutput, "", 0},
		{"redirect", "", llm.NotFound, "", 0},
		{"echoed_token", "", llm.Invalid, "", 0},
	}
	for _, tt := range tests {
		for _, streamed := range []bool{false, true} {
			name := tt.name
			if streamed {
				name += "/streamed"
			}
			t.Run(name, func(t *testing.T) {
				f := wiretest.Load(t, "testdata/"+"failures/"+tt.name+".http")
				var calls atomic.Int32
				m := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					calls.Add(1)
					f.ServeHTTP(w, r)
				}), openai.Config{Provider: tt.provider, Model: "m-1"})
				req := wiretest.Ask("hi")
				if streamed {
					req.Sink = func(d llm.Delta) error { t.Errorf("a delta came: %+v", d); return nil }
				}
				resp, err := m.Call(t.Context(), req)
				e := wiretest.Failure(t, resp, err)
				ev := e.Evidence
				if e.Class != tt.class || ev.Code != tt.code && tt.code != "" || e.RetryAfter != tt.wait {
					t.Errorf("class %v (%s), code %q, wait %v; want %v, %q, %v; %v", e.Class, e.Rule, ev.Code, e.RetryAfter, tt.class, tt.code, tt.wait, e)
				}
				if want := f.Body; ev.Body != want {
					t.Errorf("body %q, want %q", ev.Body, want)
				}
				if ev.Status != f.Status || ev.Header.Get("Content-Type") != f.Header.Get("Content-Type") {
					t.Errorf("status %d, headers %v", ev.Status, ev.Header)
				}
				if e.RequestID != f.Header.Get("X-Request-Id") {
					t.Errorf("request id %q", e.RequestID)
				}
				if provider := tt.provider; e.Provider != provider && (provider != "" || e.Provider != "openai") || e.Model != "m-1" {
					t.Errorf("provider %q, model %q", e.Provider, e.Model)
				}
				if ev.Phase != llm.PhaseHeaders && ev.Phase != llm.PhaseBody || e.Partial != nil || e.Usage != (llm.Usage{}) {
					t.Errorf("phase %v, Partial %+v, usage %+v", ev.Phase, e.Partial, e.Usage)
				}
				if n := calls.Load(); n != 1 {
					t.Errorf("%d requests for one call, want 1", n)
				}
			})
		}
	}
}
