package llmtest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelchain/llm"
)

// modes are the ways to ask.
var modes = [...]struct {
	how    string
	stream bool
}{{"whole", false}, {"streamed", true}}

// hearing is a call as its caller saw it.
type hearing struct {
	stream bool
	resp   *llm.Response
	err    error
	heard  string // without notices
	took   time.Duration
	first  int            // requests of all providers when the first delta came. -1: none did
	before int            // and before the call
	after  int            // and after it
	had    map[*stand]int // those of each before it
	rec    *Recorder
}

// request is what is asked.
func (p *proving) request() *llm.Request {
	if p.Request != nil {
		return p.Request.Clone()
	}
	return &llm.Request{Messages: []llm.Message{llm.User("Where is my order?")}}
}

// ask asks once, alone, and holds what comes to the laws.
func (p *proving) ask(stream bool) *hearing { return p.alone(p.ctx, p.request(), stream) }

// alone makes the only call that is under way.
func (p *proving) alone(ctx context.Context, req *llm.Request, stream bool) *hearing {
	had := map[*stand]int{}
	for _, s := range p.stands() {
		had[s] = s.Count()
	}
	h := p.call(ctx, req, stream)
	h.had = had
	p.hung()
	p.settle()
	h.after = p.total()
	p.laws(h)
	if n := h.after; h.first >= 0 && n > h.first && !p.Continues {
		p.fail("%d provider calls were made after something had been handed out", n-h.first)
	}
	p.account(h)
	if made := h.after - h.before; p.Attempts > 0 && made > p.Attempts {
		p.fail("a call made %d provider calls, and %d are promised at most", made, p.Attempts)
	}
	return h
}

// call asks once.
func (p *proving) call(ctx context.Context, req *llm.Request, stream bool) *hearing {
	h := &hearing{stream: stream, first: -1, before: p.total()}
	h.rec = &Recorder{Each: func(n int, _ llm.Delta) error {
		if n == 0 {
			h.first = p.total()
		}
		return nil
	}}
	guard := fmt.Errorf("the proof gave up after %v", p.guard())
	ctx, cancel := context.WithTimeoutCause(ctx, p.guard(), guard)
	defer cancel()
	began := time.Now()
	if !p.run(ctx, h, req) {
		p.fail("a call was not over after %v, though its context had ended; what it left behind still runs", p.guard()+grace)
		h.took, h.err = time.Since(began), guard
		return h
	}
	h.took = time.Since(began)
	if (h.resp == nil) == (h.err == nil) {
		p.fail("a call returned neither an answer nor an error, or both: %v", h.err)
		h.resp, h.err = nil, llm.Unknown
	}
	if context.Cause(ctx) == guard { //nolint:errorlint // identity: our own
		p.fail("a call was not over after %v", p.guard())
	}
	p.reached(h)
	h.heard = h.rec.Text()
	return h
}

// reached checks that the chain sought the providers where they are.
func (p *proving) reached(h *hearing) {
	rows := rowsOf(h.resp, h.err)
	if p.fake && slices.ContainsFunc(rows, func(a llm.Attempt) bool {
		return a.Err != nil && strings.Contains(a.Err.Error(), "dial tcp "+pipeHost)
	}) {
		p.fail("a request did not go by Endpoint.Client, the only one that reaches a provider in fake time; let each deployment use " +
			"that of its Endpoint")
	}
}

// grace is how long a call has to return once its context has ended.
const grace = 5 * time.Second

// run lets the chain answer, and reports whether it returned. The call is on a goroutine of its own, for a chain that ignores
// its context would keep the report.
func (p *proving) run(ctx context.Context, h *hearing, req *llm.Request) (returned bool) {
	type end struct {
		resp   *llm.Response
		err    error
		broken any
	}
	ended := make(chan end, 1)
	go func() {
		e := end{broken: "the chain ended the goroutine that called it, as a FailNow of testing does"}
		defer func() {
			if v := recover(); v != nil {
				e.broken = fmt.Sprintf("the chain panicked: %v\n%s", v, debug.Stack())
			}
			ended <- e
		}()
		if h.stream {
			e.resp, e.err = h.rec.Call(ctx, p.Caller, req)
		} else {
			e.resp, e.err = p.Caller.Call(ctx, req)
		}
		e.broken = nil
	}()
	late := time.NewTimer(p.guard() + grace)
	defer late.Stop()
	select {
	case e := <-ended:
		if e.broken != nil {
			panic(e.broken)
		}
		h.resp, h.err = e.resp, e.err
		return true
	case <-late.C:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hangs = true
		return false
	}
}

