package middleware

import (
	"context"
	"time"

	"github.com/modelchain/llm"
)

// cooldown is the stage around one Caller. It is also the gate of the calls that it let through.
type cooldown struct {
	llm.OpenGate
	next       llm.Caller
	all        *Cooldowns
	deployment *llm.Deployment // nil: none, or several
	cells      [3]*restCell    // by scope: the deployment's own, its quota's, its credential's; nil: none
}

func (s *cooldown) Describe() llm.Node {
	return llm.Node{Name: "cooldown", Config: cooldownNode{s}, Children: []llm.Node{llm.Describe(s.next)}}
}

// cooldownNode is the configuration that a node shows, by which a fallback finds the stage.
type cooldownNode struct{ stage *cooldown }

func (n cooldownNode) String() string { return llm.Settings(n.stage.all.cfg) }

// rests is how long calls are refused yet. 0: the next one is let through, if only as a probe.
func (s *cooldown) rests(now time.Time) (longest time.Duration) {
	for _, c := range s.cells {
		if c == nil {
			continue
		}
		if st := c.state.Load(); st.resting {
			longest = max(longest, st.wait(now))
		}
	}
	return longest
}

func (s *cooldown) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil {
		return s.next.Call(ctx, nil)
	}
	var began restPass
	for i, c := range s.cells {
		if c == nil {
			continue
		}
		st := c.state.Load()
		if st.resting {
			if s.probedOutside(req) {
				return s.next.Call(ctx, req)
			}
			return s.probe(ctx, req)
		}
		began.gen[i] = st.gen
	}
	r := req.Accounted()
	defer r.Enforce(s).Lift()
	resp, err := s.next.Call(ctx, r)
	if err != nil {
		s.failed(r, &began, err)
		s.tell()
		return nil, err
	}
	for _, c := range s.cells {
		if c != nil {
			c.answered()
		}
	}
	return resp, nil
}

// tell reports what changed. A listener may panic, so it comes after all else.
func (s *cooldown) tell() { s.all.changes.deliver(s.all.cfg.OnChange) }

// probe makes the call if it may be the one that decides whether a rest is over.
func (s *cooldown) probe(ctx context.Context, req *llm.Request) (resp *llm.Response, err error) {
	p, refusal := s.takeProbe(s.ownRests(req))
	if refusal != nil {
		s.tell()
		return nil, req.Skipped(refusal)
	}
	ended := false
	defer func() {
		// A panic or runtime.Goexit on the way is no verdict.
		switch {
		case ended && err != nil:
			s.failed(req, &p.restPass, err)
		case ended && resp != nil:
			for i, c := range s.cells {
				if p.id[i] != 0 {
					c.succeed(p.gen[i])
				}
			}
		}
		s.free(&p.restPass)
		s.tell()
	}()
	s.tell()
	r := req.Accounted()
	defer r.Enforce(p).Lift()
	resp, err = s.next.Call(ctx, r)
	ended = true
	return resp, err
}

// takeProbe makes the caller the probe of all that is due or that it began itself, or says what still rests.
func (s *cooldown) takeProbe(own [3]uint64) (*probeGate, *llm.Error) {
	var wait storeWait
	for {
		now := time.Now()
		p := &probeGate{s: s}
		taken := true
		// Nothing is taken while any of them rests, so that refused calls disturb no probe.
		if e := s.refusal(now, func(i int, st *restState) bool { return st.wait(now) == 0 || st.isOwn(own[i]) }); e != nil {
			return nil, e
		}
		for i, c := range s.cells {
			if c != nil && taken {
				p.gen[i], p.id[i], taken = c.take(now, own[i])
			}
		}
		verdict := refused
		if taken {
			verdict = s.all.fleet.grants(p, own, &wait)
		}
		if verdict == granted {
			return p, nil
		}
		s.free(&p.restPass) // another call was faster, here or elsewhere
		if verdict == unheard {
			if e := s.refusal(now, func(int, *restState) bool { return false }); e != nil {
				e.RetryAfter = max(e.RetryAfter, s.all.fleet.limit)
				return nil, e
			}
		}
	}
}

