package gemini

import (
	"encoding/json"
	"testing"

	"github.com/modelchain/llm/internal/wire"
)

// FuzzWalk holds a walk against encoding/json: whatever passes for valid is walked through, member by member, to its end.
func FuzzWalk(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `{"a":1}`, ` { "a" : [ 1 , -2.5e+3 , "x" ] , "b\"\\" : { "c" : null } } `, `[[],[{}],{"]":"}"}]`, `{"":"\\"}`, `"text"`,
		`{"a":"\u00e9\ud83d\ude00"}`, `[true,false,null]`, `{"a":"\"","b":"{["}`, `12`, "[1\n,\t2\r]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !wire.IsJSON(data) || !json.Valid(data) {
			return
		}
		through(t, trim(data), 0)
	})
}

func trim(data []byte) []byte {
	var raw json.RawMessage
	if json.Unmarshal(data, &raw) != nil {
		return nil
	}
	for len(raw) > 0 && raw[0] <= ' ' {
		raw = raw[1:]
	}
	for len(raw) > 0 && raw[len(raw)-1] <= ' ' {
		raw = raw[:len(raw)-1]
	}
	return raw
}

func through(t *testing.T, data []byte, depth int) {
	t.Helper()
	var list, got []json.RawMessage
	if isList(data) {
		if err := json.Unmarshal(data, &list); err != nil {
			t.Fatal(err)
		}
	}
	var fields map[string]json.RawMessage
	if isFields(data) {
		if err := json.Unmarshal(data, &fields); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]json.RawMessage{}
	w := walkOf(data)
	for n := 0; w.more(); n++ {
		key, peek := w.key, w
		v := peek.value()
		switch n % 3 { // each way of stepping on must lead to the next member
		case 0:
			w.value()
		case 1:
			inner := w.enter()
			for inner.more() {
				deeper := inner.enter()
				for deeper.more() {
				}
				inner.leave(&deeper)
			}
			w.leave(&inner)
		}
		if !json.Valid(v) {
			t.Fatalf("%q in %q is no value", v, data)
		}
		if isFields(data) {
			var name string
			if err := json.Unmarshal([]byte(`"`+string(key)+`"`), &name); err != nil {
				t.Fatalf("%q in %q is no key", key, data)
			}
			seen[name] = v
		}
		got = append(got, v)
		if depth < 20 {
			through(t, v, depth+1)
		}
	}
	if isList(data) && len(got) != len(list) || len(seen) != len(fields) {
		t.Fatalf("%q has %d elements and %d fields, the walk saw %d and %d", data, len(list), len(fields), len(got), len(seen))
	}
	for i := range list {
		if string(list[i]) != string(got[i]) {
			t.Fatalf("element %d of %q is %q", i, data, got[i])
		}
	}
	for name, v := range fields {
		if string(seen[name]) != string(v) {
			t.Fatalf("field %q of %q is %q", name, data, seen[name])
		}
	}
}

func TestTextIsReadAsItIsMeant(t *testing.T) {
	for in, want := range map[string]string{
		`"plain"`: "plain", `""`: "", `"a\n\"b\"\\"`: "a\n\"b\"\\", `"\u00e9\ud83d\ude00"`: "é😀", `12`: "", `null`: "", `{}`: "", ``: "",
	} {
		if got := text([]byte(in)); got != want {
			t.Errorf("%s is %q, want %q", in, got, want)
		}
	}
}
