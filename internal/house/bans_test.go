package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// A ban is a name of another package that code does not use.
type ban struct {
	pkg  string
	name string // "": the whole package; "Print*": all that begin so
	mend string
}

const (
	mendWait = "wait with time.NewTimer and ctx.Done in one select, and stop the timer"
	mendLog  = "return an error, or take a *slog.Logger in the configuration"
)

// libraryBans hold wherever users run our code.
var libraryBans = []ban{
	{"time", "After", mendWait},
	{"time", "Tick", mendWait},
	{"time", "Sleep", mendWait},
	{"log", "", mendLog},
	{"fmt", "Print*", mendLog},
	{"os", "Exit", "return an error; only a program's main may end the process"},
	{"os", "Stdout", mendLog},
	{"os", "Stderr", mendLog},
}

// testBans hold in tests.
var testBans = []ban{
	{"time", "Sleep", "put the test into synctest.Test and let the code under test move its clock (llmtest.Step.Delay, a timer, " +
		"synctest.Wait): a sleep outside a bubble is flaky and slow, and a reader cannot tell which it is"},
	{"time", "After", "use t.Context, a timer inside synctest.Test, or a channel that the code under test closes"},
}

func (b ban) hits(name string) bool {
	if prefix, ok := strings.CutSuffix(b.name, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return b.name == "" || b.name == name
}

// banned finds uses of what bans name, by whatever name the file imports the package.
func banned(f *file, bans []ban) []finding {
	var found []finding
	for _, b := range bans {
		local := f.imported(b.pkg)
		if local == "" {
			continue
		}
		if local == "." {
			found = append(found, finding{f.name, "dot import of " + b.pkg, "import it by its name"})
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			// An identifier that the parser resolved is a local variable, not the package.
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && x.Obj == nil && b.hits(sel.Sel.Name) {
				found = append(found, finding{f.at(sel), fmt.Sprintf("%s.%s", b.pkg, sel.Sel.Name), b.mend})
			}
			return true
		})
	}
	return found
}

// emptyInterfaces finds the long spelling of any.
func emptyInterfaces(f *file) []finding {
	var found []finding
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if it, ok := n.(*ast.InterfaceType); ok && it.Methods.NumFields() == 0 {
			found = append(found, finding{f.at(it), "interface" + "{}", "write any"})
		}
		return true
	})
	return found
}

// initFuncs finds func init.
func initFuncs(f *file) []finding {
	var found []finding
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			found = append(found, finding{f.at(fn), "func init", "nothing happens because a package is imported; make it a constructor " +
				"that the user calls, or a value that needs no code"})
		}
	}
	return found
}

// builtinPrints finds the print and println of the language.
func builtinPrints(f *file) []finding {
	var found []finding
	ast.Inspect(f.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if id, ok := call.Fun.(*ast.Ident); ok && id.Obj == nil && (id.Name == "print" || id.Name == "println") {
			found = append(found, finding{f.at(call), id.Name, mendLog})
		}
		return true
	})
	return found
}

// idleTests finds tests that cannot fail: nothing in them uses their *testing.T.
func idleTests(f *file) []finding {
	var found []finding
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !f.test || fn.Recv != nil || fn.Body == nil || fn.Name.Name == "TestMain" {
			continue
		}
		if !strings.HasPrefix(fn.Name.Name, "Test") && !strings.HasPrefix(fn.Name.Name, "Fuzz") {
			continue
		}
		params := fn.Type.Params.List
		if len(params) != 1 || len(params[0].Names) != 1 || !uses(fn.Body, params[0].Names[0].Name) {
			found = append(found, finding{f.at(fn), fn.Name.Name + " cannot fail: it never uses its *testing.T",
				"assert something, or remove it"})
		}
	}
	return found
}

func uses(body ast.Node, name string) bool {
	used := false
	ast.Inspect(body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			used = true
		}
		return !used
	})
	return used
}

func libraryCode(p *pack, f *file) bool { return p.isLibrary() && !f.test }

func testCode(_ *pack, f *file) bool { return f.test }

func allCode(*pack, *file) bool { return true }

func TestLibraryCodeDoesNotSleepLogOrPrint(t *testing.T) {
	report(t, repo(t).each(libraryCode, func(f *file) []finding {
		return slices.Concat(banned(f, libraryBans), builtinPrints(f))
	}))
}

func TestLibraryCodeHasNoInit(t *testing.T) { report(t, repo(t).each(libraryCode, initFuncs)) }

func TestTestsDoNotSleep(t *testing.T) {
	report(t, repo(t).each(testCode, func(f *file) []finding { return banned(f, testBans) }))
}

func TestTestsCanFail(t *testing.T) { report(t, repo(t).each(testCode, idleTests)) }

func TestAnyIsSpelledAny(t *testing.T) { report(t, repo(t).each(allCode, emptyInterfaces)) }

func TestBansFindBadCode(t *testing.T) {
	lib := func(f *file) []finding { return banned(f, libraryBans) }
	for _, c := range []struct {
		name string
		rule func(*file) []finding
		src  string
		want []string
	}{
		{"time.After", lib, "import \"time\"\nvar _ = time.After", []string{":3 time.After"}},
		{"time.Sleep by another name", lib, "import clock \"time\"\nfunc f() { clock.Sleep(1) }", []string{":3 time.Sleep"}},
		{"dot import", lib, "import . \"log\"\nfunc f() { Print(1) }", []string{"dot import of log"}},
		{"log", lib, "import \"log\"\nvar _ = log.New", []string{"log.New"}},
		{"fmt.Println", lib, "import \"fmt\"\nfunc f() { fmt.Println() }", []string{"fmt.Println"}},
		{"fmt.Sprint is no print", lib, "import \"fmt\"\nvar _ = fmt.Sprint", nil},
		{"a local variable called log", lib, "import \"log/slog\"\nfunc f(log *slog.Logger) { log.Info(``) }", nil},
		{"println", builtinPrints, "func f() { println(1) }", []string{"println"}},
		{"init", initFuncs, "func init() {}", []string{"func init"}},
		{"a method called init", initFuncs, "type t int\nfunc (t) init() {}", nil},
		{"the long any", emptyInterfaces, "var _ interface{ /* nothing */ }", []string{"interface{}"}},
		{"an interface", emptyInterfaces, "var _ interface{ M() }", nil},
		{"a sleeping test", func(f *file) []finding { return banned(f, testBans) },
			"import clock \"time\"\nfunc f() { clock.Sleep(1) }", []string{"Sleep"}},
		{"an idle test", idleTests, "import \"testing\"\nfunc TestX(t *testing.T) { _ = 1 }", []string{"TestX cannot fail"}},
		{"an unnamed T", idleTests, "import \"testing\"\nfunc TestX(*testing.T) { _ = 1 }", []string{"TestX cannot fail"}},
		{"a test that can fail", idleTests, "import \"testing\"\nfunc TestX(t *testing.T) { t.Fail() }", nil},
	} {
		t.Run(c.name, func(t *testing.T) { mustFind(t, c.rule(source(t, "x_test.go", c.src)), c.want...) })
	}
}

// source parses the body of a file.
func source(t *testing.T, name, body string) *file {
	t.Helper()
	f, err := parse(token.NewFileSet(), name, []byte("package p\n"+body+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}
