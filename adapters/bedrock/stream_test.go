package bedrock_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/bedrock"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestOnlyMessageStopProvesTheEnd(t *testing.T) {
	hel := begun + piece("Hel")
	for _, c := range []struct {
		name, frames string
		class        llm.Class // 0: an answer
		partial      string
		says         string
	}{
		{"nothing", "", llm.Interrupted, "", "without messageStop"},
		{"an end before the text", begun, llm.Interrupted, "", "without messageStop"},
		{"an end in the text", hel, llm.Interrupted, "Hel", "without messageStop"},
		{"an end after the block", hel + closed, llm.Interrupted, "Hel", "without messageStop"},
		{"metadata alone", hel + closed + told, llm.Interrupted, "Hel", "without messageStop"},
		{"the first bytes of a frame", begun[:3], llm.Interrupted, "", "cut"},
		{"a first frame that is cut", begun[:20], llm.Interrupted, "", "cut"},
		{"a frame that is cut", hel + closed + ended[:len(ended)-1], llm.Interrupted, "Hel", "cut"},
		{"messageStop alone", hel + closed + ended, 0, "", ""},
		{"messageStop and a frame that is cut", hel + closed + ended + told[:30], 0, "", ""},
		{"messageStop and noise", hel + closed + ended + "\x00\x00noise", 0, "", ""},
		{"messageStop and an exception", hel + closed + ended + exception("throttlingException", `{"message":"slow"}`), 0, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, err := serve(t, wiretest.Says(200, frameType, c.frames)).Call(t.Context(), wiretest.Streamed(&llm.Accumulator{}))
			if c.class == 0 {
				if err != nil || resp.Text() != "Hel" || !resp.Usage.Estimated || resp.Usage.Output == 0 {
					t.Errorf("%+v, %v", resp, err)
				}
				return
			}
			e := llm.AsError(err)
			if resp != nil || e.Class != c.class || e.Partial.Text() != c.partial || (e.Partial == nil) != (c.partial == "") ||
				!strings.Contains(err.Error(), c.says) || e.Evidence.Phase != llm.PhaseStream || e.Evidence.Status != 200 {
				t.Errorf("%v of class %v, phase %v, part %+v", err, e.Class, e.Evidence.Phase, e.Partial)
			}
			if c.partial == "" {
				return
			}
			want := llm.Usage{Input: 6, Output: 1, Estimated: true}
			if c.name == "metadata alone" {
				want = llm.Usage{Input: 10, Output: 4}
			}
			if e.Usage != want || e.Partial.Usage != want || e.Commit != llm.Committed {
				t.Errorf("usage %+v, commit %v", e.Usage, e.Commit)
			}
		})
	}
}

func TestExceptionsInAStreamAreClassifiedByTheirCode(t *testing.T) {
	for _, c := range []struct {
		name, frame, code string
		class             llm.Class
		message           string
	}{
		{"throttling", exception("throttlingException", `{"message":"Slow down."}`), "throttlingException", llm.RateLimited, "Slow down."},
		{"a model's error", exception("modelStreamErrorException", `{"message":"It broke.","originalStatusCode":424,"originalMessage":"x"}`),
			"modelStreamErrorException", llm.Unavailable, ""},
		{"internal", exception("internalServerException", `{"message":"Oops."}`), "internalServerException", llm.Unavailable, "Oops."},
		{"unavailable", exception("serviceUnavailableException", `{"message":"Gone."}`), "serviceUnavailableException", llm.Unavailable, "Gone."},
		{"invalid", exception("validationException", `{"message":"Bad field."}`), "validationException", llm.Invalid, "Bad field."},
		{"too long", exception("validationException", `{"message":"Input is too long for requested model."}`), "validationException", llm.TooLong,
			"Input is too long for requested model."},
		{"a timeout", exception("modelTimeoutException", `{"message":"Took too long."}`), "modelTimeoutException", llm.Timeout, "Took too long."},
		{"without a payload", exception("throttlingException", ""), "throttlingException", llm.RateLimited, ""},
		{"with a payload that is no JSON", exception("internalServerException", "plain words"), "internalServerException", llm.Unavailable, "plain words"},
		{"an error frame", frame("", ":message-type", "error", ":error-code", "internalServerException", ":error-message", "Oops."),
			"internalServerException", llm.Unavailable, "Oops."},
		{"under an event's name", event("throttlingException", `{"message":"Slow down."}`), "throttlingException", llm.RateLimited, "Slow down."},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := serve(t, wiretest.Says(200, frameType, begun+c.frame, "X-Amzn-Requestid", "req-9")).Call(t.Context(), wiretest.Streamed(&llm.Accumulator{}))
			e := llm.AsError(err)
			if e.Class != c.class || e.Evidence.Code != c.code || c.message != "" && e.Evidence.Message != c.message || e.Partial != nil ||
				e.RequestID != "req-9" || e.Evidence.Status != 200 || e.Evidence.Phase != llm.PhaseStream {
				t.Errorf("%v: class %v (%s), %+v", err, e.Class, e.Rule, e.Evidence)
			}
			// After output it is a break, with the cause beside it.
			_, err = serve(t, wiretest.Says(200, frameType, begun+piece("Hel")+c.frame)).Call(t.Context(), wiretest.Streamed(&llm.Accumulator{}))
			e = llm.AsError(err)
			if e.Class != llm.Interrupted || e.Partial.Text() != "Hel" || e.Evidence.Code != c.code || e.Commit != llm.Committed ||
				llm.ClassOf(errors.Unwrap(e)) != c.class {
				t.Errorf("after output: %v: class %v of %v, %+v", err, e.Class, errors.Unwrap(e), e.Evidence)
			}
		})
	}
}

