package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/llmtest/storetest"
	"github.com/modelchain/llm/middleware"
)

// fleetReplica is one process of several that share a store.
type fleetReplica struct {
	*middleware.Cooldowns
	chat llm.Caller
}

// fleetOf starts n replicas in front of one model.
func fleetOf(t *testing.T, n int, model llm.Caller, cfg middleware.CooldownConfig) []fleetReplica {
	t.Helper()
	replicas := make([]fleetReplica, n)
	for i := range replicas {
		c := middleware.NewCooldowns(cfg)
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		replicas[i] = fleetReplica{c, cooldownAround(c, "a", model)}
		if err := c.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return replicas
}

func fleetConfig(s middleware.CooldownStore) middleware.CooldownConfig {
	return middleware.CooldownConfig{Store: s, Logger: slog.New(slog.DiscardHandler)}
}

// fleetAbout allows for what is added to a wait that a provider asks for.
func fleetAbout(got, asked time.Duration) bool { return got >= asked && got <= asked+time.Second }

func TestFleetOneReplicaMeetsTheOutageAndAllRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.Overloaded, Message: "busy", RetryAfter: 2 * time.Minute}))
		fleet := fleetOf(t, 3, model, fleetConfig(storetest.NewCooldowns()))
		cooldownCall(t, fleet[0].chat)
		synctest.Wait()
		for i, r := range fleet {
			e := cooldownCall(t, r.chat)
			if e == nil || e.Class != llm.Cooling || !fleetAbout(e.RetryAfter, 2*time.Minute) {
				t.Errorf("replica %d: %v", i, e)
			}
			if s := r.Snapshot(); len(s) != 1 || s[0].Class != llm.Overloaded || s[0].Deployment != "a" ||
				s[0].Why != "llm: a: overloaded: busy" || s[0].Asked != 2*time.Minute || !fleetAbout(time.Until(s[0].Until), 2*time.Minute) {
				t.Errorf("replica %d: %+v", i, s)
			}
		}
		if model.Count() != 1 {
			t.Errorf("%d calls, want the one that met the outage", model.Count())
		}
	})
}

func TestFleetTheLaterEndHoldsWhoeverSaidIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewCooldowns()
		busy := func(wait time.Duration) func(llm.Caller) llm.Caller {
			c := middleware.NewCooldowns(fleetConfig(store))
			t.Cleanup(func() { _ = c.Close() })
			return func(m llm.Caller) llm.Caller { return cooldownAround(c, "a", m) }
		}
		long, short := busy(0), busy(0)
		decideLong, longResult := cooldownHeld(t, long)
		decideShort, shortResult := cooldownHeld(t, short)
		synctest.Wait()
		decideLong(&llm.Error{Class: llm.RateLimited, RetryAfter: 10 * time.Minute})
		longResult()
		synctest.Wait()
		decideShort(&llm.Error{Class: llm.RateLimited, RetryAfter: 2 * time.Minute})
		shortResult()
		synctest.Wait()
		for name, around := range map[string]func(llm.Caller) llm.Caller{"long": long, "short": short} {
			if e := cooldownCall(t, around(llmtest.Script())); e == nil || e.RetryAfter < 10*time.Minute {
				t.Errorf("%s: %v, want the longer rest", name, e)
			}
		}
	})
}

func TestFleetSendsOneProbe(t *testing.T) {
	for name, c := range map[string]struct {
		outcome llm.Caller
		after   time.Duration // what is left of the rest
	}{
		"success": {llmtest.Script(llmtest.Text("ok")), 0},
		"failure": {llmtest.Script(llmtest.Fail(llm.Overloaded)), 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				probe := func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
					llmtest.Advance(10 * time.Second)
					return c.outcome.Call(ctx, req)
				}
				model := llmtest.Script(llmtest.Fail(llm.Overloaded), llmtest.Step{Func: probe}, llmtest.Text("serves"))
				fleet := fleetOf(t, 8, model, fleetConfig(storetest.NewCooldowns()))
				cooldownCall(t, fleet[0].chat)
				llmtest.Advance(time.Minute)
				var all sync.WaitGroup
				for range 5 {
					for _, r := range fleet {
						all.Go(func() { _, _ = r.chat.Call(t.Context(), retryAsk()) })
					}
				}
				all.Wait()
				if model.Count() != 2 {
					t.Errorf("%d calls, want the failure and one probe", model.Count())
				}
				synctest.Wait()
				for i, r := range fleet {
					e := cooldownCall(t, r.chat)
					switch {
					case c.after == 0 && e != nil, c.after > 0 && (e == nil || e.RetryAfter < c.after):
						t.Errorf("replica %d after the probe: %v", i, e)
					}
				}
			})
		})
	}
}

