package openai_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

func reasoning(text string) llm.Part { return llm.Part{Kind: llm.PartReasoning, Text: text} }

// Each answer is in testdata/answers in both forms.
func TestAnswersAreTheSameWholeAndStreamed(t *testing.T) {
	tests := []struct {
		name   string
		want   llm.Response
		deltas int
	}{
		{"text", llm.Response{
			Parts: []llm.Part{llm.Text("Grüße, \"world\" 😀")}, Stop: llm.StopEnd, StopDetail: "stop",
			Usage: llm.Usage{Input: 20, Output: 7, CachedInput: 16, Reasoning: 3},
			Model: "gpt-4o-2024-08-06", RequestID: "req_made_up_1",
		}, 2},
		{"tools", llm.Response{
			Parts: []llm.Part{wiretest.Call("call_a", "weather", `{"city":"Oslo"}`), wiretest.Call("call_b", "weather", `{"city":"Rome"}`),
				wiretest.Call("call_c", "now", `{}`)},
			Stop: llm.StopToolCalls, StopDetail: "tool_calls", Usage: llm.Usage{Input: 50, Output: 30},
			Model: "gpt-4o", RequestID: "req_made_up_2",
		}, 6},
		{"refusal", llm.Response{
			Refusal: "I can't help with that.", Stop: llm.StopRefusal, StopDetail: "stop", Usage: llm.Usage{Input: 5, Output: 6},
			Model: "gpt-4o", RequestID: "chatcmpl-no",
		}, 2},
		{"filtered", llm.Response{
			Stop: llm.StopFiltered, StopDetail: "content_filter", Usage: llm.Usage{Input: 9}, Model: "gpt-4o", RequestID: "apim_made_up",
		}, 0},
		{"reasoning", llm.Response{
			Parts: []llm.Part{reasoning("Two and two."), llm.Text("Four.")}, Stop: llm.StopEnd, StopDetail: "stop",
			Usage: llm.Usage{Input: 8, Output: 9, CachedInput: 4, Reasoning: 6}, Model: "deepseek-reasoner", RequestID: "r1",
		}, 3},
		{"gateway_reasoning", llm.Response{
			Parts: []llm.Part{reasoning("Two and two."), llm.Text("Four.")}, Stop: llm.StopEnd, StopDetail: "eos",
			Usage: llm.Usage{Input: 8, Output: 9}, Model: "deep/seek", RequestID: "gen-1",
		}, 2},
		{"thinking_parts", llm.Response{
			Parts: []llm.Part{reasoning("Two and two."), llm.Text("Four.")}, Stop: llm.StopEnd, StopDetail: "stop",
			Usage: llm.Usage{Input: 8, Output: 9}, Model: "magistral", RequestID: "m1",
		}, 3},
		{"same_index_tools", llm.Response{
			Parts: []llm.Part{wiretest.Call("f-1", "add", `{"a":1}`), wiretest.Call("f-2", "add", `{"a":2}`)},
			Stop:  llm.StopToolCalls, StopDetail: "stop", Usage: llm.Usage{Input: 1, Output: 2}, Model: "gemini", RequestID: "g1",
		}, 2},
		{"idless_tools", llm.Response{
			Parts: []llm.Part{wiretest.Call("call_0_o1", "add", `{"a":1}`), wiretest.Call("call_1_o1", "add", `{"a":2}`)},
			Stop:  llm.StopToolCalls, StopDetail: "tool_calls", Usage: llm.Usage{Input: 1, Output: 2}, Model: "llama", RequestID: "o1",
		}, 2},
		{"function_call", llm.Response{
			Parts: []llm.Part{wiretest.Call("call_0_l1", "add", `{"a":1}`)},
			Stop:  llm.StopToolCalls, StopDetail: "function_call", Usage: llm.Usage{Input: 1, Output: 2}, Model: "old", RequestID: "l1",
		}, 3},
		{"length", llm.Response{
			Parts: []llm.Part{llm.Text("Once upon")}, Stop: llm.StopLength, StopDetail: "length",
			Usage: llm.Usage{Input: 3, Output: 2}, Model: "gpt-4o", RequestID: "len",
		}, 2},
		{"several_choices", llm.Response{
			Parts: []llm.Part{llm.Text("first")}, Stop: llm.StopEnd, StopDetail: "stop",
			Usage: llm.Usage{Input: 3, Output: 2}, Model: "gpt-4o", RequestID: "n2",
		}, 1},
	}
	for _, tt := range tests {
		tt.want.Status = 200
		same := func(t *testing.T, got *llm.Response, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			got.Extra = nil
			if !reflect.DeepEqual(*got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", *got, tt.want)
			}
		}
		whole, streamed := wiretest.Load(t, "testdata/"+"answers/"+tt.name+".json"), wiretest.Load(t, "testdata/"+"answers/"+tt.name+".sse")
		t.Run(tt.name, func(t *testing.T) {
			inEveryForm(t, whole, streamed, func(f wiretest.Fixture) llm.Caller { return serve(t, f, openai.Config{}) }, same, &tt.want, tt.deltas)
		})
	}
}

