package near

import "testing"

func TestWord(t *testing.T) {
	words := []string{"rate_limited", "overloaded", "openai", "stall", "max_elapsed_ms", "a"}
	for text, want := range map[string]string{
		"rate-limited": "rate_limited", "RateLimited": "rate_limited", "rate": "rate_limited",
		"overloadd": "overloaded", "openia": "openai", "stal": "stall", "stalled": "stall", "max elapsed": "max_elapsed_ms", "oenxai": "openai",
		"": "", "b": "", "ab": "", "groq": "", "unloading": "",
	} {
		if got := Word(text, words); got != want {
			t.Errorf("%q was taken for %q, and %q was meant", text, got, want)
		}
	}
	if got := Word("stal", []string(nil)); got != "" {
		t.Errorf("of no words it found %q", got)
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"auth", "auht", 1}, {"abc", "ac", 1}} {
		if got := distance(test.a, test.b); got != test.want || distance(test.b, test.a) != got {
			t.Errorf("%q and %q: %d, and it is %d", test.a, test.b, got, test.want)
		}
	}
}
