package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/tokens"
)

// routerTokens counts every request as so many tokens, and how often it was asked.
type routerTokens struct {
	n     int
	err   error
	asked atomic.Int32
}

func (c *routerTokens) CountTokens(context.Context, *llm.Request, int) (int, error) {
	c.asked.Add(1)
	return c.n, c.err
}

func routerCounts(n int) *routerTokens { return &routerTokens{n: n} }

// routerDep is a deployment that answers its name.
func routerDep(name string, window int) *llm.Deployment {
	return &llm.Deployment{Name: name, Provider: "test", Model: "m-" + name, Window: window, Caller: llmtest.Script(llmtest.Text(name))}
}

func routerFails(name string, window int, err error) (*llm.Deployment, *llmtest.Model) {
	m := llmtest.Script(llmtest.Fail(err))
	return &llm.Deployment{Name: name, Window: window, Caller: m}, m
}

func routerAsk(maxTokens int) *llm.Request {
	return &llm.Request{Messages: []llm.Message{llm.User("hi")}, MaxTokens: maxTokens}
}

func TestTokenRouterSendsWhatDoesNotFitTheFirstWindowToLong(t *testing.T) {
	for _, e := range []struct {
		name          string
		input, output int
		cfg           middleware.TokenRouterConfig
		want          string // the deployment, "": too long
	}{
		{name: "it fits", input: 10, want: "normal"},
		{name: "input alone fits exactly", input: 8000, want: "normal"},
		{name: "input alone is one over", input: 8001, want: "long"},
		{name: "with its output it fits exactly", input: 4000, output: 4000, want: "normal"},
		{name: "with its output it is one over", input: 4001, output: 4000, want: "long"},
		{name: "F92: 7k and 4k on 8k", input: 7000, output: 4000, want: "long"},
		{name: "the output alone fills the first window", input: 1, output: 8000, want: "long"},
		{name: "it fits the larger exactly", input: 124_000, output: 4000, want: "long"},
		{name: "it is one over the larger", input: 124_001, output: 4000, want: ""},
		{name: "the output alone fills every window", input: 1, output: 128_000, want: ""},
		{name: "tokens kept for an answer fit exactly", input: 7000, cfg: middleware.TokenRouterConfig{Output: 1000}, want: "normal"},
		{name: "tokens kept for an answer are one over", input: 7001, cfg: middleware.TokenRouterConfig{Output: 1000}, want: "long"},
		{name: "what is asked for replaces what is kept", input: 7001, output: 500, cfg: middleware.TokenRouterConfig{Output: 1000}, want: "normal"},
		{name: "F91: outside 5% of the window", input: 7600, cfg: middleware.TokenRouterConfig{Margin: 0.05}, want: "normal"},
		{name: "F91: within 5% of the window", input: 7601, cfg: middleware.TokenRouterConfig{Margin: 0.05}, want: "long"},
		{name: "within the margin, output included", input: 3601, output: 4000, cfg: middleware.TokenRouterConfig{Margin: 0.05}, want: "long"},
		{name: "within the margin, but Long is too small for it", input: 7900, output: 1, cfg: middleware.TokenRouterConfig{
			Margin: 0.05, Long: routerDep("long", 7901)}, want: "normal"},
		{name: "a Long that is no larger takes nothing that fits", input: 8000, cfg: middleware.TokenRouterConfig{
			Margin: 0.05, Long: routerDep("long", 8000)}, want: "normal"},
	} {
		t.Run(e.name, func(t *testing.T) {
			cfg := e.cfg
			cfg.Normal, cfg.Counter = routerDep("normal", 8000), routerCounts(e.input)
			if cfg.Long == nil {
				cfg.Long = routerDep("long", 128_000)
			}
			if cfg.Margin == 0 {
				cfg.Margin = -1
			}
			resp, err := llm.New().Then(middleware.TokenRouter(cfg)).Call(t.Context(), routerAsk(e.output))
			switch {
			case e.want == "" && (llm.ClassOf(err) != llm.TooLong || resp != nil):
				t.Errorf("got %v, %v; want it too long", resp, err)
			case e.want != "" && (err != nil || resp.Deployment != e.want || resp.Calls() != 1):
				t.Errorf("got %+v, %v; want one call of %s", resp, err, e.want)
			}
		})
	}
}

