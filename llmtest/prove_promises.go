package llmtest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelchain/llm"
)

// The bounds of what can be tried of a promise.
const (
	leastTime  = time.Millisecond
	mostTime   = 365 * 24 * time.Hour
	mostHeld   = 5000
	mostWindow = 10_000_000
)

// check says what of the promises cannot be meant.
func (p *Promises) check() error {
	for _, d := range []struct {
		name, zero string
		time.Duration
	}{{"Within", "no limit", p.Within}, {"Rest", "none", p.Rest}, {"Hedges", "no hedge", p.Hedges}} {
		switch {
		case d.Duration < 0 || d.Duration > mostTime:
			return fmt.Errorf("the promise %s is %v; use 0 for %s, or a time up to %v", d.name, d.Duration, d.zero, mostTime)
		case d.Duration > 0 && d.Duration < leastTime:
			return fmt.Errorf("the promise %s is %v; has it a unit, such as 15*time.Second? Use at least %v, or 0 for %s", d.name,
				d.Duration, leastTime, d.zero)
		}
	}
	for _, n := range []struct {
		name, zero string
		n          int
	}{
		{"Attempts", "no limit", p.Attempts}, {"Retries", "none", p.Retries}, {"Callers", "20", p.Callers},
		{"Window", "one that is not checked", p.Window},
	} {
		if n.n < 0 {
			return fmt.Errorf("the promise %s is %d; use 0 for %s, or more", n.name, n.n, n.zero)
		}
	}
	switch {
	case p.Caller == nil:
		return errors.New("the chain has no Caller; let build set Promises.Caller")
	case p.Held > mostHeld:
		return fmt.Errorf("the promise Held is %d; at most %d can be tried: use -1 where the whole answer is held back", p.Held,
			mostHeld)
	case p.Window > mostWindow:
		return fmt.Errorf("the promise Window is %d; at most %d can be tried: use 0 to leave it out", p.Window, mostWindow)
	case p.Continues && p.Held < 0:
		return errors.New("the promise Continues cannot be kept where Held says that the whole answer is held back, so that no break " +
			"is seen; leave one of them out")
	}
	for _, c := range p.StandsIn {
		if int(c) >= llm.NumClasses {
			return fmt.Errorf("the promise StandsIn has %v, which is no class; use those of package llm", c.String())
		}
	}
	if err := p.checkRequest(); err != nil {
		return err
	}
	return p.checkAnswer()
}

func (p *Promises) checkRequest() error {
	switch {
	case p.Request == nil:
	case len(p.Request.Messages) == 0:
		return errors.New(`Promises.Request has no messages; give it one, such as llm.User("Where is my order?"), or leave Request nil`)
	case p.Request.Sink != nil:
		return errors.New("Promises.Request has a Sink; leave it out, for the same is asked whole and streamed")
	}
	return nil
}

// checkAnswer checks that answers can be told apart and cut.
func (p *Promises) checkAnswer() error {
	const words = "p000 p001 p002"
	if p.Answer == nil {
		return nil
	}
	if text := p.Answer(words); !strings.Contains(text, words) {
		return fmt.Errorf("Promises.Answer made %q of %q; it is to hold the words as they are, such as {\"answer\": \"…\"}, "+
			"so that one can tell whose answer it is", brief(text), words)
	}
	return nil
}
