package llmtest_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

// paths are a request of each API, whole and streamed.
var paths = []struct{ api, path, body string }{
	{"chat", "/v1/chat/completions", `{"model":"m"}`}, {"chat", "/v1/chat/completions", `{"model":"m","stream":true}`},
	{"chat", "/openai/deployments/m/chat/completions?api-version=2024-10-21", `{}`},
	{"responses", "/v1/responses", `{"model":"m"}`}, {"responses", "/v1/responses", `{"model":"m","stream":true}`},
	{"anthropic", "/v1/messages", `{"model":"m"}`}, {"anthropic", "/v1/messages", `{"model":"m","stream":true}`},
	{"gemini", "/v1beta/models/m:generateContent", `{}`}, {"gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", `{}`},
	{"gemini", "/v1/projects/p/locations/l/publishers/google/models/m:generateContent", `{}`},
	{"gemini", "/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent?alt=sse", `{}`},
	{"bedrock", "/model/m/converse", `{}`}, {"bedrock", "/model/m/converse-stream", `{}`},
}

func TestEveryPathIsRead(t *testing.T) {
	p := llmtest.NewProvider(t, llmtest.ProviderConfig{})
	for i, c := range paths {
		resp, body := posts(t, p, c.path, c.body)
		stream := strings.Contains(c.path, "stream") || strings.Contains(c.body, "stream")
		kind := "application/json"
		switch {
		case stream && c.api == "bedrock":
			kind = "application/vnd.amazon.eventstream"
		case stream:
			kind = "text/event-stream"
		}
		if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), kind) || !strings.Contains(body, `"ok"`) {
			t.Errorf("%s %s: %d, %s: %s", c.path, c.body, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
		if x := p.Exchanges()[i]; x.API != c.api || x.Model != "m" || x.Stream != stream || x.Body != c.body {
			t.Errorf("%s: the log says %+v", c.path, x)
		}
	}
	_, body := posts(t, p, "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A%3Amodel%2Fm-1/converse", `{}`)
	if x := p.Exchanges()[len(paths)]; x.Model != "arn:aws:bedrock:us-east-1::model/m-1" {
		t.Errorf("model %s: %s", x.Model, body)
	}
}

func TestWhatIsNoRequestIsToldWhy(t *testing.T) {
	p := llmtest.NewProvider(t, llmtest.ProviderConfig{})
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/v1/completions", `{}`, 404, "no API has the path /v1/completions: send …/chat/completions"},
		{"/v1/messages", `{"model":`, 400, "the body is no JSON"},
		{"/v1/chat/completions", `{}`, 400, "you must provide a model"},
	} {
		resp, body := posts(t, p, c.path, c.body)
		var told struct{ Error struct{ Message string } }
		if err := json.Unmarshal([]byte(body), &told); err != nil || resp.StatusCode != c.status || !strings.Contains(told.Error.Message, c.says) {
			t.Errorf("%s: %d, %v, %s", c.path, resp.StatusCode, err, body)
		}
	}
	if resp, err := p.Client().Get(p.URL + "/v1/responses"); err != nil || resp.StatusCode != http.StatusBadRequest || resp.Body.Close() != nil {
		t.Errorf("%v, %v", resp, err)
	}
	if got := p.Exchanges()[3]; got.Did != "misread" || got.Method != http.MethodGet || got.Status != 400 {
		t.Errorf("the log says %+v", got)
	}
}

