package middleware_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/llmtest/storetest"
	"github.com/modelchain/llm/middleware"
)

// fleetHeld is one replica's way to a store, on which answers and news can be held up.
type fleetHeld struct {
	*storetest.Cooldowns
	read, rest atomic.Pointer[chan struct{}] // until it is closed
}

func hold(p *atomic.Pointer[chan struct{}]) (release func()) {
	c := make(chan struct{})
	p.Store(&c)
	return func() { p.Store(nil); close(c) }
}

func (h *fleetHeld) Read(ctx context.Context, keys []middleware.CooldownKey) ([]middleware.SharedCooldown, error) {
	got, err := h.Cooldowns.Read(ctx, keys)
	if c := h.read.Load(); c != nil {
		<-*c
	}
	return got, err
}

func (h *fleetHeld) Rest(
	ctx context.Context, key middleware.CooldownKey, n middleware.CooldownNews,
) (middleware.SharedCooldown, error) {
	if c := h.rest.Load(); c != nil {
		<-*c
	}
	return h.Cooldowns.Rest(ctx, key, n)
}

// fleetPair is two replicas, the second by a way that can be held up.
func fleetPair(t *testing.T) (first, second fleetReplica, way *fleetHeld, model *llmtest.Model) {
	t.Helper()
	model = llmtest.Script(llmtest.Fail(llm.Overloaded), llmtest.Fail(llm.Overloaded), llmtest.Text("ok"))
	way = &fleetHeld{Cooldowns: storetest.NewCooldowns()}
	return fleetOf(t, 1, model, fleetConfig(way.Cooldowns))[0], fleetOf(t, 1, model, fleetConfig(way))[0], way, model
}

func TestFleetAnAnswerThatCameLateDoesNotUndoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, way, model := fleetPair(t)
		cooldownCall(t, first.chat)
		synctest.Wait()
		release := hold(&way.read)
		done := make(chan error, 1)
		go func() { done <- second.Sync(t.Context()) }() // reads that it rests
		llmtest.Advance(time.Millisecond)
		first.Clear(middleware.Itself, "a")
		synctest.Wait()
		release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := second.Snapshot(); len(s) != 0 {
			t.Errorf("what was read before the end of the rest began it anew, after %d calls: %+v", model.Count(), s)
		}
	})
}

func TestFleetNewsDoNotEndARestThatTheStoreHasYetToBeToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, way, _ := fleetPair(t)
		release := hold(&way.rest)
		cooldownCall(t, second.chat)
		cooldownCall(t, first.chat)
		synctest.Wait()
		first.Clear(middleware.Itself, "a")
		synctest.Wait()
		if !cooldownIsResting(t, second.chat) {
			t.Error("the end of another's rest ended this one, which nobody else knows")
		}
		release()
	})
}
