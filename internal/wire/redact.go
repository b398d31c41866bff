package wire

import "strings"

// Redacted stands in the place of what was taken out.
const Redacted = "[redacted]"

// Redact takes API keys, tokens and passwords out of s and leaves the rest as it is: values with a known key's
// prefix, JWTs, what follows a label such as "Bearer", "api_key:" or "?key=", a URL's password, private keys, and
// anything that looks random shortly after the words "API key" or "token". Providers do echo them: Google whole,
// OpenAI in part.
func Redact(s string) string {
	r := redactor{s: s}
	return r.redact()
}

// A redactor keeps what it found out about the text so far, so that no byte is read again for each label or @ before it.
// Error bodies hold what users wrote, and 64 KiB of "key=key=…" must cost no more than other text.
type redactor struct {
	s    string
	out  strings.Builder
	done int // s[:done] is in out
	read int // bytes looked at, for tests

	valueAt int  // where the value that was measured last ends
	dull    bool // nothing in it looks random
	// Where these stood last; stop is a blank, a quote or the end of a line.
	slash, colon, stop int
}

func (r *redactor) redact() string {
	s := r.s
	r.slash, r.colon, r.stop = -1, -1, -1
	armed := -1 // until here, what looks random is a secret
	for i := 0; i < len(s); {
		if !wordByte[s[i]] {
			switch s[i] {
			case '/':
				r.slash = i
			case ':':
				r.colon = i
			case ' ', '\n', '"':
				r.stop = i
			case '@':
				if from, ok := r.password(i); ok {
					r.cut(from, i)
				}
			}
			i++
			continue
		}
		from := i
		for i < len(s) && wordByte[s[i]] {
			i++
		}
		word := s[from:i]
		r.read += len(word)
		end := 0
		switch kind := label(word); {
		case hasKeyPrefix(word):
			end = r.valueEnd(from)
		case strings.HasPrefix(word, "-----BEGIN") && strings.Contains(s[i:min(len(s), i+40)], "PRIVATE"):
			end = len(s)
			if n := strings.Index(s[i:], "-----END"); n >= 0 {
				end = i + n
			}
			r.read += end - i
		case kind != noLabel:
			if start := valueStart(s, i, kind); start > 0 {
				if stop := r.valueEnd(start); r.secret(start, stop, kind, from) {
					r.cut(start, stop)
					i, armed = stop, -1
					continue
				}
			}
			armed = i + 64
		case from < armed && (random(word) || strings.Contains(word, "***")):
			end = r.valueEnd(from)
		}
		if end > 0 {
			r.cut(from, end)
			i = end
		}
	}
	if r.done == 0 {
		return s
	}
	r.out.WriteString(s[r.done:])
	return r.out.String()
}

// cut takes s[from:to] out.
func (r *redactor) cut(from, to int) {
	r.out.WriteString(r.s[r.done:from])
	r.out.WriteString(Redacted)
	r.done = to
}

// wordByte marks the bytes of words. '=' and '/' are not among them, so that queries and paths fall into words.
var wordByte = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("_-.*~", byte(c)) >= 0
	}
	return t
}()

// valueEnd is where the value that starts at i ends: at a blank, a quote, or what ends a parameter. A place within the
// value that was measured last needs no second look.
func (r *redactor) valueEnd(i int) int {
	if i < r.valueAt {
		return r.valueAt
	}
	at := i
	for at < len(r.s) && !valueStop[r.s[at]] {
		at++
	}
	r.read += at - i
	r.valueAt, r.dull = at, false
	return at
}

var valueStop = func() (t [256]bool) {
	for _, c := range []byte(" \t\r\n\"'`<>,;&)]}|\\?#:") {
		t[c] = true
	}
	return t
}()

// The kinds of labels before a secret.
const (
	noLabel uint8 = iota
	wordy         // a word of ordinary sentences too: what follows must look like a secret
	scheme        // Bearer, Basic: a blank comes between
	sure          // a name that only secrets have
)

func label(word string) uint8 {
	if len(word) < 3 || len(word) > 32 {
		return noLabel
	}
	switch word[0] | 0x20 {
	case 'a', 'b', 'c', 'i', 'k', 'o', 'p', 'r', 's', 't', 'x':
	default:
		return noLabel // no label begins so
	}
	var plain [32]byte // as Norm writes it, without the allocation: this is asked for every word
	n := 0
	for i := range len(word) {
		switch c := word[i]; {
		case c >= 'A' && c <= 'Z':
			plain[n] = c | 0x20
			n++
		case c >= 'a' && c <= 'z':
			plain[n] = c
			n++
		case c >= '0' && c <= '9':
			return noLabel
		}
	}
	switch string(plain[:n]) {
	case "bearer", "basic":
		return scheme
	case "key", "keys", "token", "tokens", "secret", "credential", "credentials", "auth", "pass", "provided",
		"signature", "sig":
		return wordy
	case "apikey", "xapikey", "apitoken", "accesstoken", "refreshtoken", "idtoken", "authtoken", "sessiontoken",
		"clientsecret", "secretkey", "accesskey", "accesskeyid", "awsaccesskeyid", "awssecretaccesskey",
		"awssessiontoken", "password", "passwd", "authorization", "subscriptionkey", "ocpapimsubscriptionkey",
		"xgoogapikey", "privatekey", "xamzsignature", "xamzcredential", "xamzsecuritytoken", "securitytoken", "apisecret":
		return sure
	}
	return noLabel
}

