package middleware_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// soakCall is one call of a soak.
type soakCall struct {
	*script
	w   *soak
	n   int
	job *middleware.Job // that it delivers. nil: it comes from a caller

	mu      sync.Mutex // of what follows
	tried   []*soakAttempt
	account []llm.Attempt // when it is over
	rows    map[int]middleware.JournalAttempt
	begun   map[int]int // how often each row was begun
	ends    []middleware.JournalCall
	unkept  int // ends of rows that the store did not take
}

// soakAttempt is what a model knows of one attempt.
type soakAttempt struct {
	l      *soakLeaf
	n      int       // of those that its call made of l
	came   time.Time // before it waited for its turn
	began  time.Time
	end    time.Time // zero: it is under way
	said   *llm.Error
	unread bool // nothing of it was handed to anybody, and its context was alive when it ended
	call   *soakCall
}

// bad notes what does not hold, with everything about the call.
func (w *soak) bad(c *soakCall, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if c != nil {
		text = fmt.Sprintf("call %d: %s", c.n, text)
	}
	w.notes = append(w.notes, text)
}

// Call is an attempt.
func (l *soakLeaf) Call(ctx context.Context, req *llm.Request) (resp *llm.Response, err error) {
	c := soakOf(ctx)
	a := l.w.enter(ctx, c, l)
	defer l.w.paces(ctx, l)()
	t := l.turn(c, a.n)
	handed := 0
	counted := req
	if req.Sink != nil {
		counted = req.Clone()
		counted.Sink = func(d llm.Delta) error { handed++; return req.Sink(d) }
	}
	defer func() {
		alive := ctx.Err() == nil
		c.mu.Lock()
		defer c.mu.Unlock()
		a.end = time.Now()
		if err != nil {
			a.said, a.unread = llm.AsError(err), alive && handed == 0
		}
	}()
	return c.models[l.at].play(ctx, counted, t)
}

// enter notes that an attempt of l begins, and checks that nothing that rests keeps it away.
func (w *soak) enter(ctx context.Context, c *soakCall, l *soakLeaf) *soakAttempt {
	now := time.Now()
	a := &soakAttempt{l: l, came: now, began: now, call: c}
	if l.pool != "" {
		a.came = arrivalOf(ctx).at
	}
	c.mu.Lock()
	a.n = len(c.models[l.at].made) + 1
	if w.beside {
		for _, b := range c.tried {
			if b.l == l && b.end.IsZero() {
				c.mu.Unlock()
				w.bad(c, "two attempts of %s at a time", l.d.Name)
				c.mu.Lock()
			}
		}
	}
	c.tried = append(c.tried, a)
	c.mu.Unlock()
	w.mu.Lock()
	w.made++
	w.mu.Unlock()
	if l.rests {
		w.rests.enter(a, now)
	}
	return a
}

// soakRests is who probes what.
type soakRests struct {
	mu     sync.Mutex
	probes map[string][]*soakProbe // by what rests and since when
}

// soakProbe is a call that was let through after the time of a rest.
type soakProbe struct {
	c     *soakCall
	first time.Time
	last  *soakAttempt
}

func (r *soakRests) enter(a *soakAttempt, now time.Time) {
	w, d := a.call.w, a.l.d
	for _, st := range w.cooldowns.Snapshot() {
		switch {
		case st.Scope == middleware.Itself && st.Name != d.Name, st.Scope == middleware.SharedQuota && st.Name != d.Quota,
			st.Scope == middleware.SharedCredential && st.Name != d.Credential:
			continue
		case !st.Since.Before(now): // it began while this attempt did
			continue
		case now.Before(st.Until):
			w.bad(a.call, "%s is called at %v, though %v", d.Name, now.Sub(w.began), st)
			continue
		}
		key := fmt.Sprint(st.Scope, st.Name, st.Since.UnixNano())
		r.mu.Lock()
		mine := (*soakProbe)(nil)
		for _, p := range r.probes[key] {
			if p.c == a.call {
				mine = p
				continue
			}
			p.c.mu.Lock()
			out := p.last.end.IsZero()
			p.c.mu.Unlock()
			lease := w.cooling.ProbeLease
			if lease == 0 {
				lease = 30 * time.Second
			}
			if out && now.Sub(p.first) < lease && mine == nil {
				w.bad(a.call, "%s is called while call %d probes it since %v: %v", d.Name, p.c.n, now.Sub(p.first), st)
			}
		}
		if mine == nil {
			mine = &soakProbe{c: a.call, first: a.came}
			r.probes[key] = append(r.probes[key], mine)
		}
		mine.last = a
		r.mu.Unlock()
		w.note("a probe")
	}
}

func (w *soak) note(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[kind]++
}

