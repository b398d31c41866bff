package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/middleware"
)

// parts are a chain that keeps all that it promises, for mutations to spoil.
type parts struct {
	retry     middleware.RetryConfig
	again     *llm.Stage // in the place of retry
	cooldown  middleware.CooldownConfig
	rests     bool
	limits    middleware.AttemptTimeoutConfig
	window    middleware.CommitConfig
	budget    middleware.BudgetConfig
	hedge     *middleware.HedgeConfig // in the place of the fallback
	interrupt bool
	validate  bool
	approved  []llm.Class // nil: whatever may move
	reactions middleware.Reactions
	backup    func(primary, backup, unapproved llm.Caller) []llm.Caller
	route     bool
	queue     bool
	outer     []llm.Stage   // around the whole chain
	rest      *llm.Stage    // in the place of cooldown
	total     time.Duration // of a call
	model     func(openai.Config) llm.Caller
	wrap      func(llm.Caller) llm.Caller
	promises  Promises
	tools     func(e *Effect) func(context.Context, string, *llm.Response) error
}

// counting is a queue that counts.
type counting struct{ n atomic.Int64 }

func (q *counting) Enqueue(context.Context, *middleware.Job) (*middleware.Receipt, error) {
	return &middleware.Receipt{ID: strconv.FormatInt(q.n.Add(1), 10), NotBefore: time.Now().Add(time.Minute)}, nil
}

// wordCount takes each word for a token.
type wordCount struct{}

func (wordCount) CountTokens(_ context.Context, req *llm.Request, _ int) (n int, _ error) {
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			n += len(strings.Fields(p.Text))
		}
	}
	return n, nil
}

// hasAnswer is the contract of output: a JSON object with an answer.
func hasAnswer(_ *llm.Request, resp *llm.Response) error {
	var v struct{ Answer *string }
	if len(resp.ToolCalls()) > 0 {
		return nil
	}
	if json.Unmarshal([]byte(resp.Text()), &v) != nil || v.Answer == nil {
		return errors.New("there is no field answer")
	}
	return nil
}

func soundParts() *parts {
	approved := []llm.Class{llm.Unavailable, llm.Overloaded, llm.Timeout, llm.Stalled, llm.RateLimited, llm.BadOutput}
	return &parts{
		retry:    middleware.RetryConfig{Max: 1, Base: 100 * time.Millisecond},
		cooldown: middleware.CooldownConfig{Rest: 10 * time.Second}, rests: true,
		limits: middleware.AttemptTimeoutConfig{FirstToken: time.Second, Idle: time.Second, Total: 4 * time.Second},
		window: middleware.CommitConfig{Deltas: 4}, budget: middleware.BudgetConfig{Attempts: 4},
		interrupt: true, validate: true, total: 9 * time.Second, approved: approved, route: true, queue: true,
		promises: Promises{
			Answer:  func(words string) string { return `{"answer": "` + words + `"}` },
			Lacking: `{"reply": "Monday"}`, Within: 9 * time.Second, Attempts: 4, Retries: 1, StandsIn: approved, Rest: 10 * time.Second,
			Held: 4, Window: 1000, Long: true,
		},
		tools: careful, model: func(cfg openai.Config) llm.Caller { return openai.New(cfg) },
	}
}

// careful looks before it runs a tool again.
func careful(e *Effect) func(context.Context, string, *llm.Response) error {
	tried := map[string]bool{}
	return func(ctx context.Context, turn string, answer *llm.Response) error {
		key := turn + answer.ToolCalls()[0].Name
		if tried[key] {
			if done, err := e.Look(ctx, key); err != nil || done {
				return err
			}
		}
		tried[key] = true
		return e.Run(ctx, key)
	}
}

// build makes the chain.
func (c *parts) build(s *Staging) (Promises, error) {
	p := c.promises
	deployment := func(name string, at Endpoint, window int) *llm.Deployment {
		return &llm.Deployment{
			Name: name, Provider: "openai", Model: name, Window: window, Has: llm.CanText | llm.CanStream | llm.CanTools | llm.CanPrefill,
			Caller: c.model(openai.Config{BaseURL: at.URL + "/v1", APIKey: "k", HTTPClient: at.Client}),
		}
	}
	var stages []llm.Stage
	if c.rest != nil {
		stages = append(stages, *c.rest)
	} else if c.rests {
		cfg := c.cooldown
		cfg.Reactions = c.reactions
		stages = append(stages, middleware.NewCooldowns(cfg).Stage())
	}
	again := c.retry
	again.Reactions = c.reactions
	retry := middleware.Retry(again)
	if c.again != nil {
		retry = *c.again
	}
	stages = append(stages, retry)
	if c.window != (middleware.CommitConfig{}) {
		stages = append(stages, middleware.Commit(c.window))
	}
	if c.validate {
		stages = append(stages, middleware.Validate(hasAnswer))
	}
	stages = append(stages, middleware.AttemptTimeout(c.limits), middleware.Classify(middleware.ClassifyConfig{Logger: slog.New(slog.DiscardHandler)}))
	each := llm.New(stages...)
	primary, backup := each.Then(deployment("primary", s.Primary, 1000)), llm.Caller(each.Then(deployment("backup", s.Backup, 1000)))
	if c.route {
		backup = middleware.Route{Caller: backup, For: c.approved}
	}
	callers := []llm.Caller{primary, backup, middleware.Route{
		Caller: each.Then(deployment("unapproved", s.Unapproved, 1000)), For: []llm.Class{llm.Quota, llm.NotFound},
	}}
	if c.backup != nil {
		callers = c.backup(primary, backup, callers[2])
	} else {
		callers = callers[:2]
	}
	queue := &counting{}
	outer := append([]llm.Stage(nil), c.outer...)
	if c.queue {
		outer = append(outer, middleware.Queue(middleware.QueueConfig{Queue: queue}))
		p.Queued = func() int { return int(queue.n.Load()) }
	}
	if c.budget != (middleware.BudgetConfig{}) {
		outer = append(outer, middleware.EachBudget(c.budget))
	}
	outer = append(outer, middleware.Deadline(middleware.DeadlineConfig{Total: c.total}))
	if c.interrupt {
		cfg := middleware.InterruptConfig{Notice: "The answer broke off."}
		if p.Continues {
			cfg.Continue = []llm.Caller{backup}
		}
		outer = append(outer, middleware.Interrupt(cfg))
	}
	router := middleware.TokenRouterConfig{
		Counter: wordCount{}, Normal: middleware.Fallback(middleware.FallbackConfig{
			Reactions: c.reactions,
		}, callers...),
	}
	if c.hedge != nil {
		router.Normal = middleware.Hedge(*c.hedge, callers...)
	}
	if p.Long {
		router.Long = each.Then(deployment("long", s.Long, 100_000))
	}
	p.Caller = llm.New(outer...).Then(middleware.TokenRouter(router))
	if c.wrap != nil {
		p.Caller = c.wrap(p.Caller)
	}
	if c.tools != nil {
		p.RunTools = c.tools(s.Tool)
	}
	return p, nil
}
