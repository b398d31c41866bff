package main

import (
	"encoding/xml"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// The support workflow keeps all that it promises, and the report can be read by people and by CI.
func TestTheSupportWorkflowKeepsItsPromises(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	var out, errOut strings.Builder
	if code := command(t.Context(), []string{dir}, &out, &errOut, cards); code != allHeld {
		t.Fatalf("exit code %d: %s\n%s", code, errOut.String(), out.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, "report.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), string(text)) || !strings.Contains(string(text), " passed, 0 failed, 0 not claimed\n") {
		t.Errorf("report.txt has\n%s", text)
	}
	report, err := os.ReadFile(filepath.Join(dir, "junit.xml"))
	if err != nil {
		t.Fatal(err)
	}
	var suites struct {
		Suite struct {
			Name     string     `xml:"name,attr"`
			Tests    int        `xml:"tests,attr"`
			Failures int        `xml:"failures,attr"`
			Cases    []struct{} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(report, &suites); err != nil {
		t.Fatalf("%v in\n%s", err, report)
	}
	if s := suites.Suite; s.Name != workflow || s.Tests < 30 || s.Failures != 0 || len(s.Cases) != s.Tests {
		t.Errorf("junit.xml has %+v", s)
	}
}

// changed is the cards with a text replaced by another.
func changed(t *testing.T, old, with string) fs.FS {
	t.Helper()
	out := fstest.MapFS{}
	found := false
	for _, name := range []string{"support.yaml", "routes.yaml"} {
		text, err := fs.ReadFile(cards, name)
		if err != nil {
			t.Fatal(err)
		}
		found = found || strings.Contains(string(text), old)
		out[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(string(text), old, with))}
	}
	if !found {
		t.Fatalf("the cards do not have %q", old)
	}
	return out
}

// What is proved is the workflow of examples/support-workflow: its card and this one differ in times only.
func TestTheCardIsThatOfTheSupportWorkflow(t *testing.T) {
	theirs, err := os.ReadFile("../support-workflow/support.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := fs.ReadFile(cards, "support.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := withoutTimes(string(theirs)), withoutTimes(string(ours)); a != b || !strings.Contains(a, "\nfail_closed_on: ") {
		t.Errorf("that of the support workflow has\n%s\nthis one\n%s", a, b)
	}
}

// withoutTimes is a card without its comments and the keys that hold nothing but times.
func withoutTimes(card string) string {
	var b strings.Builder
	for line := range strings.Lines(card) {
		switch key, _, _ := strings.Cut(line, ":"); {
		case strings.HasPrefix(line, "#"), key == "max_elapsed_ms", key == "cooldown", key == "timeouts":
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestACardThatApprovesTooMuchFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out, errOut strings.Builder
	code := command(t.Context(), []string{dir}, &out, &errOut, changed(t, "unusable_output]", "unusable_output, quota]"))
	if code != oneFailed || !strings.Contains(out.String(), "the backup is not approved for it and was called 1 times") {
		t.Errorf("exit code %d: %s\n%s", code, errOut.String(), out.String())
	}
	report, err := os.ReadFile(filepath.Join(dir, "junit.xml"))
	if err != nil || !strings.Contains(string(report), "<failure ") {
		t.Errorf("%v\n%s", err, report)
	}
}

func TestACardThatCannotBeReadIsToldApart(t *testing.T) {
	var out, errOut strings.Builder
	code := command(t.Context(), []string{t.TempDir()}, &out, &errOut, changed(t, "max_elapsed_ms", "max_elapsed"))
	if code != unusable || !strings.Contains(errOut.String(), "max_elapsed") {
		t.Errorf("exit code %d: %s", code, errOut.String())
	}
}
