package policy

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

// Schema is the JSON Schema of a document of a policy, for editors: a card, or the section that cards share. It is made from
// what cards are read into. What one key alone does not tell, such as contradictions, only [Load] finds.
func Schema() []byte {
	g := &generator{defs: map[string]any{}}
	root := map[string]any{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "A policy card, or the routes that cards share",
		"description": "A document with workflow is a card; one with routes holds the deployments.",
		"if":          object{"required": []string{"routes"}, "not": object{"required": []string{"workflow"}}},
		"then":        g.of(reflect.TypeFor[common](), rule{}),
		"else":        g.of(reflect.TypeFor[card](), rule{}),
		"$defs":       g.defs,
	}
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("llm/policy: Schema: " + err.Error()) // of maps and texts alone
	}
	return append(text, '\n')
}

type object = map[string]any

// generator makes schemas of types. Those of structs are in defs, by the name of the type.
type generator struct{ defs map[string]any }

// A selfSchema says what it reads.
type selfSchema interface {
	schema(g *generator) object
}

func (g *generator) of(t reflect.Type, r rule) object {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := g.plain(t, r)
	if r.has("null") {
		return object{"anyOf": []any{s, object{"type": "null"}}}
	}
	return s
}

func (g *generator) plain(t reflect.Type, r rule) object {
	if s, ok := reflect.TypeAssert[selfSchema](reflect.New(t)); ok {
		return s.schema(g)
	}
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) { // a moment
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Interface:
		return object{}
	case reflect.Struct:
		if _, ok := g.defs[t.Name()]; !ok {
			g.defs[t.Name()] = nil // it may contain itself
			g.defs[t.Name()] = g.structure(t)
		}
		return object{"$ref": "#/$defs/" + t.Name()}
	case reflect.Slice:
		each := rule{}
		for k, v := range r {
			if k == "one" || k == "words" || k == "name" {
				each[k] = v
			}
		}
		s := object{"type": "array", "items": g.of(t.Elem(), each)}
		if !r.has("empty") {
			s["minItems"] = 1
		}
		if t.Elem().Kind() == reflect.String {
			s["uniqueItems"] = true
		}
		return s
	case reflect.Map:
		s := object{"type": "object", "additionalProperties": g.of(t.Elem(), rule{})}
		if all := r.values(); len(all) > 0 {
			s["propertyNames"] = object{"enum": all}
		}
		return s
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return textSchema(r)
	}
	return numberSchema(t, r)
}

func (g *generator) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range fieldsOf(t) {
		r := ruleOf(t, f)
		s := g.of(f.Type, r)
		if doc := meaningOf(t, f); doc != "" {
			s["description"] = strings.ToUpper(doc[:1]) + doc[1:] + "."
		}
		properties[keyOf(f)] = s
		if r.has("required") {
			required = append(required, keyOf(f))
		}
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func textSchema(r rule) object {
	s := object{"type": "string"}
	switch all := r.values(); {
	case len(all) > 0:
		s["enum"] = all
	case r.has("name"):
		s["pattern"], s["maxLength"] = nameForm.String(), 128
	default:
		s["pattern"] = `\S`
	}
	return s
}

func numberSchema(t reflect.Type, r rule) object {
	s := object{"type": "integer", "minimum": 0}
	if t.Kind() == reflect.Float64 {
		s["type"] = "number"
	}
	if r.has("free") {
		delete(s, "minimum")
	}
	if t == reflect.TypeFor[millis]() {
		s["minimum"], s["maximum"] = 1, mostMillis
	}
	if v, ok := r.number("min"); ok {
		s["minimum"] = v
	}
	if v, ok := r.number("max"); ok {
		s["maximum"] = v
	}
	if v, ok := r.number("above"); ok {
		delete(s, "minimum")
		s["exclusiveMinimum"] = v
	}
	return s
}

func (*key) schema(g *generator) object {
	s := g.structure(reflect.TypeFor[key]())
	s["minProperties"], s["maxProperties"] = 1, 1
	return s
}

func (*price) schema(g *generator) object {
	s := g.structure(reflect.TypeFor[price]())
	s["anyOf"] = []any{object{"required": []string{"input", "output"}}, object{"required": []string{"free"}}}
	return s
}

func (*routeList) schema(g *generator) object {
	return object{"anyOf": []any{
		object{
			"type": "object", "minProperties": 1, "additionalProperties": g.of(reflect.TypeFor[route](), rule{}),
			"propertyNames": object{"pattern": nameForm.String(), "maxLength": 128},
		},
		object{"type": "array", "minItems": 1, "items": g.of(reflect.TypeFor[listedRoute](), rule{})},
	}}
}
