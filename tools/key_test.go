package tools

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestArgumentsAreWrittenAsRFC8785Has(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"section 3.2.2", "{\n\"numbers\": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],\n" +
			`"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",` + "\n\"literals\": [null, true, false]\n}",
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		// That of section 3.2.3: sorted by UTF-16 code units.
		{"section 3.2.3", `{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",` +
			`"\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\"," +
				"\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"},
		// Of appendix B.
		{"appendix B", `{"n":[0,-0,5e-324,-5e-324,1.7976931348623157e308,9007199254740992,-9007199254740992,295147905179352830000,` +
			`9.999999999999997e22,1e23,1.0000000000000001e23,999999999999999700000,999999999999999900000,1e21,9.999999999999997e-7,` +
			`0.000001,333333333.3333332,333333333.33333325,-0.0000033333333333333333,1424953923781206.2]}`,
			`{"n":[0,0,5e-324,-5e-324,1.7976931348623157e+308,9007199254740992,-9007199254740992,295147905179352830000,` +
				`9.999999999999997e+22,1e+23,1.0000000000000001e+23,999999999999999700000,999999999999999900000,1e+21,9.999999999999997e-7,` +
				`0.000001,333333333.3333332,333333333.33333325,-0.0000033333333333333333,1424953923781206.2]}`},
		{"nothing", "", "{}"},
		{"space", " \n ", "{}"},
		{"an empty object", " { } ", "{}"},
		{"a long fraction", `{"a":3.14159265358979323846}`, `{"a":3.141592653589793}`},
		{"zeros", `{"a":0e999999999999999999999,"b":0.00,"c":100,"d":1e2,"e":1.50E+1}`, `{"a":0,"b":0,"c":100,"d":100,"e":15}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := canonicalObject(json.RawMessage(c.in))
			if err != nil || string(got) != c.want {
				t.Fatalf("canonicalObject = %s, %v\nwant %s", got, err, c.want)
			}
			if again, err := canonicalObject(got); err != nil || string(again) != c.want {
				t.Errorf("once more it is %s, %v", again, err)
			}
		})
	}
}

func TestWhatHasNoCanonicalFormIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ in, says string }{
		"an array":                {`[1]`, "must be one JSON object"},
		"a text":                  {`"a"`, "must be one JSON object"},
		"null":                    {`null`, "must be one JSON object"},
		"cut":                     {`{"a":`, "not a JSON object that can be told"},
		"two objects":             {`{}{}`, "not a JSON object that can be told"},
		"a key twice":             {`{"a":1,"\u0061":2}`, "Duplicate key"},
		"a key twice deep inside": {`{"x":[{"a":1,"a":1}]}`, "Duplicate key"},
		"half a surrogate":        {`{"a":"\ud800"}`, "surrogate"},
		"no UTF-8":                {"{\"a\":\"\xff\"}", "UTF-8"},
		"NaN":                     {`{"a":NaN}`, "NaN"},
		"hexadecimal":             {`{"a":0x10}`, "0x10"},
		"beyond a double":         {`{"a":1e400}`, "out of range"},
		"below a double":          {`{"a":1e-400}`, "write it as a string"},
		"an exponent beyond all":  {`{"a":1e-99999999999999999999}`, "write it as a string"},
		"an id of 17 digits":      {`{"a":90071992547409931}`, "90071992547409931 is not what"},
		"the first odd one":       {`{"a":-9007199254740993}`, "write it as a string"},
		"a long number with more": {`{"a":[9007199254740993.5]}`, "write it as a string"},
		"5 MB":                    {`{"a":"` + strings.Repeat("x", 5<<20) + `"}`, "at most 4194304"},
		"nested too deep":         {`{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, "nesting"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := canonicalObject(json.RawMessage(c.in))
			if err == nil || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 300 {
				t.Errorf("canonicalObject = %.100s, %v; want %q in the error", got, err, c.says)
			}
			if key, err := Key("t", "x", json.RawMessage(c.in), 0); err == nil {
				t.Errorf("Key = %s", key)
			}
		})
	}
}

func TestAKeyTellsCallsApart(t *testing.T) {
	key := func(turn, tool, args string, ordinal int) string {
		k, err := Key(turn, tool, json.RawMessage(args), ordinal)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	base := key("turn", "tool", `{"a":1}`, 0)
	for _, same := range []string{`{"a":1}`, ` {"a" : 1.0e0 } `} {
		if key("turn", "tool", same, 0) != base {
			t.Errorf("%s has another key", same)
		}
	}
	seen := map[string]bool{base: true}
	for _, k := range []string{
		key("turn2", "tool", `{"a":1}`, 0), key("turn", "tool2", `{"a":1}`, 0), key("turn", "tool", `{"a":2}`, 0),
		key("turn", "tool", `{"a":1}`, 1), key("turnt", "ool", `{"a":1}`, 0), key("tur", "ntool", `{"a":1}`, 0),
		key("turn", "tool", `{"a":"1"}`, 0), key("turn", "tool", "", 0),
	} {
		if seen[k] || len(k) != 64 {
			t.Errorf("the key %q is another call's", k)
		}
		seen[k] = true
	}
	// Records outlive a program, so the key of a call never changes.
	const fixed = "bdfa0da2b405f1b63aebc8f22be6eb458bb76e31e4d353dffab2a8b9eaa860c2"
	if base != fixed {
		t.Errorf("the key is %s, and was %s", base, fixed)
	}
}

func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, `{"b":[1e5,-0.10,{"c":"\u00e9\ud83d\ude00"}],"a":null}`, `{"a":1e-400}`, `{"a":"\ud800"}`, `{"a":123456789012345678}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := canonicalObject(in)
		if err != nil {
			return
		}
		again, err := canonicalObject(out)
		if err != nil || string(again) != string(out) {
			t.Fatalf("%q becomes %q, and that %q, %v", in, out, again, err)
		}
		var v map[string]any
		if err := json.Unmarshal(out, &v); err != nil {
			t.Fatalf("%q becomes %q: %v", in, out, err)
		}
	})
}