// failed judges a call of r that began as p says and ended with err.
func (s *cooldown) failed(r *llm.Request, p *restPass, err error) {
	e := llm.AsError(err)
	row := s.all.reactions.of(e.Class)
	i := 0
	switch {
	case row.Cools == Nothing || e.Skipped: // what no provider saw says nothing of one
		return
	case row.Cools == SharedQuota && s.cells[1] != nil:
		i = 1
	case row.Cools == SharedCredential && s.cells[2] != nil:
		i = 2
	}
	if p.id[i] == 0 && e.RetryDenied != "" && e.RetryAfter == 0 {
		s.cells[i].failOnce(p.gen[i], e, row.Long)
		return
	}
	if gen := s.cells[i].fail(p.gen[i], p.id[i], e, row.Long); p.id[i] == 0 {
		noteBreak(r, s.cells[i], gen, e)
	}
}

// free gives back the probes of p that are still out.
func (s *cooldown) free(p *restPass) {
	for i, c := range s.cells {
		if p.id[i] != 0 {
			c.free(p.gen[i], p.id[i])
		}
	}
}

// Ask lets no retry through once another call has put the deployment to rest.
func (s *cooldown) Ask(_ context.Context, _ *llm.Request, d *llm.Deployment, _ time.Time) error {
	if s.elsewhere(d) {
		return nil
	}
	return s.ask(func(int, *restState) bool { return false })
}

// elsewhere reports whether d is not beneath s, but in another branch of the call.
func (s *cooldown) elsewhere(d *llm.Deployment) bool {
	return d != nil && s.deployment != nil && d.Name != s.deployment.Name
}

func (s *cooldown) ask(may func(i int, st *restState) bool) error {
	for _, c := range s.cells {
		if c != nil && c.state.Load().resting {
			if e := s.refusal(time.Now(), may); e != nil {
				return e
			}
			return nil
		}
	}
	return nil
}

// refusal is the error of a call that may not pass all that rests, for the longest wait among them.
func (s *cooldown) refusal(now time.Time, may func(i int, st *restState) bool) *llm.Error {
	var cell *restCell
	var longest *restState
	for i, c := range s.cells {
		if c == nil {
			continue
		}
		st := c.state.Load()
		if st.resting && !may(i, st) && (longest == nil || st.wait(now) > longest.wait(now)) {
			cell, longest = c, st
		}
	}
	if longest == nil {
		return nil
	}
	e := &llm.Error{
		Class: llm.Cooling, Owner: llm.Cooling.Owner(), RetryAfter: longest.wait(now), Err: longest.cause,
		Message: cell.says(longest, now),
	}
	if d := s.deployment; d != nil {
		e.Deployment, e.Provider, e.Model = d.Name, d.Provider, d.Model
	}
	return e
}

// probeGate is the gate of a probe, whose own retries pass what it probes.
type probeGate struct {
	llm.OpenGate
	restPass
	s *cooldown
}

// Ask lets the probe go on until something else rests or it was overtaken.
func (p *probeGate) Ask(_ context.Context, _ *llm.Request, d *llm.Deployment, _ time.Time) error {
	if p.s.elsewhere(d) {
		return nil
	}
	return p.s.ask(p.is)
}

// is reports whether p is the newest probe of its cell i, which is in state st.
func (p *probeGate) is(i int, st *restState) bool {
	return p.id[i] != 0 && st.gen == p.gen[i] && st.probe == p.id[i]
}

// probedOutside reports whether a stage further out has made this call the probe of all that rests here. Asking for the
// probe again would refuse the one call that can end the rest.
func (s *cooldown) probedOutside(req *llm.Request) bool {
	for g := range req.Gates() {
		p, ok := g.(*probeGate)
		if ok && s.ask(func(i int, st *restState) bool { return p.s.cells[i] == s.cells[i] && p.is(i, st) }) == nil {
			return true
		}
	}
	return false
}
