package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/modelchain/llm"
)

// Config sets [New].
type Config struct {
	// Store keeps the records. nil: only where all tools are ReadOnly.
	Store Store
	// Tools are what a model may ask for. Their names differ.
	Tools []Tool
	// Owner says in records who runs a call: up to 256 bytes of text. "": the host's name and the process id.
	Owner string
	// Lease is how long a record stays held after its owner was last heard of, and so how long a call waits before it takes over
	// from a process that died. It is renewed after each third. A process that hangs for longer than this and then goes on may
	// still have its effect when another has taken over: only a backend that takes Call.Key is proof against that. 0: 30 s.
	Lease time.Duration
	// StoreTimeout limits each step of the store; the recording of a result is tried again for twice as long. It is at most half
	// of Lease. 0: 5 s, or half of Lease where that is less.
	StoreTimeout time.Duration
	// Wait is how long to wait for the result of a call that somebody else runs. 0: as long as ctx allows.
	Wait time.Duration
	// MaxResult bounds a result, in bytes of its JSON; what is longer is cut and says so. 0: 256 KiB. At least 1024.
	MaxResult int
	// MaxParallel bounds how many calls of one answer run at once, if their tools are Parallel. 0: 4.
	MaxParallel int
}

// An Executor runs the tools that models ask for, each effect once. It is safe for concurrent use.
type Executor struct {
	cfg   Config
	tools map[string]*Tool
}

// New makes an Executor. It panics on nonsense.
func New(cfg Config) *Executor {
	e := &Executor{cfg: cfg, tools: make(map[string]*Tool, len(cfg.Tools))}
	for i := range cfg.Tools {
		t := cfg.Tools[i]
		if why := t.nonsense(); why != "" {
			panic(fmt.Sprintf("llm/tools: New: tool %d, %q, %s", i, t.Spec.Name, why))
		}
		if e.tools[t.Spec.Name] != nil {
			panic(fmt.Sprintf("llm/tools: New: two tools are called %q; a model could not tell them apart", t.Spec.Name))
		}
		if t.Effect != ReadOnly && cfg.Store == nil {
			panic(fmt.Sprintf("llm/tools: New: tool %q has an effect, and there is no Store to record it; set Store to one of "+
				"stores/sql, or to NewMemory() for a single run", t.Spec.Name))
		}
		if t.Timeout == 0 {
			t.Timeout = time.Minute
		}
		e.tools[t.Spec.Name] = &t
	}
	e.cfg.setDefaults()
	return e
}

func (t *Tool) nonsense() string {
	switch {
	case t.Spec.Name == "":
		return "has no name; set Spec.Name"
	case !isText(t.Spec.Name):
		return "has a name with bytes that are no text; use letters and digits"
	case t.Run == nil:
		return "has no Run; say what it does"
	case t.Effect > ReadOnly:
		return fmt.Sprintf("has Effect %d; use Unkeyed, Keyed or ReadOnly", t.Effect)
	case t.Effect == ReadOnly && t.Reconcile != nil:
		return "is ReadOnly and has a Reconcile; it is never in doubt, so leave it out"
	case t.Timeout < 0:
		return fmt.Sprintf("has Timeout %v; use 0 for a minute", t.Timeout)
	case t.Spec.Parameters != nil && !json.Valid(t.Spec.Parameters):
		return "has Parameters that are no JSON; write a JSON Schema"
	}
	return ""
}

func (c *Config) setDefaults() {
	if c.Lease < 0 || c.StoreTimeout < 0 || c.Wait < 0 || c.MaxResult < 0 || c.MaxParallel < 0 {
		panic(fmt.Sprintf("llm/tools: New: Lease %v, StoreTimeout %v, Wait %v, MaxResult %d, MaxParallel %d: use 0 for the defaults",
			c.Lease, c.StoreTimeout, c.Wait, c.MaxResult, c.MaxParallel))
	}
	if c.Lease == 0 {
		c.Lease = 30 * time.Second
	}
	if c.StoreTimeout == 0 {
		c.StoreTimeout = min(5*time.Second, c.Lease/2)
	}
	if c.StoreTimeout > c.Lease/2 {
		panic(fmt.Sprintf("llm/tools: New: StoreTimeout %v is more than half of Lease %v, so that a slow store could lose a record "+
			"before its tool begins; make Lease longer", c.StoreTimeout, c.Lease))
	}
	if c.MaxResult == 0 {
		c.MaxResult = 256 << 10
	}
	if c.MaxResult < 1024 {
		panic(fmt.Sprintf("llm/tools: New: MaxResult %d leaves no room to say that a result was cut; use 1024 or more", c.MaxResult))
	}
	if c.MaxParallel == 0 {
		c.MaxParallel = 4
	}
	if c.Owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unnamed host"
		}
		c.Owner = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	c.Owner = plain(c.Owner)
}

