package openai_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

// Pieces that streams are made of.
const (
	role   = `data: {"id":"s1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	first  = `data: {"id":"s1","model":"m","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}` + "\n\n"
	second = `data: {"id":"s1","model":"m","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}` + "\n\n"
	end    = `data: {"id":"s1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usage  = `data: {"id":"s1","choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2}}` + "\n\n"
	done   = "data: [DONE]\n\n"
)

func TestStreamsThatAreWhole(t *testing.T) {
	tests := []struct{ name, body string }{
		{"in good order", role + first + second + end + usage + done},
		{"without DONE", first + second + end + usage},
		{"usage with the finish reason", first + second + strings.Replace(end, `}]}`, `}],"usage":{"prompt_tokens":4,"completion_tokens":2}}`, 1)},
		{"usage before the finish reason, and none later", first + usage + second + end + done},
		{"usage with each chunk, the last one counts", strings.Replace(usage, "2}", "1}", 1) + first + second + end + usage + done},
		{"an empty usage later does not undo it", first + second + end + usage +
			`data: {"choices":[],"usage":{}}` + "\n\n" + done},
		{"comments in between", ": hi\n\n" + first + ": still here\n\n: still here\n\n" + second + end + ":\n" + usage + done},
		{"an error that is null", `data: {"error":null,"id":"s1","model":"m","choices":[{"delta":{"content":"Hel"}}]}` + "\n\n" + second + end + usage + done},
		{"an error that is empty", `data: {"error":{},"choices":[{"delta":{"content":"Hel"}}]}` + "\n\n" + second + end + usage + done},
		{"an event of another kind", `data: {"type":"ping"}` + "\n\n" + first + "event: ping\ndata: {}\n\n" + second + end + usage + done},
		{"comments sent as data", "data: : keepalive\n\n" + first + "data: : OPENROUTER PROCESSING\n\n" + second + end + usage + done},
		{"data that holds nothing", "data:\n\n" + first + "data: \"\"\n\ndata: null\n\ndata: []\n\n" + second + "event: ping\ndata: 17:05\n\n" + end + usage + done},
		{"noise after the end", first + second + end + usage + "data: {what\n\n"},
		{"damage after the end", first + second + end + usage + `data: {"choices":[{"del` + "\n\n"},
		{"an error after the end", first + second + end + usage + `data: {"error":{"message":"late"}}` + "\n\n"},
		{"no final line feed", first + second + usage + strings.TrimSpace(end)},
		{"a chunk in several data lines", `data: {"choices":` + "\n" + `data: [{"delta":{"content":"Hel"}}]}` + "\n\n" + second + end + usage + done},
		{"chunks without blank lines", strings.ReplaceAll(first+second+end+usage+done, "\n\n", "\n")},
		{"an error after the end without blank lines", strings.ReplaceAll(first+second+usage+end+`data: {"error":{"message":"late"}}`+"\n\n", "\n\n", "\n")},
		{"JSON lines without framing", strings.ReplaceAll(strings.ReplaceAll(first+second+end+usage, "data: ", ""), "\n\n", "\n")},
		{"blanks in the JSON", `data: { "choices" : [ { "delta" : { "content" : "Hel" } , "index" : 0 } ] } ` + "\n\n" + second + end + usage + done},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			deltas, resp, err := wiretest.Collect(t.Context(), serve(t, wiretest.Says(200, wiretest.SSE, tt.body), openai.Config{}), wiretest.Ask("hi"))
			if err != nil {
				t.Fatal(err)
			}
			if resp.Text() != "Hello" || resp.Stop != llm.StopEnd || resp.Usage != (llm.Usage{Input: 4, Output: 2}) || len(deltas) != 2 {
				t.Errorf("got %q, stop %q, usage %+v, deltas %+v", resp.Text(), resp.Stop, resp.Usage, deltas)
			}
		})
	}
}

