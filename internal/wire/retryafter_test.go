package wire

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

func headers(pairs ...string) http.Header {
	h := http.Header{"Date": {noon.Format(http.TimeFormat)}}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func TestRetryAfterHeaders(t *testing.T) {
	tests := []struct {
		name   string
		header http.Header
		want   time.Duration // -1: not told
	}{
		{"seconds", headers("Retry-After", "7"), 7 * time.Second},
		{"zero", headers("Retry-After", "0"), 0},
		{"fraction", headers("Retry-After", "1.5"), 1500 * time.Millisecond},
		{"a hair above a millisecond rounds up", headers("Retry-After", "0.0101"), 11 * time.Millisecond},
		{"a decimal fraction stays", headers("Retry-After", "0.644"), 644 * time.Millisecond},
		{"blanks", headers("Retry-After", " 7 "), 7 * time.Second},
		{"date", headers("Retry-After", "Mon, 05 Jan 2026 12:00:12 GMT"), 12 * time.Second},
		{"past date", headers("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"), 0},
		{"old form of a date", headers("Retry-After", "Monday, 05-Jan-26 12:00:12 GMT"), 12 * time.Second},
		{"instant", headers("Retry-After", "2026-01-05T12:00:09Z"), 9 * time.Second},
		{"epoch", headers("Retry-After", "1767614409"), 9 * time.Second},
		{"with its unit", headers("Retry-After", "30s"), 30 * time.Second},
		{"several values, first good one", http.Header{"Retry-After": {"soon", "4"}}, 4 * time.Second},
		{"lower case key", http.Header{"retry-after": {"4"}}, 4 * time.Second},
		{"milliseconds", headers("Retry-After-Ms", "494", "Retry-After", "1"), 494 * time.Millisecond},
		{"fraction of milliseconds", headers("Retry-After-Ms", "494.2"), 495 * time.Millisecond},
		{"azure", headers("X-Ms-Retry-After-Ms", "1250", "Retry-After", "2"), 1250 * time.Millisecond},
		{"amazon", headers("X-Amz-Retry-After", "750"), 750 * time.Millisecond},
		{"amazon wants a whole number", headers("X-Amz-Retry-After", "7.5", "Retry-After", "3"), 3 * time.Second},
		{"bad milliseconds leave the seconds", headers("Retry-After-Ms", "-5", "Retry-After", "3"), 3 * time.Second},
		{"negative", headers("Retry-After", "-3"), -1},
		{"not a number", headers("Retry-After", "NaN"), -1},
		{"infinite", headers("Retry-After", "Inf"), -1},
		{"exponent", headers("Retry-After", "1e3"), 1000 * time.Second},
		{"exponent of Python's", headers("Retry-After", "5e-05"), time.Millisecond},
		{"a large exponent", headers("Retry-After", "1e9"), 1e9 * time.Second},
		{"an endless exponent", headers("Retry-After", "1e999999"), -1},
		{"an exponent below all", headers("Retry-After", "1e-999999"), 0},
		{"an exponent without a number", headers("Retry-After", "1e"), -1},
		{"an exponent alone", headers("Retry-After", "e5"), -1},
		{"two exponents", headers("Retry-After", "1e5e5"), -1},
		{"hex", headers("Retry-After", "0x10"), -1},
		{"empty", headers("Retry-After", ""), -1},
		{"word", headers("Retry-After", "soon"), -1},
		{"two dots", headers("Retry-After", "1.2.3"), -1},
		{"more than a century", headers("Retry-After", "99999999999"), -1},
		{"just above the end of time.Duration", headers("Retry-After", "9223372037"), -1},
		{"just below it", headers("Retry-After", "9223372036"), -1},
		{"20 digits", headers("Retry-After", "99999999999999999999"), -1},
		{"many digits", headers("Retry-After", strings.Repeat("9", 400)), -1},
		{"many zeros before it", headers("Retry-After", strings.Repeat("0", 400)+"7"), 7 * time.Second},
		{"many digits and a fraction", headers("Retry-After", strings.Repeat("9", 400)+".5"), -1},
		{"many digits of milliseconds", headers("Retry-After-Ms", strings.Repeat("9", 39)), -1},
		{"many digits of Amazon's", headers("X-Amz-Retry-After", strings.Repeat("9", 39)), -1},
		{"many digits with a unit", headers("Retry-After", strings.Repeat("9", 39)+"h"), -1},
		{"a sum beyond all", headers("Retry-After", "2562047h2562047h"), -1},
		{"a far date", headers("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"), -1},
		{"a list: the first", headers("Retry-After", "3, 9"), 3 * time.Second},
		{"a list: the first good one", headers("Retry-After", "soon,, 4"), 4 * time.Second},
		{"a list with units", headers("Retry-After", "30s, 60s"), 30 * time.Second},
		{"a list with a date first", headers("Retry-After", "Mon, 05 Jan 2026 12:00:12 GMT, 9"), 12 * time.Second},
		{"a list with a date last", headers("Retry-After", "5, Mon, 05 Jan 2026 12:00:12 GMT"), 5 * time.Second},
		{"a list of nothing", headers("Retry-After", ", ,"), -1},
		{"a list of milliseconds", headers("Retry-After-Ms", "30, 90"), 30 * time.Millisecond},
		{"milliseconds, first good value", http.Header{"Retry-After-Ms": {"x", "30"}}, 30 * time.Millisecond},
		{"epoch in microseconds", headers("Retry-After", "1767614409000000"), 9 * time.Second},
		{"epoch in nanoseconds", headers("Retry-After", "1767614409000000000"), 9 * time.Second},

		{"reset after", headers("X-Ratelimit-Reset-After", "30"), 30 * time.Second},
		{"reset in epoch seconds", headers("X-Ratelimit-Reset", "1767614420"), 20 * time.Second},
		{"reset in epoch milliseconds", headers("X-Ratelimit-Reset", "1767614420500"), 20500 * time.Millisecond},
		{"reset as a duration", headers("X-Ratelimit-Reset", "20s"), 20 * time.Second},
		{"reset of the draft standard", headers("Ratelimit-Reset", "9", "Ratelimit-Remaining", "0"), 9 * time.Second},
		{"reset of what is not exhausted", headers("X-Ratelimit-Reset", "1767614420", "X-Ratelimit-Remaining", "3"), -1},
		{"reset of an old epoch", headers("X-Ratelimit-Reset", "1000000000"), -1},
		{"reset in epoch microseconds", headers("X-Ratelimit-Reset", "1767614420500000"), 20500 * time.Millisecond},
		{"reset of many seconds", headers("X-Ratelimit-Reset", "12345678"), 12345678 * time.Second},
		{"reset just above the end of time.Duration", headers("X-Ratelimit-Reset", "9223372037"), -1},
		{"reset of 20 digits", headers("X-Ratelimit-Reset", "99999999999999999999"), -1},
		{"reset of an old epoch in milliseconds", headers("X-Ratelimit-Reset", "1000000000000"), -1},
		{"reset after, many digits", headers("X-Ratelimit-Reset-After", strings.Repeat("9", 400)), -1},
		{"negative reset", headers("X-Ratelimit-Reset", "-20"), -1},
		{"anthropic: a reset of 20 digits", headers("Anthropic-Ratelimit-Tokens-Reset", "99999999999999999999",
			"Anthropic-Ratelimit-Tokens-Remaining", "0"), -1},
		{"cerebras: many digits", headers("X-Ratelimit-Reset-Tokens-Minute", strings.Repeat("9", 40),
			"X-Ratelimit-Remaining-Tokens-Minute", "0"), -1},
		{"time to a full bucket is no wait", headers(
			"X-Ratelimit-Reset-Tokens", "1m0s", "X-Ratelimit-Remaining-Tokens", "0"), -1},
		{"anthropic: the exhausted bucket", headers(
			"Anthropic-Ratelimit-Requests-Reset", "2026-01-05T13:00:00Z", "Anthropic-Ratelimit-Requests-Remaining", "9",
			"Anthropic-Ratelimit-Tokens-Reset", "2026-01-05T12:00:33Z", "Anthropic-Ratelimit-Tokens-Remaining", "0"),
			33 * time.Second},
		{"anthropic: the later of two", headers(
			"Anthropic-Ratelimit-Requests-Reset", "2026-01-05T12:01:00Z", "Anthropic-Ratelimit-Requests-Remaining", "0",
			"Anthropic-Ratelimit-Tokens-Reset", "2026-01-05T12:00:33Z", "Anthropic-Ratelimit-Tokens-Remaining", "0"),
			time.Minute},
		{"anthropic: none exhausted", headers(
			"Anthropic-Ratelimit-Tokens-Reset", "2026-01-05T12:00:33Z", "Anthropic-Ratelimit-Tokens-Remaining", "5"), -1},
		{"cerebras: the minute, not the day", headers(
			"X-Ratelimit-Reset-Tokens-Minute", "17.4", "X-Ratelimit-Remaining-Tokens-Minute", "0",
			"X-Ratelimit-Reset-Tokens-Day", "5000", "X-Ratelimit-Remaining-Tokens-Day", "12"), 17400 * time.Millisecond},
		{"wait beats reset", headers("Retry-After", "16", "Anthropic-Ratelimit-Tokens-Reset", "2026-01-05T12:01:03Z",
			"Anthropic-Ratelimit-Tokens-Remaining", "0"), 16 * time.Second},
		{"nothing", headers(), -1},
		{"nil", nil, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := RetryAfter(tt.header, nil, noon)
			if w.Known != (tt.want >= 0) || w.Known && w.D != tt.want {
				t.Errorf("got %v (known %v, %s), want %v", w.D, w.Known, w.Source, tt.want)
			}
		})
	}
}