// Specs is what to tell a model of the tools, for Request.Tools.
func (e *Executor) Specs() []llm.Tool {
	out := make([]llm.Tool, len(e.cfg.Tools))
	for i := range e.cfg.Tools {
		out[i] = e.cfg.Tools[i].Spec
	}
	return out
}

// A job is one call of an answer.
type job struct {
	tool   *Tool
	call   Call
	hash   string // of the arguments
	result Result
	err    error
	ready  bool // it has a result without being run
}

// Run runs the tool calls of an answer and returns the message with their results, to be appended to the conversation behind
// the answer. Calls are run in their order, those of Parallel tools beside each other.
//
// turn identifies the answer: the same whenever the work on it is repeated, and another for the next answer of the same
// conversation, in which a call with the same arguments is meant anew. The conversation's id with the number of messages in it
// is a good one. Keep the answer before its tools run: a model that is asked again may ask for something else, which is then
// another call.
//
// A call whose tool does not exist, or whose arguments are no JSON object, gets a result that tells the model so. An error ends
// the turn: the calls after it are not begun, what is done stays recorded, and running the turn again goes on from there. It is
// an *llm.Error, with a [*DoubtError] in it where an effect may have happened; commit state CommitNone says that this call had
// none.
func (e *Executor) Run(ctx context.Context, turn string, resp *llm.Response) (llm.Message, error) {
	calls := resp.ToolCalls()
	switch {
	case turn == "" || len(turn) > 512 || !isText(turn):
		return llm.Message{}, invalid("tools: Run: the turn is %.40q; it must be 1 to 512 bytes of text that identify the answer", turn)
	case len(calls) == 0:
		return llm.Message{}, invalid("tools: Run: the answer asks for no tool; look at its ToolCalls before")
	case resp.Refused():
		return llm.Message{}, invalid("tools: Run: the answer is a refusal, by the model or a filter; its tool calls are not run")
	case resp.Degraded:
		return llm.Message{}, invalid("tools: Run: the answer is a stand-in (Degraded), which no model gave to this question; " +
			"its tool calls are not run")
	}
	jobs := e.jobs(turn, calls)
	for from := 0; from < len(jobs); {
		to := from + 1
		for jobs[from].beside() && to < len(jobs) && jobs[to].beside() {
			to++
		}
		if err := e.together(ctx, jobs[from:to]); err != nil {
			return llm.Message{}, err
		}
		from = to
	}
	msg := llm.Message{Role: llm.RoleTool, Parts: make([]llm.Part, len(jobs))}
	for i := range jobs {
		msg.Parts[i] = llm.Part{Kind: llm.PartToolResult, Result: &llm.ToolResult{
			CallID: calls[i].ID, Name: calls[i].Name, Parts: jobs[i].result.Parts, IsError: jobs[i].result.IsError,
		}}
	}
	return msg, nil
}

func (e *Executor) jobs(turn string, calls []*llm.ToolCall) []job {
	jobs := make([]job, len(calls))
	seen := map[string]int{}
	for i, c := range calls {
		j := &jobs[i]
		if j.tool = e.tools[c.Name]; j.tool == nil {
			j.result, j.ready = Failure(fmt.Sprintf("There is no tool called %.100q.", c.Name)), true
			continue
		}
		args, err := canonicalObject(c.Arguments)
		if err != nil {
			j.result, j.ready = Failure(fmt.Sprintf("%s was not run: %v.", c.Name, err)), true
			continue
		}
		j.hash = hashOf(args)
		same := c.Name + " " + j.hash
		j.call = Call{Turn: turn, Tool: c.Name, Args: args, ID: c.ID, Ordinal: seen[same], Key: keyOf(turn, c.Name, args, seen[same])}
		seen[same]++
	}
	return jobs
}

func (j *job) beside() bool { return j.ready || j.tool.Parallel }

// together runs jobs beside each other. One that fails does not end the others: that would put their effects in doubt.
func (e *Executor) together(ctx context.Context, jobs []job) error {
	if len(jobs) == 1 {
		e.do(ctx, &jobs[0])
		return jobs[0].err
	}
	var wg sync.WaitGroup
	room := make(chan struct{}, e.cfg.MaxParallel)
	for i := range jobs {
		if jobs[i].ready {
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			e.do(ctx, &jobs[i])
		})
	}
	wg.Wait()
	var failed []error
	for i := range jobs {
		if jobs[i].err != nil {
			failed = append(failed, jobs[i].err)
		}
	}
	if len(failed) < 2 {
		return errors.Join(failed...)
	}
	return several(failed)
}

// several is an error for more than one, of the class and commit state of the one that is least certain.
func several(failed []error) error {
	worst := llm.CopyError(failed[0])
	for _, err := range failed {
		if e := llm.AsError(err); e.Commit > worst.Commit {
			worst = llm.CopyError(err)
		}
	}
	worst.Message, worst.Err = fmt.Sprintf("%d calls failed", len(failed)), errors.Join(failed...)
	return worst
}
