package middleware

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/modelchain/llm"
)

// failure is the one error of a call that no route answered.
func (t *trip) failure(ctx context.Context) error {
	if len(t.misses) == 1 {
		return t.misses[0].cause
	}
	m := t.decisive()
	e, cause, opening := *m.err, m.cause, "no deployment answered"
	if end := llm.ContextError(ctx, m.cause); end != nil {
		opening, cause = end.Message, end.Err
		if m.called && m.err.Class != end.Class {
			cause = &endedAfter{why: end.Err, last: m.cause}
		}
		e = *end
	}
	e.Commit = llm.CommitNone
	for i := range t.misses {
		e.Commit = max(e.Commit, t.misses[i].err.Commit)
	}
	e.Deployment, e.Provider, e.Model = "", "", ""
	routes := list(t.misses)
	e.Message = opening + ": " + routes
	e.Err = &told{error: cause, text: e.Message, routes: routes}
	e.RetryAfter, e.CoolUntil = t.wait()
	e.Attempts = t.r.Attempts()
	return &e
}

// decisive is the miss that says most about why the call failed: the last failure of a provider that could have answered;
// else of one that could not; else what rests, what is too small, or the last.
func (t *trip) decisive() *miss {
	var best *miss
	rank := -1
	for i := range t.misses {
		m := &t.misses[i]
		if !m.asked {
			continue
		}
		r := m.rank()
		if r > rank || r == rank && (r >= rankUnable || r == rankOther) {
			best, rank = m, r
		}
	}
	return best
}

const (
	rankOther   = iota // not called: time, attempts, a capability
	rankTooLong        // not called
	rankCooling
	rankUnable // called, but it cannot serve this request
	rankFailed
)

func (m *miss) rank() int {
	switch m.err.Class {
	case llm.Cooling:
		return rankCooling
	case llm.Exhausted:
		return rankOther
	case llm.TooLong, llm.NotFound, llm.Unsupported:
		switch {
		case m.called:
			return rankUnable
		case m.err.Class == llm.TooLong:
			return rankTooLong
		}
		return rankOther
	}
	if m.called {
		return rankFailed
	}
	return rankOther
}

// wait is the smallest wait that is left of those asked for.
func (t *trip) wait() (least time.Duration, until bool) {
	known := false
	for i := range t.misses {
		m := &t.misses[i]
		if m.err.RetryAfter <= 0 {
			continue
		}
		if left := max(m.err.RetryAfter-time.Since(m.at), 0); !known || left < least {
			known, least, until = true, left, m.err.CoolUntil
		}
	}
	return least, until
}

// again reports whether the route was not called because all beneath had been tried before.
func (m *miss) again() bool { return !m.called && errors.Is(m.cause, errTried) }

// list says what became of each route.
func list(misses []miss) string {
	var parts []string
	for i := range misses {
		if !misses[i].again() {
			parts = append(parts, misses[i].words())
		}
	}
	if parts == nil {
		return errTried.Error()
	}
	return strings.Join(parts, "; ")
}

func (m *miss) words() string {
	if nested, ok := m.err.Err.(*told); ok { //nolint:errorlint // only a fallback's own error lists deployments
		return nested.routes
	}
	name := cmp.Or(m.err.Deployment, m.route.label)
	if m.called {
		text := strings.TrimPrefix(m.err.Error(), "llm: ")
		if m.err.Deployment == "" {
			text = name + ": " + text
		}
		return cut(text)
	}
	why := m.err.Message
	if why == "" && m.err.Err != nil {
		why = m.err.Err.Error()
	}
	return cut(name + " not tried: " + cmp.Or(why, m.err.Class.String()))
}

// cut keeps one deployment's long text from drowning the others'.
func cut(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// withEarlier is err, which ends the call at once, with the failures before it in its message.
func (t *trip) withEarlier(err error) error {
	before := t.misses[:len(t.misses)-1]
	if len(before) == 0 {
		return err
	}
	return saying(err, ", ", "after "+list(before))
}

// saying is err with more after what it says.
func saying(err error, sep, more string) *llm.Error {
	e := llm.CopyError(err)
	if said := cmp.Or(e.Message, e.Evidence.Message); said != "" {
		more = said + sep + more
	}
	e.Message = more
	return e
}

// told is the cause of a fallback's error, whose message has told of it already.
type told struct {
	error
	text   string // the message
	routes string // the part of it that lists them
}

func (e *told) Error() string { return e.text }
func (e *told) Unwrap() error { return e.error }
