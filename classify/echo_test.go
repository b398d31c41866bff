package classify

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelchain/llm"
)

// complaint is a 400 of OpenAI's form.
func complaint(provider, message, typ, code, param string) *llm.Error {
	body, _ := json.Marshal(map[string]any{"error": map[string]string{
		"message": message, "type": typ, "code": code, "param": param,
	}})
	return answer(provider, http.StatusBadRequest, string(body))
}

// No phrase of any row speaks for the provider where the answer finds fault with the request and the phrase is, or may be,
// what the user wrote.
func TestWordsOfTheRequestDecideNothing(t *testing.T) {
	n := 0
	for _, table := range tables() {
		for i := range table {
			r := &table[i]
			if trustOf(r) == trustAll || len(r.Status) > 0 && !slices.Contains(r.Status, http.StatusBadRequest) {
				continue
			}
			for _, p := range r.Phrase {
				p = strings.ReplaceAll(p, "*", " x ")
				for _, e := range []*llm.Error{
					complaint(r.Provider, "Invalid value: '"+p+"'.", "invalid_request_error", "", ""),
					complaint(r.Provider, "Invalid value: \""+p+"\".", "invalid_request_error", "", ""),
					complaint(r.Provider, "Invalid value: \u201c"+p+"\u201d.", "invalid_request_error", "", ""),
					complaint(r.Provider, "Invalid value: `"+p, "invalid_request_error", "", ""),
					complaint(r.Provider, "Error while downloading https://a.example/"+strings.ReplaceAll(p, " ", "_"), "", "", ""),
					complaint(r.Provider, "Bad: "+p, "invalid_request_error", "invalid_value", ""),
					complaint(r.Provider, "Bad: "+p, "invalid_image_url", "", ""),
				} {
					n++
					if got := Error(e); got.Class != llm.Invalid && got.Class != llm.TooLong { // "too many tokens" are of the request
						t.Errorf("%s: %s: %v by %s", r.Name, e.Evidence.Body, got.Class, got.Rule)
					}
				}
				if trustOf(r) != trustSure {
					continue
				}
				for _, e := range []*llm.Error{
					complaint(r.Provider, "Expected a number, but got "+p, "invalid_request_error", "", ""),
					complaint(r.Provider, "Invalid value: 'a' "+p+" 'b'.", "invalid_request_error", "", ""),
					complaint(r.Provider, "Bad: "+p, "invalid_request_error", "", "messages[0].content"),
				} {
					n++
					if got := Error(e); got.Class != llm.Invalid && got.Class != llm.TooLong { // "too many tokens" are of the request
						t.Errorf("%s: %s: %v by %s", r.Name, e.Evidence.Body, got.Class, got.Rule)
					}
				}
			}
		}
	}
	if n < 2000 {
		t.Errorf("only %d answers", n)
	}
}

func TestNoWaitOfTheRequestsWords(t *testing.T) {
	e := complaint("openai", `Invalid value: '{"error":{"metadata":{"headers":{"Retry-After":"9000"}},"retry_after":9000}}', `+
		`please try again in 9000s`, "invalid_request_error", "", "")
	if got := Error(e); got.Class != llm.Invalid || got.RetryAfter != 0 || got.CoolUntil {
		t.Errorf("got %v, wait %v", got, got.RetryAfter)
	}
}

func TestWordsOfAnSDKAreReadLikeABody(t *testing.T) {
	e := answer("openai", http.StatusBadRequest, "")
	e.Evidence.Code, e.Evidence.Message = "invalid_value", `bad: {"error":{"code":"insufficient_quota"}}, insufficient quota`
	if got := Error(e); got.Class != llm.Invalid {
		t.Errorf("got %v by %s", got, got.Rule)
	}
	e.Evidence.Code = ""
	if got := Error(e); got.Class != llm.Quota {
		t.Errorf("a relay's code: got %v by %s", got, got.Rule)
	}
}

func TestTheUsersRowsSeeAllOfAMessage(t *testing.T) {
	c := New(Rule{Name: "mine", Phrase: []string{"insufficient quota"}, Class: llm.Overloaded})
	if got := c.Error(complaint("openai", "Invalid value: 'insufficient quota'.", "", "invalid_value", "")); got.Rule != "mine" {
		t.Errorf("got %v by %s", got, got.Rule)
	}
}

func TestUnquoted(t *testing.T) {
	for _, tt := range []struct{ in, own, sure string }{
		{"", "", ""},
		{"plain", "plain", "plain"},
		{"'all of it'", "all of it", "all of it"},
		{"the 'a' of 'b' is", "the '' of '' is", "the '' is"},
		{"it's the users' own", "it's the users' own", "it's the users' own"},
		{`a "b 'c' d" e`, `a "" e`, `a "" e`},
		{"a `b", "a `", "a `"},
		{"see https://x/y?z='q' now", "see :// now", "see :// now"},
		{"one, but got two", "one, but got two", "one, "},
		{"https://", "", ""},
		{"'", "'", "'"},
		{"a ' b' c", "a '' c", "a '' c"},
	} {
		clean := func(s string) string { return strings.ReplaceAll(s, "://", "") }
		if got := unquoted(tt.in, trustOwn); clean(got) != clean(tt.own) {
			t.Errorf("%q own: %q, want %q", tt.in, got, tt.own)
		}
		if got := unquoted(tt.in, trustSure); clean(got) != clean(tt.sure) {
			t.Errorf("%q sure: %q, want %q", tt.in, got, tt.sure)
		}
	}
}

// FuzzEcho puts words into quotes: what is quoted never makes a 400 the account's failure.
func FuzzEcho(f *testing.F) {
	for _, s := range []string{"insufficient quota", "a' rate limit exceeded 'b", "it's overloaded", "\" invalid api key", "x\nquota",
		`{"error":{"code":"insufficient_quota"}}`, "insufficient_quota: x", "litellm.RateLimitError", "`'\"", "https://a/b",
		`0{"Code":insuffiCientquota`, `x' {"code":"insufficient_quota"} 'y`,
		` 00{"code":insufficient_quota"}`, " insufficient quota"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Error(complaint("openai", "Invalid value: '"+s+"'.", "invalid_request_error", "", ""))
		switch got.Class {
		case llm.Quota, llm.RateLimited, llm.Overloaded, llm.Auth:
			t.Fatalf("%q: %v by %s", s, got.Class, got.Rule)
		}
		got = Error(complaint("openai", "Bad: "+s, "invalid_request_error", "invalid_value", ""))
		switch got.Class {
		case llm.Quota, llm.RateLimited, llm.Overloaded, llm.Auth:
			t.Fatalf("beside a code, %q: %v by %s", s, got.Class, got.Rule)
		}
	})
}
