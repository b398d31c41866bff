package classify

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// aRest is the wait from which on a limit is a rest and not a pace: nobody waits an hour for one answer.
const aRest = time.Hour

func (c *Classifier) fill(e *llm.Error, f *finding, v verdict) {
	ev := &e.Evidence
	e.Class, e.Owner, e.Rule = v.class, v.owner, v.rule
	if v.phase != llm.PhaseUnknown && (ev.Phase == llm.PhaseUnknown || v.unsent) {
		ev.Phase = v.phase
	}
	if ev.Phase == llm.PhaseUnknown && ev.Status != 0 {
		ev.Phase = llm.PhaseHeaders
	}
	if f.answered {
		set(&ev.Code, f.facts.Code)
		set(&ev.Type, f.facts.Type)
		set(&ev.Param, f.facts.Param)
		set(&ev.Message, f.facts.Message)
	}
	if e.RequestID == "" {
		e.RequestID = requestID(ev.Header)
	}
	waitOf(e, f, v)
	if e.Advice == llm.AdviceNone {
		switch f.wait.Advice {
		case wire.AdviceRetry:
			e.Advice = llm.AdviceRetry
		case wire.AdviceDont:
			e.Advice = llm.AdviceDontRetry
		}
	}
	partial := ev.Partial || e.Partial != nil
	ev.Partial = partial
	e.Commit = max(e.Commit, commitOf(e, f, v))
	redact(e)
	if partial && !v.keep {
		broke(e)
	}
}

