package storetest

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/modelchain/llm/middleware"
)

// Limits is a middleware.LimitStore in memory: Limiters in one test that use the same one are like processes that share a
// server. It is safe for concurrent use.
type Limits struct {
	mu     sync.Mutex
	limits map[string]*heldLimit
	err    error
	ops    int
}

type heldLimit struct {
	at       time.Time
	lacks    limitAmounts
	replicas map[string]*limitReplica
	share    float64 // after the cut
	cut      time.Time
	until    time.Time // nothing goes before
}

// limitAmounts are requests, input, output, and both tokens.
type limitAmounts [4]float64

type limitReplica struct {
	number        uint64
	used          limitAmounts
	slots         int
	lease, seen   time.Time
	since, polled time.Time // since when it waits for a slot. Zero: it does not
}

// NewLimits is one of which nothing is used.
func NewLimits() *Limits { return &Limits{limits: map[string]*heldLimit{}} }

// Fail makes every exchange end with err. nil: no more.
func (s *Limits) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Lose forgets everything.
func (s *Limits) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.limits)
}

// Exchanges is how many there were.
func (s *Limits) Exchanges() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ops
}

// Exchange is as middleware.LimitStore says.
func (s *Limits) Exchange(ctx context.Context, news []middleware.LimitNews) ([]middleware.SharedLimit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops++
	if s.err != nil {
		return nil, s.err
	}
	got := make([]middleware.SharedLimit, len(news))
	for i := range news {
		got[i] = s.exchange(time.Now(), &news[i])
	}
	return got, nil
}

func amounts(l *middleware.Limits) limitAmounts {
	return limitAmounts{float64(l.Requests), float64(l.Input), float64(l.Output), float64(l.Tokens)}
}

func (s *Limits) exchange(now time.Time, n *middleware.LimitNews) (got middleware.SharedLimit) {
	minute, burst := amounts(&n.Limits), amounts(&n.Burst)
	l := s.limits[n.Name]
	if l == nil {
		l = &heldLimit{at: now, share: 1, replicas: map[string]*limitReplica{}}
		for i, d := range [4]time.Duration{n.Lacks.Requests, n.Lacks.Input, n.Lacks.Output, n.Lacks.Tokens} {
			l.lacks[i] = max(minute[i]*d.Minutes(), 0)
		}
		s.limits[n.Name] = l
	}
	whole := minute
	l.scale(now, &minute)
	l.advance(now, &whole)
	r := l.replicas[n.Replica]
	switch {
	case r == nil:
		r = &limitReplica{used: amounts(&n.Used)}
		l.replicas[n.Replica] = r
		fallthrough
	case n.Number >= r.number:
		r.number, r.seen = n.Number, now
		if n.Refused && now.Sub(l.cut) >= 10*time.Second {
			l.share, l.cut = max(l.shareAt(now)/2, 1./32), now
			minute = whole
			l.scale(now, &minute)
		}
		if until := now.Add(n.Rest); n.Rest > 0 && until.After(l.until) {
			l.until = until
		}
		l.tell(r, n, &minute, &burst)
		got.Granted, got.Wait = l.grant(now, r, n, &minute, &burst)
		if r.slots > 0 {
			r.lease = now.Add(n.Lease)
		}
	}
	at := func(i int) time.Duration {
		if minute[i] == 0 {
			return 0
		}
		return micro(l.lacks[i] / minute[i])
	}
	got.Lacks = middleware.LimitLacks{Requests: at(0), Input: at(1), Output: at(2), Tokens: at(3)}
	got.Share, got.Rest = l.shareAt(now), max(l.until.Sub(now), 0)
	got.InFlight, got.Replicas = l.slots(), len(l.replicas)
	return got
}

// micro is a number of minutes, rounded up to a microsecond.
func micro(minutes float64) time.Duration {
	return time.Duration(math.Ceil(minutes*60e6-1e-3)) * time.Microsecond
}

