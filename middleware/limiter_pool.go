package middleware

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"sync"
	"time"
)

// limitPool is what the calls of one deployment, quota or named pool share.
type limitPool struct {
	name  string
	cfg   *LimiterConfig
	fleet *limitFleet // nil: nothing is shared

	mu   sync.Mutex
	all  limitLine
	keys map[string]*limitKey // nil: all calls are of one key
	ring limitKey             // the keys by use: ring.next is the one used last
	rest *limitKey            // what keys share that cannot be told apart
}

// limitKey is a key's part of a pool.
type limitKey struct {
	prev, next *limitKey
	name       string
	line       *limitLine // nil: no limits of its own
	round      int64      // its last in the pool's line
	calls      int        // that hold a permit or wait, where keys are told apart
	seen       time.Time
}

func newLimitPool(name string, cfg *LimiterConfig, fleet *limitFleet) *limitPool {
	pool := &limitPool{name: name, cfg: cfg, fleet: fleet}
	pool.all = limitLine{buckets: newBuckets(cfg.Limits, cfg.Burst, cfg.Ramp), inFlight: cfg.Limits.InFlight}
	if cfg.Key == nil && fleet == nil {
		pool.all.lent = newLentLimits(pool.all.minute)
	}
	if cfg.Limits != (Limits{}) {
		fleet.join(pool, &pool.all, sharedName(cfg.Name, name), true)
	}
	pool.rest = pool.newKey("(keys beyond MaxKeys)")
	if cfg.Key != nil {
		pool.keys = map[string]*limitKey{}
		pool.ring.next, pool.ring.prev = &pool.ring, &pool.ring
	}
	return pool
}

// lock locks mu, with all that is lent at hand.
func (pool *limitPool) lock() {
	pool.mu.Lock()
	pool.all.gather()
}

func (pool *limitPool) newKey(name string) *limitKey {
	k := &limitKey{name: name, round: -1}
	if pool.cfg.PerKey != (Limits{}) {
		k.line = &limitLine{
			buckets: newBuckets(pool.cfg.PerKey, pool.cfg.Burst, pool.cfg.Ramp), inFlight: pool.cfg.PerKey.InFlight,
		}
		pool.fleet.join(pool, k.line, sharedName(pool.cfg.Name, pool.name, name), false)
	}
	return k
}

// longestKey is up to where a key is kept as it is.
const longestKey = 256

// key finds the key called name, or makes it. It is called with mu held.
func (pool *limitPool) key(name string, now time.Time) *limitKey {
	if pool.keys == nil {
		return pool.rest
	}
	if len(name) > longestKey {
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:])
	}
	k := pool.keys[name]
	switch {
	case k == nil && !pool.makeRoom(now):
		return pool.rest
	case k == nil:
		k = pool.newKey(name)
		pool.keys[name] = k
	case pool.ring.next == k:
		k.seen = now
		return k
	default:
		k.unlink()
	}
	k.seen = now
	pool.toFront(k)
	return k
}

func (k *limitKey) unlink() { k.prev.next, k.next.prev = k.next, k.prev }

func (pool *limitPool) toFront(k *limitKey) {
	k.prev, k.next = &pool.ring, pool.ring.next
	k.prev.next, k.next.prev = k, k
}

// makeRoom forgets keys of which nothing is to be remembered, from the one that was not used for the longest time on: what was
// idle for a minute, two at a time, and more than that if there is no room for another. It reports whether there is.
func (pool *limitPool) makeRoom(now time.Time) bool {
	const few, many, idle = 2, 8, time.Minute
	for n := 0; n < many && len(pool.keys) > 0; n++ {
		k, full := pool.ring.prev, len(pool.keys) >= pool.cfg.MaxKeys
		if !full && (n >= few || now.Sub(k.seen) < idle) {
			break
		}
		forgettable := k.calls == 0 && (k.line == nil || k.line.recovered(now) && k.line.shared.quiet())
		if !forgettable && !full {
			break
		}
		k.unlink()
		if forgettable {
			delete(pool.keys, k.name)
			if k.line != nil {
				pool.fleet.forget(k.line.shared)
			}
		} else {
			pool.toFront(k) // the next time others are looked at first
		}
	}
	return len(pool.keys) < pool.cfg.MaxKeys
}

// sharedName is what a limit is called in a Store: no two of different parts are the same.
func sharedName(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
