package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// 3000 bytes, for which a budget takes 1000 tokens where nobody says how many they are.
var longText = strings.Repeat("many words", 300)

// budgetAsk has 100 tokens in; priced takes $1 for a million in, and $10 for a million out.
func TestBudgetEstimatesTheOutputThatNobodyReports(t *testing.T) {
	var pieces []llm.Delta
	for range 300 {
		pieces = append(pieces, llm.Delta{Kind: llm.DeltaText, Text: "many words"})
	}
	part := func(p ...llm.Part) *llm.Response { return &llm.Response{Parts: p, Stop: llm.StopEnd} }
	calls := part(llm.Part{Kind: llm.PartToolCall, Call: &llm.ToolCall{Name: "f", Arguments: json.RawMessage(`{"a":"` + longText[:2991] + `"}`)}})
	thoughts := llm.Part{Kind: llm.PartReasoning, Text: longText[:1500]}
	broke := func(u llm.Usage, p *llm.Response) error {
		return &llm.Error{Class: llm.Interrupted, Commit: llm.Committed, Usage: u, Partial: p}
	}
	estimated := func(in, out int) llm.Usage { return llm.Usage{Input: in, Output: out, Estimated: true} }
	for name, test := range map[string]struct {
		step     llmtest.Step
		streamed bool
		want     llm.Usage
	}{
		"a whole answer":           {llmtest.Text(longText), false, estimated(100, 1000)},
		"a stream":                 {llmtest.Step{Deltas: pieces, Response: part(llm.Text(longText))}, true, estimated(100, 1000)},
		"one for a whole answer":   {llmtest.Text(longText), true, estimated(100, 1000)},
		"thoughts and text":        {llmtest.Step{Response: part(thoughts, llm.Text(longText[:1500]))}, false, estimated(100, 1000)},
		"a tool call":              {llmtest.Step{Response: calls}, false, estimated(100, 1000)},
		"a refusal":                {llmtest.Step{Response: &llm.Response{Refusal: longText, Stop: llm.StopRefusal}}, false, estimated(100, 1000)},
		"input is all that counts": {llmtest.Step{Response: &llm.Response{Parts: part(llm.Text(longText)).Parts, Usage: llm.Usage{Input: 80}}}, false, estimated(80, 1000)},
		"an answer of no use":      {llmtest.Step{Response: part(llm.Text(strings.Repeat(" ", 3000)))}, false, estimated(100, 1000)},
		"a stream that broke":      {llmtest.Step{Deltas: pieces, Err: llm.Unavailable}, true, estimated(100, 1000)},
		"the part that came":       {llmtest.Fail(broke(llm.Usage{}, part(llm.Text(longText)))), false, estimated(100, 1000)},
		"more than that part":      {llmtest.Step{Deltas: pieces, Err: broke(llm.Usage{}, part(llm.Text("many")))}, true, estimated(100, 1000)},
		"output alone":             {llmtest.Fail(broke(llm.Usage{Output: 5}, nil)), false, estimated(100, 5)},
		"what its Caller says":     {llmtest.Step{Deltas: pieces, Err: broke(estimated(90, 700), nil)}, true, estimated(90, 700)},
		"what is reported":         {llmtest.Step{Deltas: pieces, Response: &llm.Response{Parts: part(llm.Text(longText)).Parts, Usage: llm.Usage{Input: 90, Output: 700}}}, true, llm.Usage{Input: 90, Output: 700}},
		"nothing was sent":         {llmtest.Fail(llm.Unavailable), true, llm.Usage{}},
	} {
		b, chat := budgeted(middleware.BudgetConfig{CostUSD: 1, Tokens: 1e6}, priced("d", llmtest.Script(test.step)))
		req := budgetAsk()
		if test.streamed {
			req.Sink = func(llm.Delta) error { return nil }
		}
		_, err := chat.Call(t.Context(), req)
		usd := float64(test.want.Input)/1e6 + float64(test.want.Output)/1e5
		s := b.Spent()
		if s.Attempts != 1 || s.Tokens != test.want.Input+test.want.Output || s.CostUSD < usd-1e-12 || s.CostUSD > usd+1e-12 || s.Estimated != test.want.Estimated {
			t.Errorf("%s: spent %+v, want %+v, $%v (%v)", name, s, test.want, usd, err)
		}
	}
}

func TestBudgetCountsWhatTheLoserOfAHedgeHadWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
			<-ctx.Done()
			return nil, &llm.Error{Class: llm.Interrupted, Partial: &llm.Response{Parts: []llm.Part{llm.Text(longText)}}, Err: ctx.Err()}
		})
		b, chat := budgeted(middleware.BudgetConfig{CostUSD: 1}, middleware.Hedge(middleware.HedgeConfig{Delay: time.Second, Share: 1},
			priced("slow", slow), priced("fast", llmtest.Script(used(100, 100)))))
		if _, err := chat.Call(t.Context(), budgetAsk()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		spent(t, b, 2, 1100+200, 0.0101+0.0011, true)
	})
}

func TestBudgetCountsWhatAReaderHadBeforeItPanicked(t *testing.T) {
	b, chat := budgeted(middleware.BudgetConfig{CostUSD: 1}, priced("d", llmtest.Script(llmtest.Text(longText))))
	req := budgetAsk()
	req.Sink = func(llm.Delta) error { panic("the reader's") }
	if got := panicOf(func() { _, _ = chat.Call(t.Context(), req) }); got != "the reader's" {
		t.Error(got)
	}
	spent(t, b, 1, 1100, 0.0101, true)
}

// dutiful counts as long as it is asked to.
type dutiful struct{}

func (dutiful) CountTokens(ctx context.Context, _ *llm.Request, _ int) (int, error) {
	return 5000, ctx.Err()
}

func TestBudgetReleasesWhatItReservedAlsoUnderAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast := llmtest.Step{Delay: time.Second, Response: &llm.Response{Parts: []llm.Part{llm.Text("ok")}, Usage: llm.Usage{Input: 5000, Output: 10}}}
		b, chat := budgeted(middleware.BudgetConfig{Tokens: 100_000, CostUSD: 1, Counter: dutiful{}},
			middleware.Hedge(middleware.HedgeConfig{Delay: time.Second, Share: 1},
				priced("slow", llmtest.Script(llmtest.Step{Hang: true})), priced("fast", llmtest.Script(fast))))
		for range 5 {
			if _, err := chat.Call(t.Context(), budgetAsk()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		spent(t, b, 10, 5*(5000+5010), 5*(0.005+0.0051), true)
		left := budgetAsk()
		left.MaxTokens = 100_000 - b.Spent().Tokens - 5000
		if _, err := llm.New(b.Stage()).Then(priced("d", llmtest.Script(used(1, 1)))).Call(t.Context(), left); err != nil {
			t.Error(err)
		}
	})
}

// Nobody can be relied on to count.
func TestBudgetBearsACounterThatCountsNonsense(t *testing.T) {
	most := fmt.Sprintf("up to %d tokens do not fit", math.MaxInt)
	for want, counted := range map[string]int{most: math.MaxInt, "up to 200 tokens do not fit": math.MinInt} {
		model := llmtest.Script()
		_, chat := budgeted(middleware.BudgetConfig{Tokens: 199, Counter: inputCount(func(*llm.Request) int { return counted })}, priced("d", model))
		if _, err := chat.Call(t.Context(), budgetAsk()); !errors.Is(err, llm.Exhausted) || model.Count() != 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%v after %d calls, want %q", err, model.Count(), want)
		}
	}
}
