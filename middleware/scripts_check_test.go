package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelchain/llm"
)

// outcome is what became of a script's call.
type outcome struct {
	took     time.Duration
	handed   []string        // the words, in the order in which they were handed out
	tools    map[string]bool // the attempts whose words followed on a tool call of another
	sum      llm.Accumulator
	notices  []string
	after    int // deltas that came after the call returned
	refused  bool
	pastFail int // deltas that came after the sink had failed
	resp     *llm.Response
	err      error
	written  bool // the request of the caller was changed
}

func (o *outcome) String() string {
	s := fmt.Sprintf("after %v the reader has %q", o.took, o.handed)
	if o.err != nil {
		return s + ", the error is " + o.err.Error()
	}
	return s + fmt.Sprintf(", the answer is %q of %s, continued %v", o.resp.Text(), o.resp.Deployment, o.resp.Continued)
}

// call makes the call, as the script's caller and reader.
func (s *script) call(ctx context.Context) *outcome {
	if s.theirs > 0 {
		var release context.CancelFunc
		ctx, release = context.WithTimeout(ctx, s.theirs)
		defer release()
	}
	if s.cancel > 0 {
		var leave context.CancelFunc
		ctx, leave = context.WithCancel(ctx)
		defer leave()
		defer time.AfterFunc(s.cancel, leave).Stop()
	}
	o, returned, n, called := &outcome{tools: map[string]bool{}}, false, 0, ""
	req := retryAsk()
	req.MaxAttempts, req.ReplayUnsafe = s.attempts, s.unsafe
	if s.plain {
		return s.ask(ctx, req, o)
	}
	req.Sink = func(d llm.Delta) error {
		switch {
		case returned:
			o.after++
		case o.refused:
			o.pastFail++
		}
		if d.Kind == llm.DeltaNotice {
			o.notices = append(o.notices, d.Text)
			return nil
		}
		o.sum.Add(d)
		text := d.Text
		if d.Call != nil {
			text = d.Call.Name
		}
		o.handed = append(o.handed, strings.Fields(text)...)
		if attempt, _, _ := strings.Cut(text, "."); called != "" && attempt != called {
			o.tools[attempt] = true
		} else if d.Call != nil {
			called = attempt
		}
		if s.slow > 0 {
			<-time.NewTimer(s.upTo(s.slow)).C
		}
		if n++; n == s.failAt {
			o.refused = true
			return errReader
		}
		return nil
	}
	s.ask(ctx, req, o)
	returned = true
	return o
}

// ask makes the call and looks at the request afterwards.
func (s *script) ask(ctx context.Context, req *llm.Request, o *outcome) *outcome {
	kept := req.Clone()
	began := time.Now()
	o.resp, o.err = s.chat.Call(ctx, req)
	o.took = time.Since(began)
	o.written = len(req.Messages) != len(kept.Messages) || req.MaxAttempts != kept.MaxAttempts || req.Attempts() != nil
	return o
}

func (o *outcome) rows() []llm.Attempt {
	if o.err != nil {
		return llm.AsError(o.err).Attempts
	}
	return o.resp.Attempts
}

// wrong lists what does not hold.
func (s *script) wrong(o *outcome) (wrong []string) {
	add := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	add(o.resp == nil && o.err == nil, "neither answer nor error")
	add(o.resp != nil && o.err != nil, "answer and error")
	if wrong != nil {
		return wrong
	}
	add(o.after > 0, "%d deltas after the call returned", o.after)
	add(o.pastFail > 0, "%d deltas after the sink failed", o.pastFail)
	add(o.written, "the caller's request was written to")
	slow := s.slow
	if o.resp != nil && o.resp.Degraded { // a stand-in is handed out whole
		slow *= time.Duration(len(o.handed))
	}
	for _, limit := range []time.Duration{s.limit, s.cancel, s.theirs} {
		add(limit > 0 && o.took > limit+slow, "it took %v, with a limit of %v and a reader that takes up to %v", o.took, limit, slow)
	}
	wrong = append(wrong, s.wrongAccount(o)...)
	answers, bad := split(o.handed)
	if o.resp != nil && o.resp.Degraded { // its kinds of parts come one after the other
		answers, bad = nil, ""
	}
	add(bad != "", "%s", bad)
	for _, a := range answers[min(1, len(answers)):] {
		add(!s.continues[a[:1]], "%s goes on with what another began", a)
		add(o.tools[a], "%s goes on after a tool call", a)
	}
	if o.err == nil {
		return append(wrong, s.wrongAnswer(o, answers)...)
	}
	return append(wrong, s.wrongError(o)...)
}

// wrongAccount lists what the account has else than the models saw.
func (s *script) wrongAccount(o *outcome) (wrong []string) {
	made, saw := 0, 0
	for _, m := range s.models {
		n := 0
		for _, a := range o.rows() {
			if a.Skipped == "" && a.Deployment == m.name {
				n++
			}
		}
		made, saw = made+n, saw+len(m.made)
		if n != len(m.made) {
			wrong = append(wrong, fmt.Sprintf("the account has %d attempts of %s, which saw %d", n, m.name, len(m.made)))
		}
	}
	if s.attempts > 0 && saw > s.attempts {
		wrong = append(wrong, fmt.Sprintf("%d attempts of at most %d", saw, s.attempts))
	}
	rows := slices.DeleteFunc(slices.Clone(o.rows()), func(a llm.Attempt) bool { return a.Skipped != "" })
	if s.beside { // they are in the account as they end
		slices.SortFunc(rows, func(a, b llm.Attempt) int { return a.Index - b.Index })
	}
	last := llm.Attempt{}
	for _, a := range rows {
		if a.Index != last.Index+1 {
			wrong = append(wrong, fmt.Sprintf("attempt %d follows on attempt %d", a.Index, last.Index))
		}
		if s.unsafe && last.Commit != llm.CommitNone {
			wrong = append(wrong, fmt.Sprintf("attempt %d, after one that may have acted", a.Index))
		}
		last = a
	}
	return wrong
}

