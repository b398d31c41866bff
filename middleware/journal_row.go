package middleware

import (
	"context"
	"errors"
	"time"

	"github.com/modelchain/llm"
)

// A JournalStore keeps what [Journal] writes. Each method returns nil only when the row is durable, and returns soon after
// ctx has ended. All must be safe for concurrent use, and rows of one attempt may come in any order: a store keeps by Call
// and Seq. Package stores/sql has one.
type JournalStore interface {
	// Begin enters an attempt that is about to be made, in state started. Where Settle was earlier it changes nothing.
	Begin(ctx context.Context, a JournalAttempt) error
	// Settle enters how an attempt ended. a is whole, so that it also makes up for a Begin that failed; of several the last one
	// holds.
	Settle(ctx context.Context, a JournalAttempt) error
	// Finish enters how a call ended.
	Finish(ctx context.Context, c JournalCall) error
}

// JournalState says what is known of an attempt.
type JournalState string

// The states.
const (
	// JournalStarted: it is under way, or whoever made it is gone.
	JournalStarted JournalState = "started"
	// JournalAnswered and JournalFailed: it ended.
	JournalAnswered JournalState = "answered"
	JournalFailed   JournalState = "failed"
	// JournalNotMade: nothing was sent, because the journal or another stage turned it away at the last moment.
	JournalNotMade JournalState = "not_made"
	// JournalUnknown: whoever made it is gone, and nobody knows how it ended. A store says so, not [Journal].
	JournalUnknown JournalState = "unknown"
)

// A JournalAttempt is the row of one attempt.
type JournalAttempt struct {
	// Call is the id of the call, and Seq counts its rows from 1: together they are the key.
	Call string
	Seq  int
	// Workflow is whose call it is. "": not said.
	Workflow string
	// Index is llm.Attempt.Index: the number of the provider call. 0: it was not made.
	Index int
	// Requested is the deployment that the call was for, Deployment the one selected for this attempt.
	Requested, Deployment string
	// Provider and Model are what the attempt is sent to. "": not known.
	Provider, Model string
	// Reason is why it is made: "initial", "retry", "fallback" or "hedge". From is the deployment of the attempt that it comes
	// after and After the class of its failure; "" and 0: there is none, or it has not failed.
	Reason, From string
	After        llm.Class
	// Start is when it began; Waited the time spent waiting for it before that.
	Start  time.Time
	Waited time.Duration

	// State is what is known; all that follows is zero as long as it is JournalStarted.
	State JournalState
	// Class is that of the failure. 0: of an unknown kind, or there is none.
	Class llm.Class
	// Commit says how far the provider got.
	Commit llm.CommitState
	// Status is that of HTTP, RequestID the provider's id. 0 and "": not known.
	Status    int
	RequestID string
	// Took is how long it was under way, FirstDelta the time to the first piece of a stream. 0: there was none.
	Took, FirstDelta time.Duration
	// Usage is what it consumed and CostUSD its price in US dollars, if Priced; else the price is not known.
	Usage   llm.Usage
	CostUSD float64
	Priced  bool
	// Detail says what failed, in no words of prompts, answers or providers. "": nothing did.
	Detail string
}

// A JournalCall is the row of a call that is over.
type JournalCall struct {
	// Call is its id, Workflow whose it is ("": not said), Trace the OpenTelemetry trace it is in ("": none).
	Call, Workflow, Trace string
	// Start is when it began and Took how long it took.
	Start time.Time
	Took  time.Duration
	// Outcome is how it ended.
	Outcome Outcome
	// Class is that of the error. 0: of an unknown kind, or there is none.
	Class llm.Class
	// Requested is the deployment that it was for and Deployment the one that answered. "": none.
	Requested, Deployment string
	// Refused marks an answer that is a refusal, Partial an error after part of an answer was handed out.
	Refused, Partial bool
	// Receipt is the id that a queue knows the work by: on the call that was queued and on its deliveries. "": none.
	Receipt string
	// Delivery marks a call that a queue made, to deliver its work. OutcomeQueued then says that the work went back.
	Delivery bool
	// Skipped are the deployments that were passed over. nil: none.
	Skipped []JournalSkip
	// Detail is as that of an attempt. "": nothing failed.
	Detail string
}

// A JournalSkip is a deployment that was passed over, or a retry that was not made.
type JournalSkip struct {
	Deployment string    `json:"deployment"`
	Class      llm.Class `json:"class"`
	Why        string    `json:"why"`
}

// settled is row with how a went. d is where it was made.
func (row JournalAttempt) settled(d *llm.Deployment, a *llm.Attempt) JournalAttempt {
	row.Class, row.Commit, row.Status, row.RequestID = a.Class, a.Commit, a.Status, a.RequestID
	row.Took, row.FirstDelta, row.Usage, row.CostUSD = a.Took, a.FirstDelta, a.Usage, a.CostUSD
	row.Priced = d != nil && d.Price != (llm.Price{})
	switch {
	case a.Skipped != "":
		row.State, row.Index = JournalNotMade, 0
	case a.Err == nil:
		row.State = JournalAnswered
	default:
		row.State = JournalFailed
	}
	if a.Err != nil {
		row.Detail = explainAttempt(a) + panicked(a.Err)
	}
	return row
}

// panicked says of err that it is a panic, without its value, which may be anything.
func panicked(err error) string {
	if _, ok := errors.AsType[*llm.PanicError](err); ok {
		return ": it panicked"
	}
	return ""
}

// requested is the deployment that a call was for: the first that suits it.
func requested(rows []llm.Attempt) string {
	var first *llm.Attempt
	for i := range rows {
		if !unfit(&rows[i]) && (first == nil || before(&rows[i], first)) {
			first = &rows[i]
		}
	}
	if first == nil {
		return ""
	}
	return first.Deployment
}

func skips(rows []llm.Attempt) (out []JournalSkip) {
	for i := range rows {
		if a := &rows[i]; a.Skipped != "" {
			out = append(out, JournalSkip{a.Deployment, a.Class, ownWords(true, llm.AsError(a.Err))})
		}
	}
	return out
}
