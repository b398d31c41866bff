package house

import (
	"fmt"
	"go/build"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A place is a row of the layout: what the packages at a directory may import beside the standard library.
type place struct {
	dir    string   // the directory and all beneath it; "*" stands for one name; "." is the root alone
	ours   []string // packages of this repository, by directory; one at or beneath dir is always allowed
	others []string // packages of other modules, exactly; one with a go.mod of its own may import any
	free   bool     // programs and tests of ours: anything goes
}

// layout is the table of who may import whom. A package that is not in it fails: where it belongs is a decision.
var layout = []place{
	{dir: "."},
	{dir: "internal/wire", ours: []string{"."}},
	{dir: "internal/rough", ours: []string{"."}},
	{dir: "internal/near"},
	{dir: "classify", ours: []string{".", "internal/wire"}},
	{dir: "middleware", ours: []string{".", "classify", "internal/rough"}, others: []string{
		"github.com/cenkalti/backoff/v4", "golang.org/x/time/rate",
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes",
		"go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/metric/noop",
		"go.opentelemetry.io/otel/trace", "go.opentelemetry.io/otel/trace/noop",
	}},
	{dir: "tokens", ours: []string{"."}, others: []string{
		"github.com/pkoukk/tiktoken-go", "github.com/pkoukk/tiktoken-go-loader", "github.com/dlclark/regexp2",
	}},
	{dir: "internal/adapter", ours: []string{".", "internal/rough", "internal/wire", "classify"}},
	{dir: "adapters/openai", ours: []string{".", "internal/adapter", "internal/wire"}, others: []string{
		"github.com/sashabaranov/go-openai",
	}},
	{dir: "adapters/*", ours: []string{".", "internal/adapter", "internal/wire"}},
	// classify: a scripted failure is given as what a provider sent, and has the class that the real table finds.
	// whatlanggo: tells the language of an answer; it is small and imports nothing.
	{dir: "llmtest", ours: []string{".", "middleware", "classify", "internal/near"}, others: []string{
		"github.com/abadojack/whatlanggo",
	}},
	{dir: "tools", ours: []string{"."}, others: []string{"github.com/gowebpki/jcs"}},
	{dir: "policy", ours: []string{".", "middleware", "tokens", "classify", "adapters/openai", "internal/near"}},
	{dir: "stores/*", ours: []string{".", "middleware", "tools"}},
	{dir: "queue/*", ours: []string{".", "middleware"}},
	{dir: "internal/house", free: true},
	{dir: "internal/wiretest", ours: []string{"."}},
	{dir: "internal/servertest"},
	{dir: "internal/pgtest", ours: []string{"internal/servertest"}},
	{dir: "internal/redistest", ours: []string{"internal/servertest"}},
	{dir: "examples", free: true},
	{dir: "benchmarks", free: true},
}

// testOnly is what only tests, examples and benchmarks may import.
const testOnly = "llmtest"

func placeOf(dir string) (place, bool) {
	for _, p := range layout {
		if parent, ok := strings.CutSuffix(p.dir, "/*"); ok && dir != parent && within(dir, parent) {
			name, _, _ := strings.Cut(strings.TrimPrefix(dir, parent+"/"), "/")
			p.dir = parent + "/" + name
		}
		if p.dir == dir || p.dir != "." && within(dir, p.dir) {
			return p, true
		}
	}
	return place{}, false
}

// importDirections finds imports against the layout.
func importDirections(p *pack, modules map[string]string) []finding {
	row, ok := placeOf(p.dir)
	if !ok {
		return []finding{{p.dir, "the package is in no row of the layout",
			"decide what it may import and add a row to layout in internal/house/imports_test.go"}}
	}
	var found []finding
	for _, f := range p.files {
		for _, spec := range f.ast.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil || isStandard(to) {
				continue
			}
			dir, ours := ourDir(to, modules)
			switch {
			case ours && within(dir, testOnly) && !f.test && !row.free && !within(p.dir, testOnly):
				found = append(found, finding{f.at(spec), fmt.Sprintf("library code imports %s", to),
					"llmtest is for tests, examples and benchmarks; move what both need to the package it belongs to"})
			case row.free || f.test:
			case ours && !allowedOurs(row, dir):
				found = append(found, finding{f.at(spec), fmt.Sprintf("%s imports %s", p.dir, to),
					fmt.Sprintf("of ours it may import %s; pass what is needed in, or move it down", list(row.ours))})
			case !ours && !slices.Contains(row.others, to) && !nested(p.dir, modules):
				found = append(found, finding{f.at(spec), fmt.Sprintf("%s imports %s", p.dir, to),
					fmt.Sprintf("of other modules it may import %s; a new dependency needs a reason and a row", list(row.others))})
			}
		}
	}
	return found
}

