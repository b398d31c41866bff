package middleware

import (
	"fmt"
	"slices"
	"strings"

	"github.com/modelchain/llm"
)

// An Outcome says how a call ended, seen from the application. The first five are disjoint and cover every call that ended with
// its caller there; Queued is none of them, as it has not ended, nor is Canceled, as nobody failed.
type Outcome string

// The outcomes.
const (
	// OutcomePrimary: the first deployment that the request fits answered at once, or one called beside it was faster.
	OutcomePrimary Outcome = "primary_success"
	// OutcomeRetry: it answered after a failure, without another model.
	OutcomeRetry Outcome = "retry_recovery"
	// OutcomeFallback: another deployment answered, because the first failed or rests.
	OutcomeFallback Outcome = "fallback_recovery"
	// OutcomeDegraded: a stand-in was given, because no deployment could answer.
	OutcomeDegraded Outcome = "degraded"
	// OutcomeFailed: the caller got an error.
	OutcomeFailed Outcome = "failed_closed"
	// OutcomeQueued: a queue has the work.
	OutcomeQueued Outcome = "queued"
	// OutcomeCanceled: the caller left, or its sink failed.
	OutcomeCanceled Outcome = "canceled"
)

func allOutcomes() []Outcome {
	return []Outcome{OutcomePrimary, OutcomeRetry, OutcomeFallback, OutcomeDegraded, OutcomeFailed, OutcomeQueued, OutcomeCanceled}
}

// OutcomeOf is how a call ended, from the account on what left its pipeline.
func OutcomeOf(resp *llm.Response, err error) Outcome {
	return moves{}.outcome(accountOf(nil, resp, err), resp, err)
}

// Why an attempt was made.
const (
	reasonInitial  = "initial"
	reasonRetry    = "retry"
	reasonFallback = "fallback"
	reasonHedge    = "hedge" // beside another one that has not failed
)

// moves tells a fallback from a retry.
type moves struct{ every bool }

// same reports whether two rows are of one target: the same deployment, or the same model of the same provider, as a list
// that names one model twice has no fallback.
func (m moves) same(a, b *llm.Attempt) bool {
	if a.Deployment == b.Deployment {
		return true
	}
	return !m.every && a.Provider != "" && a.Model != "" && a.Provider == b.Provider && a.Model == b.Model
}

// unfit reports whether a row is of a deployment passed over because the request does not suit it. That is routing, not a
// failure.
func unfit(a *llm.Attempt) bool {
	return a.Skipped != "" && (a.Class == llm.TooLong || a.Class == llm.Unsupported)
}

// origin says why the attempt in rows[i] was made and which row it comes after: the last attempt made before it or, where
// there was none, the deployment that should have been first. from is nil for the first.
func (m moves) origin(rows []llm.Attempt, i int) (reason string, from *llm.Attempt) {
	for j := i - 1; j >= 0 && from == nil; j-- {
		if rows[j].Skipped == "" {
			from = &rows[j]
		}
	}
	for j := 0; j < i && from == nil; j++ {
		if !unfit(&rows[j]) {
			from = &rows[j]
		}
	}
	switch {
	case from == nil:
		return reasonInitial, nil
	case from.Skipped == "" && (from.Err == nil || from.Class == llm.Canceled):
		for j := i - 1; j >= 0; j-- {
			if b := &rows[j]; b.Skipped == "" && b.Deployment == rows[i].Deployment && b.Err != nil && b.Class != llm.Canceled {
				return reasonRetry, b // in its own branch
			}
		}
		return reasonHedge, from
	case !m.same(from, &rows[i]):
		return reasonFallback, from
	case from.Skipped != "":
		return reasonInitial, nil
	}
	return reasonRetry, from
}

// deniedRetry reports whether the skipped rows[i] is a retry that was planned and not made: its deployment had failed before.
func deniedRetry(rows []llm.Attempt, i int) bool {
	for j := range rows[:i] {
		if rows[j].Skipped == "" && rows[j].Deployment == rows[i].Deployment {
			return true
		}
	}
	return false
}

