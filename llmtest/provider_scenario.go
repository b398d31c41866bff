package llmtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
	"unicode"
)

// ReadScenario reads a [ProviderConfig] from JSON: the fields in lower case with underscores ("retry_after"), times as "250ms", a
// [Latency] as such a time or as an object. The error says the line, what is wrong there and how to mend it.
func ReadScenario(r io.Reader) (ProviderConfig, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return ProviderConfig{}, fmt.Errorf("the scenario could not be read: %w", err)
	}
	f := &scenario{data: data, dec: json.NewDecoder(bytes.NewReader(data)), lines: map[string]int{}}
	f.dec.UseNumber()
	var cfg ProviderConfig
	root, err := f.node()
	if err == nil {
		if _, more := f.dec.Token(); !errors.Is(more, io.EOF) {
			err = f.bad(f.dec.InputOffset(), "the scenario", "there is more after its end", "let a file hold one object")
		}
	}
	if err == nil {
		err = f.fill(reflect.ValueOf(&cfg).Elem(), root, "")
	}
	if err != nil {
		return ProviderConfig{}, err
	}
	if wrong := cfg.check(true); wrong != nil {
		return ProviderConfig{}, fmt.Errorf("line %d: %w", f.line(wrong.path), wrong)
	}
	return cfg, nil
}

// scenario is a file while it is read. lines knows where each path stands.
type scenario struct {
	data  []byte
	dec   *json.Decoder
	lines map[string]int
}

// node is a JSON value and where it stands.
type node struct {
	at, end int64
	value   any // string, json.Number, bool or nil
	list    []*node
	keys    []key
	kind    byte // '{', '[' or 0
}

type key struct {
	at    int64
	name  string
	value *node
}

func (f *scenario) bad(at int64, path, what, mend string) error {
	p := &problem{path, what, mend}
	return fmt.Errorf("line %d: %w", f.lineAt(at), p)
}

func (f *scenario) lineAt(at int64) int {
	return 1 + bytes.Count(f.data[:min(at, int64(len(f.data)))], []byte("\n"))
}

// line is that of a path, or of the nearest one above it that the file has.
func (f *scenario) line(path string) int {
	for path != "" {
		if n, ok := f.lines[path]; ok {
			return n
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 1
}

// token is the next token and where it begins.
func (f *scenario) token() (json.Token, int64, error) {
	at := f.dec.InputOffset()
	t, err := f.dec.Token()
	for at < int64(len(f.data)) && strings.IndexByte(" \t\r\n,:", f.data[at]) >= 0 {
		at++
	}
	if err == nil {
		return t, at, nil
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, at, f.bad(syntax.Offset, "the scenario", "this is no JSON: "+syntax.Error(), "mend what stands there or before")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, at, f.bad(int64(len(f.data)), "the scenario", "it ends in the midst of a value", "close what is open")
	}
	return nil, at, f.bad(at, "the scenario", err.Error(), "mend what stands there or before")
}

func (f *scenario) node() (*node, error) {
	t, at, err := f.token()
	if err != nil {
		return nil, err
	}
	n := &node{at: at, value: t}
	switch t {
	case json.Delim('['):
		n.kind = '['
		for f.dec.More() {
			e, err := f.node()
			if err != nil {
				return nil, err
			}
			n.list = append(n.list, e)
		}
	case json.Delim('{'):
		n.kind = '{'
		for f.dec.More() {
			name, at, err := f.token()
			if err != nil {
				return nil, err
			}
			v, err := f.node()
			if err != nil {
				return nil, err
			}
			s, _ := name.(string)
			n.keys = append(n.keys, key{at, s, v})
		}
	}
	if n.kind != 0 {
		if _, _, err := f.token(); err != nil {
			return nil, err
		}
	}
	n.end = f.dec.InputOffset()
	return n, nil
}

// fill sets v to what n says.
func (f *scenario) fill(v reflect.Value, n *node, path string) error {
	f.lines[path] = f.lineAt(n.at)
	text, isText := n.value.(string)
	wrong := func(mend string) error {
		raw := f.data[n.at:n.end]
		if len(raw) > 40 {
			raw = append(bytes.Clone(raw[:40]), "…"...)
		}
		return f.bad(n.at, cmp.Or(path, "the scenario"), string(raw)+" cannot stand here", mend)
	}
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if !isText || err != nil {
			return wrong(`write a time with its unit, such as "250ms", "2s" or "1m30s"`)
		}
		*p = d
		return nil
	case *json.RawMessage:
		*p = bytes.Clone(f.data[n.at:n.end])
		return nil
	case *Latency:
		if isText {
			return f.fill(reflect.ValueOf(&p.Fixed).Elem(), n, path)
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		if n.kind != '{' {
			return wrong("write an object: { … }")
		}
		return f.object(v, n, path)
	case reflect.Slice:
		if n.kind != '[' {
			return wrong("write a list: [ … ]")
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.list), len(n.list)))
		for i, e := range n.list {
			if err := f.fill(v.Index(i), e, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Map:
		if n.kind != '{' {
			return wrong(`write an object of texts: {"name": "value"}`)
		}
		v.Set(reflect.MakeMap(v.Type()))
		for _, k := range n.keys {
			e := reflect.New(v.Type().Elem()).Elem()
			if err := f.fill(e, k.value, path+"."+k.name); err != nil {
				return err
			}
			v.SetMapIndex(reflect.ValueOf(k.name), e)
		}
		return nil
	case reflect.String:
		if !isText {
			return wrong("write a text in quotes")
		}
		v.SetString(text)
		return nil
	}
	if n.kind != 0 || json.Unmarshal(f.data[n.at:n.end], v.Addr().Interface()) != nil || n.value == nil {
		switch v.Kind() {
		case reflect.Bool:
			return wrong("write true or false")
		case reflect.Float64:
			return wrong("write a number, such as 0.5")
		case reflect.Uint64:
			return wrong("write a whole number, 0 or more")
		}
		return wrong("write a whole number")
	}
	return nil
}

func (f *scenario) object(v reflect.Value, n *node, path string) error {
	if path != "" {
		path += "."
	}
	fields := map[string]int{}
	var names []string
	for i := range v.NumField() {
		if field := v.Type().Field(i); field.Type.Kind() != reflect.Func {
			fields[snake(field.Name)] = i
			names = append(names, snake(field.Name))
		}
	}
	seen := map[string]bool{}
	for _, k := range n.keys {
		i, ok := fields[k.name]
		if !ok {
			return f.bad(k.at, path+k.name, "there is no such field", "write "+anyOf(names))
		}
		if seen[k.name] {
			return f.bad(k.at, path+k.name, "it is there twice", "leave out one of them")
		}
		seen[k.name] = true
		if err := f.fill(v.Field(i), k.value, path+k.name); err != nil {
			return err
		}
	}
	return nil
}

// snake is a field's name as files have it: RetryAfter is retry_after, API api.
func snake(name string) string {
	var b strings.Builder
	rs := []rune(name)
	for i, r := range rs {
		if i > 0 && unicode.IsUpper(r) && !unicode.IsUpper(rs[i-1]) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
