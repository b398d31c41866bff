package middleware

import (
	"fmt"
	"sync"
	"time"

	"github.com/modelchain/llm"
)

// CooldownState is the rest of one deployment, quota or credential at a moment.
type CooldownState struct {
	// Scope says what Name names: a deployment (Itself), a quota or a credential.
	Scope Scope
	Name  string
	// Since is when the rest began, Until when a probe is or was due. Until is zero in the report that the rest is over.
	Since, Until time.Time
	// Class and Why say which failure began it, Deployment whose it was.
	Class           llm.Class
	Why, Deployment string
	// Asked is the wait that the provider asked for. 0: none. It may be longer than the rest, which MaxWait and MaxUntil
	// bound.
	Asked time.Duration
	// Failed counts the probes that failed.
	Failed int
	// Probing says that a probe is out.
	Probing bool
}

// String is the scope in lower case with underscores.
func (s Scope) String() string {
	switch s {
	case Nothing:
		return "nothing"
	case Itself:
		return "itself"
	case SharedQuota:
		return "shared_quota"
	case SharedCredential:
		return "shared_credential"
	}
	return fmt.Sprintf("scope(%d)", uint8(s))
}

func (c *restCell) describe(st *restState, now time.Time) CooldownState {
	s := CooldownState{
		Scope: c.key.Scope, Name: c.key.Name, Since: st.since, Until: st.until, Failed: st.failed,
		Probing: st.probe != 0 && now.Before(st.lease),
	}
	if e := st.cause; e != nil {
		s.Class, s.Deployment, s.Asked, s.Why = e.Class, e.Deployment, e.RetryAfter, e.Error()
	}
	return s
}

// says is why a call is refused.
func (c *restCell) says(st *restState, now time.Time) string {
	var what string
	switch {
	case now.Before(st.until):
		what = fmt.Sprintf("rests for %v more after %v", readable(st.until.Sub(now)), st.cause.Class)
	case st.wait(now) > 0:
		what = fmt.Sprintf("is being probed after %v", st.cause.Class)
	default:
		what = fmt.Sprintf("awaits a probe after %v", st.cause.Class)
	}
	switch c.key.Scope {
	case SharedQuota:
		what += fmt.Sprintf(" of quota %q", c.key.Name)
	case SharedCredential:
		what += fmt.Sprintf(" of credential %q", c.key.Name)
	}
	return what
}

func readable(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// forKeeping is e as the cause of a rest, which calls of others get to see: without what was answered to its own
// caller.
func forKeeping(e *llm.Error) *llm.Error {
	kept := *e
	kept.Partial, kept.Attempts = nil, nil
	kept.Evidence.Body, kept.Evidence.Header = "", nil
	return &kept
}

// changeQueue hands reports to a listener in order and outside locks: who adds to it while another goroutine is telling
// the listener leaves the rest to that one.
type changeQueue struct {
	mu      sync.Mutex
	waiting []CooldownState
	telling bool
}

func (q *changeQueue) add(s CooldownState) {
	q.mu.Lock()
	q.waiting = append(q.waiting, s)
	q.mu.Unlock()
}

func (q *changeQueue) deliver(to func(CooldownState)) {
	if to == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.telling {
		return
	}
	q.telling = true
	defer func() { q.telling = false }() // also if the listener panics
	for len(q.waiting) > 0 {
		s := q.waiting[0]
		q.waiting = q.waiting[1:]
		func() {
			q.mu.Unlock()
			defer q.mu.Lock()
			to(s)
		}()
	}
}
