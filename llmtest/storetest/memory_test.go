package storetest_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/modelchain/llm/llmtest/storetest"
	"github.com/modelchain/llm/middleware"
)

func TestCooldownsInMemory(t *testing.T) {
	var mu sync.Mutex
	worlds := map[string]*storetest.Cooldowns{}
	of := func(world string) *storetest.Cooldowns {
		mu.Lock()
		defer mu.Unlock()
		if worlds[world] == nil {
			worlds[world] = storetest.NewCooldowns()
		}
		return worlds[world]
	}
	storetest.TestCooldowns(t, storetest.CooldownsTest{
		Open: func(_ *testing.T, world string) middleware.CooldownStore { return of(world) },
		Lose: func(_ *testing.T, world string) { of(world).Lose() },
		Down: func(_ *testing.T, world string) func() {
			of(world).Fail(errors.New("down"))
			return func() { of(world).Fail(nil) }
		},
	})
}

func TestBucketsInMemory(t *testing.T) {
	var mu sync.Mutex
	worlds := map[string]*storetest.Buckets{}
	of := func(world string) *storetest.Buckets {
		mu.Lock()
		defer mu.Unlock()
		if worlds[world] == nil {
			worlds[world] = storetest.NewBuckets()
		}
		return worlds[world]
	}
	storetest.TestBuckets(t, storetest.BucketsTest{
		Open: func(_ *testing.T, world string) middleware.BucketStore { return of(world) },
		Lose: func(_ *testing.T, world string) { of(world).Lose() },
		Down: func(_ *testing.T, world string) func() {
			of(world).Fail(errors.New("down"))
			return func() { of(world).Fail(nil) }
		},
	})
}

func TestSpendsInMemory(t *testing.T) {
	var mu sync.Mutex
	worlds := map[string]*storetest.Spends{}
	of := func(world string) *storetest.Spends {
		mu.Lock()
		defer mu.Unlock()
		if worlds[world] == nil {
			worlds[world] = storetest.NewSpends()
		}
		return worlds[world]
	}
	storetest.TestSpends(t, storetest.SpendsTest{
		Open: func(_ *testing.T, world string) middleware.SpendStore { return of(world) },
		Lose: func(_ *testing.T, world string) { of(world).Lose() },
		Down: func(_ *testing.T, world string) func() {
			of(world).Fail(errors.New("down"), false)
			return func() { of(world).Fail(nil, false) }
		},
	})
}

func TestLimitsInMemory(t *testing.T) {
	var mu sync.Mutex
	worlds := map[string]*storetest.Limits{}
	of := func(world string) *storetest.Limits {
		mu.Lock()
		defer mu.Unlock()
		if worlds[world] == nil {
			worlds[world] = storetest.NewLimits()
		}
		return worlds[world]
	}
	storetest.TestLimits(t, storetest.LimitsTest{
		Open: func(_ *testing.T, world string) middleware.LimitStore { return of(world) },
		Lose: func(_ *testing.T, world string) { of(world).Lose() },
		Down: func(_ *testing.T, world string) func() {
			of(world).Fail(errors.New("down"))
			return func() { of(world).Fail(nil) }
		},
	})
}
