package llmtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/modelchain/llm"
)

// Pass is a stage called name that does nothing, to take the place of another in a test:
//
//	chain, err := chain.Replace("retry", llmtest.Pass("retry"))
func Pass(name string) llm.Stage {
	return llm.Stage{Name: name, Wrap: func(next llm.Caller) llm.Caller { return &pass{name, next} }}
}

type pass struct {
	name string
	next llm.Caller
}

func (p *pass) Describe() llm.Node {
	return llm.Node{Name: p.name, Children: []llm.Node{llm.Describe(p.next)}}
}

func (p *pass) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	return p.next.Call(ctx, req)
}

// Point says when a [Fault] befalls a call.
type Point uint8

// The points.
const (
	Before Point = iota // in the place of the call
	Middle              // when Fault.Deltas of a stream were handed out; a call that is not streamed, when it is answered
	After               // in the place of the answer, when all of it was handed out
)

// A Fault is what befalls some of the calls. With nothing but a Delay the call goes on after it.
type Fault struct {
	// Share is the share of the calls that it befalls, drawn at random. 0: all of them.
	Share float64
	// Skip is how many calls go by before the first that it may befall, Count how many it befalls then. Count 0: no bound.
	Skip, Count int
	// At is when it happens.
	At Point
	// Deltas is how many are handed out before it, for Middle. 0: none.
	Deltas int
	// Delay passes before it, unless the call's context ends.
	Delay time.Duration
	// Err is what the call fails with: an llm.Class, an *llm.Error, such as the Err of [FailWith], or any other. nil: it does
	// not fail.
	Err error
	// Panic is what the stage panics with. nil: it does not.
	Panic any
}

// FaultsConfig sets [Faults]. The zero value lets every call pass.
type FaultsConfig struct {
	// Seed is that of the draws: calls that come in the same order have the same faults. 0 is a seed as well.
	Seed uint64
	// Faults are looked at in order for each call, which has the first that befalls it. nil: none.
	Faults []Fault
}

// Faults is the stage "faults": it has calls fail as they would at a bad provider. It may stand in the place of any stage.
// Outside a Deployment a fault Before is a row of the account that says why nobody was called. To have it count as an attempt,
// put it around the model:
//
//	&llm.Deployment{Name: "a", Caller: llmtest.Faults(cfg).Wrap(model)}
//
// Streams: those that are cut in the middle or after their last delta fail with the part that was handed out. It waits on the
// clock of testing/synctest in its bubble. It panics on a Share outside 0 to 1, on negative settings, and on a Fault that
// does nothing.
func Faults(cfg FaultsConfig) llm.Stage {
	for i, f := range cfg.Faults {
		switch {
		case !(f.Share >= 0 && f.Share <= 1):
			panic(fmt.Sprintf("llm/llmtest: Faults: Share of fault %d is %v; use 0 for all calls, or a share up to 1", i, f.Share))
		case f.Skip < 0 || f.Count < 0 || f.Deltas < 0 || f.Delay < 0:
			panic(fmt.Sprintf("llm/llmtest: Faults: fault %d has Skip %d, Count %d, Deltas %d, Delay %v; none may be negative", i, f.Skip,
				f.Count, f.Deltas, f.Delay))
		case f.Delay == 0 && f.Err == nil && f.Panic == nil:
			panic(fmt.Sprintf("llm/llmtest: Faults: fault %d does nothing; set Delay, Err or Panic", i))
		}
	}
	return llm.Stage{Name: "faults", Config: cfg, Wrap: func(next llm.Caller) llm.Caller {
		s := &faults{next: next, cfg: cfg, draw: rand.New(rand.NewPCG(cfg.Seed, 0)), done: make([]int, len(cfg.Faults))}
		for d := range llm.Describe(next).Deployments() {
			s.leaf = d
			break
		}
		return s
	}}
}

