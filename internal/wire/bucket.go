package wire

import (
	"net/http"
	"strings"
	"time"
)

// bucket finds the reset of the exhausted limit in the headers. Of several it takes the latest.
func bucket(h http.Header, now time.Time) (d time.Duration, date bool, name string, ok bool) {
	if len(h) == 0 {
		return
	}
	take := func(v time.Duration, isDate bool, from string) {
		if !ok || v > d {
			d, date, name, ok = v, isDate, from, true
		}
	}
	for _, k := range anthropicBuckets {
		if v := get(h, k.reset); v != "" && get(h, k.left) == k.none {
			if at, err := time.Parse(time.RFC3339, v); err == nil {
				take(until(at, now), false, k.reset)
			} else if at, ok := epoch(v, now); ok {
				take(until(at, now), at.Sub(now) >= time.Hour, k.reset)
			}
		}
	}
	if ok {
		return
	}
	for _, k := range windowBuckets {
		if get(h, k.left) == k.none {
			if v, good := units(get(h, k.reset), time.Second); good {
				take(v, v >= time.Hour, k.reset)
			}
		}
	}
	if ok {
		return
	}
	for _, k := range plainBuckets {
		v := get(h, k.reset)
		if v == "" {
			continue
		}
		if left := get(h, k.left); left != "" && strings.Trim(left, "0.") != "" {
			continue // not the one that is exhausted
		}
		if at, good := epoch(v, now); good {
			take(until(at, now), at.Sub(now) >= time.Hour, k.reset)
		} else if at, err := time.Parse(time.RFC3339, v); err == nil {
			take(until(at, now), at.Sub(now) >= time.Hour, k.reset)
		} else if at, err := http.ParseTime(v); err == nil {
			take(until(at, now), at.Sub(now) >= time.Hour, k.reset)
		} else if !sinceEpoch(v) { // an instant long past tells nothing
			if n, good := units(v, time.Second); good {
				take(n, n >= time.Hour, k.reset)
			} else if n, good := duration(v); good {
				take(n, n >= time.Hour, k.reset)
			}
		}
	}
	return
}

// A bucketNames pairs the header with a limit's reset with the one that tells what is left of it, and what that
// says when nothing is.
type bucketNames struct{ reset, left, none string }

var (
	// Times to a full bucket, so above the true wait, but all there is where Anthropic sends no retry-after.
	anthropicBuckets = [...]bucketNames{
		{"Anthropic-Ratelimit-Requests-Reset", "Anthropic-Ratelimit-Requests-Remaining", "0"},
		{"Anthropic-Ratelimit-Tokens-Reset", "Anthropic-Ratelimit-Tokens-Remaining", "0"},
		{"Anthropic-Ratelimit-Input-Tokens-Reset", "Anthropic-Ratelimit-Input-Tokens-Remaining", "0"},
		{"Anthropic-Ratelimit-Output-Tokens-Reset", "Anthropic-Ratelimit-Output-Tokens-Remaining", "0"},
		{"Anthropic-Ratelimit-Unified-Reset", "Anthropic-Ratelimit-Unified-Status", "rejected"},
	}
	// Cerebras: seconds to the end of a window. Mistral: seconds, by size.
	windowBuckets = [...]bucketNames{
		{"X-Ratelimit-Reset-Requests-Minute", "X-Ratelimit-Remaining-Requests-Minute", "0"},
		{"X-Ratelimit-Reset-Tokens-Minute", "X-Ratelimit-Remaining-Tokens-Minute", "0"},
		{"X-Ratelimit-Reset-Requests-Hour", "X-Ratelimit-Remaining-Requests-Hour", "0"},
		{"X-Ratelimit-Reset-Tokens-Hour", "X-Ratelimit-Remaining-Tokens-Hour", "0"},
		{"X-Ratelimit-Reset-Requests-Day", "X-Ratelimit-Remaining-Requests-Day", "0"},
		{"X-Ratelimit-Reset-Tokens-Day", "X-Ratelimit-Remaining-Tokens-Day", "0"},
		{"Ratelimitbysize-Reset", "Ratelimitbysize-Remaining", "0"},
		{"X-Ratelimitbysize-Reset", "X-Ratelimitbysize-Remaining", "0"},
	}
	// One limit: an instant, or seconds.
	plainBuckets = [...]bucketNames{
		{"X-Ratelimit-Reset-After", "", "0"},
		{"X-Ratelimit-Reset", "X-Ratelimit-Remaining", "0"},
		{"X-Rate-Limit-Reset", "X-Rate-Limit-Remaining", "0"},
		{"Ratelimit-Reset", "Ratelimit-Remaining", "0"},
	}
)

// fullBucket is the later of OpenAI's and Groq's resets: "6m0s", "120ms". Azure writes bare seconds, 0 for not told.
func fullBucket(h http.Header) time.Duration {
	var full time.Duration
	for _, name := range [...]string{"X-Ratelimit-Reset-Requests", "X-Ratelimit-Reset-Tokens"} {
		v := get(h, name)
		d, ok := duration(v)
		if !ok {
			d, _ = units(v, time.Second)
		}
		full = max(full, d)
	}
	return full
}
