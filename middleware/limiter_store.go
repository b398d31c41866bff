package middleware

import (
	"context"
	"time"
)

// A LimitStore shares limits between processes: those that name one limit pace together as one of them would alone. Package
// stores/redis has one; storetest.TestLimits holds any to these rules:
//
//   - Time is the store's own.
//   - A limit by the minute gains at its rate up to its burst. What is granted never exceeds what was gained.
//   - A replica says what it used in all, not what it used since. So an exchange whose answer was lost may be followed by the
//     next one: what that does not say was granted in vain, and comes back. The same exchange again counts once.
//   - The slots of a replica that is silent for as long as its lease are given to others.
//   - Where calls in flight stand in the way, replicas take turns. One that has not asked for a second is left out.
//   - A provider's refusal halves the rates and the slots, at most once in ten seconds, down to a 32nd. They rise again by a 20th
//     of the whole every two seconds.
//   - A replica is forgotten after 90 seconds, and a limit that nobody asks about once it has recovered, at least two minutes
//     later.
//
// Exchange ends with its context, and is safe for concurrent use. Errors carry no secrets.
type LimitStore interface {
	// Exchange takes in what is told of limits, each one for itself, and answers in the order of news. After an error some may
	// have been taken in.
	Exchange(ctx context.Context, news []LimitNews) ([]SharedLimit, error)
}

// LimitNews is what a process tells a [LimitStore] of a limit, and asks of it.
type LimitNews struct {
	// Name is the limit's, Replica the process's, Number that of this exchange. Of one replica exchanges below the highest
	// number change nothing and grant nothing.
	Name, Replica string
	Number        uint64
	// Limits are how much may go in a minute, and at a time, Burst what may go at once after a pause, of what Limits has.
	Limits, Burst Limits
	// Used is what the replica took since it first told of the limit, less what it gave back, and with InFlight the slots that
	// it has now. Where the store does not know the replica, nothing was taken before.
	Used Limits
	// Lacks is what the replica last knew to be missing, for a store that knows nothing of the limit.
	Lacks LimitLacks
	// Refused says that the provider refused a call for its limits, Rest for how long it wants no further one, after which
	// nothing has come together, and Missing that at least so much is missing.
	Refused bool
	Rest    time.Duration
	Missing Limits
	// Lease is how long the slots are kept for a replica that is silent.
	Lease time.Duration
	// Wants is what is asked for: calls, the next one first, each with InFlight 1 if it needs a slot.
	Wants []Limits
	// Patience is how far ahead the first of Wants for which there is no room may be granted. 0: only at once.
	Patience time.Duration
}

// LimitLacks is what is missing of each limit by the minute, as the time in which it comes back. 0: nothing.
type LimitLacks struct {
	Requests, Input, Output, Tokens time.Duration
}

// SharedLimit is what a [LimitStore] answers.
type SharedLimit struct {
	// Granted is how many of Wants may go, from the first on.
	Granted int
	// Wait is how long the last of them has to wait. 0: it may go at once, as the others.
	Wait time.Duration
	// Lacks is what is missing of the limit, with all that was granted, also ahead.
	Lacks LimitLacks
	// Share is the part of the limits that is in force: below 1 after refusals.
	Share float64
	// Rest is how long nothing goes.
	Rest time.Duration
	// InFlight is how many slots all replicas have, with what was granted.
	InFlight int
	// Replicas is how many exchanged in the last 90 seconds, this one included.
	Replicas int
}

func (l *Limits) meters() limitCost { return limitCost{l.Requests, l.Input, l.Output, l.Tokens} }

func (c *limitCost) limits(inFlight int) Limits {
	return Limits{Requests: c[perRequest], Input: c[perInput], Output: c[perOutput], Tokens: c[perToken], InFlight: inFlight}
}

func (l *LimitLacks) meters() [numMeters]time.Duration {
	return [numMeters]time.Duration{l.Requests, l.Input, l.Output, l.Tokens}
}
