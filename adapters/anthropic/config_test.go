package anthropic_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
	"github.com/modelchain/llm/internal/wiretest"
)

const hello = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[{"type":"text","text":"Hello"}],` +
	`"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":4}}`

func TestNewRefusesWhatCannotWork(t *testing.T) {
	key := func(context.Context) (string, error) { return "", nil }
	for _, c := range []struct {
		name string
		cfg  anthropic.Config
		want string
	}{
		{"two keys", anthropic.Config{APIKey: "k", Key: key}, "both APIKey and Key"},
		{"a key with a line break", anthropic.Config{APIKey: "k\n"}, "APIKey has blanks"},
		{"a key header that is none", anthropic.Config{KeyHeader: "a b"}, "is no header name"},
		{"a header that is none", anthropic.Config{Header: http.Header{"a:b": {"c"}}}, "is no header name"},
		{"a header with a line break", anthropic.Config{Header: http.Header{"A": {"b\r\nc: d"}}}, "line break"},
		{"negative tokens", anthropic.Config{MaxTokens: -1}, "MaxTokens is -1"},
		{"an address without scheme", anthropic.Config{BaseURL: "api.example.com"}, "must begin with http"},
		{"an address with a query", anthropic.Config{BaseURL: "https://h/?key=abc"}, "has a query"},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if v, _ := recover().(string); !strings.Contains(v, c.want) || !strings.HasPrefix(v, "llm/adapters/anthropic: New: ") {
					t.Errorf("panic %q, want %q in it", v, c.want)
				}
			}()
			anthropic.New(c.cfg)
			t.Error("New accepted it")
		})
	}
	anthropic.New(anthropic.Config{}) // the zero value works
}

func TestRequestGoesWhereAndAsConfigured(t *testing.T) {
	// None of these may count: what is not in the Config is not there.
	for name, value := range map[string]string{
		"ANTHROPIC_API_KEY": "sk-ant-from-the-environment", "ANTHROPIC_AUTH_TOKEN": "from-the-environment",
		"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "ANTHROPIC_CUSTOM_HEADERS": "X-Env: yes",
	} {
		t.Setenv(name, value)
	}
	for _, c := range []struct {
		name         string
		change       func(*anthropic.Config)
		path         string
		header, none map[string]string
	}{
		{"plain", func(*anthropic.Config) {}, "/v1/messages",
			map[string]string{"X-Api-Key": madeUp, "Anthropic-Version": "2023-06-01", "Content-Type": wiretest.JSON},
			map[string]string{"Authorization": "", "X-Env": ""}},
		{"no key", func(c *anthropic.Config) { c.APIKey = "" }, "/v1/messages", nil,
			map[string]string{"X-Api-Key": "", "Authorization": ""}},
		{"a token", func(c *anthropic.Config) { c.KeyHeader = "authorization" }, "/v1/messages",
			map[string]string{"Authorization": "Bearer " + madeUp}, map[string]string{"X-Api-Key": ""}},
		{"a key function", func(c *anthropic.Config) {
			c.APIKey, c.Key = "", func(context.Context) (string, error) { return "sk-rotated", nil }
		}, "/v1/messages", map[string]string{"X-Api-Key": "sk-rotated"}, nil},
		{"headers over the adapter's own", func(c *anthropic.Config) {
			c.Header = http.Header{"anthropic-beta": {"x-2026"}, "Anthropic-Version": {"2030-01-01"}}
		}, "/v1/messages", map[string]string{"Anthropic-Beta": "x-2026", "Anthropic-Version": "2030-01-01"}, nil},
		{"a path", func(c *anthropic.Config) { c.BaseURL += "/gateway/" }, "/gateway/v1/messages", nil, nil},
		{"the whole address", func(c *anthropic.Config) { c.BaseURL += "/v1/messages" }, "/v1/messages", nil, nil},
		{"with version", func(c *anthropic.Config) { c.BaseURL += "/v1/" }, "/v1/messages", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s wiretest.Recorder
			m := serve(t, s.Of(wiretest.Says(200, wiretest.JSON, hello)), c.change)
			if _, err := m.Call(t.Context(), wiretest.Ask("Hello?")); err != nil {
				t.Fatal(err)
			}
			r := s.Last()
			if r.URL.Path != c.path || r.Method != http.MethodPost {
				t.Errorf("%s %s, want POST %s", r.Method, r.URL.Path, c.path)
			}
			for _, want := range []map[string]string{c.header, c.none} {
				for name, value := range want {
					if got := r.Header.Get(name); got != value {
						t.Errorf("%s is %q, want %q", name, got, value)
					}
				}
			}
		})
	}
}

func TestClientIsTheSDKsOnTheSameTerms(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-from-the-environment")
	var s wiretest.Recorder
	m := serve(t, s.Of(wiretest.Says(200, wiretest.JSON, `{"input_tokens":7}`)), func(c *anthropic.Config) {
		c.Header = http.Header{"Anthropic-Beta": {"x-2026"}}
	})
	count := func(m *anthropic.Model) (*sdk.MessageTokensCount, error) {
		return m.Client().Messages.CountTokens(t.Context(), sdk.MessageCountTokensParams{
			Model: "claude-test", Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("Hello?"))},
		})
	}
	n, err := count(m)
	if err != nil || n.InputTokens != 7 {
		t.Fatalf("%v, %v", n, err)
	}
	if h := s.Last().Header; h.Get("X-Api-Key") != madeUp || h.Get("Anthropic-Beta") != "x-2026" {
		t.Errorf("the headers are %v", h)
	}
	m = serve(t, s.Of(wiretest.Says(529, wiretest.JSON, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded by `+madeUp+`"}}`,
		"Request-Id", "req_7", "Retry-After", "3")))
	_, err = count(m)
	e := llm.AsError(m.AsError(t.Context(), err))
	if s.Calls() != 1 {
		t.Errorf("%d requests: the SDK retried", s.Calls())
	}
	if e.Class != llm.Overloaded || e.Evidence.Status != 529 || e.RequestID != "req_7" || e.RetryAfter.Seconds() != 3 || e.Provider != "anthropic" {
		t.Errorf("%+v", e)
	}
	if strings.Contains(e.Error()+e.Evidence.Body, madeUp) {
		t.Errorf("the key is in %v", e)
	}
	if m.AsError(t.Context(), nil) != nil {
		t.Error("nil became an error")
	}
	if own := m.AsError(t.Context(), e); !errors.Is(own, e) || llm.AsError(own) != e {
		t.Errorf("an error of the library's was changed: %v", own)
	}
}