func TestAChatTellsItsUsageWhereThatIsAskedFor(t *testing.T) {
	p := llmtest.NewProvider(t, llmtest.ProviderConfig{})
	for body, want := range map[string]bool{
		`{"model":"m","stream":true}`: false, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`: true,
	} {
		if _, got := posts(t, p, "/v1/chat/completions", body); strings.Contains(got, "prompt_tokens") != want ||
			!strings.HasSuffix(got, "data: [DONE]\n\n") {
			t.Errorf("%s: %s", body, got)
		}
	}
}

func TestGeminiStreamsAListWhereNobodyAsksForEvents(t *testing.T) {
	for _, turn := range []llmtest.Turn{{Text: "one two"}, {Do: llmtest.DoContentPolicy}} {
		p := llmtest.NewProvider(t, llmtest.Turns(turn))
		resp, body := posts(t, p, "/v1beta/models/m:streamGenerateContent", `{}`)
		var all []map[string]any
		if err := json.Unmarshal([]byte(body), &all); err != nil || len(all) == 0 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%v, %v: %s", err, resp.Header, body)
		}
	}
}

// TestFailuresCarryTheirWait: each API asks for a wait in its own place.
func TestFailuresCarryTheirWait(t *testing.T) {
	p := llmtest.NewProvider(t, llmtest.Turns(llmtest.Turn{Do: llmtest.DoRateLimited, RetryAfter: 2500 * time.Millisecond}))
	for _, c := range paths {
		resp, body := posts(t, p, c.path, c.body)
		var told bool
		switch {
		case strings.Contains(c.path, "/publishers/"):
			told = resp.Header.Get("Retry-After") == "3" && strings.Contains(body, "RESOURCE_EXHAUSTED")
		case c.api == "gemini":
			told = strings.Contains(body, `"retryDelay":"2.5s"`) && resp.Header.Get("Retry-After") == ""
		case c.api == "bedrock":
			told = resp.Header.Get("X-Amz-Retry-After") == "2500" && resp.Header.Get("X-Amzn-Errortype") == "ThrottlingException"
		case c.api == "anthropic":
			told = resp.Header.Get("Retry-After") == "3" && strings.Contains(body, "rate_limit_error")
		default:
			told = resp.Header.Get("Retry-After-Ms") == "2500" && strings.Contains(body, "try again in 2.5s")
		}
		if resp.StatusCode != http.StatusTooManyRequests || !told {
			t.Errorf("%s: %d, %v: %s", c.path, resp.StatusCode, resp.Header, body)
		}
		if list := strings.HasPrefix(body, "["); list != (strings.Contains(c.path, "/publishers/") && strings.Contains(c.path, "stream")) {
			t.Errorf("%s: %s", c.path, body)
		}
	}
}

func TestRawIsSentAsItIs(t *testing.T) {
	p := llmtest.NewProvider(t, llmtest.Turns(
		llmtest.Turn{Do: llmtest.DoRaw, Status: 418, Body: "teapot", ContentType: "text/tea", Header: map[string]string{"x-tea": "mint"}},
		llmtest.Turn{Do: llmtest.DoPage, Status: 522},
		llmtest.Turn{Do: llmtest.DoInvalid, Body: `{"error":"mine"}`},
		llmtest.Turn{NoUsage: true, Header: map[string]string{"x-request-id": "mine"}, Model: "another", Stop: llm.StopLength},
	))
	resp, body := posts(t, p, "/v1/messages", `{"model":"m"}`)
	if resp.StatusCode != http.StatusTeapot || body != "teapot" || resp.Header.Get("Content-Type") != "text/tea" || resp.Header.Get("X-Tea") != "mint" {
		t.Errorf("%d, %v, %s", resp.StatusCode, resp.Header, body)
	}
	resp, body = posts(t, p, "/v1/messages", `{"model":"m"}`)
	if resp.StatusCode != 522 || !strings.Contains(body, "522: Connection timed out") || resp.Header.Get("Server") != "cloudflare" {
		t.Errorf("%d, %v, %s", resp.StatusCode, resp.Header, body)
	}
	if resp, body = posts(t, p, "/v1/messages", `{"model":"m"}`); resp.StatusCode != http.StatusBadRequest || body != `{"error":"mine"}` {
		t.Errorf("%d, %s", resp.StatusCode, body)
	}
	got, err := asks(t, p, "m")
	if err != nil || got.Model != "another" || got.RequestID != "mine" || got.Stop != llm.StopLength || !got.Usage.Estimated {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAToolSchemaErrorNamesTheTool(t *testing.T) {
	p := llmtest.NewProvider(t, llmtest.Turns(llmtest.Turn{Do: llmtest.DoToolSchema}))
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"m","tools":[{"type":"function","function":{"name":"look"}}]}`,
		"/v1/responses":        `{"model":"m","tools":[{"type":"function","name":"look"}]}`,
	} {
		if _, got := posts(t, p, path, body); !strings.Contains(got, "function 'look'") {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestWhatCannotBeMeantIsRefused(t *testing.T) {
	for _, c := range []struct {
		route llmtest.Route
		says  string
	}{
		{llmtest.Route{API: "cohere"}, `routes[0].api: there is no API "cohere"; write one of chat`},
		{llmtest.Route{Turns: []llmtest.Turn{{}, {Do: "ratelimited"}}}, `routes[0].turns[1].do: there is no act "ratelimited"; did you mean "rate_limited"?`},
		{llmtest.Route{Turns: []llmtest.Turn{{OneOf: []llmtest.Turn{{Do: "xyzzy-plugh"}}}}}, `routes[0].turns[0].one_of[0].do: there is no act`},
		{llmtest.Route{Turns: []llmtest.Turn{{At: -1}}}, "turns[0].at: -1 is below zero"},
		{llmtest.Route{Turns: []llmtest.Turn{{Hold: -1}}}, "turns[0].hold: -1ns is below zero"},
		{llmtest.Route{Turns: []llmtest.Turn{{Status: 42}}}, "42 is no status"},
		{llmtest.Route{Turns: []llmtest.Turn{{Body: "x"}}}, `only raw and the failures take a body, and this is "answer"`},
		{llmtest.Route{Turns: []llmtest.Turn{{Error: "answer"}}}, "no failure that a stream can end in"},
		{llmtest.Route{Turns: []llmtest.Turn{{Stop: "tired"}}}, `no answer ends by "tired"`},
		{llmtest.Route{Turns: []llmtest.Turn{{Calls: []llm.ToolCall{{Arguments: json.RawMessage(`{`)}}}}}, "calls[0].arguments: the arguments are no JSON"},
		{llmtest.Route{Wait: llmtest.Latency{Min: 2, Max: 1}}, "wait.max: max is below min"},
		{llmtest.Route{Wait: llmtest.Latency{Sigma: 1}}, "wait.sigma: there is no median"},
		{llmtest.Route{Outages: []llmtest.Outage{{From: 2, To: 1}}}, "outages[0].to: the outage ends before it begins"},
		{llmtest.Route{Quota: llmtest.Quota{Per: -1}}, "quota.per"},
		{llmtest.Route{Turns: []llmtest.Turn{{}}, Func: func(llmtest.Exchange, int) llmtest.Turn { return llmtest.Turn{} }}, "Turns beside a Func"},
	} {
		cfg := llmtest.ProviderConfig{Routes: []llmtest.Route{c.route}}
		func() {
			defer func() {
				said, _ := recover().(string)
				if !strings.Contains(said, "llmtest: ProviderConfig: routes[0]") || !strings.Contains(said, c.says) {
					t.Errorf("it panics with %q, want %q", said, c.says)
				}
			}()
			llmtest.NewProvider(t, cfg)
		}()
		if p, err := llmtest.StartProvider("127.0.0.1:0", cfg); err == nil {
			p.Close()
			t.Errorf("it started, and should have said %q", c.says)
		}
	}
	first := llmtest.NewProvider(t, llmtest.ProviderConfig{})
	if p, err := llmtest.StartProvider(strings.TrimPrefix(first.URL, "http://"), llmtest.ProviderConfig{}); err == nil {
		p.Close()
		t.Error("two providers have one address")
	}
	if _, err := asks(t, first, "m"); errors.Is(err, llm.Unavailable) {
		t.Error(err)
	}
}

// TestHowConnectionsEnd looks at what a client sees beneath the wires, on sockets and in memory.
func TestHowConnectionsEnd(t *testing.T) {
	chunked := func(r *http.Response) bool { return r != nil && slices.Contains(r.TransferEncoding, "chunked") }
	whole := func(r *http.Response, err error) bool { return err == nil && chunked(r) }
	reset := func(_ *http.Response, err error) bool { return errors.Is(err, syscall.ECONNRESET) }
	for _, c := range []struct {
		act  llmtest.Act
		sees func(*http.Response, error) bool
		body string
	}{
		{llmtest.DoReset, reset, ""},
		{llmtest.DoResetHeaders, func(r *http.Response, err error) bool { return r == nil && err != nil }, ""},
		{llmtest.DoClose, func(r *http.Response, err error) bool { return r == nil && errors.Is(err, io.EOF) }, ""},
		{llmtest.DoSilence, func(r *http.Response, err error) bool { return r == nil && errors.Is(err, io.EOF) }, ""},
		{llmtest.DoResetBody, func(r *http.Response, err error) bool { return r != nil && reset(r, err) }, "two"},
		{llmtest.DoCut, func(r *http.Response, err error) bool { return err == nil && r.Close && !chunked(r) }, "two"},
		{llmtest.DoCutChunk, func(r *http.Response, err error) bool { return chunked(r) && errors.Is(err, io.ErrUnexpectedEOF) }, `" three"`},
		{llmtest.DoStall, func(r *http.Response, err error) bool { return chunked(r) && errors.Is(err, io.ErrUnexpectedEOF) }, "two"},
		{llmtest.DoNoEnd, whole, "four"},
		{llmtest.DoNoDone, whole, `"finish_reason":"stop"`},
		{llmtest.DoNoFinish, whole, "[DONE]"},
	} {
		turn := llmtest.Turn{Do: c.act, Text: "one two three four", At: 2, Hold: time.Millisecond}
		for _, p := range []*llmtest.Provider{llmtest.NewProvider(t, llmtest.Turns(turn)), llmtest.NewPipeProvider(t, llmtest.Turns(turn))} {
			resp, body, err := reads(t, p)
			if !c.sees(resp, err) || !strings.Contains(body, c.body) || c.body == "two" && strings.Contains(body, "three") {
				t.Errorf("%s at %s: %+v, %v, %s", c.act, p.URL, resp, err, body)
			}
			if ended := strings.Contains(body, "[DONE]"); ended != (c.act == llmtest.DoNoFinish) {
				t.Errorf("%s at %s: %s", c.act, p.URL, body)
			}
			p.Wait()
			if x := p.Exchanges()[0]; x.HungUp || x.Did != string(c.act) || x.Status == 0 != (resp == nil) {
				t.Errorf("%s at %s: the log says %+v", c.act, p.URL, x)
			}
		}
	}
}

// reads asks for a stream and reads it to its end, whatever that is.
func reads(t *testing.T, p *llmtest.Provider) (*http.Response, string, error) {
	t.Helper()
	body := strings.NewReader(`{"model":"m","stream":true}`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/v1/chat/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.Client().Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

func TestResponsesTellAFailureInBandTwice(t *testing.T) {
	p := llmtest.NewProvider(t, llmtest.Turns(llmtest.Turn{Do: llmtest.DoError, Error: llmtest.DoQuota, Text: "one two", At: 1}))
	_, body := posts(t, p, "/v1/responses", `{"model":"m","stream":true}`)
	first, second := strings.Index(body, `event: error`), strings.Index(body, `event: response.failed`)
	if first < 0 || second < first || strings.Count(body, `"code":"insufficient_quota"`) != 2 || strings.Contains(body, "completed") {
		t.Error(body)
	}
}

func TestEachAPIFailsInItsOwnWords(t *testing.T) {
	const vertex = "/v1/projects/p/locations/l/publishers/google/models/m:generateContent"
	for _, c := range []struct {
		path   string
		act    llmtest.Act
		status int
		says   string
	}{
		{"/v1/chat/completions", llmtest.DoQuota, 429, `"code":"insufficient_quota"`},
		{"/v1/chat/completions", llmtest.DoTooLong, 400, `"code":"context_length_exceeded"`},
		{"/v1/chat/completions", llmtest.DoTimeout, 504, "nginx"},
		{"/v1/responses", llmtest.DoTooLong, 400, `"param":"input"`},
		{"/v1/responses", llmtest.DoContentPolicy, 400, `"code":"invalid_prompt"`},
		{"/v1/messages", llmtest.DoOverloaded, 529, `"type":"overloaded_error"`},
		{"/v1/messages", llmtest.DoQuota, 400, "credit balance is too low"},
		{"/v1/messages", llmtest.DoTimeout, 504, `"type":"timeout_error"`},
		{"/v1/messages", llmtest.DoNotFound, 404, "model: m"},
		{"/v1beta/models/m:generateContent", llmtest.DoAuth, 400, `"reason":"API_KEY_INVALID"`},
		{"/v1beta/models/m:generateContent", llmtest.DoQuota, 429, `"quotaId":"GenerateRequestsPerDay`},
		{"/v1beta/models/m:generateContent", llmtest.DoContentPolicy, 200, `"blockReason":"PROHIBITED_CONTENT"`},
		{vertex, llmtest.DoAuth, 401, `"status":"UNAUTHENTICATED"`},
		{"/model/m/converse", llmtest.DoTimeout, 408, "timed out"},
		{"/model/m/converse", llmtest.DoAuth, 403, "security token"},
		{"/model/m/converse", llmtest.DoContentPolicy, 200, `"stopReason":"guardrail_intervened"`},
	} {
		p := llmtest.NewProvider(t, llmtest.Turns(llmtest.Turn{Do: c.act}))
		if resp, body := posts(t, p, c.path, `{"model":"m"}`); resp.StatusCode != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s %s: %d, %s", c.path, c.act, resp.StatusCode, body)
		}
	}
}

// What a failure tells is told whole: no placeholder is left in its type, its code or its message.
func TestNoFailureIsToldWithAPlaceholder(t *testing.T) {
	for _, act := range llmtest.Acts() {
		p := llmtest.NewProvider(t, llmtest.ProviderConfig{Routes: []llmtest.Route{{Turns: []llmtest.Turn{{Do: act, Hold: 1}}}}})
		for _, c := range paths {
			resp, err := p.Client().Post(p.URL+c.path, "application/json", strings.NewReader(c.body))
			if err != nil {
				continue // a connection that breaks tells nothing
			}
			body, _ := io.ReadAll(resp.Body) // so may this one
			_ = resp.Body.Close()
			for _, left := range []string{"{model}", "{tool}", "{max}", "{unit}", "{min}", "{minute}", "{wait}"} {
				if strings.Contains(string(body), left) || strings.Contains(resp.Header.Get("X-Amzn-Errortype"), left) {
					t.Errorf("%s, %s: %s is left in %s", act, c.path, left, body)
				}
			}
		}
	}
}

func TestALimitIsToldWithItsWindow(t *testing.T) {
	for per, says := range map[time.Duration][2]string{
		0: {"on requests per min: ", "60 requests per minute."}, time.Second: {"per sec: ", "requests per second."},
		time.Hour: {"per hour: ", "per hour."}, 90 * time.Second: {"per 1m30s: ", "per 1m30s."},
	} {
		p := llmtest.NewProvider(t, llmtest.ProviderConfig{Routes: []llmtest.Route{{
			Turns: []llmtest.Turn{{Usage: llm.Usage{Input: 1, Output: 1}}}, Quota: llmtest.Quota{Requests: 60, Tokens: 1, Per: per},
		}}})
		for i, path := range []string{"/v1/chat/completions", "/v1/messages"} {
			want := strings.NewReplacer("60 ", "1 ", "requests", "tokens").Replace(says[i])
			if _, body := posts(t, p, path, `{"model":"m"}`); !strings.Contains(body, want) {
				t.Errorf("a limit per %v, %s: want %q in %s", per, path, want, body)
			}
		}
	}
}

// As OpenAI tells them: content is null where there are calls alone.
func TestCallsAloneHaveNoContent(t *testing.T) {
	calls := []llm.ToolCall{{ID: "c", Name: "f", Arguments: json.RawMessage(`{}`)}}
	p := llmtest.NewProvider(t, llmtest.ProviderConfig{Routes: []llmtest.Route{
		{Model: "both", Turns: []llmtest.Turn{{Calls: calls, Text: "Well"}}}, {Turns: []llmtest.Turn{{Calls: calls}}},
	}})
	if _, body := posts(t, p, "/v1/chat/completions", `{"model":"m"}`); !strings.Contains(body, `"content":null`) {
		t.Error(body)
	}
	if _, body := posts(t, p, "/v1/chat/completions", `{"model":"both"}`); !strings.Contains(body, `"content":"Well"`) {
		t.Error(body)
	}
}