// outcome is how a call ended, from its account.
func (m moves) outcome(rows []llm.Attempt, resp *llm.Response, err error) Outcome {
	switch {
	case err != nil && llm.ClassOf(err) == llm.Canceled:
		return OutcomeCanceled
	case err != nil && llm.ClassOf(err) == llm.Queued:
		return OutcomeQueued
	case err != nil || resp == nil:
		return OutcomeFailed
	case resp.Degraded:
		return OutcomeDegraded
	}
	var first, served *llm.Attempt
	for i := range rows {
		a := &rows[i]
		if !unfit(a) && a.Class != llm.Canceled && (first == nil || before(a, first)) {
			first = a
		}
		if a.Skipped == "" && a.Err == nil && (served == nil || a.Deployment == resp.Deployment) {
			served = a
		}
	}
	failed := served != nil && slices.ContainsFunc(rows, func(a llm.Attempt) bool {
		return a.Skipped == "" && a.Err != nil && a.Class != llm.Canceled && a.Index < served.Index
	})
	switch {
	case served == nil: // answered without a provider call
		return OutcomePrimary
	case !m.same(first, served):
		return OutcomeFallback
	case failed:
		return OutcomeRetry
	}
	return OutcomePrimary
}

// before reports whether a was made or passed over before b. Rows are in the order in which attempts ended, which is another
// one for those side by side.
func before(a, b *llm.Attempt) bool {
	if a.Skipped == "" && b.Skipped == "" {
		return a.Index < b.Index
	}
	return a.Start.Before(b.Start)
}

// callsMade counts the provider calls in an account.
func callsMade(rows []llm.Attempt) (n int) {
	for i := range rows {
		if rows[i].Skipped == "" {
			n++
		}
	}
	return n
}

// accountOf is the account of req's call, from whatever knows most of it.
func accountOf(req *llm.Request, resp *llm.Response, err error) []llm.Attempt {
	if rows := req.Attempts(); rows != nil {
		return rows
	}
	if resp != nil {
		return resp.Attempts
	}
	if err != nil {
		return llm.AsError(err).Attempts
	}
	return nil
}

// explainAttempt says what failed without words that may quote a prompt or an answer: neither the provider's, nor a validator's,
// nor a panic's. What the limits of this library say of themselves is told.
func explainAttempt(a *llm.Attempt) string {
	e := llm.AsError(a.Err)
	var b strings.Builder
	if a.Deployment != "" {
		b.WriteString(a.Deployment + ": ")
	}
	if a.Skipped != "" {
		b.WriteString("not called: ")
	}
	b.WriteString(a.Class.String())
	if e.Evidence.Status != 0 {
		fmt.Fprintf(&b, " (HTTP %d)", e.Evidence.Status)
	}
	if code := e.Evidence.Code; isCode(code) {
		b.WriteString(" " + code)
	}
	if own := ownWords(a.Skipped != "", e); own != "" {
		b.WriteString(": " + own)
	}
	return b.String()
}

// ownWords is e's message where it is of this library's own making, "" else.
func ownWords(skipped bool, e *llm.Error) string {
	if skipped {
		return e.Message
	}
	switch e.Class {
	case llm.Stalled, llm.Exhausted, llm.Cooling, llm.Canceled:
		return e.Message
	}
	return ""
}

// explainCall is explainAttempt for the error of a call. It is put together from the account, as the message of an error that
// sums up others quotes them.
func explainCall(rows []llm.Attempt, err error, content bool) string {
	e := llm.AsError(err)
	if content {
		return e.Error()
	}
	var parts []string
	for i := range rows {
		if rows[i].Err != nil {
			parts = append(parts, explainAttempt(&rows[i]))
		}
	}
	if len(parts) == 0 {
		return explainAttempt(&llm.Attempt{Deployment: e.Deployment, Class: e.Class, Err: e})
	}
	return e.Class.String() + ": " + strings.Join(parts, "; ")
}

// isCode reports whether s is a code and not a text.
func isCode(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
		default:
			return false
		}
	}
	return true
}
