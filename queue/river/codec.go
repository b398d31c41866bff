package riverqueue

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/modelchain/llm"
)

// encode is v as JSON. It keeps every exported field of a struct, also those that come later, and what encoding/json alone
// would not: raw JSON byte for byte, empty or nil as it was, and errors. Left out are what is marked json:"-", functions, and
// what leaves tells. Texts and raw JSON with bytes that are not UTF-8, which JSON has no room for, are armored.
func encode(v any) (string, error) {
	tree, err := (&encoder{}).value(reflect.ValueOf(v))
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(tree)
	return string(text), err
}

// armor begins a text that is in base64.
const armor = "\x00base64:"

// armored is s as JSON keeps it.
func armored(s string) string {
	if utf8.ValidString(s) && !strings.HasPrefix(s, armor) {
		return s
	}
	return armor + base64.StdEncoding.EncodeToString([]byte(s))
}

func unarmored(s string) (string, error) {
	code, ok := strings.CutPrefix(s, armor)
	if !ok {
		return s, nil
	}
	raw, err := base64.StdEncoding.DecodeString(code)
	return string(raw), err
}

// leaves tells what is not stored: headers and bodies of providers, which nobody checks for what they hold, and the account
// of an error, which is in the ledger.
func leaves(t reflect.Type, field *reflect.StructField) bool {
	switch {
	case !field.IsExported() || field.Tag.Get("json") == "-" || field.Type.Kind() == reflect.Func:
		return true
	case t == reflect.TypeFor[llm.Evidence]():
		return field.Name == "Header" || field.Name == "Body"
	case t == reflect.TypeFor[llm.Error]():
		return field.Name == "Attempts"
	}
	return false
}

// maxNesting bounds how deep errors in errors are kept. Deeper ones are kept as text.
const maxNesting = 8

type encoder struct{ errors int }

func (e *encoder) value(v reflect.Value) (any, error) {
	if !v.IsValid() {
		return nil, nil //nolint:nilnil // null is the value
	}
	switch t := v.Type(); {
	case t == reflect.TypeFor[json.RawMessage]():
		if v.IsNil() {
			return nil, nil //nolint:nilnil // null is the value
		}
		return armored(string(v.Bytes())), nil
	case t == reflect.TypeFor[error]():
		return e.failure(v)
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) && t.Kind() != reflect.Pointer:
		return v.Interface(), nil
	}
	switch v.Kind() {
	case reflect.String:
		return armored(v.String()), nil
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil, nil //nolint:nilnil // null is the value
		}
		return e.value(v.Elem())
	case reflect.Struct:
		return e.fields(v)
	case reflect.Slice:
		if v.IsNil() {
			return nil, nil //nolint:nilnil // null is the value
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Bytes(), nil
		}
		list := make([]any, v.Len())
		for i := range list {
			item, err := e.value(v.Index(i))
			if err != nil {
				return nil, err
			}
			list[i] = item
		}
		return list, nil
	case reflect.Map:
		if v.IsNil() {
			return nil, nil //nolint:nilnil // null is the value
		}
		m := make(map[string]any, v.Len())
		for key, item := range v.Seq2() {
			tree, err := e.value(item)
			if err != nil {
				return nil, err
			}
			m[armored(key.String())] = tree
		}
		return m, nil
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128, reflect.Array:
		return nil, fmt.Errorf("a value of type %v cannot be stored", v.Type())
	}
	return v.Interface(), nil
}

func (e *encoder) fields(v reflect.Value) (any, error) {
	m := map[string]any{}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if leaves(v.Type(), &field) || v.Field(i).IsZero() {
			continue
		}
		tree, err := e.value(v.Field(i))
		if err != nil {
			return nil, err
		}
		m[field.Name] = tree
	}
	return m, nil
}