func TestTokenRouterKeepsFivePercentFreeByDefault(t *testing.T) {
	for input, want := range map[int]string{7600: "normal", 7601: "long"} {
		router := middleware.TokenRouter(middleware.TokenRouterConfig{
			Counter: routerCounts(input), Normal: routerDep("normal", 8000), Long: routerDep("long", 128_000),
		})
		if resp, err := router.Call(t.Context(), routerAsk(0)); err != nil || resp.Deployment != want {
			t.Errorf("%d tokens: %v, %v; want %s", input, resp, err, want)
		}
	}
	alone := middleware.TokenRouter(middleware.TokenRouterConfig{Counter: routerCounts(8000), Normal: routerDep("normal", 8000)})
	if resp, err := alone.Call(t.Context(), routerAsk(0)); err != nil || resp.Deployment != "normal" {
		t.Errorf("without a larger window nothing is kept free: %v, %v", resp, err)
	}
}

func TestTokenRouterFailsWhatFitsNowhereBeforeAnyCall(t *testing.T) {
	normal, n := routerFails("normal", 8000, llm.Unavailable)
	long, l := routerFails("long", 128_000, llm.Unavailable)
	router := middleware.TokenRouter(middleware.TokenRouterConfig{Counter: routerCounts(200_000), Normal: normal, Long: long})
	for name, c := range map[string]llm.Caller{"in a pipeline": llm.New().Then(router), "alone": router} {
		_, err := c.Call(t.Context(), routerAsk(4096))
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || e.Class != llm.TooLong || e.Owner != llm.OwnerRequest || n.Count()+l.Count() != 0 {
			t.Fatalf("%s: %v after %d calls", name, err, n.Count()+l.Count())
		}
		for _, part := range []string{"200000", "normal takes the 3904 tokens", "window of 8000", "long takes the 123904", "4096 for the answer", "shorten it"} {
			if !strings.Contains(e.Error(), part) {
				t.Errorf("%s: the message lacks %q: %v", name, part, e)
			}
		}
		if len(e.Attempts) != 2 || e.Attempts[0].Deployment != "normal" || e.Attempts[1].Deployment != "long" ||
			!strings.Contains(e.Attempts[1].Skipped, "123904") || e.Attempts[1].Class != llm.TooLong {
			t.Errorf("%s: the account does not say that none was called and why: %+v", name, e.Attempts)
		}
	}
}

func TestTokenRouterSaysInTheAccountWhyLongAnswered(t *testing.T) {
	router := middleware.TokenRouter(middleware.TokenRouterConfig{
		Counter: routerCounts(9000), Normal: routerDep("normal", 8000), Long: routerDep("long", 128_000),
	})
	resp, err := llm.New().Then(router).Call(t.Context(), routerAsk(100))
	if err != nil || len(resp.Attempts) != 2 || resp.Attempts[0].Deployment != "normal" || resp.Attempts[0].Class != llm.TooLong ||
		resp.Attempts[0].Index != 0 || resp.Attempts[0].Skipped != "the input exceeds the 7500 tokens that a window of 8000 leaves beside 100 for the answer and a margin of 400" {
		t.Errorf("got %+v, %v", resp, err)
	}
	if outcome := middleware.OutcomeOf(resp, err); outcome != middleware.OutcomePrimary {
		t.Errorf("the outcome is %s; a request sent where it fits is no failure", outcome)
	}
}

func TestTokenRouterUsesASecondDeploymentOfNormalRatherThanFail(t *testing.T) {
	router := middleware.TokenRouter(middleware.TokenRouterConfig{
		Counter: routerCounts(50_000), Long: routerDep("long", 32_000),
		Normal: fallbackTo(routerDep("small", 8000), routerDep("large", 64_000)),
	})
	resp, err := llm.New().Then(router).Call(t.Context(), routerAsk(0))
	if err != nil || resp.Deployment != "large" || resp.Calls() != 1 {
		t.Errorf("got %+v, %v", resp, err)
	}
}