type faults struct {
	next llm.Caller
	cfg  FaultsConfig
	leaf *llm.Deployment // the first beneath. nil: this one stands within a leaf

	mu    sync.Mutex
	draw  *rand.Rand
	calls int
	done  []int // calls that each fault befell
}

func (s *faults) Describe() llm.Node {
	return llm.Node{Name: "faults", Config: s.cfg, Children: []llm.Node{llm.Describe(s.next)}}
}

// fault is the one that befalls the next call. nil: none.
func (s *faults) fault() *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	var found *Fault
	for i := range s.cfg.Faults {
		f := &s.cfg.Faults[i]
		hit := f.Share == 0 || s.draw.Float64() < f.Share // drawn for each call, so that what befalls one changes no other's
		if found == nil && hit && s.calls > f.Skip && (f.Count == 0 || s.done[i] < f.Count) {
			s.done[i]++
			found = f
		}
	}
	return found
}

func (s *faults) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil {
		return s.next.Call(ctx, nil)
	}
	f := s.fault()
	switch {
	case f == nil:
		return s.next.Call(ctx, req)
	case f.At == Before:
		return s.before(ctx, req, f)
	case f.At == Middle && req.Sink != nil:
		return s.cut(ctx, req, f)
	}
	resp, err := s.next.Call(ctx, req)
	if err != nil || resp == nil {
		return resp, err
	}
	return s.reject(ctx, req, resp, f)
}

// befall does what f does. What it returns is nil where the call goes on.
func (f *Fault) befall(ctx context.Context) error {
	if err := wait(ctx, f.Delay); err != nil {
		return llm.ContextError(ctx, nil)
	}
	if f.Panic != nil {
		panic(f.Panic)
	}
	return f.Err
}

func (s *faults) before(ctx context.Context, req *llm.Request, f *Fault) (*llm.Response, error) {
	err := f.befall(ctx)
	if err == nil {
		return s.next.Call(ctx, req)
	}
	if s.leaf != nil {
		e := llm.CopyError(err)
		e.Deployment, e.Provider, e.Model = s.leaf.Name, s.leaf.Provider, s.leaf.Model
		return nil, req.Skipped(e)
	}
	return nil, err
}

func (s *faults) reject(ctx context.Context, req *llm.Request, resp *llm.Response, f *Fault) (*llm.Response, error) {
	err := f.befall(ctx)
	if err == nil {
		return resp, nil
	}
	e := llm.CopyError(err)
	if req.Sink != nil {
		e.Partial = resp
	}
	return nil, resp.Reject(e)
}

// cut lets some deltas of a stream pass.
func (s *faults) cut(ctx context.Context, req *llm.Request, f *Fault) (*llm.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := req.Clone()
	n, befell := 0, false
	var acc llm.Accumulator
	var broke error // what the stage itself ended the stream with
	c.Sink = func(d llm.Delta) error {
		if broke != nil {
			return broke
		}
		if n == f.Deltas && !befell {
			befell = true
			if err := f.befall(ctx); err != nil {
				// A limit is what tells the deployment beneath that a stage ended the attempt, and that no reader did.
				limit := llm.Limit(llm.ClassOf(err), strings.TrimPrefix(err.Error(), "llm: "))
				limit.Err = err
				broke = limit
				cancel(limit)
				return limit
			}
		}
		n++
		acc.Add(d)
		return req.Sink(d)
	}
	resp, err := s.next.Call(ctx, c)
	if broke == nil {
		return resp, err
	}
	e := llm.CopyError(broke)
	if err != nil {
		e.Attempts, e.Usage, e.RequestID = llm.AsError(err).Attempts, llm.AsError(err).Usage, llm.AsError(err).RequestID
	}
	if e.Commit = llm.CommitUnknown; n > 0 {
		e.Partial, e.Commit = acc.Partial(), llm.Committed
	}
	if s.leaf != nil {
		e.Deployment, e.Provider, e.Model = s.leaf.Name, s.leaf.Provider, s.leaf.Model
	}
	return nil, e
}