// valueStart is where the value of the label that ends at i starts. 0: there is none.
func valueStart(s string, i int, kind uint8) int {
	seen := false
	for at := i; at < len(s) && at < i+8; at++ {
		switch s[at] {
		case '=', ':':
			seen = true
		case ' ', '\t':
			seen = seen || kind == scheme
		case '"', '\'', '`', '\\', '(', '[':
		default:
			if !seen {
				return 0
			}
			return at
		}
	}
	return 0
}

// secret reports whether the value s[start:stop], which follows the label at from, is the secret and not the next word
// of a sentence.
func (r *redactor) secret(start, stop int, kind uint8, from int) bool {
	v := r.s[start:stop]
	inQuery := r.s[start-1] == '=' && from > 0 && (r.s[from-1] == '?' || r.s[from-1] == '&')
	switch {
	case v == "" || strings.HasPrefix(v, "[redacted"):
		return false
	case inQuery, hasKeyPrefix(v[:min(len(v), 64)]):
		return true
	case kind != wordy && len(v) >= 20:
		return true
	case kind == wordy && r.dull: // the end of a value that was found to be none
		return false
	}
	r.read += len(v)
	if strings.Contains(v, "***") {
		return true
	}
	if kind == wordy {
		r.dull = !random(v)
		return !r.dull
	}
	switch strings.ToLower(v) {
	case "bearer", "basic", "null", "none", "true", "false":
		return false // the secret follows, or there is none
	}
	digit, mixed := false, false
	for i := range len(v) {
		c := v[i]
		digit = digit || c >= '0' && c <= '9' || c == '_'
		mixed = mixed || i > 0 && c >= 'A' && c <= 'Z'
	}
	return len(v) >= 6 && (digit || mixed)
}

// random reports whether word has a run of 16 letters and digits, both among them: keys do, while names, ids with
// dashes and model names do not.
func random(word string) bool {
	run, digit, letter := 0, false, false
	for i := range len(word) {
		switch c := word[i]; {
		case c >= '0' && c <= '9':
			run, digit = run+1, true
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			run, letter = run+1, true
		default:
			run, digit, letter = 0, false, false
		}
		if run >= 16 && digit && letter {
			return true
		}
	}
	return false
}

// password finds the password of "scheme://user:password@" that ends at the @ at i.
func (r *redactor) password(at int) (int, bool) {
	s, i := r.s, r.slash
	if i < max(r.done, 2, at-255) || r.stop > i || r.colon < i {
		return 0, false
	}
	return r.colon + 1, s[i-1] == '/' && s[i-2] == ':'
}

// A keyPrefix is how the keys of one maker begin, and how long a word must be to be one.
type keyPrefix struct {
	prefix string
	length int
	digit  bool // a digit, a star or 24 bytes must be in it, as words begin so too
}

var keyPrefixes = [...]keyPrefix{
	{"sk-", 12, true}, // OpenAI, Anthropic, OpenRouter, DeepSeek, Moonshot, Langfuse
	{"sk_", 16, true}, // ElevenLabs, Stripe
	{"pk-", 16, true},
	{"ak-", 16, true}, // Moonshot
	{"rk-", 16, true},
	{"sess-", 16, true},
	{"AIza", 8, false}, // Google
	{"AQ.", 16, true},
	{"ya29.", 10, false},
	{"GOCSPX-", 10, false},
	{"gsk_", 8, false},   // Groq
	{"xai-", 16, true},   // xAI
	{"csk-", 8, true},    // Cerebras
	{"pplx-", 16, true},  // Perplexity
	{"nvapi-", 10, true}, // NVIDIA
	{"fw_", 12, true},    // Fireworks
	{"tgp_v1_", 10, false},
	{"tgp_", 16, true},
	{"hf_", 12, true}, // Hugging Face
	{"r8_", 12, true}, // Replicate
	{"pb_", 8, false}, // Predibase
	{"jina_", 16, true},
	{"voyage-", 30, true},
	{"ghp_", 12, true},
	{"gho_", 12, true},
	{"ghu_", 12, true},
	{"ghs_", 12, true},
	{"github_pat_", 16, false},
	{"glpat-", 12, false},
	{"xoxb-", 10, false},
	{"xoxp-", 10, false},
	{"dapi", 32, true},  // Databricks
	{"AKIA", 16, false}, // AWS
	{"ASIA", 16, false},
	{"ABSK", 16, false}, // Bedrock API keys
	{"bedrock-api-key-", 20, false},
}

func hasKeyPrefix(word string) bool {
	if len(word) < 8 {
		return false
	}
	switch word[0] {
	case 's', 'p', 'r', 'a', 'A', 'y', 'G', 'g', 'x', 'c', 'n', 'f', 't', 'h', 'j', 'v', 'd', 'b', 'e':
	default:
		return false
	}
	for i := range keyPrefixes {
		k := keyPrefixes[i]
		if word[0] == k.prefix[0] && len(word) >= k.length && word[:len(k.prefix)] == k.prefix {
			return !k.digit || len(word) >= 24 && !strings.Contains(word, ".") ||
				strings.ContainsAny(word[len(k.prefix):], "0123456789*")
		}
	}
	// A JWT: the base64 of `{"` in two parts.
	return len(word) >= 20 && word[:3] == "eyJ"
}
