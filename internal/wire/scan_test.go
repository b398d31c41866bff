package wire

import (
	"bytes"
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
			return // deeper than the two agree on
		}
		var s Scan
		s.Reset(in)
		if got, want := s.Whole(), json.Valid(in) && utf8.Valid(in); got != want {
			t.Fatalf("%q is valid: %v, want %v", in, got, want)
		}
		var text string
		if err := json.Unmarshal(in, &text); err == nil && utf8.Valid(in) {
			var s Scan
			s.Reset(in)
			if got := string(s.Text()); got != text {
				t.Fatalf("%q reads %q, want %q", in, got, text)
			}
		}
	})
}

func TestScanRefusesDeepNestingAtOnce(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		if IsJSON([]byte(strings.Repeat(open, 100_000))) {
			t.Errorf("%q nested 100,000 deep was accepted", open)
		}
	}
}

func TestJSONMustBeInWholeCharacters(t *testing.T) {
	for in, want := range map[string][2]bool{
		`{"a":1}`: {true, true}, " {} \n": {true, true}, `[{}]`: {true, false}, `{} {}`: {false, false}, "": {false, false},
		"{\"a\":\"caf\xc3\"}": {false, false}, `{"a":tru}`: {false, false}, `"{}"`: {true, false},
	} {
		if got := [2]bool{IsJSON([]byte(in)), IsObject([]byte(in))}; got != want {
			t.Errorf("%q: JSON %v, an object %v; want %v", in, got[0], got[1], want)
		}
	}
}

func TestMarshalLeavesTextAsItIs(t *testing.T) {
	if b, err := Marshal(map[string]string{"a": "<b>&"}); err != nil || string(b) != `{"a":"<b>&"}` {
		t.Errorf("%s, %v", b, err)
	}
	if _, err := Marshal(func() {}); err == nil {
		t.Error("a function was written")
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
		{`{"b":1,"a":{"z":1,"y":2}}`, `{"c":{"z":1,"y":2,"n":null},"a":{"x":3}}`, `{"b":1,"a":{"z":1,"y":2,"x":3},"c":{"z":1,"y":2}}`},
		{`{"a":1}`, `{"\u0061":2}`, `{"a":2}`},
		{`{"a":"null"}`, ` { "b" : "null" } `, `{"a":"null","b":"null"}`},
	}
	for _, tt := range tests {
		if got := string(Merge([]byte(tt.doc), []byte(tt.patch))); got != tt.want {
			t.Errorf("%s with %s is %s, want %s", tt.doc, tt.patch, got, tt.want)
		}
	}
}

func TestAPatchOfTwoDoesWhatBothDo(t *testing.T) {
	for _, tt := range []struct{ doc, first, second string }{
		{`{"a":1,"b":2}`, `{"a":3}`, `{"a":null}`},
		{`{"a":1,"b":2}`, `{"a":null}`, `{"c":4}`},
		{`{"a":{"b":1,"c":2}}`, `{"x":1}`, `{"a":{"b":null}}`},
		{`{"a":{"b":1,"c":2}}`, `{"a":{"b":null}}`, `{"a":{"d":{"e":1}}}`},
	} {
		doc, first, second := []byte(tt.doc), []byte(tt.first), []byte(tt.second)
		one, two := Merge(doc, Compose(first, second)), Merge(Merge(doc, first), second)
		if !bytes.Equal(one, two) {
			t.Errorf("%s with %s and %s is %s at once, %s in two steps", doc, first, second, one, two)
		}
	}
}

func TestACountIsNoLessThanNothing(t *testing.T) {
	for raw, want := range map[string]int{
		"5": 5, `"5"`: 5, `" 5 "`: 5, "5.9": 5, "1e3": 1000, "0": 0, "-0": 0, "null": 0, "-5": -1, `"-5"`: -1, `"many"`: -1, `""`: -1, "1e99": -1,
		"{}": -1, "[5]": -1, "true": -1, `"NaN"`: -1, `"Inf"`: -1, "": -1, "1099511627776": 1 << 40, "1099511627777": -1,
	} {
		n, ok := Count([]byte(raw))
		if !ok {
			if n != 0 {
				t.Errorf("%s is none and %d", raw, n)
			}
			n = -1
		}
		if n != want {
			t.Errorf("%s is %d, want %d", raw, n, want)
		}
	}
}

func TestANumberMayBeAText(t *testing.T) {
	for raw, want := range map[string]int{`"7"`: 7, `7`: 7, `"x"`: 0, `"-1"`: -1, `[7]`: 0} {
		var s Scan
		s.Reset([]byte(raw))
		if got := s.Num(); got != want || s.Bad() || s.Peek() != 0 {
			t.Errorf("%s is %d, want %d", raw, got, want)
		}
	}
}
