package middleware

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const keyStore = attribute.Key("llm.store")

// storeHealth is the breaker of a shared store: while it is open, no call asks the store.
type storeHealth struct {
	what   string // such as "cooldowns"
	logger *slog.Logger
	up     metric.Int64Gauge
	failed metric.Int64Counter

	isDown atomic.Bool
	mu     sync.Mutex
	bad    [2]int // failures in a row of operations, and of watching
	lost   int    // failures since it is down
}

// storeTrips is how many failures in a row show that a store is down: one may be a pause of this very process.
const storeTrips = 3

// What fails: see storeHealth.bad.
const (
	storeOps = iota
	storeWatch
)

func newStoreHealth(what string, meters metric.MeterProvider, logger *slog.Logger) *storeHealth {
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	meter := meters.Meter(scopeName, metric.WithSchemaURL(schemaURL))
	h := &storeHealth{what: what, logger: logger}
	var err error
	h.up, err = meter.Int64Gauge("llm.client.store.up", metric.WithDescription(
		"1: the shared store answers. 0: it does not, and this process goes on alone."))
	if err != nil {
		otel.Handle(err)
	}
	h.failed, err = meter.Int64Counter("llm.client.store.failures", metric.WithUnit("{operation}"),
		metric.WithDescription("Operations of a shared store that failed or came too late."))
	if err != nil {
		otel.Handle(err)
	}
	h.up.Record(context.Background(), 1, h.attributes())
	h.failed.Add(context.Background(), 0, h.attributes())
	return h
}

func (h *storeHealth) attributes() metric.MeasurementOption {
	return attrSet(nil, keyStore.String(h.what))
}

func (h *storeHealth) down() bool { return h.isDown.Load() }

// note counts how an operation ended, and tells when that changes whether the store is up.
func (h *storeHealth) note(of int, err error) {
	ctx := context.Background()
	if err != nil {
		h.failed.Add(ctx, 1, h.attributes())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.bad[of] = 0
	} else {
		h.bad[of]++
		h.lost++
	}
	worst, was := max(h.bad[storeOps], h.bad[storeWatch]), h.isDown.Load()
	down := worst >= storeTrips || was && worst > 0
	if down == was {
		if worst == 0 {
			h.lost = 0
		}
		return
	}
	h.isDown.Store(down)
	log := h.logger
	if log == nil {
		log = slog.Default()
	}
	if down {
		h.up.Record(ctx, 0, h.attributes())
		log.LogAttrs(ctx, slog.LevelError, "llm store down", slog.String("store", h.what),
			slog.String("then", "this process goes on alone"), slog.String("error", err.Error()))
		return
	}
	h.up.Record(ctx, 1, h.attributes())
	log.LogAttrs(ctx, slog.LevelInfo, "llm store back", slog.String("store", h.what), slog.Int("failed_operations", h.lost))
	h.lost = 0
}

// storePause is how long to leave a store alone after it failed for the nth time in a row, from 0: 50 ms doubling to about
// 2 s, spread so that replicas do not come back at once.
func storePause(n int) time.Duration {
	d := min(50*time.Millisecond<<min(n, 10), 2*time.Second)
	return d/2 + rand.N(d/2)
}

// An alarm rouses the goroutine that receives from it, once however often it is rung meanwhile.
type alarm chan struct{}

func newAlarm() alarm { return make(alarm, 1) }

// rouse never waits.
func (a alarm) rouse() {
	select {
	case a <- struct{}{}:
	default:
	}
}
