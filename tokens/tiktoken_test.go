package tokens_test

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"

	"github.com/modelchain/llm/tokens"
)

// The truth of these tests is tiktoken-go. It keeps for the whole process where its vocabularies come from.
func TestMain(m *testing.M) {
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	os.Exit(m.Run())
}

var truth = map[tokens.Encoding]func() (*tiktoken.Tiktoken, error){
	tokens.O200k:  sync.OnceValues(func() (*tiktoken.Tiktoken, error) { return tiktoken.GetEncoding("o200k_base") }),
	tokens.CL100k: sync.OnceValues(func() (*tiktoken.Tiktoken, error) { return tiktoken.GetEncoding("cl100k_base") }),
}

// trueCount is tiktoken's count.
func trueCount(t testing.TB, e tokens.Encoding, text string) int {
	t.Helper()
	tk, err := truth[e]()
	if err != nil {
		t.Fatal(err)
	}
	return len(tk.EncodeOrdinary(text))
}

func countText(t testing.TB, c *tokens.Counter, text string) int {
	t.Helper()
	n, err := c.CountText(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// texts are what splitters and merges can get wrong.
var texts = []string{
	"", "a", "hello world", "Hello, World! It's 1234567 o'clock; I'LL be there, WE'VE been'd.",
	"'s 'S's'T 're've'LL'x '", "ſ'ſ İ ẞ ŉ K",
	"a\n\n b \r\n /\n// \n\n\t x   y \u00a0\u2003\u3000 z  ", "   ", " \n ", "\r\n\r\n", "\u0085\u2028",
	"camelCaseWORDWithABCdef XMLHttpRequest ǅabc ʰx ªº", "e\u0301e\u0302A\u0301BC \u0301 \u0301ABC\u0301 \u20dd",
	"人民共和国的中文文本没有空格ABCd日本語ひらがなカタカナー한국어", "ไทยไม่มีช่องว่างระหว่างคำ", "العربية ١٢٣٤٥ हिन्दी १२३",
	"😀🎉👩\u200d👩\u200d👧🏳️\u200d🌈", "½¼ ² ³ Ⅷ 12½", "<|endoftext|><|im_start|>", "\x00\x01\x7f", "\ufeff\ufffd\ufffe",
	"\xff", " \xff\xfe a\xf0\x9f", "\xe4\xb8", "a\xc3", "func main() {\n\tfmt.Println(\"x\")\n\t}\n}\n",
	strings.Repeat("=", 100) + "\n" + strings.Repeat("-", 77) + "\r\n//" + strings.Repeat("*", 130),
	strings.Repeat("a", 1000), strings.Repeat(" ", 500) + "x", strings.Repeat("\n", 300), strings.Repeat("\t ", 200),
	strings.Repeat("Donaudampfschifffahrtsgesellschaft", 30),
}

func TestATextCountsAsTiktokenCountsIt(t *testing.T) {
	for e := range truth {
		c := tokens.New(tokens.Config{Encoding: e})
		for _, text := range texts {
			if got, want := countText(t, c, text), trueCount(t, e, text); got != want {
				t.Errorf("%s: %.60q is %d tokens, tiktoken says %d", e, text, got, want)
			}
		}
	}
}

// Long pieces are encoded a stretch at a time, which must not show.
func TestAHostileTextCountsAsTiktokenCountsIt(t *testing.T) {
	for e := range truth {
		c := tokens.New(tokens.Config{Encoding: e})
		for name, text := range hostile(2500) {
			if got, want := countText(t, c, text), trueCount(t, e, text); got != want {
				t.Errorf("%s: %s is %d tokens, tiktoken says %d", e, name, got, want)
			}
		}
	}
}

func TestATextHasNoMoreTokensThanBytes(t *testing.T) {
	for _, model := range []string{"gpt-4o", "gpt-4", "claude-opus-4-8", "llama-2-70b", "never-heard-of"} {
		c := tokens.For(model)
		for _, text := range texts {
			if n := countText(t, c, text); n > len(text) {
				t.Errorf("%s: %.60q of %d bytes is %d tokens", model, text, len(text), n)
			}
		}
	}
}

// Whatever the text: never too few, never more than its bytes, and with a limit on the right side of it.
func FuzzCountText(f *testing.F) {
	for _, text := range texts {
		f.Add(text, 3)
	}
	counters := map[tokens.Encoding]*tokens.Counter{}
	for e := range truth {
		counters[e] = tokens.New(tokens.Config{Encoding: e})
		trueCount(f, e, "") // loads it here, as a run of the target is not given much time
		countText(f, counters[e], "")
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		text = text[:min(len(text), 5000)] // tiktoken takes the square of it
		for e, c := range counters {
			n, want := countText(t, c, text), trueCount(t, e, text)
			if n != want {
				t.Fatalf("%s: %q is %d tokens, tiktoken says %d", e, text, n, want)
			}
			if n > len(text) {
				t.Fatalf("%s: %q of %d bytes is %d tokens", e, text, len(text), n)
			}
			req := user(text)
			all := count(t, c, req, 0)
			if part := count(t, c, req, limit); limit > 0 && (part > limit) != (all > limit) {
				t.Fatalf("%s: %q is %d tokens; with a limit of %d it is said to be %d", e, text, all, limit, part)
			}
		}
	})
}

func TestModelsThatTiktokenKnowsCountByTheSameEncoding(t *testing.T) {
	check := func(model, encoding string) {
		if encoding != string(tokens.O200k) && encoding != string(tokens.CL100k) {
			return // models that no provider serves any more
		}
		if got := tokens.For(model).String(); !strings.HasSuffix(got, " by "+encoding) {
			t.Errorf("%s is counted %q, tiktoken-go says by %s", model, got, encoding)
		}
	}
	for model, encoding := range tiktoken.MODEL_TO_ENCODING {
		check(model, encoding)
	}
	for prefix, encoding := range tiktoken.MODEL_PREFIX_TO_ENCODING {
		check(prefix+"2030-01-01", encoding)
	}
}