func TestDamagedFramesAreNoAnswer(t *testing.T) {
	flipped := []byte(piece("lo"))
	flipped[len(flipped)-8] ^= 1
	for name, bad := range map[string]string{
		"a wrong checksum":       string(flipped),
		"a payload that is cut":  event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"te`),
		"a payload of no UTF-8":  event("contentBlockDelta", "{\"contentBlockIndex\":0,\"delta\":{\"text\":\"\xff\"}}"),
		"an end that is cut":     event("messageStop", `{"stopReason`),
		"a start that is cut":    event("contentBlockStart", `{"start`),
		"a stop that is cut":     event("contentBlockStop", `{"content`),
		"a length of nothing":    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"a length beyond bounds": "\x7f\xff\xff\xff" + strings.Repeat("x", 100),
		"a page":                 "<html><body>502</body></html>" + strings.Repeat(" ", 100),
	} {
		t.Run(name, func(t *testing.T) {
			for before, want := range map[string]llm.Class{begun: llm.BadOutput, begun + piece("Hel"): llm.Interrupted} {
				resp, err := serve(t, wiretest.Says(200, frameType, before+bad+closed+ended+told)).Call(t.Context(), wiretest.Streamed(&llm.Accumulator{}))
				if resp != nil || llm.ClassOf(err) != want {
					t.Errorf("%+v, %v of class %v, want %v", resp, err, llm.ClassOf(err), want)
				}
			}
		})
	}
}

func TestWhatIsNewIsPassedOver(t *testing.T) {
	frames := begun + event("hologram", `{"depth":3}`) + frame("?", ":message-type", "telemetry") + frame("", ":other", "x") +
		delta(0, `{"hologram":{"depth":3}}`) + piece("Hello") + closed + ended + told
	resp, err := serve(t, wiretest.Says(200, frameType, frames)).Call(t.Context(), wiretest.Streamed(&llm.Accumulator{}))
	if err != nil || resp.Text() != "Hello" || resp.Usage.Output != 4 {
		t.Errorf("%+v, %v", resp, err)
	}
}

// TestAnAnswerMayComeInTheOtherForm shows that the first byte decides, not the media type: gateways lose those.
func TestAnAnswerMayComeInTheOtherForm(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"in one piece": wiretest.Says(200, wiretest.JSON, hello), "in one piece as a stream": wiretest.Says(200, frameType, hello),
		"in frames": wiretest.Says(200, frameType, begun+piece("Hello")+closed+ended+told), "in frames as bytes": wiretest.Says(200, "application/octet-stream",
			begun+piece("Hello")+closed+ended+told),
	} {
		for how, req := range map[string]*llm.Request{"whole": wiretest.Ask("Hello?"), "streamed": wiretest.Streamed(&llm.Accumulator{})} {
			t.Run(name+" "+how, func(t *testing.T) {
				got := ""
				if req.Sink != nil {
					req.Sink = func(d llm.Delta) error { got += d.Text; return nil }
				}
				resp, err := serve(t, h).Call(t.Context(), req)
				if err != nil || resp.Text() != "Hello" || resp.Usage.Output != 4 || req.Sink != nil && got != "Hello" {
					t.Errorf("%+v, %v; the sink got %q", resp, err, got)
				}
			})
		}
	}
}

func TestAnAnswerHasBounds(t *testing.T) {
	big := strings.Repeat("x", 15<<10)
	nowhere := wiretest.Ask("Hello?")
	nowhere.Sink = func(llm.Delta) error { return nil }
	for _, c := range []struct {
		req  *llm.Request
		body io.Reader
	}{
		{wiretest.Ask("Hello?"), io.MultiReader(strings.NewReader(`{"output":{"message":{"content":[{"text":"`), &wiretest.Endless{Text: big})},
		{nowhere, io.MultiReader(strings.NewReader(begun), &wiretest.Endless{Text: piece(big)})},
	} {
		m := bedrock.New(bedrock.Config{Region: "us-east-1", Model: "m", HTTPClient: wiretest.InMemory(200, "",
			func(context.Context) io.Reader { return c.body })})
		m.Bound(32 << 10)
		if _, err := m.Call(t.Context(), c.req); llm.ClassOf(err) != llm.BadOutput || !strings.Contains(err.Error(), "larger than 32 KiB") {
			t.Errorf("%.200v", err)
		}
	}
}

func TestASinksErrorEndsEveryKindOfAnswer(t *testing.T) {
	full := errors.New("the disk is full")
	call := event("contentBlockStart", `{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"c1","name":"look"}}}`)
	for name, h := range map[string]http.HandlerFunc{
		"in one piece":                 wiretest.Says(200, wiretest.JSON, hello),
		"in frames":                    wiretest.Says(200, frameType, begun+piece("Hello")+closed+ended+told),
		"where a call ends":            wiretest.Says(200, frameType, begun+call+closed+ended+told),
		"where the message ends it":    wiretest.Says(200, frameType, begun+call+ended+told),
		"in a call that nobody opened": wiretest.Says(200, frameType, begun+delta(0, `{"toolUse":{"input":"{}"}}`)+ended+told),
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			req := wiretest.Ask("Hello?")
			req.Sink = func(llm.Delta) error { n++; return full }
			resp, err := serve(t, h).Call(t.Context(), req)
			if resp != nil || !errors.Is(err, full) || n != 1 {
				t.Errorf("%+v, %v after %d deltas", resp, err, n)
			}
		})
	}
}
