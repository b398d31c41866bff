package openai

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

var scanSeeds = []string{
	`{}`, `[]`, `null`, `true`, `false`, `0`, `-1.5e+10`, `1e5`, `01`, `-`, `1.`, `.5`, `+1`, `"a"`, `"\u00e9\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`,
	`"\ud83d\u0041"`, `"\x"`, `"a`, "\"a\nb\"", `{"a":1,"b":[1,2,{"c":null}]}`, `{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`, `[1 2]`,
	` { "a" : [ ] } `, `{}{}`, "\xff", "\"\xff\"", `{"a":tru}`, `"\"\\\/\b\f\n\r\t"`, `{"":""}`, "", " ", `[[[[]]]]`, `"` + strings.Repeat("x", 300) + `"`,
	`{"id":"c","choices":[{"index":0,"delta":{"content":"hi","tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":null}],"usage":{"prompt_tokens":3}}`,
}

// FuzzScan holds the scanner against encoding/json: what one accepts the other does, with the same text.
func FuzzScan(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if strings.Count(string(in), "[")+strings.Count(string(in), "{") > maxDepth {
			t.Skip()
		}
		s := scan{b: in}
		if got, want := s.whole(), json.Valid(in) && utf8.Valid(in); got != want {
			t.Fatalf("%q is valid: %v, want %v", in, got, want)
		}
		var text string
		if err := json.Unmarshal(in, &text); err == nil && utf8.Valid(in) {
			s := scan{b: in}
			if got := string(s.text()); got != text {
				t.Fatalf("%q reads %q, want %q", in, got, text)
			}
		}
	})
}

// FuzzChunk holds the reader of chunks against encoding/json.
func FuzzChunk(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"choices":[{"message":{"content":[{"type":"text","text":"a"}]}}],"error":{"message":"x"},"x_groq":{"usage":{}}} {"more":1}`))
	f.Add([]byte(`{"choices":[{"index":1},{"index":0,"delta":{"content":"\u00e9","reasoning":"r","function_call":{"name":"n"}}}]}[DONE]`))
	f.Fuzz(func(t *testing.T, in []byte) {
		if strings.Count(string(in), "[")+strings.Count(string(in), "{") > maxDepth {
			t.Skip()
		}
		var c chunk
		rest, ok := c.parse(in)
		if !ok {
			if json.Valid(in) && utf8.Valid(in) && (&scan{b: in}).peek() == '{' {
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

func TestScanRefusesDeepNestingAtOnce(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		s := scan{b: []byte(strings.Repeat(open, 100_000))}
		if s.whole() {
			t.Errorf("%q nested 100,000 deep was accepted", open)
		}
		var c chunk
		if _, ok := c.parse([]byte(`{"x":` + strings.Repeat(open, 100_000))); ok {
			t.Errorf("a chunk with %q nested 100,000 deep was accepted", open)
		}
		if _, ok := c.parse([]byte(`{"choices":[{"delta":{"content":` + strings.Repeat(`[{"thinking":`, 100_000))); ok {
			t.Error("content nested 100,000 deep was accepted")
		}
	}
}

func TestMerge(t *testing.T) {
	tests := []struct{ doc, patch, want string }{
		{`{}`, `{}`, `{}`},
		{`{"a":1,"b":2}`, `{"b":3,"c":4}`, `{"a":1,"b":3,"c":4}`},
		{`{"a":1,"b":2}`, `{"a":null,"c":null}`, `{"b":2}`},
		{`{"a":{"b":1,"c":2}}`, `{"a":{"c":null,"d":{"e":null}}}`, `{"a":{"b":1,"d":{}}}`},
		{`{"a":[1]}`, `{"a":[2]}`, `{"a":[2]}`},
		{`{"a":1}`, `{"a":{"b":2}}`, `{"a":{"b":2}}`},
		{`{"a":{"b":1}}`, `{"a":"text"}`, `{"a":"text"}`},
		{`{"a":"null"}`, ` { "b" : "null" } `, `{"a":"null","b":"null"}`},
	}
	for _, tt := range tests {
		if got := string(merge([]byte(tt.doc), []byte(tt.patch))); got != tt.want {
			t.Errorf("%s with %s is %s, want %s", tt.doc, tt.patch, got, tt.want)
		}
	}
}