// tracers count the spans that anybody starts.
type tracers struct {
	noop.TracerProvider
	spans *atomic.Int32
}

func (p tracers) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{spans: p.spans} }

type tracer struct {
	noop.Tracer
	spans *atomic.Int32
}

func (c tracer) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	c.spans.Add(1)
	return c.Tracer.Start(ctx, name)
}

func TestClientDoesNotTrace(t *testing.T) {
	before := otel.GetTracerProvider()
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	var spans atomic.Int32
	otel.SetTracerProvider(tracers{spans: &spans})
	m := serve(t, wiretest.Says(200, wiretest.JSON, `{"input_tokens":7}`))
	_, err := m.Client().Messages.CountTokens(t.Context(), sdk.MessageCountTokensParams{Model: "claude-test"})
	if err != nil || spans.Load() != 0 {
		t.Errorf("%v, %d spans", err, spans.Load())
	}
}

func TestClientReadsTheEnvironmentForNothing(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-from-the-environment")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	var s wiretest.Recorder
	m := serve(t, s.Of(wiretest.Says(200, wiretest.JSON, `{"input_tokens":7}`)), func(c *anthropic.Config) { c.APIKey = "" })
	_, err := m.Client().Messages.CountTokens(t.Context(), sdk.MessageCountTokensParams{Model: "claude-test"})
	if err != nil || s.Last().Header.Get("X-Api-Key") != "" {
		t.Errorf("%v, key %q", err, s.Last().Header.Get("X-Api-Key"))
	}
}

func TestClientAsksForTheKeyEachTime(t *testing.T) {
	keys := []string{"sk-first", "sk-second"}
	var s wiretest.Recorder
	m := serve(t, s.Of(wiretest.Says(200, wiretest.JSON, `{"input_tokens":7}`)), func(c *anthropic.Config) {
		c.APIKey, c.Key = "", func(context.Context) (string, error) {
			if len(keys) == 0 {
				return "", errors.New("no key is left")
			}
			key := keys[0]
			keys = keys[1:]
			return key, nil
		}
	})
	client := m.Client()
	for _, want := range []string{"sk-first", "sk-second", ""} {
		_, err := client.Messages.CountTokens(t.Context(), sdk.MessageCountTokensParams{Model: "claude-test"})
		switch {
		case want == "" && !errors.Is(err, llm.Auth):
			t.Errorf("%v, want a failure of class Auth", err)
		case want != "" && (err != nil || s.Last().Header.Get("X-Api-Key") != want):
			t.Errorf("%v, key %q, want %q", err, s.Last().Header.Get("X-Api-Key"), want)
		}
	}
}

func TestCapabilitiesGoByTheGeneration(t *testing.T) {
	all := llm.CanText | llm.CanStream | llm.CanTools | llm.CanImages | llm.CanFiles
	for model, more := range map[string]llm.Capabilities{
		"claude-3-5-sonnet-20241022":                llm.CanPrefill,
		"claude-3-opus-20240229":                    llm.CanPrefill,
		"claude-sonnet-4-20250514":                  llm.CanPrefill,
		"anthropic.claude-opus-4-1-20250805-v1:0":   llm.CanPrefill,
		"claude-opus-4@20250514":                    llm.CanPrefill,
		"claude-haiku-4-5-20251001":                 llm.CanPrefill | llm.CanSchema,
		"us.anthropic.claude-sonnet-4-5-20250929":   llm.CanPrefill | llm.CanSchema,
		"claude-opus-4-5":                           llm.CanPrefill | llm.CanSchema | llm.CanReasoning,
		"anthropic/claude-opus-4.5":                 llm.CanPrefill | llm.CanSchema | llm.CanReasoning,
		"claude-opus-4-6":                           llm.CanSchema | llm.CanReasoning,
		"claude-sonnet-5":                           llm.CanSchema | llm.CanReasoning,
		"claude-fable-5-1":                          llm.CanSchema | llm.CanReasoning,
		"claude-mythos-preview":                     llm.CanSchema | llm.CanReasoning,
		"a-model-of-another-house-behind-this-wire": llm.CanSchema | llm.CanReasoning,
	} {
		if got := anthropic.Capabilities(model); got != all|more {
			t.Errorf("%s: %v, want %v", model, got, all|more)
		}
	}
}
