package middleware_test

import (
	"flag"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
)

var onlyScript = flag.Uint64("script", 0, "run this one of the random scripts, and show it")

// Ten thousand calls at random: models that answer, fail, stall, break off and panic, readers that are slow, leave or fail,
// windows, notices, continuations and limits, in onions of any depth. Whatever happens, the reader has the beginning of one
// answer, or of one and its marked continuations, and the response, the account and the clock agree.
//
// To see one again, apart from the jitter of waits: go test ./middleware -run TestTenThousandRandomScripts -v -script 1234
func TestTenThousandRandomScripts(t *testing.T) {
	const scripts = 10_000
	seen := outcomes{}
	if *onlyScript != 0 {
		runScript(t, *onlyScript, seen)
		return
	}
	for seed := uint64(1); seed <= scripts && !t.Failed(); seed++ {
		runScript(t, seed, seen)
	}
	if !t.Failed() {
		seen.enough(t, scripts)
	}
}

// outcomes counts what became of the calls, so that scripts which never get anywhere are noticed.
type outcomes map[string]int

// enough checks that each kind of outcome came up.
func (o outcomes) enough(t *testing.T, scripts int) {
	for _, kind := range []string{
		"answered", "answered by another", "repeated", "continued", "a break after a continuation", "a notice", "interrupted", "stalled",
		"canceled", "exhausted", "the sink failed", "nothing handed out", "a hidden beginning", "a tool call", "attempts used up",
	} {
		if o[kind] < scripts/1000 {
			t.Errorf("%q came up %d times in %d scripts: %v", kind, o[kind], scripts, o)
		}
	}
}

// runScript runs a script in a bubble of its own, which finds a goroutine that is left behind.
func runScript(t *testing.T, seed uint64, seen outcomes) {
	defer func() {
		if v := recover(); v != nil {
			t.Fatalf("script %d: %v\n%s", seed, v, debug.Stack())
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(rand.New(rand.NewPCG(seed, 0)))
		o := s.call(t.Context())
		synctest.Wait()
		if wrong := s.wrong(o); len(wrong) > 0 {
			t.Errorf("script %d: %s\n%v\n%v", seed, strings.Join(wrong, "; "), s, o)
		} else if *onlyScript != 0 {
			t.Logf("script %d\n%v\n%v", seed, s, o)
		}
		s.count(o, seen)
	})
}
