package policy

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// millis is a time in milliseconds, as keys that end in _ms have it.
type millis int64

// mostMillis is a year, far from what overflows.
const mostMillis = 366 * 24 * 3600 * 1000

func (m millis) duration() time.Duration { return time.Duration(m) * time.Millisecond }

// scalar reads a text, a number or a truth value.
func (d *decoder) scalar(n *yaml.Node, path string, v reflect.Value, r rule) {
	if n.Kind != yaml.ScalarNode {
		d.bad(n, "write one value", "%s is %s, not %s", nameOf(path), kindOf(n), wanted(v))
		return
	}
	switch v.Kind() {
	case reflect.String:
		d.text(n, path, v, r)
	case reflect.Bool:
		if n.Tag != "!!bool" {
			d.bad(n, "write true or false", "%s is %s, not a truth value", nameOf(path), kindOf(n))
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int, reflect.Int64:
		d.integer(n, path, v, r)
	case reflect.Float64:
		d.float(n, path, v, r)
	}
}

func wanted(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "a truth value"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	}
	return "a number"
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`)

const nameMend = "use letters, digits and . _ - / : @, at most 128 of them"

func isName(s string) bool { return nameForm.MatchString(s) && len(s) <= 128 }

func (d *decoder) text(n *yaml.Node, path string, v reflect.Value, r rule) {
	all := r.values()
	switch {
	case n.Tag != "!!str":
		d.bad(n, "put it in quotes", "%s is %s, not a text", nameOf(path), kindOf(n))
		return
	case strings.TrimSpace(n.Value) == "":
		d.bad(n, "give it a value, or remove the line", "%s is empty", nameOf(path))
		return
	case len(all) > 0 && !slices.Contains(all, n.Value):
		d.notOne(n, path, all)
		return
	case r.has("name") && !isName(n.Value):
		d.bad(n, nameMend, "%s is %s, which is no name", nameOf(path),
			quoted(n.Value))
		return
	}
	v.SetString(n.Value)
}

// values are the texts that a rule allows. None: any.
func (r rule) values() []string {
	switch {
	case r.has("one"):
		return strings.Split(r["one"], "|")
	case r.has("words"):
		return wordsFor(r["words"])
	}
	return nil
}

func (d *decoder) notOne(n *yaml.Node, path string, all []string) {
	place := path
	for { // the key above the number of an item
		if _, err := strconv.Atoi(lastOf(place)); err != nil || !strings.Contains(place, ".") {
			break
		}
		place = place[:strings.LastIndexByte(place, '.')]
	}
	mend := nearest(n.Value, all)
	if why := whyNot(n.Value, lastOf(place)); why != "" {
		mend = why
	}
	if mend == "" {
		mend = "use one of " + strings.Join(all, ", ")
	}
	d.bad(n, mend, "%s is none of what %s takes", quoted(n.Value), lastOf(place))
}

// plainNumber is how numbers are written: decimal, without a zero in front, which would mean eight or ten.
var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*|(0|[1-9][0-9]*)?\.[0-9]+|[1-9][0-9]*\.)([eE][-+]?[0-9]+)?$`)

func (d *decoder) integer(n *yaml.Node, path string, v reflect.Value, r rule) {
	key := lastOf(path)
	isTime := strings.HasSuffix(key, "_ms")
	f, isWhole := wholeNumber(n)
	switch _, err := strconv.ParseInt(n.Value, 10, 64); {
	case n.Tag != "!!int" && !isWhole:
		d.bad(n, numberMend(n, key, isTime), "%s is %s, not a whole number%s", key, kindOf(n), unitOf(key))
		return
	case f > mostMillis && isTime:
		d.bad(n, "milliseconds are meant", "%s is more than a year", key)
		return
	case f > math.MaxInt32 && !r.has("max") && !isTime:
		d.bad(n, "lower it"+r.orAbsent(), "%s is too large", key)
		return
	case err != nil || !plainNumber.MatchString(n.Value):
		d.bad(n, numberMend(n, key, isTime), "%s is %s, not a whole number in plain digits", key, kindOf(n))
		return
	}
	if d.bounded(n, key, f, r, isTime) {
		v.SetInt(int64(f))
	}
}

