package middleware_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// soakPace is a limiter that all calls of a soak share, and what its pools let through.
type soakPace struct {
	cfg middleware.LimiterConfig
	*middleware.Limiter

	mu    sync.Mutex
	under map[string]int         // attempts under way, by pool
	began map[string][]time.Time // of all attempts, by pool
}

// pace draws the limiter.
func (w *soak) pace() {
	if !w.chance(50) {
		return
	}
	cfg := middleware.LimiterConfig{MaxWait: time.Second + w.upTo(30*time.Second), Fixed: w.chance(30)}
	if w.chance(60) {
		cfg.Limits.InFlight = 1 + w.rnd.IntN(12)
	}
	if cfg.Limits.InFlight == 0 || w.chance(60) {
		cfg.Limits.Requests = 20 + w.rnd.IntN(400)
	}
	if w.chance(30) {
		cfg.Limits.Tokens = 2000 + w.rnd.IntN(20_000)
	}
	w.limiter = &soakPace{
		cfg: cfg, Limiter: middleware.NewLimiter(cfg), under: map[string]int{}, began: map[string][]time.Time{},
	}
}

// paced is the stage limiter for the newest deployment, watched from outside.
func (w *soak) paced() llm.Stage {
	l := w.leaves[len(w.leaves)-1]
	pool := ""
	if l.pool = l.d.Quota; l.pool == "" {
		l.pool = l.d.Name
	}
	if w.chance(20) {
		pool, l.pool = "of several", "of several"
	}
	s := w.limiter.Stage(pool)
	return llm.Stage{Name: s.Name, Config: s.Config, Wrap: func(next llm.Caller) llm.Caller {
		return &soakGate{w: w, d: l.d, next: s.Wrap(next)}
	}}
}

// soakGate stands before a limiter.
type soakGate struct {
	w    *soak
	d    *llm.Deployment
	next llm.Caller
}

// soakArrival is when a call came to the limiter, and whether it got through.
type soakArrival struct {
	at   time.Time
	went bool
}

type soakArrivalKey struct{}

func arrivalOf(ctx context.Context) *soakArrival {
	a, ok := ctx.Value(soakArrivalKey{}).(*soakArrival)
	if !ok {
		panic("an attempt did not pass the limiter")
	}
	return a
}

func (g *soakGate) Describe() llm.Node { return llm.Describe(g.next) }

func (g *soakGate) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	a := &soakArrival{at: time.Now()}
	resp, err := g.next.Call(context.WithValue(ctx, soakArrivalKey{}, a), req)
	if err == nil || a.went || !llm.AsError(err).Skipped {
		return resp, err
	}
	c := soakOf(ctx)
	if waited := time.Since(a.at); waited > g.w.limiter.cfg.MaxWait {
		g.w.bad(c, "%s was refused after %v, and calls wait up to %v: %v", g.d.Name, waited, g.w.limiter.cfg.MaxWait, err)
	}
	if llm.ClassOf(err) == llm.RateLimited {
		g.w.note("refused by the limiter")
	}
	return resp, err
}

// paces notes that an attempt of l begins, and checks that there was room for it. over is told when it ends.
func (w *soak) paces(ctx context.Context, l *soakLeaf) (over func()) {
	p, now := w.limiter, time.Now()
	if l.pool == "" {
		return func() {}
	}
	a := arrivalOf(ctx)
	a.went = true
	if waited := now.Sub(a.at); waited > p.cfg.MaxWait {
		w.bad(soakOf(ctx), "%s waited %v for its turn, and calls wait up to %v", l.d.Name, waited, p.cfg.MaxWait)
	} else if waited > 0 {
		w.note("waited for its turn")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.under[l.pool]++
	p.began[l.pool] = append(p.began[l.pool], now)
	if n, most := p.under[l.pool], p.cfg.Limits.InFlight; most > 0 && n > most {
		w.bad(soakOf(ctx), "%d attempts of the pool %q are under way, of at most %d", n, l.pool, most)
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.under[l.pool]--
	}
}

// waited reports whether the call of a row was before the limiter, to wait for its turn, at a time before the attempt began.
func (c *soakCall) waited(row *llm.Attempt, at time.Time) bool {
	return slices.ContainsFunc(c.tried, func(a *soakAttempt) bool {
		return a.l.d.Name == row.Deployment && a.began.Equal(row.Start) && a.came.Before(at)
	})
}

// checkRefusals checks that what the limiter refused rests nobody.
func (c *soakCall) checkRefusals(say func(string, ...any)) {
	if c.w.limiter == nil {
		return
	}
	for _, st := range c.w.cooldowns.Snapshot() {
		if strings.Contains(st.Why, "over the limit of") || strings.Contains(st.Why, "too large for its rate limit") {
			say("%v, because the limiter refused a call", st)
		}
	}
}

// pacedOver checks what holds of the limiter when all calls are over.
func (w *soak) pacedOver() {
	p := w.limiter
	if p == nil {
		return
	}
	for _, st := range p.Snapshot() {
		if st.InFlight != 0 || st.Waiting != 0 {
			w.bad(nil, "all calls are over, and of the limiter: %v", st)
		}
	}
	if p.cfg.Limits.Requests == 0 {
		return
	}
	most := p.cfg.Limits.Requests + max((p.cfg.Limits.Requests+59)/60, 1) // a minute's limit and a second's worth at once
	for pool, began := range p.began {
		first := 0
		for i, at := range began {
			for at.Sub(began[first]) >= time.Minute {
				first++
			}
			if n := i - first + 1; n > most {
				w.bad(nil, "%d attempts of the pool %q began within a minute, of at most %d", n, pool, most)
				break
			}
		}
	}
}
