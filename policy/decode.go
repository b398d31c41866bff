package policy

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A decoder reads one document strictly into the types of cards. What is wrong goes to its report, and it goes on with the
// next key.
//
// The tags of a field say what it takes, and the schema for editors is made from the same: yaml has the key, and check,
// separated by commas, what must hold: "required"; "null" allows it; "min=1", "max=1", "above=0" for numbers;
// "one=a|b" for texts; "words=…" for lists of reason words; "name" for names.
type decoder struct {
	*report
	file string
	// at has the node of everything that was read, by its path: "allowed_fallbacks.0.route".
	at map[string]*yaml.Node
	// left is how many nodes may still be read: aliases make much of little.
	left int
}

const (
	mostNodes = 20_000
	mostDepth = 40
)

// A selfReader reads itself. It may be nil before.
type selfReader interface {
	read(d *decoder, n *yaml.Node, path string)
}

// rule is a check tag.
type rule map[string]string

// ruleOf is that of a field of t.
func ruleOf(t reflect.Type, f reflect.StructField) rule {
	r := rule{}
	for part := range strings.SplitSeq(f.Tag.Get("check"), ",") {
		if k, v, _ := strings.Cut(part, "="); k != "" {
			r[k] = v
		}
	}
	if t.PkgPath() != reflect.TypeFor[decoder]().PkgPath() {
		r["free"] = "" // their package says what numbers may be
	}
	return r
}

func (r rule) has(name string) bool { _, ok := r[name]; return ok }

// number is the bound called name.
func (r rule) number(name string) (float64, bool) {
	f, err := strconv.ParseFloat(r[name], 64)
	return f, err == nil
}

// fieldsOf are the fields of a struct that have a key, those of what it embeds too.
func fieldsOf(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return keyOf(f) == "" })
}

func keyOf(f reflect.StructField) string { return f.Tag.Get("yaml") }

// bad reports something about n.
func (d *decoder) bad(n *yaml.Node, mend, format string, args ...any) {
	d.add(d.file, n, fmt.Sprintf(format, args...), mend)
}

// badAt reports something about what was read at path, or at what it is in.
func (d *decoder) badAt(path, mend, format string, args ...any) {
	n := d.at[path]
	for n == nil && path != "" {
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
		n = d.at[path]
	}
	d.bad(n, mend, format, args...)
}

// sound reports whether nothing beneath path was wrong, so that more can be said of it.
func (d *decoder) sound(path string) bool {
	for at, n := range d.at {
		if at != path && !strings.HasPrefix(at, path+".") {
			continue
		}
		if slices.ContainsFunc(d.errs, func(e *Error) bool { return e.File == d.file && e.Line == n.Line && e.Column == n.Column }) {
			return false
		}
	}
	return true
}

// has reports whether path was written.
func (d *decoder) has(path string) bool { return d.at[path] != nil }

// open follows aliases, counts the node and says whether it may be read.
func (d *decoder) open(n *yaml.Node, path string) (*yaml.Node, bool) {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	if d.left < 0 { // said already
		return n, false
	}
	if d.left--; d.left == 0 || strings.Count(path, ".") > mostDepth {
		d.left = -1
		d.bad(n, "write it out, or split the file", "the document is too large, or an alias contains itself")
	}
	return n, d.left > 0
}

