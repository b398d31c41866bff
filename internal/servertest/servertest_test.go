package servertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// outcome is a test that keeps how it ended.
type outcome struct {
	testing.TB
	how, why string
}

func (o *outcome) Helper() {}

func (o *outcome) Fatalf(format string, args ...any) {
	o.how, o.why = "failed", fmt.Sprintf(format, args...)
}

func (o *outcome) Skipf(format string, args ...any) {
	o.how, o.why = "skipped", fmt.Sprintf(format, args...)
}

func TestWithoutAServerTestsAreSkippedSayingSoAndWhereOneIsRequiredTheyFail(t *testing.T) {
	gone := Missing("install the server")
	for _, c := range []struct {
		err           error
		require, want string
	}{
		{nil, "1", ""}, {gone, "", "skipped"}, {gone, "1", "failed"}, {errors.New("install the server"), "", "failed"},
	} {
		t.Setenv(EnvRequire, c.require)
		o := &outcome{TB: t}
		if Check(o, "x", c.err); o.how != c.want || c.want != "" && !strings.Contains(o.why, "x: install the server") {
			t.Errorf("%v, %s=%q: %s: %s; want it %s and the reason", c.err, EnvRequire, c.require, o.how, o.why, c.want)
		}
	}
}

func TestRunTellsWhatAShellSaysAndEndsWithItsInput(t *testing.T) {
	sh := func(script string) *exec.Cmd { return exec.CommandContext(t.Context(), "/bin/sh", "-c", script) }
	c := sh("echo ready 7; cat >/dev/null")
	alive, said, err := Run(c, t.TempDir())
	if err != nil || said != "ready 7" {
		t.Fatalf("%q, %v", said, err)
	}
	if err := errors.Join(alive.Close(), c.Wait()); err != nil {
		t.Error(err)
	}
	if _, _, err := Run(sh("echo no room; exit 3"), t.TempDir()); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("of a shell that gave up: %v", err)
	}
	dir := t.TempDir()
	if _, _, err := Run(exec.CommandContext(t.Context(), dir+"/none"), dir); err == nil {
		t.Error("a program that is not there was started")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its directory stayed: %v", err)
	}
}
