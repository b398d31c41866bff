package wire

import (
	"strings"
	"testing"
)

func TestRedactTakesSecrets(t *testing.T) {
	tests := []struct{ in, want string }{
		{"Incorrect API key provided: sk-proj-abcDEF0123456789abcdef. See x", "Incorrect API key provided: [redacted] See x"},
		{"provided: sk-12345***********wxyz. You", "provided: [redacted] You"},
		{"Incorrect API key provided: ********wxyz.", "Incorrect API key provided: [redacted]"},
		{"key sk-ant-api03-AAAA0000bbbb-cccc is bad", "key [redacted] is bad"},
		{"Consumer 'api_key:AIzaSyEXAMPLE0' has been suspended", "Consumer 'api_key:[redacted]' has been suspended"},
		{"AIzaSyA1234567890abcdefghijklmnopqrstuv", "[redacted]"},
		{`Post "https://g.com/v1/m:go?key=abc123&alt=sse": EOF`, `Post "https://g.com/v1/m:go?key=[redacted]&alt=sse": EOF`},
		{"https://x/y?alt=sse&api_key=letters", "https://x/y?alt=sse&api_key=[redacted]"},
		{"https://x/y?sig=aB%2Fc&se=1", "https://x/y?sig=[redacted]&se=1"},
		{"authorization denied for bearer pb_EXAMPLEKEY", "authorization denied for bearer [redacted]"},
		{"Authorization: Bearer abcdef0123456789", "Authorization: Bearer [redacted]"},
		{"Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic [redacted]"},
		{"x-api-key: 0123456789abcdef0123456789abcdef!", "x-api-key: [redacted]"},
		{`{"api_key": "abc123def456", "model": "m"}`, `{"api_key": "[redacted]", "model": "m"}`},
		{`{"password":"hunter22","user":"bob"}`, `{"password":"[redacted]","user":"bob"}`},
		{"token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-def_123 expired", "token [redacted] expired"},
		{"AKIAIOSFODNN7EXAMPLE and ASIAIOSFODNN7EXAMPLE", "[redacted] and [redacted]"},
		{"X-Amz-Signature=deadbeef00&X-Amz-Date=1", "X-Amz-Signature=[redacted]&X-Amz-Date=1"},
		{"gsk_abcDEF123 xai-abcdef0123456789 hf_abcDEF123456 r8_abcDEF123456", "[redacted] [redacted] [redacted] [redacted]"},
		{"Your account org-1<ak-f94zcrj6ax1111aqsyq1> request", "Your account org-1<[redacted]> request"},
		{"ya29.a0AfH6SMBx token", "[redacted] token"},
		{"redis://user:s3cret@host:6379/0", "redis://user:[redacted]@host:6379/0"},
		{"your API key 9f86d081884c7d659a2feaa0c55ad015 is wrong", "your API key [redacted] is wrong"},
		{"-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY----- tail",
			"[redacted]-----END RSA PRIVATE KEY----- tail"},
		{"ghp_abcdefABCDEF0123 github_pat_abcdefABCDEF0123", "[redacted] [redacted]"},
	}
	for _, tt := range tests {
		got := Redact(tt.in)
		if got != tt.want {
			t.Errorf("%q\n got %q\nwant %q", tt.in, got, tt.want)
		}
		if again := Redact(got); again != got {
			t.Errorf("a second pass changed %q to %q", got, again)
		}
	}
}

