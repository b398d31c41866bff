package bedrock_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wiretest"
)

// answerOf is an answer in one piece.
func answerOf(stop, usage string, blocks ...string) string {
	return fmt.Sprintf(`{"output":{"message":{"role":"assistant","content":[%s]}},"stopReason":%q,"usage":%s}`, strings.Join(blocks, ","), stop, usage)
}

const tenFour = `{"inputTokens":10,"outputTokens":4,"totalTokens":14}`

// bothWays calls for an answer in one piece and in frames. The deltas must add up to the answer.
func bothWays(t *testing.T, whole, frames string, check func(*testing.T, *llm.Response, error)) {
	t.Helper()
	t.Run("whole", func(t *testing.T) {
		resp, err := serve(t, wiretest.Says(200, wiretest.JSON, whole, "X-Amzn-Requestid", "req-1")).Call(t.Context(), wiretest.Ask("Hello?"))
		check(t, resp, err)
	})
	t.Run("streamed", func(t *testing.T) {
		var acc llm.Accumulator
		resp, err := serve(t, wiretest.Says(200, frameType, frames, "X-Amzn-Requestid", "req-1")).Call(t.Context(), wiretest.Streamed(&acc))
		check(t, resp, err)
		if err != nil {
			return
		}
		sum := acc.Response()
		if sum.Text() != resp.Text() || len(sum.ToolCalls()) != len(resp.ToolCalls()) {
			t.Errorf("the deltas add up to %+v, the answer is %+v", sum.Parts, resp.Parts)
		}
	})
}

func TestStopReasonsAreMapped(t *testing.T) {
	for _, c := range []struct {
		stop    string
		want    llm.StopReason
		refused bool
		class   llm.Class
	}{
		{"end_turn", llm.StopEnd, false, 0},
		{"stop_sequence", llm.StopEnd, false, 0},
		{"max_tokens", llm.StopLength, false, 0},
		{"tool_use", llm.StopToolCalls, false, 0},
		{"guardrail_intervened", llm.StopFiltered, true, 0},
		{"content_filtered", llm.StopFiltered, true, 0},
		{"refusal", llm.StopRefusal, true, 0},
		{"something_new", llm.StopOther, false, 0},
		{"malformed_model_output", "", false, llm.BadOutput},
		{"malformed_tool_use", "", false, llm.BadOutput},
		{"model_context_window_exceeded", "", false, llm.TooLong},
	} {
		t.Run(c.stop, func(t *testing.T) {
			frames := begun + piece("Hello") + closed + event("messageStop", `{"stopReason":"`+c.stop+`"}`) + told
			bothWays(t, answerOf(c.stop, tenFour, `{"text":"Hello"}`), frames, func(t *testing.T, resp *llm.Response, err error) {
				if c.class != 0 {
					e := llm.AsError(err)
					if resp != nil || e.Class != c.class || e.Partial.Text() != "Hello" || e.Usage.Output != 4 || e.Evidence.Code != c.stop {
						t.Errorf("%+v, %v: class %v, code %q, usage %+v", resp, err, e.Class, e.Evidence.Code, e.Usage)
					}
					return
				}
				if err != nil || resp.Stop != c.want || resp.StopDetail != c.stop || resp.Refused() != c.refused || resp.Text() != "Hello" {
					t.Errorf("%+v, %v", resp, err)
				}
			})
		})
	}
}