func TestFleetAProbeWithoutAVerdictPassesToAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Fail(llm.Overloaded), llmtest.Fail(context.Canceled), llmtest.Text("ok"))
		fleet := fleetOf(t, 2, model, fleetConfig(storetest.NewCooldowns()))
		cooldownCall(t, fleet[0].chat)
		llmtest.Advance(time.Minute)
		cooldownCall(t, fleet[0].chat) // canceled
		synctest.Wait()
		if e := cooldownCall(t, fleet[1].chat); e != nil {
			t.Errorf("the next probe: %v", e)
		}
	})
}

func TestFleetAProbeThatDiesLeavesItsPlaceWhenItsLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Fail(llm.Overloaded), llmtest.Step{Hang: true}, llmtest.Text("ok"))
		fleet := fleetOf(t, 2, model, fleetConfig(storetest.NewCooldowns()))
		cooldownCall(t, fleet[0].chat)
		llmtest.Advance(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = fleet[0].chat.Call(ctx, retryAsk()) }()
		synctest.Wait()
		if err := fleet[0].Close(); err != nil { // it is gone: nobody gives back its probe
			t.Fatal(err)
		}
		if e := cooldownCall(t, fleet[1].chat); e == nil || e.RetryAfter != 30*time.Second {
			t.Errorf("while the lease holds: %v", e)
		}
		llmtest.Advance(30*time.Second + time.Millisecond)
		if e := cooldownCall(t, fleet[1].chat); e != nil {
			t.Errorf("after the lease: %v", e)
		}
	})
}

func TestFleetASuccessAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewCooldowns()
		fleet := fleetOf(t, 1, cooldownNoop(), fleetConfig(store))
		synctest.Wait()
		before := store.Operations()
		for range 1000 {
			cooldownCall(t, fleet[0].chat)
		}
		synctest.Wait()
		if n := store.Operations() - before; n != 0 {
			t.Errorf("1000 calls that succeeded made %d operations", n)
		}
	})
}

func TestFleetWhoComesLaterKnowsWhatRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewCooldowns()
		first := fleetOf(t, 1, llmtest.Script(llmtest.Fail(llm.Overloaded)), fleetConfig(store))
		cooldownCall(t, first[0].chat)
		synctest.Wait()
		if err := first[0].Close(); err != nil {
			t.Fatal(err)
		}
		llmtest.Advance(20 * time.Second)
		model := llmtest.Script()
		if e := cooldownCall(t, fleetOf(t, 1, model, fleetConfig(store))[0].chat); e == nil || e.RetryAfter != 40*time.Second ||
			model.Count() != 0 {
			t.Errorf("after %d calls: %v, want the 40s that are left", model.Count(), e)
		}
	})
}

func TestFleetTellsTheStoreOnceOfEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewCooldowns()
		fleet := fleetOf(t, 2, llmtest.Script(llmtest.Fail(llm.Overloaded), llmtest.Text("ok")), fleetConfig(store))
		synctest.Wait()
		before := store.Operations()
		cooldownCall(t, fleet[0].chat)
		synctest.Wait()
		if n := store.Operations() - before; n != 1 {
			t.Errorf("a rest took %d operations, want 1", n)
		}
		llmtest.Advance(time.Minute)
		before = store.Operations()
		cooldownCall(t, fleet[1].chat)
		synctest.Wait()
		if n := store.Operations() - before; n != 3 {
			t.Errorf("a probe took %d operations, want 3: it is asked for, it ends the rest, it is given back", n)
		}
	})
}

func TestFleetClearEndsTheRestOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Fail(llm.Quota), llmtest.Text("ok"))
		fleet := fleetOf(t, 2, model, fleetConfig(storetest.NewCooldowns()))
		cooldownCall(t, fleet[0].chat)
		synctest.Wait()
		if !fleet[1].Clear(middleware.Itself, "a") {
			t.Error("the second replica knew of no rest")
		}
		synctest.Wait()
		if e := cooldownCall(t, fleet[0].chat); e != nil {
			t.Errorf("the first replica: %v", e)
		}
	})
}

// fleetAlarms are the records and the metric of a store that goes down and comes back.
type fleetAlarms struct {
	mu     sync.Mutex
	text   bytes.Buffer
	reader *metric.ManualReader
}

func (a *fleetAlarms) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.Write(p)
}

func (a *fleetAlarms) config(s middleware.CooldownStore) middleware.CooldownConfig {
	a.reader = metric.NewManualReader()
	return middleware.CooldownConfig{
		Store: s, Logger: slog.New(slog.NewTextHandler(a, nil)),
		Meter: metric.NewMeterProvider(metric.WithReader(a.reader)),
	}
}

// expect fails unless there were so many records of each kind, and the gauge is up.
func (a *fleetAlarms) expect(t *testing.T, down, back int, up int64) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if d, b := strings.Count(a.text.String(), "llm store down"), strings.Count(a.text.String(), "llm store back"); d != down || b != back {
		t.Errorf("%d records of the store going down and %d of its return, want %d and %d:\n%s", d, b, down, back, a.text.String())
	}
	var all metricdata.ResourceMetrics
	if err := a.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if g, ok := m.Data.(metricdata.Gauge[int64]); ok && m.Name == "llm.client.store.up" && g.DataPoints[0].Value != up {
				t.Errorf("llm.client.store.up is %d, want %d", g.DataPoints[0].Value, up)
			}
		}
	}
}

func TestFleetGoesOnAloneWhileTheStoreIsDownAndReconcilesThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, alarms := storetest.NewCooldowns(), &fleetAlarms{}
		model := llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.Overloaded, RetryAfter: 20 * time.Minute}), llmtest.Text("ok"))
		fleet := fleetOf(t, 2, model, alarms.config(store))
		alarms.expect(t, 0, 0, 1)
		store.Fail(errors.New("connection refused"))
		start := time.Now()
		cooldownCall(t, fleet[0].chat)
		if !cooldownIsResting(t, fleet[0].chat) {
			t.Error("without a store the failure rests nobody")
		}
		if e := cooldownCall(t, fleet[1].chat); e != nil {
			t.Errorf("the other replica, which cannot know: %v", e)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("the calls took %v", d)
		}
		llmtest.Advance(10 * time.Minute)
		alarms.expect(t, 2, 0, 0) // one of each replica
		store.Fail(nil)
		llmtest.Advance(10 * time.Second)
		alarms.expect(t, 2, 2, 1)
		for i, r := range fleet {
			if e := cooldownCall(t, r.chat); e == nil || !fleetAbout(e.RetryAfter, 10*time.Minute-10*time.Second) {
				t.Errorf("replica %d after the store's return: %v, want what is left of the 20m", i, e)
			}
		}
	})
}

func TestFleetAFlushCostsNoRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewCooldowns()
		model := llmtest.Script(llmtest.Fail(&llm.Error{Class: llm.Overloaded, RetryAfter: 20 * time.Minute}), llmtest.Text("ok"))
		fleet := fleetOf(t, 2, model, fleetConfig(store))
		cooldownCall(t, fleet[0].chat)
		synctest.Wait()
		store.Lose()
		llmtest.Advance(time.Minute)
		for i, r := range append(fleet, fleetOf(t, 1, model, fleetConfig(store))...) { // one that starts afterwards, too
			if e := cooldownCall(t, r.chat); e == nil || !fleetAbout(e.RetryAfter, 19*time.Minute) {
				t.Errorf("replica %d: %v", i, e)
			}
		}
	})
}

