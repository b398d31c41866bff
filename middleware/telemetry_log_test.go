package middleware_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func TestTelemetryTwoWithoutAnSDKWriteEachRecordOnce(t *testing.T) {
	logs := &telemetryLogs{info: true}
	stage := middleware.Telemetry(middleware.TelemetryConfig{Logger: slog.New(logs)})
	p := llm.New(stage, stage.As("inner")).Then(telemetryLeaf("a", "p", "m", llmtest.Fail(llm.Unavailable)))
	if _, err := p.Call(t.Context(), telemetryAsk()); err == nil {
		t.Fatal("no error")
	}
	if len(logs.at("ERROR")) != 1 || len(logs.at("INFO")) != 1 {
		t.Errorf("records: %q", logs.lines)
	}
}

func TestTelemetryShowsNoContentUnlessAsked(t *testing.T) {
	const secret = "SECRET"
	run := func(t *testing.T, content bool) string {
		r := newTelemetryRig(t)
		r.config.Content = content
		wire := &llm.Error{
			Class: llm.Unavailable, Message: "cannot read " + secret, Err: errors.New("echo " + secret),
			Evidence: llm.Evidence{Status: 500, Code: "code " + secret, Message: "you said " + secret, Body: secret},
			Partial:  &llm.Response{Parts: []llm.Part{llm.Text("part " + secret)}},
		}
		a := telemetryLeaf("a", "p", "m", llmtest.Fail(wire), llmtest.Step{Panic: secret}, llmtest.Fail(errors.New(secret)),
			llmtest.Step{Response: &llm.Response{Parts: []llm.Part{{
				Kind: llm.PartToolCall, Call: &llm.ToolCall{Name: secret, Arguments: []byte("{" + secret)},
			}}}},
			llmtest.Step{Response: &llm.Response{Parts: []llm.Part{llm.Text("answer " + secret)}, Refusal: "no " + secret}})
		sum := func(n int) llm.Caller {
			callers := make([]llm.Caller, n)
			for i := range callers {
				callers[i] = a
			}
			return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
				resp, err := telemetryTry(callers...).Call(ctx, req)
				if err != nil { // as a fallback does that quotes its deployments
					return nil, &llm.Error{Class: llm.Exhausted, Message: "all failed: " + err.Error(), Err: err}
				}
				return resp, nil
			})
		}
		req := &llm.Request{
			System: "be " + secret, Messages: []llm.Message{llm.User("say " + secret), {Role: llm.RoleTool, Parts: []llm.Part{
				{Kind: llm.PartToolResult, Result: &llm.ToolResult{CallID: "1", Parts: []llm.Part{llm.Text(secret)}}},
				{Kind: llm.PartImage, Data: []byte(secret)}, {Kind: llm.PartImage, URL: "https://x/" + secret},
				{Kind: llm.PartAudio, URL: "data:audio/wav;base64,U0VDUkVU", MIME: "audio/wav"},
			}}},
			Tools:  []llm.Tool{{Name: "t", Description: secret, Parameters: []byte(`{"type":"object"}`)}},
			Labels: map[string]string{"tenant": secret},
		}
		if _, err := r.pipeline(sum(4)).Call(t.Context(), req); err == nil {
			t.Fatal("no error")
		}
		if _, err := r.pipeline(sum(1)).Call(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, s := range r.spans.Ended() {
			b.WriteString(s.Status().Description + "\n")
			for _, kv := range s.Attributes() {
				b.WriteString(string(kv.Key) + "=" + kv.Value.String() + "\n")
			}
			for _, e := range s.Events() {
				for _, kv := range e.Attributes {
					b.WriteString(kv.Value.String() + "\n")
				}
			}
		}
		b.WriteString(strings.Join(r.logs.lines, "\n"))
		if len(r.spans.Ended()) != 7 || len(r.logs.lines) < 6 {
			t.Fatalf("%d spans and %d records", len(r.spans.Ended()), len(r.logs.lines))
		}
		return b.String()
	}
	if all := run(t, false); strings.Contains(all, secret) || !strings.Contains(all, "unavailable (HTTP 500)") {
		t.Errorf("content is shown unasked, or nothing is:\n%s", all)
	}
	all := run(t, true)
	for _, want := range []string{
		`gen_ai.system_instructions=[{"type":"text","content":"be SECRET"}]`,
		`{"role":"user","parts":[{"type":"text","content":"say SECRET"}]}`,
		`{"type":"tool_call_response","id":"1","response":"SECRET"}`,
		`{"type":"blob","modality":"image"},{"type":"uri","uri":"https://x/SECRET","modality":"image"},` +
			`{"type":"blob","mime_type":"audio/wav","modality":"audio"}`,
		`gen_ai.tool.definitions=[{"type":"function","name":"t","description":"SECRET","parameters":{"type":"object"}}]`,
		`gen_ai.output.messages=[{"role":"assistant","parts":[{"type":"text","content":"answer SECRET"},` +
			`{"type":"refusal","content":"no SECRET"}],"finish_reason":"other"}]`,
		`gen_ai.output.messages=[{"role":"assistant","parts":[{"type":"text","content":"part SECRET"}],"finish_reason":"error"}]`,
		"cannot read SECRET",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("with Content, %s is missing in:\n%s", want, all)
		}
	}
}

