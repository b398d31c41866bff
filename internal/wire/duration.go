package wire

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// longest is where waits end, a century: it takes the place of all that is longer, so that sums stay within
// time.Duration.
const longest = 100 * 365 * 24 * time.Hour

// ceil rounds up to a millisecond, so that a wait is never cut short by its writing.
func ceil(d time.Duration) time.Duration {
	if d >= longest {
		return longest
	}
	if rest := d % time.Millisecond; rest != 0 {
		return d - rest + time.Millisecond
	}
	return d
}

// units reads a decimal number of units, at most [longest]: a number beyond that is too long a wait and not an unreadable
// one. Signs, hex, Inf and NaN are no numbers of units. Exponents are, as Python and JavaScript write large and small
// floats with them and the providers' own SDKs read them.
func units(s string, unit time.Duration) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	n, dots := 0, 0
	for n < len(s) && (s[n] >= '0' && s[n] <= '9' || s[n] == '.') {
		if s[n] == '.' {
			dots++
		}
		n++
	}
	if n == 0 || s[0] == '.' || dots > 1 || n < len(s) && !exponent(s[n:]) {
		return 0, false
	}
	if n == len(s) && dots == 0 && n < 16 { // exact
		v, _ := strconv.ParseInt(s, 10, 64)
		if v >= int64(longest/unit) {
			return longest, true
		}
		return time.Duration(v) * unit, true
	}
	v, _ := strconv.ParseFloat(s, 64) // beyond its range it is infinite
	v *= float64(unit)
	if v >= float64(longest) {
		return longest, true
	}
	// Decimal fractions are a hair off in binary: 0.644 s must not become 645 ms.
	return time.Duration(math.Ceil(v - 1e-3*min(1, v))), true
}

// exponent reports whether s is "e9" or "e-05".
func exponent(s string) bool {
	if s[0]|0x20 != 'e' {
		return false
	}
	s = s[1:]
	if s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// epoch reads an instant since 1970 in seconds (10 digits), or in milli-, micro- or nanoseconds (13, 16, 19). What is more
// than a year past is not meant so.
func epoch(s string, now time.Time) (time.Time, bool) {
	whole, _, _ := strings.Cut(strings.TrimSpace(s), ".")
	if !sinceEpoch(whole) {
		return time.Time{}, false
	}
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
	case 16:
		at = time.UnixMicro(n)
	default:
		at = time.Unix(0, n)
	}
	return at, !at.Before(now.AddDate(-1, 0, 0))
}

// sinceEpoch reports whether s has the length of an instant since 1970.
func sinceEpoch(s string) bool {
	switch len(s) {
	case 10, 13, 16, 19:
		return strings.Trim(s, "0123456789") == ""
	}
	return false
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
		if !ok {
			return d, n
		}
		d = min(d+part, longest)
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
