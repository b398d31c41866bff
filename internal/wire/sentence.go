package wire

import (
	"strings"
	"time"
)

// A saying is what the sentences of a message tell about waiting.
type saying struct {
	hint     time.Duration // "try again in 1m26.4s"
	hasHint  bool
	reset    time.Duration // "will reset after 19h14m47s", "regain access on 2026-04-01 at 00:00 UTC"
	hasReset bool
	date     bool // reset is far or a date
}

// sentences looks at each number with a unit, and at each date, for the words before it: permanent errors say "try
// again" as well, with something else behind it. Of several waits it takes the longest, as a message that names two
// limits means both.
func sentences(s string, now time.Time) saying {
	var told saying
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			continue
		}
		if at, ok := dateAt(s[i:]); ok {
			if lead := before(s, i); endsIn(lead, resetWords) || endsIn(lead, hintWords) || endsIn(lead, dateWords) {
				if d := until(at, now); !told.hasReset || d > told.reset {
					told.reset, told.hasReset, told.date = d, true, true
				}
			}
			i += len("2006-01-02")
			continue
		}
		d, n := leading(s[i:])
		if n > 0 {
			switch lead := before(s, i); {
			case endsIn(lead, hintWords), joined(s, i, lead) && endsIn(lead, laterWords):
				told.hint, told.hasHint = max(told.hint, d), true
			case endsIn(lead, resetWords):
				if !told.hasReset || d > told.reset {
					told.reset, told.hasReset, told.date = d, true, d >= time.Hour
				}
			}
			i += n - 1
			continue
		}
		for i+1 < len(s) && (s[i+1] >= '0' && s[i+1] <= '9' || s[i+1] == '.') { // the rest of the number
			i++
		}
	}
	if !told.hasHint {
		told.hint, told.hasHint = protoDelay(s)
	}
	return told
}

const (
	window = 64              // bytes before a number that may be about it
	around = " \t\n\"'`~:=(" // what may stand between the words and the number
)

var (
	joints = [...]string{
		" in", " after", " for", " about", " approximately", " approx.", " around", " at least", " another", " within",
		" of", " again", " on", " at", " until", " by", " your request", " this request", " the request", " request", " it",
	}
	hintWords = []string{
		"try", "retry", "retrying", "please wait", "wait", "retry-after", "retry_after", "retryafter", "retry-in",
		"retry_in", "resubmit", "resend", "back off", "backoff", "come back",
	}
	// Words that are about waiting only where "in" or "after" follows.
	laterWords = []string{"available", "cooldown", "cool down", "cool-down"}
	resetWords = []string{"reset", "resets", "refresh", "refreshes", "replenish",
		"replenished", "replenishes", "renew", "renews", "restored"}
	dateWords = []string{"access", "again", "available"}
)

// before is what leads up to place i, in lower case, without the joints between a verb and its number.
func before(s string, i int) string {
	lead := strings.TrimRight(strings.ToLower(s[max(0, i-window):i]), around)
trim:
	for {
		for _, j := range joints {
			if rest, ok := strings.CutSuffix(lead, j); ok {
				lead = strings.TrimRight(rest, around)
				continue trim
			}
		}
		return lead
	}
}

// joined reports whether a joint stood between lead and place i.
func joined(s string, i int, lead string) bool {
	return len(lead) < len(strings.TrimRight(s[max(0, i-window):i], around))
}

// endsIn reports whether s ends in one of words, as a word.
func endsIn(s string, words []string) bool {
	for _, w := range words {
		if rest, ok := strings.CutSuffix(s, w); ok {
			if rest == "" {
				return true
			}
			if c := rest[len(rest)-1]; (c < 'a' || c > 'z') && c < 0x80 {
				return true
			}
		}
	}
	return false
}

// dateAt reads the instant that s starts with: "2026-04-01", with or without a clock and a zone. No zone is UTC.
func dateAt(s string) (time.Time, bool) {
	const day = "2006-01-02"
	if len(s) < len(day) || s[4] != '-' || s[7] != '-' {
		return time.Time{}, false
	}
	at, err := time.Parse(day, s[:len(day)])
	if err != nil {
		return time.Time{}, false
	}
	rest := strings.TrimPrefix(s[len(day):], " at")
	if len(rest) < len("T15:04") || rest[0] != 'T' && rest[0] != ' ' {
		return at, true
	}
	rest = rest[1:]
	n := 0
	for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == ':' || rest[n] == '.') {
		n++
	}
	clock := strings.TrimRight(rest[:n], ".:")
	layout := "15:04"
	if strings.Count(clock, ":") == 2 {
		layout = "15:04:05"
	}
	c, err := time.Parse(layout, clock)
	if err != nil {
		return at, true
	}
	at = at.Add(c.Sub(c.Truncate(24 * time.Hour)))
	zone := strings.TrimLeft(rest[n:], " ")
	for _, form := range [...]string{"-07:00", "-0700"} {
		if len(zone) >= len(form) {
			if z, err := time.Parse(form, zone[:len(form)]); err == nil {
				_, offset := z.Zone()
				return at.Add(-time.Duration(offset) * time.Second), true
			}
		}
	}
	return at, true
}

// protoDelay reads the text form of Google's RetryInfo, which its Python client prints: "retry_delay { seconds: 34 }".
func protoDelay(s string) (time.Duration, bool) {
	_, s, ok := strings.Cut(s, "retry_delay")
	if !ok {
		return 0, false
	}
	_, s, ok = strings.Cut(s[:min(len(s), 48)], "seconds:")
	if !ok {
		return 0, false
	}
	s = strings.TrimLeft(s, " ")
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return units(s[:n], time.Second)
}