func TestStreamsThatFail(t *testing.T) {
	chunkError := `data: {"error":{"message":"Overloaded, try later","type":"server_error","code":503}}` + "\n\n"
	tests := []struct {
		name, body string
		class      llm.Class
		text       string // what was delivered before
		says       string
	}{
		{"cut after text", first + second, llm.Interrupted, "Hello", "without a finish reason"},
		{"DONE alone proves nothing", first + second + done, llm.Interrupted, "Hello", "without a finish reason"},
		{"cut after the role", role, llm.Interrupted, "", "without a finish reason"},
		{"cut within an event", first + `data: {"choices":[{"delta":{"con`, llm.Interrupted, "Hel", "without a finish reason"},
		{"cut within the first event", `data: {"choices":[{"delta":{"con`, llm.Unavailable, "", "before an answer"},
		{"cut within an error", `data: {"error":{"code":429,"message":"Rate limit`, llm.RateLimited, "", "Rate limit"},
		{"cut within an error without framing", `{"error":{"code":429,"message":"Rate limit`, llm.RateLimited, "", "Rate limit"},
		{"empty", "", llm.Unavailable, "", "before an answer"},
		{"comments alone", ": hi\n\n: hi\n\n", llm.Unavailable, "", "before an answer"},
		{"DONE without anything", done, llm.Unavailable, "", "before an answer"},
		{"an error first", chunkError + done, llm.Overloaded, "", "Overloaded"},
		{"an error after comments", ": hi\n\n" + chunkError, llm.Overloaded, "", "Overloaded"},
		{"an error after the role", role + chunkError, llm.Overloaded, "", "Overloaded"},
		{"an error in the middle", first + chunkError + done, llm.Interrupted, "Hel", "Overloaded"},
		{"an error by its event", "event: error\ndata: {\"message\":\"model is gone\"}\n\n", llm.Unavailable, "", "model is gone"},
		{"an error by its event, in words", "event: error\ndata: model is gone\n\n", llm.Unavailable, "", "model is gone"},
		{"an error with a blank after the brace", `data: { "error":{"message":"rate limit","type":"rate_limit_error","code":429}}` + "\n\n", llm.RateLimited, "", "rate limit"},
		{"an error without a line feed", `data: {"error":{"message":"quota is gone","code":"insufficient_quota"}}`, llm.Quota, "", "quota is gone"},
		{"an error without framing", `{"error":{"message":"The model is not there","code":"model_not_found"}}`, llm.NotFound, "", "not there"},
		{"an error on several lines without framing", "{\n \"error\": {\n  \"message\": \"no key\",\n  \"code\": \"invalid_api_key\"\n }\n}\n", llm.Auth, "", "no key"},
		{"an error that is a text", `data: {"error":"something broke"}` + "\n\n", llm.Unavailable, "", "something broke"},
		{"a flat error", `data: {"object":"error","message":"prompt is longer than the maximum context length","type":"BadRequestError","code":400}` + "\n\n", llm.TooLong, "", "maximum context length"},
		{"a flat error without a mark", `data: {"message":"upstream broke","status":502}` + "\n\n", llm.Unavailable, "", "upstream broke"},
		{"a gateway's error", `data: {"type":"error","value":{"error_message":"{\"error\":{\"message\":\"No.\",\"code\":\"insufficient_quota\"}}"}}` + "\n\n", llm.Quota, "", "No."},
		{"an error beside choices", `data: {"id":"g","choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"code":429,"message":"rate limit exceeded"}}` + "\n\n", llm.RateLimited, "", "rate limit"},
		{"an error within a choice", `data: {"choices":[{"delta":{},"error":{"code":502,"message":"upstream broke"}}]}` + "\n\n", llm.Unavailable, "", "upstream broke"},
		{"the finish reason error", first + `data: {"choices":[{"delta":{},"finish_reason":"error"}]}` + "\n\n" + done, llm.Interrupted, "Hel", "finish reason error"},
		{"the finish reason of a tired server", `data: {"choices":[{"delta":{},"finish_reason":"insufficient_system_resource"}]}` + "\n\n", llm.Unavailable, "", "insufficient_system_resource"},
		{"a refused key in the stream of Groq", `data: {"id":"x","x_groq":{"error":"over capacity"},"choices":[]}` + "\n\n", llm.Overloaded, "", "over capacity"},
		{"a damaged chunk", first + `data: {"choices":[{"delta":{"content":"l` + "\n\n" + end + done, llm.Interrupted, "Hel", "damaged"},
		{"a damaged chunk first", `data: {"choices":[{"delta":{"content":"l` + "\n\n" + second + end + done, llm.BadOutput, "", "damaged"},
		{"a rune cut in two", first + "data: {\"choices\":[{\"delta\":{\"content\":\"caf\xc3\"}}]}\n\n" + end, llm.Interrupted, "Hel", "damaged"},
		{"noise alone", "data: {unparsable}\n\n", llm.BadOutput, "", "damaged"},
		{"noise", first + "data: {what is this}\n\n" + second + end + done, llm.Interrupted, "Hel", "damaged"},
		{"a bare word", first + "data: ping\n\n" + second + end + done, llm.Interrupted, "Hel", "damaged"},
		{"a damaged chunk with an empty error", first + `data: {"error":{},"choices":[{"delta":{"content":"l` + "\n\n" + end + done, llm.Interrupted, "Hel", "damaged"},
		{"a damaged error", first + `data: {"error":{"message":"rate limit", "code":429]}` + "\n\n" + end, llm.Interrupted, "Hel", "rate limit"},
		{"a page", "<html><body>Bad gateway</body></html>", llm.BadOutput, "", ""},
		{"a tool call that is not whole", `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\":"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n", llm.BadOutput, "", "not complete JSON"},
		{"a tool call cut by the token limit", `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\":"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{},"finish_reason":"length"}]}` + "\n\n", llm.BadOutput, "", "not complete JSON"},
		{"no room for an answer", `data: {"choices":[{"delta":{"role":"assistant"},"finish_reason":"length"}],"usage":{"prompt_tokens":8192,"completion_tokens":0}}` + "\n\n", llm.TooLong, "", "no room"},
		{"an event above the bound", "data: " + strings.Repeat("x", 5<<20) + "\n\n", llm.BadOutput, "", "too large"},
		{"an event above the bound after text", first + "data: " + strings.Repeat("x", 5<<20) + "\n\n", llm.Interrupted, "Hel", "too large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			deltas, resp, err := wiretest.Collect(t.Context(), serve(t, wiretest.Says(200, wiretest.SSE, tt.body), openai.Config{}), wiretest.Ask("hi"))
			e := wiretest.Failure(t, resp, err)
			if e.Class != tt.class || !strings.Contains(e.Error(), tt.says) {
				t.Errorf("got %v by rule %q; want %v with %q", e, e.Rule, tt.class, tt.says)
			}
			if e.Evidence.Status != 200 || e.Evidence.Phase != llm.PhaseStream {
				t.Errorf("status %d, phase %v", e.Evidence.Status, e.Evidence.Phase)
			}
			text := ""
			for _, d := range deltas {
				text += d.Text
			}
			if text != tt.text || e.Partial.Text() != tt.text {
				t.Errorf("delivered %q, Partial %q; want %q", text, e.Partial.Text(), tt.text)
			}
			if partial := tt.text != ""; partial && (!e.Evidence.Partial || !e.Usage.Estimated || e.Usage.Output == 0 || e.Commit != llm.Committed) {
				t.Errorf("evidence partial %v, usage %+v, commit %v", e.Evidence.Partial, e.Usage, e.Commit)
			}
			for _, c := range e.Partial.ToolCalls() {
				t.Errorf("an incomplete tool call was delivered as complete: %+v", c)
			}
			if len(e.Evidence.Body) > 64<<10 {
				t.Errorf("the evidence holds %d bytes", len(e.Evidence.Body))
			}
		})
	}
}

func TestAConnectionHeldOpenAfterTheEndDoesNotHoldTheAnswer(t *testing.T) {
	for name, body := range map[string]string{
		"finish reason alone":                       first + second + end,
		"finish reason and usage":                   first + second + end + usage,
		"finish reason, usage and DONE":             first + second + end + usage + done,
		"finish reason and DONE":                    first + second + end + done,
		"finish reason, usage and half of an event": first + second + end + usage + `data: {"choi`,
	} {
		t.Run(name, func(t *testing.T) {
			s := wiretest.Stall(200, wiretest.SSE, body)
			_, resp, err := wiretest.Collect(t.Context(), serve(t, s, openai.Config{}), wiretest.Ask("hi"))
			if err != nil {
				t.Fatal(err)
			}
			told := strings.Contains(body, "prompt_tokens")
			if resp.Text() != "Hello" || resp.Usage.Estimated == told || resp.Usage.Output == 0 {
				t.Errorf("got %q, usage %+v", resp.Text(), resp.Usage)
			}
			<-s.Closed
		})
	}
}

