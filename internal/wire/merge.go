package wire

import (
	"bytes"
	"encoding/json"
)

// IsObject reports whether b is a JSON object and nothing else.
func IsObject(b []byte) bool {
	var s Scan
	s.Reset(b)
	return s.Peek() == '{' && s.Whole()
}

// IsJSON reports whether b is one JSON value in whole characters and nothing else: a character that was cut on the way is
// damage. Nesting beyond 500 levels is none either.
func IsJSON(b []byte) bool {
	var s Scan
	s.Reset(b)
	return s.Whole()
}

// Marshal is v as JSON, with <, > and & as they are.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// Merge is doc with patch laid over it as RFC 7396 says: objects merge, a null removes, everything else replaces. Both are
// valid JSON. The order of doc's members stays, and what patch adds follows in its own order: providers find the prompts
// that they have cached by their bytes.
func Merge(doc, patch []byte) []byte { return merge(doc, patch, false) }

// Compose is the patch that does what first and then second do.
func Compose(first, second []byte) []byte { return merge(first, second, true) }

// merge is Merge, and Compose where nulls are kept.
func merge(doc, patch []byte, nulls bool) []byte {
	over := Members(patch)
	if over == nil {
		return patch
	}
	out := append(make([]byte, 0, len(doc)+len(patch)), '{')
	put := func(name, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	known := Members(doc)
	for _, m := range known {
		switch value := Find(over, m.Key); {
		case value == nil:
			put(m.Name, m.Value)
		case nulls || value[0] != 'n':
			put(m.Name, merge(m.Value, value, nulls))
		}
	}
	for _, m := range over {
		if (nulls || m.Value[0] != 'n') && Find(known, m.Key) == nil {
			put(m.Name, merge(nil, m.Value, nulls))
		}
	}
	return append(out, '}')
}

// A Member is one of an object: its name as it stands there and as it is meant, and its value.
type Member struct{ Name, Key, Value []byte }

// Members are the members of an object. nil: b is no object.
func Members(b []byte) []Member {
	var s Scan
	s.Reset(b)
	if s.Peek() != '{' {
		return nil
	}
	list := []Member{}
	for first := s.Open('{'); s.More(&first, '}'); {
		s.Peek()
		from := s.i
		key := s.str()
		name := b[from:s.i]
		if s.Peek() == ':' {
			s.i++
		}
		list = append(list, Member{name, key, s.Raw()})
	}
	return list
}

// Find is the value of the last member called key. nil: there is none.
func Find(list []Member, key []byte) (value []byte) {
	for i := range list {
		if bytes.Equal(list[i].Key, key) {
			value = list[i].Value
		}
	}
	return value
}
