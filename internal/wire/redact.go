package wire

import "strings"

// Redacted stands in the place of what was taken out.
const Redacted = "[redacted]"

// Redact takes API keys, tokens and passwords out of s and leaves the rest as it is: values with a known key's
// prefix, JWTs, what follows a label such as "Bearer", "api_key:" or "?key=", a URL's password, private keys, and
// anything that looks random shortly after the words "API key" or "token". Providers do echo them: Google whole,
// OpenAI in part.
func Redact(s string) string {
	var b strings.Builder
	done := 0   // s[:done] is in b
	armed := -1 // until here, what looks random is a secret
	for i := 0; i < len(s); {
		if !wordByte[s[i]] {
			if s[i] == '@' {
				if from, ok := password(s, done, i); ok {
					b.WriteString(s[done:from])
					b.WriteString(Redacted)
					done = i
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
		end := 0
		switch kind := label(word); {
		case hasKeyPrefix(word):
			end = valueEnd(s, from)
		case strings.HasPrefix(word, "-----BEGIN") && strings.Contains(s[i:min(len(s), i+40)], "PRIVATE"):
			end = len(s)
			if n := strings.Index(s[i:], "-----END"); n >= 0 {
				end = i + n
			}
		case kind != noLabel:
			start := valueStart(s, i, kind)
			if start > 0 {
				stop := valueEnd(s, start)
				if secretValue(s[start:stop], kind, s, from, start) {
					b.WriteString(s[done:start])
					b.WriteString(Redacted)
					done, i, armed = stop, stop, -1
					continue
				}
			}
			armed = i + 64
		case from < armed && (random(word) || strings.Contains(word, "***")):
			end = valueEnd(s, from)
		}
		if end > 0 {
			b.WriteString(s[done:from])
			b.WriteString(Redacted)
			done, i = end, end
		}
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// wordByte marks the bytes of words. '=' and '/' are not among them, so that queries and paths fall into words.
var wordByte = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("_-.*~", byte(c)) >= 0
	}
	return t
}()

// valueEnd is where the value that starts at i ends: at a blank, a quote, or what ends a parameter.
func valueEnd(s string, i int) int {
	for i < len(s) && strings.IndexByte(" \t\r\n\"'`<>,;&)]}|\\?#:", s[i]) < 0 {
		i++
	}
	return i
}

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

// secretValue reports whether v, which follows a label, is the secret and not the next word of a sentence.
func secretValue(v string, kind uint8, s string, label, at int) bool {
	inQuery := s[at-1] == '=' && label > 0 && (s[label-1] == '?' || s[label-1] == '&')
	switch {
	case v == "" || v == Redacted || strings.HasPrefix(v, "[redacted"):
		return false
	case inQuery, hasKeyPrefix(v), strings.Contains(v, "***"):
		return true
	case kind == wordy:
		return random(v)
	}
	switch strings.ToLower(v) {
	case "bearer", "basic", "null", "none", "true", "false":
		return false // the secret follows, or there is none
	}
	if len(v) >= 20 {
		return true
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
func password(s string, from, at int) (int, bool) {
	colon := -1
	for i := at - 1; i >= from && at-i < 256; i-- {
		switch s[i] {
		case ':':
			if colon < 0 {
				colon = i
			}
		case '/':
			return colon + 1, colon > 0 && i >= 2 && s[i-1] == '/' && s[i-2] == ':'
		case ' ', '\n', '"':
			return 0, false
		}
	}
	return 0, false
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
