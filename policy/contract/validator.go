package contract

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelchain/llm"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Validator is the check of o for middleware.Validate: it returns an error for an answer that does not satisfy o. It compiles
// the schema once, and is safe for concurrent use. Schemas in files come from files, by relative references from each other too;
// nil: there are none. Nothing is fetched. Formats are checked.
//
// JSON must be the whole answer, without text around it; white space is allowed, and one code fence if o says so. A field given
// twice, nesting deeper than 200 and numbers of more than 100 digits or an exponent beyond 400 are no JSON here. An answer that
// calls tools is not the final one: only its stop reason is checked. Where o names no tool_calls among its reasons, it is one
// only if the request has tools.
//
// Its errors name the place in the answer and the rule, and quote nothing of the answer: a field that o does not name is "*".
//
// What cannot be meant in o is an error: see [Contract.Valid]. So is a schema that costs too much: more than 256 KiB,
// patterns that are large, references that multiply; and $dynamicRef. An answer that would be held against more than half a
// million schemas, because they refer to each other in many ways, fails.
func Validator(o Output, files fs.FS) (func(*llm.Request, *llm.Response) error, error) {
	var found problems
	o.problems(&found)
	if len(found) > 0 {
		return nil, fmt.Errorf("contract: %w", found.err())
	}
	marker, err := patterns(o.Citations.Marker)
	if err != nil {
		return nil, fmt.Errorf("contract: output.citations.marker: %w", err)
	}
	c := &checker{o: o, marker: marker, names: map[string]bool{}}
	if o.wantsSchema() {
		item := "output.json_schema"
		if o.JSONSchemaFile != "" {
			item = "output.json_schema_file " + strconv.Quote(o.JSONSchemaFile)
		}
		if c.schema, err = compile(&o, files); err != nil {
			return nil, fmt.Errorf("contract: %s: %w", item, err)
		}
		if c.survey, err = look(c.schema); err != nil {
			return nil, fmt.Errorf("contract: %s: %w", item, err)
		}
		c.names = c.survey.names
	}
	for _, field := range o.RequiredFields {
		path, _ := fieldPath(field)
		c.required = append(c.required, path)
	}
	if o.Citations.Field != "" {
		c.cited, _ = fieldPath(o.Citations.Field)
	}
	for _, path := range append([][]string{c.cited}, c.required...) {
		for _, name := range path {
			c.names[name] = true
		}
	}
	return c.check, nil
}

// checker is an Output made ready. It is only read.
type checker struct {
	o        Output
	schema   *jsonschema.Schema // nil: none
	survey   *survey            // of schema
	marker   *regexp.Regexp     // nil: none
	required [][]string
	cited    []string
	names    map[string]bool // fields that errors may name
}

func (c *checker) known(name string) bool { return c.names[name] }

func (c *checker) check(req *llm.Request, resp *llm.Response) error {
	if resp == nil {
		return errors.New("output: there is no answer")
	}
	if err := c.stop(resp.Stop); err != nil {
		return err
	}
	if len(resp.ToolCalls()) > 0 {
		if req != nil && len(req.Tools) == 0 && !slices.Contains(c.o.FinishReasons, llm.StopToolCalls) {
			return errors.New("output.finish_reasons: the answer calls tools, and the request has none")
		}
		return nil
	}
	text := resp.Text()
	if err := c.length(text); err != nil {
		return err
	}
	var value any
	if c.o.wantsJSON() {
		inner := text
		if c.o.AllowFence {
			inner = unfence(text)
		}
		v, bad := parseJSON(inner)
		if bad != nil {
			return fmt.Errorf("output: the answer should be JSON: %w", bad.text(c.known))
		}
		value = v
	}
	for i, path := range c.required {
		if _, full := lookup(value, path); !full {
			return fmt.Errorf("output.required_fields: the field %q is missing or empty", c.o.RequiredFields[i])
		}
	}
	if c.schema != nil {
		if !c.survey.affordable(c.schema, value) {
			return errors.New("output.json_schema: it takes too long to hold the answer against the schema, whose references multiply")
		}
		if err := c.schema.Validate(value); err != nil {
			return c.explain(err, value)
		}
	}
	return c.citations(text, value)
}

