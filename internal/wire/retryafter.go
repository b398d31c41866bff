package wire

import (
	"net/http"
	"strings"
	"time"
)

// The values of [Wait.Advice].
const (
	AdviceNone  = iota
	AdviceRetry // x-should-retry: true
	AdviceDont  // x-should-retry: false
)

// A Wait is what a failing answer asks for before the request is repeated.
type Wait struct {
	// D is the wait from the moment of the answer, rounded up to a millisecond; never negative. Known: it was told.
	D     time.Duration
	Known bool
	// Date says that D leads to a date or the reset of a quota, which is a rest and not a pace.
	Date bool
	// Reset says that D is the time to the reset of a limit, and not a wait that was asked for.
	Reset bool
	// Explicit says that D is a wait for this request; a reset of a limit or a sentence in the message is less.
	Explicit bool
	// Advice is the x-should-retry header.
	Advice int
	// Source names the spelling that told D.
	Source string
	// Full is the time to a full bucket (x-ratelimit-reset-requests and -tokens of OpenAI and Groq): above any true
	// wait, and never the wait itself. 0: not told.
	Full time.Duration
}

// RetryAfter finds the wait in the headers and the body of a failing answer. now stands in where the answer has no
// Date.
//
// The order is that of exactness: retry-after-ms, x-ms-retry-after-ms, x-amz-retry-after, retry-after; then the
// body's own fields and the sentence in its message, the later of them; then resets: of a quota in the message, and
// of an exhausted bucket in the headers. What is negative or not a number counts as not told; a past date is 0; a number
// or a date a century away and more is not told: it is a slip of units. Of a list, or of several headers, the first good
// value counts.
func RetryAfter(h http.Header, f *Facts, now time.Time) Wait {
	w := waitOf(h, f, now)
	if w.D >= longest {
		w.D, w.Known, w.Explicit, w.Source = 0, false, false, ""
	}
	return w
}

func waitOf(h http.Header, f *Facts, now time.Time) Wait {
	var w Wait
	switch strings.ToLower(get(h, "X-Should-Retry")) {
	case "true":
		w.Advice = AdviceRetry
	case "false":
		w.Advice = AdviceDont
	}
	if date := get(h, "Date"); date != "" {
		if at, err := http.ParseTime(date); err == nil {
			now = at
		}
	}
	w.Full = fullBucket(h)
	set := func(d time.Duration, source string) {
		w.D, w.Known, w.Source = ceil(d), true, source
	}
	for _, k := range [...]struct {
		name  string
		lower string
		unit  time.Duration
		whole bool
	}{
		{"Retry-After-Ms", "retry-after-ms", time.Millisecond, false},
		{"X-Ms-Retry-After-Ms", "x-ms-retry-after-ms", time.Millisecond, false},
		{"X-Amz-Retry-After", "x-amz-retry-after", time.Millisecond, true},
	} {
		for _, list := range values(h, k.name) {
			for v := range strings.SplitSeq(list, ",") {
				if k.whole && strings.ContainsAny(v, ".eE") {
					continue
				}
				if d, ok := units(v, k.unit); ok {
					w.Explicit = true
					set(d, k.lower)
					return w
				}
			}
		}
	}
	for _, v := range values(h, "Retry-After") {
		if d, ok := after(v, now); ok {
			w.Explicit = true
			set(d, "retry-after")
			return w
		}
	}
	if f != nil {
		for _, v := range values(f.Header, "Retry-After") {
			if d, ok := after(v, now); ok {
				w.Explicit = true
				set(d, "body retry-after")
				return w
			}
		}
		told := sentences(f.Text, now)
		if f.HasDelay {
			set(f.Delay, "body field")
		}
		if told.hasHint && (!w.Known || told.hint > w.D) {
			set(told.hint, "message")
		}
		if w.Known {
			return w
		}
		if told.hasReset {
			w.Date, w.Reset = told.date, true
			set(told.reset, "message reset")
			return w
		}
	}
	if d, date, name, ok := bucket(h, now); ok {
		w.Date, w.Reset = date, true
		set(d, name)
		return w
	}
	if f != nil {
		if d, date, name, ok := bucket(f.Header, now); ok {
			w.Date, w.Reset = date, true
			set(d, "body "+name)
		}
	}
	return w
}

// get is h.Get for a canonical name, without the work of making it canonical.
func get(h http.Header, name string) string {
	if v := values(h, name); len(v) > 0 {
		return strings.TrimSpace(v[0])
	}
	return ""
}

// values are the values of a canonical name. Headers that did not come through net/http may have any case.
func values(h http.Header, name string) []string {
	if v := h[name]; len(v) > 0 {
		return v
	}
	var lower [48]byte // asked for many names that are mostly not there: no allocation
	n := copy(lower[:], name)
	for i := range n {
		if c := lower[i]; c >= 'A' && c <= 'Z' {
			lower[i] = c | 0x20
		}
	}
	return h[string(lower[:n])]
}

// after reads a Retry-After: seconds, a date, and what proxies make of them: a duration with its units, an instant, a list.
func after(v string, now time.Time) (time.Duration, bool) {
	for v = strings.Trim(v, ", \t"); v != ""; v = strings.TrimLeft(v, ", \t") {
		first, rest, more := strings.Cut(v, ",")
		if n := len(http.TimeFormat); len(first) == len("Mon") && (len(v) == n || len(v) > n && v[n] == ',') {
			first, rest = v[:n], v[n:] // a date has a comma of its own
		} else if more && len(v) < len("Wednesday, 02-Jan-06 15:04:05 GMT.") {
			if _, err := http.ParseTime(v); err == nil { // so has its older form
				first, rest = v, ""
			}
		}
		if d, ok := one(strings.TrimSpace(first), now); ok {
			return d, true
		}
		v = rest
	}
	return 0, false
}

// one reads one value of a Retry-After.
func one(v string, now time.Time) (time.Duration, bool) {
	if d, ok := units(v, time.Second); ok {
		if at, ok := epoch(v, now); ok {
			return until(at, now), true
		}
		return d, true
	}
	if at, err := http.ParseTime(v); err == nil {
		return until(at, now), true
	}
	if at, err := time.Parse(time.RFC3339, v); err == nil {
		return until(at, now), true
	}
	return duration(v)
}

// until is the time from now to at; a past date is 0.
func until(at, now time.Time) time.Duration { return max(at.Sub(now), 0) }