// fleetDeaf is a store that answers nothing.
type fleetDeaf struct {
	middleware.CooldownStore
	deaf sync.Mutex
	is   bool
}

func (d *fleetDeaf) Probe(
	ctx context.Context, key middleware.CooldownKey, n middleware.CooldownNews, token string, lease time.Duration,
) (middleware.SharedCooldown, error) {
	d.deaf.Lock()
	deaf := d.is
	d.deaf.Unlock()
	if deaf {
		<-ctx.Done()
		return middleware.SharedCooldown{}, ctx.Err()
	}
	return d.CooldownStore.Probe(ctx, key, n, token, lease)
}

// late lets the store answer no question about probes from now on, or all of them.
func (d *fleetDeaf) late(is bool) {
	d.deaf.Lock()
	defer d.deaf.Unlock()
	d.is = is
}

func TestFleetAStoreThatIsLateOnceLetsOutNoSecondProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := storetest.NewCooldowns()
		first := &fleetDeaf{CooldownStore: shared}
		model := llmtest.Script(llmtest.Fail(llm.Overloaded), llmtest.Text("ok"))
		a, b := fleetOf(t, 1, model, fleetConfig(first))[0], fleetOf(t, 1, model, fleetConfig(shared))[0]
		cooldownCall(t, a.chat)
		llmtest.Advance(time.Minute)
		first.late(true)
		start := time.Now()
		e := cooldownCall(t, a.chat)
		if d := time.Since(start); d != 20*time.Millisecond {
			t.Errorf("it waited %v for the store, want 20ms", d)
		}
		if e == nil || e.Class != llm.Cooling || e.RetryAfter != 20*time.Millisecond || model.Count() != 1 {
			t.Errorf("the store was late, and the call ended with %v after %d calls of the fleet", e, model.Count())
		}
		first.late(false)
		synctest.Wait()
		if e := cooldownCall(t, b.chat); e != nil { // nothing is kept for a probe that was not sent
			t.Errorf("the other replica's probe: %v", e)
		}
	})
}

func TestFleetAStoreThatDoesNotAnswerDelaysAProbeByItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fleetDeaf{CooldownStore: storetest.NewCooldowns(), is: true}
		model := llmtest.Script(llmtest.Fail(llm.Overloaded), llmtest.Text("ok"))
		fleet := fleetOf(t, 1, model, fleetConfig(store))
		cooldownCall(t, fleet[0].chat)
		llmtest.Advance(time.Minute)
		for i := range 3 {
			start := time.Now()
			if e := cooldownCall(t, fleet[0].chat); (e == nil) != (i == 2) {
				t.Errorf("call %d: %v, want the third to be the probe", i+1, e)
			}
			if d := time.Since(start); d != 20*time.Millisecond {
				t.Errorf("call %d waited %v for the store, want 20ms", i+1, d)
			}
		}
	})
}

func TestFleetAListenerThatPanicsEndsNoGoroutineOfOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := fleetConfig(storetest.NewCooldowns())
		told := 0
		quiet := cfg
		cfg.OnChange = func(middleware.CooldownState) { told++; panic("listener") }
		model := llmtest.Script(llmtest.Fail(llm.Overloaded))
		listening := fleetOf(t, 1, model, cfg)
		cooldownCall(t, fleetOf(t, 1, model, quiet)[0].chat)
		synctest.Wait()
		if told != 1 || !cooldownIsResting(t, listening[0].chat) {
			t.Errorf("told %d times", told)
		}
	})
}

func TestFleetSyncSaysWhyItDidNotHappen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewCooldowns()
		store.Fail(errors.New("down"))
		c := middleware.NewCooldowns(fleetConfig(store))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Sync(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a server: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := c.Sync(t.Context()); err == nil {
			t.Error("closed, it is in step")
		}
		if err := middleware.NewCooldowns(middleware.CooldownConfig{}).Sync(t.Context()); err != nil {
			t.Errorf("without a store: %v", err)
		}
	})
}
