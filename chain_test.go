package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
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
				chat, _ := gateway(model("http://primary", llmtest.ServePipe(t, primary)), model("http://fallback", llmtest.ServePipe(t, fallback)), 0)
				accept(t, call, chat, primary.count, fallback.count)
				probe(t, call, chat, primary.count)
			})
		})
	}
}

// mark is a stage that writes its name into the answer on the way out.
func mark(name string) llm.Stage {
	return llm.Stage{Name: name, Config: struct{ Mark string }{name}, Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err != nil {
				return nil, err
			}
			out := *resp
			out.Parts = append([]llm.Part{llm.Text(name + ">")}, resp.Parts...)
			return &out, nil
		})
	}}
}

func leaf() *llm.Deployment { return &llm.Deployment{Name: "leaf", Caller: llmtest.Script()} }

func textOf(t *testing.T, c llm.Caller) string {
	t.Helper()
	resp, err := c.Call(t.Context(), ask())
	if err != nil {
		t.Fatal(err)
	}
	return resp.Text()
}

func TestTheFirstStageIsTheOutermost(t *testing.T) {
	if got := textOf(t, llm.New(mark("a"), mark("b")).Append(mark("c")).Then(leaf())); got != "a>b>c>ok" {
		t.Errorf("got %q", got)
	}
}

func TestTheEmptyChainIsItsLeaf(t *testing.T) {
	if got := textOf(t, llm.Chain{}.Then(leaf())); got != "ok" {
		t.Errorf("got %q", got)
	}
	if got := (llm.Chain{}).String(); got != "no stages" {
		t.Errorf("the empty chain prints %q", got)
	}
}

func TestDerivedChainsDoNotChangeEachOther(t *testing.T) {
	base := llm.New(mark("a"))
	x, y := base.Append(mark("x")), base.Append(mark("y"))
	if got := textOf(t, x.Then(leaf())) + " " + textOf(t, y.Then(leaf())) + " " + base.String(); got != "a>x>ok a>y>ok a" {
		t.Errorf("got %q", got)
	}
}

func TestReplaceAndWithoutFindExactlyOneStage(t *testing.T) {
	c := llm.New(mark("a"), mark("b"), mark("b"))
	for name, f := range map[string]func(string) (llm.Chain, error){
		"Replace": func(n string) (llm.Chain, error) { return c.Replace(n, mark("z")) },
		"Without": c.Without,
	} {
		if _, err := f("nope"); err == nil || !strings.Contains(err.Error(), `no stage "nope"`) || !strings.Contains(err.Error(), "a → b → b") {
			t.Errorf("%s of an unknown name: %v", name, err)
		}
		if _, err := f("b"); err == nil || !strings.Contains(err.Error(), `2 stages called "b"`) {
			t.Errorf("%s of a doubled name: %v", name, err)
		}
	}
	z, err := c.Replace("a", mark("z"))
	if err != nil || z.String() != "z → b → b" || c.String() != "a → b → b" {
		t.Errorf("Replace gave %v, %v and left %v", z, err, c)
	}
	w, err := c.Without("a")
	if err != nil || w.String() != "b → b" || c.String() != "a → b → b" {
		t.Errorf("Without gave %v, %v and left %v", w, err, c)
	}
	var names []string
	for s := range c.Stages() {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "b"}) {
		t.Errorf("Stages yields %v", names)
	}
	if got := mark("a").As("other").Name; got != "other" {
		t.Errorf("As gave %q", got)
	}
}

func TestNonsenseInAChainPanicsWithTheMend(t *testing.T) {
	wrap := func(c llm.Caller) llm.Caller { return c }
	for name, test := range map[string]struct {
		do   func()
		want string
	}{
		"stage without a name": {func() { llm.New(mark("a"), llm.Stage{Wrap: wrap}) }, "stage 1 of the chain has no Name"},
		"stage without Wrap":   {func() { llm.New(llm.Stage{Name: "x"}) }, `"x" of the chain has no Wrap`},
		"appended":             {func() { llm.New(mark("a")).Append(llm.Stage{Name: "x"}) }, "no Wrap"},
		"replaced":             {func() { _, _ = llm.New(mark("a")).Replace("a", llm.Stage{Name: "x"}) }, "no Wrap"},
		"nil leaf":             {func() { llm.New().Then(nil) }, "Then(nil)"},
		"nil deployment":       {func() { llm.New().Then((*llm.Deployment)(nil)) }, "Deployment is nil"},
		"deployment unnamed":   {func() { llm.New().Then(&llm.Deployment{Caller: llmtest.Script()}) }, "no Name"},
		"deployment empty":     {func() { llm.New().Then(&llm.Deployment{Name: "d"}) }, `"d" has no Caller`},
		"negative window":      {func() { llm.New().Then(&llm.Deployment{Name: "d", Caller: llmtest.Script(), Window: -1}) }, "negative Window"},
		"Wrap returns nil": {
			func() { llm.New(llm.Stage{Name: "x", Wrap: func(llm.Caller) llm.Caller { return nil }}).Then(leaf()) },
			`"x" returned nil`,
		},
		"guard without a name": {func() { llm.NewGuard("", llm.New()) }, "no Name"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, test.want) {
					t.Errorf("panic %q, want %q in it", got, test.want)
				}
			}()
			test.do()
		})
	}
}

