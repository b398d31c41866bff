package middleware

import (
	"strings"
	"time"

	"github.com/modelchain/llm"
)

// sharedState is the part of a restState that is about the Store.
type sharedState struct {
	base    uint64    // the Store's generation that this state goes back to
	end     time.Time // until, by the Store's clock
	foreign bool      // the probe is another process's
	// tell is what the Store has yet to be told, at when it happened, and id its number.
	tell newsKind
	at   time.Time
	id   uint64
}

// newsKind says what happened here.
type newsKind uint8

const (
	newsNone    newsKind = iota
	newsLonger           // a rest was made longer, or the Store has lost it
	newsRest             // a rest began, or its probe failed
	newsEnded            // a probe succeeded
	newsCleared          // somebody ended it by hand
)

// sharedCell is the part of a restCell that is about the Store. Its cell's mu guards it.
type sharedCell struct {
	seen      time.Time // the Store's clock when it said what is known here
	token     string    // of this process's probe called tokenOf. "": none
	tokenOf   uint64
	elsewhere string // the token of the other process's probe
	freeing   string // a token that is to be given back
	reread    bool   // the Store is to be asked what it knows
	unheard   int    // probes in a row for which it did not answer in time
	news      uint64 // ids given so far
}

// news is what is to be told of the state that comes after st. The caller holds mu.
func (c *restCell) news(st *restState, kind newsKind) sharedState {
	if kind == newsLonger && st.tell == newsRest {
		kind = newsRest
	}
	next := sharedState{base: st.base, end: st.end, foreign: kind == newsLonger && st.foreign}
	c.shared.tell(&next, kind, time.Now())
	return next
}

func (s *sharedCell) tell(st *sharedState, kind newsKind, at time.Time) {
	s.news++
	st.tell, st.at, st.id = kind, at, s.news
}

// freeShared notes that the probe called id is over. Its token is given back also after a verdict, which the Store may not
// have taken. The caller holds mu.
func (c *restCell) freeShared(id uint64) {
	if c.shared.token == "" || c.shared.tokenOf != id {
		return
	}
	c.shared.freeing, c.shared.token = c.shared.token, ""
	c.all.fleet.mark(c)
}

// adopt takes over what the Store says, which is an answer about sent, or news. nil: it is news. refused is the token with
// which a probe was asked for. The later end holds, and what the Store has yet to be told is not given up.
func (c *restCell) adopt(s *SharedCooldown, sent *restState, refused string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cur := c.state.Load()
	next := *cur
	told := sent != nil && sent.tell != newsNone && sent.id == cur.id
	switch {
	case told:
		next.tell = newsNone
	case sent != nil && sent.tell != newsNone: // what happened here since goes back to it
		next.base = max(next.base, s.Gen)
	}
	if s.Now.Before(c.shared.seen) {
		if told { // it knows, but what holds now came by another way
			c.shared.reread = true
			c.state.Store(&next)
			c.all.fleet.mark(c)
		}
		return
	}
	c.shared.seen = s.Now
	if refused != "" && refused == c.shared.token && refused != s.Token {
		c.shared.token = ""
		next.probe = 0
	}
	c.merge(&next, s, told, refused != "")
	if next.resting {
		c.lease(&next, s)
	}
	if next.tell != newsNone {
		c.all.fleet.mark(c)
	}
	if next.gen != cur.gen || next.probe != cur.probe {
		c.set(next)
		return
	}
	c.state.Store(&next)
}

// merge makes next what holds, given that the Store says s. The caller holds mu.
func (c *restCell) merge(next *restState, s *SharedCooldown, told, asked bool) {
	pending := next.tell != newsNone
	now := time.Now()
	until := now.Add(s.Until.Sub(s.Now))
	switch {
	case s.Resting && next.resting && (pending || told || s.Gen <= next.base):
		if until.After(next.until) && (asked || s.Until.After(next.end)) {
			next.until, next.cause = until, s.Cause.failure()
		}
		next.end = s.Until
		switch {
		case pending:
		case s.Gen < next.base: // it has lost the newer one
			c.shared.tell(&next.sharedState, newsLonger, next.since)
		default:
			next.base = s.Gen
		}
	case s.Resting && (!pending || s.Gen > next.base):
		*next = restState{
			gen: next.gen + 1, resting: true, since: now.Add(s.Since.Sub(s.Now)), until: until, cause: s.Cause.failure(),
			failed: s.Failed, sharedState: sharedState{base: s.Gen, end: s.Until},
		}
	case s.Resting || pending: // it has yet to be told
	case !next.resting:
		next.base = s.Gen
	case s.Gen > next.base:
		*next = restState{gen: next.gen + 1, sharedState: sharedState{base: s.Gen}}
	default: // it has lost the rest
		c.shared.tell(&next.sharedState, newsLonger, next.since)
	}
}

// lease takes over whether another process's probe is out. The caller holds mu.
func (c *restCell) lease(next *restState, s *SharedCooldown) {
	left := s.Lease.Sub(s.Now)
	switch out := s.Resting && s.Token != "" && left > 0; {
	case out && s.Token == c.shared.token:
	case out && next.foreign && s.Token == c.shared.elsewhere:
		next.lease = time.Now().Add(left)
	case out && (next.probe == 0 || next.foreign || time.Now().After(next.lease)):
		c.probes++
		next.probe, next.foreign, next.lease = c.probes, true, time.Now().Add(left)
		c.shared.elsewhere = s.Token
	case !out && next.foreign:
		next.probe, next.foreign = 0, false
	}
}

// failure is c as the cause of a rest here.
func (c *CooldownCause) failure() *llm.Error {
	return &llm.Error{
		Class: c.Class, Owner: c.Class.Owner(), Deployment: c.Deployment, Message: c.Why, RetryAfter: c.Asked,
	}
}

// causeOf is e for other processes.
func causeOf(e *llm.Error) CooldownCause {
	const most = 500
	if e == nil {
		return CooldownCause{}
	}
	why := strings.TrimPrefix(e.Error(), "llm: ")
	if e.Deployment != "" {
		why = strings.TrimPrefix(why, e.Deployment+": ")
	}
	why = strings.TrimPrefix(strings.TrimPrefix(why, e.Class.String()), ":")
	why = strings.TrimSpace(strings.ToValidUTF8(why[:min(len(why), most)], ""))
	return CooldownCause{Class: e.Class, Why: why, Deployment: e.Deployment, Asked: e.RetryAfter}
}

// report is what the Store is told of a rest.
func (st *restState) report(now time.Time) CooldownNews {
	at := st.at
	if at.IsZero() {
		at = st.since
	}
	return CooldownNews{
		Base: st.base, Fresh: st.tell == newsRest, Ago: max(now.Sub(at), 0), Left: max(st.until.Sub(now), 0),
		Failed: st.failed, Cause: causeOf(st.cause),
	}
}