// inEveryForm gets an answer whole and streamed, as it was asked for and as it was not. same checks it, sum is what its deltas
// add up to.
func inEveryForm(t *testing.T, whole, streamed wiretest.Fixture, from func(wiretest.Fixture) llm.Caller, same func(*testing.T, *llm.Response, error),
	sum *llm.Response, count int) {
	t.Run("whole", func(t *testing.T) {
		resp, err := from(whole).Call(t.Context(), wiretest.Ask("hi"))
		same(t, resp, err)
	})
	t.Run("streamed", func(t *testing.T) {
		deltas, resp, err := wiretest.Collect(t.Context(), from(streamed), wiretest.Ask("hi"))
		same(t, resp, err)
		checkDeltas(t, deltas, sum)
		if len(deltas) != count {
			t.Errorf("%d deltas, want %d: %+v", len(deltas), count, deltas)
		}
	})
	t.Run("in one piece where a stream was asked for", func(t *testing.T) {
		deltas, resp, err := wiretest.Collect(t.Context(), from(whole), wiretest.Ask("hi"))
		same(t, resp, err)
		checkDeltas(t, deltas, sum)
	})
	t.Run("streamed where none was asked for", func(t *testing.T) {
		resp, err := from(streamed).Call(t.Context(), wiretest.Ask("hi"))
		same(t, resp, err)
	})
	t.Run("streamed in CR LF under another name", func(t *testing.T) {
		other := streamed
		other.Header = streamed.Header.Clone()
		other.Header.Set("Content-Type", "text/plain")
		other.Body = "\ufeff" + strings.ReplaceAll(streamed.Body, "\n", "\r\n")
		deltas, resp, err := wiretest.Collect(t.Context(), from(other), wiretest.Ask("hi"))
		same(t, resp, err)
		checkDeltas(t, deltas, sum)
	})
}

// checkDeltas checks that deltas carry something and add up to the answer.
func checkDeltas(t *testing.T, deltas []llm.Delta, want *llm.Response) {
	t.Helper()
	var acc llm.Accumulator
	named := map[int]bool{}
	for _, d := range deltas {
		if d.Text == "" && d.Call == nil {
			t.Errorf("an empty delta was handed out: %+v", d)
		}
		if d.Call != nil {
			if !named[d.Index] && (d.Call.ID == "" || d.Call.Name == "") {
				t.Errorf("the first piece of call %d has no id or no name: %+v", d.Index, d.Call)
			}
			named[d.Index] = true
		}
		acc.Add(d)
	}
	if got := acc.Response(); !reflect.DeepEqual(got.Parts, want.Parts) || got.Refusal != want.Refusal {
		t.Errorf("the deltas add up to %+v %q, want %+v %q", got.Parts, got.Refusal, want.Parts, want.Refusal)
	}
}

func TestFieldsThatAreNotReadComeInExtra(t *testing.T) {
	for _, name := range []string{"answers/text.json", "answers/text.sse"} {
		resp, err := serve(t, wiretest.Load(t, "testdata/"+name), openai.Config{Provider: "mine"}).Call(t.Context(), wiretest.Ask("hi"))
		if err != nil {
			t.Fatal(err)
		}
		want := `{"service_tier":"default","system_fingerprint":"fp_made_up"}`
		if got := string(resp.Extra["mine"]); got != want {
			t.Errorf("%s: Extra is %s, want %s", name, got, want)
		}
	}
}

