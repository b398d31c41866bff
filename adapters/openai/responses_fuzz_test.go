package openai

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// Streams, one event a line.
var responseSeeds = []string{
	`{"type":"response.created","response":{"id":"r","model":"m","status":"in_progress","output":[]}}
{"type":"response.output_item.added","output_index":0,"item":{"id":"i","type":"message","status":"in_progress","content":[],"role":"assistant"}}
{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":"Hel","logprobs":[]}
{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":"l\u00f6\ud83d\ude00"}
{"type":"response.output_item.done","output_index":0,"item":{"id":"i","type":"message","content":[{"type":"output_text","text":"Hellö😀!","annotations":[]}]}}
{"type":"response.completed","response":{"id":"r","status":"completed","usage":{"input_tokens":3,"output_tokens":2},"output":[{"type":"message","content":[{"text":"Hellö😀!"}]}]}}`,
	`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\":"}
{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","name":"f","call_id":"c","arguments":""}}
{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"a\":1}"}
{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","name":"f","call_id":"c","arguments":{"a":1}}}
{"type":"response.completed","response":{"output":[]}}`,
	`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"a"}
{"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":"b"}
{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"c"}
{"type":"response.refusal.delta","output_index":1,"content_index":0,"delta":"No."}
{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"},"output":[{"type":"reasoning","summary":[{"text":"a"},{"text":"c"}]},{"type":"message","content":[{"refusal":"No."}]},{"type":"computer_call","call_id":"x"}]}}`,
	`{"type":"error","code":"rate_limit_exceeded","message":"Try again in 2s","param":null}`,
	`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"x"}}}`,
	`{"object":"response","status":"queued","output":[],"error":null}`,
	`{"output":[{"type":"image_generation_call","result":"AA=="},null,7,[],{"type":null,"content":"x","summary":{}}]}`,
	`{"type":"response.output_text.delta","delta":{"a":1},"output_index":"1","content_index":-1}`,
	`{"delta":"x","type":"response.output_text.delta"}{"type":1}`,
	`{"":"","":1,"Delta":"No."}`,
	`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","name":"f","call_id":"c"}}
{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","name":"g","call_id":"d"}}
{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{}"}
{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}
{"type":"response.completed","response":{"output":[]}}`,
}

// FuzzEvent holds the reader of events against encoding/json.
func FuzzEvent(f *testing.F) {
	for _, s := range responseSeeds {
		for line := range strings.Lines(s) {
			f.Add([]byte(line))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if strings.Count(string(in), "[")+strings.Count(string(in), "{") > 500 {
			return // deeper than the two agree on
		}
		var e event
		rest, ok := e.parse(in)
		if !ok {
			if wire.IsObject(in) {
				t.Fatalf("%q was refused", in)
			}
			return
		}
		head := in[:len(in)-len(rest)]
		if !json.Valid(head) || !utf8.Valid(head) {
			t.Fatalf("%q was accepted", head)
		}
		var want map[string]any // a struct would take capitals too
		if json.Unmarshal(head, &want) != nil || bytes.Contains(bytes.ToLower(head), []byte(`\u`)) {
			return
		}
		if s, isText := want["delta"].(string); isText && once(head, "delta") && string(e.delta) != s {
			t.Fatalf("%q has the delta %q, want %q", head, e.delta, s)
		}
		if s, isText := want["type"].(string); isText && once(head, "type") && string(e.kind) != s {
			t.Fatalf("%q is of the type %q, want %q", head, e.kind, s)
		}
	})
}

// once reports whether a key is there one time: encoding/json takes the last.
func once(b []byte, key string) bool { return bytes.Count(b, []byte(key)) == 1 }

// FuzzResponse takes in streams: whatever comes, an answer is what was handed out of it.
func FuzzResponse(f *testing.F) {
	for _, s := range responseSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var o output
		var sum llm.Accumulator
		var a answer
		a.sink = func(d llm.Delta) error {
			if d.Text == "" && d.Call == nil {
				t.Fatalf("an empty delta: %+v", d)
			}
			sum.Add(d)
			return nil
		}
		for line := range strings.Lines(in) {
			data := []byte(line)
			rest, ok := o.parse(data)
			if !ok {
				continue
			}
			o.reports(data[:len(data)-len(rest)])
			if err := o.take(&a); err != nil {
				t.Fatal(err)
			}
			for i := range data { // its bytes are another event's from now on
				data[i] = 'x'
			}
			if a.finish != "" {
				break
			}
		}
		if a.finish == "" || o.broken(&a, "") != nil {
			return
		}
		got, want := o.response(&a, "p"), sum.Response()
		if got.Refusal != want.Refusal {
			t.Fatalf("refusal %q, handed out %q", got.Refusal, want.Refusal)
		}
		var parts []llm.Part
		for _, p := range got.Parts {
			for _, v := range p.Extra {
				if !json.Valid(v) {
					t.Fatalf("%q is no JSON", v)
				}
			}
			if p.Text != "" || p.Call != nil && len(p.Call.Arguments) > 0 && p.Call.Name != "" {
				p.Extra = nil
				parts = append(parts, p)
			}
		}
		if !sameParts(parts, want.Parts) {
			both, _ := json.MarshalIndent([][]llm.Part{parts, want.Parts}, "", " ")
			t.Fatalf("what the answer has, and what was handed out:\n%s", both)
		}
	})
}

// sameParts compares parts of each kind in their order: pieces of several items may have come by turns. The order of thoughts
// is nobody's concern.
func sameParts(a, b []llm.Part) bool {
	sorted := func(parts []llm.Part) map[llm.PartKind][]llm.Part {
		by := map[llm.PartKind][]llm.Part{}
		for _, p := range parts {
			by[p.Kind] = append(by[p.Kind], p)
		}
		slices.SortFunc(by[llm.PartReasoning], func(a, b llm.Part) int { return strings.Compare(a.Text, b.Text) })
		return by
	}
	return reflect.DeepEqual(sorted(a), sorted(b))
}

func TestEventsRefuseDeepNestingAtOnce(t *testing.T) {
	var e event
	for _, field := range []string{"response", "item", "error", "other", "output"} {
		if _, ok := e.parse([]byte(`{"` + field + `":` + strings.Repeat(`{"a":`, 100_000))); ok {
			t.Errorf("%s nested 100,000 deep was accepted", field)
		}
	}
}