// requestID is the id by which the provider knows the failed attempt.
func requestID(h http.Header) string {
	for _, name := range [...]string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid", "Apim-Request-Id"} {
		if v := h[name]; len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

func set(to *string, s string) {
	if *to == "" {
		*to = s
	}
}

// waitOf takes the wait over where the class is one that waiting helps, or where the provider asked for it in so
// many words.
func waitOf(e *llm.Error, f *finding, v verdict) {
	if e.RetryAfter == 0 && f.wait.Known && (f.wait.Explicit || passes(v.class)) {
		e.RetryAfter = f.wait.D
		e.CoolUntil = f.wait.Date || f.wait.D >= aRest
	}
	if v.coolUntil && f.wait.Reset && e.RetryAfter > 0 { // Google sends seconds with a quota of a day: that is no date
		e.CoolUntil = true
	}
}

// passes reports whether failures of class c pass with time.
func passes(c llm.Class) bool {
	switch c {
	case llm.RateLimited, llm.Quota, llm.Overloaded, llm.Unavailable, llm.Timeout, llm.Interrupted, llm.Unknown:
		return true
	}
	return false
}

// commitOf says how far the provider got with the request.
func commitOf(e *llm.Error, f *finding, v verdict) llm.CommitState {
	ev := &e.Evidence
	switch {
	case ev.Partial:
		return llm.Committed
	case v.unsent, ev.Phase == llm.PhaseConnect:
		return llm.CommitNone
	case v.keep && ev.Status == 0 && ev.Phase == llm.PhaseUnknown:
		return e.Commit // a stage's or a fake's own error: nothing is known of a wire
	case v.class == llm.BadOutput && ev.Status >= 200 && ev.Status < 300:
		return llm.Committed
	}
	switch v.class { // turned away before any work was done
	case llm.RateLimited, llm.Overloaded, llm.Quota, llm.TooLong, llm.NotFound, llm.Unsupported, llm.Invalid,
		llm.Auth, llm.Refused:
		if f.answered || f.status != 0 {
			return llm.CommitNone
		}
	}
	switch f.status {
	case http.StatusRequestTimeout, http.StatusFailedDependency, 499:
		return llm.CommitUnknown
	case http.StatusServiceUnavailable:
		if f.holdsAny(lostUpstream) {
			return llm.CommitUnknown
		}
		return llm.CommitNone
	}
	if f.status >= 400 && f.status < 500 || f.status >= 300 && f.status < 400 {
		return llm.CommitNone
	}
	return llm.CommitUnknown
}

// lostUpstream are proxies' words for an upstream that had the request when it went away.
var lostUpstream = []phrase{
	newPhrase("connection termination"), newPhrase("disconnect/reset before headers. reset reason: remote"),
	newPhrase("upstream prematurely closed"), newPhrase("protocol error"),
}

// broke makes e the end of a stream of which a part was delivered. What ended it stays the cause; a policy that
// ended it is the verdict itself, as no stage may answer it by asking again.
func broke(e *llm.Error) {
	switch e.Class {
	case llm.Interrupted, llm.Refused:
		return
	}
	cause := &llm.Error{
		Class: e.Class, Owner: e.Owner, Commit: e.Commit, Rule: e.Rule, Message: e.Message, Evidence: e.Evidence,
		RetryAfter: e.RetryAfter, CoolUntil: e.CoolUntil, Advice: e.Advice, Err: e.Err,
	}
	cause.Evidence.Status = 0 // said once, by the outer error
	cause.Evidence.Header = nil
	cause.Evidence.Body = ""
	e.Class, e.Owner = llm.Interrupted, llm.OwnerTransient
	e.Message = "the answer broke off"
	e.Err = cause
}

// ended is the error of a call whose own context has ended.
func (c *Classifier) ended(ctx context.Context, err error) *llm.Error {
	var out llm.Error
	cause := context.Cause(ctx)
	known, _ := errors.AsType[*llm.Error](err)
	own, _ := errors.AsType[*llm.Error](cause)
	switch known {
	case nil:
		evidenceOf(err, &out.Evidence)
	case own: // it tells of ctx alone
	default:
		out = *llm.CopyError(known)
	}
	deadline := errors.Is(ctx.Err(), context.DeadlineExceeded)
	out.Rule = "context"
	out.RetryAfter, out.CoolUntil, out.Advice = 0, false, llm.AdviceNone
	switch limit := llm.LimitOf(ctx); {
	case limit != nil:
		out.Class, out.Owner, out.Message = limit.Class, ownerOf(limit.Class, limit.Owner), limit.Message
	case deadline:
		out.Class, out.Owner, out.Message = llm.Exhausted, llm.OwnerUnknown, "the caller's deadline passed"
	default:
		out.Class, out.Owner, out.Message = llm.Canceled, llm.OwnerUnknown, ""
	}
	out.Err = cause
	if deadline && !errors.Is(cause, context.DeadlineExceeded) {
		out.Err = deadlineCause{cause}
	}
	if out.Evidence.Partial = out.Evidence.Partial || out.Partial != nil; out.Evidence.Partial {
		out.Commit = llm.Committed
	} else {
		v, _ := transport(err, out.Evidence.Phase)
		if v.unsent && v.phase != llm.PhaseUnknown {
			out.Evidence.Phase = v.phase
		}
		if out.Evidence.Phase == llm.PhaseConnect || v.unsent {
			out.Commit = max(out.Commit, llm.CommitNone)
		} else if known == nil || out.Commit == llm.CommitNone && out.Evidence.Status == 0 {
			out.Commit = max(out.Commit, llm.CommitUnknown)
		}
	}
	redact(&out)
	return &out
}

// A deadlineCause is the cause that a deadline was given, which as such is not context.DeadlineExceeded.
type deadlineCause struct{ error }

func (d deadlineCause) Unwrap() error        { return d.error }
func (d deadlineCause) Is(target error) bool { return target == context.DeadlineExceeded }

// redact takes keys out of every text of e.
func redact(e *llm.Error) {
	ev := &e.Evidence
	if len(ev.Body) > wire.MaxBody {
		ev.Body = ev.Body[:wire.MaxBody]
	}
	body := wire.Redact(ev.Body)
	clean := len(body) == len(ev.Body) && body == ev.Body
	for _, s := range [...]*string{&e.Message, &ev.Code, &ev.Type, &ev.Param, &ev.Message} {
		if clean && len(*s) > 32 && strings.Contains(body, *s) {
			continue // it was read a moment ago, as a part of the body
		}
		*s = wire.Redact(*s)
	}
	ev.Body = body
	ev.Header = cleanHeader(ev.Header)
	if e.Err == nil {
		return
	}
	if _, ok := e.Err.(llm.Class); !ok { //nolint:errorlint // the plainest has no text to look at
		e.Err = wire.Sealed(e.Err, wire.Redact)
	}
}

// secretHeaders are headers that carry sessions or echo credentials.
var secretHeaders = [...]string{
	"Set-Cookie", "Cookie", "Authorization", "Proxy-Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key",
}

func cleanHeader(h http.Header) http.Header {
	for _, name := range secretHeaders {
		if _, ok := h[name]; ok {
			h = h.Clone()
			for _, name := range secretHeaders {
				delete(h, name)
			}
			break
		}
	}
	return h
}