func TestRedactLeavesTheRest(t *testing.T) {
	for _, s := range []string{
		"",
		"The model `gpt-4o-2024-08-06` does not exist",
		"Your API key does not have permission to use claude-3-5-sonnet-20241022",
		"Rate limit reached for gpt-4o in organization org-abc on tokens per min (TPM): Limit 30000, Requested 385.",
		"Please try again in 494ms. Visit https://platform.openai.com/account/rate-limits to learn more.",
		"invalid x-api-key",
		"API key: must be set",
		"Max tokens: 8192, request input token count: 9001",
		"The security token included in the request is invalid.",
		"unknown key: temperature",
		"request_id=req_011CSHoEeqs5C35K2UUqR7Fy",
		"organization 00000000-0000-0000-0000-000000000000 of 200,000 input tokens",
		"bearer token missing; Bearer authentication required",
		"monkey=banana, turkey: stuffed",
		"Invalid 'messages[1].content': string too long",
		"sk-learn and pk- and key",
		"余额不足",
		"user@example.com wrote",
		"Missing Authentication Token",
		`{"authorization": "none", "token": null, "password": ""}`,
	} {
		if got := Redact(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

// labels are what a user can fill a message with so that each piece looks as if a secret followed.
func labels() []string {
	return []string{
		"key=", "token=", "secret=", "sig=", "pass=", "key=a&", "key=aaaa/", "api_key=", "password:", "secret = ", "bearer=",
		"Bearer bearer ", "key=sk-a.=", "key=sk-", "token=***", "key=password=", "@", ":@", "a:@", "/:@", "://a:b@", "eyJ.",
		"-----BEGIN", "-----BEGIN PRIVATE", "-----BEGIN PRIVATE -----END", "AIza", "?key=", "[redacted", "key=[redacted",
	}
}

// A redaction that reads a value again for each label before it needs seconds for the 64 KiB that one user can have echoed.
func TestRedactReadsAByteAFewTimesOnly(t *testing.T) {
	for _, unit := range append(labels(), strings.Join(labels(), "")) {
		for _, size := range []int{MaxBody / 2, MaxBody} {
			r := redactor{s: strings.Repeat(unit, size/len(unit))}
			r.redact()
			if r.read > 4*len(r.s) {
				t.Errorf("%d bytes of %q: %d were read", len(r.s), unit, r.read)
			}
		}
	}
}

func TestRedactJudgesEachLabelOfAValue(t *testing.T) {
	for in, want := range map[string]string{
		"key=key=key=sk-0123456789abcdef":        "key=[redacted]",
		"key=password=hunter22":                  "key=password=[redacted]",
		"token=token=0123456789abcdef0":          "token=[redacted]",
		"key=a/b=?token=letters":                 "key=a/b=?token=[redacted]",
		"redis://u:aaa@h redis://u:bbb@h":        "redis://u:[redacted]@h redis://u:[redacted]@h",
		"a/b c:d@e http://f:g@h":                 "a/b c:d@e http://f:[redacted]@h",
		"https://x/?u=@y and https://u:p/q@host": "https://x/?u=@y and https://u:p/q@host",
	} {
		if got := Redact(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func FuzzRedact(f *testing.F) {
	for _, s := range []string{
		"sk-12345***********wxyz", "?key=abc", "bearer pb_EXAMPLEKEY", "a:b@c", "eyJhbGciOiJIUzI1NiJ9.eyJ", "api_key:",
	} {
		f.Add(s)
	}
	for _, s := range labels() {
		f.Add(strings.Repeat(s, 200))
	}
	f.Fuzz(func(t *testing.T, s string) {
		const key = "sk-FUZZ0123456789abcdef"
		if got := Redact(s + " " + key + " " + s); strings.Contains(got, key) {
			t.Fatalf("kept the key in %q", got)
		}
		r := redactor{s: s}
		if r.redact(); r.read > 4*len(s)+64 {
			t.Fatalf("%d bytes of %q: %d were read", len(s), s, r.read)
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	s := strings.Repeat("Rate limit reached for gpt-4o in organization org-abc on tokens per min. ", 8)
	b.SetBytes(int64(len(s)))
	b.ReportAllocs()
	for b.Loop() {
		_ = Redact(s)
	}
}

// BenchmarkRedactHostile redacts 64 KiB of what looks like labels without secrets.
func BenchmarkRedactHostile(b *testing.B) {
	for _, unit := range []string{"key=", "token=", "secret=", "sig=", "key=sk-a.=", "password:", "@", "://a:b@"} {
		b.Run(unit, func(b *testing.B) {
			s := strings.Repeat(unit, MaxBody/len(unit))
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				_ = Redact(s)
			}
		})
	}
}
