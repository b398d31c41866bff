package middleware

import (
	"context"
	"reflect"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	meternoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// signals are the tracer and the instruments, made once for the providers they come from.
type signals struct {
	tracers trace.TracerProvider
	metrics metric.MeterProvider
	tracer  trace.Tracer // nil: off
	meters  *meters      // nil: off
}

// signals asks which providers are in force and makes anew what comes from them when they have changed.
func (t *telemetry) signals() *signals {
	tp, mp := t.tracers, t.metrics
	if tp == nil {
		tp = otel.GetTracerProvider()
	}
	if mp == nil {
		mp = otel.GetMeterProvider()
	}
	if s := t.now.Load(); s != nil && s.tracers == tp && s.metrics == mp {
		return s
	}
	return t.connect(tp, mp)
}

func (t *telemetry) connect(tp trace.TracerProvider, mp metric.MeterProvider) *signals {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.now.Load()
	if old != nil && old.tracers == tp && old.metrics == mp {
		return old
	}
	s := &signals{tracers: identity(tp), metrics: identity(mp)}
	if !silent(tp) {
		s.tracer = tp.Tracer(scopeName, trace.WithSchemaURL(t.schemaURL))
	}
	switch {
	case old != nil && old.metrics == mp:
		s.meters = old.meters
	case !silent(mp):
		s.meters = t.newMeters(mp)
	}
	if old != nil && old.meters != s.meters {
		old.meters.close()
	}
	t.now.Store(s)
	return s
}

// identity is p, or the zero value where comparing it would panic: such a provider is taken for a new one each time.
func identity[P any](p P) P {
	if !reflect.ValueOf(p).Comparable() {
		var none P
		return none
	}
	return p
}

func silent(provider any) bool {
	switch provider.(type) {
	case nil, tracenoop.TracerProvider, meternoop.MeterProvider:
		return true
	}
	return placeholder(provider)
}

// placeholder reports whether a provider is what package otel returns until an SDK is installed; afterwards it returns the
// SDK's. Spans of a placeholder can be told from an SDK's only when they have been paid for, its type before.
func placeholder(provider any) bool {
	t := reflect.TypeOf(provider)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() == "go.opentelemetry.io/otel/internal/global"
}

// enabled reports whether any instrument is listened to.
func (m *meters) enabled(ctx context.Context) bool {
	if m == nil {
		return false
	}
	for _, i := range m.all {
		if i.Enabled(ctx) {
			return true
		}
	}
	return false
}

// close ends the reading of the cooldowns.
func (m *meters) close() {
	if m == nil || m.cooldowns == nil {
		return
	}
	if err := m.cooldowns.Unregister(); err != nil {
		otel.Handle(err)
	}
}