// split is the attempts that the words are of, in order. bad says where words are lost, doubled or mixed.
func split(handed []string) (attempts []string, bad string) {
	next := 0
	for _, w := range handed {
		attempt, number, _ := strings.Cut(w, ".")
		if n := len(attempts); n == 0 || attempts[n-1] != attempt {
			if slices.Contains(attempts, attempt) {
				return attempts, fmt.Sprintf("%s comes back to an answer that was left", w)
			}
			attempts, next = append(attempts, attempt), 0
		}
		if number != fmt.Sprintf("%02d", next) {
			return attempts, fmt.Sprintf("%s comes where word %d of its answer was due", w, next)
		}
		next++
	}
	return attempts, ""
}

// wrongAnswer lists what is wrong with an answer that is said to be whole.
func (s *script) wrongAnswer(o *outcome, answers []string) (wrong []string) {
	if !s.plain && !sameParts(o.sum.Response(), o.resp) {
		wrong = append(wrong, fmt.Sprintf("the response has %+v, what was handed out adds up to %+v", o.resp.Parts, o.sum.Response().Parts))
	}
	if o.refused {
		wrong = append(wrong, "an answer for a reader that failed")
	}
	if len(answers) > 1 && !o.resp.Continued {
		wrong = append(wrong, "the continuation is not marked")
	}
	if n := len(answers); n > 0 && !o.resp.Continued && !o.resp.Degraded && answers[n-1][:1] != o.resp.Deployment {
		wrong = append(wrong, fmt.Sprintf("the answer of %s is said to be of %s", answers[n-1], o.resp.Deployment))
	}
	if len(o.notices) > 0 {
		wrong = append(wrong, "a notice in an answer that is whole")
	}
	return wrong
}

// sameParts compares answers by what a reader sees of them.
func sameParts(a, b *llm.Response) bool {
	sum := func(r *llm.Response) (s string) {
		for _, p := range r.Parts {
			if p.Kind != llm.PartToolCall {
				s += string(p.Kind) + ": " + p.Text + "\n"
				continue
			}
			s += p.Call.Name + string(p.Call.Arguments) + "\n"
		}
		return s
	}
	return sum(a) == sum(b)
}

// wrongError lists what is wrong with a failure.
func (s *script) wrongError(o *outcome) (wrong []string) {
	e := llm.AsError(o.err)
	if len(o.handed) > 0 && e.Partial == nil {
		wrong = append(wrong, "the error does not say that part of the answer is out")
	}
	if len(o.handed) == 0 && len(o.notices) > 0 {
		wrong = append(wrong, "a notice to a reader who has nothing")
	}
	if s.seams && len(o.handed) > 0 {
		if want := o.sum.Partial(); e.Partial != nil && want != nil && !sameParts(want, e.Partial) {
			wrong = append(wrong, fmt.Sprintf("the partial answer is %+v, what was handed out adds up to %+v", e.Partial.Parts, want.Parts))
		}
		if (s.notice != "" && !o.refused && e.Class != llm.Canceled) != (len(o.notices) == 1) {
			wrong = append(wrong, fmt.Sprintf("the notices are %q", o.notices))
		}
	}
	if o.refused && (e.Class != llm.Canceled || !errors.Is(o.err, errReader)) {
		wrong = append(wrong, "the reader that failed is not the reason")
	}
	return wrong
}

// count notes the kinds of outcome.
func (s *script) count(o *outcome, seen outcomes) {
	note := func(kind string, is bool) {
		if is {
			seen[kind]++
		}
	}
	saw := 0
	for _, m := range s.models {
		saw += len(m.made)
	}
	answers, _ := split(o.handed)
	note("nothing handed out", len(o.handed) == 0)
	note("repeated", len(answers) > 0 && answers[0][1:] != "1")
	note("a notice", len(o.notices) > 0)
	note("the sink failed", o.refused)
	note("attempts used up", s.attempts > 0 && saw == s.attempts)
	note("a hidden beginning", slices.ContainsFunc(o.rows(), func(a llm.Attempt) bool {
		return a.FirstDelta > 0 && a.Err != nil && !slices.ContainsFunc(answers, func(w string) bool { return w[:1] == a.Deployment })
	}))
	if o.err != nil {
		class := llm.ClassOf(o.err)
		note("interrupted", class == llm.Interrupted)
		note("stalled", class == llm.Stalled)
		note("canceled", class == llm.Canceled)
		note("exhausted", class == llm.Exhausted)
		note("a break after a continuation", len(answers) > 1)
		return
	}
	note("answered", true)
	note("answered by another", o.resp.Deployment != s.models[0].name)
	note("continued", o.resp.Continued)
	note("a tool call", len(o.resp.ToolCalls()) > 0)
}