// F39: the primary is limited, the first fallback is too small, the second answers.
func TestTokenRouterLetsAFallbackPassOverASmallWindow(t *testing.T) {
	p, _ := routerFails("p", 128_000, llm.RateLimited)
	f, small := routerFails("f", 8000, llm.Unavailable)
	router := middleware.TokenRouter(middleware.TokenRouterConfig{
		Counter: routerCounts(10_000), Normal: fallbackTo(p, f, routerDep("f2", 200_000)),
	})
	resp, err := llm.New().Then(router).Call(t.Context(), routerAsk(0))
	if err != nil || resp.Deployment != "f2" || small.Count() != 0 {
		t.Fatalf("got %+v, %v after %d calls of the small one", resp, err, small.Count())
	}
	if a := resp.Attempts[1]; a.Deployment != "f" || a.Class != llm.TooLong || a.Skipped == "" {
		t.Errorf("the account does not say why f was passed over: %+v", resp.Attempts)
	}
}

// The tokens asked for count against the small window too, so it has to be told of the counter.
func TestTokenRouterLetsASmallWindowCountTheAnswerToo(t *testing.T) {
	p, _ := routerFails("p", 128_000, llm.RateLimited)
	f, small := routerFails("f", 8000, llm.Unavailable)
	router := middleware.TokenRouter(middleware.TokenRouterConfig{
		Counter: routerCounts(5000), Normal: fallbackTo(p, f, routerDep("f2", 200_000)),
	})
	resp, err := llm.New().Then(router).Call(t.Context(), routerAsk(4000))
	if err != nil || resp.Deployment != "f2" || small.Count() != 0 {
		t.Errorf("got %+v, %v after %d calls of the small one", resp, err, small.Count())
	}
}

func TestTokenRouterDoesNotCheckWindowsThatAreNotKnown(t *testing.T) {
	c := routerCounts(1 << 30)
	router := middleware.TokenRouter(middleware.TokenRouterConfig{Counter: c, Normal: routerDep("normal", 0), Long: routerDep("long", 128_000)})
	if resp, err := router.Call(t.Context(), routerAsk(0)); err != nil || resp.Deployment != "normal" {
		t.Errorf("an unknown first window: %v, %v", resp, err)
	}
	router = middleware.TokenRouter(middleware.TokenRouterConfig{
		Normal: llm.CallerFunc(routerDep("bare", 0).Call), Long: llm.CallerFunc(routerDep("long", 0).Call),
	})
	if resp, err := router.Call(t.Context(), routerAsk(0)); err != nil || resp.Deployment != "bare" {
		t.Errorf("a Caller that shows no deployment: %v, %v", resp, err)
	}
	if c.asked.Load() != 0 {
		t.Errorf("counted %d times for nothing", c.asked.Load())
	}
	for name, long := range map[string]llm.Caller{"unknown": routerDep("long", 0), "hidden": llm.CallerFunc(routerDep("long", 0).Call)} {
		router = middleware.TokenRouter(middleware.TokenRouterConfig{Counter: c, Normal: routerDep("normal", 8000), Long: long})
		if resp, err := router.Call(t.Context(), routerAsk(0)); err != nil || resp.Deployment != "long" {
			t.Errorf("a Long of %s window holds everything: %v, %v", name, resp, err)
		}
	}
}

