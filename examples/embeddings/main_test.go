package main

import (
	"strings"
	"testing"
)

func TestEmbeddingsAreRetriedAndShareTheRestWithChat(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	for _, want := range []string{
		"[0.25 -0.5]",
		`"more tea": llm: openai: rate_limited (HTTP 429)`,
		"chat, which nobody called: llm: openai: cooling: rests for",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the output lacks %q:\n%s", want, got)
		}
	}
}
