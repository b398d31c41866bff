package llm_test

import (
	"reflect"
	"testing"

	"github.com/modelchain/llm"
)

// fill sets everything that v can reach to something else than its zero value.
func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth)
			}
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 4))
			fill(v.Index(0), depth-1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		e := reflect.New(v.Type().Elem()).Elem()
		fill(e, depth)
		v.SetMapIndex(reflect.ValueOf("k"), e)
	case reflect.String:
		v.SetString("s")
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(7)
	}
}

// shared names what a and b both point to.
func shared(path string, a, b reflect.Value) (found []string) {
	same := func() {
		if !a.IsNil() && a.Pointer() == b.Pointer() {
			found = append(found, path)
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		if same(); !a.IsNil() {
			found = append(found, shared(path, a.Elem(), b.Elem())...)
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() {
				found = append(found, shared(path+"."+f.Name, a.Field(i), b.Field(i))...)
			}
		}
	case reflect.Slice:
		same()
		for i := range a.Len() {
			found = append(found, shared(path+"[]", a.Index(i), b.Index(i))...)
		}
	case reflect.Map:
		same()
		for _, k := range a.MapKeys() {
			found = append(found, shared(path+"[k]", a.MapIndex(k), b.MapIndex(k))...)
		}
	}
	return found
}

func TestCopiesShareNothingThatCouldBeWrittenTo(t *testing.T) {
	var req llm.Request
	fill(reflect.ValueOf(&req).Elem(), 6)
	var resp llm.Response
	fill(reflect.ValueOf(&resp).Elem(), 6)
	if len(req.Messages[0].Parts[0].Result.Parts) == 0 || len(resp.Parts[0].Extra["k"]) == 0 {
		t.Fatal("not everything is filled in")
	}
	a, b := req.Detach(), resp.Clone()
	if !reflect.DeepEqual(*a, req) || !reflect.DeepEqual(*b, resp) {
		t.Error("a copy is not what it is of")
	}
	if s := shared("Request", reflect.ValueOf(req), reflect.ValueOf(*a)); s != nil {
		t.Errorf("shared: %v", s)
	}
	if s := shared("Response", reflect.ValueOf(resp), reflect.ValueOf(*b)); s != nil {
		t.Errorf("shared: %v", s)
	}
	var none *llm.Request
	var nothing *llm.Response
	if none.Detach() != nil || nothing.Clone() != nil {
		t.Error("nothing became something")
	}
	if c := (&llm.Response{}).Clone(); c.Parts != nil || c.Extra != nil {
		t.Errorf("an empty answer became %+v", c)
	}
}
