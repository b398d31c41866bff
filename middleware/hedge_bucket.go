package middleware

import "sync/atomic"

// hedgeBucket is the bucket of tokens that hedges are taken from.
type hedgeBucket struct {
	earned int64        // by a call
	level  atomic.Int64 // what is there
}

const (
	hedgeToken = 1_000_000
	hedgeBurst = 10 * hedgeToken
)

func newHedgeBucket(share float64) *hedgeBucket {
	b := &hedgeBucket{earned: max(int64(share*hedgeToken), 1)}
	b.level.Store(hedgeBurst)
	return b
}

// earn puts in what a call brings. While nothing is missing it is one atomic read.
func (b *hedgeBucket) earn() { b.put(b.earned) }

func (b *hedgeBucket) put(n int64) {
	for {
		old := b.level.Load()
		if old >= hedgeBurst || b.level.CompareAndSwap(old, min(old+n, hedgeBurst)) {
			return
		}
	}
}

// has reports whether there is a token.
func (b *hedgeBucket) has() bool { return b.level.Load() >= hedgeToken }

// take takes a token, if there is one.
func (b *hedgeBucket) take() bool {
	for {
		old := b.level.Load()
		if old < hedgeToken {
			return false
		}
		if b.level.CompareAndSwap(old, old-hedgeToken) {
			return true
		}
	}
}

// giveBack returns the token of a hedge that called nobody.
func (b *hedgeBucket) giveBack() { b.put(hedgeToken) }
