package adapter

import (
	"encoding/base64"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/modelchain/llm/internal/wire"
)

const (
	// leastSecret is the length in bytes of the shortest secret that is taken out of texts. A shorter one is a part of too much.
	leastSecret = 4
	// longSecret is the length from which on a secret is in no word by chance, and is taken out wherever it stands.
	longSecret = 16
)

// A secret is a text that must not show up in errors.
type secret struct {
	text string
	// word: it is taken out only where it stands as a whole word, as it may be a part of others.
	word bool
	// late: it may be a word or a number of an ordinary sentence, and is taken out only once a failure has been classified by its
	// words.
	late bool
	// plain: no way of writing it down changes it.
	plain bool
}

// standIns are the words that documentation gives for the key of a server that asks for none. They are no secrets, and taken
// out of an error they would take what it says with them.
func standIns() []string {
	return []string{
		"dummy", "empty", "fake", "llama.cpp", "lm-studio", "lmstudio", "localai", "no-key", "none", "not-needed", "null", "ollama",
		"placeholder", "sk-no-key-required", "test", "unused", "vllm",
	}
}

// secretsOf is a secret, if a text is one.
func secretsOf(text string) []secret {
	if len(text) < leastSecret || slices.Contains(standIns(), strings.ToLower(text)) {
		return nil
	}
	return []secret{{
		text: text,
		word: len(text) < longSecret && (len(text) < 8 || !strings.ContainsAny(text, "0123456789")),
		late: len(text) < longSecret && (only(text, letter) || only(text, digit)),
		plain: only(text, func(c byte) bool {
			return letter(c) || digit(c) || c == '-' || c == '_' || c == '.' || c == '~'
		}),
	}}
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

func only(s string, is func(byte) bool) bool {
	for i := range len(s) {
		if !is(s[i]) {
			return false
		}
	}
	return true
}

// out is s without the secret.
func (x *secret) out(s string) string {
	var b strings.Builder
	done := 0
	for from := 0; ; {
		i, end := x.find(s, from)
		if i < 0 {
			break
		}
		if from = i + 1; !x.word || starts(s, i) && ends(s, end) {
			b.WriteString(s[done:i])
			b.WriteString(wire.Redacted)
			done, from = end, end
		}
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// find is the next place of the secret in s. i is negative: there is none.
func (x *secret) find(s string, from int) (i, end int) {
	if x.plain {
		if i = strings.Index(s[from:], x.text); i < 0 {
			return -1, 0
		}
		return from + i, from + i + len(x.text)
	}
	for i := from; i < len(s); i++ {
		if c := s[i]; c != x.text[0] && c != '%' && c != '\\' && c != '&' && c != '+' {
			continue
		}
		if end = written(s, i, x.text); end >= 0 {
			return i, end
		}
	}
	return -1, 0
}

// written is where text ends in s, which has it at i as it is, or with escapes of JSON, of URLs or of HTML. -1: it is not there.
// Providers escape what they echo as their libraries do: .NET writes %2b and \u002B, and a page &amp;.
func written(s string, i int, text string) int {
	for ; text != ""; text = text[1:] {
		if i >= len(s) {
			return -1
		}
		c := text[0]
		if n := escape(s[i:], c); n > 0 {
			if s[i] != c {
				i += n
				continue
			}
			if end := written(s, i+n, text[1:]); end >= 0 { // else it stands for itself
				return end
			}
		}
		if s[i] != c {
			return -1
		}
		i++
	}
	return i
}

// escape is the length of an escape of c with which s begins. 0: there is none.
func escape(s string, c byte) int {
	switch s[0] {
	case '%':
		if len(s) >= 3 && isHex(s[1:3], c) {
			return 3
		}
	case '\\':
		if c == '\\' {
			if len(s) > 1 && s[1] == c {
				return 2
			}
			return 0
		}
		s = s[:min(len(s), 16)]
		n := len(s) - len(strings.TrimLeft(s, `\`)) // JSON within JSON has more of them
		switch {
		case len(s) >= n+5 && s[n] == 'u' && isHex(s[n+1:n+5], c):
			return n + 5
		case len(s) > n && s[n] == c && !letter(c) && !digit(c):
			return n + 1
		}
	case '&':
		name, _, ok := strings.Cut(s[:min(len(s), 9)], ";")
		if ok && html.UnescapeString(name+";") == string(rune(c)) {
			return len(name) + 1
		}
	case '+':
		if c == ' ' {
			return 1
		}
	}
	return 0
}

func isHex(digits string, c byte) bool {
	n, err := strconv.ParseUint(digits, 16, 16)
	return err == nil && n == uint64(c)
}

// inWord tells the bytes that words are made of, also those that have several parts.
func inWord(c byte) bool { return letter(c) || digit(c) || c == '-' || c == '_' || c >= 0x80 }

// starts reports whether a word may start at i: what stands before it is no part of it, but the end of an escape may be.
func starts(s string, i int) bool {
	switch {
	case i == 0 || !inWord(s[i]):
		return true
	case s[i-1] == '.':
		return i < 2 || !inWord(s[i-2])
	case !inWord(s[i-1]):
		return true
	case i >= 2 && s[i-2] == '\\':
		return strings.IndexByte("nrtbf", s[i-1]) >= 0
	}
	return i >= 6 && s[i-6] == '\\' && s[i-5] == 'u' || i >= 3 && s[i-3] == '%'
}

// ends reports whether a word may end before i.
func ends(s string, i int) bool {
	switch {
	case i >= len(s) || !inWord(s[i-1]):
		return true
	case s[i] == '.':
		return i+1 >= len(s) || !inWord(s[i+1])
	}
	return !inWord(s[i])
}

// secrets are those of the configuration.
func (a *Account) secrets() []secret {
	all := secretsOf(a.APIKey)
	for name, values := range a.Header {
		if !telling(name) {
			continue
		}
		for _, v := range values {
			for _, text := range within(name, v) {
				all = append(all, secretsOf(text)...)
			}
		}
	}
	return all
}

// within are the secrets in the value of a header: all of it, what follows the name of a scheme, the password in that, and the
// values of cookies.
func within(name, v string) []string {
	all := []string{v}
	if http.CanonicalHeaderKey(name) == "Cookie" {
		for part := range strings.SplitSeq(v, ";") {
			_, value, _ := strings.Cut(part, "=")
			all = append(all, strings.TrimSpace(value))
		}
		return all
	}
	scheme, rest, ok := strings.Cut(v, " ")
	if !ok {
		return all
	}
	all = append(all, strings.TrimSpace(rest))
	if plain, err := base64.StdEncoding.DecodeString(rest); err == nil && strings.EqualFold(scheme, "Basic") {
		_, password, _ := strings.Cut(string(plain), ":")
		all = append(all, password)
	}
	return all
}

// telling reports whether the value of a header, or of a parameter, is a secret by its name.
func telling(name string) bool {
	name = strings.ToLower(name)
	for _, mark := range [...]string{"auth", "key", "token", "secret", "cookie", "passw", "credential", "signature"} {
		if strings.Contains(name, mark) {
			return true
		}
	}
	return false
}

// HideIn keeps the secrets that stand in an address out of errors as well: the password, and the parameters that are secrets by
// their names.
func (a *Account) HideIn(address string) {
	u, err := url.Parse(address)
	if err != nil {
		return
	}
	if password, ok := u.User.Password(); ok {
		a.hidden = append(a.hidden, secretsOf(password)...)
	}
	for name, values := range u.Query() {
		if !telling(name) {
			continue
		}
		for _, v := range values {
			a.hidden = append(a.hidden, secretsOf(v)...)
		}
	}
	longestFirst(a.hidden)
}

// recent are the keys that an account was given last, for the failures of an SDK's client, which do not say which key they had.
type recent struct {
	mu   sync.Mutex
	keys [4]string
	next int
}

func (r *recent) note(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.keys[:], key) {
		r.keys[r.next] = key
		r.next = (r.next + 1) % len(r.keys)
	}
}

func (r *recent) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.keys[:])
}
