package openai_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

// Pieces that streams of responses are made of.
var (
	created    = event("response.created", `"response":`+wholeResponse("in_progress", llm.Usage{})) + event("response.in_progress", `"response":`+wholeResponse("in_progress", llm.Usage{}))
	added      = event("response.output_item.added", `"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}`)
	hel        = textDelta("Hel")
	lo         = textDelta("lo")
	helloDone  = event("response.output_item.done", `"output_index":0,"item":`+messageItem("Hello"))
	helloEnd   = event("response.completed", `"response":`+wholeResponse("completed", llm.Usage{Input: 4, Output: 2}, messageItem("Hello")))
	helloWhole = created + added + hel + lo + helloDone + helloEnd
)

func textDelta(s string) string {
	return event("response.output_text.delta", `"item_id":"msg_1","output_index":0,"content_index":0,"logprobs":[],"delta":`+wiretest.Quote(s))
}

// Failures by their code: one in a stream is what it is in place of an answer.
var failureCodes = []struct {
	code, kind, message string
	status              int // of the same failure in place of an answer
	class               llm.Class
	wait                time.Duration
	commit              llm.CommitState
}{
	{"rate_limit_exceeded", "tokens", "Rate limit reached for gpt-5 in organization org-EXAMPLE on tokens per min (TPM): Limit 30000, Used 29937, Requested 385. " +
		"Please try again in 644ms.", 429, llm.RateLimited, 644 * time.Millisecond, llm.CommitNone},
	{"rate_limit_exceeded", "tokens", "Rate limit reached for requests. Please try again in 20s.", 429, llm.RateLimited, 20 * time.Second, llm.CommitNone},
	{"rate_limit_exceeded", "tokens", "Request too large for gpt-4o-mini in organization org-EXAMPLE on tokens per min (TPM): Limit 30000, Requested 35364. " +
		"The input or output tokens must be reduced in order to run successfully.", 429, llm.TooLong, 0, llm.CommitNone},
	{"insufficient_quota", "insufficient_quota", "You exceeded your current quota, please check your plan and billing details.", 429, llm.Quota, 0, llm.CommitNone},
	{"context_length_exceeded", "invalid_request_error", "Your input exceeds the context window of this model. Please adjust your input and try again.",
		400, llm.TooLong, 0, llm.CommitNone},
	{"invalid_prompt", "invalid_request_error", "Invalid prompt: your prompt was flagged as potentially violating our usage policy.", 400, llm.Refused, 0, llm.CommitNone},
	{"content_policy_violation", "invalid_request_error", "Your request was rejected as a result of our safety system.", 400, llm.Refused, 0, llm.CommitNone},
	{"image_content_policy_violation", "invalid_request_error", "The image was refused by our content policy.", 400, llm.Refused, 0, llm.CommitNone},
	{"server_is_overloaded", "service_unavailable_error", "Our servers are currently overloaded. Please try again later.", 503, llm.Overloaded, 0, llm.CommitNone},
	{"server_error", "server_error", "The server had an error while processing your request. Sorry about that!", 500, llm.Unavailable, 0, llm.CommitUnknown},
	{"model_not_found", "invalid_request_error", "The model 'gpt-9' does not exist or you do not have access to it.", 400, llm.NotFound, 0, llm.CommitNone},
	{"invalid_image_url", "invalid_request_error", "The image URL is not valid.", 400, llm.Invalid, 0, llm.CommitNone},
	{"failed_to_download_image", "invalid_request_error", "Failed to download image from https://example.com/a.png.", 400, llm.Invalid, 0, llm.CommitNone},
	{"vector_store_timeout", "server_error", "The vector store timed out.", 500, llm.Timeout, 0, llm.CommitUnknown},
}

