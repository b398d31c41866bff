package openai_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestNewPanicsOnMistakesAndSaysHowToMendThem(t *testing.T) {
	key := func(context.Context) (string, error) { return "", nil }
	tests := []struct {
		name string
		cfg  openai.Config
		says string
	}{
		{"an unknown provider", openai.Config{Provider: "nobody"}, "set BaseURL"},
		{"Azure without an address", openai.Config{Provider: "azure"}, "needs BaseURL"},
		{"no URL", openai.Config{BaseURL: "http://a b"}, "no URL"},
		{"no scheme", openai.Config{BaseURL: "localhost:8080/v1"}, "http://"},
		{"another scheme", openai.Config{BaseURL: "ftp://host"}, "http://"},
		{"no host", openai.Config{BaseURL: "http:///v1"}, "a host"},
		{"two keys", openai.Config{APIKey: "k", Key: key}, "set one"},
		{"a key with a line break", openai.Config{APIKey: "sk-secret\n"}, "trim it"},
		{"a header name", openai.Config{Header: http.Header{"a b": {"1"}}}, "a b"},
		{"a header value", openai.Config{Header: http.Header{"A": {"1\r\nB: 2"}}}, "line break"},
		{"a key header", openai.Config{KeyHeader: "a:b"}, "a:b"},
		{"an organization", openai.Config{Organization: "a\nb"}, "line break"},
		{"a dated API elsewhere", openai.Config{APIVersion: "2024-10-21", Model: "m"}, "for the provider"},
		{"a dated Azure API without a deployment", openai.Config{Provider: "azure", BaseURL: "https://x", APIVersion: "2024-10-21"}, "needs Model"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				v := fmt.Sprint(recover())
				if !strings.HasPrefix(v, "llm/adapters/openai: New: ") || !strings.Contains(v, tt.says) || strings.Contains(v, "sk-secret") {
					t.Errorf("panicked with %q, want %q in it", v, tt.says)
				}
			}()
			openai.New(tt.cfg)
		})
	}
}

// addressOf is where a model of cfg sends its calls, without sending any.
func addressOf(t *testing.T, cfg openai.Config, model string) (url string, header http.Header) {
	t.Helper()
	return sentTo(t, cfg, model, func(cfg openai.Config) llm.Caller { return openai.New(cfg) })
}

func sentTo(t *testing.T, cfg openai.Config, model string, make func(openai.Config) llm.Caller) (url string, header http.Header) {
	t.Helper()
	cfg.HTTPClient = &http.Client{Transport: wiretest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		url, header = r.URL.String(), r.Header
		return nil, http.ErrHandlerTimeout
	})}
	req := wiretest.Ask("hi")
	req.Model = model
	_, err := make(cfg).Call(t.Context(), req)
	if err == nil || url == "" {
		t.Fatalf("no request was made: %v", err)
	}
	return url, header
}

func TestAddressesAndKeys(t *testing.T) {
	tests := []struct {
		name, model string
		cfg         openai.Config
		url         string
		key         string // header: value
	}{
		{"the default", "gpt-4o", openai.Config{APIKey: "k"}, "https://api.openai.com/v1/chat/completions", "Authorization: Bearer k"},
		{"no key", "gpt-4o", openai.Config{}, "https://api.openai.com/v1/chat/completions", "Authorization: "},
		{"a slash at the end", "m", openai.Config{BaseURL: "http://h:1/v1/"}, "http://h:1/v1/chat/completions", "Authorization: "},
		{"the whole address", "m", openai.Config{BaseURL: "http://h/v1/chat/completions"}, "http://h/v1/chat/completions", "Authorization: "},
		{"a query", "m", openai.Config{BaseURL: "http://h/v1?a=1"}, "http://h/v1/chat/completions?a=1", "Authorization: "},
		{"a server of one's own", "m", openai.Config{Provider: "mine", BaseURL: "http://h"}, "http://h/chat/completions", "Authorization: "},
		{"a known provider elsewhere", "m", openai.Config{Provider: "groq", BaseURL: "http://h/v1"}, "http://h/v1/chat/completions", "Authorization: "},
		{"another header for the key", "m", openai.Config{APIKey: "k", KeyHeader: "X-Api-Key"}, "https://api.openai.com/v1/chat/completions", "X-Api-Key: k"},
		{"Azure", "gpt-4o", openai.Config{Provider: "azure", BaseURL: "https://x.openai.azure.com", APIKey: "k"},
			"https://x.openai.azure.com/openai/v1/chat/completions", "api-key: k"},
		{"Azure by its full path", "gpt-4o", openai.Config{Provider: "azure.ai.openai", BaseURL: "https://x.openai.azure.com/openai/v1/", APIKey: "k"},
			"https://x.openai.azure.com/openai/v1/chat/completions", "api-key: k"},
		{"Azure, dated", "my model/1", openai.Config{Provider: "azure", BaseURL: "https://x.openai.azure.com/", APIVersion: "2024-10-21", Model: "d", APIKey: "k"},
			"https://x.openai.azure.com/openai/deployments/my%20model%2F1/chat/completions?api-version=2024-10-21", "api-key: k"},
		{"Azure, dated, with openai in the address", "", openai.Config{Provider: "azure", BaseURL: "https://x.openai.azure.com/openai", APIVersion: "2024-10-21", Model: "d"},
			"https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21", "api-key: "},
		{"Azure, dated, with the deployment in the address", "", openai.Config{Provider: "azure", BaseURL: "https://x/openai/deployments/d2", APIVersion: "2024-10-21", Model: "d"},
			"https://x/openai/deployments/d2/chat/completions?api-version=2024-10-21", "api-key: "},
		{"Azure with Entra", "d", openai.Config{Provider: "azure", BaseURL: "https://x.openai.azure.com", KeyHeader: "Authorization",
			Key: func(context.Context) (string, error) { return "token", nil }}, "https://x.openai.azure.com/openai/v1/chat/completions", "Authorization: Bearer token"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url, header := addressOf(t, tt.cfg, tt.model)
			if tt.cfg.Model == "" && tt.model == "" {
				t.Fatal("no model")
			}
			name, key, _ := strings.Cut(tt.key, ": ")
			if url != tt.url || header.Get(name) != key {
				t.Errorf("got %s with %s %q; want %s with %q", url, name, header.Get(name), tt.url, key)
			}
		})
	}
}

