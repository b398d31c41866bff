package llm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// gateway is the onion under test around two models.
func gateway(primary, fallback llm.Caller, base time.Duration) (*llm.Pipeline, *middleware.Cooldowns) {
	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{})
	perDeployment := llm.New(
		cooldowns.Stage(),
		middleware.Retry(middleware.RetryConfig{Base: base}),
		middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Total: 20 * time.Second}),
		middleware.Classify(middleware.ClassifyConfig{}),
	)
	return llm.New(
		middleware.Telemetry(middleware.TelemetryConfig{}),
		middleware.Deadline(middleware.DeadlineConfig{}),
	).Then(middleware.Fallback(middleware.FallbackConfig{},
		perDeployment.Then(&llm.Deployment{Name: "primary", Provider: "openai", Model: "big", Caller: primary}),
		perDeployment.Then(&llm.Deployment{Name: "fallback", Provider: "openai", Model: "small", Caller: fallback}),
	)), cooldowns
}

// callers are the two ways to ask.
var callers = map[string]func(context.Context, llm.Caller) (*llm.Response, error){
	"unary": func(ctx context.Context, c llm.Caller) (*llm.Response, error) { return c.Call(ctx, ask()) },
	"streamed": func(ctx context.Context, c llm.Caller) (*llm.Response, error) {
		text := ""
		for d, err := range llm.Stream(ctx, c, ask()) {
			if err != nil {
				return nil, err
			}
			if d.Kind == llm.DeltaEnd {
				if text != d.Response.Text() {
					return nil, fmt.Errorf("the stream gave %q, the response has %q", text, d.Response.Text())
				}
				return d.Response, nil
			}
			text += d.Text
		}
		return nil, io.ErrUnexpectedEOF
	},
}

// accept is the acceptance test of the whole idea, up to the moment when the primary's rest is over.
func accept(t *testing.T, call func(context.Context, llm.Caller) (*llm.Response, error), chat llm.Caller, primary, fallback func() int) {
	t.Helper()
	resp, err := call(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	if primary() != 3 || fallback() != 1 {
		t.Errorf("%d primary and %d fallback calls, want 3 and 1", primary(), fallback())
	}
	if resp.Text() != "from the fallback" || resp.Deployment != "fallback" || len(resp.Attempts) != 4 || resp.Calls() != 4 {
		t.Errorf("%q served by %q after %d attempts", resp.Text(), resp.Deployment, len(resp.Attempts))
	}
	for i, a := range resp.Attempts[:3] {
		if a.Deployment != "primary" || a.Class != llm.RateLimited || a.Index != i+1 || (a.Waited > 0) != (i > 0) {
			t.Errorf("attempt %d: %+v", i+1, a)
		}
	}
	resp, err = call(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	if primary() != 3 || fallback() != 2 || resp.Deployment != "fallback" {
		t.Errorf("the second call: %d primary and %d fallback calls, served by %q", primary(), fallback(), resp.Deployment)
	}
	if a := resp.Attempts[0]; a.Deployment != "primary" || a.Class != llm.Cooling || a.Skipped == "" {
		t.Errorf("the second call does not say why the primary was not called: %+v", a)
	}
}

// probe checks that the rested primary is asked once and serves again.
func probe(t *testing.T, call func(context.Context, llm.Caller) (*llm.Response, error), chat llm.Caller, primary func() int) {
	t.Helper()
	llmtest.Advance(67 * time.Second) // a minute, and the jitter that keeps replicas apart
	for want := 4; want <= 5; want++ {
		resp, err := call(t.Context(), chat)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Deployment != "primary" || primary() != want {
			t.Errorf("after the rest: served by %q, %d primary calls, want %d", resp.Deployment, primary(), want)
		}
	}
}

func TestThreeRateLimitsThenFallbackThenRestThenProbe(t *testing.T) {
	for name, call := range callers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limited := llmtest.Fail(llm.RateLimited)
				primary := llmtest.Script(limited, limited, limited, llmtest.Text("from the primary"))
				fallback := llmtest.Script(llmtest.Text("from the fallback"))
				chat, _ := gateway(primary, fallback, 0)
				accept(t, call, chat, primary.Count, fallback.Count)
				probe(t, call, chat, primary.Count)
			})
		})
	}
}

// wireModel speaks the OpenAI wire: 429 for the first limited calls, then text.
type wireModel struct {
	text    string
	limited int64
	calls   atomic.Int64
}

func (m *wireModel) count() int { return int(m.calls.Load()) }

func (m *wireModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct{ Stream bool }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if m.calls.Add(1) <= m.limited {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}`)
		return
	}
	if !body.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"c","model":"m","choices":[{"index":0,"finish_reason":"stop",`+
			`"message":{"role":"assistant","content":%q}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, m.text)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for word := range strings.SplitAfterSeq(m.text, " ") {
		_, _ = fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", word)
	}
	_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}

func TestThreeRateLimitsThenFallbackOverLoopback(t *testing.T) {
	for name, call := range callers {
		t.Run(name, func(t *testing.T) {
			primary, fallback := &wireModel{limited: 3}, &wireModel{text: "from the fallback"}
			p, f := httptest.NewServer(primary), httptest.NewServer(fallback)
			defer p.Close()
			defer f.Close()
			chat, cooldowns := gateway(model(p.URL, p.Client()), model(f.URL, f.Client()), time.Millisecond)
			began := time.Now()
			accept(t, call, chat, primary.count, fallback.count)
			rests := cooldowns.Snapshot()
			if len(rests) != 1 || rests[0].Until.Before(began.Add(time.Minute)) {
				t.Errorf("the primary rests until %+v, want a minute from %v", rests, began)
			}
		})
	}
}

// The same bytes over connections in memory, where time is fake and the minute of rest passes at once.
func TestThreeRateLimitsThenFallbackThenRestThenProbeOverHTTP(t *testing.T) {
	for name, call := range callers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				primary := &wireModel{limited: 3, text: "from the primary"}
				fallback := &wireModel{text: "from the fallback"}
				chat, _ := gateway(model("http://primary", inMemory(t, primary)), model("http://fallback", inMemory(t, fallback)), 0)
				accept(t, call, chat, primary.count, fallback.count)
				probe(t, call, chat, primary.count)
			})
		})
	}
}