func TestARefusalWithoutContentIsAnAnswer(t *testing.T) {
	frames := begun + event("messageStop", `{"stopReason":"content_filtered"}`) + told
	bothWays(t, answerOf("content_filtered", tenFour), frames, func(t *testing.T, resp *llm.Response, err error) {
		if err != nil || !resp.Refused() || len(resp.Parts) != 0 {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

func TestUsageCountsTheCache(t *testing.T) {
	const cached = `{"inputTokens":10,"outputTokens":4,"totalTokens":46,"cacheReadInputTokens":30,"cacheWriteInputTokens":2,` +
		`"cacheDetails":[{"inputTokens":2,"ttl":"1h"}]}`
	for _, c := range []struct {
		name, usage string
		want        llm.Usage
	}{
		{"plain", tenFour, llm.Usage{Input: 10, Output: 4}},
		{"cached", cached, llm.Usage{Input: 42, Output: 4, CachedInput: 30, CacheWrite: 2}},
		{"not told", "null", llm.Usage{Input: 6, Output: 2, Estimated: true}},
		{"nonsense", `{"inputTokens":-1,"outputTokens":4}`, llm.Usage{Output: 4, Estimated: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			frames := begun + piece("Hello") + closed + ended + event("metadata", `{"usage":`+c.usage+`}`)
			bothWays(t, answerOf("end_turn", c.usage, `{"text":"Hello"}`), frames, func(t *testing.T, resp *llm.Response, err error) {
				if err != nil || resp.Usage != c.want {
					t.Errorf("%+v, %v; want %+v", resp.Usage, err, c.want)
				}
			})
		})
	}
}

func TestAnAnswerCarriesWhatCameWithIt(t *testing.T) {
	const (
		trace = `"trace":{"guardrail":{"actionReason":"none"},"promptRouter":{"invokedModelId":"arn:aws:bedrock:::chosen"}}`
		more  = `"additionalModelResponseFields":{"stop_sequence":"END"}`
	)
	whole := `{"output":{"message":{"role":"assistant","content":[{"text":"Hello"}]}},"stopReason":"stop_sequence","usage":` + tenFour +
		`,"metrics":{"latencyMs":321},` + trace + `,` + more + `}`
	frames := begun + piece("Hello") + closed + event("messageStop", `{"stopReason":"stop_sequence",`+more+`,"p":"ab"}`) +
		event("metadata", `{"usage":`+tenFour+`,"metrics":{"latencyMs":321},`+trace+`,"p":"abc"}`)
	bothWays(t, whole, frames, func(t *testing.T, resp *llm.Response, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if resp.RequestID != "req-1" || resp.Status != 200 || resp.Model != "arn:aws:bedrock:::chosen" {
			t.Errorf("id %q, status %d, model %q", resp.RequestID, resp.Status, resp.Model)
		}
		want := `{"additionalModelResponseFields":{"stop_sequence":"END"},"metrics":{"latencyMs":321},` + trace + `,"usage":` + tenFour + `}`
		if got := string(resp.Extra["bedrock"]); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	})
	bothWays(t, hello, begun+piece("Hello")+closed+ended+told, func(t *testing.T, resp *llm.Response, err error) {
		if err != nil || resp.Model != "test.model-v1:0" {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

// TestPartsGoBackAsTheyCame shows blocks of all kinds: as the parts that they become, and as the blocks that those become
// again.
func TestPartsGoBackAsTheyCame(t *testing.T) {
	const (
		cite   = `{"location":{"documentPage":{"documentIndex":0,"start":1,"end":2}},"title":"r"}`
		server = `"toolUseId":"s1","name":"search","type":"server_tool_use"`
	)
	start := func(i int, what string) string {
		return event("contentBlockStart", fmt.Sprintf(`{"contentBlockIndex":%d,"start":%s}`, i, what))
	}
	for _, c := range []struct {
		name, block, frames string
		want                llm.Part
		back                string // "": as block
	}{
		{"text", `{"text":"Hello"}`, piece("Hel") + piece("") + piece("lo"), llm.Text("Hello"), ""},
		{"reasoning", `{"reasoningContent":{"reasoningText":{"text":"Hm. Yes.","signature":"c2ln"}}}`,
			delta(0, `{"reasoningContent":{"text":"Hm. "}}`) + delta(0, `{"reasoningContent":{"text":"Yes."}}`) +
				delta(0, `{"reasoningContent":{"signature":"c2"}}`) + delta(0, `{"reasoningContent":{"signature":"ln"}}`),
			llm.Part{Kind: llm.PartReasoning, Text: "Hm. Yes.", Extra: extra(`{"reasoningContent":{"reasoningText":{"signature":"c2ln"}}}`)}, ""},
		{"reasoning without a signature", `{"reasoningContent":{"reasoningText":{"text":"Hm."}}}`, delta(0, `{"reasoningContent":{"text":"Hm."}}`),
			llm.Part{Kind: llm.PartReasoning, Text: "Hm."}, "-"},
		{"encrypted reasoning", `{"reasoningContent":{"redactedContent":"AAEC"}}`,
			delta(0, `{"reasoningContent":{"redactedContent":"AA=="}}`) + delta(0, `{"reasoningContent":{"redactedContent":"AQI="}}`),
			llm.Part{Kind: llm.PartReasoning, Extra: extra(`{"reasoningContent":{"redactedContent":"AAEC"}}`)}, ""},
		{"a call", `{"toolUse":{"toolUseId":"c1","name":"look","input":{"b":[1,2],"a":9007199254740993}}}`,
			start(0, `{"toolUse":{"toolUseId":"c1","name":"look"}}`) + delta(0, `{"toolUse":{"input":""}}`) +
				delta(0, `{"toolUse":{"input":"{\"b\":[1,"}}`) + delta(0, `{"toolUse":{"input":"2],\"a\":9007199254740993}"}}`),
			wiretest.Call("c1", "look", `{"b":[1,2],"a":9007199254740993}`), `{"toolUse":{"input":{"b":[1,2],"a":9007199254740993},"name":"look","toolUseId":"c1"}}`},
		{"a call without arguments", `{"toolUse":{"toolUseId":"c1","name":"look","input":{}}}`, start(0, `{"toolUse":{"toolUseId":"c1","name":"look"}}`),
			wiretest.Call("c1", "look", `{}`), `{"toolUse":{"input":{},"name":"look","toolUseId":"c1"}}`},
		{"citations", `{"citationsContent":{"citations":[` + cite + `],"content":[{"text":"Cats."}]}}`,
			piece("Cats.") + delta(0, `{"citation":`+cite+`}`),
			llm.Part{Kind: llm.PartText, Text: "Cats.", Extra: extra(`{"citationsContent":{"citations":[` + cite + `],"content":[{"text":"Cats."}]}}`)}, ""},
		{"an image", `{"image":{"format":"png","source":{"bytes":"iVBORw0KGgo="}}}`,
			start(0, `{"image":{"format":"png"}}`) + delta(0, `{"image":{"source":{"bytes":"iVBO"}}}`) + delta(0, `{"image":{"source":{"bytes":"Rw0KGgo="}}}`),
			llm.Part{Kind: llm.PartImage, Data: png, MIME: "image/png"}, ""},
		{"a tool that ran there", `{"toolUse":{` + server + `,"input":{"q":1}}}`,
			start(0, `{"toolUse":{`+server+`}}`) + delta(0, `{"toolUse":{"input":"{\"q\":"}}`) + delta(0, `{"toolUse":{"input":"1}"}}`),
			llm.Part{Kind: llm.PartReasoning, Extra: extra(`{"toolUse":{` + server + `,"input":{"q":1}}}`)}, ""},
		{"what it found", `{"toolResult":{"toolUseId":"s1","type":"web","content":[{"text":"x"},{"json":{"a":1}}]}}`,
			start(0, `{"toolResult":{"toolUseId":"s1","type":"web"}}`) + delta(0, `{"toolResult":[{"text":"x"}]}`) + delta(0, `{"toolResult":[{"json":{"a":1}}]}`),
			llm.Part{Kind: llm.PartReasoning, Extra: extra(`{"toolResult":{"toolUseId":"s1","type":"web","content":[{"text":"x"},{"json":{"a":1}}]}}`)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			frames := begun + c.frames + closed + ended + told
			bothWays(t, answerOf("end_turn", tenFour, c.block), frames, func(t *testing.T, resp *llm.Response, err error) {
				if err != nil {
					t.Fatal(err)
				}
				if len(resp.Parts) != 1 || !reflect.DeepEqual(resp.Parts[0], c.want) {
					t.Fatalf("\n got %s\nwant %s", asJSON(resp.Parts), asJSON(c.want))
				}
				back := wiretest.Sent(t, by(t), hello, &llm.Request{Messages: []llm.Message{
					wiretest.Message(llm.RoleAssistant, resp.Parts...), llm.User("Sure?"),
				}})
				want := c.back
				if want == "" {
					want = c.block
				}
				has := sameBlock(t, back, want)
				if has != (c.back != "-") {
					t.Errorf("it goes back as %s", back)
				}
			})
		})
	}
	t.Run("of a kind that is new", func(t *testing.T) {
		resp, err := serve(t, wiretest.Says(200, wiretest.JSON, answerOf("end_turn", tenFour, `{"hologram":{"depth":3}}`, `null`))).Call(t.Context(), wiretest.Ask("Hello?"))
		if err != nil || len(resp.Parts) != 1 || string(resp.Parts[0].Extra["bedrock"]) != `{"hologram":{"depth":3}}` {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// sameBlock reports whether the assistant's message of a request is this block.
func sameBlock(t *testing.T, request, block string) bool {
	t.Helper()
	var r struct {
		Messages []struct {
			Role    string
			Content []any
		}
	}
	if err := json.Unmarshal([]byte(request), &r); err != nil {
		t.Fatal(err)
	}
	var want any
	if r.Messages[0].Role != "assistant" || json.Unmarshal([]byte(block), &want) != nil {
		return false
	}
	return reflect.DeepEqual(r.Messages[0].Content, []any{want})
}

func TestParallelCallsMayInterleave(t *testing.T) {
	use := func(i int, id string) string {
		return event("contentBlockStart", fmt.Sprintf(`{"contentBlockIndex":%d,"start":{"toolUse":{"toolUseId":%q,"name":"look"}}}`, i, id))
	}
	in := func(i int, s string) string { return delta(i, `{"toolUse":{"input":`+wiretest.Quote(s)+`}}`) }
	frames := begun + piece("Both.") + use(1, "c1") + use(2, "c2") + in(1, `{"a"`) + in(2, `{"b"`) + in(1, `:1}`) + in(2, `:2}`) +
		event("messageStop", `{"stopReason":"tool_use"}`) + told
	var acc llm.Accumulator
	resp, err := serve(t, wiretest.Says(200, frameType, frames)).Call(t.Context(), wiretest.Streamed(&acc))
	if err != nil || resp.Stop != llm.StopToolCalls {
		t.Fatalf("%+v, %v", resp, err)
	}
	for _, r := range []*llm.Response{resp, acc.Response()} {
		c := r.ToolCalls()
		if len(c) != 2 || c[0].ID != "c1" || string(c[0].Arguments) != `{"a":1}` || c[1].ID != "c2" || string(c[1].Arguments) != `{"b":2}` {
			t.Errorf("the calls are %s", asJSON(c))
		}
	}
}

func TestCallsAreWhatAnEndWithCallsIsFor(t *testing.T) {
	body := answerOf("end_turn", tenFour, `{"toolUse":{"toolUseId":"c1","name":"look","input":{}}}`)
	resp, err := serve(t, wiretest.Says(200, wiretest.JSON, body)).Call(t.Context(), wiretest.Ask("Hello?"))
	if err != nil || resp.Stop != llm.StopToolCalls || resp.StopDetail != "end_turn" {
		t.Errorf("%+v, %v", resp, err)
	}
}

func TestArgumentsThatAreCutAreBadOutput(t *testing.T) {
	frames := begun + event("contentBlockStart", `{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"c1","name":"look"}}}`) +
		delta(0, `{"toolUse":{"input":"{\"a\":"}}`) + event("messageStop", `{"stopReason":"max_tokens"}`) + told
	_, err := serve(t, wiretest.Says(200, frameType, frames)).Call(t.Context(), wiretest.Streamed(&llm.Accumulator{}))
	e := llm.AsError(err)
	if e.Class != llm.BadOutput || e.Commit != llm.Committed || e.Usage.Output != 4 || len(e.Partial.ToolCalls()) != 0 {
		t.Errorf("%v: %+v", err, e)
	}
}
