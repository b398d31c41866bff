package llmtest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
)

// aside runs do on a goroutine of its own and waits for it.
func aside(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
}

// What TestStage prints as a whole, of stages that could end the test binary before anything is seen, or would be told of under
// every rule. It runs itself once for each of them.
func TestWhatIsPrintedOfStagesWithGoroutines(t *testing.T) {
	const which = "LLMTEST_STAGE_OF_A_CHILD"
	stages := map[string]struct {
		body  body
		says  []string
		never string
	}{
		"calls its sink elsewhere": {body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			return next.Call(ctx, sinking(req, func(d llm.Delta) (err error) {
				aside(func() { err = req.Sink(d) })
				return err
			}))
		}, says: []string{
			"from another goroutine than that of the call", "--- FAIL: ", `the rule "sink" is broken`, "once that rule passes",
		}, never: "panic: "},
		"calls on elsewhere": {body: func(ctx context.Context, req *llm.Request, next llm.Caller) (resp *llm.Response, err error) {
			if req.Sink != nil {
				return next.Call(ctx, req)
			}
			aside(func() { resp, err = next.Call(ctx, req) })
			if resp != nil {
				resp.RequestID = ""
			}
			return resp, err
		}, says: []string{
			"panic: scripted by llm/llmtest.TestStage", "does not recover", "Found before it:", "RequestID is",
		}},
		"leaves a goroutine for ever": {body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			never := make(chan struct{})
			go func() { <-never }()
			return next.Call(ctx, req)
		}, says: []string{noGoroutine}, never: "bubble goroutine has exited"},
	}
	if stage, ok := stages[os.Getenv(which)]; ok {
		TestStage(t, StageConfig{New: func() llm.Stage { return stageOf(stage.body) }})
		return
	}
	for name, c := range stages {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.v", "-test.run=^TestWhatIsPrintedOfStagesWithGoroutines$") //nolint:gosec // itself
			cmd.Env = append(os.Environ(), which+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("it passes:\n%s", out)
			}
			for _, want := range c.says {
				if !strings.Contains(string(out), want) {
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
			if c.never != "" && strings.Contains(string(out), c.never) {
				t.Errorf("it says %q:\n%s", c.never, out)
			}
			if n := strings.Count(string(out), noGoroutine); n > 1 {
				t.Errorf("%q is said %d times:\n%s", noGoroutine, n, out)
			}
		})
	}
}
