package middleware_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// soak is an onion at random and what it shares between its calls, many of which are under way at the same time.
type soak struct {
	*script // the onion, and what the script of each call begins with
	seed    uint64
	began   time.Time
	leaves  []*soakLeaf
	faulty  int           // per cent of attempts that fail outside outages
	every   time.Duration // a call comes, on average
	most    int           // calls at a time

	cooldowns *middleware.Cooldowns
	cooling   middleware.CooldownConfig
	limiter   *soakPace               // nil: none
	retries   *middleware.RetryBudget // nil: each deployment has its own
	repeats   int                     // of each deployment, at most
	budget    *middleware.Budget      // that all calls share. nil: none
	total     middleware.BudgetConfig // of it
	each      middleware.BudgetConfig // of each call. The zero value: none
	book      *soakBook               // nil: no journal
	queue     *soakQueue              // nil: none
	degrades  bool
	simple    bool // a fallback of single deployments, and nothing else that moves a call
	routes    []middleware.RouteOption

	mu    sync.Mutex
	seen  outcomes
	notes []string // what is wrong
	made  int      // attempts
	first int      // calls answered at the first attempt of their deployment
	vain  int      // repetitions that failed
	jobs  int      // taken by the queue
	calls sync.WaitGroup
	done  []*soakCall
	rests soakRests
}

// soakLeaf is the model of one deployment, for all calls.
type soakLeaf struct {
	w       *soak
	at      int // its place in w.models
	d       *llm.Deployment
	rests   bool   // a cooldown is around it
	quota   bool   // it is approved for Quota
	pool    string // of the limiter around it. "": there is none
	latency time.Duration
	outages []soakOutage
}

type soakOutage struct {
	from, to time.Duration // since the soak began
	fault    *soakFault
}

// soakOrder is which stage has to be outside which.
var soakOrder = [][2]string{
	{"telemetry", "journal"}, {"journal", "degrade"}, {"journal", "queue"}, {"degrade", "queue"}, {"degrade", "budget"}, {"queue", "budget"},
	{"telemetry", "budget"}, {"budget", "deadline"}, {"deadline", "interrupt"}, {"telemetry", "interrupt"}, {"queue", "interrupt"},
	{"budget", "interrupt"}, {"journal", "interrupt"}, {"degrade", "interrupt"}, {"journal", "budget"},
	{"cooldown", "retry"}, {"retry", "commit"}, {"retry", "validate"}, {"retry", "attempt_timeout"}, {"commit", "attempt_timeout"},
	{"cooldown", "limiter"}, {"retry", "limiter"}, {"limiter", "attempt_timeout"},
	{"cooldown", "commit"}, {"cooldown", "validate"}, {"cooldown", "attempt_timeout"},
}

// order is stages in one of the orders that are legal.
func (d dice) order(stages []llm.Stage) (out []llm.Stage) {
	stages = slices.Clone(stages)
	for len(stages) > 0 {
		d.rnd.Shuffle(len(stages), func(i, j int) { stages[i], stages[j] = stages[j], stages[i] })
		at := slices.IndexFunc(stages, func(s llm.Stage) bool {
			return !slices.ContainsFunc(soakOrder, func(pair [2]string) bool {
				return pair[1] == s.Name && slices.ContainsFunc(stages, func(o llm.Stage) bool { return o.Name == pair[0] })
			})
		})
		out = append(out, stages[at])
		stages = slices.Delete(stages, at, at+1)
	}
	return out
}

func newSoak(seed uint64) *soak {
	d := dice{rand.New(rand.NewPCG(seed, 1))}
	w := &soak{
		script: &script{dice: d, continues: map[string]bool{}}, seed: seed, began: time.Now(), seen: outcomes{},
		rests:  soakRests{probes: map[string][]*soakProbe{}},
		faulty: d.rnd.IntN(1 + d.rnd.IntN(60)), most: 1 + d.rnd.IntN(60), repeats: 1 + d.rnd.IntN(3),
		every: []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, time.Second, 5 * time.Second}[d.rnd.IntN(4)],
	}
	if d.chance(75) {
		w.cooling = middleware.CooldownConfig{
			Rest: time.Second + d.upTo(30*time.Second), Long: time.Second + d.upTo(time.Minute), ProbeLease: time.Second + d.upTo(40*time.Second),
			MaxUntil: time.Minute,
		}
	}
	w.cooldowns = middleware.NewCooldowns(w.cooling)
	if d.chance(50) {
		w.retries = middleware.NewRetryBudget(middleware.RetryBudgetConfig{})
	}
	w.pace()
	moves := w.moves(3 + d.rnd.IntN(4))
	w.chat = llm.New(w.order(w.outside())...).Then(moves)
	w.say("seed %d: %v\nevery %v, up to %d at a time, %d%% fail", seed, w.chat, w.every, w.most, w.faulty)
	for _, l := range w.leaves {
		w.say("%s: quota %q, credential %q, window %d, answers in %v, out %v", l.d.Name, l.d.Quota, l.d.Credential, l.d.Window, l.latency, l.outages)
	}
	return w
}

