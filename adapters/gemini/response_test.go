package gemini_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wiretest"
)

func reasoning(text string) llm.Part { return llm.Part{Kind: llm.PartReasoning, Text: text} }

func signed(p llm.Part, signature string) llm.Part {
	p.Extra = extra(`{"thoughtSignature":"` + signature + `"}`)
	return p
}

// withoutExtra is r without what the provider added to the whole, which other tests look at.
func withoutExtra(r *llm.Response) llm.Response {
	c := *r
	c.Extra = nil
	return c
}

func TestAnswersAreTheSameWholeAndStreamed(t *testing.T) {
	usage := llm.Usage{Input: 10, Output: 4}
	answer := func(stop llm.StopReason, detail string, parts ...llm.Part) llm.Response {
		return llm.Response{
			Parts: parts, Stop: stop, StopDetail: detail, Usage: usage, Model: "gemini-2.5-flash-001", RequestID: "resp-1", Status: 200,
		}
	}
	refused := func(r llm.Response, text string) llm.Response {
		r.Refusal = text
		return r
	}
	for _, c := range []struct {
		name   string
		whole  string
		chunks []string
		want   llm.Response
		deltas int
	}{
		{"text", chunk(`{"text":"Grüße, \"world\" 😀"}`, stop, used),
			[]string{piece("Grüße, "), piece(`"world" `), chunk(`{"text":"\ud83d\ude00"}`, stop, used)},
			answer(llm.StopEnd, "STOP", llm.Text("Grüße, \"world\" 😀")), 3},
		{"thoughts", chunk(`{"text":"Two and two.","thought":true},{"text":"Four."}`, stop, used),
			[]string{chunk(`{"text":"Two and ","thought":true}`, "", ""), chunk(`{"text":"two.","thought":true}`, "", ""),
				chunk(`{"text":"Four."}`, stop, used)},
			answer(llm.StopEnd, "STOP", reasoning("Two and two."), llm.Text("Four.")), 3},
		{"thoughts in between", chunk(`{"text":"a"},{"text":"b","thought":true},{"text":"c"}`, stop, used),
			[]string{piece("a"), chunk(`{"text":"b","thought":true},{"text":"c"}`, stop, used)},
			answer(llm.StopEnd, "STOP", llm.Text("a"), reasoning("b"), llm.Text("c")), 3},
		{"signatures", chunk(`{"text":"Hm","thought":true,"thoughtSignature":"czA="},{"text":"Hello"},{"text":"","thoughtSignature":"czE="}`, stop, used),
			[]string{chunk(`{"text":"Hm","thought":true,"thoughtSignature":"czA="}`, "", ""), piece("Hel"), piece("lo"),
				chunk(`{"text":"","thoughtSignature":"czE="}`, stop, used)},
			answer(llm.StopEnd, "STOP", signed(reasoning("Hm"), "czA="), llm.Text("Hello"), signed(llm.Text(""), "czE=")), 3},
		{"a signature without a text", chunk(`{"text":"Hello"},{"thoughtSignature":"czE="}`, stop, used),
			[]string{piece("Hello"), chunk(`{"thoughtSignature":"czE="}`, stop, used)},
			answer(llm.StopEnd, "STOP", llm.Text("Hello"), signed(llm.Text(""), "czE=")), 1},
		{"parallel calls", chunk(`{"text":"Both."},{"functionCall":{"id":"f1","name":"weather","args":{"city":"Oslo"}},"thoughtSignature":"czE="},`+
			`{"functionCall":{"id":"f2","name":"weather","args":{"city":"Rome"}}}`, stop, used),
			[]string{piece("Both."), chunk(`{"functionCall":{"id":"f1","name":"weather","args":{"city":"Oslo"}},"thoughtSignature":"czE="}`, "", ""),
				chunk(`{"functionCall":{"id":"f2","name":"weather","args":{"city":"Rome"}}}`, "", ""), chunk(`{"text":""}`, stop, used)},
			answer(llm.StopToolCalls, "STOP", llm.Text("Both."), signed(wiretest.Call("f1", "weather", `{"city":"Oslo"}`), "czE="),
				wiretest.Call("f2", "weather", `{"city":"Rome"}`)), 3},
		{"calls without ids and arguments", chunk(`{"functionCall":{"name":"now"}},{"functionCall":{"name":"now","args":null}}`, stop, used),
			[]string{chunk(`{"functionCall":{"name":"now"}}`, "", ""), chunk(`{"functionCall":{"name":"now","args":{}}}`, stop, used)},
			answer(llm.StopToolCalls, "STOP", wiretest.Call("gemini-0-resp-1", "now", `{}`), wiretest.Call("gemini-1-resp-1", "now", `{}`)), 2},
		{"media", chunk(`{"text":"Here:"},{"inlineData":{"mimeType":"image/png","data":"aGk="}},{"inlineData":{"mimeType":"audio/wav","data":"aG8="}},`+
			`{"fileData":{"mimeType":"application/pdf","fileUri":"gs://b/c.pdf"}}`, stop, used),
			[]string{piece("Here:"), chunk(`{"inlineData":{"mimeType":"image/png","data":"aGk="}}`, "", ""),
				chunk(`{"inlineData":{"mimeType":"audio/wav","data":"aG8="}},{"fileData":{"mimeType":"application/pdf","fileUri":"gs://b/c.pdf"}}`, stop, used)},
			answer(llm.StopEnd, "STOP", llm.Text("Here:"), llm.Part{Kind: llm.PartImage, MIME: "image/png", Data: []byte("hi")},
				llm.Part{Kind: llm.PartAudio, MIME: "audio/wav", Data: []byte("ho")},
				llm.Part{Kind: llm.PartFile, MIME: "application/pdf", URL: "gs://b/c.pdf"}), 1},
		{"what has no counterpart", chunk(`{"executableCode":{"code":"1"},"thoughtSignature":"czE="},{"thought":true,"inlineData":{"data":"aGk="}},`+
			`{"inlineData":{"data":"?"}},{},{"text":"1"}`, stop, used),
			[]string{chunk(`{"executableCode":{"code":"1"},"thoughtSignature":"czE="}`, "", ""), chunk(`{"thought":true,"inlineData":{"data":"aGk="}}`, "", ""),
				chunk(`{"inlineData":{"data":"?"}},{}`, "", ""), chunk(`{"text":"1"}`, stop, used)},
			answer(llm.StopEnd, "STOP", llm.Part{Kind: llm.PartReasoning, Extra: extra(`{"executableCode":{"code":"1"},"thoughtSignature":"czE="}`)},
				llm.Part{Kind: llm.PartReasoning, Extra: extra(`{"thought":true,"inlineData":{"data":"aGk="}}`)},
				llm.Part{Kind: llm.PartReasoning, Extra: extra(`{"inlineData":{"data":"?"}}`)}, llm.Text("1")), 1},
		{"the token limit", chunk(`{"text":"Once upon"}`, `,"finishReason":"MAX_TOKENS"`, used),
			[]string{piece("Once "), chunk(`{"text":"upon"}`, `,"finishReason":"MAX_TOKENS"`, used)},
			answer(llm.StopLength, "MAX_TOKENS", llm.Text("Once upon")), 2},
		{"a filter", chunk(`{"text":"Well"}`, `,"finishReason":"SAFETY"`, used),
			[]string{piece("Well"), `{"candidates":[{"finishReason":"SAFETY","index":0}]` + used + `,"responseId":"resp-1"}`},
			answer(llm.StopFiltered, "SAFETY", llm.Text("Well")), 1},
		{"a filter with words", chunk("", `,"finishReason":"MODEL_ARMOR","finishMessage":"Blocked by Model Armor."`, used),
			[]string{chunk("", "", ""), chunk("", `,"finishReason":"MODEL_ARMOR","finishMessage":"Blocked by Model Armor."`, used)},
			refused(answer(llm.StopFiltered, "MODEL_ARMOR"), "Blocked by Model Armor."), 1},
		{"a blocked prompt", `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}` + used + `,"modelVersion":"gemini-2.5-flash-001","responseId":"resp-1"}`,
			[]string{`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"modelVersion":"gemini-2.5-flash-001"` + used + `,"responseId":"resp-1"}`},
			answer(llm.StopFiltered, "PROHIBITED_CONTENT"), 0},
		{"a blocked prompt with words", `{"promptFeedback":{"blockReason":"JAILBREAK","blockReasonMessage":"No."}` + used + `,"modelVersion":"gemini-2.5-flash-001","responseId":"resp-1"}`,
			[]string{`{"promptFeedback":{"blockReason":"JAILBREAK","blockReasonMessage":"No."}` + used + `,"modelVersion":"gemini-2.5-flash-001","responseId":"resp-1"}`},
			refused(answer(llm.StopFiltered, "JAILBREAK"), "No."), 1},
		{"feedback that blocks nothing", chunk(`{"text":"Hi"}`, stop, used+`,"promptFeedback":{"blockReason":"BLOCK_REASON_UNSPECIFIED","safetyRatings":[]}`),
			[]string{`{"promptFeedback":{"safetyRatings":[]}}`, chunk(`{"text":"Hi"}`, stop, used)},
			answer(llm.StopEnd, "STOP", llm.Text("Hi")), 1},
		{"a finish reason with every chunk", chunk(`{"text":"Hello"}`, stop, used),
			[]string{chunk(`{"text":"Hel"}`, stop, ""), chunk(`{"text":"lo"}`, stop, used)},
			answer(llm.StopEnd, "STOP", llm.Text("Hello")), 2},
		{"an unspecified finish reason with every chunk", chunk(`{"text":"Hello"}`, stop, used),
			[]string{chunk(`{"text":"Hel"}`, `,"finishReason":"FINISH_REASON_UNSPECIFIED"`, ""), chunk(`{"text":"lo"}`, stop, used)},
			answer(llm.StopEnd, "STOP", llm.Text("Hello")), 2},
		{"several candidates", `{"candidates":[{"content":{"parts":[{"text":"second"}]},"index":1,"finishReason":"SAFETY"},` +
			`{"content":{"parts":[{"text":"first"}]},"finishReason":"STOP"}]` + used + `,"modelVersion":"gemini-2.5-flash-001","responseId":"resp-1"}`,
			[]string{`{"candidates":[{"content":{"parts":[{"text":"second"}]},"index":1,"finishReason":"SAFETY"}]}`, chunk(`{"text":"first"}`, stop, used)},
			answer(llm.StopEnd, "STOP", llm.Text("first")), 1},
		{"blanks and nulls", ` { "error" : null , "candidates" : [ { "content" : { "parts" : [ { "text" : "Hi" , "thought" : null , "functionCall" : null } ] } , "finishReason" : "STOP" } ] ` +
			used + ` , "modelVersion" : "gemini-2.5-flash-001" , "responseId" : "resp-1" } `,
			[]string{` { "error" : null , "candidates" : [ { "content" : { "parts" : [ { "text" : "Hi" , "thought" : null } ] } } ] } `, chunk("", stop, used)},
			answer(llm.StopEnd, "STOP", llm.Text("Hi")), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole, err := serve(t, wiretest.Says(200, wiretest.JSON, c.whole)).Call(t.Context(), wiretest.Ask("hi"))
			if err != nil {
				t.Fatal(err)
			}
			if got := withoutExtra(whole); !reflect.DeepEqual(got, c.want) {
				t.Errorf("whole: got\n%+v\nwant\n%+v", got, c.want)
			}
			deltas, streamed, err := wiretest.Collect(t.Context(), serve(t, wiretest.Says(200, wiretest.SSE, events(c.chunks...))), wiretest.Ask("hi"))
			if err != nil {
				t.Fatal(err)
			}
			if got := withoutExtra(streamed); !reflect.DeepEqual(got, c.want) {
				t.Errorf("streamed: got\n%+v\nwant\n%+v", got, c.want)
			}
			if len(deltas) != c.deltas {
				t.Errorf("%d deltas, want %d: %+v", len(deltas), c.deltas, deltas)
			}
			var acc llm.Accumulator
			for _, d := range deltas {
				acc.Add(d)
			}
			sum, calls := acc.Response(), streamed.ToolCalls()
			if sum.Text() != streamed.Text() || sum.Refusal != streamed.Refusal || !reflect.DeepEqual(sum.ToolCalls(), calls) {
				t.Errorf("the deltas add up to %+v", sum)
			}
		})
	}
}