func TestStopReasons(t *testing.T) {
	tests := map[string]llm.StopReason{
		"stop": llm.StopEnd, "eos": llm.StopEnd, "end_turn": llm.StopEnd, "": llm.StopEnd, "length": llm.StopLength,
		"max_tokens": llm.StopLength, "model_length": llm.StopLength, "content_filter": llm.StopFiltered,
		"refusal": llm.StopRefusal, "tool_calls": llm.StopToolCalls, "something_new": llm.StopOther,
	}
	for finish, want := range tests {
		body := `{"choices":[{"message":{"content":"x"},"finish_reason":"` + finish + `"}]}`
		resp, err := serve(t, wiretest.Says(200, wiretest.JSON, body), openai.Config{}).Call(t.Context(), wiretest.Ask("hi"))
		if err != nil {
			t.Fatal(err)
		}
		if resp.Stop != want || resp.StopDetail != finish {
			t.Errorf("%q: got %q (%q), want %q", finish, resp.Stop, resp.StopDetail, want)
		}
	}
}

// OpenRouter says so: https://openrouter.ai/docs/api-reference/errors. What came before the error was handed to nobody.
func TestAFailureWithinAnAnswerIsToldAsInAStream(t *testing.T) {
	for body, class := range map[string]llm.Class{
		`{"choices":[{"message":{"content":""},"finish_reason":"error","error":{"code":429,"message":"Rate limit exceeded upstream"}}]`: llm.RateLimited,
		`{"choices":[{"message":{"content":"Hel"},"finish_reason":"error","error":{"code":502,"message":"Upstream broke"}}]`:            llm.Unavailable,
		`{"choices":[{"message":{"content":"the rate limit"},"error":{"code":"insufficient_quota","message":"No money"}}]`:              llm.Quota,
		`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"error":{"code":429,"message":"Rate limit exceeded upstream"}`: llm.RateLimited,
		`{"choices":[],"x_groq":{"error":"over capacity"}`:                                                                              llm.Overloaded,
	} {
		body += `,"usage":{"prompt_tokens":5,"completion_tokens":1}}`
		for _, req := range []*llm.Request{wiretest.Ask("hi"), wiretest.Streamed(&llm.Accumulator{})} {
			resp, err := serve(t, wiretest.Says(200, wiretest.JSON, body), openai.Config{Provider: "openrouter"}).Call(t.Context(), req)
			e := wiretest.Failure(t, resp, err)
			if e.Class != class || e.Partial != nil || e.Usage != (llm.Usage{Input: 5, Output: 1}) || e.Commit == llm.Committed {
				t.Errorf("%s: %v of class %v, commit %v, usage %+v", body, e, e.Class, e.Commit, e.Usage)
			}
		}
		streamed := "data: " + strings.NewReplacer("message", "delta", `"delta":"`, `"message":"`, "Hel", "", "the rate limit", "", `"x"`, `""`).Replace(body) + "\n\n"
		_, resp, err := wiretest.Collect(t.Context(), serve(t, wiretest.Says(200, wiretest.SSE, streamed), openai.Config{Provider: "openrouter"}), wiretest.Ask("hi"))
		if e := wiretest.Failure(t, resp, err); e.Class != class {
			t.Errorf("%s: %v of class %v", streamed, e, e.Class)
		}
	}
}

func TestUsageThatIsNotToldIsEstimatedAndMarked(t *testing.T) {
	resp, err := serve(t, wiretest.Says(200, wiretest.JSON, `{"choices":[{"message":{"content":"four words are here"},"finish_reason":"stop"}]}`),
		openai.Config{}).Call(t.Context(), wiretest.Ask("hi"))
	if err != nil {
		t.Fatal(err)
	}
	if u := resp.Usage; !u.Estimated || u.Input == 0 || u.Output == 0 {
		t.Errorf("usage %+v", u)
	}
}

func TestGroqsUsageIsFoundWhereItIs(t *testing.T) {
	body := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}],\"x_groq\":{\"id\":\"req_1\"}}\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]," +
		"\"x_groq\":{\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}}\n\ndata: [DONE]\n\n"
	_, resp, err := wiretest.Collect(t.Context(), serve(t, wiretest.Says(200, wiretest.SSE, body), openai.Config{}), wiretest.Ask("hi"))
	if err != nil || resp.Usage != (llm.Usage{Input: 5, Output: 1}) {
		t.Errorf("got %+v, %v", resp, err)
	}
}
