package policy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const page = "../docs/policy.md"

// keysOf is a table of the keys of a type.
func keysOf(t reflect.Type) string {
	var b strings.Builder
	b.WriteString("| key | what it says |\n| --- | --- |\n")
	for _, f := range fieldsOf(t) {
		if !f.IsExported() {
			continue
		}
		doc := meaningOf(t, f)
		if one := ruleOf(t, f)["one"]; one != "" {
			doc += " (" + strings.ReplaceAll(one, "|", ", ") + ")"
		}
		if ruleOf(t, f).has("required") {
			doc += "; required"
		}
		if doc == "" {
			doc = "no meaning is given"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", keyOf(f), doc)
	}
	return b.String()
}

func wordsTable() string {
	var b strings.Builder
	b.WriteString("| word | meaning | classes | may stand in |\n| --- | --- | --- | --- |\n")
	for _, w := range Words() {
		var classes, places []string
		for _, c := range w.Classes {
			classes = append(classes, c.String())
		}
		for _, p := range []struct {
			may  bool
			name string
		}{{w.Fallback, "reasons"}, {w.Closed, "fail_closed_on"}, {w.Degrade, "degrade.for"}} {
			if p.may {
				places = append(places, p.name)
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", w.Word, w.Meaning, strings.Join(classes, ", "), strings.Join(places, ", "))
	}
	return b.String()
}

// explained is what Explain says of the first card of the page.
func explained(t *testing.T) string {
	dir := t.TempDir()
	card := `workflow: support-answer
max_total_attempts: 3
max_elapsed_ms: 9000
max_incremental_cost_usd: 0.02
replay_safe_until: first_visible_token
allowed_fallbacks: [{route: approved-support-backup, reasons: [provider_overload, pre-stream_timeout]}]
queue_after_ms: null
fail_closed_on: [auth, policy, unapproved_route, uncertain_side_effect]
---
routes:
  support-primary: {provider: openai, model: a, price: {free: true}}
  approved-support-backup: {provider: openai, model: b, price: {free: true}}
`
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(card), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Explain("support-answer")
	if err != nil {
		t.Fatal(err)
	}
	return "```\n" + out + "```\n"
}

// The tables of the page are made from the types and the list of words, between "<!-- made: name -->" and "<!-- end -->".
func TestTheTablesOfThePageAreThoseOfTheCode(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	doc, tables := string(text), map[string]string{"words": wordsTable(), "explain": explained(t)}
	for _, of := range []reflect.Type{
		reflect.TypeFor[card](), reflect.TypeFor[fallback](), reflect.TypeFor[degrade](), reflect.TypeFor[lastGood](),
		reflect.TypeFor[retry](), reflect.TypeFor[cooldown](), reflect.TypeFor[timeouts](), reflect.TypeFor[stream](),
		reflect.TypeFor[journal](),
		reflect.TypeFor[reaction](), reflect.TypeFor[route](), reflect.TypeFor[price](), reflect.TypeFor[key](),
	} {
		tables[of.Name()] = keysOf(of)
	}
	for name, table := range tables {
		if strings.Contains(table, "no meaning is given") {
			t.Errorf("a key of %s is not in the list of meanings:\n%s", name, table)
		}
		before, rest, found := strings.Cut(doc, "<!-- made: "+name+" -->\n")
		was, after, ended := strings.Cut(rest, "<!-- end -->")
		if !found || !ended {
			t.Errorf("%s has no table of %s", page, name)
			continue
		}
		if was != table && flag.Lookup("update").Value.String() != "true" {
			t.Errorf("the table of %s is not what the code says; run: go test ./policy -update", name)
		}
		doc = before + "<!-- made: " + name + " -->\n" + table + "<!-- end -->" + after
	}
	if doc != string(text) && flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(page, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
