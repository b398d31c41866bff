package tokens

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelchain/llm"
)

// steps is the work that a text makes, in parts looked at for each byte.
func steps(t *testing.T, v *vocabulary, text string) float64 {
	t.Helper()
	var w room
	n := 0
	for s := text; s != ""; {
		end := v.splitter(v.kinds, s, 3)
		n += v.count(s[:end], len(s), &w)
		s = s[end:]
	}
	if n < 1 || n > len(text) {
		t.Fatalf("%d tokens of %d bytes", n, len(text))
	}
	return float64(w.steps) / float64(len(text))
}

// A merge looks at each part of a stretch once for each token that it makes, so a byte costs at most what a stretch has of
// them, and twice that where the next stretch joins; more would be the square of a piece coming back.
func TestWorkGrowsAsTheLengthWhateverTheText(t *testing.T) {
	patterns := []string{
		"ab", "aab", "abcab", "-=", "--=", "\t ", "Aa", "e\u0301", "人民", "人民共和国", "😀", "\u200d👩", "collapse", "applications",
		" \t\u00a0", "ท\u0e48", "((", "0x", "\\n", "----------x", strings.Repeat("-", 100) + "=", strings.Repeat("=", 63) + "-",
	}
	for c := 1; c < 256; c++ {
		patterns = append(patterns, string(rune(c)))
	}
	for _, e := range []Encoding{O200k, CL100k} {
		v, err := e.vocabulary()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range patterns {
			short, long := steps(t, v, strings.Repeat(p, 2_000/len(p))), steps(t, v, strings.Repeat(p, 20_000/len(p)))
			if long > 2.5*stretch || long > short*1.2+1 {
				t.Errorf("%s: %.20q costs %.1f steps a byte at 2 KB, %.1f at 20 KB", e, p, short, long)
			}
		}
	}
}

