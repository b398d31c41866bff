package middleware

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/modelchain/llm"
)

// JournalAck says what a call waits for.
type JournalAck uint8

// What a call waits for.
const (
	// AckAll: the row of an attempt is durable before the provider is called, and how it ended before the next attempt begins or
	// the call returns.
	AckAll JournalAck = iota
	// AckBegin: the row of an attempt is durable before the provider is called. How it ended is handed over: what a crash
	// takes of that leaves the attempt unsettled, which is reported.
	AckBegin
	// AckNone: all is handed over, and a crash may take the last attempts without a trace.
	AckNone
)

// JournalDown says what happens while the store cannot be written.
type JournalDown uint8

// What happens without a store.
const (
	// DownRefuse: no provider is called without a row.
	DownRefuse JournalDown = iota
	// DownGoOn: calls go on, and an alarm tells of it.
	DownGoOn
)

// JournalConfig sets [Journal].
type JournalConfig struct {
	// Store keeps the rows. It must be set.
	Store JournalStore
	// Workflow is whose calls these are. "": what the request's label "workflow" says.
	Workflow string
	// Timeout is the longest that one write delays a call, and how often one is tried while the store is down. 0: 1 s.
	Timeout time.Duration
	// Ack says what a call waits for. 0: AckAll.
	Ack JournalAck
	// Down says what happens while the store cannot be written. 0: DownRefuse.
	Down JournalDown
	// EveryMove is as in [TelemetryConfig], for the reason of an attempt and the outcome of a call. false: a move between two
	// deployments of one model is a retry.
	EveryMove bool
	// Meter makes the metrics. nil: the one registered with package otel.
	Meter metric.MeterProvider
	// Logger gets a record when the store goes down and one when it is back. nil: slog.Default().
	Logger *slog.Logger
}

// Journal is the stage "journal": a row for every attempt, written before the provider is called and settled when it is
// over, and one for every call, with how it ended. After a crash the rows that were begun and not settled are the attempts
// whose outcome nobody knows.
//
// A call waits for its rows as Ack says, for each at most Timeout. A write that fails, or takes longer, means that the store
// is down. As long as it is, one write each Timeout is waited for, to see whether it is back, and no other call is delayed.
// With DownRefuse attempts are refused with class Exhausted, which nobody repeats and which rests no deployment: none of them
// is at fault; [ErrJournalDown] is in its chain. A fallback that asks the next one hears the same at no cost, and a queue or a
// stand-in may take over, since time may mend it. With DownGoOn attempts are made, and what could not be written is counted in
// llm.client.journal.failures. In both cases an answer is never withheld because its end could not be written: it has been
// paid for. Such rows are handed to the store anyway, which may keep them until it can write.
//
// Streams pass through untouched; their rows are settled when they end. Attempts of hedges have a row each, also those
// that lose, and those that go on after the call. A caller that leaves, and a panic, settle what they end. An answer that a
// validator rejects is settled as answered and again as failed.
//
// It belongs inside telemetry and outside degrade or queue, so that it sees what they make of a call. It never changes a
// request or an answer, and writes neither prompts nor answers nor a provider's words. An inner one adds nothing beneath
// another. It panics without a Store.
func Journal(cfg JournalConfig) llm.Stage {
	switch {
	case cfg.Store == nil:
		panic("llm/middleware: Journal: there is no Store; set one, such as that of package stores/sql")
	case cfg.Timeout < 0 || cfg.Ack > AckNone || cfg.Down > DownGoOn:
		panic(fmt.Sprintf("llm/middleware: Journal: Timeout %v, Ack %d, Down %d: use 0 for the defaults, or the constants",
			cfg.Timeout, cfg.Ack, cfg.Down))
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Second
	}
	return llm.Stage{Name: "journal", Config: cfg, Wrap: wrapping("Journal", func(next llm.Caller) llm.Caller {
		return &journal{next: next, cfg: cfg, moves: moves{cfg.EveryMove}, pen: newJournalPen(&cfg)}
	})}
}

type journal struct {
	moves
	next llm.Caller
	cfg  JournalConfig
	pen  *journalPen
}

func (j *journal) Describe() llm.Node {
	return llm.Node{Name: "journal", Config: j.cfg, Children: []llm.Node{llm.Describe(j.next)}}
}

func (j *journal) Call(ctx context.Context, req *llm.Request) (resp *llm.Response, err error) {
	if req == nil || underJournal(req) {
		return j.next.Call(ctx, req)
	}
	c := &journalCall{journal: j, id: journalID(), workflow: j.cfg.Workflow, start: time.Now()}
	if c.workflow == "" {
		c.workflow = req.Labels["workflow"]
	}
	r := req.Accounted()
	defer r.Enforce(c).Lift()
	defer func() { c.finish(ctx, r, resp, err) }()
	return j.next.Call(ctx, r)
}

func underJournal(req *llm.Request) bool {
	for g := range req.Gates() {
		if _, ok := g.(*journalCall); ok {
			return true
		}
	}
	return false
}

// journalID begins with the time, so that calls of one time are near each other in a store, and is never given twice.
func journalID() string { return fmt.Sprintf("%012x-%s", time.Now().UnixMilli(), rand.Text()) }

// finish writes how the call ended.
func (c *journalCall) finish(ctx context.Context, r *llm.Request, resp *llm.Response, err error) {
	if resp == nil && err == nil { // a panic is on its way out, or a stage broke its contract
		err = errGone
	}
	rows := accountOf(r, resp, err)
	c.amend(ctx, rows)
	row := JournalCall{
		Call: c.id, Workflow: c.workflow, Start: c.start, Took: time.Since(c.start), Requested: requested(rows),
		Outcome: c.outcome(rows, resp, err), Refused: resp.Refused(), Skipped: skips(rows),
	}
	if id := trace.SpanContextFromContext(ctx).TraceID(); id.IsValid() {
		row.Trace = id.String()
	}
	if resp != nil {
		row.Deployment = resp.Deployment
	}
	if d := deliveryOf(r); d != nil {
		row.Receipt, row.Delivery = d.id, true
	} else if receipt, ok := errors.AsType[*Receipt](err); ok {
		row.Receipt = receipt.ID
	}
	if err != nil {
		e := llm.AsError(err)
		row.Class, row.Partial, row.Detail = e.Class, e.Partial != nil, explainCall(rows, err, false)+panicked(err)
	}
	c.later(c.pen.after(ctx, func(ctx context.Context) error { return c.cfg.Store.Finish(ctx, row) }))
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.settle()
}