func TestAPipelineAnswersANilRequestWithAnError(t *testing.T) {
	if _, err := llm.New(mark("a")).Then(leaf()).Call(t.Context(), nil); !errors.Is(err, llm.Invalid) {
		t.Errorf("error %v, want invalid", err)
	}
}

func TestAPipelineMakesEveryErrorAnErrorWithTheAccount(t *testing.T) {
	odd := errors.New("odd")
	c := llm.New(llm.Stage{Name: "odd", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			if _, err := next.Call(ctx, req); err != nil {
				return nil, err
			}
			return nil, odd
		})
	}})
	_, err := c.Then(leaf()).Call(t.Context(), ask())
	if e := asError(t, err); !errors.Is(err, odd) || len(e.Attempts) != 1 {
		t.Errorf("error %v with account %v", err, e.Attempts)
	}
	nothing := llm.New(llm.Stage{Name: "nothing", Wrap: func(llm.Caller) llm.Caller {
		return llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return nil, nil })
	}})
	if resp, err := nothing.Then(leaf()).Call(t.Context(), ask()); err == nil {
		t.Errorf("a stage that returns nothing gave %v, %v", resp, err)
	}
}

func TestAPipelineDoesNotWriteToAResponseThatIsNotItsOwn(t *testing.T) {
	cached := &llm.Response{Parts: []llm.Part{llm.Text("cached")}}
	c := llm.New(llm.Stage{Name: "cache", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			if _, err := next.Call(ctx, req); err != nil {
				return nil, err
			}
			return cached, nil
		})
	}})
	resp, err := c.Then(leaf()).Call(t.Context(), ask())
	if err != nil || len(resp.Attempts) != 1 || cached.Attempts != nil {
		t.Errorf("got %+v, %v; the cached response now is %+v", resp, err, cached)
	}
}

func TestDescribePrintsTheOnionWithEveryStagesSettings(t *testing.T) {
	d := &llm.Deployment{
		Name: "azure-east", Provider: "azure.ai.openai", Model: "gpt-x", Window: 128000, MaxOutput: 4096,
		Has: llm.CanText | llm.CanTools, Quota: "q", Credential: "c", Caller: llmtest.Script(),
	}
	inner := llm.New(mark("inner")).Then(d)
	got := llm.New(mark("outer"), mark("middle").As("renamed")).Then(inner).Describe().String()
	want := `outer {Mark:outer}
  renamed {Mark:middle}
    inner {Mark:inner}
      azure-east (azure.ai.openai/gpt-x, window 128000, output 4096, has text+tools, quota q, credential c)`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAStageSeesTheDeploymentBeneathATeamsOwnStage(t *testing.T) {
	var seen []string
	look := llm.Stage{Name: "look", Wrap: func(next llm.Caller) llm.Caller {
		for d := range llm.Describe(next).Deployments() {
			seen = append(seen, d.Name)
		}
		return next
	}}
	llm.New(look, mark("opaque")).Then(leaf())
	if !slices.Equal(seen, []string{"leaf"}) {
		t.Errorf("saw %v", seen)
	}
}

func TestSettingsShowsWhatIsSet(t *testing.T) {
	type inner struct{ N int }
	for _, test := range []struct {
		config any
		want   string
	}{
		{nil, ""},
		{struct {
			A int
			B string
			C func()
			D inner
			e int
		}{A: 1, C: func() {}, D: inner{2}, e: 3}, "{A:1 C:func() D:{N:2}}"},
		{&inner{3}, "{N:3}"},
		{llm.RateLimited, "rate_limited"},
		{"plain", "plain"},
		{struct{ E error }{llm.Auth}, "{E:auth}"},
	} {
		if got := llm.Settings(test.config); got != test.want {
			t.Errorf("Settings(%#v) = %q, want %q", test.config, got, test.want)
		}
	}
}

func TestGuardRunsAnyCallThroughTheChain(t *testing.T) {
	twice := llm.Stage{Name: "twice", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			if _, err := next.Call(ctx, req); err == nil {
				return nil, errors.New("the first try should have failed")
			}
			return next.Call(ctx, req)
		})
	}}
	g := llm.NewGuard("embedder", llm.New(twice))
	n := 0
	got, err := llm.Do(t.Context(), g, func(context.Context) ([]float32, error) {
		if n++; n == 1 {
			return nil, llm.Overloaded
		}
		return []float32{1, 2}, nil
	})
	if err != nil || !slices.Equal(got, []float32{1, 2}) || n != 2 {
		t.Errorf("got %v, %v after %d runs", got, err, n)
	}

	n = 0
	cause := errors.New("cause")
	kept, err := llm.Do(t.Context(), g, func(context.Context) (string, error) { n++; return "half", cause })
	e := asError(t, err)
	if kept != "" || !errors.Is(err, cause) || e.Deployment != "embedder" || len(e.Attempts) != 2 || n != 2 {
		t.Errorf("got %q, %+v after %d runs", kept, e, n)
	}
	if _, err := llm.Do(t.Context(), nil, func(context.Context) (int, error) { return 1, nil }); !errors.Is(err, llm.Invalid) {
		t.Errorf("Do without a Guard: %v", err)
	}
	if s := g.Describe().String(); s != "twice\n  embedder" {
		t.Errorf("the guard prints %q", s)
	}
}
