package middleware

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/modelchain/llm"
)

// Limits are how much may go. 0: no such limit.
type Limits struct {
	// Requests, Input, Output and Tokens are requests, input tokens, output tokens, and both together, in a minute.
	Requests, Input, Output, Tokens int
	// InFlight is how many calls may be under way at a time.
	InFlight int
}

// LimiterConfig sets [NewLimiter]. At least one limit must be set.
type LimiterConfig struct {
	// Limits are those of each pool: a deployment, all of one Quota, or what Stage names. The zero value: none.
	Limits Limits
	// Key says whose call it is, such as ByLabel("tenant"). Where calls of a pool have to wait, its keys take turns. nil: all calls
	// are of one key.
	Key func(*llm.Request) string
	// PerKey are the limits of each key within a pool. The zero value: none.
	PerKey Limits
	// MaxKeys is how many keys a pool tells apart. A key is forgotten only if that gives it nothing: none of its calls is under way
	// or waits, and its limits have recovered in full. If there is none to forget, new keys share the limits of one. 0: 10,000.
	MaxKeys int
	// Burst is what may go at once after a pause, as the time in which it comes together, at most a minute. 0: a second's worth of
	// requests, at least one, and ten seconds' worth of tokens.
	Burst time.Duration
	// Ramp is the time in which the rates rise after none was used for as long, from a quarter, in four steps. 0: no time, so that
	// Burst alone holds back what comes after a pause.
	Ramp time.Duration
	// MaxWait is the longest that a call waits for its turn, even if it has more time. 0: 1 min.
	MaxWait time.Duration
	// Output is the most that is reserved for an answer, in tokens. 0: the request's MaxTokens, or 4096 without.
	Output int
	// Counter counts the input that is reserved for. nil: a token for every three bytes of text, and 1500 for each image, file
	// or audio, which costs no time.
	Counter llm.TokenCounter
	// CachedFree says that input read from the provider's cache counts as nothing, as at Anthropic. It does so once the attempt
	// has ended. false: it counts like other input.
	CachedFree bool
	// Fixed keeps Limits as they are, whatever a provider answers. false: its refusals lower them for a time, see Limiter.Stage.
	Fixed bool
	// Store shares the limits with the other processes that use it: of pools that have the same name, in limiters of the same
	// Name, calls of all processes count. nil: each process has the limits for itself. With a Store, end the limiter with Close.
	Store LimitStore
	// Name tells limiters that use one Store apart. "" is a name too.
	Name string
	// StoreTimeout is the longest that the Store delays a call. 0: 20 ms.
	StoreTimeout time.Duration
	// SlotLease is how long the Store keeps the calls in flight of a process from which it hears nothing, such as one that was
	// killed. 0: 15 s.
	SlotLease time.Duration
	// Meter makes the metrics that tell whether the Store is up. nil: the one registered with package otel.
	Meter metric.MeterProvider
	// Logger gets a record when the Store goes down and one when it is back. nil: slog.Default().
	Logger *slog.Logger
}

// A Limiter paces calls, so that the provider need not refuse them. The pools of all its stages are its own, or with a Store
// those of all processes. It is safe for concurrent use.
type Limiter struct {
	cfg           LimiterConfig
	input, output bool        // they are limited
	fleet         *limitFleet // nil: nothing is shared

	mu    sync.Mutex
	pools map[string]*limitPool
}

// NewLimiter is a limiter of which nothing is used. It panics without any limit, on negative settings, on a Burst above a
// minute, and on PerKey without Key.
func NewLimiter(cfg LimiterConfig) *Limiter {
	for _, l := range []struct {
		name string
		Limits
	}{{"Limits", cfg.Limits}, {"PerKey", cfg.PerKey}} {
		if l.Requests < 0 || l.Input < 0 || l.Output < 0 || l.Tokens < 0 || l.InFlight < 0 {
			panic(fmt.Sprintf("llm/middleware: Limiter: %s is %+v; use 0 for no limit", l.name, l.Limits))
		}
	}
	switch {
	case cfg.Limits == Limits{} && cfg.PerKey == Limits{}:
		panic("llm/middleware: Limiter: there is no limit; set one in Limits or PerKey, or leave the stage out")
	case cfg.Key == nil && (cfg.PerKey != Limits{} || cfg.MaxKeys != 0):
		panic(`llm/middleware: Limiter: PerKey and MaxKeys need a Key, such as ByLabel("tenant")`)
	case cfg.MaxKeys < 0 || cfg.Output < 0:
		panic(fmt.Sprintf("llm/middleware: Limiter: MaxKeys %d, Output %d: use 0 for the default", cfg.MaxKeys, cfg.Output))
	case cfg.Burst < 0 || cfg.Burst > time.Minute:
		panic(fmt.Sprintf("llm/middleware: Limiter: Burst is %v; use 0 for the default, or a time up to 1m", cfg.Burst))
	case cfg.Ramp < 0:
		panic(fmt.Sprintf("llm/middleware: Limiter: Ramp is %v; use 0 for none", cfg.Ramp))
	}
	cfg.MaxWait = durationOr("Limiter", "MaxWait", cfg.MaxWait, time.Minute)
	if cfg.Store != nil || cfg.StoreTimeout < 0 || cfg.SlotLease < 0 {
		cfg.StoreTimeout = durationOr("Limiter", "StoreTimeout", cfg.StoreTimeout, 20*time.Millisecond)
		cfg.SlotLease = durationOr("Limiter", "SlotLease", cfg.SlotLease, 15*time.Second)
	}
	if cfg.Key != nil && cfg.MaxKeys == 0 {
		cfg.MaxKeys = 10_000
	}
	limited := func(of func(Limits) int) bool { return of(cfg.Limits) > 0 || of(cfg.PerKey) > 0 }
	tokens := limited(func(l Limits) int { return l.Tokens })
	l := &Limiter{
		cfg:    cfg,
		input:  tokens || limited(func(l Limits) int { return l.Input }),
		output: tokens || limited(func(l Limits) int { return l.Output }),
		pools:  map[string]*limitPool{},
	}
	if cfg.Store != nil {
		l.fleet = newLimitFleet(&l.cfg)
	}
	return l
}