func TestFormsOfAnswersThatWereNotAskedFor(t *testing.T) {
	list := "[" + piece("Hel") + "\n,\r\n" + chunk(`{"text":"lo"}`, stop, used) + "]"
	for _, c := range []struct {
		name, kind, body string
		streamed         bool
	}{
		{"a stream for a unary call", wiretest.SSE, events(piece("Hel"), chunk(`{"text":"lo"}`, stop, used)), false},
		{"one answer for a streamed call", wiretest.JSON, chunk(`{"text":"Hello"}`, stop, used), true},
		{"a list of chunks for a streamed call", wiretest.JSON, list, true},
		{"a list of chunks for a unary call", wiretest.JSON, list, false},
		{"a list of chunks as an event", wiretest.SSE, events(strings.ReplaceAll(strings.ReplaceAll(list, "\n", ""), "\r", "")), true},
		{"a list of chunks without a type", "text/plain", "\n" + list, true},
		{"a stream without a type", "application/octet-stream", "\n" + events(piece("Hello"), chunk("", stop, used)), true},
		{"an answer behind a byte order mark", wiretest.JSON, "\xef\xbb\xbf" + chunk(`{"text":"Hello"}`, stop, used), false},
		{"an answer without a finish reason", wiretest.JSON, chunk(`{"text":"Hello"}`, "", used), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := serve(t, wiretest.Says(200, c.kind, c.body))
			var acc llm.Accumulator
			req := wiretest.Streamed(&acc)
			if !c.streamed {
				req.Sink = nil
			}
			resp, err := m.Call(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Text() != "Hello" || resp.Stop != llm.StopEnd || resp.Usage != (llm.Usage{Input: 10, Output: 4}) {
				t.Errorf("got %q, stop %q, usage %+v", resp.Text(), resp.Stop, resp.Usage)
			}
			if got := acc.Response().Text(); c.streamed && got != "Hello" {
				t.Errorf("the sink got %q", got)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		name   string
		usages []string // of the chunks
		want   llm.Usage
	}{
		{"all counts", []string{`{"promptTokenCount":100,"cachedContentTokenCount":60,"toolUsePromptTokenCount":7,"candidatesTokenCount":20,"thoughtsTokenCount":30,"totalTokenCount":157}`},
			llm.Usage{Input: 107, CachedInput: 60, Output: 50, Reasoning: 30}},
		{"the last one counts", []string{`{"promptTokenCount":10,"totalTokenCount":10}`, `{"promptTokenCount":10,"candidatesTokenCount":1}`,
			`{"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":15}`}, llm.Usage{Input: 10, Output: 5}},
		{"the prompt's is told once", []string{`{"promptTokenCount":10}`, `{"candidatesTokenCount":5}`}, llm.Usage{Input: 10, Output: 5}},
		{"only the last chunk tells", []string{``, `{"promptTokenCount":10,"candidatesTokenCount":5}`}, llm.Usage{Input: 10, Output: 5}},
		{"zeros do not undo", []string{`{"promptTokenCount":10,"candidatesTokenCount":5}`, `{"promptTokenCount":0,"candidatesTokenCount":0}`}, llm.Usage{Input: 10, Output: 5}},
		{"the candidates' is in the total", []string{`{"promptTokenCount":10,"thoughtsTokenCount":3,"totalTokenCount":20}`}, llm.Usage{Input: 10, Output: 10, Reasoning: 3}},
		{"nonsense", []string{`{"promptTokenCount":"ten","candidatesTokenCount":-5,"totalTokenCount":1e300}`}, llm.Usage{Output: 2, Estimated: true}},
		{"none", []string{``}, llm.Usage{Input: 5, Output: 2, Estimated: true}},
		{"more in the cache than in the prompt", []string{`{"promptTokenCount":3,"cachedContentTokenCount":60,"candidatesTokenCount":5}`},
			llm.Usage{Input: 60, CachedInput: 60, Output: 5, Estimated: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var chunks []string
			for i, u := range c.usages {
				text, end := "", ""
				if i == 0 {
					text = "Hello"
				}
				if i == len(c.usages)-1 {
					end = stop
				}
				if u != "" {
					u = `,"usageMetadata":` + u
				}
				chunks = append(chunks, chunk(`{"text":`+wiretest.Quote(text)+`}`, end, u))
			}
			_, resp, err := wiretest.Collect(t.Context(), serve(t, wiretest.Says(200, wiretest.SSE, events(chunks...))), wiretest.Ask("hi"))
			if err != nil {
				t.Fatal(err)
			}
			if resp.Usage != c.want {
				t.Errorf("got %+v, want %+v", resp.Usage, c.want)
			}
		})
	}
}

func TestStopReasons(t *testing.T) {
	for reason, want := range map[string]llm.StopReason{
		"STOP": llm.StopEnd, "MAX_TOKENS": llm.StopLength, "CONTINUATION": llm.StopLength,
		"SAFETY": llm.StopFiltered, "RECITATION": llm.StopFiltered, "BLOCKLIST": llm.StopFiltered, "PROHIBITED_CONTENT": llm.StopFiltered,
		"SPII": llm.StopFiltered, "IMAGE_SAFETY": llm.StopFiltered, "IMAGE_PROHIBITED_CONTENT": llm.StopFiltered,
		"IMAGE_RECITATION": llm.StopFiltered, "MODEL_ARMOR": llm.StopFiltered,
		"LANGUAGE": llm.StopOther, "OTHER": llm.StopOther, "NO_IMAGE": llm.StopOther, "NEW_ONE": llm.StopOther,
	} {
		resp, err := serve(t, wiretest.Says(200, wiretest.JSON, chunk(`{"text":"Hm"}`, `,"finishReason":"`+reason+`","finishMessage":"why"`, used))).Call(t.Context(), wiretest.Ask("hi"))
		if err != nil {
			t.Errorf("%s: %v", reason, err)
			continue
		}
		if resp.Stop != want || resp.StopDetail != reason || resp.Refused() != (want == llm.StopFiltered) {
			t.Errorf("%s: stop %q, detail %q, refused %v; want %q", reason, resp.Stop, resp.StopDetail, resp.Refused(), want)
		}
		if (resp.Refusal == "why") != (want == llm.StopFiltered) {
			t.Errorf("%s: the refusal is %q", reason, resp.Refusal)
		}
	}
}

func TestFinishReasonsThatAreFailures(t *testing.T) {
	for reason, want := range map[string]llm.Class{
		"MALFORMED_FUNCTION_CALL": llm.BadOutput, "UNEXPECTED_TOOL_CALL": llm.BadOutput, "TOO_MANY_TOOL_CALLS": llm.BadOutput,
		"MALFORMED_RESPONSE": llm.BadOutput, "MISSING_THOUGHT_SIGNATURE": llm.Invalid,
	} {
		body := chunk(`{"text":"Hm"}`, `,"finishReason":"`+reason+`","finishMessage":"call:now{"`, used)
		for kind, h := range map[string]http.HandlerFunc{"whole": wiretest.Says(200, wiretest.JSON, body), "streamed": wiretest.Says(200, wiretest.SSE, events(body))} {
			_, resp, err := wiretest.Collect(t.Context(), serve(t, h), wiretest.Ask("hi"))
			e := wiretest.Failure(t, resp, err)
			if e.Class != want || e.Evidence.Code != reason || !strings.Contains(e.Error(), reason) || e.Evidence.Message != "call:now{" {
				t.Errorf("%s %s: got %v, code %q, message %q", kind, reason, e, e.Evidence.Code, e.Evidence.Message)
			}
			if e.Usage != (llm.Usage{Input: 10, Output: 4}) || e.RequestID != "resp-1" || e.Partial.Text() != "Hm" || e.Commit != llm.Committed {
				t.Errorf("%s %s: usage %+v, id %q, Partial %+v, commit %v", kind, reason, e.Usage, e.RequestID, e.Partial, e.Commit)
			}
		}
	}
}

// Answers without content are the Deployment's to refuse; those of a filter are answers.
func TestEmptyAnswersAreUnusableAndRefusalsAreNot(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       llm.Class
	}{
		{"STOP without parts", `{"candidates":[{"finishReason":"STOP"}]}`, llm.BadOutput},
		{"STOP with an empty text", chunk(`{"text":""}`, stop, used), llm.BadOutput},
		{"STOP with a signature", chunk(`{"thoughtSignature":"czE="}`, stop, used), llm.BadOutput},
		{"a filter", `{"candidates":[{"finishReason":"SAFETY"}]}`, 0},
		{"a blocked prompt", `{"promptFeedback":{"blockReason":"OTHER"}}`, 0},
		{"all tokens thought away", `{"candidates":[{"content":{"role":"model"},"finishReason":"MAX_TOKENS"}],"usageMetadata":{"thoughtsTokenCount":50}}`, 0},
	} {
		for _, h := range []http.HandlerFunc{wiretest.Says(200, wiretest.JSON, c.body), wiretest.Says(200, wiretest.SSE, events(c.body))} {
			_, resp, err := wiretest.Collect(t.Context(), &llm.Deployment{Name: "d", Caller: serve(t, h)}, wiretest.Ask("hi"))
			if c.want != 0 {
				if resp != nil || llm.ClassOf(err) != c.want {
					t.Errorf("%s: got %+v, %v; want %v", c.name, resp, err, c.want)
				}
			} else if err != nil || resp.Refused() == (resp.Stop == llm.StopLength) {
				t.Errorf("%s: got %+v, %v", c.name, resp, err)
			}
		}
	}
}

func TestWhatElseTheProviderSaidIsInExtra(t *testing.T) {
	body := chunk(`{"text":"Hi","videoMetadata":{"fps":1},"partMetadata":null}`,
		stop+`,"groundingMetadata":{"webSearchQueries":["a<b"]},"avgLogprobs":-0.5,"citationMetadata":null`, used+`,"modelStatus":null,"createTime":"2026-11-30T00:00:00Z"`)
	want := `{"groundingMetadata":{"webSearchQueries":["a<b"]},"avgLogprobs":-0.5,"createTime":"2026-11-30T00:00:00Z",` +
		`"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":4,"totalTokenCount":14}}`
	for _, h := range []http.HandlerFunc{
		wiretest.Says(200, wiretest.JSON, body), wiretest.Says(200, wiretest.SSE, events(strings.Replace(body, "-0.5", "-0.9", 1), strings.Replace(body, "Hi", "", 1))),
	} {
		_, resp, err := wiretest.Collect(t.Context(), serve(t, h), wiretest.Ask("hi"))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(resp.Extra["gemini"]); !sameJSON(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := string(resp.Parts[0].Extra["gemini"]); got != `{"videoMetadata":{"fps":1}}` {
			t.Errorf("the part has %s", got)
		}
	}
}

func TestCallsWithoutIDsGetOnesOfTheirOwn(t *testing.T) {
	m := serve(t, wiretest.Says(200, wiretest.JSON, `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"now"}},{"functionCall":{"name":"now"}}]},"finishReason":"STOP"}]}`))
	seen := map[string]bool{}
	for range 2 { // no id of the answer tells these apart
		resp, err := m.Call(t.Context(), wiretest.Ask("hi"))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range resp.ToolCalls() {
			if c.ID == "" || seen[c.ID] {
				t.Errorf("the id %q is empty or was given before", c.ID)
			}
			seen[c.ID] = true
		}
	}
}

func TestArgumentsInPiecesAreNotTakenForNone(t *testing.T) {
	body := chunk(`{"functionCall":{"name":"now","partialArgs":[{"jsonPath":"$.a","stringValue":"x"}],"willContinue":true}}`, "", "")
	deltas, resp, err := wiretest.Collect(t.Context(), serve(t, wiretest.Says(200, wiretest.SSE, events(body, chunk(`{"functionCall":{}}`, stop, used)))), wiretest.Ask("hi"))
	if e := wiretest.Failure(t, resp, err); e.Class != llm.Unsupported || !strings.Contains(e.Error(), "streamFunctionCallArguments") || len(deltas) != 0 {
		t.Errorf("got %v, deltas %+v", e, deltas)
	}
}

func TestArgumentsThatAreNoObjectAreUnusable(t *testing.T) {
	resp, err := serve(t, wiretest.Says(200, wiretest.JSON, chunk(`{"functionCall":{"name":"now","args":[1]}}`, stop, used))).Call(t.Context(), wiretest.Ask("hi"))
	if e := wiretest.Failure(t, resp, err); e.Class != llm.BadOutput || !strings.Contains(e.Error(), `"now"`) {
		t.Errorf("got %v", e)
	}
}

func TestRequestIDIsTheAnswersOrAHeaders(t *testing.T) {
	noID := strings.Replace(chunk(`{"text":"Hi"}`, stop, used), `"responseId":"resp-1"`, `"responseId":""`, 1)
	for body, want := range map[string]string{chunk(`{"text":"Hi"}`, stop, used): "resp-1", noID: "gateway-1"} {
		resp, err := serve(t, wiretest.Says(200, wiretest.JSON, body, "X-Request-Id", "gateway-1")).Call(t.Context(), wiretest.Ask("hi"))
		if err != nil || resp.RequestID != want {
			t.Errorf("got %+v, %v; want the id %q", resp, err, want)
		}
	}
}

func TestDeltasOfCallsCarryAllOfThem(t *testing.T) {
	deltas, _, err := wiretest.Collect(t.Context(), serve(t, wiretest.Says(200, wiretest.SSE, events(
		chunk(`{"functionCall":{"id":"f1","name":"a","args":{"x":1}}},{"functionCall":{"id":"f2","name":"b","args":{}}}`, stop, used)))), wiretest.Ask("hi"))
	if err != nil {
		t.Fatal(err)
	}
	want := []llm.Delta{
		{Kind: llm.DeltaToolCall, Index: 0, Call: &llm.ToolCallDelta{ID: "f1", Name: "a", Arguments: `{"x":1}`}},
		{Kind: llm.DeltaToolCall, Index: 1, Call: &llm.ToolCallDelta{ID: "f2", Name: "b", Arguments: `{}`}},
	}
	if !reflect.DeepEqual(deltas, want) {
		got, _ := json.Marshal(deltas)
		t.Errorf("got %s", got)
	}
}
