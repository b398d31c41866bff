package middleware

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/modelchain/llm"
)

// newPace is the exponential part of the waits, without jitter. Its limit leaves room for jitter below Cap: waits that
// are cut at Cap would all be the same.
func (s *retry) newPace() *backoff.ExponentialBackOff {
	longest := time.Duration(float64(s.cfg.Cap) / (1 + s.cfg.Jitter))
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(min(s.cfg.Base, longest)), backoff.WithMultiplier(2), backoff.WithMaxInterval(longest),
		backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0),
	)
}

// wait is how long to wait after e: as asked, unless that is less than any back-off would be.
func (s *retry) wait(pace *backoff.ExponentialBackOff, e *llm.Error) time.Duration {
	interval := float64(pace.NextBackOff())
	least := time.Duration(interval * (1 - s.cfg.Jitter))
	if e.RetryAfter > 0 && e.RetryAfter >= least {
		return noEarlierThan(e.RetryAfter)
	}
	return least + time.Duration(rand.Float64()*2*s.cfg.Jitter*interval)
}

// noEarlierThan is asked and up to a tenth more, at most a second: those who were told the same do not come back in the
// same instant.
func noEarlierThan(asked time.Duration) time.Duration {
	if spread := min(asked/10, time.Second); spread > 0 {
		return max(asked, asked+rand.N(spread))
	}
	return asked
}

// endedWaiting is the error of a call whose ctx ended after the failure last and before the next attempt.
func endedWaiting(ctx context.Context, last error, waited time.Duration) error {
	e := llm.ContextError(ctx, last)
	e.Commit = llm.AsError(last).Commit // nothing was under way
	e.RetryAfter = max(e.RetryAfter-waited, 0)
	e.Err = &endedAfter{why: context.Cause(ctx), last: last}
	return e
}

// sleepUnlessDone waits for d and reports whether ctx outlasted it.
func sleepUnlessDone(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
