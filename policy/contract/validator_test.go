package contract_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/policy/contract"
)

const ticketSchema = `{
	"type": "object", "required": ["answer", "ticket"], "additionalProperties": false,
	"properties": {
		"answer": {"type": "string", "minLength": 1},
		"ticket": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer", "minimum": 1}, "mail": {"format": "email"}}},
		"tags": {"type": "array", "items": {"enum": ["a", "b"]}},
		"by": {"additionalProperties": {"type": "integer"}},
		"kind": {"anyOf": [{"const": "x"}, {"type": "integer"}]}
	}
}`

func validator(t testing.TB, o contract.Output, files fs.FS) func(*llm.Request, *llm.Response) error {
	t.Helper()
	check, err := contract.Validator(o, files)
	if err != nil {
		t.Fatal(err)
	}
	return check
}

func answer(text string) *llm.Response {
	return &llm.Response{Parts: []llm.Part{llm.Text(text)}, Stop: llm.StopEnd}
}

func TestAnswersAreHeldAgainstTheOutputContract(t *testing.T) {
	schema := contract.Output{JSONSchema: ticketSchema}
	fenced := contract.Output{JSONSchema: ticketSchema, AllowFence: true}
	fields := contract.Output{RequiredFields: []string{"answer", "ticket.id"}}
	good := `{"answer":"yes","ticket":{"id":7}}`
	for _, k := range []struct {
		name string
		o    contract.Output
		text string
		want string // of the error; "": it is accepted
	}{
		{"good", schema, good, ""},
		{"white space", schema, "\n " + good + "\n", ""},
		{"a field is missing", schema, `{"answer":"yes"}`, `output.json_schema: at the top: "ticket" is required (rule #/required)`},
		{"one inside", schema, `{"answer":"yes","ticket":{}}`, `output.json_schema: at /ticket: "id" is required (rule #/properties/ticket/required)`},
		{"a type", schema, `{"answer":"yes","ticket":{"id":"secret"}}`,
			`output.json_schema: at /ticket/id: its type is string, not integer (rule #/properties/ticket/properties/id/type)`},
		{"a bound", schema, `{"answer":"yes","ticket":{"id":0}}`, `output.json_schema: at /ticket/id: it breaks the rule (rule #/properties/ticket/properties/id/minimum)`},
		{"a format", schema, `{"answer":"yes","ticket":{"id":1,"mail":"secret"}}`, `output.json_schema: at /ticket/mail: it breaks the rule (rule #/properties/ticket/properties/mail/format)`},
		{"an element", schema, `{"answer":"yes","ticket":{"id":1},"tags":["a","secret"]}`,
			`output.json_schema: at /tags/1: it is none of the values allowed (rule #/properties/tags/items/enum)`},
		{"an alternative", schema, `{"answer":"yes","ticket":{"id":1},"kind":"secret"}`,
			`output.json_schema: at /kind: it fits none or too many of the alternatives (rule #/properties/kind/anyOf)`},
		{"a field too many", schema, `{"answer":"yes","ticket":{"id":1},"secret":1}`,
			`output.json_schema: at the top: it has fields that are not allowed (rule #/additionalProperties)`},
		{"a field that the answer named", schema, `{"answer":"yes","ticket":{"id":1},"by":{"secret":"x"}}`,
			`output.json_schema: at /by/*: its type is string, not integer (rule #/properties/by/additionalProperties/type)`},
		{"of several the first", schema, `{"tags":["secret"],"answer":1,"ticket":{"id":"secret"}}`,
			`output.json_schema: at /answer: its type is number, not string`},
		{"text", schema, "secret", "output: the answer should be JSON: it is not JSON, at byte 1"},
		{"text around it", schema, "Here you are: " + good, "output: the answer should be JSON: it is not JSON, at byte 1"},
		{"text after it", schema, good + " secret", "output: the answer should be JSON: it is not JSON, at byte"},
		{"cut", schema, good[:20], "output: the answer should be JSON: it is not JSON: it ends too early or with something else, at byte 20"},
		{"nothing", schema, " ", "output: the answer should be JSON: at the top: there is no JSON"},
		{"a fence", schema, "```json\n" + good + "\n```", "output: the answer should be JSON: it is not JSON, at byte 1"},
		{"a fence that may be", fenced, "```json\n" + good + "\n```\n", ""},
		{"one without a language", fenced, "```\n" + good + "```", ""},
		{"none", fenced, good, ""},
		{"one of another language", fenced, "```yaml\n" + good + "\n```", "output: the answer should be JSON: it is not JSON, at byte 1"},
		{"one that is not closed", fenced, "```json\n" + good, "output: the answer should be JSON: it is not JSON, at byte 1"},
		{"two", fenced, "```json\n" + good + "\n```\n```json\n{}\n```", "output: the answer should be JSON: it is not JSON, at byte"},
		{"text around one", fenced, "Here:\n```json\n" + good + "\n```", "output: the answer should be JSON: it is not JSON, at byte 1"},

		{"fields", fields, good, ""},
		{"0 and false are values", fields, `{"answer":false,"ticket":{"id":0}}`, ""},
		{"a field less", fields, `{"answer":"secret"}`, `output.required_fields: the field "ticket.id" is missing or empty`},
		{"a field of nothing", fields, `{"answer":" ","ticket":{"id":1}}`, `output.required_fields: the field "answer" is missing or empty`},
		{"a field of null", fields, `{"answer":"a","ticket":{"id":null}}`, `output.required_fields: the field "ticket.id" is missing or empty`},
		{"a list on the way", fields, `{"answer":"a","ticket":[{"id":1}]}`, `output.required_fields: the field "ticket.id" is missing or empty`},
		{"no object", fields, `["secret"]`, `output.required_fields: the field "answer" is missing or empty`},

		{"a field twice", fields, `{"answer":"a","ticket":{"id":1,"id":2}}`, "output: the answer should be JSON: at /ticket/id: the field is given twice"},
		{"an unknown one twice", fields, `{"secret":1,"secret":2}`, "output: the answer should be JSON: at /*: the field is given twice"},
		{"a number nobody can hold", schema, `{"answer":"a","ticket":{"id":1e999999999}}`,
			"output: the answer should be JSON: at /ticket/id: the number is beyond what numbers here may be"},
		{"a number of many digits", schema, `{"answer":"a","ticket":{"id":` + strings.Repeat("9", 101) + `}}`,
			"output: the answer should be JSON: at /ticket/id: the number is beyond"},
		{"no UTF-8", fields, "{\"answer\":\"\xff\"}", "output: the answer should be JSON: at the top: it is not UTF-8"},
		{"deep", fields, strings.Repeat("[", 300) + strings.Repeat("]", 300), "output: the answer should be JSON: at the top: it is nested deeper than 200"},
		{"deeper", fields, strings.Repeat("[", 1e6), "output: the answer should be JSON: it is not JSON"},

		{"short", contract.Output{MinChars: 5}, "äöüß", "output.min_chars: the answer has 4 characters; 5 are the least"},
		{"long enough", contract.Output{MinChars: 4, MaxChars: 4}, "äöüß", ""},
		{"long", contract.Output{MaxChars: 3}, "äöüß", "output.max_chars: the answer has 4 characters; 3 are the most"},

		{"no source", contract.Output{Citations: contract.Citations{Field: "sources"}}, `{"sources":[]}`,
			`output.citations: the field "sources" names 0 sources; 1 are the least`},
		{"one source twice", contract.Output{Citations: contract.Citations{Field: "a.sources", Min: 2}}, `{"a":{"sources":["x","x","",null]}}`,
			`output.citations: the field "a.sources" names 1 sources; 2 are the least`},
		{"two sources", contract.Output{Citations: contract.Citations{Field: "sources", Min: 2}}, `{"sources":["x",{"url":"y"}]}`, ""},
		{"one mark twice", contract.Output{Citations: contract.Citations{Marker: `\[\d+\]`, Min: 2}}, "So [1], and so [1].",
			"output.citations: the text has 1 different marks of sources; 2 are the least"},
		{"two marks", contract.Output{Citations: contract.Citations{Marker: `\[\d+\]`, Min: 2}}, "So [1], and so [2].", ""},
		{"marks of nothing", contract.Output{Citations: contract.Citations{Marker: `x*`}}, "aäa",
			"output.citations: the text has 0 different marks of sources; 1 are the least"},
	} {
		t.Run(k.name, func(t *testing.T) {
			err := validator(t, k.o, nil)(&llm.Request{}, answer(k.text))
			switch {
			case k.want == "" && err != nil:
				t.Error(err)
			case k.want != "" && (err == nil || !strings.HasPrefix(err.Error(), k.want)):
				t.Errorf("got  %v\nwant %s", err, k.want)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("it quotes the answer: %v", err)
			}
		})
	}
}

