package tools

import (
	"context"
	"errors"
	"fmt"

	"github.com/modelchain/llm"
)

// A DoubtError says that nobody knows whether a call had its effect, so it is not run again. It comes wrapped in an *llm.Error
// of class Unknown and commit state CommitUnknown, which nothing repeats; find it with errors.AsType[*tools.DoubtError].
type DoubtError struct {
	// Key names the record, for [Executor.MarkDone] and [Executor.MarkNotDone]; Turn, Tool and CallID say whose call it is.
	Key, Turn, Tool, CallID string
	// Reason is what happened, in words.
	Reason string
	// Again says that running the turn again may settle it: the tool is Keyed, or has a Reconcile.
	Again bool
	// Result is what the tool returned, where only the recording failed. nil otherwise.
	Result *Result
	// Err is the cause. nil: the process that ran it is gone.
	Err error
}

// Error says what is in doubt and how to mend it.
func (e *DoubtError) Error() string {
	mend := "find out by hand, then call MarkDone or MarkNotDone with the key"
	if e.Again {
		mend = "run the turn again to settle it"
	}
	text := fmt.Sprintf("tools: %s may have had its effect: %s; %s (turn %q, key %s)", e.Tool, e.Reason, mend, e.Turn, e.Key)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap is the cause.
func (e *DoubtError) Unwrap() error { return e.Err }

// A BusyError says that somebody else runs the same call, and that its result did not come in time. Nothing was run here. It
// comes wrapped in an *llm.Error of class Exhausted, or Canceled where the caller left.
type BusyError struct {
	// Key names the record; Turn and Tool say whose call it is.
	Key, Turn, Tool string
	// Owner is who runs it.
	Owner string
	// Err is why the wait ended. nil: Config.Wait was over.
	Err error
}

// Error says who is at it.
func (e *BusyError) Error() string {
	text := fmt.Sprintf("tools: %s is being run by %s; run the turn again to get its result (turn %q, key %s)",
		e.Tool, e.Owner, e.Turn, e.Key)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap is why the wait ended.
func (e *BusyError) Unwrap() error { return e.Err }

func invalid(format string, args ...any) error {
	return &llm.Error{Class: llm.Invalid, Owner: llm.OwnerRequest, Message: fmt.Sprintf(format, args...)}
}

// fault is an error after which it is certain that nothing happened.
func fault(ctx context.Context, c llm.Class, message string, err error) error {
	if ended := ctx.Err(); ended != nil && (err == nil || errors.Is(err, ended)) {
		c = llm.ClassOf(ended)
	}
	return &llm.Error{Class: c, Owner: c.Owner(), Commit: llm.CommitNone, Message: message, Err: err}
}
