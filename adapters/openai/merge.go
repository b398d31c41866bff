package openai

import "bytes"

// isObject reports whether b is a JSON object and nothing else.
func isObject(b []byte) bool {
	s := scan{b: b}
	return s.peek() == '{' && s.whole()
}

// merge is doc with patch laid over it as RFC 7396 says: objects merge, a null removes, everything else replaces. Both are
// valid JSON. The order of doc's members stays.
func merge(doc, patch []byte) []byte {
	over := members(patch)
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
	known := members(doc)
	for _, m := range known {
		switch value := find(over, m.name); {
		case value == nil:
			put(m.name, m.value)
		case value[0] != 'n':
			put(m.name, merge(m.value, value))
		}
	}
	for _, m := range over {
		if m.value[0] != 'n' && find(known, m.name) == nil {
			put(m.name, merge(nil, m.value))
		}
	}
	return append(out, '}')
}

// members are the members of an object, their names quoted as they stand there. nil: b is no object.
func members(b []byte) []member {
	s := scan{b: b}
	if s.peek() != '{' {
		return nil
	}
	list := []member{}
	for first := s.open('{'); s.more(&first, '}'); {
		name := s.raw()
		if s.peek() == ':' {
			s.i++
		}
		list = append(list, member{name, s.raw()})
	}
	return list
}

// find is the value of the last member called name. nil: there is none.
func find(list []member, name []byte) (value []byte) {
	for i := range list {
		if bytes.Equal(list[i].name, name) {
			value = list[i].value
		}
	}
	return value
}