// shareAt is the part of the limits that is in force.
func (l *heldLimit) shareAt(now time.Time) float64 {
	return min(l.share+float64(now.Sub(l.cut)/(2*time.Second))/20, 1)
}

// scale makes the limits those that are in force.
func (l *heldLimit) scale(now time.Time, minute *limitAmounts) {
	for i := range minute {
		minute[i] *= l.shareAt(now)
	}
}

// advance lets time go on, as the share rises.
func (l *heldLimit) advance(now time.Time, whole *limitAmounts) {
	for gone := max(now.Sub(l.at), 0); gone > 0; gone = now.Sub(l.at) {
		share := l.shareAt(l.at)
		if share < 1 {
			gone = min(gone, 2*time.Second-l.at.Sub(l.cut)%(2*time.Second))
		}
		for i := range l.lacks {
			l.lacks[i] = max(l.lacks[i]-whole[i]*share*gone.Minutes(), 0)
		}
		l.at = l.at.Add(gone)
	}
	for name, r := range l.replicas {
		if !r.lease.After(now) {
			r.slots = 0
		}
		if now.Sub(r.seen) > 90*time.Second {
			delete(l.replicas, name)
		}
	}
}

// tell takes in what r used.
func (l *heldLimit) tell(r *limitReplica, n *middleware.LimitNews, minute, burst *limitAmounts) {
	used := amounts(&n.Used)
	for i := range used {
		more := used[i] - r.used[i]
		lacks := max(l.lacks[i]+more, 0)
		if more > 0 { // nobody waits longer than a minute for what others took unasked
			lacks = max(l.lacks[i], min(lacks, burst[i]+minute[i]))
		}
		l.lacks[i] = lacks
	}
	r.used, r.slots = used, n.Used.InFlight
	for i, missing := range amounts(&n.Missing) {
		l.lacks[i] = max(l.lacks[i], missing)
		if n.Rest > 0 {
			l.lacks[i] = max(l.lacks[i], burst[i]+minute[i]*n.Rest.Minutes())
		}
	}
}

func (l *heldLimit) slots() (n int) {
	for _, r := range l.replicas {
		n += r.slots
	}
	return n
}

// before is how many replicas wait for a slot for longer than r.
func (l *heldLimit) before(now time.Time, r *limitReplica) (n int) {
	for _, o := range l.replicas {
		if o != r && !o.since.IsZero() && now.Sub(o.polled) <= time.Second && (r.since.IsZero() || o.since.Before(r.since)) {
			n++
		}
	}
	return n
}

// grant grants what of Wants there is.
func (l *heldLimit) grant(
	now time.Time, r *limitReplica, n *middleware.LimitNews, minute, burst *limitAmounts,
) (granted int, wait time.Duration) {
	full, slots := false, n.Limits.InFlight
	if share := l.shareAt(now); share < 1 {
		slots = max(int(float64(slots)*share), 1)
	}
	for i := range n.Wants {
		want := amounts(&n.Wants[i])
		slot := min(n.Wants[i].InFlight, n.Limits.InFlight)
		if full = slot > 0 && l.slots()+l.before(now, r)+slot > slots; full {
			break
		}
		minutes := max(l.until.Sub(now).Minutes(), 0)
		for m := range want {
			if minute[m] > 0 && want[m] > 0 {
				minutes = max(minutes, (l.lacks[m]+min(want[m], burst[m])-burst[m])/minute[m])
			}
		}
		if wait = micro(minutes); wait > n.Patience {
			wait = 0
			break
		}
		for m := range want {
			if minute[m] > 0 {
				l.lacks[m] += want[m]
			}
			r.used[m] += want[m]
		}
		r.slots += slot
		if slot > 0 {
			r.since = time.Time{}
		}
		granted++
		if wait > 0 {
			break
		}
	}
	switch {
	case !full:
		r.since = time.Time{}
	case r.since.IsZero():
		r.since = now
	}
	r.polled = now
	return granted, wait
}
