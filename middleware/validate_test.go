package middleware_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

var errNoColon = errors.New("there is no colon in it")

func wantColon(_ *llm.Request, resp *llm.Response) error {
	if !strings.Contains(resp.Text(), ":") {
		return errNoColon
	}
	return nil
}

func TestValidateMakesAnUnusableAnswerAFailure(t *testing.T) {
	answer := &llm.Response{Parts: []llm.Part{llm.Text("no")}, Usage: llm.Usage{Input: 3, Output: 1}, RequestID: "r1", Status: 200}
	chat := llm.New(middleware.Validate(wantColon)).Then(fallbackDep("p", llmtest.Script(llmtest.Step{Response: answer}, llmtest.Text("a: b"))))
	resp, err := chat.Call(t.Context(), fallbackAsk())
	e := fallbackError(t, err)
	if resp != nil || e.Class != llm.BadOutput || !errors.Is(err, errNoColon) || e.Deployment != "p" || e.Commit != llm.Committed ||
		e.Usage.Input != 3 || e.RequestID != "r1" || e.Partial != nil || e.Owner != llm.OwnerTransient {
		t.Errorf("%v, %+v", resp, e)
	}
	if len(e.Attempts) != 1 || e.Attempts[0].Class != llm.BadOutput || e.Attempts[0].Usage.Output != 1 {
		t.Errorf("the account says %+v", e.Attempts)
	}
	if resp, err = chat.Call(t.Context(), fallbackAsk()); err != nil || resp.Text() != "a: b" {
		t.Errorf("a good answer: %v, %v", resp, err)
	}
}

func TestValidateLeadsToARetryThenElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := llm.New(middleware.Retry(middleware.RetryConfig{}), middleware.Validate(wantColon))
		p := llmtest.Script(llmtest.Text("no"))
		resp, err := llm.New().Then(fallbackTo(c.Then(fallbackDep("p", p)), c.Then(fallbackDep("f", llmtest.Script(llmtest.Text("a: b")))))).
			Call(t.Context(), fallbackAsk())
		if err != nil || resp.Deployment != "f" || p.Count() != 2 {
			t.Errorf("%v, %v after %d calls of p", resp, err, p.Count())
		}
	})
}

func TestValidatePassesRefusalsAndFailures(t *testing.T) {
	chat := middleware.Validate(wantColon).Wrap(fallbackDep("p", llmtest.Script(
		llmtest.Step{Response: &llm.Response{Refusal: "no"}}, llmtest.Fail(llm.Unavailable))))
	if resp, err := chat.Call(t.Context(), fallbackAsk()); err != nil || resp.Refusal != "no" {
		t.Errorf("%v, %v", resp, err)
	}
	if _, err := chat.Call(t.Context(), fallbackAsk()); llm.ClassOf(err) != llm.Unavailable {
		t.Error(err)
	}
}

func TestValidateComesTooLateForAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := llm.New(middleware.Retry(middleware.RetryConfig{}), middleware.Validate(wantColon))
		p, f, text := llmtest.Script(llmtest.Text("no")), llmtest.Script(), ""
		req := fallbackAsk()
		req.Sink = func(d llm.Delta) error { text += d.Text; return nil }
		_, err := llm.New().Then(fallbackTo(c.Then(fallbackDep("p", p)), fallbackDep("f", f))).Call(t.Context(), req)
		if e := fallbackError(t, err); e.Class != llm.BadOutput || e.Partial.Text() != "no" || text != "no" || p.Count() != 1 || f.Count() != 0 {
			t.Errorf("%v, %q after %d and %d calls", err, text, p.Count(), f.Count())
		}
	})
}

func TestValidatePanicsWithoutACheck(t *testing.T) {
	defer func() {
		if got, _ := recover().(string); !strings.HasPrefix(got, "llm/middleware: Validate: check is nil") {
			t.Errorf("panic %q", got)
		}
	}()
	middleware.Validate(nil)
}
