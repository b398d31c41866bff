// Package house holds the house rules of this repository as tests. A rule that only stands in a document is broken sooner or
// later; here each one fails with the place, what is wrong there and how to mend it. CONTRIBUTING.md lists them.
//
// A rule is a function from source to findings, so that each has two tests: it finds nothing in the tree, and it finds
// what it is for in a piece of bad code.
package house

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const modulePath = "github.com/modelchain/llm"

// A finding is one place where a rule is broken.
type finding struct {
	at   string // file:line, or a file
	what string
	mend string
}

func (f finding) String() string { return f.at + ": " + f.what + "\n\tmend: " + f.mend }

// report fails t once for each finding.
func report(t *testing.T, found []finding) {
	t.Helper()
	for _, f := range found {
		t.Error(f)
	}
}

// A file is one Go source file.
type file struct {
	fset *token.FileSet
	name string // relative to the root, with slashes
	src  []byte
	ast  *ast.File
	test bool
}

func parse(fset *token.FileSet, name string, src []byte) (*file, error) {
	f, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	return &file{fset: fset, name: name, src: src, ast: f, test: strings.HasSuffix(name, "_test.go")}, nil
}

func (f *file) at(n ast.Node) string {
	return f.name + ":" + strconv.Itoa(f.fset.Position(n.Pos()).Line)
}

// imported is the name by which f knows the package at path, "" if it does not import it.
func (f *file) imported(path string) string {
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil || p != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return p[strings.LastIndexByte(p, '/')+1:]
	}
	return ""
}

// A pack is one directory of Go files.
type pack struct {
	dir   string // relative to the root; "." is the root
	path  string // import path
	files []*file
	// typed and info are of the files that the go command builds. nil: a directory of tests only, or broken says why.
	typed  *types.Package
	info   *types.Info
	broken error
}

func (p *pack) library() []*file {
	return slices.DeleteFunc(slices.Clone(p.files), func(f *file) bool { return f.test })
}

func (p *pack) isMain() bool {
	return slices.ContainsFunc(p.files, func(f *file) bool { return !f.test && f.ast.Name.Name == "main" })
}

// isLibrary reports whether users of this module run p's code: it is not an example, a command, a benchmark or these tests.
func (p *pack) isLibrary() bool {
	top, _, _ := strings.Cut(p.dir, "/")
	return !slices.Contains([]string{"examples", "benchmarks", "cmd"}, top) && !within(p.dir, "internal/house") &&
		!p.isMain() && len(p.library()) > 0
}

// isPublic reports whether p can be imported from outside.
func (p *pack) isPublic() bool {
	return p.isLibrary() && !slices.Contains(strings.Split(p.dir, "/"), "internal")
}

// within reports whether dir is parent or beneath it.
func within(dir, parent string) bool { return dir == parent || strings.HasPrefix(dir, parent+"/") }

// A tree is the whole repository.
type tree struct {
	root    string
	modules map[string]string // directory of each go.mod → module path
	packs   []*pack
	load    types.Importer
}

// repo parses and type-checks the repository once for all tests.
func repo(t *testing.T) *tree {
	t.Helper()
	tr, err := loadOnce()
	if err != nil {
		t.Fatalf("loading the repository: %v", err)
	}
	return tr
}

var loadOnce = sync.OnceValues(func() (*tree, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	tr := &tree{root: root, modules: map[string]string{}}
	fset := token.NewFileSet()
	if err := tr.parse(fset); err != nil {
		return nil, err
	}
	return tr, tr.check(context.Background(), fset)
})

// skipped says which directories hold nothing of ours.
func skipped(name string) bool {
	return name != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) || name == "testdata" || name == "vendor"
}