func TestTokenRouterLeavesTheVerdictToTheProviderWhereACounterFails(t *testing.T) {
	c := &routerTokens{n: 1 << 30, err: errors.New("no vocabulary")}
	router := middleware.TokenRouter(middleware.TokenRouterConfig{Counter: c, Normal: routerDep("normal", 8000), Long: routerDep("long", 128_000)})
	if resp, err := router.Call(t.Context(), routerAsk(0)); err != nil || resp.Deployment != "normal" {
		t.Errorf("got %v, %v; want normal", resp, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := router.Call(ctx, routerAsk(0)); llm.ClassOf(err) != llm.Canceled {
		t.Errorf("with a caller that left: %v", err)
	}
}

func TestTokenRouterAsksADeploymentsOwnCounterForItsWindow(t *testing.T) {
	own := func(name string, window, n int) *llm.Deployment {
		d := routerDep(name, window)
		d.Counter = routerCounts(n)
		return d
	}
	for _, e := range []struct {
		normal, long *llm.Deployment
		shared       int
		want         string
	}{
		{own("normal", 8000, 100), routerDep("long", 128_000), 1 << 30, "normal"},
		{own("normal", 8000, 9000), routerDep("long", 128_000), 100, "long"},
		{routerDep("normal", 8000), own("long", 128_000, 100), 1 << 20, "long"},
		{routerDep("normal", 8000), own("long", 128_000, 1<<20), 9000, ""},
	} {
		router := middleware.TokenRouter(middleware.TokenRouterConfig{Counter: routerCounts(e.shared), Normal: e.normal, Long: e.long})
		resp, err := router.Call(t.Context(), routerAsk(0))
		if e.want == "" && llm.ClassOf(err) != llm.TooLong || e.want != "" && (err != nil || resp.Deployment != e.want) {
			t.Errorf("%s, %s: %v, %v; want %q", e.normal.Name, e.long.Name, resp, err, e.want)
		}
	}
	// With counters of their own the deployments need none of the router's.
	router := middleware.TokenRouter(middleware.TokenRouterConfig{Normal: own("normal", 8000, 9000), Long: own("long", 128_000, 9000)})
	if resp, err := router.Call(t.Context(), routerAsk(0)); err != nil || resp.Deployment != "long" {
		t.Errorf("without a Counter: %v, %v", resp, err)
	}
}

func TestTokenRouterHasMoreTiersByNesting(t *testing.T) {
	for input, want := range map[int]string{100: "small", 20_000: "middle", 500_000: "large", 2_000_000: ""} {
		c := routerCounts(input)
		router := middleware.TokenRouter(middleware.TokenRouterConfig{
			Counter: c, Normal: routerDep("small", 8000),
			Long: middleware.TokenRouter(middleware.TokenRouterConfig{Counter: c, Normal: routerDep("middle", 128_000), Long: routerDep("large", 1_000_000)}),
		})
		resp, err := llm.New().Then(router).Call(t.Context(), routerAsk(0))
		if want == "" && llm.ClassOf(err) != llm.TooLong || want != "" && (err != nil || resp.Deployment != want) {
			t.Errorf("%d tokens: %v, %v; want %q", input, resp, err, want)
		}
	}
}

func TestTokenRouterShowsItsSettingsAndBranches(t *testing.T) {
	router := middleware.TokenRouter(middleware.TokenRouterConfig{
		Counter: tokens.For("gpt-4o"), Normal: routerDep("normal", 8000), Long: routerDep("long", 128_000), Output: 500,
	})
	n := llm.Describe(router)
	if n.Name != "token router" || len(n.Children) != 2 || n.Children[0].Name != "normal" || n.Children[1].Name != "long" {
		t.Errorf("it describes itself as\n%v", n)
	}
	if first, _, _ := strings.Cut(n.String(), "\n"); first != "token router {Counter:gpt-4o by o200k_base Output:500 Margin:0.05}" {
		t.Errorf("its settings are %q", first)
	}
}

func TestTokenRouterPanicsOnNonsenseWithAWayToMendIt(t *testing.T) {
	c, d := routerCounts(1), routerDep("normal", 8000)
	for want, cfg := range map[string]middleware.TokenRouterConfig{
		"Normal is nil": {Counter: c},
		"nothing counts for the window of deployment": {Normal: d},
		`tokens.For("m-normal")`:                      {Normal: d},
		`window of deployment "long"`:                 {Normal: routerDep("normal", 0), Long: routerDep("long", 1)},
		"Output is -1; use 0":                         {Counter: c, Normal: d, Output: -1},
		"Margin is 1; use":                            {Counter: c, Normal: d, Margin: 1},
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.HasPrefix(text, "llm/middleware: TokenRouter: ") || !strings.Contains(text, want) {
					t.Errorf("panicked with %q, want %q", text, want)
				}
			}()
			middleware.TokenRouter(cfg)
		}()
	}
	router := middleware.TokenRouter(middleware.TokenRouterConfig{Counter: c, Normal: d})
	if _, err := router.Call(t.Context(), nil); llm.ClassOf(err) != llm.Invalid {
		t.Errorf("a nil request: %v", err)
	}
}
