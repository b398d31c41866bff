package policy

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/policy/contract"
)

// State is what a call of a workflow begins with, as [middleware.Decide] and [middleware.Replay] want it. Routes that time has
// taken from the workflow are denied; what rests is not looked at.
func (s *Set) State(workflow string) (middleware.State, error) {
	f, err := s.flow(workflow)
	if err != nil {
		return middleware.State{}, err
	}
	return f.state(time.Now()), nil
}

// Explain is what a workflow does, for people: its ceilings, its routes and, for each class of failure, the actions that a call
// which goes on failing that way meets after its first attempt, with the reason of the last. See [middleware.Explain].
func (s *Set) Explain(workflow string) (string, error) {
	f, err := s.flow(workflow)
	if err != nil {
		return "", err
	}
	c, now := f.card, time.Now()
	var b strings.Builder
	fmt.Fprintf(&b, "workflow %s\n", workflow)
	fmt.Fprintf(&b, "  at most %s\n", strings.Join(c.ceilings(), ", "))
	fmt.Fprintf(&b, "  first %s\n", c.Primary)
	for _, r := range c.roles() {
		fmt.Fprintf(&b, "  else  %s, for %s", r.route, strings.Join(r.reasons, ", "))
		switch end, ok := f.equal.until[r.path]; {
		case end.over(now):
			fmt.Fprintf(&b, ", not called: %v", end)
		case ok:
			fmt.Fprintf(&b, ", until %s", contract.Time(end.at))
		}
		b.WriteByte('\n')
	}
	if len(c.Closed) > 0 {
		fmt.Fprintf(&b, "  fails closed on %s\n", strings.Join(c.Closed, ", "))
	}
	if c.ReplaySafe == "request_sent" {
		b.WriteString("  repeats and moves only what no provider can have acted on; below, a failure is such a one if it can be\n")
	}
	b.WriteByte('\n')
	state := f.state(now)
	if c.MaxAttempts > 0 {
		state.Left.Attempts-- // the first one
	}
	b.WriteString(middleware.Explain(state))
	return b.String(), nil
}

func (s *Set) flow(workflow string) (*flow, error) {
	now := s.now.Load()
	if f := now.flows[workflow]; f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("llm/policy: there is no workflow %q in %s; it has %s", workflow, s.path, strings.Join(now.order, ", "))
}

func (c *card) ceilings() []string {
	out := []string{fmt.Sprint(c.deadline())}
	if c.MaxAttempts > 0 {
		out = append(out, fmt.Sprintf("%d attempts", c.MaxAttempts))
	}
	if c.MaxTokens > 0 {
		out = append(out, fmt.Sprintf("%d tokens", c.MaxTokens))
	}
	if c.MaxCost > 0 {
		out = append(out, fmt.Sprintf("$%g", c.MaxCost))
	}
	return out
}

// deadline is the time of a call.
func (c *card) deadline() time.Duration { return cmp.Or(c.MaxElapsed.duration(), 30*time.Second) }

func (f *flow) state(now time.Time) middleware.State {
	c := f.card
	s := middleware.State{
		Reactions: c.overrides(), ReplayUnsafe: c.ReplaySafe == "request_sent", Left: c.budget().Room(),
		Retry:   middleware.RetryOption{Left: 2, Pause: time.Second, MaxWait: time.Minute},
		Degrade: middleware.DegradeOption{Open: c.Degrade != nil},
	}
	s.Left.Time = c.deadline()
	if r := c.Retry; r != nil {
		if r.Max != nil {
			s.Retry.Left = *r.Max
		}
		s.Retry.Pause = cmp.Or(r.Base.duration(), s.Retry.Pause)
		s.Retry.MaxWait = cmp.Or(r.MaxWait.duration(), s.Retry.MaxWait)
	}
	for _, r := range c.roles() {
		o := middleware.RouteOption{Name: r.route, For: r.classes, Window: f.windows[r.route]}
		if end := f.equal.until[r.path]; end.over(now) {
			o.Denied = &llm.Error{Class: llm.Unsupported, Owner: llm.OwnerRequest, Deployment: r.route, Message: end.String()}
		}
		s.Routes = append(s.Routes, o)
	}
	if c.QueueAfter != nil {
		s.Queue = middleware.QueueOption{Open: true, After: c.QueueAfter.duration()}
	}
	if c.Degrade != nil {
		s.Degrade.For = classesOf(c.Degrade.For)
	}
	return s
}