func TestStopReasonsAreHeldAgainstTheContract(t *testing.T) {
	only := contract.Output{FinishReasons: []llm.StopReason{llm.StopEnd}}
	calls := contract.Output{FinishReasons: []llm.StopReason{llm.StopEnd, llm.StopToolCalls}, RequiredFields: []string{"answer"}}
	call := []llm.Part{{Kind: llm.PartToolCall, Call: &llm.ToolCall{ID: "1", Name: "find", Arguments: json.RawMessage("{}")}}}
	text := []llm.Part{llm.Text("x")}
	for _, k := range []struct {
		name  string
		o     contract.Output
		stop  llm.StopReason
		parts []llm.Part
		tools int
		want  string
	}{
		{"whole", contract.Output{}, llm.StopEnd, text, 0, ""},
		{"no reason", contract.Output{}, "", text, 0, ""},
		{"cut", contract.Output{}, llm.StopLength, text, 0, "output.truncation: the token limit cut the answer"},
		{"cut and accepted", contract.Output{Truncation: contract.TruncationAccepted}, llm.StopLength, text, 0, ""},
		{"cut and listed", contract.Output{FinishReasons: []llm.StopReason{llm.StopLength}}, llm.StopLength, text, 0, ""},
		{"no reason where one is needed", contract.Output{Truncation: contract.TruncationRefused}, "", text, 0,
			"output.truncation: the answer has no stop reason, so it may be cut"},
		{"another reason", only, llm.StopOther, text, 0, `output.finish_reasons: the stop reason is "other"; allowed are "end"`},
		{"a reason of the answer's own", only, "secret", text, 0, `output.finish_reasons: the stop reason is none that is known; allowed are "end"`},
		{"no reason among some", only, "", text, 0, `output.finish_reasons: the stop reason is none that is known`},
		{"a call", calls, llm.StopToolCalls, call, 0, ""},
		{"a call that is not allowed", only, llm.StopToolCalls, call, 1, `output.finish_reasons: the stop reason is "tool_calls"`},
		{"a call of a tool given", contract.Output{RequiredFields: []string{"answer"}}, llm.StopToolCalls, call, 1, ""},
		{"a call of none", contract.Output{RequiredFields: []string{"answer"}}, llm.StopToolCalls, call, 0,
			"output.finish_reasons: the answer calls tools, and the request has none"},
		{"calls announced and not made", calls, llm.StopToolCalls, text, 1, "output: the answer should be JSON"},
	} {
		t.Run(k.name, func(t *testing.T) {
			err := validator(t, k.o, nil)(&llm.Request{Tools: make([]llm.Tool, k.tools)}, &llm.Response{Parts: k.parts, Stop: k.stop})
			if k.want == "" && err != nil || k.want != "" && (err == nil || !strings.HasPrefix(err.Error(), k.want)) {
				t.Errorf("got %v, want %s", err, k.want)
			}
		})
	}
	if err := validator(t, contract.Output{}, nil)(nil, nil); err == nil {
		t.Error("no answer is accepted")
	}
}