// errHangs ends a condition whose chain does not return.
var errHangs = errors.New("the chain hangs")

// hung ends the condition, on whose goroutine it is called, if a call did not return.
func (p *proving) hung() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hangs {
		panic(errHangs)
	}
}

// laws are what holds for every call, whatever happens to it.
func (p *proving) laws(h *hearing) {
	if h.stream {
		for _, f := range h.rec.Faults() {
			p.fail("%s", f)
		}
	}
	if p.Within > 0 && h.took > p.Within+p.slack(p.Within) {
		p.fail("a call took %v, and %v is promised", p.round(h.took), p.Within)
	}
	if h.err != nil {
		if partial := llm.AsError(h.err).Partial; h.heard != "" && partial == nil {
			p.fail("%d bytes of an answer were shown, and the error does not say so: %v", len(h.heard), h.err)
		} else if partial != nil && partial.Text() != h.heard {
			p.fail("%q was shown, and the error's Partial is %q", brief(h.heard), brief(partial.Text()))
		}
		return
	}
	text := h.resp.Text()
	if s := p.by(text); s != nil && !h.resp.Degraded && !h.resp.Continued {
		was, known := p.names[h.resp.Deployment]
		p.expect(!known || was == s.letter, "answers of two providers are said to be of the deployment %q", h.resp.Deployment)
		p.names[h.resp.Deployment] = s.letter
	}
	switch {
	case h.resp.Degraded, h.resp.Refused(), len(h.resp.ToolCalls()) > 0, p.Lacking != "" && text == p.Lacking:
	case h.resp.Continued && p.Continues && p.joined(text):
	case p.by(text) == nil:
		p.fail("this was given for a whole answer: %q", brief(text))
	}
}

// upTo is the beginning of s, which is longer than n bytes, without a part of a character at its end.
func upTo(s string, n int) string {
	for i := range utf8.UTFMax {
		if utf8.RuneStart(s[n-i]) {
			return s[:n-i]
		}
	}
	return s[:n]
}

// brief is the beginning and the end of a text.
func brief(s string) string {
	if len(s) <= 80 {
		return s
	}
	return upTo(s, 40) + "…" + strings.ToValidUTF8(s[len(s)-30:], "")
}

func (p *proving) round(d time.Duration) time.Duration {
	if p.fake {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// answered reports whether a call was answered by s.
func (p *proving) answered(h *hearing, s *stand) bool {
	return h.err == nil && !h.resp.Degraded && h.resp.Text() == s.answer()
}

// well reports whether the primary answered as one that is well does. Where hedges are promised, one that is held up by a busy
// machine may be overtaken by the backup.
func (p *proving) well(h *hearing) bool {
	return p.answered(h, p.primary) || p.Hedges > 0 && h.took >= p.Hedges && p.answered(h, p.backup)
}

// unanswered reports whether the caller heard that nobody answered: by an error, a receipt or a marked stand-in.
func (h *hearing) unanswered() bool { return h.err != nil || h.resp.Degraded }

// ended says in words how a call ended.
func (p *proving) ended(h *hearing) string {
	switch {
	case h.err != nil && llm.ClassOf(h.err) == llm.Queued:
		return "a receipt of the queue"
	case h.err != nil:
		return "an error of class " + llm.ClassOf(h.err).String()
	case h.resp.Degraded:
		return "a stand-in, marked as degraded"
	case h.resp.Refused():
		return "a refusal"
	case h.resp.Continued:
		return "an answer that was continued"
	}
	for _, s := range []struct {
		*stand
		name string
	}{{p.primary, "primary"}, {p.backup, "backup"}, {p.long, "long-context deployment"}, {p.unapproved, "unapproved deployment"}} {
		if h.resp.Text() == s.answer() {
			return "the answer of the " + s.name
		}
	}
	return fmt.Sprintf("%q", brief(h.resp.Text()))
}

// counts says in words who was asked how often.
func (p *proving) counts() string {
	text := fmt.Sprintf("%s to the primary, %d to the backup", plural(p.primary.Count(), "call"), p.backup.Count())
	if n := p.long.Count(); n > 0 {
		text += fmt.Sprintf(", %d to the long-context deployment", n)
	}
	if n := p.unapproved.Count(); n > 0 {
		text += fmt.Sprintf(", %d to the unapproved deployment", n)
	}
	return text
}

// note observes how a call ended and who was asked.
func (p *proving) note(what string, h *hearing) {
	p.observe("%s: %s, %s, after %v", what, p.counts(), p.ended(h), p.round(h.took))
}
