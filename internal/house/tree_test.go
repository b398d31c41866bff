package house

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// machineText is what no file says: paths of one machine, and hosts that the tools know by themselves. The names are cut in
// two here, since this file is looked at too.
var machineText = regexp.MustCompile(`(^|[^\w./$}-])/(wo` + `rk|ro` + `ot|ho` + `me/\w+|Us` + `ers/\w+)(/|$|["'\s])` +
	`|[A-Z]:\\Us` + `ers\\|pro` + `xy\.golang\.org|su` + `m\.golang\.org|regis` + `try\.npmjs|py` + `pi\.org|go` + `proxy\.`)

// machineWords finds lines that only make sense on one machine.
func machineWords(name string, text []byte) []finding {
	if bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
		return nil // no text
	}
	var found []finding
	for i, line := range bytes.Split(text, []byte("\n")) {
		if m := machineText.Find(line); m != nil {
			found = append(found, finding{fmt.Sprintf("%s:%d", name, i+1), fmt.Sprintf("%q", m),
				"say it without a path or host of one machine: t.TempDir, a path from the root, the tool's own default"})
		}
	}
	return found
}

func TestNoFileNamesAMachine(t *testing.T) {
	root := os.DirFS(repo(t).root)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", ".tmp"}, d.Name()):
			return fs.SkipDir
		case d.Type().IsRegular() && !slices.Contains([]string{".sum", ".out", ".prof", ".test"}, path.Ext(name)):
			text, err := fs.ReadFile(root, name)
			if err != nil {
				return err
			}
			report(t, machineWords(name, text))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestMachineRuleFindsPaths(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a home", "x\ncd /ho" + "me/ann/llm", "x:2"},
		{"root's", `path = "/ro` + `ot/go"`, "x:1"},
		{"a workspace", "see /wo" + "rk/main", "x:1"},
		{"a mirror", "GOPROXY=https://pro" + "xy.golang.org", "x:1"},
		{"a URL", "https://example.com/wo" + "rk/1", ""},
		{"a relative path", "./ro" + "ot/x", ""},
		{"no text", "\x00/ho" + "me/ann/", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			mustFind(t, machineWords("x", []byte(c.text)), want...)
		})
	}
}

// unlisted finds modules that go.work does not use, so that go test work would pass them by.
func unlisted(modules map[string]string, work string) []finding {
	var found []finding
	for dir := range modules {
		use := "./" + dir
		if dir == "." {
			use = "."
		}
		if !slices.Contains(strings.Fields(work), use) {
			found = append(found, finding{path.Join(dir, "go.mod"), "a module that go.work does not list", "add " + use + " to use (…) in go.work"})
		}
	}
	return found
}

func TestWorkspaceListsEveryModule(t *testing.T) {
	tr := repo(t)
	work, err := os.ReadFile(filepath.Join(tr.root, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	report(t, unlisted(tr.modules, string(work)))
}

func TestWorkspaceRuleFindsAModule(t *testing.T) {
	mustFind(t, unlisted(map[string]string{".": modulePath, "a": modulePath + "/a"}, "use (\n\t.\n\t./ab\n)"), "a/go.mod")
}

// exampleDirs are the directories right under examples.
func (tr *tree) exampleDirs() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(tr.root, "examples"))
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && !skipped(e.Name()) {
			dirs = append(dirs, "examples/"+e.Name())
		}
	}
	return dirs, err
}

// noExample finds example directories that are no program or do not compile.
func noExample(dirs []string, packs []*pack) []finding {
	var found []finding
	for _, dir := range dirs {
		i := slices.IndexFunc(packs, func(p *pack) bool { return p.dir == dir && p.isMain() })
		switch {
		case i < 0:
			found = append(found, finding{dir, "an example without package main", "each directory in examples is a program: go run ./" + dir})
		case packs[i].broken != nil:
			found = append(found, finding{dir, packs[i].broken.Error(), "go build ./" + dir})
		}
	}
	return found
}

func TestEveryExampleIsAProgram(t *testing.T) {
	tr := repo(t)
	dirs, err := tr.exampleDirs()
	if err != nil || len(dirs) == 0 {
		t.Fatalf("examples: %d directories, %v", len(dirs), err)
	}
	report(t, noExample(dirs, tr.packs))
}

func TestExampleRuleFindsNoProgram(t *testing.T) {
	packs := []*pack{{dir: "examples/lib", files: []*file{source(t, "examples/lib/x.go", "")}}}
	mustFind(t, noExample([]string{"examples/lib", "examples/empty"}, packs), "examples/lib an example without", "examples/empty an example without")
}

// TestEveryExampleRuns runs the examples as a newcomer does, without any key.
func TestEveryExampleRuns(t *testing.T) {
	tr := repo(t)
	dirs, err := tr.exampleDirs()
	if err != nil {
		t.Fatal(err)
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasSuffix(name, "_API_KEY") || strings.HasPrefix(name, "OPENAI_")
	})
	for _, dir := range dirs {
		t.Run(dir, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), path.Base(dir))
			build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./"+dir)
			build.Dir = tr.root
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("go build: %v\n%s", err, out)
			}
			run := exec.CommandContext(t.Context(), program)
			run.Dir, run.Env, run.WaitDelay = tr.root, env, time.Second
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("go run ./%s: %v\n%s", dir, err, out)
			} else if len(bytes.TrimSpace(out)) == 0 {
				t.Errorf("go run ./%s printed nothing\n\tmend: an example shows what happens", dir)
			}
		})
	}
}