func TestSchemasComeAsValuesTextAndFiles(t *testing.T) {
	files := fstest.MapFS{
		"answer.json":     {Data: []byte(`{"$ref": "defs/id.json#/$defs/id"}`)},
		"defs/id.json":    {Data: []byte(`{"$defs": {"id": {"$ref": "../number.json"}}}`)},
		"number.json":     {Data: []byte(`{"type": "integer"}`)},
		"with space.json": {Data: []byte(`{"type": "integer"}`)},
	}
	for name, o := range map[string]contract.Output{
		"a value":          {JSONSchema: map[string]any{"type": "integer"}},
		"a text":           {JSONSchema: `{"type": "integer"}`},
		"raw":              {JSONSchema: json.RawMessage(`{"type": "integer"}`)},
		"bytes":            {JSONSchema: []byte(`{"type": "integer"}`)},
		"draft 7":          {JSONSchema: `{"$schema": "http://json-schema.org/draft-07/schema#", "type": "integer"}`},
		"an id":            {JSONSchema: `{"$id": "https://example.com/a", "$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}`},
		"a file":           {JSONSchemaFile: "answer.json"},
		"a spaced file":    {JSONSchemaFile: "with space.json"},
		"a value of files": {JSONSchema: `{"$ref": "number.json"}`},
	} {
		check := validator(t, o, files)
		if err := check(nil, answer("7")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := check(nil, answer(`"7"`)); err == nil {
			t.Errorf("%s accepts what it should not", name)
		}
	}
}

// allOfTwice are schemas each of which refers twice to the next.
func allOfTwice(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref": "#/$defs/a0", "$defs": {`)
	for i := range n {
		fmt.Fprintf(&b, `"a%d": {"allOf": [{"$ref": "#/$defs/a%d"}, {"$ref": "#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"a%d": true}}`, n)
	return b.String()
}

func TestHostileSchemasAreRefused(t *testing.T) {
	for _, k := range []struct {
		name, schema, want string
	}{
		{"remote", `{"$ref": "https://user:pa55@example.com/x.json?key=k3y"}`, "it refers to https://example.com/x.json, and nothing is fetched"},
		{"remote dialect", `{"$schema": "https://example.com/dialect"}`, "it refers to https://example.com/dialect"},
		{"a file of the machine", `{"$ref": "file:///etc/passwd"}`, "it refers to file:///etc/passwd"},
		{"a file where none are", `{"$ref": "x.json"}`, `it is or refers to the file "x.json"`},
		{"an id elsewhere", `{"$id": "https://example.com/a", "$ref": "b"}`, "it refers to https://example.com/b"},
		{"deep", strings.Repeat(`{"not":`, 300) + "true" + strings.Repeat("}", 300), "nested deeper than 200"},
		{"large", `{"title": "` + strings.Repeat("x", 300<<10) + `"}`, "262144 are the most"},
		{"a reference by anchors", `{"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a"}}}`, "use $ref"},
		{"a cycle", `{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}`,
			"refers to itself without going deeper"},
		{"references that multiply", allOfTwice(40), "references multiply"},
		{"a pattern that is large enough", `{"pattern": "(a{1,900}b{1,900}){0,1}c"}`, ""},
		{"a large pattern", `{"pattern": "(a{0,100}b{0,100}c{0,100}){0,9}(x{0,900}y{0,900}z{0,900}w{0,900}){0,1}(x{0,900}y{0,900}z{0,900}w{0,900}){0,1}"}`,
			"at '/pattern': "},
		{"a large pattern, and why", `{"properties": {"x": {"pattern": "` + strings.Repeat("(a{1,900})", 20) + `"}}}`, "the pattern is too large"},
		{"a large pattern of names", `{"patternProperties": {"` + strings.Repeat("(a{1,900})", 20) + `": true}}`, "the pattern is too large"},
		{"an answer as a pattern", `{"format": "regex"}`, `the format "regex"`},
		{"a bad pattern", `{"pattern": "("}`, "regex"},
		{"a number nobody can hold", `{"minimum": 1e999999999}`, "the number is beyond"},
		{"a bad number", `{"minimum": 01}`, "it is not JSON"},
		{"not a number", `{"minimum": NaN}`, "it is not JSON"},
		{"a field twice", `{"type": "object", "type": "string"}`, "at /type: the field is given twice"},
		{"a type that is none", `{"type": "text"}`, "type"},
		{"a step of 0", `{"multipleOf": 0}`, "multipleOf"},
		{"a list", `[]`, "neither an object nor a boolean"},
		{"nothing", ``, "there is no JSON"},
		{"a reference to nowhere", `{"$ref": "#/$defs/x"}`, "x"},
	} {
		t.Run(k.name, func(t *testing.T) {
			_, err := contract.Validator(contract.Output{JSONSchema: k.schema}, nil)
			switch {
			case k.want == "" && err != nil:
				t.Error(err)
			case k.want != "" && (err == nil || !strings.Contains(err.Error(), k.want)):
				t.Errorf("got %v, want %s", err, k.want)
			case err != nil && (!strings.HasPrefix(err.Error(), "contract: output.json_schema: ") || strings.Contains(err.Error(), "\n") ||
				strings.Contains(err.Error(), "contract:///") || strings.Contains(err.Error(), "pa55") ||
				strings.Contains(err.Error(), "k3y")):
				t.Errorf("%v", err)
			}
		})
	}
	for _, k := range []struct {
		o    contract.Output
		want string
	}{
		{contract.Output{JSONSchema: func() {}}, "it is no JSON value"},
		{contract.Output{JSONSchema: 7}, "neither an object nor a boolean"},
		{contract.Output{JSONSchemaFile: "x.json"}, "not exist"},
		{contract.Output{JSONSchemaFile: "../x.json"}, "it is no path below the root"},
		{contract.Output{JSONSchemaFile: "bad.json"}, "bad.json: it is not JSON"},
		{contract.Output{RequiredFields: []string{"a."}}, "output.required_fields"},
		{contract.Output{Citations: contract.Citations{Marker: strings.Repeat("(a{1,900})", 20)}}, "output.citations.marker is no pattern"},
	} {
		_, err := contract.Validator(k.o, fstest.MapFS{"bad.json": {Data: []byte("{")}})
		if err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("got %v, want %s", err, k.want)
		}
	}
}

func TestRecursiveSchemasWork(t *testing.T) {
	check := validator(t, contract.Output{JSONSchema: `{"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "additionalProperties": false}`}, nil)
	if err := check(nil, answer(strings.Repeat(`{"left":`, 190)+"{}"+strings.Repeat("}", 190))); err != nil {
		t.Error(err)
	}
	if err := check(nil, answer(strings.Repeat(`{"left":`, 190)+"1"+strings.Repeat("}", 190))); err == nil {
		t.Error("a wrong leaf is accepted")
	}
}

func TestSchemasThatMultiplyDownAnAnswerAreCutShort(t *testing.T) {
	twice := `{"allOf": [{"properties": {"x": {"$ref": "#"}}}, {"additionalProperties": {"$ref": "#"}}, {"items": {"$ref": "#"}}, {"prefixItems": [{"$ref": "#"}]}]}`
	check := validator(t, contract.Output{JSONSchema: twice}, nil)
	for name, k := range map[string][2]string{"objects": {`{"x":`, "}"}, "lists": {"[", "]"}} {
		if err := check(nil, answer(strings.Repeat(k[0], 10)+"{}"+strings.Repeat(k[1], 10))); err != nil {
			t.Errorf("%s, shallow: %v", name, err)
		}
		err := check(nil, answer(strings.Repeat(k[0], 150)+"{}"+strings.Repeat(k[1], 150)))
		if err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("%s, deep: %v", name, err)
		}
	}
}

