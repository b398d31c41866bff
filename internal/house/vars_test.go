package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// written allows package variables that change, each with its reason: nothing else can hold that state, and no user can
// tell that it is shared.
var written = map[string]string{
	"tokens.o200k":              "an embedded vocabulary is unpacked when it is first asked for, once a process, and only read from then on",
	"tokens.cl100k":             "likewise",
	"internal/pgtest.shared":    "all tests of a binary share one server, which starts in a second and ends with the process",
	"internal/redistest.shared": "likewise",
}

// writtenVars finds package variables that hold state: assigned outside their declaration, handed out by address, or of a
// type that exists to be changed.
func writtenVars(p *pack) []finding {
	if p.typed == nil {
		return nil
	}
	found := map[types.Object]finding{}
	add := func(v *types.Var, at, how string) {
		if _, have := found[v]; v != nil && !have {
			found[v] = finding{at, fmt.Sprintf("package variable %s.%s %s", p.dir, v.Name(), how),
				"keep state in a value that the user makes and holds (NewCooldowns is one); a table becomes a function or a constant"}
		}
	}
	for _, name := range p.typed.Scope().Names() {
		if v, ok := p.typed.Scope().Lookup(name).(*types.Var); ok {
			t := v.Type()
			if ptr, ok := t.Underlying().(*types.Pointer); ok {
				t = ptr.Elem()
				// A *regexp.Regexp or *strings.Replacer is as good as a constant, whatever it keeps inside.
				if n, ok := t.(*types.Named); ok && isStandard(n.Obj().Pkg().Path()) && !strings.HasPrefix(n.Obj().Pkg().Path(), "sync") {
					continue
				}
			}
			if t := stateful(t); t != "" {
				add(v, p.place(v), "holds "+t)
			}
		}
	}
	for _, f := range p.library() {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, v := range n.Values {
					if from := p.madeBySync(v); from != "" && i < len(n.Names) {
						add(packageLevel(p.info.Defs[n.Names[i]]), f.at(n), "is made by "+from)
					}
				}
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, lhs := range n.Lhs {
						add(p.packageVar(lhs), f.at(n), "is written")
					}
				}
			case *ast.IncDecStmt:
				add(p.packageVar(n.X), f.at(n), "is written")
			case *ast.RangeStmt:
				if n.Tok == token.ASSIGN {
					add(p.packageVar(n.Key), f.at(n), "is written")
					add(p.packageVar(n.Value), f.at(n), "is written")
				}
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					add(p.packageVar(n.X), f.at(n), "is handed out by address, so it can be written")
				}
			case *ast.CallExpr:
				p.calls(n, f, add)
			}
			return true
		})
	}
	all := make([]finding, 0, len(found))
	for v, f := range found {
		if written[p.dir+"."+v.Name()] == "" {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b finding) int { return strings.Compare(a.at, b.at) })
	return all
}

// calls finds calls that change a package variable: a method that takes it by address, and delete, clear and copy.
func (p *pack) calls(n *ast.CallExpr, f *file, add func(v *types.Var, at, how string)) {
	switch fun := ast.Unparen(n.Fun).(type) {
	case *ast.Ident:
		if _, builtin := p.info.Uses[fun].(*types.Builtin); builtin && len(n.Args) > 0 &&
			slices.Contains([]string{"delete", "clear", "copy"}, fun.Name) {
			add(p.packageVar(n.Args[0]), f.at(n), "is written by "+fun.Name)
		}
	case *ast.SelectorExpr:
		s := p.info.Selections[fun]
		if s == nil || s.Kind() != types.MethodVal {
			return
		}
		_, byAddress := s.Obj().(*types.Func).Signature().Recv().Type().(*types.Pointer)
		_, isPointer := s.Recv().Underlying().(*types.Pointer)
		if byAddress && !isPointer {
			add(p.packageVar(fun.X), f.at(n), "is written by its method "+fun.Sel.Name)
		}
	}
}

// packageVar is the package variable that the expression is or is a part of, nil if there is none. One of another package
// counts too.
func (p *pack) packageVar(x ast.Expr) *types.Var {
	for {
		switch e := x.(type) {
		case *ast.ParenExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.SliceExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		case *ast.SelectorExpr:
			if p.info.Selections[e] == nil { // qualified by a package
				return packageLevel(p.info.Uses[e.Sel])
			}
			x = e.X
		case *ast.Ident:
			return packageLevel(p.info.Uses[e])
		default:
			return nil
		}
	}
}

func packageLevel(o types.Object) *types.Var {
	if v, ok := o.(*types.Var); ok && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
		return v
	}
	return nil
}

