package llm_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/modelchain/llm"
)

func TestDeploymentRefusesWhatItDoesNotDeclare(t *testing.T) {
	picture := llm.Part{Kind: llm.PartImage, Data: []byte("x"), MIME: "image/png"}
	result := llm.Part{Kind: llm.PartToolResult, Result: &llm.ToolResult{CallID: "1", Parts: []llm.Part{picture}}}
	for name, test := range map[string]struct {
		last  llm.Message
		needs llm.Capabilities
	}{
		"an assistant's message to go on with": {llm.Assistant("{"), llm.CanPrefill},
		"an image in a tool's result":          {llm.Message{Role: llm.RoleTool, Parts: []llm.Part{result}}, llm.CanImages},
	} {
		req := &llm.Request{Messages: []llm.Message{llm.User("look"), test.last}}
		model := answers("ok")
		_, err := (&llm.Deployment{Name: "d", Has: llm.CanText | llm.CanTools, Caller: model}).Call(t.Context(), req)
		if !errors.Is(err, llm.Unsupported) || !strings.Contains(err.Error(), test.needs.String()) {
			t.Errorf("%s: got %v", name, err)
		}
		for _, has := range []llm.Capabilities{0, llm.CanText | test.needs} {
			if _, err := (&llm.Deployment{Name: "d", Has: has, Caller: model}).Call(t.Context(), req); err != nil {
				t.Errorf("%s, which has %v: %v", name, has, err)
			}
		}
	}
}

func answers(text string) llm.CallerFunc {
	return func(context.Context, *llm.Request) (*llm.Response, error) {
		return &llm.Response{Parts: []llm.Part{llm.Text(text)}}, nil
	}
}

func TestDeploymentThatDoesNotStreamAnswersInOnePiece(t *testing.T) {
	streamed := false
	model := llm.CallerFunc(func(_ context.Context, r *llm.Request) (*llm.Response, error) {
		streamed = r.Sink != nil
		return &llm.Response{Parts: []llm.Part{llm.Text("ab")}}, nil
	})
	var got []llm.Delta
	req := ask()
	req.Sink = func(d llm.Delta) error { got = append(got, d); return nil }
	_, err := (&llm.Deployment{Name: "d", Has: llm.CanText, Caller: model}).Call(t.Context(), req)
	if err != nil || streamed || len(got) != 1 || got[0].Text != "ab" {
		t.Errorf("asked to stream: %t; pieces %v, error %v", streamed, got, err)
	}
}

func TestANilErrorOfAModelIsAnErrorThatSaysSo(t *testing.T) {
	broken := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
		var e *llm.Error
		return &llm.Response{Parts: []llm.Part{llm.Text("x")}}, e
	})
	stage := llm.Stage{Name: "own", Wrap: func(llm.Caller) llm.Caller { return broken }}
	for name, c := range map[string]llm.Caller{
		"a model's":          &llm.Deployment{Name: "d", Caller: broken},
		"a stage's":          llm.New(stage).Then(&llm.Deployment{Name: "d", Caller: broken}),
		"a model in a chain": llm.New().Then(&llm.Deployment{Name: "d", Caller: broken}),
	} {
		resp, err := c.Call(t.Context(), ask())
		if resp != nil || err == nil || !strings.Contains(err.Error(), "nil *llm.Error") {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
}

func TestWhatIsNotThereIsAnErrorAndNoPanic(t *testing.T) {
	var pipeline llm.Pipeline
	for name, call := range map[string]func() error{
		"the zero Pipeline": func() error { _, err := pipeline.Call(t.Context(), ask()); return err },
		"a nil Pipeline":    func() error { _, err := (*llm.Pipeline)(nil).Call(t.Context(), ask()); return err },
		"a nil Deployment":  func() error { _, err := (*llm.Deployment)(nil).Call(t.Context(), ask()); return err },
		"the zero Guard": func() error {
			_, err := llm.Do(t.Context(), &llm.Guard{}, func(context.Context) (int, error) { return 1, nil })
			return err
		},
		"a stream of nobody": func() (err error) {
			for _, err = range llm.Stream(t.Context(), nil, ask()) {
			}
			return err
		},
		"negative MaxAttempts": func() error {
			req := ask()
			req.MaxAttempts = -5
			_, err := (&llm.Deployment{Name: "d", Caller: answers("ok")}).Call(t.Context(), req)
			return err
		},
	} {
		if err := call(); !errors.Is(err, llm.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r := (*llm.Request)(nil).WithCounter(nil); r != nil {
		t.Errorf("a counter for no request: %v", r)
	}
	if s := llm.Settings((*strings.Builder)(nil)); s != "nil" {
		t.Errorf("settings of nothing: %q", s)
	}
}

func TestErrorTextsAreShort(t *testing.T) {
	e := &llm.Error{Class: llm.Unavailable, Message: strings.Repeat("ä", 10_000), Err: errors.New(strings.Repeat("x", 10_000))}
	if n := len(e.Error()); n > 4200 {
		t.Errorf("%d bytes", n)
	}
}

// A class alone does not say that nothing was sent, and for these it cannot be so.
func TestAFailureOfUnknownOutcomeIsNotTakenForUnsent(t *testing.T) {
	for _, err := range []error{
		llm.Timeout, llm.Stalled, llm.Interrupted, &llm.Error{Class: llm.Timeout},
		&llm.Error{Class: llm.Timeout, Evidence: llm.Evidence{Phase: llm.PhaseHeaders}},
	} {
		d := &llm.Deployment{Name: "d", Caller: llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return nil, err })}
		if _, got := d.Call(t.Context(), ask()); llm.AsError(got).Commit != llm.CommitUnknown {
			t.Errorf("%v: commit %v", err, llm.AsError(got).Commit)
		}
	}
	unsent := &llm.Error{Class: llm.Timeout, Evidence: llm.Evidence{Phase: llm.PhaseConnect}}
	d := &llm.Deployment{Name: "d", Caller: llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return nil, unsent })}
	if _, got := d.Call(t.Context(), ask()); llm.AsError(got).Commit != llm.CommitNone {
		t.Errorf("while connecting: commit %v", llm.AsError(got).Commit)
	}
}

func TestAnEmptyContinuationIsNoEmptyAnswer(t *testing.T) {
	d := &llm.Deployment{Name: "d", Caller: llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
		return &llm.Response{Parts: []llm.Part{llm.Text("\n")}, Stop: llm.StopEnd}, nil
	})}
	if _, err := d.Call(t.Context(), ask()); !errors.Is(err, llm.BadOutput) {
		t.Errorf("an answer of a line feed: %v", err)
	}
	req := ask()
	req.Messages = append(req.Messages, llm.Assistant("x = 1"))
	if _, err := d.Call(t.Context(), req); err != nil {
		t.Errorf("the rest of one: %v", err)
	}
}
