package tools

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelchain/llm"
)

// Effect says what running a tool twice would do, and so what follows when nobody knows whether it ran.
type Effect uint8

// The effects. The zero value is the one that is safe for any tool.
const (
	// Unkeyed: it changes something and cannot tell that it did so before. In doubt it is not run again; without a Reconcile
	// its turn fails closed until a person decides.
	Unkeyed Effect = iota
	// Keyed: it passes Call.Key on, and what it talks to does the work of one key once, however often it is asked. In doubt it
	// is run again with the same key, or Reconcile is asked if there is one.
	Keyed
	// ReadOnly: it changes nothing. It is run each time and not recorded, so that it never returns what was true before.
	ReadOnly
)

// String is the effect in lower case.
func (e Effect) String() string {
	switch e {
	case Unkeyed:
		return "unkeyed"
	case Keyed:
		return "keyed"
	case ReadOnly:
		return "read-only"
	}
	return "no effect of package tools"
}

// A Tool is what a model may ask for, and how it is run.
type Tool struct {
	// Spec is what the model is told. Its name is part of the key.
	Spec llm.Tool
	// Run does the work. What it returns means:
	//
	//	result, nil                   it is done, or has failed for good (Result.IsError): recorded, and told to the model
	//	an error that wraps ErrNotDone  for certain nothing happened: the turn can be run again
	//	any other error, a panic      an effect may have happened: the record is in doubt
	//
	// The text of an error is never shown to the model. ctx ends with the caller's, after Timeout, and when the lease is lost.
	// Run must be safe for concurrent use, and must have stopped when it returns.
	Run func(ctx context.Context, c Call) (Result, error)
	// Effect says what running it twice would do. 0: Unkeyed.
	Effect Effect
	// Reconcile finds out whether a call did its work, when its record is in doubt: a result if it did, an error that wraps
	// ErrNotDone if it certainly did not and never will, any other error if it cannot tell. It changes nothing. nil: a Keyed
	// tool is run again, an Unkeyed one fails closed.
	Reconcile func(ctx context.Context, c Call) (Result, error)
	// Timeout limits Run and Reconcile, each. 0: 1 minute.
	Timeout time.Duration
	// Parallel says that it may run beside other calls of the same answer whose tools say so too.
	Parallel bool
}

// ErrNotDone says of a call that nothing happened: wrap it in the error of a Run that was turned away before any effect, and in
// that of a Reconcile which found none.
var ErrNotDone = errors.New("tools: not done")

// A Call is one call of a tool.
type Call struct {
	// Key names this call, 64 hexadecimal digits: the same whenever it is repeated, so it serves as an idempotency key.
	Key string
	// Turn and Tool are whose call it is.
	Turn, Tool string
	// Args is the JSON object of arguments in its canonical form. It is not checked against the tool's schema.
	Args json.RawMessage
	// ID is the provider's id of the call. It differs between repetitions, so nothing should be keyed by it.
	ID string
	// Ordinal counts the calls of one answer with the same tool and arguments, from 0.
	Ordinal int
}

// Decode reads the arguments into v, as json.Unmarshal does.
func (c Call) Decode(v any) error { return json.Unmarshal(c.Args, v) }

// A Result is what a tool has to say to the model.
type Result struct {
	Parts []llm.Part
	// IsError says that the tool failed, for good and without an effect that is in doubt.
	IsError bool
}

// Text is a result of one text.
func Text(text string) Result { return Result{Parts: []llm.Part{llm.Text(text)}} }

// Failure is a tool's failure as the model is to read it.
func Failure(text string) Result {
	return Result{Parts: []llm.Part{llm.Text(text)}, IsError: true}
}
