package house

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// A block is one ```go block of a document.
type block struct {
	line   int
	source string // "file#region" or "file" of the mark above it; "": none
	text   string
}

var mark = regexp.MustCompile(`^<!-- from (\S+) -->$`)

// goBlocks are the Go blocks of a document, each with the mark in the line above it.
func goBlocks(doc string) []block {
	lines := strings.Split(doc, "\n")
	var blocks []block
	for i := 0; i < len(lines); i++ {
		if strings.TrimRight(lines[i], " \r") != "```go" {
			continue
		}
		b := block{line: i + 1}
		if i > 0 {
			if m := mark.FindStringSubmatch(strings.TrimSpace(lines[i-1])); m != nil {
				b.source = m[1]
			}
		}
		start := i + 1
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
		}
		b.text = strings.Join(lines[start:min(i, len(lines))], "\n")
		blocks = append(blocks, b)
	}
	return blocks
}

// region is the text between "// region: name" and "// endregion" in a Go file, without the indentation all its lines share.
// An empty name is the whole file.
func region(src, name string) (string, error) {
	if name == "" {
		return strings.TrimSpace(src), nil
	}
	var lines []string
	inside := false
	for line := range strings.Lines(src) {
		line = strings.TrimRight(line, "\n")
		switch text := strings.TrimSpace(line); {
		case text == "// region: "+name:
			inside = true
		case inside && text == "// endregion":
			return strings.TrimSpace(strings.Join(dedent(lines), "\n")), nil
		case inside && !strings.HasPrefix(text, "// region: "):
			lines = append(lines, line)
		}
	}
	if inside {
		return "", fmt.Errorf("region %q has no // endregion", name)
	}
	return "", fmt.Errorf("there is no line // region: %s", name)
}

func dedent(lines []string) []string {
	indent := -1
	for _, l := range lines {
		if n := len(l) - len(strings.TrimLeft(l, "\t")); l != "" && (indent < 0 || n < indent) {
			indent = n
		}
	}
	out := slices.Clone(lines)
	for i, l := range out {
		if l != "" {
			out[i] = l[indent:]
		}
	}
	return out
}

// uncompiled finds Go blocks of a document that are not the text of a compiled file.
func uncompiled(name, doc string, files fs.FS) []finding {
	var found []finding
	for _, b := range goBlocks(doc) {
		at := fmt.Sprintf("%s:%d", name, b.line)
		file, part, _ := strings.Cut(b.source, "#")
		if !strings.HasSuffix(file, ".go") {
			found = append(found, finding{at, "a Go block that is compiled nowhere",
				"copy it from a Go file and put <!-- from path/file.go#region --> in the line above it"})
			continue
		}
		src, err := fs.ReadFile(files, file)
		if err != nil {
			found = append(found, finding{at, err.Error(), "name a Go file by its path from the root"})
			continue
		}
		text, err := region(string(src), part)
		if err != nil {
			found = append(found, finding{at, file + ": " + err.Error(), "mark the lines with // region: " + part + " and // endregion"})
			continue
		}
		if got := strings.TrimSpace(b.text); got != text {
			found = append(found, finding{at, fmt.Sprintf("the block is not %s:\n%s", b.source, firstDifference(got, text)),
				"copy the region again"})
		}
	}
	return found
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b || i >= len(g) || i >= len(w) {
			return fmt.Sprintf("\tline %d is  %s\n\tit should be %s", i+1, a, b)
		}
	}
	return ""
}

func TestGoBlocksOfDocumentsAreCompiledCode(t *testing.T) {
	root := os.DirFS(repo(t).root)
	if _, err := fs.Stat(root, "README.md"); err != nil {
		t.Errorf("README.md: %v\n\tmend: write it; its Go blocks are regions of compiled files", err)
	}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(d.Name()):
			return fs.SkipDir
		case path.Ext(name) == ".md":
			doc, err := fs.ReadFile(root, name)
			if err != nil {
				return err
			}
			report(t, uncompiled(name, string(doc), root))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDocumentRuleFindsForeignCode(t *testing.T) {
	code := "package x\n\nfunc f() {\n\t// region: body\n\tif true {\n\t\tg()\n\t}\n\n\th()\n\t// endregion\n}\n"
	open := "package x\n// region: body\n"
	files := fstest.MapFS{"x/x.go": {Data: []byte(code)}, "x/open.go": {Data: []byte(open)}}
	body := "if true {\n\tg()\n}\n\nh()"
	fence := func(mark, text string) string { return "text\n" + mark + "\n```go\n" + text + "\n```\n" }
	for _, c := range []struct{ name, doc, want string }{
		{"the region", fence("<!-- from x/x.go#body -->", body), ""},
		{"the whole file", fence("<!-- from x/x.go -->", code), ""},
		{"another language", "```sh\nls\n```\n", ""},
		{"a fence that is shown, not meant", "    ```go\n    x\n    ```\n", ""},
		{"no mark", fence("", body), "x.md:3 a Go block that is compiled nowhere"},
		{"changed text", fence("<!-- from x/x.go#body -->", strings.Replace(body, "h()", "i()", 1)), "line 5 is  i()"},
		{"text cut short", fence("<!-- from x/x.go#body -->", "if true {"), "line 2 is"},
		{"no such file", fence("<!-- from x/y.go#body -->", body), "x/y.go"},
		{"no such region", fence("<!-- from x/x.go#other -->", body), "no line // region: other"},
		{"no end", fence("<!-- from x/open.go#body -->", ""), "no // endregion"},
		{"no Go file", fence("<!-- from x.md -->", body), "compiled nowhere"},
		{"no closing fence", "\n```go\nx", "compiled nowhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			mustFind(t, uncompiled("x.md", c.doc, files), want...)
		})
	}
}