func TestAFailureThatHoldsItsConnectionOpenIsReported(t *testing.T) {
	for name, body := range map[string]string{
		"an error event": `data: {"error":{"message":"no","code":"insufficient_quota"}}` + "\n\n",
		"DONE":           first + done,
		"a damaged one":  `data: {"choices":` + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := wiretest.Stall(200, wiretest.SSE, body)
			_, resp, err := wiretest.Collect(t.Context(), serve(t, s, openai.Config{}), wiretest.Ask("hi"))
			if e := wiretest.Failure(t, resp, err); e.Class == llm.Canceled {
				t.Errorf("got %v", e)
			}
			<-s.Closed
		})
	}
}

func TestASinkThatFailsEndsTheCall(t *testing.T) {
	full := errors.New("the disk is full")
	for name, body := range map[string]string{"streamed": first + second, "after the finish reason": first + end + second} {
		t.Run(name, func(t *testing.T) {
			s := wiretest.Stall(200, wiretest.SSE, body)
			m := serve(t, s, openai.Config{})
			req := wiretest.Ask("hi")
			n, bad := 0, strings.Count(body, "content")
			req.Sink = func(llm.Delta) error {
				if n++; n == bad {
					return full
				}
				return nil
			}
			resp, err := m.Call(t.Context(), req)
			e := wiretest.Failure(t, resp, err)
			if !errors.Is(err, full) || e.Class != llm.Canceled || n != bad {
				t.Errorf("got %v after %d deltas", err, n)
			}
			if e.Partial == nil || !e.Usage.Estimated {
				t.Errorf("Partial %+v, usage %+v", e.Partial, e.Usage)
			}
			<-s.Closed
		})
	}
}