func TestAFailureInAStreamIsThatOfItsCode(t *testing.T) {
	for _, tt := range failureCodes {
		fields := fmt.Sprintf(`"code":%q,"message":%s`, tt.code, wiretest.Quote(tt.message))
		object := fmt.Sprintf(`{"type":%q,"param":null,%s}`, tt.kind, fields)
		response := strings.Replace(wholeResponse("failed", llm.Usage{}), `"error":null`, `"error":{`+fields+`}`, 1)
		says := func(status int, kind, body string) wiretest.Fixture {
			return wiretest.Fixture{Status: status, Header: http.Header{"Content-Type": {kind}}, Body: body}
		}
		forms := []struct {
			name  string
			f     wiretest.Fixture
			phase llm.Phase
		}{
			{"in place of an answer", says(tt.status, wiretest.JSON, `{"error":`+object+`}`), llm.PhaseHeaders},
			{"an error event", says(200, wiretest.SSE, created+event("error", fields+`,"param":null`)), llm.PhaseStream},
			{"an error event around an error", says(200, wiretest.SSE, created+event("error", `"error":`+object)), llm.PhaseStream},
			{"an error event, then the failed response", says(200, wiretest.SSE, created+added+event("error", fields)+event("response.failed", `"response":`+response)), llm.PhaseStream},
			{"a failed response in a stream", says(200, wiretest.SSE, created+added+event("response.failed", `"response":`+response)), llm.PhaseStream},
			{"a failed response alone", says(200, wiretest.SSE, event("response.failed", `"response":`+response)), llm.PhaseStream},
			{"a failed response in one piece", says(200, wiretest.JSON, response), llm.PhaseBody},
		}
		for _, form := range forms {
			t.Run(tt.code+"/"+form.name, func(t *testing.T) {
				form.f.Header.Set("X-Request-Id", "req_made_up")
				deltas, resp, err := wiretest.Collect(t.Context(), serveResponses(t, form.f, openai.Config{}), wiretest.Ask("hi"))
				e := wiretest.Failure(t, resp, err)
				if e.Class != tt.class || e.RetryAfter != tt.wait || e.Commit != tt.commit {
					t.Errorf("class %v by %q, wait %v, commit %v; want %v, %v, %v", e.Class, e.Rule, e.RetryAfter, e.Commit, tt.class, tt.wait, tt.commit)
				}
				if ev := e.Evidence; ev.Code != tt.code || ev.Message != tt.message || ev.Phase != form.phase || ev.Status != form.f.Status {
					t.Errorf("code %q, message %q, phase %v, status %d", ev.Code, ev.Message, ev.Phase, ev.Status)
				}
				if e.RequestID != "req_made_up" || e.Provider != "openai" || e.Model != "gpt-4o" || e.Partial != nil || len(deltas) > 0 {
					t.Errorf("request id %q, provider %q, model %q, partial %+v, deltas %+v", e.RequestID, e.Provider, e.Model, e.Partial, deltas)
				}
				if strings.Contains(e.Evidence.Body, "Be brief.") {
					t.Errorf("the request's own words are in the evidence: %s", e.Evidence.Body)
				}
			})
		}
		t.Run(tt.code+"/after text", func(t *testing.T) {
			body := created + added + hel + event("error", fields) + event("response.failed", `"response":`+response)
			_, resp, err := wiretest.Collect(t.Context(), serveResponses(t, wiretest.Says(200, wiretest.SSE, body), openai.Config{}), wiretest.Ask("hi"))
			e := wiretest.Failure(t, resp, err)
			want := llm.Interrupted
			if tt.class == llm.Refused {
				want = llm.Refused // no stage may answer it by asking again
			}
			if e.Class != want || e.Partial.Text() != "Hel" || e.Commit != llm.Committed || !e.Usage.Estimated {
				t.Errorf("got %v, partial %+v, commit %v, usage %+v", e, e.Partial, e.Commit, e.Usage)
			}
			if cause, ok := errors.AsType[*llm.Error](e.Err); want == llm.Interrupted && (!ok || cause.Class != tt.class) {
				t.Errorf("the cause is %v, want %v", e.Err, tt.class)
			}
		})
	}
}

func TestResponsesFailuresCarryEvidence(t *testing.T) {
	tests := []struct {
		name, provider string
		class          llm.Class
	}{
		{"rate_limit", "", llm.RateLimited}, {"quota", "", llm.Quota}, {"context_length", "", llm.TooLong}, {"key", "", llm.Auth}, {"server_error", "", llm.Unavailable},
		{"azure_filter", "azure", llm.Refused}, {"html_502", "", llm.Unavailable}, {"html_200", "", llm.BadOutput}, {"empty_200", "", llm.BadOutput},
		{"cut_json_200", "", llm.BadOutput}, {"no_choices_200", "", llm.BadOutput}, {"error_in_200", "openrouter", llm.RateLimited}, {"redirect", "", llm.NotFound},
	}
	for _, tt := range tests {
		for _, streamed := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, streamed), func(t *testing.T) {
				f := wiretest.Load(t, "testdata/"+"failures/"+tt.name+".http")
				var calls atomic.Int32
				m := serveResponses(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					calls.Add(1)
					f.ServeHTTP(w, r)
				}), openai.Config{Provider: tt.provider})
				req := wiretest.Ask("hi")
				if streamed {
					req.Sink = func(d llm.Delta) error { t.Errorf("a delta came: %+v", d); return nil }
				}
				resp, err := m.Call(t.Context(), req)
				e := wiretest.Failure(t, resp, err)
				if e.Class != tt.class || e.Evidence.Body != f.Body || e.Evidence.Status != f.Status || e.RequestID != f.Header.Get("X-Request-Id") {
					t.Errorf("%v by %q, status %d, body %q, request id %q", e, e.Rule, e.Evidence.Status, e.Evidence.Body, e.RequestID)
				}
				if n := calls.Load(); n != 1 {
					t.Errorf("%d requests for one call, want 1", n)
				}
			})
		}
	}
}