func TestDateCountsFromTheServersClock(t *testing.T) {
	h := http.Header{"Retry-After": {"Mon, 05 Jan 2026 12:00:12 GMT"}, "Date": {"Mon, 05 Jan 2026 12:00:10 GMT"}}
	if w := RetryAfter(h, nil, noon.Add(time.Hour)); w.D != 2*time.Second {
		t.Errorf("with a Date: %v, want 2s", w.D)
	}
	h.Del("Date")
	if w := RetryAfter(h, nil, noon.Add(5*time.Second)); w.D != 7*time.Second {
		t.Errorf("without: %v, want 7s from our own clock", w.D)
	}
}

func TestAdviceAndFullBucket(t *testing.T) {
	w := RetryAfter(headers("X-Should-Retry", "false", "Retry-After", "5", "X-Ratelimit-Reset-Tokens", "1m0.052s",
		"X-Ratelimit-Reset-Requests", "6ms"), nil, noon)
	if w.Advice != AdviceDont || w.D != 5*time.Second || w.Full != 60052*time.Millisecond {
		t.Errorf("got %+v", w)
	}
	if w = RetryAfter(headers("X-Should-Retry", "true"), nil, noon); w.Advice != AdviceRetry || w.Known {
		t.Errorf("permission is no wait: %+v", w)
	}
}