func (c *checker) stop(reason llm.StopReason) error {
	if reason == llm.StopLength && c.o.Truncation != TruncationAccepted && !slices.Contains(c.o.FinishReasons, llm.StopLength) {
		return errors.New("output.truncation: the token limit cut the answer")
	}
	if reason == "" && c.o.Truncation == TruncationRefused {
		return errors.New("output.truncation: the answer has no stop reason, so it may be cut")
	}
	if c.o.FinishReasons == nil || slices.Contains(c.o.FinishReasons, reason) {
		return nil
	}
	switch reason {
	case llm.StopEnd, llm.StopToolCalls, llm.StopRefusal, llm.StopFiltered, llm.StopOther:
		return fmt.Errorf("output.finish_reasons: the stop reason is %q; allowed are %s", reason, words(c.o.FinishReasons))
	}
	return fmt.Errorf("output.finish_reasons: the stop reason is none that is known; allowed are %s", words(c.o.FinishReasons))
}

func (c *checker) length(text string) error {
	if c.o.MinChars == 0 && c.o.MaxChars == 0 {
		return nil
	}
	n := utf8.RuneCountInString(text)
	if n < c.o.MinChars {
		return fmt.Errorf("output.min_chars: the answer has %d characters; %d are the least", n, c.o.MinChars)
	}
	if c.o.MaxChars > 0 && n > c.o.MaxChars {
		return fmt.Errorf("output.max_chars: the answer has %d characters; %d are the most", n, c.o.MaxChars)
	}
	return nil
}

func (c *checker) citations(text string, value any) error {
	least := max(c.o.Citations.Min, 1)
	if c.cited != nil {
		if n := c.sources(value); n < least {
			return fmt.Errorf("output.citations: the field %q names %d sources; %d are the least", c.o.Citations.Field, n, least)
		}
	}
	if c.marker == nil {
		return nil
	}
	seen := map[string]bool{}
	for rest := text; len(seen) < least; {
		at := c.marker.FindStringIndex(rest)
		if at == nil {
			return fmt.Errorf("output.citations: the text has %d different marks of sources; %d are the least", len(seen), least)
		}
		if at[1] > at[0] {
			seen[rest[at[0]:at[1]]] = true
		}
		if rest = rest[max(at[1], 1):]; rest == "" && len(seen) < least {
			return fmt.Errorf("output.citations: the text has %d different marks of sources; %d are the least", len(seen), least)
		}
	}
	return nil
}

// sources counts what the field of citations names: texts that differ, and whatever else says something.
func (c *checker) sources(value any) int {
	v, _ := lookup(value, c.cited)
	list, _ := v.([]any)
	n, seen := 0, map[string]bool{}
	for _, source := range list {
		text, isText := source.(string)
		if hollow(source) || isText && seen[text] {
			continue
		}
		seen[text] = isText
		n++
	}
	return n
}

// explain says which rule of the schema the answer breaks, of several the first by its place in the answer.
func (c *checker) explain(err error, value any) error {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return errors.New("output.json_schema: the answer could not be checked")
	}
	var broken []string
	c.collect(invalid, value, &broken)
	return fmt.Errorf("output.json_schema: %s", slices.Min(broken))
}

// collect adds what e comes down to. Of alternatives it is the choice that fails, not each of them.
func (c *checker) collect(e *jsonschema.ValidationError, value any, broken *[]string) {
	alternatives := false
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains, *kind.MinContains:
		alternatives = true
	}
	if len(e.Causes) > 0 && !alternatives {
		for _, cause := range e.Causes {
			c.collect(cause, value, broken)
		}
		return
	}
	where := []string{place(e.SchemaURL)}
	if e.ErrorKind != nil {
		where = append(where, e.ErrorKind.KeywordPath()...)
	}
	*broken = append(*broken, fmt.Sprintf("at %s: %s (rule %s)", pathText(steps(e.InstanceLocation, value), c.known),
		rule(e.ErrorKind), strings.Join(where, "/")))
}

// rule is what a rule demands, of which the schema alone tells.
func rule(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Required:
		return words(k.Missing) + " is required"
	case *kind.Type:
		return "its type is " + k.Got + ", not " + strings.Join(k.Want, " or ")
	case *kind.Enum, *kind.Const:
		return "it is none of the values allowed"
	case *kind.AdditionalProperties:
		return "it has fields that are not allowed"
	case *kind.AnyOf, *kind.OneOf:
		return "it fits none or too many of the alternatives"
	}
	return "it breaks the rule"
}

// steps is the path of tokens through value, which tells elements from fields that look like numbers.
func steps(tokens []string, value any) []step {
	path := make([]step, 0, len(tokens))
	for _, t := range tokens {
		s := step{t, -1}
		switch v := value.(type) {
		case map[string]any:
			value = v[t]
		case []any:
			if i, err := strconv.Atoi(t); err == nil && i >= 0 && i < len(v) {
				s, value = step{"", i}, v[i]
			}
		}
		path = append(path, s)
	}
	return path
}