func TestEveryListedProviderWorks(t *testing.T) {
	names := openai.Providers()
	if names[0] != "openai" || !slices.Contains(names, "openrouter") {
		t.Errorf("the providers are %v", names)
	}
	seen := map[string]bool{}
	for _, name := range names {
		cfg := openai.Config{Provider: name}
		if name == "azure" {
			cfg.BaseURL = "https://x.openai.azure.com"
		}
		url, _ := addressOf(t, cfg, "m")
		if !strings.HasSuffix(url, "/chat/completions") || seen[url] {
			t.Errorf("%s is at %s", name, url)
		}
		seen[url] = true
	}
}

func TestTheFieldForTheTokenLimitFollowsTheModel(t *testing.T) {
	tests := []struct {
		provider, model, field string
	}{
		{"openai", "gpt-4o", "max_tokens"}, {"openai", "gpt-4.1-mini", "max_tokens"}, {"openai", "gpt-3.5-turbo", "max_tokens"},
		{"openai", "gpt-35-turbo", "max_tokens"}, {"openai", "chatgpt-4o-latest", "max_tokens"}, {"openai", "omni-moderation", "max_tokens"},
		{"openai", "o1", "max_completion_tokens"}, {"openai", "o3-mini", "max_completion_tokens"}, {"openai", "o4-mini-2025-04-16", "max_completion_tokens"},
		{"openai", "gpt-5", "max_completion_tokens"}, {"openai", "gpt-5.1-codex", "max_completion_tokens"}, {"openai", "openai/gpt-5-mini", "max_completion_tokens"},
		{"openai", "gpt-10", "max_completion_tokens"}, {"openai", "GPT-5", "max_completion_tokens"},
		{"vllm", "gpt-5", "max_tokens"}, {"groq", "llama", "max_completion_tokens"}, {"mistral", "m", "max_tokens"},
	}
	for _, tt := range tests {
		s := ok()
		m := serve(t, s, openai.Config{Provider: tt.provider, Model: tt.model})
		req := wiretest.Ask("hi")
		req.MaxTokens = 7
		if _, err := m.Call(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(s.Body(), `"`+tt.field+`":7`) || strings.Count(s.Body(), `":7`) != 1 {
			t.Errorf("%s %s: sent %s", tt.provider, tt.model, s.Body())
		}
	}
}

func TestPrintingShowsNoKey(t *testing.T) {
	cfg := openai.Config{Provider: "groq", Model: "m", APIKey: "gsk_secret"}
	for _, s := range []string{fmt.Sprintf("%v %+v", cfg, cfg), fmt.Sprintf("%v %+v", openai.New(cfg), openai.New(cfg))} {
		if strings.Contains(s, "secret") || !strings.Contains(s, "groq") {
			t.Errorf("printed as %s", s)
		}
	}
}

func TestTheRequestsModelWins(t *testing.T) {
	s := ok()
	m := serve(t, s, openai.Config{Model: "a"})
	req := wiretest.Ask("hi")
	req.Model = "b"
	resp, err := m.Call(t.Context(), req)
	if err != nil || !strings.Contains(s.Body(), `"model":"b"`) || resp.Model != "b" {
		t.Errorf("got %+v, %v after %s", resp, err, s.Body())
	}
	var _ llm.Caller = m
}
