package llmtest

import (
	"slices"
	"strings"

	"github.com/modelchain/llm"
)

// rowsOf is the account of what left a call.
func rowsOf(resp *llm.Response, err error) []llm.Attempt {
	if resp != nil {
		return resp.Attempts
	}
	return llm.AsError(err).Attempts
}

// account holds the account of a call that was alone to the logs of the providers.
func (p *proving) account(h *hearing) {
	var rows []llm.Attempt
	sent := 0 // rows that a provider may know of
	numbers, names := map[int]bool{}, map[string]bool{}
	all := rowsOf(h.resp, h.err)
	for i := range all {
		a := &all[i]
		if a.Skipped != "" {
			continue
		}
		rows = append(rows, *a)
		names[a.Deployment] = true
		p.expect(!numbers[a.Index], "the account has provider call %d twice", a.Index)
		numbers[a.Index] = true
		if e := llm.AsError(a.Err); a.Err == nil || a.Status != 0 || e.Evidence.Phase > llm.PhaseConnect {
			sent++
		}
	}
	made, asked := h.after-h.before, 0
	for s, before := range h.had {
		if s.Count() > before {
			asked++
		}
	}
	switch {
	case len(rows) < made || sent > made:
		p.fail("the account has %d provider calls, the providers had %d", len(rows), made)
	case len(names) < asked:
		p.fail("the account has calls of %d deployments, and %d were asked", len(names), asked)
	}
	if s := p.whole(h); s != nil {
		p.answerer(h, s, rows)
	}
}

// whole is whose whole answer a call has. nil: nobody's, or it had been answered before.
func (p *proving) whole(h *hearing) *stand {
	if h.err != nil || h.resp.Degraded || h.resp.Continued {
		return nil
	}
	if s := p.by(h.resp.Text()); s != nil && s.Count() > h.had[s] {
		return s
	}
	return nil
}

// answerer checks that the account and the answer say who answered, and what that consumed.
func (p *proving) answerer(h *hearing, s *stand, rows []llm.Attempt) {
	at := slices.IndexFunc(rows, func(a llm.Attempt) bool { return a.Err == nil && a.Deployment == h.resp.Deployment })
	if at < 0 {
		p.fail("the answer is said to be of the deployment %q, which did not answer by the account", h.resp.Deployment)
		return
	}
	x := s.Exchanges()[s.Count()-1]
	if x.Did != string(DoAnswer) || x.API == "chat" && x.Stream && !strings.Contains(x.Body, "include_usage") {
		return // it did not tell what it consumed, or nobody asked
	}
	told := s.consumed()
	p.expect(h.resp.Usage.Input == told.Input && h.resp.Usage.Output == told.Output,
		"the answer's usage is %d tokens in and %d out, and the provider told %d and %d", h.resp.Usage.Input, h.resp.Usage.Output,
		told.Input, told.Output)
	u := rows[at].Usage
	p.expect(u.Input == told.Input && u.Output == told.Output, "the account has %d tokens in and %d out for the answer, and the "+
		"provider told %d and %d", u.Input, u.Output, told.Input, told.Output)
}

// consumed is what an answer of s is told to have consumed.
func (s *stand) consumed() llm.Usage {
	return llm.Usage{Input: 10 + int(s.letter[0])%7, Output: s.in.length() + int(s.letter[0])%5}
}
