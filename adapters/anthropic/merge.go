package anthropic

import (
	"bytes"
	"encoding/json"
)

// isObject reports whether b is a JSON object and nothing else.
func isObject(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '{' && json.Valid(b)
}

// merge is doc with patch laid over it as RFC 7396 says: objects merge, a null removes, everything else replaces. Both are
// valid JSON. What neither level of an object changes stays as it is written.
func merge(doc, patch []byte) []byte {
	if !isObject(patch) {
		return patch
	}
	var under, over map[string]json.RawMessage
	if json.Unmarshal(patch, &over) != nil {
		return patch
	}
	if json.Unmarshal(doc, &under) != nil || under == nil {
		under = make(map[string]json.RawMessage, len(over))
	}
	for name, value := range over {
		if string(bytes.TrimSpace(value)) == "null" {
			delete(under, name)
			continue
		}
		under[name] = merge(under[name], value)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if enc.Encode(under) != nil {
		return patch
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
