package policy

import (
	"flag"
	"fmt"
	"os"
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
		if one := ruleOf(f)["one"]; one != "" {
			doc += " (" + strings.ReplaceAll(one, "|", ", ") + ")"
		}
		if ruleOf(f).has("required") {
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

// The tables of the page are made from the types and the list of words, between "<!-- made: name -->" and "<!-- end -->".
func TestTheTablesOfThePageAreThoseOfTheCode(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	doc, tables := string(text), map[string]string{"words": wordsTable()}
	for _, of := range []reflect.Type{
		reflect.TypeFor[card](), reflect.TypeFor[fallback](), reflect.TypeFor[degrade](), reflect.TypeFor[lastGood](),
		reflect.TypeFor[retry](), reflect.TypeFor[cooldown](), reflect.TypeFor[timeouts](), reflect.TypeFor[stream](),
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
