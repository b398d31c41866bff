package policy_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/policy"
)

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheCardOfThePageIsLoaded(t *testing.T) {
	_, rest, _ := strings.Cut(readPage(t), "```yaml\n")
	text, _, found := strings.Cut(rest, "```")
	if !found || !strings.HasPrefix(text, minimal+"---\n") {
		t.Fatalf("the page does not begin with the minimal card:\n%s", text)
	}
	dir := write(t, map[string]string{"mistral": backupKey})
	put(t, filepath.Join(dir, "support.yaml"), strings.Replace(text, "/run/secrets/mistral", "mistral", 1))
	o := options()
	o.LookupEnv = func(name string) (string, bool) { return primaryKey, name == "OPENAI_API_KEY" }
	if _, err := policy.Load(dir, o); err != nil {
		t.Error(err)
	}
}

func TestTheContractOfThePageIsLoaded(t *testing.T) {
	parts := strings.Split(readPage(t), "```yaml\n")
	text, _, _ := strings.Cut(parts[len(parts)-1], "```")
	synctest.Test(t, func(t *testing.T) {
		llmtest.Advance(time.Until(time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)))
		s, err := policy.Load(write(t, map[string]string{"p.yaml": text}), options())
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Expired(time.Now()); len(parts) < 3 || len(got) > 0 {
			t.Errorf("got %v", got)
		}
	})
}

func TestTheErrorsOfThePageAreThoseOfLoad(t *testing.T) {
	var want []string
	for line := range strings.Lines(readPage(t)) {
		if line, ok := strings.CutPrefix(line, "    support.yaml:"); ok {
			want = append(want, "support.yaml:"+strings.TrimSpace(line))
		}
	}
	bad := strings.NewReplacer("9000", "9s", "{route: approved-support-backup", "{route: backup").Replace(minimal)
	path := filepath.Join(write(t, map[string]string{"support.yaml": bad, "backup.key": backupKey}), "support.yaml")
	put(t, path, bad+"---\n"+routesAt("http://localhost:1", "http://localhost:2"))
	_, err := policy.Load(path, options())
	all, _ := errors.AsType[policy.Errors](err)
	var got []string
	for _, e := range all {
		e.File = "support.yaml"
		got = append(got, e.Error())
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the page says\n%s\nand Load\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}