// outside draws the stages around all.
func (w *soak) outside() (stages []llm.Stage) {
	quiet := slog.New(slog.DiscardHandler)
	if w.chance(30) {
		stages = append(stages, middleware.Telemetry(middleware.TelemetryConfig{Logger: quiet}))
	}
	if w.chance(60) {
		w.book = &soakBook{}
		cfg := middleware.JournalConfig{Store: w.book, Logger: quiet}
		if w.chance(30) {
			w.book.down = 1 + w.rnd.IntN(10)
		}
		stages = append(stages, middleware.Journal(cfg))
	}
	if w.chance(40) {
		w.degrades = true
		cfg := middleware.DegradeConfig{Answer: middleware.StandIn("z1.00")}
		if w.chance(50) {
			cfg.LastGood = middleware.NewLastGood(middleware.LastGoodConfig{})
		}
		stages = append(stages, middleware.Degrade(cfg))
	}
	budget := w.ceilings()
	if w.chance(40) {
		w.queue = &soakQueue{w: w}
		stages = append(stages, middleware.Queue(middleware.QueueConfig{Queue: w.queue, Budget: w.each}))
	}
	stages = append(stages, budget...)
	if w.chance(85) {
		cfg := middleware.DeadlineConfig{Total: time.Second + w.upTo(60*time.Second)}
		if w.limit == 0 || cfg.Total < w.limit {
			w.limit = cfg.Total
		}
		stages = append(stages, middleware.Deadline(cfg))
	}
	if w.chance(40) {
		stages = append(stages, w.interrupt(func(d *llm.Deployment) llm.Caller { return w.stack(w.leaf(d)) }))
		w.simple = false
	}
	return stages
}

// ceilings draws a budget: none, one of each call, or one that all calls share.
func (w *soak) ceilings() []llm.Stage {
	switch w.rnd.IntN(3) {
	case 0:
		w.each = middleware.BudgetConfig{Attempts: 1 + w.rnd.IntN(6)}
		if w.chance(50) {
			w.each.CostUSD, w.each.Price = 1e-4*float64(1+w.rnd.IntN(20)), llm.Price{Input: 1, Output: 3}
		}
		if w.chance(50) {
			w.each.Elapsed = time.Second + w.upTo(60*time.Second)
			w.limit = w.each.Elapsed
		}
		return []llm.Stage{middleware.EachBudget(w.each)}
	case 1:
		w.total = middleware.BudgetConfig{Price: llm.Price{Input: 1, Output: 3}}
		if w.chance(70) {
			w.total.Attempts = 50 + w.rnd.IntN(800)
		}
		if w.total.Attempts == 0 || w.chance(50) {
			w.total.CostUSD = 0.001 + 0.01*w.rnd.Float64()
		}
		if w.chance(50) {
			w.total.Tokens = 1000 + w.rnd.IntN(20_000)
		}
		w.budget = middleware.NewBudget(w.total)
		return []llm.Stage{w.budget.Stage()}
	}
	return nil
}

// moves draws what is between n deployments.
func (w *soak) moves(n int) llm.Caller {
	switch kind := w.rnd.IntN(10); {
	case kind < 4:
		w.simple = true
		var routes []llm.Caller
		for i := range n {
			routes = append(routes, w.route(i, w.stack(w.leaf(w.deployment(0)))))
		}
		return fallbackTo(routes...)
	case kind < 6:
		w.beside = true
		cfg := middleware.HedgeConfig{Share: 0.3}
		if w.chance(70) {
			cfg.Delay = 100*time.Millisecond + w.upTo(3*time.Second)
		}
		return fallbackTo(middleware.Hedge(cfg, w.stack(w.leaf(w.deployment(0))), w.stack(w.leaf(w.deployment(0)))), w.routesOf(n-2))
	case kind < 8:
		return middleware.TokenRouter(middleware.TokenRouterConfig{
			Counter: routerCounts(1), Normal: w.routesOf(n - 1), Long: w.stack(w.leaf(w.deployment(0))),
		})
	}
	return fallbackTo(w.routesOf(n/2), w.routesOf(n-n/2))
}

// routesOf is a fallback of n deployments.
func (w *soak) routesOf(n int) llm.Caller {
	var routes []llm.Caller
	for i := range n {
		routes = append(routes, w.route(i, w.stack(w.leaf(w.deployment(0)))))
	}
	return fallbackTo(routes...)
}