// noticing tells when a text passes through a body.
type noticing struct {
	io.ReadCloser
	text   string
	passed chan<- struct{}
}

func (n noticing) Read(p []byte) (int, error) {
	read, err := n.ReadCloser.Read(p)
	if strings.Contains(string(p[:read]), n.text) {
		n.passed <- struct{}{}
	}
	return read, err
}

func TestConnectionsAreUsedAgainAfterAStream(t *testing.T) {
	addrs, passed := map[string]bool{}, make(chan struct{}, 1)
	m := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addrs[r.RemoteAddr] = true
		wiretest.Says(200, wiretest.SSE, first+second+end+usage+done).ServeHTTP(w, r)
		_ = http.NewResponseController(w).Flush()
		<-passed // the end of the body comes only after DONE was read
	}), openai.Config{HTTPClient: &http.Client{Transport: wiretest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			resp.Body = noticing{resp.Body, "[DONE]", passed}
		}
		return resp, err
	})}})
	for range 5 {
		if _, _, err := wiretest.Collect(t.Context(), m, wiretest.Ask("hi")); err != nil {
			t.Fatal(err)
		}
	}
	if len(addrs) == 5 { // a machine under load may miss one
		t.Error("no connection was used again")
	}
}

func TestStreamsOverHTTP2(t *testing.T) {
	tests := []struct {
		name, body string
		abort      bool
		class      llm.Class
	}{
		{"whole", first + second + end + usage + done, false, 0},
		{"reset after text", first, true, llm.Interrupted},
		{"reset before text", role, true, llm.Interrupted},
		{"reset within the first event", first[:40], true, llm.Interrupted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 {
					t.Errorf("came over %s", r.Proto)
				}
				wiretest.Says(200, wiretest.SSE, tt.body).ServeHTTP(w, r)
				if tt.abort {
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
			}))
			srv.EnableHTTP2 = true
			srv.StartTLS()
			defer srv.Close()
			m := openai.New(openai.Config{BaseURL: srv.URL, Model: "m", HTTPClient: srv.Client()})
			_, resp, err := wiretest.Collect(t.Context(), m, wiretest.Ask("hi"))
			if tt.class == 0 {
				if err != nil || resp.Text() != "Hello" {
					t.Errorf("got %+v, %v", resp, err)
				}
				return
			}
			if e := wiretest.Failure(t, resp, err); e.Class != tt.class || e.Evidence.Phase != llm.PhaseStream {
				t.Errorf("got %v, phase %v", e, e.Evidence.Phase)
			}
		})
	}
}