// onion is a gateway of a and b, each with its answers held against o.
func onion(t *testing.T, o contract.Output, a, b llm.Caller) llm.Caller {
	t.Helper()
	each := llm.New(middleware.Retry(middleware.RetryConfig{}), middleware.Validate(validator(t, o, nil)))
	return middleware.Fallback(middleware.FallbackConfig{},
		each.Then(&llm.Deployment{Name: "primary", Caller: a}), each.Then(&llm.Deployment{Name: "backup", Caller: b}))
}

func TestAFallbackThatLacksAFieldIsBadOutputAndNeverSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := contract.Output{RequiredFields: []string{"answer", "ticket"}}
		lacking := llmtest.Text(`{"answer":"secret"}`)
		down := llmtest.Script(llmtest.Fail(llm.NotFound))
		b := llmtest.Script(lacking)
		resp, err := onion(t, o, down, b).Call(t.Context(), &llm.Request{Messages: []llm.Message{llm.User("hi")}})
		if resp != nil || err == nil || b.Count() != 2 {
			t.Fatalf("%v, %v after %d calls of the fallback", resp, err, b.Count())
		}
		e := llm.AsError(err)
		bad := 0
		for _, a := range e.Attempts {
			if a.Class == llm.BadOutput && a.Deployment == "backup" {
				bad++
			}
			if a.Err != nil && strings.Contains(a.Err.Error(), "secret") {
				t.Errorf("the account quotes the answer: %v", a.Err)
			}
		}
		if bad != 2 || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), `the field "ticket" is missing`) {
			t.Errorf("%d bad answers in the account of %v", bad, err)
		}

		// The same answer of the primary is repeated once, then the fallback is asked.
		a := llmtest.Script(lacking)
		resp, err = onion(t, o, a, llmtest.Script(llmtest.Text(`{"answer":"a","ticket":1}`))).
			Call(t.Context(), &llm.Request{Messages: []llm.Message{llm.User("hi")}})
		if err != nil || resp.Deployment != "backup" || a.Count() != 2 {
			t.Errorf("%v, %v after %d calls of the primary", resp, err, a.Count())
		}

		// A refusal is an answer.
		refusal := llmtest.Step{Response: &llm.Response{Refusal: "no"}}
		resp, err = onion(t, o, llmtest.Script(refusal), llmtest.Script()).
			Call(t.Context(), &llm.Request{Messages: []llm.Message{llm.User("hi")}})
		if err != nil || !resp.Refused() {
			t.Errorf("%v, %v", resp, err)
		}
	})
}