// route approves c, the newest deployment, for some classes.
func (w *soak) route(at int, c llm.Caller) llm.Caller {
	l := w.leaves[len(w.leaves)-1]
	option := middleware.RouteOption{Name: l.d.Name, Window: l.d.Window}
	if at > 0 && w.chance(40) {
		for _, class := range []llm.Class{
			llm.Unavailable, llm.Overloaded, llm.Timeout, llm.Stalled, llm.RateLimited, llm.Quota, llm.TooLong, llm.NotFound,
			llm.Unsupported, llm.BadOutput, llm.Interrupted, llm.Cooling, llm.Exhausted,
		} {
			if w.chance(60) {
				option.For = append(option.For, class)
			}
		}
		l.quota = slices.Contains(option.For, llm.Quota)
		if len(option.For) > 0 {
			c = middleware.Route{Caller: c, For: option.For}
		}
	}
	w.routes = append(w.routes, option)
	return c
}

// leaf gives d what it has in a soak.
func (w *soak) leaf(d *llm.Deployment) *llm.Deployment {
	l := &soakLeaf{w: w, at: len(w.models) - 1, d: d, latency: 10*time.Millisecond + w.upTo(4*time.Second)}
	d.Caller, d.MaxOutput = l, 64
	if w.chance(70) {
		d.Price = llm.Price{Input: 1 + w.rnd.Float64(), Output: 4 * w.rnd.Float64()}
	}
	if w.chance(40) {
		d.Quota = []string{"q1", "q2"}[w.rnd.IntN(2)]
	}
	if w.chance(40) {
		d.Credential = []string{"k1", "k2"}[w.rnd.IntN(2)]
	}
	for at := w.upTo(5 * time.Minute); w.chance(50) && len(l.outages) < 4; at += w.upTo(10 * time.Minute) {
		l.outages = append(l.outages, soakOutage{at, at + w.upTo(4*time.Minute), w.fault(soakOutages)})
	}
	w.leaves = append(w.leaves, l)
	return d
}

// stack is what is around one deployment.
func (w *soak) stack(d *llm.Deployment) llm.Caller {
	var stages []llm.Stage
	if w.chance(85) {
		w.leaves[len(w.leaves)-1].rests = true
		stages = append(stages, w.cooldowns.Stage())
	}
	if w.chance(80) {
		stages = append(stages, middleware.Retry(middleware.RetryConfig{
			Max: w.repeats, Base: 10*time.Millisecond + w.upTo(time.Second), Budget: w.retries,
		}))
	}
	if w.chance(40) {
		stages = append(stages, w.window())
	}
	if w.chance(10) {
		stages = append(stages, w.validate())
	}
	if w.chance(70) {
		stages = append(stages, w.timeouts())
	}
	if w.limiter != nil && w.chance(70) {
		stages = append(stages, w.paced())
	}
	return llm.New(append(w.order(stages), classified)...).Then(d)
}

// turn is what l does with the nth attempt that a call makes of it. It depends on nothing but the seed, the call and n, and,
// in an outage, on the time.
func (l *soakLeaf) turn(c *soakCall, n int) turn {
	d := dice{rand.New(rand.NewPCG(l.w.seed<<20|uint64(c.n), uint64(l.at)<<16|uint64(n)))}
	t := turn{
		delay: time.Duration(min(d.rnd.ExpFloat64(), 10) * float64(l.latency)), length: 1 + d.rnd.IntN(8), how: 100,
		tools: d.chance(10), reasons: d.chance(10), sinkFailed: d.rnd.IntN(4), failure: llm.Unavailable,
	}
	t.breaks = t.length + 1
	t.whole = llm.Usage{Input: 1, Output: t.length}
	if d.chance(50) {
		t.gap = d.upTo(500 * time.Millisecond)
	}
	fault := (*soakFault)(nil)
	now := time.Since(l.w.began)
	if i := slices.IndexFunc(l.outages, func(o soakOutage) bool { return now >= o.from && now < o.to }); i >= 0 {
		fault = l.outages[i].fault
	} else if d.chance(l.w.faulty) {
		fault = d.fault(soakMix)
	}
	if fault == nil {
		return t
	}
	t.breaks, t.failure = 0, d.error(fault)
	if fault.late && d.chance(50) {
		t.breaks = d.rnd.IntN(t.length + 1)
	}
	if d.chance(30) {
		t.broken = llm.Usage{Input: 1, Output: t.breaks}
	}
	switch {
	case fault.class == llm.Stalled || d.chance(4):
		t.how = 0
	case d.chance(2):
		t.how = 20
	}
	return t
}

// soakKey is where a context says whose call it is.
type soakKey struct{}

func soakOf(ctx context.Context) *soakCall {
	c, ok := ctx.Value(soakKey{}).(*soakCall)
	if !ok {
		panic(fmt.Sprintf("the context of a call does not reach what is beneath: %v", ctx))
	}
	return c
}
