package middleware

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"
)

// DeadlineHeader is the header that [WriteDeadline] sets: the time left in whole milliseconds. It is a span and not a date,
// because clocks of two machines differ.
const DeadlineHeader = "X-Request-Timeout-Ms"

// WriteDeadline tells the server of a request with the header h how much time ctx has left, at least 1 ms. Without a deadline
// it does nothing. Set it last, just before the request is sent.
func WriteDeadline(ctx context.Context, h http.Header) {
	if end, ok := ctx.Deadline(); ok {
		h.Set(DeadlineHeader, strconv.FormatInt(max(time.Until(end).Milliseconds(), 1), 10))
	}
}

// ReadDeadline derives a context that ends when the time is over that the sender of h gives its request, if that is earlier
// than ctx's own end. It reads DeadlineHeader, X-Envoy-Expected-Rq-Timeout-Ms (Envoy's router filter), Grpc-Timeout (gRPC over
// HTTP/2) and X-Stainless-Timeout, in seconds (the official clients of OpenAI and Anthropic); the shortest counts. What cannot
// be read, and 0, counts for none. The time that the request was on its way is not known, and so not taken off.
//
// The context's cause is that of any deadline: a call that runs into it says that the caller's deadline passed. Call cancel
// when the request is answered.
func ReadDeadline(ctx context.Context, h http.Header) (_ context.Context, cancel context.CancelFunc) {
	least := time.Duration(math.MaxInt64)
	for _, s := range []struct {
		header string
		read   func(string) time.Duration
	}{
		{DeadlineHeader, inUnits(time.Millisecond)},
		{"X-Envoy-Expected-Rq-Timeout-Ms", inUnits(time.Millisecond)},
		{"X-Stainless-Timeout", inUnits(time.Second)},
		{"Grpc-Timeout", grpcTimeout},
	} {
		for _, v := range h.Values(s.header) {
			if d := s.read(v); d > 0 {
				least = min(least, d)
			}
		}
	}
	if least == math.MaxInt64 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, least)
}

// inUnits reads a number of units, fractions too. 0: it is none.
func inUnits(unit time.Duration) func(string) time.Duration {
	return func(s string) time.Duration {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil || !(n > 0) {
			return 0
		}
		return time.Duration(min(n*float64(unit), math.MaxInt64/2))
	}
}

// grpcTimeout reads at most eight digits and a unit.
func grpcTimeout(s string) time.Duration {
	units := map[byte]time.Duration{
		'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
	}
	if len(s) < 2 || len(s) > 9 {
		return 0
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	unit := units[s[len(s)-1]]
	if err != nil || unit == 0 || n > math.MaxInt64/2/uint64(unit) {
		return 0
	}
	return time.Duration(n) * unit
}
