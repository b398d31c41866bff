package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelchain/llm"
)

// A Queuer takes work that may wait. Package queue/river has one. Implementations must be safe for concurrent use.
type Queuer interface {
	// Enqueue returns when the job is durable. It must not change or keep the job.
	Enqueue(ctx context.Context, job *Job) (*Receipt, error)
}

// A Job is work that waits for its next attempt.
type Job struct {
	Workflow string
	// Request is what was asked, without its Sink, with everything that was spent on it so far in Spent.
	Request *llm.Request
	// Requires is what a deployment has to declare to serve it. See [llm.Request.Require].
	Requires llm.Capabilities
	// NotBefore is when it is worth trying again, Since when the work came in first.
	NotBefore, Since time.Time
	// Deliveries is how often it was delivered from the queue.
	Deliveries int
	// Cause is the failure that made it wait.
	Cause *llm.Error
}

// A Receipt says that a queue has the work. It is the cause of an error of class Queued:
//
//	if receipt, ok := errors.AsType[*middleware.Receipt](err); ok { … }
type Receipt struct {
	// ID is what the queue knows the work by, to ask for the result.
	ID, Workflow string
	// NotBefore is when the next attempt is made at the earliest.
	NotBefore time.Time
	// Cause is the failure that made it wait.
	Cause *llm.Error
}

// Error says where the work is.
func (r *Receipt) Error() string {
	return fmt.Sprintf("queued as %s, to be tried again at %s", r.ID, r.NotBefore.UTC().Format(time.RFC3339))
}

// QueueConfig sets [Queue].
type QueueConfig struct {
	// Queue takes the work. It must be set.
	Queue Queuer
	// Workflow is the one that jobs are of, by which a worker finds the onion. "": none is named.
	Workflow string
	// After is the wait from which on work is queued. A shorter one that is known is left to the caller. 0: whatever the wait.
	After time.Duration
	// Base is the wait before the next attempt where none is known, doubled with each delivery up to Cap. 0: 30 s and 1 h.
	Base, Cap time.Duration
	// MaxAge is for how long work is kept in the queue before it fails. 0: 24 h.
	MaxAge time.Duration
	// Timeout is how long a caller waits for the queue to take its work. 0: 5 s.
	Timeout time.Duration
	// Budget is that of the stage EachBudget within: work with nothing left of it is not queued. Its Elapsed bounds each delivery.
	// The zero value: no ceiling.
	Budget BudgetConfig
	// Reactions holds the rows that differ from DefaultReactions. nil: none.
	Reactions Reactions
}

// Queue is the stage "queue": work that nobody could answer now and that time may mend goes into a queue, and the caller gets an
// error of class Queued whose cause is a [Receipt]. A worker delivers it later with [Deliver] to the same onion, on the budget
// that is left. If the queue cannot take it, the caller gets the failure, which says so.
//
// Streams: only a call of which nothing was handed out is queued; its answer is fetched whole.
//
// It belongs inside telemetry and degrade, outside the budget. It makes no calls, and queues no work that came from the queue:
// whoever delivers it hears when to do so again. It panics without a Queue and on negative settings.
func Queue(cfg QueueConfig) llm.Stage {
	if cfg.Queue == nil {
		panic("llm/middleware: Queue: there is no queue; set Queue, or leave the stage out")
	}
	if cfg.After < 0 {
		panic(fmt.Sprintf("llm/middleware: Queue: After is %v; use 0 to queue whatever the wait", cfg.After))
	}
	cfg.Base = durationOr("Queue", "Base", cfg.Base, 30*time.Second)
	cfg.Cap = durationOr("Queue", "Cap", cfg.Cap, time.Hour)
	cfg.MaxAge = durationOr("Queue", "MaxAge", cfg.MaxAge, 24*time.Hour)
	cfg.Timeout = durationOr("Queue", "Timeout", cfg.Timeout, 5*time.Second)
	reactions := cfg.Reactions.table()
	return llm.Stage{Name: "queue", Config: cfg, Wrap: wrapping("Queue", func(next llm.Caller) llm.Caller {
		s := &queue{next: next, cfg: cfg, reactions: reactions, prices: map[string]llm.Price{}}
		for d := range llm.Describe(next).Deployments() {
			s.prices[d.Name] = d.Price
			s.free = s.free || d.Price.Free
		}
		return s
	})}
}

type queue struct {
	next      llm.Caller
	cfg       QueueConfig
	reactions *table
	prices    map[string]llm.Price // of the deployments beneath
	free      bool                 // one of them costs nothing
}

func (s *queue) Describe() llm.Node {
	return llm.Node{Name: "queue", Config: s.cfg, Children: []llm.Node{llm.Describe(s.next)}}
}

