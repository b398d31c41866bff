package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// What a schema may cost.
const (
	mostSchema  = 256 << 10 // bytes
	mostPattern = 10_000    // instructions of a regular expression, about
	mostWork    = 10_000    // schemas that one value of an answer is held against
)

// Where schemas live: files below root, one that is a value at inlineURL, so that relative references in it are files.
const (
	root      = "contract:///"
	inlineURL = root + "?inline"
)

// compile makes a schema of a value, JSON text or a file. Other schemas it refers to come from files only.
func compile(o *Output, files fs.FS) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.UseLoader(loader{files})
	c.UseRegexpEngine(func(expr string) (jsonschema.Regexp, error) {
		if err := checkPattern(expr); err != nil {
			return nil, err
		}
		return regexp.Compile(expr)
	})
	c.AssertFormat()
	at := inlineURL
	if o.JSONSchemaFile != "" {
		if !fs.ValidPath(o.JSONSchemaFile) {
			return nil, errors.New("it is no path below the root of the files; write it with slashes and without .. in it")
		}
		at = root + (&url.URL{Path: o.JSONSchemaFile}).EscapedPath()
	} else {
		doc, err := inline(o.JSONSchema)
		if err != nil {
			return nil, err
		}
		if err := c.AddResource(at, doc); err != nil {
			return nil, err
		}
	}
	sch, err := c.Compile(at)
	if err != nil {
		// The library's own text has the address whole, and there may be a password in it.
		if l, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
			return nil, l.Err
		}
		return nil, err
	}
	return sch, nil
}

// inline is a schema from a configuration as the JSON value it is.
func inline(v any) (any, error) {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case []byte:
		text = string(v)
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("it is no JSON value: %w", err)
		}
		text = string(b)
	}
	return parseSchema(text)
}

func parseSchema(text string) (any, error) {
	if len(text) > mostSchema {
		return nil, fmt.Errorf("it has %d bytes; %d are the most", len(text), mostSchema)
	}
	doc, bad := parseJSON(text)
	if bad != nil {
		return nil, bad.text(func(string) bool { return true })
	}
	switch doc.(type) {
	case map[string]any, bool:
		return doc, nil
	}
	return nil, errors.New("it is neither an object nor a boolean")
}

// loader gives schemas out of files, and no others.
type loader struct{ files fs.FS }

// Load reads the file that an address stands for.
func (l loader) Load(address string) (any, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("it refers to a schema whose address cannot be read")
	}
	name := strings.TrimPrefix(path.Clean(u.Path), "/")
	if u.Scheme != "contract" || u.Host != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("it refers to %s, and nothing is fetched; put that schema into $defs, or into a file that a schema "+
			"without an $id refers to by its path", u.Scheme+"://"+u.Host+u.Path)
	}
	if l.files == nil {
		return nil, fmt.Errorf("it is or refers to the file %q, and there are no files here; put the schema in its place", name)
	}
	f, err := l.files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostSchema+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	doc, err := parseSchema(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return doc, nil
}

// checkPattern refuses what would take long to match: matching takes the length of the text times the size of the pattern.
func checkPattern(expr string) error {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return err
	}
	if patternSize(re) > mostPattern {
		return fmt.Errorf("the pattern is too large; its repetitions come to more than %d", mostPattern)
	}
	return nil
}

// patternSize is about the number of instructions that re compiles to.
func patternSize(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		if n += patternSize(sub); n > mostPattern {
			return n
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// survey is what is learned of a schema by walking through it.
type survey struct {
	names map[string]bool // of fields, which the schema's author chose and errors may tell
	work  map[*jsonschema.Schema]int
}

// look walks through sch and all it refers to.
func look(sch *jsonschema.Schema) (*survey, error) {
	s := &survey{names: map[string]bool{}, work: map[*jsonschema.Schema]int{}}
	for todo := []*jsonschema.Schema{sch}; len(todo) > 0; {
		last := len(todo) - 1
		at := todo[last]
		todo = todo[:last]
		if _, done := s.work[at]; done {
			continue
		}
		if _, err := s.weigh(at, &todo); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// weigh is how many schemas a value is held against because it is held against sch. Those for what is inside the value are
// added to todo.
func (s *survey) weigh(sch *jsonschema.Schema, todo *[]*jsonschema.Schema) (int, error) {
	if sch == nil {
		return 0, nil
	}
	if n, done := s.work[sch]; done {
		if n == 0 {
			return 0, fmt.Errorf("at %s: it refers to itself without going deeper into the answer", place(sch.Location))
		}
		return n, nil
	}
	s.work[sch] = 0
	if sch.Format != nil && sch.Format.Name == "regex" {
		return 0, fmt.Errorf("at %s: the format \"regex\" would compile what a model wrote; remove it", place(sch.Location))
	}
	same, inside := s.parts(sch)
	n := 1
	for _, sub := range same {
		m, err := s.weigh(sub, todo)
		if err != nil {
			return 0, err
		}
		if n += m; n > mostWork {
			return 0, fmt.Errorf("at %s: its references multiply to more than %d; nest fewer", place(sch.Location), mostWork)
		}
	}
	s.work[sch] = n
	*todo = append(*todo, inside...)
	return n, nil
}

// parts are the schemas in sch for the same value, and those for what is inside it.
func (s *survey) parts(sch *jsonschema.Schema) (same, inside []*jsonschema.Schema) {
	in := func(subs ...*jsonschema.Schema) {
		for _, sub := range subs {
			if sub != nil {
				inside = append(inside, sub)
			}
		}
	}
	same = append(same, sch.Ref, sch.RecursiveRef, sch.Not, sch.If, sch.Then, sch.Else)
	if sch.DynamicRef != nil {
		same = append(same, sch.DynamicRef.Ref)
	}
	same = append(same, sch.AllOf...)
	same = append(same, sch.AnyOf...)
	same = append(same, sch.OneOf...)
	for name, sub := range sch.DependentSchemas {
		s.names[name] = true
		same = append(same, sub)
	}
	for name, sub := range sch.Dependencies {
		s.names[name] = true
		if sub, ok := sub.(*jsonschema.Schema); ok {
			same = append(same, sub)
		}
	}
	for name, sub := range sch.Properties {
		s.names[name] = true
		in(sub)
	}
	for _, sub := range sch.PatternProperties {
		in(sub)
	}
	for _, name := range sch.Required {
		s.names[name] = true
	}
	for _, either := range []any{sch.AdditionalProperties, sch.AdditionalItems, sch.Items} {
		switch either := either.(type) {
		case *jsonschema.Schema:
			in(either)
		case []*jsonschema.Schema:
			in(either...)
		}
	}
	in(sch.PropertyNames, sch.UnevaluatedProperties, sch.Contains, sch.Items2020, sch.UnevaluatedItems, sch.ContentSchema)
	in(sch.PrefixItems...)
	return same, inside
}

// place is where in a schema something is, without the address of the schema unless it is a file.
func place(location string) string {
	file, fragment, _ := strings.Cut(location, "#")
	file = strings.TrimPrefix(strings.TrimPrefix(file, inlineURL), root)
	return file + "#" + fragment
}
