package tools

import (
	"context"
	"errors"
	"time"
)

// State is how far a call got, as far as its record tells.
type State string

// The states, in order.
const (
	Requested    State = "requested"    // somebody means to run it; nothing has happened
	Started      State = "started"      // its effect may have happened
	Committed    State = "committed"    // it is done, and the result is recorded
	Acknowledged State = "acknowledged" // and whoever asked has the result
)

// Over reports whether the call has a result.
func (s State) Over() bool { return s == Committed || s == Acknowledged }

// From lists the states from which a [Move] may lead to s. A store refuses every other step; only Acknowledge leads to
// Acknowledged.
func (s State) From() []State {
	switch s {
	case Requested, Started:
		return []State{Requested, Started}
	case Committed:
		return []State{Started, Committed}
	}
	return nil
}

// A Record is what a store keeps of a call. The arguments are not kept, only their hash.
type Record struct {
	// Key, Turn, Tool, CallID and Ordinal are those of the first Call with this key.
	Key, Turn, Tool, CallID string
	Ordinal                 int
	// Arguments is the SHA-256 of the canonical arguments, in hexadecimal digits.
	Arguments string
	State     State
	// Owner is who last claimed it, a name of its own for each claim. "": it was let go.
	Owner string
	// Held says that Owner's lease was not over when the store was asked, by the store's clock.
	Held bool
	// Doubt says why nobody knows whether the effect happened. "": somebody is at it, it is over, or its process is gone.
	Doubt string
	// Result is the JSON of the Result. nil before Committed.
	Result []byte
	// Created and Changed are when it was requested and last changed its state or owner, by the store's clock.
	Created, Changed time.Time
}

// A Move is one step of a record by its owner.
type Move struct {
	Key, Owner string
	// To is the state after it; it may be the one before, to renew the lease or to let go.
	To State
	// Lease is how long the owner holds the record from now on. 0: it is let go, and Owner is cleared unless To is Committed.
	Lease time.Duration
	// Doubt and Result replace those of the record.
	Doubt  string
	Result []byte
}

// ErrLost says that a record is not its owner's any more, or that the step is not one it may take.
var ErrLost = errors.New("tools: the record is not held by this owner, or may not take this step")

// ErrNoRecord says that there is no record of that key.
var ErrNoRecord = errors.New("tools: there is no record of this key")

// A Store keeps records. Each method is one atomic step, durable when it returns without an error, and safe for concurrent use
// by any number of processes. A method that fails may have taken its step, so each can be repeated. [NewMemory] is one for a
// single run; stores/sql has SQLite and PostgreSQL; toolstest.TestStore checks yours.
type Store interface {
	// Claim makes the record in state Requested for r.Owner, if there is none of r.Key. One that is neither over nor held becomes
	// r.Owner's, in the state and with the doubt that it has. The record as it is then is returned either way: it is r.Owner's if
	// it says so. Of r, the fields before State and Owner count.
	Claim(ctx context.Context, r Record, lease time.Duration) (Record, error)
	// Move takes a step by the owner, held or not, from a state in m.To.From(), else ErrLost. A step to Committed that its owner
	// has taken already changes nothing and is no error.
	Move(ctx context.Context, m Move) error
	// Get is the record of key, or ErrNoRecord.
	Get(ctx context.Context, key string) (Record, error)
	// Acknowledge moves the committed records of the turn to Acknowledged.
	Acknowledge(ctx context.Context, turn string) error
	// Doubtful lists the records that are Started and held by nobody, the oldest change first, at most limit.
	Doubtful(ctx context.Context, limit int) ([]Record, error)
	// Prune deletes records that are Acknowledged, or Requested and held by nobody, and were last changed longer than age ago. It
	// returns how many.
	Prune(ctx context.Context, age time.Duration) (int, error)
}