// Texts of which a look at the first bytes, or at the length, tells enough.
func TestWorkEndsWhenTheAnswerIsKnown(t *testing.T) {
	v, err := O200k.vocabulary()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Repeat("zqxjkvy qzwvkxj ", 4000) // words of many tokens
	work := func(text string, limit int) (int, *tally) {
		tally := &tally{profile: profileOf("gpt-4o"), vocabulary: v, limit: limit, rest: len(text)}
		if err := tally.text(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		return tally.room.steps, tally
	}
	all, _ := work(words, 0)
	for _, e := range []struct {
		name        string
		text        string
		limit, most int
		over        bool
	}{
		{"words that soon are too many", words, 1000, all / 10, true},
		{"one word that soon is too long", strings.Repeat("zqxjkv", 10_000), 500, all / 10, true},
		{"words that surely fit after a few", words, len(words) - 100, all / 10, false},
		{"a text that is too long even if each token is the longest", words, len(words)/v.longest - 1, 0, true},
	} {
		steps, tally := work(e.text, e.limit)
		if over := tally.sum > e.limit; steps > e.most || over != e.over || !over && tally.sum+tally.rest > e.limit {
			t.Errorf("%s: %d steps of %d, %d counted and %d left against a limit of %d", e.name, steps, all, tally.sum, tally.rest, e.limit)
		}
	}
}

func TestTextIsSplitAsTheExpressionsSay(t *testing.T) {
	for _, e := range []struct{ text, o200k, cl100k string }{
		{"I'LL don'T", "I'LL| don'T", "I|'LL| don|'T"},
		{"XMLHttp HTML", "XMLHttp| HTML", "XMLHttp| HTML"},
		{"\u0301ABC", "\u0301|ABC", "\u0301ABC"},
		{"A\u0301B", "A\u0301|B", "A|\u0301B"},
		{"日本ABC", "日本|ABC", "日本ABC"},
		{"a1234 5", "a|123|4| |5", "a|123|4| |5"},
		{"!!\n/\n x", "!!\n/\n| x", "!!\n|/\n| x"},
		{"a  \n \n   b   ", "a|  \n \n|  | b|   ", "a|  \n \n|  | b|   "},
		{"\tx \t=", "\tx| |\t|=", "\tx| |\t|="},
	} {
		for _, enc := range []struct {
			e    Encoding
			want string
		}{{O200k, e.o200k}, {CL100k, e.cl100k}} {
			v, err := enc.e.vocabulary()
			if err != nil {
				t.Fatal(err)
			}
			var pieces []string
			for s := e.text; s != ""; {
				n := v.splitter(v.kinds, s, 3)
				pieces = append(pieces, s[:n])
				s = s[n:]
			}
			if got := strings.Join(pieces, "|"); got != enc.want {
				t.Errorf("%s: %q is split %q, want %q", enc.e, e.text, got, enc.want)
			}
		}
	}
}

// Where no vocabulary has a token that begins or ends within U+FFFD and comes before it, each becomes one token whatever
// is around it. So a byte that is not UTF-8, which becomes one, never is more than one token, and bytes bound tokens.
func TestABadByteIsOneTokenAtMost(t *testing.T) {
	const bad = "\ufffd"
	for _, e := range []Encoding{O200k, CL100k} {
		v, err := e.vocabulary()
		if err != nil {
			t.Fatal(err)
		}
		rank, ok := v.ranks[bad]
		if !ok {
			t.Fatalf("%s has no token for U+FFFD", e)
		}
		for text, r := range v.ranks {
			if r >= rank || len(text) == 1 {
				continue
			}
			for cut := 1; cut < len(bad); cut++ {
				crosses := strings.HasSuffix(text, bad[:cut]) && text != bad[:cut] || strings.HasPrefix(text, bad[cut:]) && text != bad[cut:]
				if crosses {
					t.Errorf("%s: %q of rank %d comes before U+FFFD, of %d", e, text, r, rank)
				}
			}
		}
	}
}

// Whoever adds to what a request holds has to say it twice: to bound, and to all.
func TestTheBoundIsUsedUpByTheCount(t *testing.T) {
	text := []byte("some \xff text 123")
	image := llm.Part{Kind: llm.PartImage, URL: "https://example.com"}
	req := &llm.Request{
		System: "be brief", ToolChoice: llm.ToolChoice{Name: "f"},
		Format: &llm.Format{Name: "answer", Schema: text}, Tools: []llm.Tool{{Name: "f", Description: "d", Parameters: text}},
		Messages: []llm.Message{{Parts: []llm.Part{
			llm.Text("hi"), image, {Kind: llm.PartFile, Data: text, MIME: "text/plain", Name: "a.txt"},
			{Kind: llm.PartFile, URL: "data:text/plain;base64,aGVsbG8gd29ybGQ=", Text: "t"}, {Kind: llm.PartFile, Data: []byte("%PDF-1 /Page ")},
			{Kind: llm.PartAudio, Data: text}, {Kind: llm.PartReasoning, Text: "hm"}, {Kind: "new", Name: "n"},
			{Kind: llm.PartToolCall, Call: &llm.ToolCall{ID: "1", Name: "f", Arguments: text}}, {Kind: llm.PartToolCall},
			{Kind: llm.PartToolResult, Result: &llm.ToolResult{CallID: "1", Name: "f", Parts: []llm.Part{llm.Text("42"), image}}},
			{Kind: llm.PartText, Text: "x", Extra: map[string]json.RawMessage{"p": text}}, {Kind: llm.PartToolResult},
		}}, {}},
		Extra: map[string]json.RawMessage{"p": text},
	}
	for _, model := range []string{"gpt-4o", "claude-3-opus"} {
		p := profileOf(model)
		v, err := p.encoding.vocabulary()
		if err != nil {
			t.Fatal(err)
		}
		tally := &tally{profile: p, vocabulary: v, rest: p.bound(req, nil)}
		bound := tally.rest
		if err := tally.all(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if tally.rest != 0 || tally.sum > bound {
			t.Errorf("%s: %d counted, %d of the bound of %d left", model, tally.sum, tally.rest, bound)
		}
	}
}

func TestAnEncodingThatIsNotKnownSaysSo(t *testing.T) {
	if _, err := Encoding("p50k_base").vocabulary(); err == nil || fmt.Sprint(err) == "" {
		t.Error("want an error")
	}
}
