package middleware_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

func TestTheDeadlineTravelsInAHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		h := http.Header{}
		middleware.WriteDeadline(ctx, h)
		if got := h.Get("X-Request-Timeout-Ms"); got != "2500" {
			t.Errorf("%q", got)
		}
		there, done := middleware.ReadDeadline(t.Context(), h)
		defer done()
		start := time.Now()
		_, err := llm.New(middleware.Deadline(middleware.DeadlineConfig{})).
			Then(fallbackDep("d", llmtest.Script(llmtest.Step{Hang: true}))).Call(there, fallbackAsk())
		if time.Since(start) != 2500*time.Millisecond || !errors.Is(err, llm.Exhausted) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		middleware.WriteDeadline(there, h)
		if got := h.Get("X-Request-Timeout-Ms"); got != "1" {
			t.Errorf("of a time that is over: %q", got)
		}
		h = http.Header{}
		if middleware.WriteDeadline(t.Context(), h); len(h) != 0 {
			t.Errorf("without a deadline: %v", h)
		}
	})
}

func TestReadDeadlineTakesTheShortestThatItCanRead(t *testing.T) {
	for name, test := range map[string]struct {
		h    http.Header
		want time.Duration // 0: none
	}{
		"none":               {nil, 0},
		"ours":               {http.Header{"X-Request-Timeout-Ms": {"1500"}}, 1500 * time.Millisecond},
		"Envoy's":            {http.Header{"X-Envoy-Expected-Rq-Timeout-Ms": {"900"}}, 900 * time.Millisecond},
		"an official client": {http.Header{"X-Stainless-Timeout": {"600"}}, 10 * time.Minute},
		"a fraction":         {http.Header{"X-Stainless-Timeout": {"1.5"}}, 1500 * time.Millisecond},
		"gRPC":               {http.Header{"Grpc-Timeout": {"100m"}}, 100 * time.Millisecond},
		"gRPC, hours":        {http.Header{"Grpc-Timeout": {"99999999H"}}, 0},
		"the shortest":       {http.Header{"X-Stainless-Timeout": {"600"}, "Grpc-Timeout": {"2S"}, "X-Request-Timeout-Ms": {"3000", "4000"}}, 2 * time.Second},
		"nonsense":           {http.Header{"X-Stainless-Timeout": {"0"}, "Grpc-Timeout": {"S", "5", "-1S", "123456789S"}, "X-Request-Timeout-Ms": {"-5", "x", "NaN", "0", ""}}, 0},
		"very long":          {http.Header{"X-Request-Timeout-Ms": {"1e300"}}, 1 << 62},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := middleware.ReadDeadline(t.Context(), test.h)
			defer cancel()
			end, ok := ctx.Deadline()
			if left := time.Until(end); ok != (test.want > 0) || ok && (left > test.want || left < test.want-time.Second/2 && test.want < time.Hour) {
				t.Errorf("%s: %v left, %t; want %v", name, left, ok, test.want)
			}
			cancel()
			if !errors.Is(ctx.Err(), context.Canceled) {
				t.Errorf("%s: canceled, and %v", name, ctx.Err())
			}
		})
	}
	sooner, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ctx, done := middleware.ReadDeadline(sooner, http.Header{"X-Request-Timeout-Ms": {"3600000"}})
	defer done()
	if a, _ := ctx.Deadline(); time.Until(a) > time.Minute {
		t.Error("a later deadline replaced the earlier one")
	}
}
