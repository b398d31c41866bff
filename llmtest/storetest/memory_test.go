package storetest_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/modelchain/llm/llmtest/storetest"
	"github.com/modelchain/llm/middleware"
)

// inMemory reaches doubles, of which each world has one. open makes an S of one.
func inMemory[D interface{ Lose() }, S any](made func() D, open func(D) S, fail func(D, error)) storetest.Access[S] {
	var mu sync.Mutex
	worlds := map[string]D{}
	of := func(world string) D {
		mu.Lock()
		defer mu.Unlock()
		d, ok := worlds[world]
		if !ok {
			d = made()
			worlds[world] = d
		}
		return d
	}
	return storetest.Access[S]{
		Open: func(_ *testing.T, world string) S { return open(of(world)) },
		Lose: func(_ *testing.T, world string) { of(world).Lose() },
		Down: func(_ *testing.T, world string) func() {
			fail(of(world), errors.New("down"))
			return func() { fail(of(world), nil) }
		},
	}
}

func TestCooldownsInMemory(t *testing.T) {
	storetest.TestCooldowns(t, inMemory(storetest.NewCooldowns,
		func(d *storetest.Cooldowns) middleware.CooldownStore { return d }, (*storetest.Cooldowns).Fail))
}

func TestBucketsInMemory(t *testing.T) {
	storetest.TestBuckets(t, inMemory(storetest.NewBuckets,
		func(d *storetest.Buckets) middleware.BucketStore { return d }, (*storetest.Buckets).Fail))
}

func TestSpendsInMemory(t *testing.T) {
	storetest.TestSpends(t, inMemory(storetest.NewSpends,
		func(d *storetest.Spends) middleware.SpendStore { return d },
		func(d *storetest.Spends, err error) { d.Fail(err, false) }))
}

func TestLimitsInMemory(t *testing.T) {
	storetest.TestLimits(t, inMemory(storetest.NewLimits,
		func(d *storetest.Limits) middleware.LimitStore { return d }, (*storetest.Limits).Fail))
}
