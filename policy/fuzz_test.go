package policy_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/policy"
)

// Whatever a file holds, Load builds onions that can be described and asked, or says where it is wrong.
func FuzzLoad(f *testing.F) {
	for _, text := range []string{minimal + "---\n" + scriptedRoutes, full, equal, oneRoute, "", "workflow: w", "- &a [*a]", "a: !!binary x"} {
		f.Add(text)
	}
	for part := range strings.SplitSeq(full, "\n") {
		f.Add("workflow: w\n" + part + twoRoutes)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "p.yaml")
		put(t, path, text)
		model := llmtest.Script(llmtest.Text("hi"))
		o := withQueue(map[string]llm.Caller{"a": model, "b": model, "first": model, "second": model, "approved-support-backup": model})
		s, err := policy.Load(path, o)
		if err != nil {
			es, ok := errors.AsType[policy.Errors](err)
			if !ok || len(es) == 0 || es[0].File != path || es[0].What == "" {
				t.Errorf("%q: got %v", text, err)
			}
			return
		}
		for _, name := range s.Workflows() {
			if s.Describe(name).String() == "" {
				t.Errorf("%q: workflow %s describes nothing", text, name)
			}
			if _, err := s.Caller(name); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
		if err := s.Reload(); err != nil {
			t.Errorf("%q: loaded once and refused then: %v", text, err)
		}
	})
}