func TestADeltaCostsFewAllocations(t *testing.T) {
	cost := func(n int) float64 {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "data: {\"id\":\"s1\",\"model\":\"m\",\"service_tier\":\"default\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"w%d\"}}]}\n\n", i)
		}
		m := serve(t, wiretest.Says(200, wiretest.SSE, b.String()+end+usage+done), openai.Config{})
		req := wiretest.Ask("hi")
		req.Sink = func(llm.Delta) error { return nil }
		return testing.AllocsPerRun(5, func() {
			if _, err := m.Call(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		})
	}
	if each := (cost(1500) - cost(500)) / 1000; each > 2 {
		t.Errorf("%.1f allocations a delta, server included, want at most 2", each)
	}
}

// failsInStream checks that a stream fails after text was delivered.
func failsInStream(t *testing.T, c llm.Caller, class llm.Class, text, says string) *llm.Error {
	t.Helper()
	deltas, resp, err := wiretest.Collect(t.Context(), c, wiretest.Ask("hi"))
	e := wiretest.Failure(t, resp, err)
	if e.Class != class || !strings.Contains(e.Error(), says) {
		t.Errorf("got %v by rule %q; want %v with %q", e, e.Rule, class, says)
	}
	if e.Evidence.Status != 200 || e.Evidence.Phase != llm.PhaseStream {
		t.Errorf("status %d, phase %v", e.Evidence.Status, e.Evidence.Phase)
	}
	got := ""
	for _, d := range deltas {
		got += d.Text
	}
	if got != text || e.Partial.Text() != text {
		t.Errorf("delivered %q, Partial %q; want %q", got, e.Partial.Text(), text)
	}
	if partial := text != ""; partial && (!e.Evidence.Partial || e.Usage.Output == 0 || e.Commit != llm.Committed) {
		t.Errorf("evidence partial %v, usage %+v, commit %v", e.Evidence.Partial, e.Usage, e.Commit)
	}
	for _, c := range e.Partial.ToolCalls() {
		t.Errorf("an incomplete tool call was delivered as complete: %+v", c)
	}
	if len(e.Evidence.Body) > 64<<10 {
		t.Errorf("the evidence holds %d bytes", len(e.Evidence.Body))
	}
	return e
}

// endlessEvent is the error of a call whose server writes one line without an end, and how much it could write of it.
func endlessEvent(t *testing.T, from func(http.Handler) llm.Caller) (e *llm.Error, sent int) {
	t.Helper()
	written := make(chan int)
	c := from(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", wiretest.SSE)
		n, piece := 0, []byte(strings.Repeat("x", 1<<20))
		_, _ = io.WriteString(w, "data: ")
		for n < 1<<30 {
			if _, err := w.Write(piece); err != nil {
				break
			}
			n += len(piece)
		}
		written <- n
	}))
	_, resp, err := wiretest.Collect(t.Context(), c, wiretest.Ask("hi"))
	return wiretest.Failure(t, resp, err), <-written
}
