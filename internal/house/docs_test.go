package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

// undocumented finds exported names without a comment, and fields of a Config without one: what zero means is part of it.
func undocumented(f *file) []finding {
	var found []finding
	add := func(n ast.Node, what string) {
		found = append(found, finding{f.at(n), what + " has no comment", "say in a sentence what it is, its unit and its zero value"})
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) && !wellKnown(d) {
				add(d, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
						add(s, s.Name.Name)
					}
					if st, ok := s.Type.(*ast.StructType); ok && s.Name.IsExported() && strings.HasSuffix(s.Name.Name, "Config") {
						for _, field := range silentFields(f, st) {
							add(field, s.Name.Name+"."+field.Names[0].Name)
						}
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
						add(s, s.Names[0].Name)
					}
				}
			}
		}
	}
	return found
}

// silentFields are the exported fields that no comment covers. One comment covers the fields that follow it line by line.
func silentFields(f *file, st *ast.StructType) []*ast.Field {
	var silent []*ast.Field
	covered := 0 // the last line that a comment covers
	for _, field := range st.Fields.List {
		first, last := f.fset.Position(field.Pos()).Line, f.fset.Position(field.End()).Line
		switch {
		case field.Doc != nil || field.Comment != nil || covered > 0 && first == covered+1:
			covered = last
		case len(field.Names) > 0 && field.Names[0].IsExported():
			silent = append(silent, field)
		}
	}
	return silent
}

func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// wellKnown are methods whose meaning the standard library fixes.
func wellKnown(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return false
	}
	switch d.Name.Name {
	case "Error", "Unwrap", "Len", "Less", "Swap":
		return true
	}
	return false
}

// maxLines bounds a file of library code. Middleware is stricter: a stage above 300 lines is two stages.
func maxLines(dir string) int {
	if dir == "middleware" {
		return 300
	}
	return 400
}

// tooLong finds files that are more than one room. A table of data is as long as its data.
func tooLong(p *pack, f *file) []finding {
	lines := bytes.Count(f.src, []byte("\n"))
	limit := maxLines(p.dir)
	if lines <= limit || isData(f) {
		return nil
	}
	return []finding{{f.name, fmt.Sprintf("%d lines, more than %d", lines, limit), "split it by subject; each file should need one sentence to describe"}}
}

// isData reports whether f declares no functions.
func isData(f *file) bool {
	code := false
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			code = true
		}
		return !code
	})
	return !code
}

// noPackageComment finds packages that do not say what they are for.
func noPackageComment(p *pack) []finding {
	for _, f := range p.library() {
		if f.ast.Doc != nil {
			return nil
		}
	}
	return []finding{{p.dir, "package without a comment", "begin one of its files with: // Package " + p.library()[0].ast.Name.Name + " ..."}}
}

func TestExportedNamesAreDocumented(t *testing.T) { report(t, repo(t).each(libraryCode, undocumented)) }

func TestFilesAreShort(t *testing.T) {
	for _, p := range repo(t).packs {
		for _, f := range p.library() {
			if p.isLibrary() {
				report(t, tooLong(p, f))
			}
		}
	}
}

func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range repo(t).packs {
		if len(p.library()) > 0 {
			report(t, noPackageComment(p))
		}
	}
}

func TestDocumentationRulesFindBadCode(t *testing.T) {
	for _, c := range []struct {
		name, src string
		want      []string
	}{
		{"a function", "func F() {}", []string{"F has no comment"}},
		{"a method", "// T is.\ntype T int\nfunc (*T) M() {}", []string{":4 M has no comment"}},
		{"a method of a generic type", "// T is.\ntype T[A any] int\nfunc (*T[A]) M() {}", []string{"M has no comment"}},
		{"a type", "type T int", []string{"T has no comment"}},
		{"a type in a group", "// These are types.\ntype (\n\tT int\n)", []string{"T has no comment"}},
		{"a constant", "const C = 1", []string{"C has no comment"}},
		{"a field of a Config", "// XConfig is.\ntype XConfig struct{ Max int }", []string{"XConfig.Max has no comment"}},
		{"a field after a gap", "// XConfig is.\ntype XConfig struct{\n\t// Max is.\n\tMax int\n\n\tMin int\n}",
			[]string{"XConfig.Min has no comment"}},
		{"fields under one comment", "// XConfig is.\ntype XConfig struct{\n\t// Max and Min are.\n\tMax int\n\tMin int\n}", nil},
		{"a group of constants", "// The kinds.\nconst (\n\tA = 1\n\tB = 2\n)", nil},
		{"a method of an unexported type", "type t int\nfunc (t) M() {}", nil},
		{"a well-known method", "// T is.\ntype T int\nfunc (T) Error() string { return `` }", nil},
	} {
		t.Run(c.name, func(t *testing.T) { mustFind(t, undocumented(source(t, "x.go", c.src)), c.want...) })
	}

	long := strings.Repeat("\n", 301)
	code, data := "func f() {}", "var v = []int{1}"
	for _, c := range []struct {
		name, dir, src string
		want           []string
	}{
		{"a stage of 300 lines", "middleware", long + code, []string{"more than 300"}},
		{"as long elsewhere", "tokens", long + code, nil},
		{"400 lines", "tokens", long + long + code, []string{"more than 400"}},
		{"a long table", "tokens", long + long + data, nil},
	} {
		t.Run(c.name, func(t *testing.T) { mustFind(t, tooLong(&pack{dir: c.dir}, source(t, "x.go", c.src)), c.want...) })
	}

	t.Run("a package without a comment", func(t *testing.T) {
		mustFind(t, noPackageComment(&pack{dir: "x", files: []*file{source(t, "x/x.go", "")}}), "without a comment")
	})
}
