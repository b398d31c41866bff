package middleware

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/modelchain/llm"
)

// CooldownConfig sets [NewCooldowns]. The zero value is the default.
type CooldownConfig struct {
	// Rest is how long a deployment rests after a failure that cools, unless its provider asks for longer. 0: 60 s.
	Rest time.Duration
	// Cap bounds the rest after failed probes, each of which doubles it. 0: 5 min, or Rest if that is longer.
	Cap time.Duration
	// Long takes the place of Rest for classes whose Reaction is Long, such as Quota, and does not grow. 0: 15 min, so
	// that an account that was paid up serves again soon, at the price of four refused calls an hour.
	Long time.Duration
	// MaxWait bounds the rest that a provider may ask for as a wait, MaxUntil the one that it may ask for as a date on
	// which it comes back: a bad hint must not rest a deployment for ever. A probe follows. 0: 1 h and 24 h.
	MaxWait, MaxUntil time.Duration
	// Patience is how long failures that were never repeated, because their callers had no time or attempts left or the retry
	// budget was used up, must go on without a success before they begin a rest: one flaky answer rests nobody. Those with a
	// wait that the provider asked for count at once. 0: 5 s.
	Patience time.Duration
	// ProbeLease is how long a probe keeps the other calls away. After it the next call becomes a probe too, so that one
	// that hangs does not stand in the way of recovery. 0: 30 s, the time of a whole call.
	ProbeLease time.Duration
	// OnChange is told when a rest begins, is renewed by a failed probe or ends, and when a probe goes out or comes
	// back without a verdict: in order, one at a time, on a goroutine of a call, with no lock held. A rest that is
	// only made longer by another failure is no change. With a Store it is also told what other processes learned, on a
	// goroutine of the Cooldowns'. nil: nobody is told.
	OnChange func(CooldownState)
	// Store shares the rests of deployments, quotas and credentials with the other processes that use it, by their names,
	// such as that of package stores/redis; then Close ends what shares them. nil: they are this process's own.
	Store CooldownStore
	// StoreTimeout is the longest that the Store delays a call, which only a probe waits for at all. Where the answer takes longer,
	// the call is no probe, and refused as before; the third in a row is one, as while the Store is down: then each process may
	// have one out. 0: 20 ms.
	StoreTimeout time.Duration
	// Meter makes the metrics that tell whether the Store is up. nil: the one registered with package otel.
	Meter metric.MeterProvider
	// Logger gets a record when the Store goes down and one when it is back. nil: slog.Default().
	Logger *slog.Logger
	// Reactions holds the rows that differ from DefaultReactions. nil: none.
	Reactions Reactions
}

func (c CooldownConfig) withDefaults() CooldownConfig {
	c.Rest = durationOr("Cooldown", "Rest", c.Rest, time.Minute)
	if c.Cap > 0 && c.Cap < c.Rest {
		panic(fmt.Sprintf("llm/middleware: Cooldown: Cap %v is below Rest %v; raise Cap, or use 0 for 5m", c.Cap, c.Rest))
	}
	c.Cap = max(durationOr("Cooldown", "Cap", c.Cap, 5*time.Minute), c.Rest)
	c.Long = durationOr("Cooldown", "Long", c.Long, 15*time.Minute)
	c.MaxWait = durationOr("Cooldown", "MaxWait", c.MaxWait, time.Hour)
	c.MaxUntil = durationOr("Cooldown", "MaxUntil", c.MaxUntil, 24*time.Hour)
	c.Patience = durationOr("Cooldown", "Patience", c.Patience, 5*time.Second)
	c.ProbeLease = durationOr("Cooldown", "ProbeLease", c.ProbeLease, 30*time.Second)
	if c.Store != nil || c.StoreTimeout < 0 {
		c.StoreTimeout = durationOr("Cooldown", "StoreTimeout", c.StoreTimeout, 20*time.Millisecond)
	}
	return c
}

// Cooldowns knows which deployments, quotas and credentials rest, for every chain that has its Stage. It is safe for
// concurrent use.
type Cooldowns struct {
	cfg       CooldownConfig
	reactions *table

	mu      sync.Mutex
	cells   map[CooldownKey]*restCell
	private map[*restCell]struct{} // those without a key, while they rest

	changes changeQueue
	fleet   *fleet // nil: nothing is shared
}

