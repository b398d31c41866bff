package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	mostBytes = 1 << 20
	mostFiles = 1000
	mostKey   = 64 << 10
)

// source is a file as it was read.
type source struct {
	name string
	data []byte
}

// sources reads the files of a policy, those of a directory by name.
func sources(path string) ([]source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("llm/policy: %w; name a YAML file, or a directory of them", err)
	}
	names := []string{path}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("llm/policy: %w", err)
		}
		names = names[:0]
		for _, e := range entries {
			ext := filepath.Ext(e.Name())
			if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && (ext == ".yaml" || ext == ".yml") {
				names = append(names, filepath.Join(path, e.Name()))
			}
		}
		if len(names) == 0 || len(names) > mostFiles {
			return nil, fmt.Errorf("llm/policy: %s has %d files that end in .yaml or .yml; it must have 1 to %d", path, len(names),
				mostFiles)
		}
	}
	out := make([]source, len(names))
	for i, name := range names {
		data, err := readFile(name, mostBytes)
		if err != nil {
			return nil, fmt.Errorf("llm/policy: %w", err)
		}
		out[i] = source{name, data}
	}
	return out, nil
}

// readFile reads a file of no more than most bytes.
func readFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name) //nolint:gosec // the program names the policy, and the policy its key files
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%s: it has more than %d bytes", name, most)
	}
	return data, nil
}

// document is a card that was read.
type document struct {
	*decoder
	card
	equal equivalence
}

// listed is a route that was read.
type listed struct {
	*decoder
	namedRoute
}

// bad reports something about the part of the route that key names.
func (l *listed) bad(key, mend, format string, args ...any) {
	l.badAt(under(l.path, key), mend, format, args...)
}

// parsed is a policy as its files have it.
type parsed struct {
	report
	cards   []*document
	routes  []*listed
	schemas []string // the files of schemas that contracts name
}

func parse(files []source) *parsed {
	p := &parsed{}
	for _, f := range files {
		p.files = append(p.files, f.name)
		p.file(f)
	}
	for i, c := range p.cards {
		if j := slices.IndexFunc(p.cards[:i], func(o *document) bool { return o.Workflow == c.Workflow && c.Workflow != "" }); j >= 0 {
			c.badAt("workflow", "rename one of them", "the workflow %s is there twice, first in %s", quoted(c.Workflow),
				p.cards[j].place("workflow"))
		}
	}
	for i, r := range p.routes {
		if o := p.route(r.name); o != p.routes[i] {
			r.bad("", "rename one of them", "the route %s is defined twice, first in %s", quoted(r.name), o.place(o.path))
		}
	}
	if len(p.cards) == 0 && len(p.errs) == 0 {
		p.add(files[0].name, nil, "there is no card", "add a document with workflow: NAME")
	}
	return p
}

// place is file:line of a path.
func (d *decoder) place(path string) string { return fmt.Sprintf("%s:%d", d.file, d.at[path].Line) }

func (p *parsed) route(name string) *listed {
	for _, r := range p.routes {
		if r.name == name {
			return r
		}
	}
	return nil
}

func (p *parsed) routeNames() []string {
	names := make([]string, len(p.routes))
	for i, r := range p.routes {
		names[i] = r.name
	}
	return names
}

func (p *parsed) file(f source) {
	docs := yaml.NewDecoder(bytes.NewReader(f.data))
	for {
		var node yaml.Node
		err := docs.Decode(&node)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			p.errs = append(p.errs, syntax(f.name, err))
			return
		}
		if node.Kind != yaml.DocumentNode || len(node.Content) != 1 || isNull(node.Content[0]) {
			continue
		}
		p.document(f.name, node.Content[0])
	}
}

func (p *parsed) document(file string, n *yaml.Node) {
	d := &decoder{report: &p.report, file: file, at: map[string]*yaml.Node{}, left: mostNodes}
	if !holds(n, "workflow") && (holds(n, "routes") || holds(n, "route")) {
		var c common
		d.value(n, "", reflect.ValueOf(&c).Elem(), rule{})
		for _, r := range c.Routes {
			p.routes = append(p.routes, &listed{d, r})
		}
		return
	}
	doc := &document{decoder: d}
	d.value(n, "", reflect.ValueOf(&doc.card).Elem(), rule{})
	p.cards = append(p.cards, doc)
}

// holds reports whether n has a key.
func holds(n *yaml.Node, key string) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return true
		}
	}
	return false
}

var (
	lineOf  = regexp.MustCompile(`line (\d+): `)
	anchors = regexp.MustCompile(`anchor '.*' `)
)

// syntax is what the parser of YAML said. What it quotes is left out.
func syntax(file string, err error) *Error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &Error{File: file, Line: 1, Column: 1, Mend: "mend the YAML: indent with spaces, quote texts with : or #"}
	if m := lineOf.FindStringSubmatchIndex(text); m != nil {
		e.Line, _ = strconv.Atoi(text[m[2]:m[3]])
		text = text[:m[0]] + text[m[1]:]
	}
	e.What = "this is no YAML: " + anchors.ReplaceAllString(text, "anchor ")
	return e
}
