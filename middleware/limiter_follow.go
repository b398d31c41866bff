package middleware

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelchain/llm"
)

// How limits give way to a provider that refuses, and how they come back.
const (
	cutWindow  = 10 * time.Second
	cutLeast   = 1.0 / 32
	cutStep    = 1.0 / 20
	cutEvery   = 2 * time.Second
	longestAsk = time.Minute // a longer wait is a rest, which is the business of a cooldown
)

// follow takes in what a failed attempt, which began at a time, says of the provider's limits.
func (pool *limitPool) follow(began time.Time, e *llm.Error) {
	refused := e.Class == llm.RateLimited || e.Class == llm.Overloaded
	if !refused && e.Evidence.Header == nil {
		return
	}
	left, told := leftBy(e.Evidence.Header)
	pool.lock()
	defer pool.mu.Unlock()
	b := &pool.all.buckets
	now := b.at(time.Now())
	b.sync(now)
	// What began before the last cut was sent at the old pace.
	if refused && (b.cut.IsZero() || began.After(b.cut) && now.Sub(b.cut) >= cutWindow) {
		b.cut = now
		b.grow(now, max(b.share/2, cutLeast), cutStep, cutEvery)
	}
	if e.Class == llm.RateLimited && e.RetryAfter <= longestAsk {
		b.drain(now, e.RetryAfter)
	}
	for i, n := range left {
		if told[i] {
			b.leave(i, now, n)
		}
	}
	if s := pool.all.shared; s != nil {
		s.follow(refused, e, &left, told)
	}
	pool.all.wakeFirst()
}

// follow has the Store know what a provider says, so that no other process has to be told by it.
func (s *sharedLine) follow(refused bool, e *llm.Error, left *limitCost, told [numMeters]bool) {
	l := s.line
	s.refused = s.refused || refused
	if e.Class == llm.RateLimited && e.RetryAfter <= longestAsk {
		s.rest = max(s.rest, e.RetryAfter)
	}
	for i, n := range l.minute {
		if n > 0 && told[i] {
			s.missing[i] = max(s.missing[i], l.whole[i]-left[i])
		}
	}
	s.fleet.mark(s, true)
}

// drain lets nothing go for a time, and no more after it than has come in since: the provider's own limit is used up.
func (b *buckets) drain(now time.Time, rest time.Duration) {
	if until := now.Add(rest); until.After(b.until) {
		b.until = until
	}
	for i := range b.of {
		b.leave(i, now, -int(b.rate(i)*b.share*rest.Seconds()))
	}
}

// leave leaves no more than n of a meter.
func (b *buckets) leave(i int, now time.Time, n int) {
	if l := b.of[i]; l != nil {
		b.charge(i, now, max(int(l.TokensAt(now))-n, 0))
	}
}

// leftHeaders are the headers that tell what is left of a limit by the minute.
var leftHeaders = [...]struct {
	name  string
	meter int
}{
	{"X-Ratelimit-Remaining-Requests", perRequest}, // OpenAI, Azure, Groq
	{"X-Ratelimit-Remaining-Tokens", perToken},
	{"X-Ratelimit-Remaining-Requests-Minute", perRequest}, // Cerebras
	{"X-Ratelimit-Remaining-Tokens-Minute", perToken},
	{"Anthropic-Ratelimit-Requests-Remaining", perRequest},
	{"Anthropic-Ratelimit-Tokens-Remaining", perToken},
	{"Anthropic-Ratelimit-Input-Tokens-Remaining", perInput},
	{"Anthropic-Ratelimit-Output-Tokens-Remaining", perOutput},
}

// leftBy reads them. What is negative or no number is not told.
func leftBy(h http.Header) (left limitCost, told [numMeters]bool) {
	for _, k := range leftHeaders {
		v := strings.TrimSpace(h.Get(k.name))
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			continue
		}
		if !told[k.meter] || n < left[k.meter] {
			left[k.meter], told[k.meter] = n, true
		}
	}
	return left, told
}