// nested reports whether dir belongs to a module of its own, whose go.mod says what it depends on: nobody else pays for it.
func nested(dir string, modules map[string]string) bool {
	for mod := range modules {
		if mod != "." && within(dir, mod) {
			return true
		}
	}
	return false
}

func allowedOurs(row place, dir string) bool {
	return slices.Contains(row.ours, dir) || row.dir != "." && within(dir, row.dir)
}

func list(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// isStandard tells the standard library by the missing dot in the first element of the path.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") || build.IsLocalImport(path)
}

// ourDir is the directory of one of our packages.
func ourDir(to string, modules map[string]string) (string, bool) {
	for dir, mod := range modules {
		if mod != modulePath && within(to, mod) {
			return path.Join(dir, strings.TrimPrefix(to, mod)), true
		}
	}
	if !within(to, modulePath) {
		return "", false
	}
	return path.Join(".", strings.TrimPrefix(strings.TrimPrefix(to, modulePath), "/")), true
}

func TestImportsFollowTheLayout(t *testing.T) {
	tr := repo(t)
	for _, p := range tr.packs {
		report(t, importDirections(p, tr.modules))
	}
	for _, row := range layout {
		above := strings.TrimSuffix(row.dir, "/*")
		if !slices.ContainsFunc(tr.packs, func(p *pack) bool { return within(p.dir, above) }) {
			t.Errorf("layout has a row for %s, where there is no package\n\tmend: remove the row", row.dir)
		}
	}
}

func TestImportRuleFindsWrongDirections(t *testing.T) {
	modules := map[string]string{
		".": modulePath, "stores/sql": modulePath + "/stores/sql", "adapters/heavy": modulePath + "/adapters/heavy",
	}
	for _, c := range []struct {
		name, file, src string
		want            []string
	}{
		{"root imports a package of ours", "x.go", `import _ "` + modulePath + `/classify"`, []string{"x.go:2 . imports"}},
		{"root imports a third-party module", "x.go", `import _ "golang.org/x/time/rate"`, []string{"x.go:2 . imports"}},
		{"middleware imports an adapter", "middleware/x.go", `import _ "` + modulePath + `/adapters/openai"`, []string{"middleware imports"}},
		{"middleware imports an SDK", "middleware/x.go", `import _ "github.com/sashabaranov/go-openai"`, []string{"middleware imports"}},
		{"middleware imports a nested module", "middleware/x.go", `import _ "` + modulePath + `/stores/sql"`, []string{"middleware imports"}},
		{"wire imports classify", "internal/wire/x.go", `import _ "` + modulePath + `/classify"`, []string{"internal/wire imports"}},
		{"an adapter imports another", "adapters/openai/x.go", `import _ "` + modulePath + `/adapters/other"`, []string{"adapters/openai imports"}},
		{"any adapter imports another", "adapters/own/x.go", `import _ "` + modulePath + `/adapters/openai"`, []string{"adapters/own imports"}},
		{"an adapter imports an SDK that no row names", "adapters/own/x.go", `import _ "github.com/sashabaranov/go-openai"`,
			[]string{"adapters/own imports"}},
		{"an adapter with a go.mod imports an SDK", "adapters/heavy/x.go", `import _ "github.com/anthropics/anthropic-sdk-go"`, nil},
		{"an adapter with a go.mod imports middleware", "adapters/heavy/x.go", `import _ "` + modulePath + `/middleware"`,
			[]string{"adapters/heavy imports"}},
		{"an adapter imports its own part", "adapters/own/x.go", `import _ "` + modulePath + `/adapters/own/sign"`, nil},
		{"library imports llmtest", "middleware/x.go", `import _ "` + modulePath + `/llmtest"`, []string{"library code imports"}},
		{"a new package", "telemetry/x.go", `import _ "time"`, []string{"in no row"}},
		{"a test may import llmtest", "middleware/x_test.go", `import _ "` + modulePath + `/llmtest"`, nil},
		{"an example may import all", "examples/x/x.go", `import _ "` + modulePath + `/llmtest"`, nil},
		{"middleware imports root", "middleware/x.go", `import _ "` + modulePath + `"`, nil},
		{"a package imports its own part", "tokens/x.go", `import _ "` + modulePath + `/tokens/internal/bpe"`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := source(t, c.file, c.src)
			mustFind(t, importDirections(&pack{dir: path.Dir(c.file), files: []*file{f}}, modules), c.want...)
		})
	}
}
