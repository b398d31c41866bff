package classify

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/modelchain/llm"
)

// failures are answers as providers word them, one a line: what came, and what it must be taken for.
//
//go:embed testdata/failures.jsonl
var failures []byte

type fixture struct {
	Name      string            `json:"name"`
	Provider  string            `json:"provider"`
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers"`
	Body      string            `json:"body"`
	Partial   bool              `json:"partial"`
	Class     llm.Class         `json:"class"`
	WaitMS    int64             `json:"wait_ms"`
	CoolUntil bool              `json:"cool_until"`
	Rule      string            `json:"rule"`
}

func (f *fixture) failure() *llm.Error {
	h := http.Header{}
	for k, v := range f.Headers {
		h.Set(k, v)
	}
	e := &llm.Error{Provider: f.Provider}
	e.Evidence = llm.Evidence{Status: f.Status, Header: h, Body: f.Body, Partial: f.Partial}
	if f.Status == 200 {
		e.Evidence.Phase = llm.PhaseStream
	}
	return e
}

func fixtures(t testing.TB) []fixture {
	t.Helper()
	var all []fixture
	lines := bufio.NewScanner(bytes.NewReader(failures))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var f fixture
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			t.Fatalf("%v in %s", err, lines.Bytes())
		}
		all = append(all, f)
	}
	if len(all) < 200 {
		t.Fatalf("only %d fixtures", len(all))
	}
	return all
}

func TestFailures(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.Name, func(t *testing.T) {
			got := Err(t.Context(), f.failure())
			if got.Class != f.Class || f.Rule != "" && got.Rule != f.Rule {
				t.Errorf("got %v by %q, want %v by %q: %v", got.Class, got.Rule, f.Class, f.Rule, got)
			}
			if got.Owner != f.Class.Owner() {
				t.Errorf("owner %v, want %v", got.Owner, f.Class.Owner())
			}
			if want := time.Duration(f.WaitMS) * time.Millisecond; got.RetryAfter != want {
				t.Errorf("wait %v, want %v", got.RetryAfter, want)
			}
			if got.CoolUntil != f.CoolUntil {
				t.Errorf("cool until %v, want %v", got.CoolUntil, f.CoolUntil)
			}
		})
	}
}
