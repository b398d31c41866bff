package house

import (
	"flag"
	"fmt"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of the exported API anew")

const goldenDir = "testdata/api"

// goldenName is where the API of the package at dir is recorded.
func goldenName(dir string) string {
	if dir == "." {
		return "llm.txt"
	}
	return dir + ".txt"
}

// api lists what a package exports, a line a fact, sorted, without comments and parameter names: a line that goes or
// changes breaks somebody's build.
func api(p *types.Package) []string {
	qualify := func(other *types.Package) string {
		if other == p {
			return ""
		}
		return strings.Replace(other.Path(), modulePath, "llm", 1)
	}
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, name := range p.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		switch o := p.Scope().Lookup(name).(type) {
		case *types.Const:
			add("const %s %s = %s", name, types.TypeString(o.Type(), qualify), o.Val().ExactString())
		case *types.Var:
			add("var %s %s", name, types.TypeString(o.Type(), qualify))
		case *types.Func:
			add("func %s%s", name, signature(o.Signature(), qualify))
		case *types.TypeName:
			lines = append(lines, apiType(o, qualify)...)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func apiType(o *types.TypeName, qualify types.Qualifier) []string {
	name := o.Name()
	if o.IsAlias() {
		return []string{fmt.Sprintf("type %s = %s", name, types.TypeString(types.Unalias(o.Type()), qualify))}
	}
	named := o.Type().(*types.Named)
	name += typeParams(named.TypeParams(), qualify)
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch u := named.Underlying().(type) {
	case *types.Struct:
		add("type %s struct", name)
		for i := range u.NumFields() {
			f := u.Field(i)
			text := types.TypeString(f.Type(), qualify)
			if tag := u.Tag(i); tag != "" {
				text += " `" + tag + "`"
			}
			switch {
			case f.Embedded() && f.Exported():
				add("type %s struct, embedded %s", name, text)
			case f.Exported():
				add("type %s struct, %s %s", name, f.Name(), text)
			}
		}
	case *types.Interface:
		add("type %s interface", name)
		for m := range u.Methods() {
			if m.Exported() {
				add("type %s interface, %s%s", name, m.Name(), signature(m.Signature(), qualify))
			} else {
				add("type %s interface, unexported methods", name)
			}
		}
	default:
		add("type %s %s", name, types.TypeString(u, qualify))
	}
	for m := range named.Methods() {
		if m.Exported() {
			add("method (%s) %s%s", types.TypeString(m.Signature().Recv().Type(), qualify), m.Name(), signature(m.Signature(), qualify))
		}
	}
	return lines
}

func typeParams(list *types.TypeParamList, qualify types.Qualifier) string {
	var parts []string
	for p := range list.TypeParams() {
		parts = append(parts, p.Obj().Name()+" "+types.TypeString(p.Constraint(), qualify))
	}
	if len(parts) == 0 {
		return ""
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// signature is s without the names of parameters, which nobody's build depends on.
func signature(s *types.Signature, qualify types.Qualifier) string {
	bare := func(t *types.Tuple) *types.Tuple {
		vars := make([]*types.Var, 0, t.Len())
		for v := range t.Variables() {
			vars = append(vars, types.NewParam(token.NoPos, nil, "", v.Type()))
		}
		return types.NewTuple(vars...)
	}
	plain := types.NewSignatureType(nil, nil, nil, bare(s.Params()), bare(s.Results()), s.Variadic())
	return typeParams(s.TypeParams(), qualify) + strings.TrimPrefix(types.TypeString(plain, qualify), "func")
}

func TestExportedAPIIsRecorded(t *testing.T) {
	want := map[string]bool{}
	for _, p := range repo(t).packs {
		if !p.isPublic() || p.typed == nil {
			continue
		}
		name := goldenName(p.dir)
		want[name] = true
		checkAPI(t, filepath.Join(goldenDir, filepath.FromSlash(name)), api(p.typed))
	}
	for _, name := range goldens(t) {
		switch {
		case want[name]:
		case *update:
			if err := os.Remove(filepath.Join(goldenDir, filepath.FromSlash(name))); err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("%s/%s records a package that is not there\n\tmend: go test ./internal/house -update", goldenDir, name)
		}
	}
}

func goldens(t *testing.T) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS("."), goldenDir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(name, goldenDir+"/"))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return names
}

func checkAPI(t *testing.T, golden string, lines []string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile(golden)
	if err != nil {
		t.Errorf("%v\n\tmend: record the new package: go test ./internal/house -update", err)
		return
	}
	for _, d := range difference(strings.Split(strings.TrimSpace(string(old)), "\n"), lines) {
		t.Errorf("%s: %s\n\tmend: if the change is meant, say so in CHANGELOG.md and run: go test ./internal/house -update", golden, d)
	}
}

// difference lists the lines that went and those that came.
func difference(old, now []string) []string {
	var d []string
	for _, l := range old {
		if !slices.Contains(now, l) {
			d = append(d, "gone: "+l)
		}
	}
	for _, l := range now {
		if !slices.Contains(old, l) {
			d = append(d, "new: "+l)
		}
	}
	return d
}

func TestAPITextShowsEveryChange(t *testing.T) {
	const base = `package llmtest
import "time"
// T is.
type T struct { A int; b int; time.Time }
func (t *T) M(a, b int) (n int, err error) { return }
func (t T) m() {}
type I interface { M(x ...string) }
type G[K comparable] map[K]int
const C = 1 << 3
var V = map[string]time.Duration{}
func F[A any](f func(x A) error) {}
type Alias = T
type D time.Duration
func (t *hidden) N() {}
type hidden int
`
	before := api(snippet(t, "llmtest", "x.go", base).typed)
	want := `const C untyped int = 8
func F[A any](func(x A) error)
method (*T) M(int, int) (int, error)
type Alias = T
type D int64
type G[K comparable] map[K]int
type I interface
type I interface, M(...string)
type T struct
type T struct, A int
type T struct, embedded time.Time
var V map[string]time.Duration`
	if got := strings.Join(before, "\n"); got != want {
		t.Errorf("the API text is\n%s\nwant\n%s", got, want)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"a field that goes", "A int; ", "", "gone: type T struct, A int"},
		{"a constant that shifts", "1 << 3", "1 << 4", "new: const C untyped int = 16"},
		{"a result that changes", "(n int, err error)", "(n int64, err error)", "gone: method (*T) M(int, int) (int, error)"},
		{"a method that joins an interface", "M(x ...string)", "M(x ...string); N()", "new: type I interface, N()"},
		{"an interface that closes", "M(x ...string)", "M(x ...string); n()", "new: type I interface, unexported methods"},
		{"a parameter's new name", "M(a, b int)", "M(x, y int)", ""},
		{"an unexported field", "b int", "c string", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			after := api(snippet(t, "llmtest", "x.go", strings.Replace(base, c.old, c.new, 1)).typed)
			if d := strings.Join(difference(before, after), "; "); c.want == "" && d != "" || !strings.Contains(d, c.want) {
				t.Errorf("the difference is %q, want %q", d, c.want)
			}
		})
	}
}
