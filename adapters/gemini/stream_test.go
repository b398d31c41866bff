package gemini_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestStreamsThatAreWhole(t *testing.T) {
	first, last := piece("Hel"), chunk(`{"text":"lo"}`, stop, used)
	whole := events(first, last)
	for _, c := range []struct{ name, body string }{
		{"in good order", whole},
		{"line feeds alone", strings.ReplaceAll(whole, "\r", "")},
		{"comments in between", ": ping\r\n\r\n" + events(first) + ": ping\r\n\r\n" + events(last) + ":\r\n"},
		{"named events", "event: message\r\n" + events(first) + "event: message\r\n" + events(last)},
		{"no final line feed", strings.TrimSpace(whole)},
		{"a chunk in several data lines", "data: {\"candidates\":[\r\ndata: {\"content\":{\"parts\":[{\"text\":\"Hel\"}]}}]}\r\n\r\n" + events(last)},
		{"JSON lines without framing", first + "\n" + last + "\n"},
		{"usage after the finish reason", events(first, chunk(`{"text":"lo"}`, stop, ""), `{`+used[1:]+`}`)},
		{"the finish reason alone at the end", events(first, piece("lo"), `{"candidates":[{"finishReason":"STOP"}]`+used+`}`)},
		{"an event of another kind", events(`{"type":"ping"}`, first, `{}`, last)},
		{"DONE at the end", whole + events("[DONE]")},
		{"noise after the end", whole + events("{what")},
		{"an error after the end", whole + events(`{"error":{"code":503,"message":"late"}}`)},
		{"a page after the end", whole + "<html>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			deltas, resp, err := wiretest.Collect(t.Context(), serve(t, wiretest.Says(200, wiretest.SSE, c.body)), wiretest.Ask("hi"))
			if err != nil {
				t.Fatal(err)
			}
			if resp.Text() != "Hello" || resp.Stop != llm.StopEnd || resp.Usage != (llm.Usage{Input: 10, Output: 4}) || len(deltas) != 2 {
				t.Errorf("got %q, stop %q, usage %+v, deltas %+v", resp.Text(), resp.Stop, resp.Usage, deltas)
			}
		})
	}
}