func TestTelemetryRecordsHaveTheAttemptsSpanAndTheRightLevel(t *testing.T) {
	r := newTelemetryRig(t)
	a := telemetryLeaf("a", "p", "m", llmtest.Fail(&llm.Error{Class: llm.RateLimited, Evidence: llm.Evidence{Status: 429}}))
	if _, err := r.pipeline(telemetryTry(a, telemetryLeaf("b", "q", "n"))).Call(t.Context(), telemetryAsk()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`level=INFO msg="llm attempt failed" route=support deployment=a model=m attempt=1 wait=0s`,
		`level=WARN msg="llm fallback" route=support from=a to=b class=rate_limited wait=0s`,
		`level=DEBUG msg="llm attempt answered" route=support deployment=b model=n attempt=2 wait=0s`,
	}
	if len(r.logs.lines) != len(want) {
		t.Fatalf("records: %q", r.logs.lines)
	}
	for i, w := range want {
		if !strings.HasPrefix(r.logs.lines[i], w) {
			t.Errorf("record %d is %q, want %q…", i, r.logs.lines[i], w)
		}
	}
	if !strings.Contains(r.logs.lines[0], `status=429 class=rate_limited error="a: rate_limited (HTTP 429)"`) {
		t.Errorf("record of the failure: %q", r.logs.lines[0])
	}
	spans := r.named("chat")
	for i, s := range []sdktrace.ReadOnlySpan{spans[0], spans[1], spans[1]} {
		if r.logs.spans[i] != s.SpanContext().SpanID() {
			t.Errorf("record %d is not in the span of its attempt", i)
		}
	}
}

func TestTelemetryWithoutAnSDKWritesTheSameRecordsAfterTheCall(t *testing.T) {
	logs := &telemetryLogs{info: true}
	p := llm.New(middleware.Telemetry(middleware.TelemetryConfig{Logger: slog.New(logs)})).Then(telemetryTry(
		telemetryLeaf("a", "p", "m", llmtest.Fail(llm.RateLimited)), telemetryLeaf("b", "q", "n", llmtest.Text("x"), llmtest.Fail(llm.Invalid)),
	))
	if _, err := p.Call(t.Context(), telemetryAsk()); err != nil {
		t.Fatal(err)
	}
	if len(logs.lines) != 2 || !strings.Contains(logs.lines[0], "llm attempt failed") || !strings.Contains(logs.lines[1], "llm fallback") {
		t.Errorf("records: %q", logs.lines)
	}
	logs.lines = nil
	if _, err := p.Call(t.Context(), telemetryAsk()); err == nil {
		t.Fatal("no error")
	}
	last := logs.at("ERROR")
	if len(last) != 1 || !strings.Contains(last[0], `outcome=failed_closed attempts=2 class=invalid error="invalid: a: rate_limited; b: invalid"`) {
		t.Errorf("records: %q", logs.lines)
	}
	logs.lines = nil
	quiet := llm.New(middleware.Telemetry(middleware.TelemetryConfig{Logger: slog.New(logs)})).Then(telemetryLeaf("a", "p", "m"))
	if _, err := quiet.Call(t.Context(), telemetryAsk()); err != nil || len(logs.lines) != 0 {
		t.Errorf("an ordinary answer is told of: %v %q", err, logs.lines)
	}
}

func TestTelemetryWithoutAnSDKTellsOfRefusalsAndStandIns(t *testing.T) {
	for want, answer := range map[string]*llm.Response{
		`level=INFO msg="llm answer refused" outcome=primary_success`: {Stop: llm.StopFiltered},
		`level=WARN msg="llm answer degraded" outcome=degraded`:       {Degraded: true},
	} {
		logs := &telemetryLogs{info: true}
		c := middleware.Telemetry(middleware.TelemetryConfig{Logger: slog.New(logs)}).Wrap(llm.CallerFunc(
			func(context.Context, *llm.Request) (*llm.Response, error) { return answer, nil }))
		if _, err := c.Call(t.Context(), telemetryAsk()); err != nil {
			t.Fatal(err)
		}
		if len(logs.lines) != 1 || !strings.HasPrefix(logs.lines[0], want) {
			t.Errorf("records %q, want %s", logs.lines, want)
		}
	}
}

func TestTelemetryACallThatNoDeploymentSawSaysWhatHeldItBack(t *testing.T) {
	r := newTelemetryRig(t)
	held := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
		return nil, &llm.Error{Class: llm.Exhausted, Message: "the budget of today is spent"}
	})
	if _, err := r.pipeline(held).Call(t.Context(), telemetryAsk()); err == nil {
		t.Fatal("no error")
	}
	if got := r.call().Status().Description; got != "exhausted: the budget of today is spent" {
		t.Errorf("the call says %q", got)
	}
}
