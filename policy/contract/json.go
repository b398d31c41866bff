package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What JSON may be to be looked at. Beyond it nobody answers a question, and the work of a check is no longer small.
const (
	mostDepth    = 200
	mostDigits   = 100 // of a number, exponent aside
	mostExponent = 400 // that of a float64 is below it
)

// jsonError is JSON that is not accepted. It names a place and a rule, and nothing of what is there.
type jsonError struct {
	path []step // nil: offset tells
	at   int64
	rule string
}

// A step leads from a value into it.
type step struct {
	key   string
	index int // of an element; -1: key counts
}

// text is e with those names of fields that known knows; others come from an answer and are not quoted.
func (e *jsonError) text(known func(string) bool) error {
	if e.path == nil && e.at > 0 {
		return fmt.Errorf("%s, at byte %d", e.rule, e.at)
	}
	return fmt.Errorf("at %s: %s", pathText(e.path, known), e.rule)
}

func pathText(path []step, known func(string) bool) string {
	if len(path) == 0 {
		return "the top"
	}
	var b strings.Builder
	for _, s := range path {
		b.WriteByte('/')
		switch {
		case s.index >= 0:
			b.WriteString(strconv.Itoa(s.index))
		case known(s.key):
			b.WriteString(s.key)
		default:
			b.WriteByte('*')
		}
	}
	return b.String()
}

// parseJSON reads one JSON value. Numbers stay json.Number. A field given twice is an error: which of the two counts differs
// from reader to reader.
func parseJSON(text string) (any, *jsonError) {
	if !utf8.ValidString(text) {
		return nil, &jsonError{rule: "it is not UTF-8"}
	}
	if strings.Trim(text, " \t\r\n") == "" {
		return nil, &jsonError{rule: "there is no JSON"}
	}
	var whole json.RawMessage
	if err := json.Unmarshal([]byte(text), &whole); err != nil {
		syntax, ok := errors.AsType[*json.SyntaxError](err)
		switch {
		case !ok:
			return nil, &jsonError{rule: "it is not JSON"}
		case syntax.Offset >= int64(len(text)):
			return nil, &jsonError{rule: "it is not JSON: it ends too early or with something else", at: syntax.Offset}
		}
		return nil, &jsonError{rule: "it is not JSON", at: syntax.Offset}
	}
	r := reader{dec: json.NewDecoder(strings.NewReader(text))}
	r.dec.UseNumber()
	v, bad := r.value()
	return v, bad
}

type reader struct {
	dec  *json.Decoder
	path []step
}

func (r *reader) fail(rule string) *jsonError {
	return &jsonError{path: append([]step{}, r.path...), rule: rule}
}

func (r *reader) value() (any, *jsonError) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, r.fail("it is not JSON")
	}
	switch t := token.(type) {
	case json.Delim:
		if len(r.path) >= mostDepth {
			return nil, &jsonError{rule: fmt.Sprintf("it is nested deeper than %d", mostDepth)}
		}
		if t == '{' {
			return r.object()
		}
		return r.array()
	case json.Number:
		if !reasonable(t.String()) {
			return nil, r.fail("the number is beyond what numbers here may be")
		}
	}
	return token, nil
}

func (r *reader) object() (any, *jsonError) {
	out := map[string]any{}
	for r.dec.More() {
		token, err := r.dec.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil, r.fail("it is not JSON")
		}
		r.path = append(r.path, step{key, -1})
		if _, twice := out[key]; twice {
			return nil, r.fail("the field is given twice")
		}
		v, bad := r.value()
		if bad != nil {
			return nil, bad
		}
		out[key] = v
		r.path = r.path[:len(r.path)-1]
	}
	return out, r.end()
}

func (r *reader) array() (any, *jsonError) {
	out := []any{}
	for r.dec.More() {
		r.path = append(r.path, step{"", len(out)})
		v, bad := r.value()
		if bad != nil {
			return nil, bad
		}
		out = append(out, v)
		r.path = r.path[:len(r.path)-1]
	}
	return out, r.end()
}

func (r *reader) end() *jsonError {
	if _, err := r.dec.Token(); err != nil {
		return r.fail("it is not JSON")
	}
	return nil
}

// reasonable reports whether a number of JSON is one that arithmetic with it stays small for.
func reasonable(n string) bool {
	digits, exponent := n, ""
	if i := strings.IndexAny(n, "eE"); i >= 0 {
		digits, exponent = n[:i], n[i+1:]
	}
	if len(digits) > mostDigits {
		return false
	}
	if exponent == "" {
		return true
	}
	e, err := strconv.Atoi(exponent)
	return err == nil && -mostExponent <= e && e <= mostExponent
}

// unfence is what stands inside the one code fence that text is, or text itself.
func unfence(text string) string {
	s := strings.TrimSpace(text)
	inner, ok := strings.CutPrefix(s, "```")
	if !ok {
		return text
	}
	language, inner, ok := strings.Cut(inner, "\n")
	inner, closed := strings.CutSuffix(inner, "```")
	if language = strings.TrimSpace(language); !ok || !closed || language != "" && !strings.EqualFold(language, "json") {
		return text
	}
	return inner
}

// fieldPath is the names of "ticket.id".
func fieldPath(field string) ([]string, bool) {
	names := strings.Split(field, ".")
	return names, !slices.Contains(names, "")
}

// lookup is the value at a path of names. full is false where it is missing or says nothing.
func lookup(v any, names []string) (_ any, full bool) {
	for _, n := range names {
		object, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		v = object[n]
	}
	return v, !hollow(v)
}

// hollow reports whether v is null, an empty text, list or object.
func hollow(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return strings.TrimSpace(v) == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
