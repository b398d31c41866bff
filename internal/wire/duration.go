package wire

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// ceil rounds up to a millisecond, so that a wait is never cut short by its writing.
func ceil(d time.Duration) time.Duration {
	if rest := d % time.Millisecond; rest != 0 && d <= math.MaxInt64-time.Millisecond {
		return d - rest + time.Millisecond
	}
	return d
}

// units reads a plain decimal number of units. Signs, exponents, hex, Inf and NaN are not plain.
func units(s string, unit time.Duration) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if s == "" || len(s) > 40 || s[0] == '.' {
		return 0, false
	}
	dots := 0
	for i := range len(s) {
		switch {
		case s[i] == '.':
			dots++
		case s[i] < '0' || s[i] > '9':
			return 0, false
		}
	}
	if dots > 1 {
		return 0, false
	}
	if dots == 0 && len(s) < 16 { // exact
		n, _ := strconv.ParseInt(s, 10, 64)
		if n > math.MaxInt64/int64(unit) {
			return 0, false
		}
		return time.Duration(n) * unit, true
	}
	n, err := strconv.ParseFloat(s, 64)
	if n *= float64(unit); err != nil || !(n < math.MaxInt64) {
		return 0, false
	}
	// Decimal fractions are a hair off in binary: 0.644 s must not become 645 ms.
	return time.Duration(math.Ceil(n - 1e-3*min(1, n))), true
}

// epoch reads seconds (10 digits) or milliseconds (13) since 1970, where they are an instant from a year ago to two
// ahead: other numbers of that length are not meant so.
func epoch(s string, now time.Time) (time.Time, bool) {
	s = strings.TrimSpace(s)
	whole, _, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	var at time.Time
	switch len(whole) {
	case 10:
		at = time.Unix(n, 0)
	case 13:
		at = time.UnixMilli(n)
	default:
		return time.Time{}, false
	}
	if at.Before(now.AddDate(-1, 0, 0)) || at.After(now.AddDate(2, 0, 0)) {
		return time.Time{}, false
	}
	return at, true
}

// duration reads "1m26.4s", "494ms", "2 minutes and 3 seconds", "1h 5m". A number without a unit is none.
func duration(s string) (time.Duration, bool) {
	d, n := leading(s)
	return d, n > 0 && strings.TrimRight(s[n:], " .") == ""
}

// leading reads the duration that s starts with, and how long its text is. 0: none.
func leading(s string) (d time.Duration, n int) {
	i := 0
	for {
		j := i
		for j < len(s) && (s[j] == ' ' || s[j] == ',' && n > 0) {
			j++
		}
		if n > 0 && strings.HasPrefix(s[j:], "and ") {
			j += 4
		}
		from := j
		for j < len(s) && (s[j] >= '0' && s[j] <= '9' || s[j] == '.') {
			j++
		}
		digits := s[from:j]
		if digits == "" {
			return d, n
		}
		for j < len(s) && s[j] == ' ' {
			j++
		}
		word := j
		for j < len(s) && (s[j]|0x20 >= 'a' && s[j]|0x20 <= 'z') {
			j++
		}
		unit := unitOf(strings.ToLower(s[word:j]))
		if j+2 < len(s) && s[j:j+3] == "(s)" { // "1 hour(s)"
			j += 3
		}
		if unit == 0 {
			return d, n
		}
		part, ok := units(digits, unit)
		if !ok || d > math.MaxInt64-part {
			return d, n
		}
		d += part
		i, n = j, j
	}
}

func unitOf(word string) time.Duration {
	switch word {
	case "ns", "nanosecond", "nanoseconds":
		return time.Nanosecond
	case "us", "microsecond", "microseconds":
		return time.Microsecond
	case "ms", "msec", "msecs", "millisecond", "milliseconds", "millis":
		return time.Millisecond
	case "s", "sec", "secs", "second", "seconds":
		return time.Second
	case "m", "min", "mins", "minute", "minutes":
		return time.Minute
	case "h", "hr", "hrs", "hour", "hours":
		return time.Hour
	case "d", "day", "days":
		return 24 * time.Hour
	case "week", "weeks":
		return 7 * 24 * time.Hour
	}
	return 0
}
