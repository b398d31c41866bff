package openai

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// FuzzChunk holds the reader of chunks against encoding/json.
func FuzzChunk(f *testing.F) {
	f.Add([]byte(`{"id":"c","choices":[{"index":0,"delta":{"content":"hi","tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]},` +
		`"finish_reason":null}],"usage":{"prompt_tokens":3}}`))
	for _, s := range []string{`{}`, `[]`, `{"a":1,}`, ` { "a" : [ ] } `, `{}{}`, "{\"\xff\":1}", `{"a":tru}`, "", `{"choices":"\ud83d"}`} {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"choices":[{"message":{"content":[{"type":"text","text":"a"}]}}],"error":{"message":"x"},"x_groq":{"usage":{}}} {"more":1}`))
	f.Add([]byte(`{"choices":[{"index":1},{"index":0,"delta":{"content":"\u00e9","reasoning":"r","function_call":{"name":"n"}}}]}[DONE]`))
	f.Fuzz(func(t *testing.T, in []byte) {
		if strings.Count(string(in), "[")+strings.Count(string(in), "{") > 500 {
			return // deeper than the two agree on
		}
		var c chunk
		rest, ok := c.parse(in)
		if !ok {
			if wire.IsObject(in) {
				t.Fatalf("%q was refused", in)
			}
			return
		}
		if head := in[:len(in)-len(rest)]; !json.Valid(head) || !utf8.Valid(head) {
			t.Fatalf("%q was accepted", head)
		}
		var a answer
		if err := a.add(&c); err != nil {
			t.Fatal(err)
		}
		if r := a.response("p"); len(r.Text()) > 3*len(in) {
			t.Fatalf("%d bytes of text from %d", len(r.Text()), len(in))
		}
	})
}

func TestChunkRefusesDeepNestingAtOnce(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		var c chunk
		if _, ok := c.parse([]byte(`{"x":` + strings.Repeat(open, 100_000))); ok {
			t.Errorf("a chunk with %q nested 100,000 deep was accepted", open)
		}
		if _, ok := c.parse([]byte(`{"choices":[{"delta":{"content":` + strings.Repeat(`[{"thinking":`, 100_000))); ok {
			t.Error("content nested 100,000 deep was accepted")
		}
	}
}

// What was read from a cache is a part of the input, whatever a gateway says the input is.
func TestInputHoldsWhatWasCached(t *testing.T) {
	for usage, want := range map[string]llm.Usage{
		`{"prompt_tokens":-3,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":500}}`:  {Input: 500, CachedInput: 500, Output: 1, Estimated: true},
		`{"prompt_tokens":20,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":500}}`:  {Input: 500, CachedInput: 500, Output: 1, Estimated: true},
		`{"prompt_tokens":500,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":500}}`: {Input: 500, CachedInput: 500, Output: 1},
	} {
		read := scanOf([]byte(usage))
		if u, ok := read.tokens(); !ok || u != want {
			t.Errorf("%s is %+v, want %+v", usage, u, want)
		}
	}
}
