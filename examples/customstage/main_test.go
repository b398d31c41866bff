package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

func TestMaskKeepsAddressesInTheHouse(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "You said: Write to [e-mail], please.") {
		t.Errorf("got %q", got)
	}
}

func TestMaskLeavesTheCallersRequestAlone(t *testing.T) {
	req := &llm.Request{Messages: []llm.Message{llm.User("a@b.example")}}
	if got := masked(req).Messages[0].Parts[0].Text; got != "[e-mail]" {
		t.Errorf("masked to %q", got)
	}
	if got := req.Messages[0].Parts[0].Text; got != "a@b.example" {
		t.Errorf("the caller's request now says %q", got)
	}
}

// region: conform

// The suite holds Mask to everything that a stage must keep; what it may do beyond passing calls on is claimed.
func TestMaskKeepsTheContract(t *testing.T) {
	llmtest.TestStage(t, llmtest.StageConfig{New: Mask, Claims: llmtest.MayChangeRequest})
}

// endregion

// region: swap

// A test swaps the stage that would wait for one that does not.
func TestAFailureIsShownAtOnceWithoutTheRetry(t *testing.T) {
	once, err := chain().Replace("retry", llm.Stage{Name: "retry", Wrap: func(next llm.Caller) llm.Caller { return next }})
	if err != nil {
		t.Fatal(err)
	}
	model := llmtest.Script(llmtest.Fail(llm.Unavailable))
	_, err = once.Then(&llm.Deployment{Name: "stub", Caller: model}).Call(t.Context(),
		&llm.Request{Messages: []llm.Message{llm.User("hi")}})
	if !errors.Is(err, llm.Unavailable) || model.Count() != 1 {
		t.Errorf("error %v after %d calls", err, model.Count())
	}
}

// endregion
