package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func degraded(cfg middleware.DegradeConfig, model llm.Caller) *llm.Pipeline {
	return llm.New(middleware.Degrade(cfg)).Then(&llm.Deployment{Name: "d", Provider: "test", Model: "m", Caller: model})
}

func TestDegradeStandsInWhereNobodyCouldAnswer(t *testing.T) {
	cfg := middleware.DegradeConfig{Answer: middleware.StandIn("Busy; come back in {{wait}}.")}
	for text, err := range map[string]error{
		"Busy; come back in a moment.": llm.Unavailable,
		"Busy; come back in 45s.":      retryAfter(45 * time.Second),
		"Busy; come back in 1s.":       retryAfter(20 * time.Millisecond),
	} {
		for _, streamed := range []bool{false, true} {
			r := &reader{}
			req := r.ask()
			if !streamed {
				req.Sink = nil
			}
			resp, got := degraded(cfg, llmtest.Script(llmtest.Fail(err))).Call(t.Context(), req)
			if got != nil || resp.Text() != text || !resp.Degraded || resp.Deployment != "" || len(resp.Attempts) != 1 {
				t.Errorf("%v: %+v, %v", err, resp, got)
			}
			if middleware.OutcomeOf(resp, got) != middleware.OutcomeDegraded {
				t.Errorf("%v: counted as %v", err, middleware.OutcomeOf(resp, got))
			}
			if streamed && r.text != text {
				t.Errorf("%v: the reader has %q", err, r.text)
			}
		}
	}
}

func TestDegradeDoesNotStandIn(t *testing.T) {
	asked := 0
	any := middleware.DegradeConfig{Answer: func(context.Context, *llm.Request, *llm.Error) *llm.Response {
		asked++
		return &llm.Response{Parts: []llm.Part{llm.Text("stand-in")}}
	}}
	broken := llmtest.Step{Deltas: words(2), Err: llm.Unavailable}
	for name, test := range map[string]struct {
		cfg  middleware.DegradeConfig
		step llmtest.Step
		is   llm.Class
	}{
		"for a request that is wrong":   {any, llmtest.Fail(llm.Invalid), llm.Invalid},
		"for a refused key":             {any, llmtest.Fail(llm.Auth), llm.Auth},
		"for what policy forbids":       {any, llmtest.Fail(llm.Refused), llm.Refused},
		"after a part of the answer":    {any, broken, llm.Interrupted},
		"for a class that is not meant": {middleware.DegradeConfig{Answer: any.Answer, For: []llm.Class{llm.Quota}}, llmtest.Fail(llm.Unavailable), llm.Unavailable},
	} {
		r := &reader{}
		resp, err := degraded(test.cfg, llmtest.Script(test.step)).Call(t.Context(), r.ask())
		if resp != nil || !errors.Is(err, test.is) || asked != 0 || strings.Contains(r.text, "stand-in") {
			t.Errorf("%s: %v, %v, %q", name, resp, err, r.text)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := degraded(any, llmtest.Script()).Call(ctx, retryAsk()); llm.ClassOf(err) != llm.Canceled || asked != 0 {
		t.Errorf("for a caller that left: %v", err)
	}
	none := middleware.DegradeConfig{Answer: func(context.Context, *llm.Request, *llm.Error) *llm.Response { return nil }}
	if _, err := degraded(none, llmtest.Script(llmtest.Fail(llm.Overloaded))).Call(t.Context(), retryAsk()); !errors.Is(err, llm.Overloaded) {
		t.Errorf("without a stand-in: %v", err)
	}
}

func TestDegradeGivesTheLastGoodAnswerToTheSameQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := middleware.NewLastGood(middleware.LastGoodConfig{Entries: 2, MaxAge: time.Minute})
		ok, fail := llmtest.Text("a good answer"), llmtest.Fail(llm.Unavailable)
		model := llmtest.Script(ok, fail)
		chat := degraded(middleware.DegradeConfig{LastGood: good, Answer: middleware.StandIn("none kept")}, model)
		ask := func(text, tenant string) string {
			resp, err := chat.Call(t.Context(), &llm.Request{Messages: []llm.Message{llm.User(text)}, Labels: map[string]string{"tenant": tenant}})
			if err != nil {
				return err.Error()
			}
			if resp.Degraded {
				defer func() { resp.Parts[0].Text = "overwritten by its caller" }()
				return "degraded: " + resp.Text()
			}
			return resp.Text()
		}
		for i, want := range []string{"a good answer", "degraded: a good answer", "degraded: a good answer"} {
			if got := ask("q", "a"); got != want {
				t.Errorf("%d: %q, want %q", i, got, want)
			}
		}
		if got := ask("q", "b"); got != "degraded: none kept" {
			t.Errorf("another tenant got %q", got)
		}
		if got := ask("another question", "a"); got != "degraded: none kept" {
			t.Errorf("another question got %q", got)
		}
		llmtest.Advance(2 * time.Minute)
		if got := ask("q", "a"); got != "degraded: none kept" || good.String() != "0 of 2 answers up to 1m0s old" {
			t.Errorf("an old one: %q, %v", got, good)
		}
	})
}