func (p *pack) place(v *types.Var) string {
	for _, f := range p.library() {
		if f.ast.FileStart <= v.Pos() && v.Pos() < f.ast.FileEnd {
			return fmt.Sprintf("%s:%d", f.name, f.fset.Position(v.Pos()).Line)
		}
	}
	return p.dir
}

// stateful names what in t exists to be changed, "" if nothing does. It does not follow pointers.
func stateful(t types.Type) string {
	if n, ok := t.(*types.Named); ok && n.Obj().Pkg() != nil {
		if path := n.Obj().Pkg().Path(); path == "sync" || path == "sync/atomic" {
			return n.Obj().Pkg().Name() + "." + n.Obj().Name()
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Chan:
		return "a channel"
	case *types.Array:
		return stateful(u.Elem())
	case *types.Struct:
		for f := range u.Fields() {
			if s := stateful(f.Type()); s != "" {
				return s
			}
		}
	}
	return ""
}

// madeBySync is the function of package sync that x calls, as sync.OnceValue: the type of what it returns does not show it.
func (p *pack) madeBySync(x ast.Expr) string {
	call, ok := ast.Unparen(x).(*ast.CallExpr)
	if !ok {
		return ""
	}
	fun := ast.Unparen(call.Fun)
	switch generic := fun.(type) {
	case *ast.IndexExpr:
		fun = generic.X
	case *ast.IndexListExpr:
		fun = generic.X
	}
	if sel, ok := fun.(*ast.SelectorExpr); ok {
		if fn, ok := p.info.Uses[sel.Sel].(*types.Func); ok && fn.Pkg() != nil && fn.Pkg().Path() == "sync" {
			return "sync." + fn.Name()
		}
	}
	return ""
}

func TestPackageVariablesAreNotWritten(t *testing.T) {
	tr := repo(t)
	declared := map[string]bool{}
	for _, p := range tr.packs {
		if !p.isLibrary() {
			continue
		}
		report(t, writtenVars(p))
		if p.typed != nil {
			for _, name := range p.typed.Scope().Names() {
				declared[p.dir+"."+name] = true
			}
		}
	}
	for name := range written {
		if !declared[name] {
			t.Errorf("written allows %s, which does not exist\n\tmend: remove it from the list", name)
		}
	}
}

func TestVariableRuleFindsState(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       []string
	}{
		{"assigned", "var v int\nfunc f() { v = 1 }", []string{"v is written"}},
		{"counted", "var v int\nfunc f() { v++ }", []string{"v is written"}},
		{"an element", "var v = map[string]int{}\nfunc f() { v[``] = 1 }", []string{"v is written"}},
		{"a field of an element", "var v [2]struct{ n int }\nfunc f() { (v[0]).n += 1 }", []string{"v is written"}},
		{"through a pointer", "var v = new(int)\nfunc f() { *v = 1 }", []string{"v is written"}},
		{"by a loop", "var v int\nfunc f() { for v = range 3 {} }", []string{"v is written"}},
		{"by delete", "var v = map[int]int{}\nfunc f() { delete(v, 1) }", []string{"written by delete"}},
		{"by address", "var v int\nfunc f() *int { return &v }", []string{"handed out by address"}},
		{"by its method", "type n int\nfunc (x *n) inc() { *x++ }\nvar v n\nfunc f() { v.inc() }", []string{"its method inc"}},
		{"a lock", "import `sync`\nvar v sync.Mutex", []string{"holds sync.Mutex"}},
		{"a lock inside", "import `sync`\ntype t struct{ m sync.RWMutex }\nvar v = &t{}", []string{"holds sync.RWMutex"}},
		{"an atomic", "import `sync/atomic`\nvar v atomic.Int64", []string{"holds atomic.Int64"}},
		{"a once", "import `sync`\nvar v = sync.OnceValue(func() int { return 1 })", []string{"made by sync.OnceValue"}},
		{"a channel", "var v = make(chan int)", []string{"holds a channel"}},
		{"another package's", "import `net/http`\nfunc f() { http.DefaultClient = nil }", []string{"DefaultClient is written"}},
		{"an error", "import `errors`\nvar v = errors.New(``)\nfunc f() error { return v }", nil},
		{"a table that is read", "var v = map[int]int{1: 2}\nfunc f() int { return v[1] }", nil},
		{"a replacer", "import `strings`\nvar v = strings.NewReplacer(`a`, `b`)", nil},
		{"a pattern", "import `regexp`\nvar v = regexp.MustCompile(``)\nfunc f() bool { return v.MatchString(``) }", nil},
		{"a local of the same name", "var v int\nfunc f() { v := v; v++; _ = &v }", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustFind(t, writtenVars(snippet(t, "llmtest", "x.go", "package llmtest\n"+c.body)), c.want...)
		})
	}
}