func TestTheValidatorIsSafeForConcurrentUse(t *testing.T) {
	check := validator(t, contract.Output{JSONSchema: ticketSchema, Citations: contract.Citations{Marker: "yes"}}, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				if err := check(nil, answer(`{"answer":"yes","ticket":{"id":7}}`)); err != nil {
					t.Error(err)
				}
				if err := check(nil, answer(fmt.Sprintf(`{"answer":"yes","ticket":{"id":%q}}`, fmt.Sprint(i)))); err == nil {
					t.Error("a wrong answer is accepted")
				}
			}
		})
	}
	wg.Wait()
}

func FuzzValidator(f *testing.F) {
	for _, s := range []string{`{"answer":"yes","ticket":{"id":7}}`, "```json\n{}\n```", `{"a":1e400}`, `[[[1]]]`, `{"by":{"q7":"x"}}`} {
		f.Add(ticketSchema, s)
	}
	f.Add(`{"properties": {"a": {"multipleOf": 0.1, "maximum": 1e300}}, "unevaluatedProperties": {"type": "integer"}}`, `{"a":1e-400,"b":-0.0}`)
	f.Add(`{"items": {"$ref": "#"}, "uniqueItems": true, "contains": {"const": 1}}`, `[1,1.0,10e-1]`)
	f.Fuzz(func(t *testing.T, schema, text string) {
		o := contract.Output{JSONSchema: schema, AllowFence: true, Citations: contract.Citations{Field: "a.b", Marker: `\d`}}
		check, err := contract.Validator(o, nil)
		if err != nil {
			return
		}
		whole := check(nil, answer(text))
		if again := check(nil, answer(text)); fmt.Sprint(whole) != fmt.Sprint(again) {
			t.Errorf("two looks differ: %v, %v", whole, again)
		}
		if whole == nil && !json.Valid([]byte(text)) && !strings.Contains(text, "```") {
			t.Errorf("%q is accepted", text)
		}
	})
}

