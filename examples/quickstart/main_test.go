package main

import (
	"strings"
	"testing"
)

func TestQuickstartShowsTheFallbackAndTheRest(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	for _, want := range []string{
		"telemetry",
		"attempt 1 after a wait of 0s: rate_limited",
		"attempt 3 after a wait of",
		"fallback  attempt 4 after a wait of 0s: answered, 25 + 12 tokens",
		"primary   not called: rests for",
		"fallback  attempt 1 after a wait of 0s: answered",
		"\n   " + answer + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if n := strings.Count(got, "served by fallback: "+`"`+answer+`"`); n != 3 {
		t.Errorf("%d of 3 calls were served by the fallback", n)
	}
	if t.Failed() {
		t.Log(got)
	}
}