// wholeNumber is the number that n is, if it is a whole one, however it is written.
func wholeNumber(n *yaml.Node) (float64, bool) {
	if n.Tag != "!!int" && n.Tag != "!!float" {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	return f, err == nil && f == math.Trunc(f) && !math.IsInf(f, 0)
}

func (d *decoder) float(n *yaml.Node, path string, v reflect.Value, r rule) {
	key := lastOf(path)
	if n.Tag != "!!int" && n.Tag != "!!float" {
		d.bad(n, numberMend(n, key, false), "%s is %s, not a number%s", key, kindOf(n), unitOf(path))
		return
	}
	f, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || !plainNumber.MatchString(n.Value) {
		d.bad(n, "write a plain decimal number", "%s is %s, which is no plain number", key, quoted(n.Value))
		return
	}
	if d.bounded(n, key, f, r, false) {
		v.SetFloat(f)
	}
}

func (d *decoder) bounded(n *yaml.Node, key string, f float64, r rule, isTime bool) bool {
	if r.has("free") {
		return true
	}
	least, hasLeast := r.number("min")
	if !hasLeast && !r.has("above") {
		least = 0
		if isTime {
			least = 1
		}
	}
	above, hasAbove := r.number("above")
	most, hasMost := r.number("max")
	switch {
	case hasAbove && f <= above:
		d.bad(n, "raise it"+r.orAbsent(), "%s is %s; it must be above %v", key, n.Value, above)
	case !hasAbove && f < least:
		d.bad(n, "raise it"+r.orAbsent(), "%s is %s; the least is %v", key, n.Value, least)
	case hasMost && f > most:
		d.bad(n, "lower it"+r.orAbsent(), "%s is %s; the most is %v", key, n.Value, most)
	default:
		return true
	}
	return false
}

var absent = regexp.MustCompile(`; ([^;]*) if (?:null or )?absent`)

// orAbsent says what holds without the line, where that is said of the key.
func (r rule) orAbsent() string {
	if m := absent.FindStringSubmatch(r["meaning"]); m != nil {
		return ", or remove the line (" + m[1] + " if absent)"
	}
	return ""
}

// unitOf is the unit that a key or path is in.
func unitOf(path string) string {
	switch {
	case strings.HasSuffix(path, "_ms"):
		return " of milliseconds"
	case strings.HasSuffix(path, "_usd"):
		return " of US dollars"
	case strings.Contains(path, "price."):
		return " of US dollars for a million tokens"
	}
	return ""
}

var money = regexp.MustCompile(`^\s*(?:USD|US\$|\$)?\s*([0-9]+(?:\.[0-9]+)?)\s*(?:USD|\$|dollars)?\s*$`)

var octal = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

// numberMend says what to write in the place of a text that was meant as a number.
func numberMend(n *yaml.Node, key string, isTime bool) string {
	if n.Kind == yaml.ScalarNode {
		text := strings.TrimSpace(n.Value)
		if t, err := time.ParseDuration(strings.ReplaceAll(text, " ", "")); isTime && err == nil && t >= time.Millisecond {
			return fmt.Sprintf("write %s: %d", key, t.Milliseconds())
		}
		if _, err := strconv.ParseFloat(text, 64); err == nil && n.Tag == "!!str" {
			return "write it without quotes"
		}
		if f, ok := wholeNumber(n); ok && math.Abs(f) <= math.MaxInt32 && !strings.HasPrefix(strings.TrimLeft(text, "+-"), "0") {
			return fmt.Sprintf("write %s: %.0f", key, f)
		}
		if m := money.FindStringSubmatch(text); m != nil && !isTime && n.Tag == "!!str" {
			return "write " + key + ": " + m[1]
		}
	}
	if octal.MatchString(n.Value) {
		return "write digits only, without a 0 in front"
	}
	return "write digits only"
}

// moment reads what is written as a text or a date.
func (d *decoder) moment(n *yaml.Node, path string, to encoding.TextUnmarshaler) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" && n.Tag != "!!timestamp" || to.UnmarshalText([]byte(n.Value)) != nil {
		d.bad(n, "write a date as 2026-12-31, or a time as 2026-12-31T18:00:00Z", "%s is %s, not a moment", nameOf(path), kindOf(n))
	}
}

// plain is a value as JSON has it: what a file holds for somebody else.
func (d *decoder) plain(n *yaml.Node, path string) any {
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for _, p := range d.pairs(n, path, nil) {
			at := under(path, p.key.Value)
			if v, ok := d.open(p.value, at); ok {
				d.at[at] = v
				out[p.key.Value] = d.plain(v, at)
			}
		}
		return out
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for i, c := range n.Content {
			at := under(path, strconv.Itoa(i))
			if v, ok := d.open(c, at); ok {
				out = append(out, d.plain(v, at))
			}
		}
		return out
	}
	if (n.Tag == "!!int" || n.Tag == "!!float") && !plainNumber.MatchString(n.Value) {
		d.bad(n, "write a plain decimal number", "%s is %s, which is no plain number", nameOf(path), quoted(n.Value))
		return nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		d.bad(n, "write it as JSON would have it", "%s is %s, which cannot be read", nameOf(path), kindOf(n))
		return nil
	}
	if _, isDate := v.(time.Time); isDate {
		return n.Value
	}
	return v
}
