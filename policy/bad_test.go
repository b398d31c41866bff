package policy_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelchain/llm/policy"
)

var update = flag.Bool("update", false, "write the golden files anew")

const badFile = "testdata/bad.txt"

// A badCard is a case of testdata/bad.txt: a file of a policy and what is said of it.
type badCard struct{ name, file, want string }

func badCards(t *testing.T) (cases []badCard) {
	t.Helper()
	text, err := os.ReadFile(badFile)
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq("\n"+string(text), "\n=== ") {
		name, rest, _ := strings.Cut(part, "\n")
		if file, want, ok := strings.Cut(rest, "--- want\n"); ok {
			cases = append(cases, badCard{name, file, strings.TrimSpace(want)})
		}
	}
	return cases
}

// A bad card is refused with every mistake in its place, and with the mend. The texts are a golden file: go test . -update.
func TestBadCards(t *testing.T) {
	var golden strings.Builder
	cases := badCards(t)
	if len(cases) < 50 {
		t.Fatalf("%s has %d cases", badFile, len(cases))
	}
	for _, c := range cases {
		dir := write(t, map[string]string{"card.yaml": c.file})
		_, err := policy.Load(filepath.Join(dir, "card.yaml"), options())
		if err == nil {
			t.Errorf("%s: it was loaded", c.name)
			continue
		}
		all, ok := errors.AsType[policy.Errors](err)
		if !ok {
			t.Errorf("%s: %v is no Errors", c.name, err)
			continue
		}
		got := make([]string, len(all))
		for i, e := range all {
			got[i] = strings.ReplaceAll(e.Error(), dir+string(filepath.Separator), "")
			if e.Line == 0 && c.name != "no card at all" {
				t.Errorf("%s: %v has no place", c.name, e)
			}
		}
		if text := strings.Join(got, "\n"); text != c.want && !*update {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, text, c.want)
		}
		if strings.Contains(err.Error(), "abcdefghijklmnopqrstuvwxyz") {
			t.Errorf("%s: the error shows a key: %v", c.name, err)
		}
		golden.WriteString("=== " + c.name + "\n" + c.file + "--- want\n" + strings.Join(got, "\n") + "\n")
	}
	if *update {
		put(t, badFile, golden.String())
	}
}
