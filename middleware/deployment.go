package middleware

import "github.com/modelchain/llm"

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
