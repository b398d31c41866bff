package tokens_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/tokens"
)

// conversation is n messages of size bytes each.
func conversation(n, size int) *llm.Request {
	text := strings.Repeat("The order 4711 has not arrived yet; what can we do? ", size/52+1)[:size]
	req := &llm.Request{Model: "gpt-4o", System: "You answer customers."}
	for i := range n {
		role := llm.RoleUser
		if i%2 == 1 {
			role = llm.RoleAssistant
		}
		req.Messages = append(req.Messages, llm.Message{Role: role, Parts: []llm.Part{llm.Text(text)}})
	}
	return req
}

// hostile are texts of n bytes that tokenizers are slow on.
func hostile(n int) map[string]string {
	r := rand.New(rand.NewPCG(1, 2))
	fill := func(char func() rune) string {
		var b strings.Builder
		for b.Len() < n {
			b.WriteRune(char())
		}
		return b.String()[:n]
	}
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	cycle := func(s string) string { return strings.Repeat(s, n/len(s)+1)[:n] }
	return map[string]string{
		"one letter":     cycle("a"),
		"two letters":    fill(func() rune { return 'a' + r.Int32N(2) }),
		"random letters": fill(func() rune { return 'a' + r.Int32N(26) }),
		"capitals":       fill(func() rune { return 'A' + r.Int32N(26) }),
		"spaces":         cycle(" "),
		"newlines":       cycle("\n"),
		"blank mix":      fill(func() rune { return []rune(" \t\u00a0\u3000\r\n")[r.IntN(6)] }),
		"space runs":     cycle(strings.Repeat(" ", 200) + "x"),
		"digits":         cycle("1234567890"),
		"symbols":        fill(func() rune { return []rune("!-=_*#")[r.IntN(6)] }),
		"emojis":         cycle("😀🎉👩\u200d👩\u200d👧"),
		"marks":          cycle("e\u0301\u0302A\u0301"),
		"CJK":            fill(func() rune { return 0x4e00 + r.Int32N(0x5000) }),
		"Thai":           fill(func() rune { return 0x0e01 + r.Int32N(0x2e) }),
		"random bytes":   string(raw),
		"cut UTF-8":      cycle("\xe4\xb8"),
		"apostrophes":    cycle("'"),
		"base64":         fill(func() rune { return rune("ABCDEFGHabcdefgh01234567+/"[r.IntN(26)]) }),
	}
}

// A request whose bytes fit is not tokenized: lengths are added up.
func BenchmarkCount100Messages100KBThatFits(b *testing.B) {
	req, c := conversation(100, 1024), tokens.For("gpt-4o")
	b.ReportAllocs()
	for b.Loop() {
		if n, err := c.CountTokens(b.Context(), req, 128_000); err != nil || n > 128_000 {
			b.Fatal(n, err)
		}
	}
}

// A request whose bytes do not fit is tokenized until it is known to fit.
func BenchmarkCount600KBAgainst128k(b *testing.B) {
	req, c := conversation(100, 6*1024), tokens.For("gpt-4o")
	if err := c.Load(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(600 * 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.CountTokens(b.Context(), req, 128_000); err != nil {
			b.Fatal(err)
		}
	}
}

// A whole megabyte, without a limit that would end the count sooner.
func BenchmarkHostileMegabyte(b *testing.B) {
	for _, model := range []string{"gpt-4o", "gpt-4"} {
		c := tokens.For(model)
		if err := c.Load(); err != nil {
			b.Fatal(err)
		}
		for name, text := range hostile(1 << 20) {
			b.Run(fmt.Sprintf("%s/%s", model, name), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if _, err := c.CountText(b.Context(), text); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