func (tr *tree) parse(fset *token.FileSet) error {
	byDir := map[string]*pack{}
	err := fs.WalkDir(os.DirFS(tr.root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		switch {
		case d.IsDir() && skipped(d.Name()):
			return fs.SkipDir
		case d.Name() == "go.mod":
			src, err := os.ReadFile(filepath.Join(tr.root, name))
			if err != nil {
				return err
			}
			first, _, _ := strings.Cut(string(src), "\n")
			tr.modules[dir] = strings.TrimSpace(strings.TrimPrefix(first, "module "))
		case !d.IsDir() && strings.HasSuffix(name, ".go"):
			src, err := os.ReadFile(filepath.Join(tr.root, name))
			if err != nil {
				return err
			}
			f, err := parse(fset, name, src)
			if err != nil {
				return err
			}
			if byDir[dir] == nil {
				byDir[dir] = &pack{dir: dir}
				tr.packs = append(tr.packs, byDir[dir])
			}
			byDir[dir].files = append(byDir[dir].files, f)
		}
		return nil
	})
	for _, p := range tr.packs {
		p.path = tr.importPath(p.dir)
	}
	return err
}

// importPath is dir within the nearest module above it.
func (tr *tree) importPath(dir string) string {
	for parent := dir; ; parent = path.Dir(parent) {
		if mod, ok := tr.modules[parent]; ok {
			return path.Join(mod, strings.TrimPrefix(strings.TrimPrefix(dir, parent), "/"))
		}
		if parent == "." {
			return path.Join(modulePath, dir)
		}
	}
}

// check type-checks every package from what the go command compiled, which needs no network.
func (tr *tree) check(ctx context.Context, fset *token.FileSet) error {
	cmd := exec.CommandContext(ctx, "go", "list", "-e", "-export", "-deps", "-json=ImportPath,Export,GoFiles,Error", "work")
	cmd.Dir = tr.root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	type listed struct {
		ImportPath, Export string
		GoFiles            []string
		Error              *struct{ Err string }
	}
	known := map[string]listed{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		known[l.ImportPath] = l
	}
	tr.load = importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if known[path].Export == "" {
			return nil, fmt.Errorf("package %s is not compiled", path)
		}
		return os.Open(known[path].Export)
	})
	for _, p := range tr.packs {
		l, ok := known[p.path]
		switch {
		case !ok:
			p.broken = fmt.Errorf("go list does not know the package %s; is its module listed in go.work?", p.path)
		case len(p.library()) == 0:
		case l.Error != nil:
			p.broken = errors.New(l.Error.Err)
		default:
			p.broken = p.check(fset, l.GoFiles, tr.load)
		}
	}
	return nil
}

func (p *pack) check(fset *token.FileSet, names []string, load types.Importer) error {
	info := &types.Info{
		Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	var files []*ast.File
	for _, f := range p.library() {
		if slices.Contains(names, path.Base(f.name)) {
			files = append(files, f.ast)
		}
	}
	typed, err := (&types.Config{Importer: load}).Check(p.path, fset, files, info)
	if err == nil {
		p.typed, p.info = typed, info
	}
	return err
}

// each runs a rule on every file of every package that keep keeps.
func (tr *tree) each(keep func(*pack, *file) bool, rule func(*file) []finding) []finding {
	var found []finding
	for _, p := range tr.packs {
		for _, f := range p.files {
			if keep(p, f) {
				found = append(found, rule(f)...)
			}
		}
	}
	return found
}

// snippet is a bad piece of code as a package at dir, type-checked against what the repository uses.
func snippet(t *testing.T, dir, name, src string) *pack {
	t.Helper()
	tr := repo(t)
	fset := token.NewFileSet()
	f, err := parse(fset, path.Join(dir, name), []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	p := &pack{dir: dir, path: path.Join(modulePath, dir), files: []*file{f}}
	if !f.test {
		if err := p.check(fset, []string{name}, tr.load); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestEveryPackageBuilds(t *testing.T) {
	for _, p := range repo(t).packs {
		if p.broken != nil {
			t.Errorf("%s: %v\n\tmend: go build work", p.dir, p.broken)
		}
	}
}

// mustFind fails unless each finding of a rule holds the text wanted at its place, in order.
func mustFind(t *testing.T, found []finding, want ...string) {
	t.Helper()
	for i := range max(len(found), len(want)) {
		switch {
		case i >= len(found):
			t.Errorf("the rule found nothing that says %q", want[i])
		case i >= len(want):
			t.Errorf("the rule found too much: %v", found[i])
		case !strings.Contains(found[i].at+" "+found[i].what, want[i]):
			t.Errorf("finding %d is %v, want %q in it", i, found[i], want[i])
		}
	}
}