func TestStreamsThatFail(t *testing.T) {
	counted := `,"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":1,"totalTokenCount":11}`
	first := chunk(`{"text":"Hel"}`, "", counted)
	busy := `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`
	pretty := "{\n  \"error\": {\n    \"code\": 429,\n    \"message\": \"Resource has been exhausted (e.g. check quota).\",\n" +
		"    \"status\": \"RESOURCE_EXHAUSTED\"\n  }\n}\n"
	for _, c := range []struct {
		name, body string
		class      llm.Class
		text       string // what was delivered before
		says       string
	}{
		{"ends after text", events(first), llm.Interrupted, "Hel", "without a finish reason"},
		{"ends after text, in words", events(first, "[DONE]"), llm.Interrupted, "Hel", "without a finish reason"},
		{"ends after an unspecified finish reason", events(strings.Replace(first, `"index"`, `"finishReason":"FINISH_REASON_UNSPECIFIED","index"`, 1)),
			llm.Interrupted, "Hel", "without a finish reason"},
		{"ends after feedback that blocks nothing", events(`{"promptFeedback":{"blockReason":"BLOCK_REASON_UNSPECIFIED"}}`,
			`{"promptFeedback":{"blockReason":"BLOCKED_REASON_UNSPECIFIED"}}`),
			llm.Interrupted, "", "without a finish reason"},
		{"ends before text", events(chunk("", "", counted)), llm.Interrupted, "", "without a finish reason"},
		{"ends after the usage", events(`{` + counted[1:] + `}`), llm.Unavailable, "", "before an answer"},
		{"cut within an event", events(first) + `data: {"candidates":[{"con`, llm.Interrupted, "Hel", "without a finish reason"},
		{"empty", "", llm.Unavailable, "", "before an answer"},
		{"comments alone", ": ping\n\n: ping\n\n", llm.Unavailable, "", "before an answer"},
		{"an error first", events(busy), llm.Overloaded, "", "overloaded"},
		{"an error after comments", ": ping\n\n" + events(busy), llm.Overloaded, "", "overloaded"},
		{"an error after the usage", events(`{`+counted[1:]+`}`, busy), llm.Overloaded, "", "overloaded"},
		{"an error in the middle", events(first, busy), llm.Interrupted, "Hel", "overloaded"},
		{"an error in the middle, and more text", events(first, busy, piece("lo"), chunk("", stop, used)), llm.Interrupted, "Hel", "overloaded"},
		{"an error beside text", events(strings.TrimSuffix(first, "}") + "," + busy[1:]), llm.Interrupted, "Hel", "overloaded"},
		{"a list with an error", events("[" + busy + "]"), llm.Overloaded, "", "overloaded"},
		{"an error by its event", "event: error\n" + events(`{"message":"model is gone"}`), llm.Unavailable, "", "model is gone"},
		{"an error by its event, in words", "event: error\n" + events(`model is gone`), llm.Unavailable, "", "model is gone"},
		{"an error without framing", busy, llm.Overloaded, "", "overloaded"},
		{"an error on several lines without framing", pretty, llm.RateLimited, "", "Resource has been exhausted"},
		{"an error on several lines without framing in the middle", events(first) + pretty, llm.Interrupted, "Hel", "Resource has been exhausted"},
		{"a list with an error without framing", "[" + busy + "]", llm.Overloaded, "", "overloaded"},
		{"a chunk in a list with an error", events("[" + first + "," + busy + "]"), llm.Interrupted, "Hel", "overloaded"},
		{"an error that is a text", events(`{"error":"something broke"}`), llm.Unavailable, "", "something broke"},
		{"an error that is a text in the middle", events(first, `{"error":"something broke"}`, chunk("", stop, used)), llm.Interrupted, "Hel", "something broke"},
		{"a key refused", events(`{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`),
			llm.Auth, "", "not valid"},
		{"a daily quota", events(`{"error":{"code":429,"message":"Quota exceeded.","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProject"}]}]}}`),
			llm.Quota, "", "Quota exceeded"},
		{"a damaged chunk", events(first, `{"candidates":[{"content":{"parts":[{"text":"l`, chunk("", stop, used)), llm.Interrupted, "Hel", "damaged"},
		{"a damaged chunk first", events(`{"candidates":[{"content":{"parts":[{"text":"l`, chunk("", stop, used)), llm.BadOutput, "", "damaged"},
		{"a rune cut in two", events(first, chunk("{\"text\":\"caf\xc3\"}", stop, used)), llm.Interrupted, "Hel", "damaged"},
		{"noise alone", events(`{"hello":"there"}`), llm.BadOutput, "", ""},
		{"a page", "<html><body>Bad gateway</body></html>", llm.BadOutput, "", ""},
		{"a page without end", strings.Repeat("<p>\n", 1<<16), llm.BadOutput, "", ""},
		{"an event above the bound", events(strings.Repeat("x", 5<<20)), llm.BadOutput, "", "too large"},
		{"an event above the bound after text", events(first, strings.Repeat("x", 5<<20)), llm.Interrupted, "Hel", "too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			deltas, resp, err := wiretest.Collect(t.Context(), serve(t, wiretest.Says(200, wiretest.SSE, c.body)), wiretest.Ask("hi"))
			e := wiretest.Failure(t, resp, err)
			if e.Class != c.class || !strings.Contains(e.Error(), c.says) {
				t.Errorf("got %v by rule %q; want %v with %q", e, e.Rule, c.class, c.says)
			}
			if e.Evidence.Status != 200 || e.Evidence.Phase != llm.PhaseStream || e.Evidence.Header.Get("Content-Type") != wiretest.SSE {
				t.Errorf("status %d, phase %v, header %v", e.Evidence.Status, e.Evidence.Phase, e.Evidence.Header)
			}
			text := ""
			for _, d := range deltas {
				text += d.Text
			}
			if text != c.text || e.Partial.Text() != c.text || e.Evidence.Partial != (c.text != "") {
				t.Errorf("delivered %q, Partial %+v; want %q", text, e.Partial, c.text)
			}
			if c.text != "" && (e.Usage != (llm.Usage{Input: 10, Output: 1}) || e.Partial.Usage != e.Usage || e.Commit != llm.Committed ||
				e.RequestID != "resp-1" || e.Partial.Model != "gemini-2.5-flash-001") {
				t.Errorf("usage %+v, commit %v, id %q, Partial %+v", e.Usage, e.Commit, e.RequestID, e.Partial)
			}
			if len(e.Evidence.Body) > 64<<10 {
				t.Errorf("the evidence holds %d bytes", len(e.Evidence.Body))
			}
		})
	}
}

func TestABrokenStreamKeepsWholeCallsAndSignatures(t *testing.T) {
	body := events(chunk(`{"text":"Hm","thought":true,"thoughtSignature":"czA="}`, "", ""),
		chunk(`{"functionCall":{"id":"f1","name":"now","args":{"a":1}},"thoughtSignature":"czE="}`, "", ""))
	_, resp, err := wiretest.Collect(t.Context(), serve(t, wiretest.Says(200, wiretest.SSE, body)), wiretest.Ask("hi"))
	e := wiretest.Failure(t, resp, err)
	if e.Class != llm.Interrupted || len(e.Partial.ToolCalls()) != 1 || string(e.Partial.Parts[1].Extra["gemini"]) != `{"thoughtSignature":"czE="}` {
		t.Errorf("got %v, Partial %+v", e, e.Partial)
	}
	if !e.Usage.Estimated || e.Usage.Output == 0 {
		t.Errorf("usage %+v", e.Usage)
	}
}

