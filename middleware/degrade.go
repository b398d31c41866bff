package middleware

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/modelchain/llm"
)

// DegradeConfig sets [Degrade]. At least one of LastGood and Answer must be set.
type DegradeConfig struct {
	// LastGood has answers that were given to the same question before. nil: none are kept.
	LastGood *LastGood
	// Answer makes a stand-in for the answer to a request that failed with err, if there is no last good one. It may return nil
	// for none, and always the same, which is copied. It must be safe for concurrent use. nil: none. See [StandIn].
	Answer func(ctx context.Context, req *llm.Request, err *llm.Error) *llm.Response
	// For lists the classes of failure that a stand-in is given for. nil: all but those that are Closed, such as Invalid, Auth and
	// Refused, which the caller has to hear of.
	For []llm.Class
	// Reactions holds the rows that differ from DefaultReactions. nil: none.
	Reactions Reactions
}

// Degrade is the stage "degrade": where nobody could answer, it gives a stand-in in the place of the error: the last good
// answer to the same question, or one that the application makes. The Response is marked Degraded, in telemetry too, and has
// the whole account of attempts; a stand-in is never mistaken for an answer.
//
// Work that comes from a queue gets none: nobody waits for it, and it is not done.
//
// Streams: a stand-in is handed out in one go, and only if nothing was handed out before. A caller that left gets none.
//
// It belongs inside telemetry and outside everything else, so that it acts when all else has failed. It makes no calls and
// never touches an answer, apart from keeping it if LastGood is set. It panics without a source of stand-ins.
func Degrade(cfg DegradeConfig) llm.Stage {
	if cfg.LastGood == nil && cfg.Answer == nil {
		panic("llm/middleware: Degrade: there is nothing to stand in; set LastGood or Answer, or leave the stage out")
	}
	cfg.For = slices.Clone(cfg.For)
	reactions := cfg.Reactions.table()
	return llm.Stage{Name: "degrade", Config: cfg, Wrap: wrapping("Degrade", func(next llm.Caller) llm.Caller {
		return &degrade{next: next, cfg: cfg, reactions: reactions}
	})}
}

type degrade struct {
	next      llm.Caller
	cfg       DegradeConfig
	reactions *table
}

func (s *degrade) Describe() llm.Node {
	return llm.Node{Name: "degrade", Config: s.cfg, Children: []llm.Node{llm.Describe(s.next)}}
}

func (s *degrade) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil {
		return s.next.Call(ctx, nil)
	}
	r, handed := req.Watch()
	resp, err := s.next.Call(ctx, r)
	if err == nil {
		s.cfg.LastGood.keep(r, resp)
		return resp, nil
	}
	f := FailureOf(err, handed.Deltas() > 0)
	state := State{
		rows: s.reactions, ReplayUnsafe: r.ReplayUnsafe, Left: NoLimit(), Degrade: DegradeOption{Open: true, For: s.cfg.For},
	}
	if state.decide(&f).Action != ActionDegrade || deliveryOf(r) != nil {
		return nil, err
	}
	stand := s.cfg.LastGood.of(r)
	if stand == nil && s.cfg.Answer != nil {
		stand = s.cfg.Answer(ctx, r, llm.CopyError(err))
	}
	if stand == nil {
		return nil, err
	}
	out := stand.Clone()
	out.Degraded, out.Deployment, out.Attempts = true, "", nil
	if handed, failed := emit(r, out); failed != nil {
		return nil, &llm.Error{Class: llm.Canceled, Message: "the sink failed", Partial: handed, Err: failed}
	}
	return out, nil
}

// emit hands a stand-in out. If the sink fails, handed is the part of it that went out.
func emit(r *llm.Request, stand *llm.Response) (handed *llm.Response, err error) {
	if r.Sink == nil {
		return nil, nil //nolint:nilnil // nothing is handed out, and nothing failed
	}
	var acc llm.Accumulator
	if err = llm.EmitWhole(&llm.Request{Sink: func(d llm.Delta) error { acc.Add(d); return r.Sink(d) }}, stand); err == nil {
		return nil, nil //nolint:nilnil // likewise
	}
	if handed = acc.Partial(); handed == nil {
		handed = &llm.Response{}
	}
	handed.Degraded = true
	return handed, err
}

// StandIn is a DegradeConfig.Answer that says text, with {{wait}} in it replaced by the time after which it is worth coming
// back, in whole seconds rounded up, such as "45s", and by "a moment" where nobody knows.
func StandIn(text string) func(context.Context, *llm.Request, *llm.Error) *llm.Response {
	return func(_ context.Context, _ *llm.Request, err *llm.Error) *llm.Response {
		wait := "a moment"
		if err.RetryAfter > 0 {
			wait = fmt.Sprint(wholeSeconds(err.RetryAfter))
		}
		return &llm.Response{Parts: []llm.Part{llm.Text(strings.ReplaceAll(text, "{{wait}}", wait))}, Stop: llm.StopEnd}
	}
}

// wholeSeconds is d rounded up: who comes back too early comes for nothing.
func wholeSeconds(d time.Duration) time.Duration {
	whole := d.Truncate(time.Second)
	if whole == d || whole > math.MaxInt64-time.Second {
		return d
	}
	return whole + time.Second
}
