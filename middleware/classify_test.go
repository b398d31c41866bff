package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/classify"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func classifyOf(cfg middleware.ClassifyConfig, c llm.Caller) *llm.Pipeline {
	return llm.New(middleware.Classify(cfg)).Then(c)
}

func TestClassifyDecidesInsideTheDeployment(t *testing.T) {
	foreign := &llm.Error{Evidence: llm.Evidence{Status: 429, Code: "insufficient_quota", Message: "You exceeded your current quota"}}
	_, err := classifyOf(middleware.ClassifyConfig{}, fallbackDep("p", llmtest.Script(llmtest.Fail(foreign)))).Call(t.Context(), fallbackAsk())
	e := fallbackError(t, err)
	if e.Class != llm.Quota || e.Owner != llm.OwnerQuota || e.Attempts[0].Class != llm.Quota {
		t.Errorf("%+v", e)
	}
	if foreign.Class != llm.Unknown {
		t.Error("the error that was classified was written to")
	}
}

func TestClassifyAsksTheTeamsRulesFirst(t *testing.T) {
	rules := []classify.Rule{{Name: "ours", Phrase: []string{"the cat sat on the server"}, Class: llm.Overloaded}}
	failure := &llm.Error{Class: llm.Invalid, Evidence: llm.Evidence{Status: 400, Message: "The cat sat on the server."}}
	p := fallbackDep("p", llmtest.Script(llmtest.Fail(failure)))
	_, err := classifyOf(middleware.ClassifyConfig{Rules: rules}, p).Call(t.Context(), fallbackAsk())
	if e := fallbackError(t, err); e.Class != llm.Overloaded || e.Rule != "ours" {
		t.Errorf("with the rule: %+v", e)
	}
	_, err = classifyOf(middleware.ClassifyConfig{}, p).Call(t.Context(), fallbackAsk())
	if llm.ClassOf(err) != llm.Invalid {
		t.Errorf("without it: %v", err)
	}
}

func TestClassifyTakesInErrorsOfPlainCallers(t *testing.T) {
	custom := errors.Join(errors.New("our stage"), io.ErrUnexpectedEOF)
	_, err := middleware.Classify(middleware.ClassifyConfig{}).Wrap(llmtest.Script(llmtest.Fail(custom))).Call(t.Context(), fallbackAsk())
	if e := fallbackError(t, err); e.Class == llm.Unknown || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%+v", e)
	}
	known := &llm.Error{Class: llm.Cooling}
	_, err = middleware.Classify(middleware.ClassifyConfig{}).Wrap(llmtest.Script(llmtest.Fail(known))).Call(t.Context(), fallbackAsk())
	if err != error(known) { //nolint:errorlint // the very same error
		t.Errorf("a known error was changed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = middleware.Classify(middleware.ClassifyConfig{}).Wrap(llmtest.Script(llmtest.Fail(custom))).Call(ctx, fallbackAsk())
	if llm.ClassOf(err) != llm.Canceled {
		t.Errorf("after the caller left: %v", err)
	}
}

func TestClassifyLogsARefusalWithoutItsWordsAndReturnsIt(t *testing.T) {
	var log bytes.Buffer
	refusal := &llm.Response{
		Parts: []llm.Part{llm.Text("secret words")}, Refusal: "I cannot help with poison", Stop: llm.StopRefusal, RequestID: "r9", Model: "big",
	}
	chat := classifyOf(middleware.ClassifyConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))},
		fallbackDep("p", llmtest.Script(llmtest.Step{Response: refusal}, llmtest.Step{})))
	resp, err := chat.Call(t.Context(), fallbackAsk())
	if err != nil || resp.Refusal != refusal.Refusal || resp.Text() != "secret words" {
		t.Fatalf("%v, %v", resp, err)
	}
	got := log.String()
	for _, want := range []string{"level=INFO", "deployment=p", "stop=refusal", "request_id=r9", "model=big"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the log: %s", want, got)
		}
	}
	if strings.Contains(got, "secret") || strings.Contains(got, "poison") {
		t.Errorf("the log quotes the answer: %s", got)
	}
	log.Reset()
	if _, err = chat.Call(t.Context(), fallbackAsk()); err != nil || log.Len() != 0 {
		t.Errorf("an answer is logged: %q, %v", log.String(), err)
	}
}

func TestClassifyCosts(t *testing.T) {
	if n := costs(t, middleware.Classify(middleware.ClassifyConfig{}).Wrap, fallbackAsk()); n > 1 {
		t.Errorf("%v allocations, want 1", n)
	}
}

// A provider that says "request canceled" to a caller who waits speaks of somebody else's call.
func TestAModelThatSaysCanceledToACallerWhoWaitsIsUnavailable(t *testing.T) {
	said := &llm.Error{Class: llm.Canceled, Evidence: llm.Evidence{Status: 499, Message: "Request cancelled", Phase: llm.PhaseHeaders}}
	for name, stages := range map[string]llm.Chain{"with the stage": llm.New(classified), "without it": llm.New()} {
		chat := llm.New().Then(fallbackTo(
			stages.Then(fallbackDep("a", llmtest.Script(llmtest.Fail(said)))), stages.Then(fallbackDep("b", llmtest.Script()))))
		resp, err := chat.Call(t.Context(), fallbackAsk())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a := resp.Attempts[0]; a.Class != llm.Unavailable || a.Commit != llm.CommitUnknown || llm.AsError(a.Err).Owner != llm.OwnerTransient {
			t.Errorf("%s: the attempt is %v %v: %v", name, a.Class, a.Commit, a.Err)
		}
	}
}