// value reads n into v.
func (d *decoder) value(n *yaml.Node, path string, v reflect.Value, r rule) {
	n, ok := d.open(n, path)
	if !ok {
		return
	}
	d.at[path] = n
	if isNull(n) {
		if !r.has("null") {
			d.bad(n, "give it a value, or remove the line", "%s has no value", nameOf(path))
		}
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if s, ok := reflect.TypeAssert[selfReader](v.Addr()); ok {
		s.read(d, n, path)
		return
	}
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		d.moment(n, path, u)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.fields(n, path, v)
	case reflect.Slice:
		d.list(n, path, v, r)
	case reflect.Map:
		d.table(n, path, v, r)
	case reflect.Interface:
		if x := d.plain(n, path); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	default:
		d.scalar(n, path, v, r)
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func lastOf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

func under(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// fields reads a mapping into a struct.
func (d *decoder) fields(n *yaml.Node, path string, v reflect.Value) {
	fields := fieldsOf(v.Type())
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = keyOf(f)
	}
	for _, p := range d.pairs(n, path, names) {
		i := slices.Index(names, p.key.Value)
		if i < 0 {
			d.unknown(p.key, path, names)
			continue
		}
		r := ruleOf(v.Type(), fields[i])
		r["meaning"] = meaningOf(v.Type(), fields[i])
		d.value(p.value, under(path, p.key.Value), v.FieldByIndex(fields[i].Index), r)
	}
	if n.Kind != yaml.MappingNode {
		return
	}
	for _, f := range fields {
		if ruleOf(v.Type(), f).has("required") && !d.has(under(path, keyOf(f))) {
			d.bad(n, "add "+keyOf(f)+": "+meaningOf(v.Type(), f), "%s is missing", keyOf(f))
		}
	}
}

// keyLike are words for what is named by key.
var keyLike = regexp.MustCompile(`(?i)key|token|secret|password`)

func (d *decoder) unknown(key *yaml.Node, path string, names []string) {
	mend := nearest(key.Value, names)
	if mend == "" {
		mend = "the keys of " + nameOf(path) + " are " + strings.Join(names, ", ")
	}
	switch {
	case slices.Contains(names, "key") && keyLike.MatchString(key.Value):
		mend = "write key: {env: NAME} or key: {file: PATH}"
	case key.Value == "routes":
		mend = "put routes into a document of its own, after a line with ---"
	}
	d.bad(key, mend, "unknown key %s", quoted(key.Value))
}

// table reads a mapping with free keys, or those that the rule lists.
func (d *decoder) table(n *yaml.Node, path string, v reflect.Value, r rule) {
	v.Set(reflect.MakeMap(v.Type()))
	for _, p := range d.pairs(n, path, nil) {
		item := reflect.New(v.Type().Elem()).Elem()
		if all := r.values(); len(all) > 0 && !slices.Contains(all, p.key.Value) {
			d.notOne(p.key, path, all)
			continue
		}
		d.value(p.value, under(path, p.key.Value), item, rule{})
		v.SetMapIndex(reflect.ValueOf(p.key.Value), item)
	}
}

func (d *decoder) list(n *yaml.Node, path string, v reflect.Value, r rule) {
	if n.Kind != yaml.SequenceNode {
		mend := "write a list: [" + shapeOf(v.Type().Elem()) + "]"
		if n.Kind == yaml.ScalarNode && quoted(n.Value) == strconv.Quote(n.Value) && v.Type().Elem().Kind() != reflect.Struct {
			mend = "write a list: [" + n.Value + "]"
		}
		d.bad(n, mend, "%s is %s, not a list", nameOf(path), kindOf(n))
		return
	}
	if len(n.Content) == 0 && !r.has("empty") {
		d.bad(n, "name at least one, or remove the line", "%s is empty", lastOf(path))
	}
	items := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	each := rule{}
	for k, val := range r {
		if k != "required" && k != "null" {
			each[k] = val
		}
	}
	for i, c := range n.Content {
		at := under(path, strconv.Itoa(i))
		d.value(c, at, items.Index(i), each)
		if items.Index(i).Kind() != reflect.String {
			continue
		}
		for j := range i {
			if items.Index(j).Equal(items.Index(i)) && items.Index(i).Len() > 0 {
				d.badAt(at, "remove one of them", "%s is listed twice in %s", quoted(items.Index(i).String()), lastOf(path))
			}
		}
	}
	v.Set(items)
}

// shapeOf is what an item of a list looks like: a mapping with the keys that are required, or with all of them if none is.
func shapeOf(t reflect.Type) string {
	if t.Kind() != reflect.Struct {
		return "a, b"
	}
	var all, required []string
	for _, f := range fieldsOf(t) {
		all = append(all, keyOf(f)+": …")
		if ruleOf(t, f).has("required") {
			required = append(required, keyOf(f)+": …")
		}
	}
	if len(required) > 0 {
		all = required
	}
	return "{" + strings.Join(all, ", ") + "}"
}

type pair struct{ key, value *yaml.Node }

// pairs are the keys of a mapping, with those that a merge key brings in.
func (d *decoder) pairs(n *yaml.Node, path string, names []string) []pair {
	if n.Kind != yaml.MappingNode {
		mend := "write keys and values"
		if len(names) > 0 {
			mend = "write keys and values, such as " + names[0] + ": …"
		}
		d.bad(n, mend, "%s is %s, not a mapping of keys to values", nameOf(path), kindOf(n))
		return nil
	}
	var out, merged []pair
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		for key.Kind == yaml.AliasNode && key.Alias != nil {
			key = key.Alias
		}
		switch line, twice := lines[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			d.bad(key, "write a word before the colon", "a key of %s is no word", nameOf(path))
			continue
		case key.Tag == "!!merge":
			merged = append(merged, d.merged(value, path, names)...)
			continue
		case twice:
			d.bad(key, "remove one of them", "the key %s is there twice, first in line %d", quoted(key.Value), line)
			continue
		}
		lines[key.Value] = key.Line
		out = append(out, pair{key, value})
	}
	for _, p := range merged {
		if _, own := lines[p.key.Value]; !own {
			lines[p.key.Value] = p.key.Line
			out = append(out, p)
		}
	}
	return out
}

// merged is what a merge key brings in: a mapping, or several.
func (d *decoder) merged(n *yaml.Node, path string, names []string) []pair {
	n, ok := d.open(n, path+".<<")
	if !ok {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return d.pairs(n, path+".<<", names)
	}
	var out []pair
	for _, c := range n.Content {
		if c, ok := d.open(c, path+".<<"); ok {
			out = append(out, d.pairs(c, path+".<<", names)...)
		}
	}
	return out
}

// nameOf is what an error calls the place of a path: its last key, since numbers are for the program.
func nameOf(path string) string {
	name := lastOf(path)
	if _, err := strconv.Atoi(name); err == nil {
		above := path[:max(strings.LastIndexByte(path, '.'), 0)]
		return "an item of " + nameOf(above)
	}
	switch name {
	case "":
		return "the document"
	case "<<":
		return "what is merged"
	}
	return name
}

// kindOf is what n is, in words.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.Tag {
	case "!!int", "!!float":
		return "the number " + strings.Trim(quoted(n.Value), `"`)
	case "!!timestamp":
		return "a date"
	case "!!bool":
		return "the truth value " + n.Value
	case "!!null":
		return "nothing"
	}
	if q := quoted(n.Value); q[0] != '"' {
		return q
	}
	return "the text " + quoted(n.Value)
}