func (s *queue) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil {
		return s.next.Call(ctx, nil)
	}
	r, handed := req.Accounted().Watch()
	began := time.Now()
	resp, err := s.next.Call(ctx, r)
	if err == nil {
		return resp, nil
	}
	del := deliveryOf(r)
	f := FailureOf(err, handed.Deltas() > 0)
	job := s.job(ctx, r, began, del)
	d := s.state(job, r.MaxAttempts > 0).decide(&f)
	switch {
	case d.Action != ActionQueue:
		return nil, err
	case del != nil && f.Class == llm.Exhausted && r.Made() == 0 && !errors.Is(err, ErrJournalDown):
		// Its budget suffices for no attempt, today or tomorrow.
		return nil, err
	}
	job.Cause = llm.CopyError(err)
	job.Cause.Attempts = r.Attempts()
	job.NotBefore = time.Now().Add(s.wait(d.Wait, job.Deliveries))
	if job.NotBefore.Sub(job.Since) > s.cfg.MaxAge {
		return nil, notQueued(err, fmt.Errorf("its next attempt would be later than MaxAge, %v, after it came in", s.cfg.MaxAge))
	}
	if del != nil {
		del.next = job
		return nil, queuedError(&Receipt{ID: del.id, Workflow: job.Workflow, NotBefore: job.NotBefore, Cause: job.Cause})
	}
	kept, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Timeout)
	defer cancel()
	receipt, failed := s.cfg.Queue.Enqueue(kept, job)
	if failed != nil || receipt == nil {
		return nil, notQueued(err, failed)
	}
	receipt.Cause = job.Cause
	return nil, queuedError(receipt)
}

// job is r as work for the queue.
func (s *queue) job(ctx context.Context, r *llm.Request, began time.Time, del *delivery) *Job {
	work := r.Detach()
	work.Sink = nil
	if work.MaxAttempts > 0 {
		work.MaxAttempts -= r.Made()
	}
	work.Spent = s.spent(ctx, r)
	j := &Job{Workflow: s.cfg.Workflow, Request: work, Requires: r.Required(), Since: began}
	if del != nil {
		j.Since, j.Deliveries = del.job.Since, del.job.Deliveries+1
	}
	return j
}

// spent is what was spent on r before and by its call, counted as the budget within counts.
func (s *queue) spent(ctx context.Context, r *llm.Request) llm.Spending {
	ctx = context.WithoutCancel(ctx) // which may have ended, and a Counter is asked
	ledger := &budgetGate{Budget: &Budget{cfg: s.cfg.Budget}}
	sum, rows := charged(r.Spent), r.Attempts()
	for i := range rows {
		a := &rows[i]
		price, known := s.prices[a.Deployment]
		is := ledger.charge(ctx, r, price, a)
		if !known && a.CostUSD > 0 {
			is.CostUSD = a.CostUSD
		}
		sum = sum.Add(is)
	}
	return sum
}

// state is what is left for j, whose request bounds its attempts itself or not.
func (s *queue) state(j *Job, bounded bool) *State {
	left := s.cfg.Budget.Room()
	left.Attempts -= j.Request.Spent.Attempts
	if bounded {
		left.Attempts = min(left.Attempts, j.Request.MaxAttempts)
	}
	left.Tokens -= j.Request.Spent.Tokens
	if s.cfg.Budget.CostUSD > 0 && !s.free {
		left.CostUSD -= j.Request.Spent.CostUSD
	}
	return &State{
		rows: s.reactions, ReplayUnsafe: j.Request.ReplayUnsafe, Left: left, Queue: QueueOption{Open: true, After: s.cfg.After},
	}
}

// wait is how long the work waits: as long as is known, or a back-off.
func (s *queue) wait(known time.Duration, deliveries int) time.Duration {
	if known > 0 {
		return noEarlierThan(known)
	}
	back := min(s.cfg.Base, s.cfg.Cap)
	for ; deliveries > 0 && back < s.cfg.Cap; deliveries-- {
		back += min(back, s.cfg.Cap-back)
	}
	return noEarlierThan(back)
}

func queuedError(r *Receipt) error {
	return &llm.Error{
		Class: llm.Queued, Owner: llm.Queued.Owner(), Commit: r.Cause.Commit,
		Message:    "nobody could answer now: " + r.Cause.Class.String(),
		RetryAfter: max(time.Until(r.NotBefore), 0), Attempts: r.Cause.Attempts, Err: r,
	}
}

// notQueued is err, and why the queue did not take the work.
func notQueued(err, why error) error {
	if why == nil {
		why = errors.New("the queue returned neither receipt nor error")
	}
	return saying(err, "; ", "it could not be queued: "+why.Error())
}

// delivery is the gate that tells a Queue that its work comes from the queue.
type delivery struct {
	llm.OpenGate
	id   string
	job  *Job
	next *Job
}

func deliveryOf(r *llm.Request) *delivery {
	for g := range r.Gates() {
		if d, ok := g.(*delivery); ok {
			return d
		}
	}
	return nil
}

// Deliver calls c, an onion with the stage Queue, with a job that the queue knows as id. Exactly one of the results tells what
// follows: the answer; next, which is the same work with what is spent by now, to be delivered again at next.NotBefore, with
// err saying why; or, with next nil, an error that ends it.
func Deliver(ctx context.Context, c llm.Caller, id string, job *Job) (resp *llm.Response, next *Job, err error) {
	d := &delivery{id: id, job: job}
	gate := llm.Stage{Name: "delivery", Wrap: func(c llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			r := req.Accounted()
			defer r.Enforce(d).Lift()
			return c.Call(ctx, r)
		})
	}}
	resp, err = llm.New(gate).Then(c).Call(ctx, job.Request.Require(job.Requires))
	if err != nil && llm.ClassOf(err) == llm.Queued {
		return nil, d.next, err
	}
	return resp, nil, err
}