// NewCooldowns is a Cooldowns where all serve, apart from what the Store says. It panics on negative durations and on a Cap
// below Rest.
func NewCooldowns(cfg CooldownConfig) *Cooldowns {
	c := &Cooldowns{
		cfg: cfg.withDefaults(), reactions: cfg.Reactions.table(),
		cells: map[CooldownKey]*restCell{}, private: map[*restCell]struct{}{},
	}
	if cfg.Store != nil {
		c.fleet = newFleet(c)
	}
	return c
}

// Stage is the stage "cooldown": while a deployment rests, calls to it return at once with class Cooling, the wait
// that is left and the failure that began the rest.
//
// A rest begins with a failure that comes out of the stages inside and whose class cools, at once if its retries are spent
// or there were none to make, else after Patience. It covers the deployment alone, or by the class all that share its Quota
// or Credential. When it is over, one call goes through as a probe while the others keep away: its success ends the rest,
// its failure doubles it. Any other outcome, such as a caller who left or a request that was Invalid, changes nothing, and
// the next call is the probe. What began before a rest decides nothing after it. Where the rest began with the break of one
// stream alone, the continuation of that stream may be its first probe at once: see [Interrupt]. Retries of calls that are
// under way when the rest begins are held back too, apart from the probe's own.
//
// Streams count when they end; a stream that broke after some output counts as Interrupted.
//
// It belongs around one deployment, outside Retry, so that it sees only what the retries could not mend. Deployments
// are known by their names: stages around the same name share its rest. A stage around none or several deployments has
// a rest of its own. It never waits, apart from a probe for the Store, and takes no lock while nothing rests.
//
// With a Store the rests of all processes are one: what is learned elsewhere is pushed to this one, so that a call never asks
// the Store whether something rests, and of all probes that are due one goes out. A Store that is down, or again and again slower
// than StoreTimeout, holds no call back and fails none: each process goes on with what it knows and learns, and sends probes
// of its own, one at a time, until the Store is back; then the later ends hold.
func (c *Cooldowns) Stage() llm.Stage {
	if c == nil || c.cells == nil {
		panic("llm/middleware: Cooldown: these Cooldowns are not usable; make them with NewCooldowns")
	}
	return llm.Stage{Name: "cooldown", Config: c.cfg, Wrap: wrapping("Cooldown", c.wrap)}
}

func (c *Cooldowns) wrap(next llm.Caller) llm.Caller {
	s := &cooldown{next: next, all: c, deployment: only(next)}
	d := s.deployment
	if d == nil || d.Name == "" {
		s.cells[0] = newRestCell(c, CooldownKey{Itself, llm.Describe(next).Name}, true)
		return s
	}
	s.cells[0] = c.cell(Itself, d.Name)
	if d.Quota != "" {
		s.cells[1] = c.cell(SharedQuota, d.Quota)
	}
	if d.Credential != "" {
		s.cells[2] = c.cell(SharedCredential, d.Credential)
	}
	return s
}

func (c *Cooldowns) cell(scope Scope, name string) *restCell {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := CooldownKey{scope, name}
	if c.cells[key] == nil {
		c.cells[key] = newRestCell(c, key, false)
		c.fleet.reread(c.cells[key])
	}
	return c.cells[key]
}

// Snapshot lists what rests now or awaits a probe, by scope and name.
func (c *Cooldowns) Snapshot() []CooldownState {
	c.mu.Lock()
	cells := make([]*restCell, 0, len(c.cells)+len(c.private))
	for _, cell := range c.cells {
		cells = append(cells, cell)
	}
	for cell := range c.private {
		cells = append(cells, cell)
	}
	c.mu.Unlock()
	now := time.Now()
	var states []CooldownState
	for _, cell := range cells {
		if st := cell.state.Load(); st.resting {
			states = append(states, cell.describe(st, now))
		}
	}
	slices.SortFunc(states, func(a, b CooldownState) int {
		if a.Scope != b.Scope {
			return int(a.Scope) - int(b.Scope)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return states
}

// Clear ends the rest of the deployment (Itself), quota or credential called name, and reports whether there was one.
// The outcome of a probe that is out no longer counts.
func (c *Cooldowns) Clear(scope Scope, name string) bool {
	c.mu.Lock()
	cell := c.cells[CooldownKey{scope, name}]
	c.mu.Unlock()
	cleared := cell != nil && cell.clear()
	c.changes.deliver(c.cfg.OnChange)
	return cleared
}