func TestASinkThatFailsEndsTheCall(t *testing.T) {
	full := errors.New("the disk is full")
	text := chunk(`{"text":"Hel"}`, "", "")
	for name, c := range map[string]struct {
		body string
		n    int // the delta that fails
	}{
		"in the stream":            {events(text, text), 1},
		"after the finish reason":  {events(chunk(`{"text":"Hel"}`, stop, used), text), 2},
		"at the words of a filter": {events(chunk("", `,"finishReason":"SAFETY","finishMessage":"No."`, "")), 1},
		"at a call":                {events(chunk(`{"functionCall":{"name":"now"}}`, "", ""), text), 1},
	} {
		t.Run(name, func(t *testing.T) {
			req := wiretest.Ask("hi")
			n := 0
			req.Sink = func(llm.Delta) error {
				if n++; n == c.n {
					return full
				}
				return nil
			}
			resp, err := serve(t, wiretest.Says(200, wiretest.SSE, c.body)).Call(t.Context(), req)
			if e := wiretest.Failure(t, resp, err); e.Class != llm.Canceled || !errors.Is(err, full) || n != c.n || e.Partial == nil {
				t.Errorf("got %v, Partial %+v; the sink was called %d times", e, e.Partial, n)
			}
		})
	}
}

// inMemory is a Model whose answer is read from body, in a bubble where time is fake and sockets do not work.
func inMemory(body func(context.Context) io.Reader) *gemini.Model {
	return gemini.New(gemini.Config{Model: "gemini-2.5-flash", HTTPClient: wiretest.InMemory(200, wiretest.SSE, body)})
}

func TestAConnectionHeldOpenAfterTheEndDoesNotHoldTheAnswer(t *testing.T) {
	for name, body := range map[string]string{
		"the answer":               events(piece("Hel"), chunk(`{"text":"lo"}`, stop, used)),
		"the answer and a half":    events(piece("Hel"), chunk(`{"text":"lo"}`, stop, used)) + `data: {"candi`,
		"the answer and a comment": events(piece("Hel"), chunk(`{"text":"lo"}`, stop, used)) + ": ping\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := inMemory(func(ctx context.Context) io.Reader { return wiretest.Hanging(ctx, body) })
				began := time.Now()
				_, resp, err := wiretest.Collect(t.Context(), m, wiretest.Ask("hi"))
				if err != nil || resp.Text() != "Hello" {
					t.Errorf("got %+v, %v", resp, err)
				}
				if d := time.Since(began); d > 10*time.Second {
					t.Errorf("the answer came after %v", d)
				}
			})
		})
	}
}

func TestASlowSinkAfterTheFinishReasonLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		piece := func(text string) io.Reader {
			return strings.NewReader(events(chunk(`{"text":"`+text+`"}`, stop, used)))
		}
		m := inMemory(func(ctx context.Context) io.Reader {
			return io.MultiReader(piece("Hel"), alive{ctx, piece("lo")}, alive{ctx, piece("!")}, wiretest.Hanging(ctx, ""))
		})
		req := wiretest.Ask("hi")
		req.Sink = func(llm.Delta) error { // as slow as a reader that thinks
			<-time.NewTimer(time.Hour).C
			return nil
		}
		resp, err := m.Call(t.Context(), req)
		if err != nil || resp.Text() != "Hello!" {
			t.Errorf("got %+v, %v", resp, err)
		}
	})
}

// alive reads only while its request lives.
type alive struct {
	ctx context.Context //nolint:containedctx // the request's, as the transport sees it
	io.Reader
}

func (a alive) Read(p []byte) (int, error) {
	if err := a.ctx.Err(); err != nil {
		return 0, err
	}
	return a.Reader.Read(p)
}

func TestAListOfChunksIsHeldToTheRulesOfStreams(t *testing.T) {
	for _, c := range []struct{ name, body, says string }{
		{"without a finish reason", "[" + piece("Hel") + "]", "without a finish reason"},
		{"with an error after text", "[" + piece("Hel") + `,{"error":{"code":503,"message":"overloaded"}}]`, "overloaded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, resp, err := wiretest.Collect(t.Context(), serve(t, wiretest.Says(200, wiretest.JSON, c.body)), wiretest.Ask("hi"))
			e := wiretest.Failure(t, resp, err)
			if e.Class != llm.Interrupted || !strings.Contains(e.Error(), c.says) || e.Partial.Text() != "Hel" || e.Commit != llm.Committed {
				t.Errorf("got %v, Partial %+v, commit %v", e, e.Partial, e.Commit)
			}
			if strings.Contains(e.Evidence.Body, "Hel") {
				t.Errorf("the evidence is not the error alone: %s", e.Evidence.Body)
			}
		})
	}
}

func TestDeepNestingTakesNoDeepStack(t *testing.T) {
	m := inMemory(func(context.Context) io.Reader {
		return strings.NewReader(events(strings.Repeat("[", 4000000)))
	})
	_, resp, err := wiretest.Collect(t.Context(), m, wiretest.Ask("hi"))
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	if e := wiretest.Failure(t, resp, err); e.Class != llm.BadOutput || !strings.Contains(e.Error(), "damaged") {
		t.Errorf("got %v", e)
	}
	if mem.StackInuse > 64<<20 {
		t.Errorf("%d MiB of stack", mem.StackInuse>>20)
	}
}
