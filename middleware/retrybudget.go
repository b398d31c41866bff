package middleware

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/modelchain/llm"
)

// RetryBudgetConfig sets a [RetryBudget]. The zero value is the default, measured by simulation: in an outage it lets
// 1.0 to 1.1 attempts a call through at 2 to 200 calls a second, and at 20 % failures it still rescues 99 % of the
// calls.
type RetryBudgetConfig struct {
	// Capacity is how many tokens there are when all is well. 0: 140.
	Capacity int
	// Cost is what a retry costs, AfterRateLimit what it costs after RateLimited, which the provider expects to be
	// repeated. 0: 14 and 5.
	Cost, AfterRateLimit int
	// Success is what a call that succeeds without a retry puts in. 0: 2.
	Success int
	// PerSecond is what time puts in. 0: 1.
	PerSecond int
	// Shared shares the budget with all processes that use the same store, under Name, which must be set. nil: it is this
	// process's own. A fallback has a budget for each of its routes, called Name/route.
	Shared *Buckets
	Name   string
}

// A RetryBudget keeps retries from becoming a storm: a bucket of tokens from which each retry takes some and gets them
// back when it is answered, so that retries that help are free and retries that do not soon end. It is safe for
// concurrent use. Stages share one only if they are given the same.
type RetryBudget struct {
	cfg      RetryBudgetConfig
	start    time.Time
	token    int64 // the time in which one token comes back, in nanoseconds
	capacity int64 // the time in which all do
	// empty is when the bucket was, or would have been, empty: nanoseconds since start. Putting in moves it back,
	// taking out moves it on, and time needs no writing. bucketFull: nothing is missing, so that a success only reads.
	empty  atomic.Int64
	shared *sharedBudget // nil: it is this process's own
}

const (
	bucketFull      = math.MinInt64
	maxBucketAmount = 1_000_000
)

// NewRetryBudget is a full budget, or with Shared the one of that name. It panics on negative amounts, on a Capacity that no
// retry fits into, and on Shared without a Name.
func NewRetryBudget(cfg RetryBudgetConfig) *RetryBudget {
	amount := func(name string, v *int, zero int) {
		if *v < 0 || *v > maxBucketAmount {
			panic(fmt.Sprintf("llm/middleware: RetryBudget: %s is %d; use 0 for %d, or up to %d", name, *v, zero,
				maxBucketAmount))
		}
		if *v == 0 {
			*v = zero
		}
	}
	amount("Capacity", &cfg.Capacity, 140)
	amount("Cost", &cfg.Cost, 14)
	amount("AfterRateLimit", &cfg.AfterRateLimit, 5)
	amount("Success", &cfg.Success, 2)
	amount("PerSecond", &cfg.PerSecond, 1)
	if most := max(cfg.Cost, cfg.AfterRateLimit); most > cfg.Capacity {
		panic(fmt.Sprintf("llm/middleware: RetryBudget: a retry costs %d, more than the Capacity of %d; to have no retries, "+
			"leave Retry out", most, cfg.Capacity))
	}
	b := &RetryBudget{cfg: cfg, start: time.Now(), token: int64(time.Second) / int64(cfg.PerSecond)}
	b.capacity = int64(cfg.Capacity) * b.token
	b.empty.Store(bucketFull)
	if cfg.Shared != nil {
		if cfg.Name == "" {
			panic("llm/middleware: RetryBudget: it is Shared and has no Name; processes know it by that")
		}
		return cfg.Shared.join(b)
	}
	return b
}

// Tokens is how many whole tokens are there now.
func (b *RetryBudget) Tokens() int {
	now := b.now()
	return int(max(now-b.since(b.empty.Load(), now), 0) / b.token / b.scale())
}

// String is what is there of what could be: "126 of 140 tokens".
func (b *RetryBudget) String() string {
	return fmt.Sprintf("%d of %d tokens", b.Tokens(), b.cfg.Capacity)
}

func (b *RetryBudget) now() int64 { return int64(time.Since(b.start)) }

// since is empty, no earlier than a full bucket has it.
func (b *RetryBudget) since(empty, now int64) int64 { return max(empty, now-b.capacity) }

func (b *RetryBudget) cost(after llm.Class) int {
	if after == llm.RateLimited {
		return b.cfg.AfterRateLimit
	}
	return b.cfg.Cost
}

// covers reports whether there is enough for a retry after a failure of class c.
func (b *RetryBudget) covers(c llm.Class) bool { return b.Tokens() >= b.cost(c) }

// withdraw takes what a retry after a failure of class c costs, or says that there is not enough.
func (b *RetryBudget) withdraw(c llm.Class) (cost int, ok bool) {
	cost = b.cost(c)
	for {
		old, now := b.empty.Load(), b.now()
		next := b.since(old, now) + int64(cost)*b.token*b.scale()
		if next > now {
			return 0, false
		}
		if b.empty.CompareAndSwap(old, next) {
			if b.shared != nil {
				b.shared.spent(int64(cost) * b.token)
			}
			return cost, true
		}
	}
}

// charge takes what a move cost that was in vain, or all there is. Moves are charged when they have failed and not when they
// begin: those under way at once are as many as there are calls, and as long as the route answers they must not run out.
func (b *RetryBudget) charge(cost int, err error) {
	if answers(llm.ClassOf(err)) || errors.Is(err, errFaster) {
		return
	}
	for {
		old, now := b.empty.Load(), b.now()
		since, scale := b.since(old, now), b.scale()
		takes := min(int64(cost)*b.token*scale, max(now-since, 0))
		if b.empty.CompareAndSwap(old, since+takes) {
			if b.shared != nil {
				b.shared.spent(takes / scale)
			}
			return
		}
	}
}

// succeeded notes a call that succeeded at once. While nothing is missing it is one atomic read.
func (b *RetryBudget) succeeded() { b.deposit(b.cfg.Success) }

func (b *RetryBudget) deposit(tokens int) {
	for {
		old := b.empty.Load()
		if old == bucketFull {
			return
		}
		next := old - int64(tokens)*b.token*b.scale()
		if next <= b.now()-b.capacity {
			next = bucketFull
		}
		if b.empty.CompareAndSwap(old, next) {
			if b.shared != nil {
				b.shared.spent(-int64(tokens) * b.token)
			}
			return
		}
	}
}

// scale is by how much all costs.
func (b *RetryBudget) scale() int64 {
	if b.shared == nil {
		return 1
	}
	return b.shared.scale.Load()
}

// adopt takes over that the shared bucket lacks so much, without what is not yet told.
func (b *RetryBudget) adopt(lacks int64) {
	for {
		old, now := b.empty.Load(), b.now()
		next := now - b.capacity + lacks + b.shared.pending.Load()
		if next <= now-b.capacity {
			next = bucketFull
		}
		if b.empty.CompareAndSwap(old, next) {
			return
		}
	}
}

// settle gives back what a retry cost if it was answered: a refusal of the request itself is an answer too, and says
// nothing about the provider's health. One that ended because another deployment was faster has had no time to fail.
func (b *RetryBudget) settle(cost int, err error) {
	if err == nil || answers(llm.ClassOf(err)) || errors.Is(err, errFaster) {
		b.deposit(cost)
	}
}

// answers reports whether a failure of class c shows that the provider works: others than time and pace have to mend
// it.
func answers(c llm.Class) bool {
	switch c.Owner() {
	case llm.OwnerRequest, llm.OwnerAuth, llm.OwnerPolicy, llm.OwnerQuota:
		return true
	}
	return false
}
