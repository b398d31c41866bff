package llm

import (
	"fmt"
	"iter"
	"reflect"
	"strings"
	"time"
)

// A Describer can show what it is made of. Combinators and stages implement it, so that an onion can be printed and a
// stage can find the deployments beneath it.
type Describer interface{ Describe() Node }

// A Node is one place in an onion.
type Node struct {
	Name string
	// Config is the stage's settings with the defaults filled in. nil: none.
	Config any
	// Deployment is the leaf itself. nil: not a leaf.
	Deployment *Deployment
	// Children are what is inside: one for a stage, several for a combinator.
	Children []Node
}

// Describe is c as a tree. A Caller that is no Describer is one Node named by its type.
func Describe(c Caller) Node {
	if d, ok := c.(Describer); ok {
		return d.Describe()
	}
	return Node{Name: fmt.Sprintf("%T", c)}
}

// Deployments yields the leaves beneath n from left to right.
func (n Node) Deployments() iter.Seq[*Deployment] {
	return func(yield func(*Deployment) bool) { n.walk(yield) }
}

func (n Node) walk(yield func(*Deployment) bool) bool {
	if n.Deployment != nil {
		return yield(n.Deployment)
	}
	for _, c := range n.Children {
		if !c.walk(yield) {
			return false
		}
	}
	return true
}

// String prints the tree, a line a node, indented by depth, with the settings that are not zero.
func (n Node) String() string {
	var b strings.Builder
	n.print(&b, 0)
	return strings.TrimSuffix(b.String(), "\n")
}

func (n Node) print(b *strings.Builder, depth int) {
	b.WriteString(strings.Repeat("  ", depth))
	b.WriteString(n.Name)
	if d := n.Deployment; d != nil {
		b.WriteString(d.settings())
	} else if s := Settings(n.Config); s != "" {
		b.WriteString(" " + s)
	}
	b.WriteByte('\n')
	for _, c := range n.Children {
		c.print(b, depth+1)
	}
}

func (d *Deployment) settings() string {
	var parts []string
	if d.Provider != "" || d.Model != "" {
		parts = append(parts, strings.Trim(d.Provider+"/"+d.Model, "/"))
	}
	if d.Window > 0 {
		parts = append(parts, fmt.Sprintf("window %d", d.Window))
	}
	if d.MaxOutput > 0 {
		parts = append(parts, fmt.Sprintf("output %d", d.MaxOutput))
	}
	if d.Has != 0 {
		parts = append(parts, "has "+d.Has.String())
	}
	if d.Quota != "" {
		parts = append(parts, "quota "+d.Quota)
	}
	if d.Credential != "" {
		parts = append(parts, "credential "+d.Credential)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// Settings prints a configuration in one line: the exported fields that are not zero, or its String method. Functions and
// pointers without a String method show as their type.
func Settings(config any) string {
	if config == nil {
		return ""
	}
	v := reflect.ValueOf(config)
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return "nil"
	}
	if s, ok := config.(fmt.Stringer); ok {
		return s.String()
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return fmt.Sprint(config)
	}
	var fields []string
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || v.Field(i).IsZero() {
			continue
		}
		fields = append(fields, f.Name+":"+setting(v.Field(i)))
	}
	return "{" + strings.Join(fields, " ") + "}"
}

func setting(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.String()
	case fmt.Stringer:
		return x.String()
	}
	switch v.Kind() {
	case reflect.Func, reflect.Chan, reflect.Pointer:
		return v.Type().String()
	case reflect.Interface:
		return v.Elem().Type().String()
	case reflect.Struct:
		return Settings(v.Interface())
	}
	return fmt.Sprint(v.Interface())
}
