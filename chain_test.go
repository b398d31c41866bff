package llm_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

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