func TestLastGoodKeepsNoMoreThanItMayAndNothingDoubtful(t *testing.T) {
	call := llm.Part{Kind: llm.PartToolCall, Call: &llm.ToolCall{Name: "f", Arguments: []byte(`{}`)}}
	good := middleware.NewLastGood(middleware.LastGoodConfig{Entries: 2})
	chat := func(step llmtest.Step, question string) string {
		resp, err := degraded(middleware.DegradeConfig{LastGood: good}, llmtest.Script(step)).
			Call(t.Context(), &llm.Request{System: question})
		if err != nil {
			return ""
		}
		return resp.Text()
	}
	for _, resp := range []*llm.Response{
		{Parts: []llm.Part{llm.Text("no")}, Stop: llm.StopRefusal},
		{Parts: []llm.Part{llm.Text("cut")}, Stop: llm.StopLength},
		{Parts: []llm.Part{llm.Text("x"), call}, Stop: llm.StopToolCalls},
	} {
		chat(llmtest.Step{Response: resp}, "doubtful")
		if got := chat(llmtest.Fail(llm.Unavailable), "doubtful"); got != "" {
			t.Errorf("%+v was kept", resp)
		}
	}
	chat(llmtest.Text("1"), "q1")
	chat(llmtest.Text("2"), "q2")
	chat(llmtest.Fail(llm.Unavailable), "q1") // needed again, so q2 goes first
	chat(llmtest.Text("3"), "q3")
	down := llmtest.Fail(llm.Unavailable)
	if got := fmt.Sprint(chat(down, "q1"), chat(down, "q2"), chat(down, "q3")); got != "13" {
		t.Errorf("kept %q, want 1 and 3", got)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { chat(llmtest.Text("x"), fmt.Sprint(i%5)); chat(down, fmt.Sprint(i%5)) })
	}
	wg.Wait()
	own := middleware.NewLastGood(middleware.LastGoodConfig{Key: func(r *llm.Request) string { return r.Labels["faq"] }})
	model := llmtest.Script(llmtest.Text("x"), down)
	for _, want := range []bool{true, false} {
		_, err := degraded(middleware.DegradeConfig{LastGood: own}, model).Call(t.Context(), &llm.Request{System: "no key"})
		if (err == nil) != want {
			t.Errorf("a question without a key: %v", err)
		}
	}
}

func TestDegradePanicsOnNonsense(t *testing.T) {
	for want, f := range map[string]func(){
		"nothing to stand in": func() { middleware.Degrade(middleware.DegradeConfig{}) },
		"Entries is -1":       func() { middleware.NewLastGood(middleware.LastGoodConfig{Entries: -1}) },
		"MaxAge is -1s":       func() { middleware.NewLastGood(middleware.LastGoodConfig{MaxAge: -time.Second}) },
	} {
		if got := panicOf(f); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	gone := errors.New("the reader left")
	req := retryAsk()
	req.Sink = func(llm.Delta) error { return gone }
	_, err := degraded(middleware.DegradeConfig{Answer: middleware.StandIn("x")}, llmtest.Script(llmtest.Fail(llm.Unavailable))).Call(t.Context(), req)
	if !errors.Is(err, gone) || llm.ClassOf(err) != llm.Canceled {
		t.Errorf("a sink that fails: %v", err)
	}
}

func TestDegradeTellsOfAStandInOnlyWhatWasHandedOut(t *testing.T) {
	full := errors.New("full")
	cfg := middleware.DegradeConfig{Answer: func(context.Context, *llm.Request, *llm.Error) *llm.Response {
		return &llm.Response{Parts: []llm.Part{llm.Text("one "), llm.Text("two")}, Stop: llm.StopEnd}
	}}
	req := retryAsk()
	req.Sink = func(llm.Delta) error { return full }
	_, err := degraded(cfg, llmtest.Script(llmtest.Fail(llm.Unavailable))).Call(t.Context(), req)
	if e := llm.AsError(err); !errors.Is(err, full) || e.Class != llm.Canceled || e.Partial.Text() != "one " {
		t.Errorf("%v, partial %+v", err, e.Partial)
	}
}