func TestRetryAfterSentences(t *testing.T) {
	tests := []struct {
		text string
		want time.Duration // -1: not told
	}{
		{"Please try again in 6ms.", 6 * time.Millisecond},
		{"Please try again in 1.574s. Visit x", 1574 * time.Millisecond},
		{"Please try again in 1.984999999s. Need more?", 1985 * time.Millisecond},
		{"Please try again in 1m26.4s.", 86400 * time.Millisecond},
		{"try again in 9m38.016s", 9*time.Minute + 38016*time.Millisecond},
		{"Please retry in 56.185908122s.", 56186 * time.Millisecond},
		{"Please retry after 33 seconds. Please go here", 33 * time.Second},
		{"Try again in 30 seconds.", 30 * time.Second},
		{"please try again after 1 seconds", time.Second},
		{"Retry after about 5 minutes", 5 * time.Minute},
		{"Please wait 12 seconds before retrying", 12 * time.Second},
		{"please wait for 2 minutes and 3 seconds", 123 * time.Second},
		{"retry your request in approximately 1 hour(s)", time.Hour},
		{"Retry-After: 45s", 45 * time.Second},
		{"retry_after=15s", 15 * time.Second},
		{"try again in 1h 5m, or upgrade", 65 * time.Minute},
		{"available again in 20s", 20 * time.Second},
		{"limit A: try again in 5s; limit B: try again in 40s", 40 * time.Second},
		{"retry_delay {\n  seconds: 34\n}", 34 * time.Second},
		{"will reset after 19h14m47s", 19*time.Hour + 14*time.Minute + 47*time.Second},
		{"Your limit resets in 90 seconds", 90 * time.Second},
		{"will regain access on 2026-01-06 at 00:00 UTC.", 12 * time.Hour},
		{"try again at 2026-01-05T12:30:00Z", 30 * time.Minute},
		{"resets at 2026-01-05 14:00:00+01:00", time.Hour},
		{"again on 2026-01-06", 12 * time.Hour},
		{"reset after 2020-01-01", 0},
		{"please try again in 5 times", -1},
		{"try again in a few seconds", -1},
		{"retry after 30", -1},
		{"try again with max_tokens 100 s", -1},
		{"timed out after 60 seconds", -1},
		{"The request waited 30 seconds", -1},
		{"entry 5 s", -1},
		{"support is available 24 hours", -1},
		{"Limit 1000, Used 1000 per 60s", -1},
		{"you may retry -5 seconds", -1},
		{"try again in 99999999999999999999 hours", -1},
		{"try again in 1e3 s", -1},
		{"retry_delay { seconds: 99999999999999999999 }", -1},
		{"try again later", -1},
		{"created on 2026-02-01", -1},
		{"", -1},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			w := RetryAfter(nil, &Facts{Text: tt.text}, noon)
			if w.Known != (tt.want >= 0) || w.Known && w.D != tt.want {
				t.Errorf("got %v (known %v, %s), want %v", w.D, w.Known, w.Source, tt.want)
			}
		})
	}
}

