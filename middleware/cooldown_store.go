package middleware

import (
	"context"
	"time"

	"github.com/modelchain/llm"
)

// A CooldownStore shares rests between processes: what one of them learned keeps all of them away, and one probe decides for
// all. Package stores/redis has one; storetest.TestCooldowns holds any to these rules:
//
//   - All times are the store's own. What a process says of time is how long ago and how much longer.
//   - Of two rests of one name the later end holds.
//   - Each rest and each end of one has a generation, above all earlier ones of its name, also above those that the store
//     has lost. What a process learned in one generation does not decide about a later one.
//   - All methods may be called again with the same arguments, as after a time-out, and nothing counts twice.
//   - What nobody asks about is forgotten after an hour, or an hour after its rest.
//
// Methods end with their context, and are safe for concurrent use. Errors carry no secrets.
type CooldownStore interface {
	// Rest notes a rest and returns what holds now, which is another's where that is newer.
	//
	// Where the store knows of no rest, this is one of a new generation, unless the newest one ended after Base and after the
	// failure. Where it knows one, the later end holds, and if News.Fresh and its generation is Base, or older, it
	// is a new one from now on, without a probe.
	Rest(ctx context.Context, key CooldownKey, news CooldownNews) (SharedCooldown, error)
	// Probe makes who asks the probe, if the rest is over and no other probe is out, for as long as lease says. It is if the
	// result has its token. A rest that the store does not know is noted first, as by Rest, with its end now.
	Probe(ctx context.Context, key CooldownKey, news CooldownNews, token string, lease time.Duration) (SharedCooldown, error)
	// Free gives back a probe that ended without a verdict. That of another token stays.
	Free(ctx context.Context, key CooldownKey, token string) (SharedCooldown, error)
	// End ends the rest of generation base, or an older one, unless a failure was noted after the success, which is so long
	// ago. With force it ends any.
	End(ctx context.Context, key CooldownKey, base uint64, ago time.Duration, force bool) (SharedCooldown, error)
	// Read returns what holds for each of keys, in their order.
	Read(ctx context.Context, keys []CooldownKey) ([]SharedCooldown, error)
	// Watch calls changed with every change of any key, but for an end that is later by less than a second: of thousands that
	// fail at once each is a little later. It goes on until ctx ends or it can no longer tell, which it returns. It calls
	// watching once it will miss nothing from then on. Both are called one at a time.
	Watch(ctx context.Context, watching func(), changed func(SharedCooldown)) error
}

// CooldownKey is whose rest it is.
type CooldownKey struct {
	// Scope says what Name names: a deployment (Itself), a quota or a credential.
	Scope Scope
	Name  string
}

// CooldownCause is the failure that began a rest.
type CooldownCause struct {
	Class llm.Class
	// Why is the text of the failure without deployment and class, of up to 500 bytes. Deployment is whose it was.
	Why, Deployment string
	// Asked is the wait that the provider asked for. 0: none.
	Asked time.Duration
}

// CooldownNews is what a process tells a [CooldownStore] of a rest.
type CooldownNews struct {
	// Base is the newest generation that the process knew before. 0: none.
	Base uint64
	// Fresh says that a rest begins, or that its probe failed, and not that it was only made longer.
	Fresh bool
	// Ago is how long ago the failure was, Left how long the rest goes on. 0: it was now, and the rest is over.
	Ago, Left time.Duration
	// Failed counts the probes that failed.
	Failed int
	Cause  CooldownCause
}

// SharedCooldown is what a [CooldownStore] knows of a key.
type SharedCooldown struct {
	CooldownKey
	// Gen is the generation, in which a rest began or ended. 0: the store knows nothing of the key.
	Gen uint64
	// Now is when the store said so, Since when the rest began and Until when a probe is due, by the store's clock.
	Now, Since, Until time.Time
	// Resting is true until a probe succeeds, which may be long after Until.
	Resting bool
	// Token is that of the probe that is out, Lease until when it keeps others away. "": none is.
	Token string
	Lease time.Time
	// Failed counts the probes that failed.
	Failed int
	Cause  CooldownCause
}
