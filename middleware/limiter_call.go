package middleware

import (
	"context"
	"errors"
	"time"

	"github.com/modelchain/llm"
)

// limiter is the stage around one Caller.
type limiter struct {
	next       llm.Caller
	l          *Limiter
	deployment *llm.Deployment // nil: none, or several
	pool       *limitPool
	follows    bool // the provider has its say
}

func (s *limiter) Describe() llm.Node {
	return llm.Node{Name: "limiter", Config: s.l.cfg, Children: []llm.Node{llm.Describe(s.next)}}
}

func (s *limiter) Call(ctx context.Context, req *llm.Request) (resp *llm.Response, err error) {
	if req == nil {
		return s.next.Call(ctx, nil)
	}
	if s.deployment == nil {
		req = req.Accounted()
	}
	p, fast := s.take(ctx, req)
	if !fast {
		req = req.Accounted()
		if e := s.await(ctx, req, &p); e != nil {
			return nil, req.Skipped(e)
		}
	}
	ended, before := false, 0
	if s.deployment == nil {
		before = len(req.Attempts())
	}
	defer func() { // however it ends
		s.release(&p, s.used(&p, req, before, resp, err, ended))
		if e, ok := err.(*llm.Error); ok && s.follows && !e.Skipped { //nolint:errorlint // what is inside classifies
			s.pool.follow(p.began, e)
		}
	}()
	resp, err = s.next.Call(ctx, req)
	ended = true
	return resp, err
}

// permit is what a call took.
type permit struct {
	key   *limitKey
	cost  limitCost
	began time.Time
	keyed bool      // the key's part is taken, or there is none
	part  *lentPart // it may be given back there. nil: it may not

	keyAlone, allAlone bool // no Store was asked that should be, for the part of the key and that of the pool
}

// take takes a permit if there is one to be had at once.
func (s *limiter) take(ctx context.Context, r *llm.Request) (p permit, fast bool) {
	p.cost = s.cost(ctx, r)
	name := ""
	if s.l.cfg.Key != nil {
		name = s.l.cfg.Key(r)
	}
	p.began = time.Now()
	pool := s.pool
	if p.part = pool.all.lent.take(p.began, &p.cost); p.part != nil {
		p.key, p.keyed = pool.rest, true
		return p, true
	}
	pool.lock()
	defer pool.mu.Unlock()
	p.key = pool.key(name, p.began)
	if pool.keys != nil {
		p.key.calls++
	}
	p.keyed = p.key.line == nil || p.key.line.enter(p.began, &p.cost, &p.keyAlone)
	fast = p.keyed && pool.all.enter(p.began, &p.cost, &p.allAlone)
	if fast {
		p.part = pool.all.lend(&p.cost)
	}
	return p, fast
}

// cost is what is reserved for a call.
func (s *limiter) cost(ctx context.Context, r *llm.Request) limitCost {
	input, output := 0, 0
	if s.l.input {
		input = s.input(ctx, r)
	}
	if s.l.output {
		if output = r.MaxTokens; output == 0 {
			output = 4096
		}
		if most := s.l.cfg.Output; most > 0 {
			output = min(output, most)
		}
		if d := s.deployment; d != nil && d.MaxOutput > 0 {
			output = min(output, d.MaxOutput)
		}
		if r.MaxTokens == 0 { // a guess, which must not make the call impossible
			output = s.atMost(output, input)
		}
	}
	return costOf(1, input, output)
}

func (s *limiter) input(ctx context.Context, r *llm.Request) int {
	if c := s.l.cfg.Counter; c != nil {
		if n, err := c.CountTokens(ctx, r, 0); err == nil && n >= 0 {
			return n
		}
	}
	return roughInput(r)
}

// atMost is output, or what a minute has room for beside input.
func (s *limiter) atMost(output, input int) int {
	for _, l := range [...]*Limits{&s.l.cfg.Limits, &s.l.cfg.PerKey} {
		if l.Output > 0 {
			output = min(output, l.Output)
		}
		if l.Tokens > 0 {
			output = min(output, max(l.Tokens-input, 0))
		}
	}
	return output
}

// release gives a permit back, of which used was used.
func (s *limiter) release(p *permit, used limitCost) {
	done, missed := s.pool.all.lent.giveBack(p.part, &p.cost, &used)
	if done && !missed {
		return
	}
	s.pool.lock()
	defer s.pool.mu.Unlock()
	if done {
		return // and who waits has been told
	}
	s.pool.all.exit(&p.cost, &used, p.allAlone)
	s.pool.drop(p, &used)
}

// drop gives back what p has of its key. It is called with mu held.
func (pool *limitPool) drop(p *permit, used *limitCost) {
	if pool.keys != nil {
		p.key.calls--
	}
	if p.keyed && p.key.line != nil {
		p.key.line.exit(&p.cost, used, p.keyAlone)
	}
}

// used is what became of a permit.
func (s *limiter) used(p *permit, r *llm.Request, before int, resp *llm.Response, err error, ended bool) limitCost {
	if s.deployment == nil {
		if rows := r.Attempts(); len(rows) > before {
			var sum limitCost
			for i := range rows[before:] {
				if a := &rows[before+i]; a.Skipped == "" {
					c := s.attempted(p, a.Usage, a.Err, a.Commit)
					sum.add(&c, 1)
				}
			}
			return sum
		}
	}
	switch {
	case ended && err != nil:
		e, known := errors.AsType[*llm.Error](err)
		switch {
		case !known: // nobody says how far it got
			return p.cost
		case e.Skipped || e.Evidence.Phase == llm.PhaseConnect:
			return limitCost{}
		}
		return s.attempted(p, e.Usage, err, e.Commit)
	case ended && resp != nil:
		return s.attempted(p, resp.Usage, nil, llm.Committed)
	}
	return p.cost
}

// attempted is what an attempt used.
func (s *limiter) attempted(p *permit, u llm.Usage, err error, commit llm.CommitState) limitCost {
	switch {
	case u != (llm.Usage{}):
		if s.l.cfg.CachedFree {
			u.Input = max(u.Input-u.CachedInput, 0)
		}
		return costOf(1, u.Input, u.Output)
	case err != nil && commit == llm.CommitNone:
		return costOf(1, 0, 0)
	}
	return p.cost
}
