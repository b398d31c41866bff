package contract

import (
	"fmt"
	"reflect"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// survey is what is learned of a schema by walking through it.
type survey struct {
	names map[string]bool // of fields, which the schema's author chose and errors may tell
	work  map[*jsonschema.Schema]int
	// shared says that a schema is reached in more than one way: only then can work multiply with the depth of an answer.
	shared bool
}

// look walks through sch and all it refers to.
func look(sch *jsonschema.Schema) (*survey, error) {
	s := &survey{names: map[string]bool{}, work: map[*jsonschema.Schema]int{}}
	for todo := []*jsonschema.Schema{sch}; len(todo) > 0; {
		last := len(todo) - 1
		at := todo[last]
		todo = todo[:last]
		if _, done := s.work[at]; done {
			s.shared = true
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
		s.shared = true
		if n == 0 {
			return 0, fmt.Errorf("at %s: it refers to itself without going deeper into the answer", place(sch.Location))
		}
		return n, nil
	}
	s.work[sch] = 0
	if sch.Format != nil && sch.Format.Name == "regex" {
		return 0, fmt.Errorf("at %s: the format \"regex\" would compile what a model wrote; remove it", place(sch.Location))
	}
	if sch.RecursiveRef != nil || sch.DynamicRef != nil {
		return 0, fmt.Errorf("at %s: $recursiveRef and $dynamicRef are not followed here; use $ref", place(sch.Location))
	}
	s.learn(sch)
	same, inside := parts(sch)
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

// learn notes the names that sch gives to fields.
func (s *survey) learn(sch *jsonschema.Schema) {
	for name := range sch.DependentSchemas {
		s.names[name] = true
	}
	for name := range sch.Dependencies {
		s.names[name] = true
	}
	for name := range sch.Properties {
		s.names[name] = true
	}
	for _, name := range sch.Required {
		s.names[name] = true
	}
}

// parts are the schemas in sch for the same value, some of them nil, and those for what is inside it.
func parts(sch *jsonschema.Schema) (same, inside []*jsonschema.Schema) {
	same = append(same, sch.Ref, sch.Not, sch.If, sch.Then, sch.Else)
	same = append(same, sch.AllOf...)
	same = append(same, sch.AnyOf...)
	same = append(same, sch.OneOf...)
	for _, sub := range sch.DependentSchemas {
		same = append(same, sub)
	}
	for _, sub := range sch.Dependencies {
		same = append(same, schemas(sub)...)
	}
	for _, sub := range sch.Properties {
		inside = append(inside, sub)
	}
	inside = append(inside, fields(sch)...)
	inside = append(inside, elements(sch)...)
	return same, append(inside, sch.PrefixItems...)
}

// fields are the schemas in sch for fields whatever their names are.
func fields(sch *jsonschema.Schema) []*jsonschema.Schema {
	out := append(schemas(sch.AdditionalProperties), schemas(sch.UnevaluatedProperties)...)
	out = append(out, schemas(sch.PropertyNames)...)
	for _, sub := range sch.PatternProperties {
		out = append(out, sub)
	}
	return out
}

// elements are the schemas in sch for elements of a list, at any place or at one.
func elements(sch *jsonschema.Schema) []*jsonschema.Schema {
	out := append(schemas(sch.Items), schemas(sch.AdditionalItems)...)
	for _, sub := range []*jsonschema.Schema{sch.Contains, sch.Items2020, sch.UnevaluatedItems} {
		out = append(out, schemas(sub)...)
	}
	return out
}

// schemas are those that a keyword holds, which may hold something else.
func schemas(keyword any) []*jsonschema.Schema {
	switch k := keyword.(type) {
	case *jsonschema.Schema:
		if k != nil {
			return []*jsonschema.Schema{k}
		}
	case []*jsonschema.Schema:
		return k
	}
	return nil
}

// visits bounds how many schemas the values of an answer are held against, since a schema that refers to one twice makes that
// grow with every level. It counts each pair of a schema and a value once, so that it is quick where the answer is not.
type visits struct {
	*survey
	seen map[visit]int
}

type visit struct {
	sch *jsonschema.Schema
	at  uintptr // of a list or an object
}

// affordable reports whether value can be held against sch.
func (s *survey) affordable(sch *jsonschema.Schema, value any) bool {
	if !s.shared {
		return true
	}
	v := visits{s, map[visit]int{}}
	return v.count(sch, value) <= mostVisits
}

// count is at least the number of schemas, or above mostVisits.
func (v *visits) count(sch *jsonschema.Schema, value any) int {
	var key visit
	switch value := value.(type) {
	case map[string]any:
		key = visit{sch, reflect.ValueOf(value).Pointer()}
	case []any:
		key = visit{sch, reflect.ValueOf(value).Pointer()}
	}
	if key.sch == nil {
		return v.work[sch]
	}
	if n, done := v.seen[key]; done {
		return n
	}
	n := 1
	add := func(sub *jsonschema.Schema, value any) {
		if sub != nil && n <= mostVisits {
			n += v.count(sub, value)
		}
	}
	same, _ := parts(sch)
	for _, sub := range same {
		add(sub, value)
	}
	switch value := value.(type) {
	case map[string]any:
		each := fields(sch)
		for name, field := range value {
			add(sch.Properties[name], field)
			for _, sub := range each {
				add(sub, field)
			}
		}
	case []any:
		each := elements(sch)
		for i, element := range value {
			if i < len(sch.PrefixItems) {
				add(sch.PrefixItems[i], element)
			}
			for _, sub := range each {
				add(sub, element)
			}
		}
	}
	v.seen[key] = n
	return n
}
