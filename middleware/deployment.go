package middleware

import (
	"reflect"
	"slices"

	"github.com/modelchain/llm"
)

// only is the one deployment beneath c, nil where there is none or more than one.
func only(c llm.Caller) *llm.Deployment {
	var found *llm.Deployment
	for d := range llm.Describe(c).Deployments() {
		if found != nil && found != d {
			return nil
		}
		found = d
	}
	return found
}

func isNil(c llm.Caller) bool {
	if c == nil {
		return true
	}
	v := reflect.ValueOf(c)
	return (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}

// isOpaque reports whether a leaf of n is something else than a Deployment. Such a Caller may lead back to where it is
// called from.
func isOpaque(n llm.Node) bool {
	if n.Deployment != nil {
		return false
	}
	return len(n.Children) == 0 || slices.ContainsFunc(n.Children, isOpaque)
}
