package riverqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
)

// filled sets every exported field beneath v to something, so that one that is lost shows.
func filled(t *testing.T, v reflect.Value, depth int) {
	t.Helper()
	switch v.Type() {
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{ "a":  "<b>" }`))
		return
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC)))
		return
	case reflect.TypeFor[error]():
		v.Set(reflect.ValueOf(error(&llm.Error{Class: llm.RateLimited, Message: "slow", Err: &recorded{"a text", llm.Timeout}})))
		return
	case reflect.TypeFor[llm.Class]():
		v.Set(reflect.ValueOf(llm.Overloaded))
		return
	case reflect.TypeFor[http.Header]():
		v.Set(reflect.ValueOf(http.Header{"Set-Cookie": {"secret"}}))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				filled(t, v.Field(i), depth)
			}
		}
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			filled(t, v.Elem(), depth-1)
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			filled(t, v.Index(0), depth-1)
			filled(t, v.Index(1), depth-1)
		}
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		filled(t, value, depth-1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value)
	case reflect.String:
		v.SetString("text \x00 <é>")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1<<53 + 1)
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(3)
	case reflect.Float64:
		v.SetFloat(0.1 + 0.2)
	case reflect.Func:
	default:
		t.Fatalf("a field of kind %v: say in this test how it is filled, and in the codec how it is stored", v.Kind())
	}
}

// differs lists the fields, by their paths, in which two values of a type are not the same.
func differs(path string, a, b reflect.Value) []string {
	if a.Kind() == reflect.Struct && a.Type() != reflect.TypeFor[time.Time]() {
		var list []string
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() {
				list = append(list, differs(path+"."+f.Name, a.Field(i), b.Field(i))...)
			}
		}
		return list
	}
	if !reflect.DeepEqual(a.Interface(), b.Interface()) {
		return []string{fmt.Sprintf("%s was %#v, is %#v", path, a.Interface(), b.Interface())}
	}
	return nil
}

// survives stores v and reads it again.
func survives[T any](t *testing.T, v *T) *T {
	t.Helper()
	text, err := encode(v)
	must(t, err)
	read := new(T)
	must(t, decode(text, read))
	return read
}

func TestEveryExportedFieldOfARequestSurvives(t *testing.T) {
	t.Parallel()
	req := &llm.Request{}
	filled(t, reflect.ValueOf(req).Elem(), 6)
	req.Spent = llm.Spending{} // has columns of its own
	if d := differs("Request", reflect.ValueOf(req).Elem(), reflect.ValueOf(survives(t, req)).Elem()); len(d) > 0 {
		t.Errorf("lost on the way:\n%s", strings.Join(d, "\n"))
	}
	if part := req.Messages[1].Parts[1]; part.Call == nil || len(part.Result.Parts) == 0 || len(part.Data) == 0 || part.Extra["key"] == nil {
		t.Errorf("the test fills nothing deep down: %+v", part)
	}
}

func TestBytesThatAreNoTextSurvive(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"a\xff\xfeb\xc3", "\xed\xa0\x80", armor, armor + "!", "\x00", "", "plain"} {
		req := &llm.Request{
			System: s, Messages: []llm.Message{{Role: llm.Role(s), Parts: []llm.Part{llm.Text(s)}}}, Stop: []string{s},
			Labels: map[string]string{s: s, s + "2": "x"}, Extra: map[string]json.RawMessage{"openai": json.RawMessage(s), s + "3": nil},
		}
		if d := differs("Request", reflect.ValueOf(req).Elem(), reflect.ValueOf(survives(t, req)).Elem()); len(d) > 0 {
			t.Errorf("lost on the way:\n%s", strings.Join(d, "\n"))
		}
		err := &llm.Error{Message: s, Err: fmt.Errorf("%s: %w", s, llm.Overloaded)}
		if got := survives(t, err); got.Message != s || got.Err.Error() != err.Err.Error() {
			t.Errorf("%q: an error became %q: %q", s, got.Message, got.Err)
		}
	}
}

func TestEveryExportedFieldOfAResponseSurvives(t *testing.T) {
	t.Parallel()
	resp := &llm.Response{}
	filled(t, reflect.ValueOf(resp).Elem(), 6)
	if d := differs("Response", reflect.ValueOf(resp).Elem(), reflect.ValueOf(survives(t, resp)).Elem()); len(d) > 0 {
		t.Errorf("lost on the way:\n%s", strings.Join(d, "\n"))
	}
}

func TestAnErrorSurvivesWithoutHeadersBodiesAndAccount(t *testing.T) {
	t.Parallel()
	e := &llm.Error{}
	filled(t, reflect.ValueOf(e).Elem(), 5)
	got := survives(t, e)
	if got.Evidence.Header != nil || got.Evidence.Body != "" || got.Attempts != nil {
		t.Errorf("stored of %+v", got.Evidence)
	}
	e.Evidence.Header, e.Evidence.Body, e.Attempts = nil, "", nil
	if d := differs("Error", reflect.ValueOf(e).Elem(), reflect.ValueOf(got).Elem()); len(d) > 0 {
		t.Errorf("lost on the way:\n%s", strings.Join(d, "\n"))
	}
	if !errors.Is(got.Err, llm.RateLimited) || !errors.Is(got.Err, llm.Timeout) {
		t.Errorf("the cause is %v", got.Err)
	}
}

func TestWhatIsEmptyComesBackAsItWas(t *testing.T) {
	t.Parallel()
	zero := 0.0
	for _, req := range []*llm.Request{
		{},
		{Temperature: &zero, Stop: []string{}, Messages: []llm.Message{{}}, Labels: map[string]string{}},
		{Tools: []llm.Tool{{Parameters: nil}, {Parameters: json.RawMessage{}}, {Parameters: json.RawMessage("null")}}},
		{Messages: []llm.Message{{Parts: []llm.Part{{Call: &llm.ToolCall{Arguments: json.RawMessage(`{"cut`)}}}}}},
		{Messages: []llm.Message{{Parts: []llm.Part{{Data: []byte{}}, {Data: []byte{0xff, 0}}}}}},
	} {
		if got := survives(t, req); !reflect.DeepEqual(req, got) {
			t.Errorf("%#v came back as %#v", req, got)
		}
	}
}

func TestDeepCausesAreKeptAsText(t *testing.T) {
	t.Parallel()
	var err error = llm.Overloaded
	for range 50 {
		err = &llm.Error{Class: llm.Interrupted, Err: err}
	}
	got := survives(t, &llm.Attempt{Err: err})
	if depth := strings.Count(fmt.Sprint(got.Err), "interrupted"); !errors.Is(got.Err, llm.Interrupted) || depth != 50 {
		t.Errorf("of 50 causes %d are told: %v", depth, got.Err)
	}
}

func TestWhatIsStoredOtherwiseIsAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{`, `{"Messages": 1}`, `{"Messages": [{"Parts": "x"}]}`, `{"MaxTokens": "many"}`, `{"Stop": {}}`, `true`,
		`{"Format": true}`, `{"MaxTokens": true}`, `{"Messages": [{"Parts": [{"Data": "?"}]}]}`} {
		if err := decode(text, &llm.Request{}); err == nil {
			t.Errorf("%s was read", text)
		}
	}
	if err := decode(`{"Later": {"a": [1]}, "Model": "m"}`, &llm.Request{}); err != nil {
		t.Errorf("a field that a later version wrote: %v", err)
	}
	for _, text := range []string{`{"Err": 1}`, `{"Err": {"Text": 1}}`, `{"Class": "no_class"}`} {
		if err := decode(text, &llm.Attempt{}); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}
