package policy

import (
	"context"
	"slices"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// used are the names of the routes that a card may call, the primary first, without doubles.
func (c *card) used() []string {
	names := []string{c.Primary}
	for _, f := range c.Fallbacks {
		names = append(names, f.Route)
	}
	names = append(names, c.Long)
	var out []string
	for _, name := range names {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// continuers are the roles that may go on with an answer that broke off, in order: the primary last, since it is
// most likely the one whose stream broke.
func (c *card) continuers(all *parsed) []role {
	var out []role
	can := func(name string) bool {
		r := all.route(name)
		return r != nil && slices.Contains(r.Capabilities, "prefill")
	}
	for _, r := range c.roles() {
		if slices.Contains(r.reasons, "interrupted_stream") && can(r.route) {
			out = append(out, r)
		}
	}
	if can(c.Primary) {
		out = append(out, role{path: "primary", route: c.Primary})
	}
	return out
}

// onion builds a workflow around its deployments. What it remembers is in k.
type onion struct {
	*card
	o         *Options
	leaves    map[string]*llm.Deployment
	continues []role
	equal     *equivalence
	cooldowns *middleware.Cooldowns
	k         *memory
}

// memory is what a workflow has learned, which outlives its onion.
type memory struct {
	estimates *middleware.Estimates
	retries   map[string]*middleware.RetryBudget // by route
	lastGood  *middleware.LastGood
}

// build is everything inside telemetry.
func (n *onion) build() *llm.Pipeline {
	stacks := map[string]llm.Caller{}
	for _, name := range n.used() {
		stacks[name] = n.perRoute(name, n.equal.validate).Then(n.leaves[name])
	}
	callers := []llm.Caller{stacks[n.Primary]}
	var long llm.Caller
	for _, r := range n.roles() {
		if r.path == "long_context" {
			long = n.standIn(r, stacks[r.route])
			continue
		}
		end := n.equal.until[r.path]
		callers = append(callers, middleware.Route{Caller: stacks[r.route], For: r.classes, Until: end.at, Ended: end.told()})
	}
	inner := callers[0]
	if len(callers) > 1 {
		inner = middleware.Fallback(middleware.FallbackConfig{
			Budget: n.o.bucket("fallbacks", n.Workflow), Reactions: n.overrides(),
		}, callers...)
	}
	if long != nil {
		inner = middleware.TokenRouter(middleware.TokenRouterConfig{Normal: inner, Long: long, Reactions: n.overrides()})
	}
	return llm.New(n.perCall(stacks)...).Then(inner)
}

// perCall are the stages around the choice of a route, the outermost first.
func (n *onion) perCall(stacks map[string]llm.Caller) []llm.Stage {
	var stages []llm.Stage
	budget := n.budget()
	if n.o.Journal != nil {
		stages = append(stages, middleware.Journal(n.journalConfig()))
	}
	if n.ReplaySafe == "request_sent" {
		stages = append(stages, replayUnsafe())
	}
	if n.Degrade != nil {
		stages = append(stages, n.degradeStage())
	}
	if n.QueueAfter != nil {
		stages = append(stages, middleware.Queue(middleware.QueueConfig{
			Queue: n.o.Queue, Workflow: n.Workflow, After: n.QueueAfter.duration(), Budget: budget, Reactions: n.overrides(),
		}))
	}
	// The time is the deadline's: a budget around it that ends at the same moment would be taken for the caller's own limit, and
	// a silent primary for one that ran out of time, for which nobody stands in.
	if budget != (middleware.BudgetConfig{}) {
		stages = append(stages, middleware.EachBudget(budget))
	}
	stages = append(stages, middleware.Deadline(middleware.DeadlineConfig{Total: n.MaxElapsed.duration(), Estimates: n.k.estimates}))
	if s := n.Stream; s != nil && (s.Notice != "" || s.OnInterrupt == "continue") {
		cfg := middleware.InterruptConfig{Notice: s.Notice}
		if s.OnInterrupt == "continue" {
			cfg.Continue = n.continuations(stacks)
			if check := n.equal.validate; check != nil { // outside, since the whole is what the caller gets
				stages = append(stages, middleware.Validate(func(req *llm.Request, resp *llm.Response) error {
					if !resp.Continued {
						return nil // checked where it was made
					}
					return check(req, resp)
				}))
			}
		}
		stages = append(stages, middleware.Interrupt(cfg))
	}
	return stages
}

// continuations are the Callers that may go on with an answer: without the check of a whole answer.
func (n *onion) continuations(stacks map[string]llm.Caller) []llm.Caller {
	var out []llm.Caller
	for _, r := range n.continues {
		stack := stacks[r.route]
		if n.equal.validate != nil {
			stack = n.perRoute(r.route, nil).Then(n.leaves[r.route])
		}
		out = append(out, n.standIn(r, stack))
	}
	return out
}

// perRoute are the stages around one deployment, the outermost first. A nil check: its answers are not checked.
func (n *onion) perRoute(name string, check func(*llm.Request, *llm.Response) error) llm.Chain {
	stages := []llm.Stage{n.cooldowns.Stage()}
	if r := n.Retry; r == nil || r.Max == nil || *r.Max > 0 {
		cfg := middleware.RetryConfig{Budget: n.k.retries[name], Reactions: n.overrides()}
		if r != nil {
			if r.Max != nil {
				cfg.Max = *r.Max
			}
			cfg.Base, cfg.Cap, cfg.Jitter, cfg.MaxWait = r.Base.duration(), r.Cap.duration(), r.Jitter, r.MaxWait.duration()
		}
		stages = append(stages, middleware.Retry(cfg))
	}
	at := len(stages)
	if s := n.Stream; s != nil && (s.Whole || s.Deltas > 0 || s.Bytes > 0 || s.Wait > 0) {
		stages = append(stages, middleware.Commit(middleware.CommitConfig{
			Whole: s.Whole, Deltas: s.Deltas, Bytes: s.Bytes, Wait: s.Wait.duration(),
		}))
		if s.Whole { // around the check: what is held back until the end is seen by nobody before it
			at++
		}
	}
	if check != nil {
		stages = slices.Insert(stages, at, middleware.Validate(check))
	}
	var limits middleware.AttemptTimeoutConfig
	if t := n.Timeouts; t != nil {
		limits.Total, limits.FirstToken, limits.Idle = t.Attempt.duration(), t.FirstToken.duration(), t.Idle.duration()
	}
	return llm.New(append(stages, middleware.AttemptTimeout(limits),
		middleware.Classify(middleware.ClassifyConfig{Logger: n.o.Telemetry.Logger}))...)
}

func (n *onion) degradeStage() llm.Stage {
	cfg := middleware.DegradeConfig{LastGood: n.k.lastGood, For: classesOf(n.Degrade.For), Reactions: n.overrides()}
	if n.Degrade.Answer != "" {
		cfg.Answer = middleware.StandIn(n.Degrade.Answer)
	}
	return middleware.Degrade(cfg)
}

// budget is what a card allows for one request, apart from time, which is the deadline's.
func (c *card) budget() middleware.BudgetConfig {
	return middleware.BudgetConfig{Attempts: c.MaxAttempts, Tokens: c.MaxTokens, CostUSD: c.MaxCost}
}

func (n *onion) journalConfig() middleware.JournalConfig {
	cfg := middleware.JournalConfig{
		Store: n.o.Journal, Workflow: n.Workflow, Meter: n.o.Telemetry.Meter, Logger: n.o.Telemetry.Logger,
		EveryMove: n.o.Telemetry.EveryMove,
	}
	if j := n.Journal; j != nil {
		cfg.Timeout = j.Timeout.duration()
		switch j.Acknowledge {
		case "begin":
			cfg.Ack = middleware.AckBegin
		case "none":
			cfg.Ack = middleware.AckNone
		}
		if j.OnFailure == "go_on" {
			cfg.Down = middleware.DownGoOn
		}
	}
	return cfg
}

// cooldownConfig is the part of a card that is about rests.
func (c *card) cooldownConfig() middleware.CooldownConfig {
	cfg := middleware.CooldownConfig{Reactions: c.overrides()}
	if d := c.Cooldown; d != nil {
		cfg.Rest, cfg.Cap, cfg.Long, cfg.MaxWait = d.Rest.duration(), d.Cap.duration(), d.Long.duration(), d.MaxWait.duration()
		cfg.MaxUntil, cfg.Patience, cfg.ProbeLease = d.MaxUntil.duration(), d.Patience.duration(), d.ProbeLease.duration()
	}
	return cfg
}

// replayUnsafe is the stage "replay_unsafe": after an outcome that cannot be known, its requests are not sent again.
func replayUnsafe() llm.Stage {
	return llm.Stage{Name: "replay_unsafe", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			if r := req.Clone(); r != nil {
				r.ReplayUnsafe = true
				req = r
			}
			return next.Call(ctx, req)
		})
	}}
}