// check checks a call that is over.
func (c *soakCall) check(o *outcome) {
	w := c.w
	for _, text := range c.wrong(o) {
		w.bad(c, "%s\n%v\n%v", text, c.script, o)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	say := func(format string, args ...any) {
		w.bad(c, "%s\n%v\n%v\n%s", fmt.Sprintf(format, args...), c.script, o, soakRows(o.rows()))
	}
	c.checkWaits(say)
	c.checkSpent(o, say)
	c.checkRefusals(say)
	c.checkActions(o, say)
	c.checkDecisions(o, say)
	w.mu.Lock()
	defer w.mu.Unlock()
	c.count(o, w.seen)
	c.tally(o)
	c.account = o.rows()
	w.done = append(w.done, c)
}

func soakRows(rows []llm.Attempt) string {
	var b strings.Builder
	for i := range rows {
		a := &rows[i]
		fmt.Fprintf(&b, "%d %s at %v for %v, waited %v: %v %v %s\n", a.Index, a.Deployment, a.Start.Format("04:05.000"), a.Took, a.Waited,
			a.Class, a.Commit, a.Skipped)
	}
	return b.String()
}

// checkWaits checks that nobody came back before the time that was asked for, and that all attempts are over.
func (c *soakCall) checkWaits(say func(string, ...any)) {
	for i, a := range c.tried {
		if a.end.IsZero() {
			say("an attempt of %s outlives the call", a.l.d.Name)
			continue
		}
		if a.said == nil || a.said.RetryAfter == 0 {
			continue
		}
		for _, b := range c.tried[i+1:] {
			if gap := b.began.Sub(a.end); b.l == a.l && gap < a.said.RetryAfter {
				say("%s is called again after %v, and had asked for %v", a.l.d.Name, gap, a.said.RetryAfter)
			}
		}
	}
}

// checkSpent checks the ceilings.
func (c *soakCall) checkSpent(o *outcome, say func(string, ...any)) {
	const ulps = 1 + 1e-9
	spent := llm.Spending{}
	if c.job != nil {
		spent = c.job.Request.Spent
	}
	for _, a := range o.rows() {
		if a.Skipped == "" {
			spent = spent.Add(llm.Spending{Attempts: 1, CostUSD: a.CostUSD})
		}
	}
	if each := c.w.each; each.Attempts > 0 && spent.Attempts > each.Attempts || each.CostUSD > 0 && spent.CostUSD > each.CostUSD*ulps {
		say("%+v is spent of %+v", spent, each)
	}
	if b, t := c.w.budget, c.w.total; b != nil {
		s := b.Spent()
		if t.Attempts > 0 && s.Attempts > t.Attempts || t.Tokens > 0 && s.Tokens > t.Tokens || t.CostUSD > 0 && s.CostUSD > t.CostUSD*ulps {
			say("all calls together spent %v", b)
		}
	}
	if r := c.w.retries; r != nil && r.Tokens() < 0 {
		say("the retry budget has %v", r)
	}
}

// checkActions checks that each attempt after a failure is what its class leads to.
func (c *soakCall) checkActions(o *outcome, say func(string, ...any)) {
	rows := slices.DeleteFunc(slices.Clone(o.rows()), func(a llm.Attempt) bool { return a.Skipped != "" })
	slices.SortFunc(rows, func(a, b llm.Attempt) int { return a.Index - b.Index })
	said := map[string]int{}
	for i := range rows {
		a := &rows[i]
		c.checkClass(a, said[a.Deployment], say)
		said[a.Deployment]++
		if a.Err == nil {
			if i+1 < len(rows) && !c.beside {
				say("attempt %d, after %d answered", rows[i+1].Index, a.Index)
			}
			continue
		}
		for j := i + 1; j < len(rows); j++ {
			b := &rows[j]
			_, goesOn := c.continues[b.Deployment]
			switch {
			case b.Start.Before(a.Start.Add(a.Took)): // beside it
				if !c.beside {
					say("attempt %d begins while %d is under way", b.Index, a.Index)
				}
			case a.Deployment == b.Deployment && (isFatal(a.Class) || isNotRepeated(a.Class)):
				say("attempt %d repeats %d, which was %v", b.Index, a.Index, a.Class)
			case goesOn || c.beside && (c.lost(a) || isUnderWay(rows[:j], b.Deployment, a.Start.Add(a.Took)) || c.waited(b, a.Start.Add(a.Took))):
			case isFatal(a.Class):
				say("attempt %d, after %d was %v", b.Index, a.Index, a.Class)
			case a.Class == llm.Quota && a.Deployment != b.Deployment && !c.leaf(b.Deployment).quota:
				say("attempt %d, after %d was %v, which nobody approved %s for", b.Index, a.Index, a.Class, b.Deployment)
			case a.Class == llm.BadOutput && j >= i+2 && rows[i+1].Deployment == a.Deployment && rows[i+1].Class == a.Class && b.Deployment == a.Deployment:
				say("attempt %d repeats %v for the second time", b.Index, a.Class)
			}
		}
	}
}

// What follows on a class is said here again, for the table of the stages could be wrong.
func isFatal(c llm.Class) bool {
	return slices.Contains([]llm.Class{llm.Invalid, llm.Auth, llm.Refused, llm.Unknown, llm.Canceled}, c)
}

func isNotRepeated(c llm.Class) bool {
	return slices.Contains([]llm.Class{llm.Stalled, llm.Quota, llm.TooLong, llm.NotFound, llm.Unsupported}, c)
}

// lost reports whether a ended because another deployment was faster.
func (c *soakCall) lost(a *llm.Attempt) bool { return a.Class == llm.Canceled }

// isUnderWay reports whether a caller was asking a deployment when another of the hedge failed: it may go on as it would.
func isUnderWay(rows []llm.Attempt, deployment string, at time.Time) bool {
	return slices.ContainsFunc(rows, func(r llm.Attempt) bool { return r.Deployment == deployment && r.Start.Before(at) })
}

func (c *soakCall) leaf(name string) *soakLeaf {
	return c.w.leaves[slices.IndexFunc(c.w.leaves, func(l *soakLeaf) bool { return l.d.Name == name })]
}

// checkClass checks that the nth attempt at a deployment is in the account as what its model said.
func (c *soakCall) checkClass(row *llm.Attempt, n int, say func(string, ...any)) {
	for _, a := range c.tried {
		if a.l.d.Name != row.Deployment {
			continue
		}
		if n--; n >= 0 {
			continue
		}
		want := llm.Class(0)
		if a.said != nil {
			want = a.said.Class
		}
		if want == llm.Canceled {
			want = llm.Unavailable // the caller was there
		}
		if a.unread && row.Class != want {
			say("attempt %d is %v in the account, and the model said %v", row.Index, row.Class, a.said)
		}
		if !row.Start.Equal(a.began) || row.Took != a.end.Sub(a.began) && a.said != nil {
			say("attempt %d is in the account from %v for %v, its model saw it from %v to %v", row.Index, row.Start, row.Took, a.began, a.end)
		}
		return
	}
}

// checkDecisions checks, in an onion where that can be told from the account, that what was done is what Decide says.
func (c *soakCall) checkDecisions(o *outcome, say func(string, ...any)) {
	if !c.w.simple || len(o.handed) > 0 {
		return
	}
	state := middleware.State{Left: middleware.NoLimit(), Routes: c.w.routes, ReplayUnsafe: c.unsafe}
	state.Retry.Left = c.w.repeats
	rows := o.rows()
	decisions, n := middleware.Replay(state, rows), 0
	for i := range rows {
		a := &rows[i]
		if a.Skipped != "" || a.Err == nil {
			continue
		}
		d := decisions[n]
		n++
		next := slices.IndexFunc(rows[i+1:], func(b llm.Attempt) bool { return b.Skipped == "" })
		if next < 0 {
			continue // what was not done may have reasons that the account does not tell, such as a stack without retry
		}
		b := &rows[i+1+next]
		switch {
		case a.Deployment == b.Deployment && d.Action != middleware.ActionRetry:
			say("attempt %d repeats %d, and the decision was %v", b.Index, a.Index, d)
		case d.Action != middleware.ActionRetry && d.Action != middleware.ActionFallback:
			say("attempt %d was made, and the decision was %v", b.Index, d)
		case d.Action == middleware.ActionFallback && c.w.routes[d.Route].Name != b.Deployment:
			say("attempt %d is of %s, and the decision was %s: %v", b.Index, b.Deployment, c.w.routes[d.Route].Name, d)
		}
	}
}

// tally counts for what is checked of all calls together. w.mu is held.
func (c *soakCall) tally(o *outcome) {
	w := c.w
	seen := map[string]int{}
	for _, a := range o.rows() {
		if a.Skipped != "" {
			w.seen["skipped: "+a.Class.String()]++
			continue
		}
		seen[a.Deployment]++
		switch {
		case seen[a.Deployment] == 1 && a.Err == nil:
			w.first++
		case seen[a.Deployment] > 1 && a.Class.Owner() == llm.OwnerTransient:
			w.vain++
		}
	}
	if o.err != nil {
		w.seen["failed: "+llm.ClassOf(o.err).String()]++
	} else if o.resp.Degraded {
		w.seen["a stand-in"]++
	}
	if c.job != nil {
		w.seen["delivered"]++
	}
}

// over checks what holds when all calls are over and all that was handed over to a store is written.
func (w *soak) over() {
	for _, c := range w.done {
		c.checkJournal(func(format string, args ...any) {
			w.bad(c, "%s\n%v\n%s", fmt.Sprintf(format, args...), c.script, soakRows(c.account))
		})
	}
	w.pacedOver()
	if b := w.budget; b != nil && b.Spent().Attempts != w.made {
		w.bad(nil, "the budget has %v, the models saw %d attempts", b, w.made)
	}
	if w.retries != nil {
		// The cheapest repetition that fails costs 14, unless a rate limit came before it: then 5.
		most := 140 + int(time.Since(w.began)/time.Second) + 2*w.first
		if 5*w.vain > most {
			w.bad(nil, "%d repetitions failed, with a budget for at most %d", w.vain, most/5)
		}
	}
}
