package sqlstore

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// writes starts a process that writes until it is killed, and says what.
func writes(t *testing.T, p place) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), "SQLSTORE_CHILD="+p.name, "SQLSTORE_KIND="+p.kind)
	out, err := c.StdoutPipe()
	noErr(t, err)
	noErr(t, c.Start())
	return c, bufio.NewScanner(out)
}

// A process that is killed in the middle of its writes leaves every row that was acknowledged, and what it had begun and not
// settled is found, by somebody who does not touch it as long as its lease lasts.
func TestWhatWasAcknowledgedIsThereAfterAKill(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		c, lines := writes(t, p)
		acknowledged := map[string]string{} // by call: the last word
		for n := 0; lines.Scan(); n++ {
			what, call, ok := strings.Cut(lines.Text(), " ")
			if !ok || what != "begun" && what != "settled" {
				t.Fatalf("the process said %q", lines.Text())
			}
			if acknowledged[call] != "settled" {
				acknowledged[call] = what
			}
			if n == 2000 {
				noErr(t, c.Process.Kill()) // what it had said by then is still read
			}
		}
		if err := c.Wait(); err == nil || len(acknowledged) < 1000 {
			t.Fatalf("%v, %d calls", err, len(acknowledged))
		}

		s := mustOpen(t, p, Config{})
		states := map[string]string{}
		for _, row := range texts(t, s, "SELECT call_id || ' ' || state FROM llm_attempt") {
			call, state, _ := strings.Cut(row, " ")
			states[call] = state
		}
		started := 0
		for _, state := range states {
			if state == "started" {
				started++
			}
		}
		for call, what := range acknowledged {
			switch state := states[call]; {
			case state == "", what == "settled" && state != "answered":
				t.Errorf("%s was %s and is %q", call, what, state)
			}
		}
		j := s.Journal()
		if rows, err := j.Recover(t.Context()); err != nil || len(rows) != 0 {
			t.Errorf("while its lease lasts: %d rows, %v", len(rows), err)
		}
		expire(t, s)
		rows, err := j.Recover(t.Context())
		if err != nil || len(rows) < started || started < 900 { // more, if a server was still at its last batch
			t.Errorf("%d rows recovered, %d were started, %v", len(rows), started, err)
		}
		want(t, "left", texts(t, s, "SELECT state FROM llm_attempt WHERE state = 'started'"), nil)
	})
}

// Two processes on one database: what both were told is there.
func TestTwoProcessesShareADatabase(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		c, lines := writes(t, p)
		theirs := make(chan []string)
		go func() {
			var begun []string
			for lines.Scan() {
				if call, ok := strings.CutPrefix(lines.Text(), "begun "); ok {
					begun = append(begun, call)
				}
				if len(begun) == 1000 {
					break
				}
			}
			theirs <- begun
		}()
		s := mustOpen(t, p, Config{})
		var mine []string
		for n := range int64(100) { // beside it, each waits for its own turn
			a := attemptRow(1<<40 + n)
			noErr(t, s.Journal().Begin(t.Context(), a))
			mine = append(mine, a.Call)
		}
		begun := <-theirs
		noErr(t, c.Process.Kill())
		if err := c.Wait(); err == nil {
			t.Error("it was not killed")
		}
		there := map[string]bool{}
		for _, call := range texts(t, s, "SELECT call_id FROM llm_attempt") {
			there[call] = true
		}
		for _, call := range append(mine, begun...) {
			if !there[call] {
				t.Errorf("%s is missing", call)
			}
		}
		want(t, "the other's rows", len(begun), 1000)
	})
}