// failure is an error by what is known of it: an *llm.Error whole, any other by its text and class.
func (e *encoder) failure(v reflect.Value) (any, error) {
	err, _ := reflect.TypeAssert[error](v)
	if err == nil {
		return nil, nil //nolint:nilnil // null is the value
	}
	own, ok := err.(*llm.Error) //nolint:errorlint // what wraps one is kept as text
	if !ok || own == nil || e.errors >= maxNesting {
		return map[string]any{"Text": armored(err.Error()), "Class": llm.ClassOf(err)}, nil
	}
	e.errors++
	defer func() { e.errors-- }()
	tree, failed := e.fields(reflect.ValueOf(own).Elem())
	return map[string]any{"Error": tree}, failed
}

// A recorded error is one that was read from the queue.
type recorded struct {
	Text  string
	Class llm.Class
}

func (r *recorded) Error() string { return r.Text }

func (r *recorded) Unwrap() error {
	if r.Class == llm.Unknown {
		return nil
	}
	return r.Class
}

// decode reads what encode wrote into what v points to. What it does not know is left out: a later version wrote it.
func decode(text string, v any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return err
	}
	return fill(tree, reflect.ValueOf(v).Elem())
}

func fill(tree any, v reflect.Value) error {
	if tree == nil {
		v.SetZero()
		return nil
	}
	if v.Type() == reflect.TypeFor[error]() {
		return fillError(tree, v)
	}
	switch data := tree.(type) {
	case map[string]any:
		return fillMap(data, v)
	case []any:
		if v.Kind() == reflect.Slice {
			v.Set(reflect.MakeSlice(v.Type(), len(data), len(data)))
			for i := range data {
				if err := fill(data[i], v.Index(i)); err != nil {
					return err
				}
			}
			return nil
		}
	case string:
		return fillString(data, v)
	case bool:
		if v.Kind() == reflect.Bool {
			v.SetBool(data)
			return nil
		}
	case json.Number:
		if v.Kind() != reflect.Pointer {
			return json.Unmarshal([]byte(data), v.Addr().Interface())
		}
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return fill(tree, v.Elem())
	}
	return fmt.Errorf("a stored %T does not fit a %v", tree, v.Type())
}

func fillMap(data map[string]any, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fillMap(data, v.Elem())
	case reflect.Struct:
		for name, item := range data {
			field, ok := v.Type().FieldByName(name)
			if !ok || leaves(v.Type(), &field) {
				continue
			}
			if err := fill(item, v.FieldByIndex(field.Index)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	case reflect.Map:
		v.Set(reflect.MakeMapWithSize(v.Type(), len(data)))
		for key, item := range data {
			value := reflect.New(v.Type().Elem()).Elem()
			key, err := unarmored(key)
			if err == nil {
				err = fill(item, value)
			}
			if err != nil {
				return fmt.Errorf("%q: %w", key, err)
			}
			v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), value)
		}
		return nil
	}
	return fmt.Errorf("a stored object does not fit a %v", v.Type())
}

func fillString(data string, v reflect.Value) error {
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		raw, err := unarmored(data)
		v.SetBytes([]byte(raw))
		return err
	}
	if t, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		return t.UnmarshalText([]byte(data))
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fillString(data, v.Elem())
	case reflect.String:
		text, err := unarmored(data)
		v.SetString(text)
		return err
	case reflect.Slice:
		raw, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return err
		}
		v.SetBytes(raw)
		return nil
	}
	return fmt.Errorf("a stored text does not fit a %v", v.Type())
}

func fillError(tree any, v reflect.Value) error {
	data, ok := tree.(map[string]any)
	if !ok {
		return errors.New("a stored error is no object")
	}
	if own, ok := data["Error"]; ok {
		e := &llm.Error{}
		v.Set(reflect.ValueOf(e))
		return fill(own, reflect.ValueOf(e).Elem())
	}
	r := &recorded{}
	if err := fillMap(data, reflect.ValueOf(r).Elem()); err != nil {
		return err
	}
	if r.Text == r.Class.Error() {
		v.Set(reflect.ValueOf(r.Class))
		return nil
	}
	v.Set(reflect.ValueOf(r))
	return nil
}