func FuzzAnswers(f *testing.F) {
	f.Add(`{"answer":"yes","ticket":{"id":7},"tags":["a"],"by":{"x":1},"kind":2}`)
	f.Add(`{"answer":"yes","ticket":{"id":7.0,"mail":"a@b.cd"},"kind":"x","left":{"right":[1e3,-0.0,null]}}`)
	f.Add("```json\n{\"sources\":[\"a\",{}],\"n\":1E-400}\n```")
	tree := `{"properties": {"left": {"$ref": "#"}, "right": {"uniqueItems": true, "contains": {"multipleOf": 0.5}, "items": {"anyOf": [{"$ref": "#"}, {"type": "number"}]}}}, ` +
		`"patternProperties": {"^n": {"exclusiveMinimum": -1, "maximum": 1e308}}, "unevaluatedProperties": {"not": {"type": "boolean"}}}`
	var checks []func(*llm.Request, *llm.Response) error
	for _, o := range []contract.Output{
		{JSONSchema: ticketSchema}, {JSONSchema: tree, AllowFence: true}, {RequiredFields: []string{"answer", "ticket.id"}},
		{Citations: contract.Citations{Field: "sources", Marker: `\w`, Min: 2}, MinChars: 3, MaxChars: 50},
	} {
		checks = append(checks, validator(f, o, nil))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i, check := range checks {
			err := check(nil, answer(text))
			if again := check(nil, answer(text)); fmt.Sprint(err) != fmt.Sprint(again) {
				t.Errorf("check %d: two looks differ: %v, %v", i, err, again)
			}
			if err == nil && i != 1 && !json.Valid([]byte(text)) {
				t.Errorf("check %d accepts %q", i, text)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("check %d: more than a line: %v", i, err)
			}
		}
	})
}

func BenchmarkValidator(b *testing.B) {
	check := validator(b, contract.Output{JSONSchema: ticketSchema, RequiredFields: []string{"answer", "ticket.id"}}, nil)
	tags := strings.Repeat(`"a","b",`, 60)
	text := `{"answer":"` + strings.Repeat("word ", 270) + `","ticket":{"id":7},"tags":[` + tags + `"a"],"by":{"x":1,"y":2}}`
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	resp := answer(text)
	for b.Loop() {
		if err := check(nil, resp); err != nil {
			b.Fatal(err)
		}
	}
}
