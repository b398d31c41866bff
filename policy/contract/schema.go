package contract

import (
	"cmp"
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
	mostVisits  = 500_000   // those that all values of an answer are held against
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
		if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
			err = deepest(invalid.Err)
		}
		return nil, errors.New(strings.NewReplacer(inlineURL, "", root, "").Replace(err.Error()))
	}
	return sch, nil
}

// deepest is the one of the errors in a schema that says most: the library lists them all in many lines.
func deepest(err error) error {
	e, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err
	}
	best := e
	for todo := []*jsonschema.ValidationError{e}; len(todo) > 0; {
		last := len(todo) - 1
		e, todo = todo[last], append(todo[:last], todo[last].Causes...)
		if len(e.Causes) > 0 {
			continue
		}
		if len(best.Causes) > 0 || cmp.Or(cmp.Compare(len(e.InstanceLocation), len(best.InstanceLocation)),
			strings.Compare(best.Error(), e.Error())) > 0 {
			best = e
		}
	}
	return best
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
			return nil, fmt.Errorf("it is no JSON value, in which all keys are texts: %w", err)
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
	text, err := io.ReadAll(io.LimitReader(f, mostSchema+1))
	if err = errors.Join(err, f.Close()); err != nil {
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

// place is where in a schema something is, without the address of the schema unless it is a file.
func place(location string) string {
	file, fragment, _ := strings.Cut(location, "#")
	file = strings.TrimPrefix(strings.TrimPrefix(file, inlineURL), root)
	return file + "#" + fragment
}
