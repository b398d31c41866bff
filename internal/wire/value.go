package wire

import (
	"bytes"
	"strconv"
)

// Count is a number of things as JSON, also one in a text. ok is false for what is none: a negative number, or one above 2^40,
// or no number at all. A null is 0.
func Count(raw []byte) (n int, ok bool) {
	text := string(bytes.TrimSpace(bytes.Trim(raw, `"`)))
	if text == "null" {
		return 0, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0 && f <= 1<<40) {
		return 0, false
	}
	return int(f), true
}

// Void passes over one value and reports whether there is nothing in it: null, false, "", {} or [], which servers send for
// one another where a field has no value.
func (s *Scan) Void() bool { return IsVoid(s.Raw()) }

// IsVoid is what Void reports of a JSON value.
func IsVoid(raw []byte) bool {
	switch string(raw) {
	case "", "null", "false", `""`, "{}", "[]":
		return true
	}
	if c := raw[0]; c != '{' && c != '[' {
		return false
	}
	return len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
}
