package pgtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// outcome is a test that keeps how it ended.
type outcome struct {
	testing.TB
	how, why string
}

func (o *outcome) Helper() {}

func (o *outcome) Fatalf(format string, args ...any) { o.end("failed", fmt.Sprintf(format, args...)) }

func (o *outcome) Skipf(format string, args ...any) { o.end("skipped", fmt.Sprintf(format, args...)) }

func (o *outcome) end(how, why string) {
	if o.how == "" { // of a real test the first is the end
		o.how, o.why = how, why
	}
}

func TestWithoutAServerTestsAreSkippedSayingSoAndWhereOneIsRequiredTheyFail(t *testing.T) {
	// A program that no machine has.
	_, err := programs("no-such-program-of-postgres")
	m, ok := errors.AsType[missing](err)
	if !ok || !strings.Contains(m.Error(), "install PostgreSQL") {
		t.Fatalf("without its programs: %v", err)
	}
	for require, want := range map[string]string{"": "skipped", "1": "failed"} {
		t.Setenv(envRequire, require)
		o := &outcome{TB: t}
		if m.end(o); o.how != want || !strings.Contains(o.why, string(m)) {
			t.Errorf("%s=%q: %s: %s; want it %s and the reason", envRequire, require, o.how, o.why, want)
		}
	}
}
