package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Class says what kind of failure an error is. What follows from it is decided by the stages, from one table (see
// middleware.DefaultReactions). A Class is itself an error, so errors.Is(err, llm.RateLimited) asks for it, and a function
// that fakes a model can return one.
type Class uint8

// The classes.
const (
	Unknown     Class = iota // none of the others
	Unavailable              // server error, refused or reset connection, DNS, end of input before an answer
	Overloaded               // the provider sheds load
	Timeout                  // a time-out reported by the provider or a proxy
	Stalled                  // silent longer than a limit of ours: attempt, first token, idle
	RateLimited              // pacing fixes it
	Quota                    // only billing or a changed limit fixes it
	TooLong                  // does not fit this model's window
	NotFound                 // this deployment does not serve the model
	Unsupported              // this deployment lacks a capability that the request needs
	BadOutput                // the answer is unusable: empty, cut JSON, failed validation
	Interrupted              // the stream broke before its end
	Invalid                  // malformed; fails everywhere
	Auth                     // key or permission refused
	Refused                  // content policy
	Cooling                  // not tried: the deployment rests
	Exhausted                // not tried or given up: time, attempts or budget used up
	Canceled                 // the caller left, or another deployment was faster
	Queued                   // not answered now: a queue has the work
	numClasses
)

// NumClasses is the number of classes: every Class is below it.
const NumClasses = int(numClasses)

var classNames = [numClasses]string{
	"unknown", "unavailable", "overloaded", "timeout", "stalled", "rate_limited", "quota", "too_long", "not_found",
	"unsupported", "bad_output", "interrupted", "invalid", "auth", "refused", "cooling", "exhausted", "canceled",
	"queued",
}

// String is the class in lower case with underscores: "rate_limited".
func (c Class) String() string {
	if c < numClasses {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// Error makes a Class an error.
func (c Class) Error() string { return c.String() }

// MarshalText writes the class as String does.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (c *Class) UnmarshalText(text []byte) error {
	for i, name := range classNames {
		if name == string(text) {
			*c = Class(i)
			return nil
		}
	}
	return fmt.Errorf("llm: unknown class %q; the classes are %s", text, strings.Join(classNames[:], ", "))
}

// Owner says who has to act on a failure.
type Owner uint8

// The owners.
const (
	OwnerUnknown   Owner = iota
	OwnerTransient       // nobody: it passes
	OwnerRate            // whoever paces the calls
	OwnerQuota           // whoever pays
	OwnerRequest         // whoever wrote the request
	OwnerAuth            // whoever holds the keys
	OwnerPolicy          // whoever answers for content
)

var ownerNames = [...]string{"unknown", "transient", "rate", "quota", "request", "auth", "policy"}

// String is the owner in lower case.
func (o Owner) String() string {
	if int(o) < len(ownerNames) {
		return ownerNames[o]
	}
	return fmt.Sprintf("owner(%d)", uint8(o))
}

// Owner is the owner of failures of class c.
func (c Class) Owner() Owner {
	switch c {
	case Unavailable, Overloaded, Timeout, Stalled, BadOutput, Interrupted:
		return OwnerTransient
	case RateLimited:
		return OwnerRate
	case Quota:
		return OwnerQuota
	case TooLong, NotFound, Unsupported, Invalid:
		return OwnerRequest
	case Auth:
		return OwnerAuth
	case Refused:
		return OwnerPolicy
	}
	return OwnerUnknown
}

// CommitState says how far the provider got with a request that failed, and so whether sending it again could do its work
// twice.
type CommitState uint8

// The commit states.
const (
	CommitNone    CommitState = iota // not sent, or turned away: sending again is safe
	CommitUnknown                    // sent, outcome unknown: the provider may have accepted it
	Committed                        // the provider produced an answer or a part of one
)

// String is the state in lower case.
func (s CommitState) String() string {
	switch s {
	case CommitNone:
		return "none"
	case CommitUnknown:
		return "unknown"
	case Committed:
		return "committed"
	}
	return fmt.Sprintf("commit(%d)", uint8(s))
}

// Phase says where in an exchange a failure happened.
type Phase uint8

// The phases, in order.
const (
	PhaseUnknown Phase = iota
	PhaseConnect       // before the request was sent: DNS, dial, TLS
	PhaseSend          // sent at least in part; no answer yet
	PhaseHeaders       // the answer's status and headers came
	PhaseBody          // reading a whole answer
	PhaseStream        // reading a streamed answer
)

var phaseNames = [...]string{"unknown", "connect", "send", "headers", "body", "stream"}

// String is the phase in lower case.
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}

// Advice is what a provider said about repeating the request, apart from any wait (the x-should-retry header).
type Advice uint8

// The advices.
const (
	AdviceNone Advice = iota
	AdviceRetry
	AdviceDontRetry
)

// Evidence is what is known of a failure as the wire showed it. Texts are redacted: they carry no keys.
type Evidence struct {
	// Status is the HTTP status. 0: there was no HTTP answer.
	Status int
	// Header holds the answer's headers.
	Header http.Header
	// Code, Type, Param and Message are the fields of the innermost error object of the body.
	Code, Type, Param, Message string
	// Body is the start of the body, at most 64 KiB.
	Body string
	// Phase is where it broke.
	Phase Phase
	// Partial says that output of the model had arrived before.
	Partial bool
}

// Error is the error of this library: what happened, where, and everything that is known about it. Match its class with
// errors.Is(err, llm.RateLimited), find it with errors.AsType[*llm.Error]. An Error is a value: a stage that adds to one
// copies it first.
type Error struct {
	Class  Class
	Owner  Owner
	Commit CommitState
	// Provider, Deployment and Model name the leaf that failed. "": not one leaf.
	Provider, Deployment, Model string
	// Message says what happened in a sentence without the class and the deployment. "": Err and Evidence tell.
	Message  string
	Evidence Evidence
	// RequestID is the provider's id of the failed attempt.
	RequestID string
	// Rule names the row of the classifier's table that decided Class. "": no row did.
	Rule string
	// RetryAfter is the wait asked for, counted from the failure. 0: not said.
	RetryAfter time.Duration
	// CoolUntil says that RetryAfter leads to a date on which the deployment comes back (a daily quota, a monthly limit),
	// which is a rest and not a pace.
	CoolUntil bool
	// Advice is the provider's word on repeating.
	Advice Advice
	// Skipped says that no provider was called for it: a limit of ours refused the attempt. [Request.Skipped] sets it.
	Skipped bool
	// Partial is what was handed out before the break, as far as the model's Caller tells, or exactly with the stage interrupt.
	// nil: nothing was.
	Partial *Response
	// Usage is what the failed attempt consumed, as far as known.
	Usage Usage
	// Attempts lists every provider call made or skipped, on the error that leaves the outermost pipeline.
	Attempts []Attempt
	// RetryDenied says why an attempt whose class may be repeated was not repeated even once: no time or attempts left, the retry
	// budget, an outcome that is not known. "": it was repeated, nobody wanted to, or the class forbids it.
	RetryDenied string
	// Err is the one deciding cause.
	Err error

	limit bool // made by Limit
}

// Limit is the cause with which a stage ends the context of what it limits:
//
//	ctx, cancel := context.WithTimeoutCause(ctx, d, llm.Limit(llm.Stalled, "no answer within "+d.String()))
//
// An attempt that ends by it is of class c. Any other cause, whatever its type, is the caller's own affair: its call is
// Canceled, or Exhausted where its deadline passed.
func Limit(c Class, message string) *Error {
	return &Error{Class: c, Owner: c.Owner(), Message: message, limit: true}
}

// LimitOf is the [Limit] that ended ctx. nil: none did.
func LimitOf(ctx context.Context) *Error {
	if e, ok := context.Cause(ctx).(*Error); ok && e != nil && e.limit { //nolint:errorlint // a cause that wraps one is another
		return e
	}
	return nil
}

// Error says what failed where, in one line.
func (e *Error) Error() string {
	if e == nil {
		return "llm: unknown: a nil *llm.Error was returned for an error"
	}
	var b strings.Builder
	b.WriteString("llm: ")
	if e.Deployment != "" {
		b.WriteString(e.Deployment)
		b.WriteString(": ")
	}
	b.WriteString(e.Class.String())
	if e.Evidence.Status != 0 {
		fmt.Fprintf(&b, " (HTTP %d)", e.Evidence.Status)
	}
	detail := e.Message
	if detail == "" {
		detail = e.Evidence.Message
	}
	if detail != "" {
		b.WriteString(": ")
		b.WriteString(short(detail))
	}
	if e.Err != nil && e.Err != error(e.Class) { //nolint:errorlint // identity: a cause that is the bare class adds nothing
		if text := e.Err.Error(); text != detail {
			b.WriteString(": ")
			b.WriteString(short(strings.TrimPrefix(text, "llm: ")))
		}
	}
	if e.Partial != nil {
		b.WriteString(" (part of the answer was delivered)")
	}
	return b.String()
}

// short is s, cut where it is longer than anybody reads in a line: a body that is no JSON can become a message whole.
func short(s string) string {
	const most = 2000
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// text is what happened without class and deployment.
func (e *Error) text() string {
	if e.Message != "" {
		return e.Message
	}
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.Class.String()
}

// Unwrap is the one deciding cause.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// Is reports whether target is e's class. A Canceled error also is context.Canceled, whatever cause the caller gave.
func (e *Error) Is(target error) bool {
	if e == nil {
		return target == error(Unknown)
	}
	if c, ok := target.(Class); ok {
		return c == e.Class
	}
	return e.Class == Canceled && target == context.Canceled
}

// ClassOf is the class of err: that of the outermost [Error] or [Class] in its tree, Canceled for a bare context.Canceled,
// Exhausted for a bare context.DeadlineExceeded, else Unknown.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok && e != nil {
		return e.Class
	}
	if c, ok := errors.AsType[Class](err); ok {
		return c
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return Exhausted
	}
	return Unknown
}

// AsError is err as an *Error: the outermost one in its tree, or a new one of ClassOf(err) around it. It never returns
// nil; the result must not be written to.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok && e != nil {
		return e
	}
	c := ClassOf(err)
	return &Error{Class: c, Owner: c.Owner(), Err: err}
}

// CopyError is AsError(err) as a copy that may be written to. Where something wraps the Error, it stays in the chain.
func CopyError(err error) *Error {
	if e, ok := err.(*Error); ok && e != nil { //nolint:errorlint // what wraps an Error must not be lost
		cp := *e
		cp.limit = false
		return &cp
	}
	e := *AsError(err)
	e.Message, e.Err, e.limit = "", err, false
	return &e
}