// ByLabel is a LimiterConfig.Key: the request's label called name. Calls without it are of one key together.
func ByLabel(name string) func(*llm.Request) string {
	return func(r *llm.Request) string { return r.Labels[name] }
}

// Stage is the stage "limiter": each call takes a permit, which it keeps until it ends, a stream with its last delta. Calls
// count against the limits of a pool. "" is that of the deployment's Quota, or of the deployment where it has none; stages with
// the same name for a pool share that, whatever is beneath them. Around several deployments or none, "" is such a name too.
//
// A permit reserves a request, the input as it is estimated, and the longest answer. When the attempt has ended, what it really
// used takes their place, also more than was reserved, up to what a minute brings. If it was turned away the tokens come back,
// and the request too if it never reached the provider. What cannot be known stays reserved.
//
// A call for which there is no room waits for its turn: in order within a key, one by one between keys. It does so only if its
// turn comes while there is time for the attempt (see [llm.Request.Ask]; a fallback's next route keeps its share) and within
// MaxWait. Else it is refused at once: an error of class RateLimited that is Skipped, with the wait in RetryAfter as it is
// known now, 0 where only the end of other calls can tell. So a fallback goes on, and nothing is cooled or repeated. A request
// that is larger than what a minute allows is Unsupported here. One that is larger than Burst goes when all of Burst is there,
// and those after it wait the longer: in any minute no more goes than a minute's limit and the larger of Burst and one request.
//
// In a pool called "" that is around one deployment the provider has its say, unless Fixed. A class RateLimited or Overloaded
// halves the rates and the calls in flight, at most once in ten seconds, down to a 32nd; they rise again by a 20th every two
// seconds. So several processes that were each given the whole limit come to share it, and with a Store one refusal tells all of
// them. Who is told to wait by RateLimited for up to a minute keeps all of the pool waiting, and no burst follows. What a
// failure's headers say is left is all that is left here. If a provider refuses bursts that keep to its limit by the minute,
// make Burst shorter.
//
// With a Store pools of one name are one in all processes that use it, and so are their keys. A call goes when the store has
// granted it: those that wait at a time in a process are asked for together, in order and by turns as above, and processes take
// turns in their order of asking. While half of all limits is free a process asks for as many more as came in the last 10 ms, up
// to a 32nd of what may go at once; so calls that come often do not wait for the store. A RetryAfter is by what the store knows;
// other processes may come in between. What is not used is back within hundredths of a second. The slots of a process that died
// come back after SlotLease. While the store is down, or where it takes longer than StoreTimeout, each process goes on with its
// part of the limits, by the number of processes last seen, at least one call at a time; one that has never reached the store
// knows of no others. What went meanwhile counts when it is back, as far as it has not come back with time.
//
// It belongs inside retry, outside the limits on one attempt. Around several deployments it takes one permit for a call, and
// counts what all attempts of the call used when it ends. It panics on a Limiter that NewLimiter has not made.
func (l *Limiter) Stage(pool string) llm.Stage {
	if l == nil || l.pools == nil {
		panic("llm/middleware: Limiter: this Limiter is not usable; make it with NewLimiter")
	}
	return llm.Stage{Name: "limiter", Config: l.cfg, Wrap: wrapping("Limiter", func(next llm.Caller) llm.Caller {
		s := &limiter{next: next, l: l, deployment: only(next)}
		name, d := pool, s.deployment
		if name == "" && d != nil {
			s.follows = !l.cfg.Fixed
			if name = d.Quota; name == "" {
				name = d.Name
			}
		}
		s.pool = l.pool(name)
		return s
	})}
}

func (l *Limiter) pool(name string) *limitPool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pools[name] == nil {
		l.pools[name] = newLimitPool(name, &l.cfg, l.fleet)
	}
	return l.pools[name]
}