func TestRetryAfterBody(t *testing.T) {
	const info = `{"error":{"message":"%","details":[` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.4s"}]}}`
	tests := []struct {
		name, body string
		want       time.Duration
		date       bool
	}{
		{"RetryInfo", strings.Replace(info, "%", "x", 1), 34400 * time.Millisecond, false},
		{"the later of it and the sentence", strings.Replace(info, "%", "Please retry in 40.1s", 1),
			40100 * time.Millisecond, false},
		{"the earlier sentence loses", strings.Replace(info, "%", "Please retry in 3s", 1), 34400 * time.Millisecond, false},
		{"a reset is less than it", strings.Replace(info, "%", "will reset after 2h", 1), 34400 * time.Millisecond, false},
		{"as an object", `{"error":{"details":[{"retryDelay":{"seconds":"3","nanos":500000000}}]}}`,
			3500 * time.Millisecond, false},
		{"as a number", `{"error":{"message":"x","retry_after":7}}`, 7 * time.Second, false},
		{"in milliseconds", `{"error":{"message":"x","retryAfterMs":70}}`, 70 * time.Millisecond, false},
		{"loading time", `{"error":"loading","estimated_time":20.5}`, 20500 * time.Millisecond, false},
		{"as a number with an exponent", `{"error":{"message":"x","retry_after":1e3}}`, 1000 * time.Second, false},
		{"as a number of 20 digits", `{"error":{"message":"x","retry_after":99999999999999999999}}`, -1, false},
		{"as an object beyond all", `{"error":{"details":[{"retryDelay":{"seconds":"99999999999","nanos":999999999}}]}}`,
			-1, false},
		{"quoted header", `{"error":{"message":"x","metadata":{"headers":{"Retry-After":"8"}}}}`, 8 * time.Second, false},
		{"quoted reset of a day", `{"error":{"message":"x","metadata":{"headers":` +
			`{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1767657600000"}}}}`, 12 * time.Hour, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := Unwrap(tt.body)
			if w := RetryAfter(nil, &f, noon); w.Known != (tt.want >= 0) || w.D != max(tt.want, 0) || w.Date != tt.date {
				t.Errorf("got %+v, want %v", w, tt.want)
			}
			if w := RetryAfter(headers("Retry-After", "1"), &f, noon); w.D != time.Second {
				t.Errorf("the header must win: %+v", w)
			}
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"7", "1.5", "-3", "NaN", "1m26.4s", "Mon, 05 Jan 2026 12:00:12 GMT", "99999999999",
		"1767614420", "try again in 1h 5m", "regain access on 2026-04-01 at 00:00 UTC", "9223372036854775807 ns",
		"2026-01-05T12:00:09Z", "3, 9", "1e9", "1e999", "9223372037", "99999999999999999999", "9223372036s9223372036s",
		`{"retryDelay":{"seconds":9223372036,"nanos":9223372036}}`, "Mon, 05 Jan 2026 12:00:12 GMT, 9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		names := []string{
			"Retry-After", "Retry-After-Ms", "X-Amz-Retry-After", "X-Ratelimit-Reset", "X-Ratelimit-Reset-After", "Date",
		}
		for _, name := range names {
			w := RetryAfter(http.Header{name: {s}}, nil, noon)
			if w.D < 0 || w.D >= longest || !w.Known && w.D != 0 || w.D%time.Millisecond != 0 {
				t.Fatalf("%s: %q gives %+v", name, s, w)
			}
		}
		facts := Unwrap(s)
		facts.Text += s
		if w := RetryAfter(nil, &facts, noon); w.D < 0 || w.D >= longest || !w.Known && w.D != 0 {
			t.Fatalf("%q gives %+v", s, w)
		}
	})
}