func TestPhaseAndCommitOfBrokenResponses(t *testing.T) {
	abort := func(kind, after string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if after != "" {
				w.Header().Set("Content-Type", kind)
				_, _ = io.WriteString(w, after)
				_ = http.NewResponseController(w).Flush()
			}
			panic(http.ErrAbortHandler)
		}
	}
	tests := []struct {
		name   string
		h      http.Handler
		class  llm.Class
		phase  llm.Phase
		commit llm.CommitState
	}{
		{"reset before headers", abort("", ""), llm.Unavailable, llm.PhaseSend, llm.CommitUnknown},
		{"cut within an answer", abort(wiretest.JSON, `{"object":"response","outp`), llm.Interrupted, llm.PhaseBody, llm.CommitUnknown},
		{"cut before the first event", abort(wiretest.SSE, ": hi\n\n"), llm.Interrupted, llm.PhaseStream, llm.CommitUnknown},
		{"cut before the first piece", abort(wiretest.SSE, created+added), llm.Interrupted, llm.PhaseStream, llm.CommitUnknown},
		{"cut within the answer", abort(wiretest.SSE, created+added+hel), llm.Interrupted, llm.PhaseStream, llm.Committed},
		{"cut before the end", abort(wiretest.SSE, created+added+hel+lo+helloDone), llm.Interrupted, llm.PhaseStream, llm.Committed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, resp, err := wiretest.Collect(t.Context(), serveResponses(t, tt.h, openai.Config{}), wiretest.Ask("hi"))
			e := wiretest.Failure(t, resp, err)
			if e.Class != tt.class || e.Evidence.Phase != tt.phase || e.Commit != tt.commit || (e.Partial != nil) != (tt.commit == llm.Committed) {
				t.Errorf("%v: class %v, phase %v, commit %v, partial %+v; want %v, %v, %v", e, e.Class, e.Evidence.Phase, e.Commit, e.Partial,
					tt.class, tt.phase, tt.commit)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		srv := httptest.NewServer(http.NotFoundHandler())
		m := openai.NewResponses(openai.Config{BaseURL: srv.URL, Model: "m"})
		srv.Close()
		resp, err := m.Call(t.Context(), wiretest.Ask("hi"))
		if e := wiretest.Failure(t, resp, err); e.Class != llm.Unavailable || e.Evidence.Phase != llm.PhaseConnect || e.Commit != llm.CommitNone {
			t.Errorf("%v: class %v, phase %v, commit %v", e, e.Class, e.Evidence.Phase, e.Commit)
		}
	})
}

func TestNoErrorOfResponsesCarriesAKey(t *testing.T) {
	const key, other = "pb_plain-looking", "other-secret-value"
	leak := `"code":"` + key + `","message":"bad key ` + key + ` and ` + other + `","param":"` + key + `"`
	cfg := openai.Config{APIKey: key, Header: http.Header{"X-Gateway-Token": {other}}}
	for name, body := range map[string]string{
		"an error event":    created + event("error", leak),
		"a failed response": created + event("response.failed", `"response":{"object":"response","status":"failed","error":{`+leak+`}}`),
		"a partial answer":  created + hel + event("error", leak),
		"a torn answer":     created + textDelta(key) + helloEnd,
	} {
		t.Run(name, func(t *testing.T) {
			_, resp, err := wiretest.Collect(t.Context(), serveResponses(t, wiretest.Says(200, wiretest.SSE, body), cfg), wiretest.Ask("hi"))
			wiretest.HasNoKey(t, wiretest.Failure(t, resp, err), key, other)
		})
	}
}

// A response repeats what it was asked, which is no evidence of what went wrong with it.
func TestNoErrorOfAResponseQuotesItsRequest(t *testing.T) {
	const asked = `"instructions":"the secret plan","input":"the secret plan","tools":[{"name":"the secret plan"}],"metadata":{"a":"the secret plan"}`
	const call = `{"type":"function_call","call_id":"a","name":"f","arguments":"{"}`
	for name, body := range map[string]string{
		"cut arguments":        `{"object":"response","status":"completed",` + asked + `,"output":[` + call + `]}`,
		"an item that is none": `{"object":"response","status":"completed",` + asked + `,"output":["?"]}`,
		"no output":            `{"object":"response","status":"completed",` + asked + `}`,
		"a failure":            `{"object":"response","status":"failed",` + asked + `,"error":{"code":"server_error","message":"no"},"output":[]}`,
		"damaged":              event("response.completed", `"response":{"object":"response",`+asked+`,"output":[`),
		"lost":                 event("response.completed", `"response":{"object":"response",`+asked+`,"output":["?"]}`),
		"failed":               event("response.failed", `"response":{"object":"response",`+asked+`,"error":{"code":"server_error","message":"no"}}`),
		"in the background":    event("response.queued", `"response":{"object":"response","status":"queued",`+asked+`}`),
	} {
		kind, req := wiretest.JSON, wiretest.Ask("hi")
		if strings.Contains(body, "data: ") {
			kind, req = wiretest.SSE, wiretest.Streamed(&llm.Accumulator{})
		}
		resp, err := serveResponses(t, wiretest.Says(200, kind, body), openai.Config{}).Call(t.Context(), req)
		e := wiretest.Failure(t, resp, err)
		if text := e.Error() + e.Evidence.Body + e.Evidence.Message; strings.Contains(text, "secret plan") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
