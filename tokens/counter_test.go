package tokens_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/tokens"
)

func user(text string) *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User(text)}} }

func parts(p ...llm.Part) *llm.Request {
	return &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: p}}}
}

func count(t testing.TB, c *tokens.Counter, req *llm.Request, limit int) int {
	t.Helper()
	n, err := c.CountTokens(t.Context(), req, limit)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The numbers are what OpenAI's API reports for these requests: three tokens around a message, one for its role, three
// that open the answer.
func TestAChatCountsAsOpenAICountsIt(t *testing.T) {
	c := tokens.For("gpt-4o")
	if n := count(t, c, user("Hello"), 0); n != 8 {
		t.Errorf("a user's Hello is %d tokens, want 8", n)
	}
	two := &llm.Request{System: "Hello", Messages: []llm.Message{llm.User("Hello"), llm.Assistant("Hello")}}
	if n := count(t, c, two, 0); n != 3+3*5 {
		t.Errorf("three messages of a token each are %d tokens, want 18", n)
	}
	if n := count(t, c, nil, 0); n != 0 {
		t.Errorf("no request is %d tokens", n)
	}
}

// sample is a text of 40 tokens and more in every encoding.
var sample = strings.Repeat("An order that nobody has ever seen. ", 5)

func TestEverythingInARequestCounts(t *testing.T) {
	raw, err := json.Marshal(sample)
	if err != nil {
		t.Fatal(err)
	}
	part := func(p llm.Part) func(*llm.Request) {
		return func(r *llm.Request) { r.Messages = parts(llm.Text("hi"), p).Messages }
	}
	cases := map[string]func(*llm.Request){
		"the system text":      func(r *llm.Request) { r.System = sample },
		"a second message":     func(r *llm.Request) { r.Messages = append(r.Messages, llm.Assistant(sample)) },
		"a second part":        part(llm.Text(sample)),
		"reasoning":            part(llm.Part{Kind: llm.PartReasoning, Text: sample}),
		"a call's arguments":   part(llm.Part{Kind: llm.PartToolCall, Call: &llm.ToolCall{Name: "f", Arguments: raw}}),
		"a call's name":        part(llm.Part{Kind: llm.PartToolCall, Call: &llm.ToolCall{Name: sample}}),
		"a result's text":      part(llm.Part{Kind: llm.PartToolResult, Result: &llm.ToolResult{Parts: []llm.Part{llm.Text(sample)}}}),
		"a result's name":      part(llm.Part{Kind: llm.PartToolResult, Result: &llm.ToolResult{Name: sample}}),
		"a part's extra":       part(llm.Part{Kind: llm.PartText, Extra: map[string]json.RawMessage{"x": raw}}),
		"a part of a new kind": part(llm.Part{Kind: "video", Text: sample}),
		"a tool's name":        func(r *llm.Request) { r.Tools = []llm.Tool{{Name: sample}} },
		"a tool's description": func(r *llm.Request) { r.Tools = []llm.Tool{{Description: sample}} },
		"a tool's parameters":  func(r *llm.Request) { r.Tools = []llm.Tool{{Parameters: raw}} },
		"the tool to call": func(r *llm.Request) {
			r.Tools, r.ToolChoice = []llm.Tool{{}}, llm.ToolChoice{Mode: llm.ToolNamed, Name: sample}
		},
		"the answer's schema": func(r *llm.Request) { r.Format = &llm.Format{Kind: llm.FormatSchema, Schema: raw} },
		"the request's extra": func(r *llm.Request) { r.Extra = map[string]json.RawMessage{"openai": raw} },
	}
	for _, model := range []string{"gpt-4o", "claude-3-5-haiku"} {
		c := tokens.For(model)
		plain, want := count(t, c, user("hi"), 0), countText(t, c, sample)
		for name, add := range cases {
			req := user("hi")
			add(req)
			if n := count(t, c, req, 0); n < plain+want {
				t.Errorf("%s: with %s %d tokens, without %d; the text alone is %d", model, name, n, plain, want)
			}
		}
	}
}

func TestARequestWhoseBytesFitIsNotTokenized(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // tokenizing would notice
	req, c := conversation(100, 1024), tokens.For("gpt-4o")
	if n, err := c.CountTokens(ctx, req, 128_000); err != nil || n > 128_000 {
		t.Errorf("got %d, %v; want a number of at most 128000 without a look at the text", n, err)
	}
	if n, err := c.CountTokens(ctx, req, 100_000); !errors.Is(err, context.Canceled) {
		t.Errorf("got %d, %v; want a text of more bytes than the limit to be looked at", n, err)
	}
	if allocs := testing.AllocsPerRun(20, func() { count(t, c, req, 128_000) }); allocs != 0 {
		t.Errorf("adding up lengths allocates %v times", allocs)
	}
}

func TestCountingStopsOnceTheAnswerIsKnown(t *testing.T) {
	c := tokens.For("gpt-4o")
	var seen []int
	c2 := tokens.New(tokens.Config{Model: "gpt-4o", Media: func(p *llm.Part) int {
		seen = append(seen, len(p.Data))
		return 1
	}})
	image := llm.Part{Kind: llm.PartImage, Data: []byte("x")}
	long := llm.Text(strings.Repeat("word ", 1000))
	count(t, c2, parts(long, image), 100)
	if len(seen) != 1 { // to bound it
		t.Errorf("what follows the limit was looked at %d times, want once", len(seen))
	}
	seen = nil
	count(t, c2, parts(long, image), 1_200)
	if len(seen) != 1 {
		t.Errorf("what surely fits was looked at %d times, want once", len(seen))
	}
	// The last message is not needed to tell, so a count that ends before it is smaller than the whole.
	req := conversation(10, 1000)
	if all, part := count(t, c, req, 0), count(t, c, req, 200); part <= 200 || part >= all {
		t.Errorf("counted %d of %d tokens against a limit of 200", part, all)
	}
}

func TestALimitIsJudgedToTheToken(t *testing.T) {
	for _, model := range []string{"gpt-4o", "gpt-4", "claude-opus-4-8", "qwen3-max", ""} {
		c := tokens.For(model)
		reqs := []*llm.Request{
			user("Hello"), conversation(20, 777), user(strings.Repeat("a", 3000)), user(strings.Repeat("é\xff 12 ", 300)),
			parts(llm.Text(sample), llm.Part{Kind: llm.PartImage, URL: "https://example.com/a.png"}, llm.Text(sample)),
		}
		reqs[1].Tools = []llm.Tool{{Name: "find", Description: sample, Parameters: json.RawMessage(`{"type":"object"}`)}}
		for i, req := range reqs {
			all := count(t, c, req, 0)
			for _, c := range []struct {
				limit int
				over  bool
			}{{all - 1, true}, {all, false}, {all + 1, false}, {all / 2, true}, {all * 2, false}, {1, true}, {math.MaxInt32, false}} {
				n := count(t, tokens.For(model), req, c.limit)
				if n > c.limit != c.over {
					t.Errorf("%s, request %d of %d tokens: %d against a limit of %d", model, i, all, n, c.limit)
				}
			}
		}
	}
}

func TestAnyLimitAgreesWithTheWholeCount(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	counters := []*tokens.Counter{tokens.For("gpt-4o"), tokens.For("claude-opus-5"), tokens.New(tokens.Config{Model: "x", Factor: 0.7})}
	var hard []string
	for _, text := range hostile(300) {
		hard = append(hard, text)
	}
	for range 400 {
		req := &llm.Request{System: hard[r.IntN(len(hard))]}
		for range r.IntN(6) {
			req.Messages = append(req.Messages, llm.User(hard[r.IntN(len(hard))][:r.IntN(300)]))
		}
		for i, c := range counters {
			all, limit := count(t, c, req, 0), 1+r.IntN(2000)
			if n := count(t, c, req, limit); n > limit != (all > limit) {
				t.Fatalf("counter %d: %d tokens, %d against a limit of %d", i, all, n, limit)
			} else if n <= limit && n < all {
				t.Fatalf("counter %d: %d tokens are said to be only %d", i, all, n)
			}
		}
	}
}

func TestAContextThatEndsStopsTheCount(t *testing.T) {
	cause := errors.New("gone home")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := tokens.For("gpt-4o").CountTokens(ctx, user(sample), 100); !errors.Is(err, cause) {
		t.Errorf("got %v, want the context's cause", err)
	}
}

// fading is a context that ends after it has been asked so many times.
type fading struct {
	context.Context //nolint:containedctx // this is a context
	left            int
}

func (c *fading) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestAContextThatEndsMidwayStopsTheCount(t *testing.T) {
	text := strings.Repeat("word ", 20_000)
	ctx := &fading{t.Context(), 2} // once before the text, once in it
	if _, err := tokens.For("gpt-4o").CountText(ctx, text); ctx.left >= 0 {
		t.Errorf("the context was not asked again during a text of %d bytes; got %v", len(text), err)
	}
}

func TestOneCounterServesManyGoroutines(t *testing.T) {
	c, req := tokens.For("gpt-4o"), conversation(5, 2000)
	want := count(t, c, req, 0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if n, err := c.CountTokens(t.Context(), req, 0); err != nil || n != want {
					t.Errorf("got %d, %v; want %d", n, err, want)
				}
				c.Learn(t.Context(), req, 0, want)
			}
		})
	}
	wg.Wait()
}

func TestNonsensePanicsWithAWayToMendIt(t *testing.T) {
	for name, c := range map[string]tokens.Config{
		"Factor is -1":       {Factor: -1},
		"Factor is NaN":      {Factor: math.NaN()},
		"Factor is +Inf":     {Factor: math.Inf(1)},
		"Encoding is \"p5\"": {Encoding: "p5"},
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, name) || !strings.Contains(text, "; use ") {
					t.Errorf("New(%+v) panicked with %q, want it to say that %s and what to use", c, text, name)
				}
			}()
			tokens.New(c)
		}()
	}
}
