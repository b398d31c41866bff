package classify

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
)

func answer(provider string, status int, body string) *llm.Error {
	return &llm.Error{Provider: provider, Evidence: llm.Evidence{Status: status, Body: body}}
}

func TestCommit(t *testing.T) {
	tests := []struct {
		status int
		body   string
		want   llm.CommitState
	}{
		{400, "", llm.CommitNone}, {401, "", llm.CommitNone}, {404, "", llm.CommitNone}, {413, "", llm.CommitNone},
		{429, "", llm.CommitNone}, {503, "", llm.CommitNone}, {529, "", llm.CommitNone}, {409, "", llm.CommitNone},
		{408, "", llm.CommitUnknown}, {424, "", llm.CommitUnknown}, {499, "", llm.CommitUnknown}, {500, "", llm.CommitUnknown},
		{502, "", llm.CommitUnknown}, {504, "", llm.CommitUnknown}, {524, "", llm.CommitUnknown},
		{503, "upstream connect error or disconnect/reset before headers. reset reason: connection termination", llm.CommitUnknown},
		{503, "no healthy upstream", llm.CommitNone},
		{500, `{"error":{"type":"api_error","message":"Overloaded"}}`, llm.CommitNone},
		{200, `{"error":{"type":"overloaded_error","message":"Overloaded"}}`, llm.CommitNone},
		{200, `{"error":{"message":"boom"}}`, llm.CommitUnknown},
	}
	for _, tt := range tests {
		if e := Error(answer("", tt.status, tt.body)); e.Commit != tt.want {
			t.Errorf("%d %s: %v, want %v", tt.status, tt.body, e.Commit, tt.want)
		}
	}
}

func TestAfterAPartItIsInterruptedAndTheCauseStays(t *testing.T) {
	in := answer("anthropic", 200, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
	in.Partial = &llm.Response{}
	e := Error(in)
	if e.Class != llm.Interrupted || e.Commit != llm.Committed || e.Owner != llm.OwnerTransient || !e.Evidence.Partial {
		t.Errorf("got %v, %v", e, e.Commit)
	}
	cause, ok := errors.AsType[*llm.Error](e.Err)
	if !ok || cause.Class != llm.Overloaded || !errors.Is(e, llm.Overloaded) || !errors.Is(e, llm.Interrupted) {
		t.Errorf("cause %v", e.Err)
	}
	if got := e.Error(); strings.Count(got, "Overloaded") != 1 || !strings.Contains(got, "overloaded") {
		t.Errorf("text %q", got)
	}
	in = answer("openai", 200, `{"error":{"message":"x","code":"content_filter"}}`)
	in.Evidence.Partial = true
	if e = Error(in); e.Class != llm.Refused || e.Commit != llm.Committed {
		t.Errorf("a filter ended it: %v", e)
	}
}

func TestWaits(t *testing.T) {
	body := `{"error":{"message":"x, try again in 90 minutes"}}`
	if e := Error(answer("", 429, body)); e.RetryAfter != 90*time.Minute || !e.CoolUntil {
		t.Errorf("more than an hour is a rest: %v %v", e.RetryAfter, e.CoolUntil)
	}
	in := answer("", 429, body)
	in.RetryAfter = time.Second
	if e := Error(in); e.RetryAfter != time.Second || e.CoolUntil {
		t.Errorf("the adapter's own wait must stay: %v %v", e.RetryAfter, e.CoolUntil)
	}
	in = answer("", 429, `{"error":{"message":"slow"}}`)
	in.Evidence.Header = http.Header{"X-Should-Retry": {"false"}, "X-Request-Id": {"req_1"}}
	if e := Error(in); e.Advice != llm.AdviceDontRetry || e.RetryAfter != 0 || e.RequestID != "req_1" {
		t.Errorf("got %+v", e)
	}
	in.Evidence.Header = http.Header{"X-Should-Retry": {"true"}}
	if e := Error(in); e.Advice != llm.AdviceRetry {
		t.Errorf("got %+v", e)
	}
}

func TestADateWithoutADateHeaderCountsFromNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := answer("anthropic", 400, `{"error":{"message":"You have reached your specified API usage limits. You will `+
			`regain access on 2000-01-02 at 00:00 UTC."}}`) // the bubble's clock starts on 2000-01-01
		if e := Error(in); e.Class != llm.Quota || e.RetryAfter != 24*time.Hour || !e.CoolUntil {
			t.Errorf("got %v after %v", e, e.RetryAfter)
		}
	})
}

func TestUserRowsGoFirst(t *testing.T) {
	c := New(
		Rule{Name: "mine", Provider: "acme", Status: []int{400}, Code: []string{"E42"},
			Pattern: regexp.MustCompile(`(?i)upstream .*down`),
			Class:   llm.Unavailable},
		Rule{Provider: "openai", Code: []string{"insufficient_quota"}, Class: llm.RateLimited},
		Rule{Name: "any", Status: []int{418}, Class: llm.Overloaded, Owner: llm.OwnerRate},
		Rule{Name: "empty", Pattern: regexp.MustCompile(`^gone$`), Class: llm.NotFound},
	)
	upstream := `{"error":{"code":"e-42","message":"Upstream gateway is DOWN"}}`
	tests := []struct {
		in   *llm.Error
		want llm.Class
		rule string
	}{
		{answer("acme", 400, upstream), llm.Unavailable, "mine"},
		{answer("Acme", 400, upstream), llm.Unavailable, "mine"},
		{answer("other", 400, upstream), llm.Invalid, "status.400"},
		{answer("acme", 422, upstream), llm.Invalid, "status.422"},
		{answer("acme", 400, `{"error":{"code":"e42","message":"no"}}`), llm.Invalid, "status.400"},
		{answer("my-openai-eu", 429, `{"error":{"code":"insufficient_quota"}}`), llm.RateLimited, "user.openai.rate_limited"},
		{answer("x", 418, ""), llm.Overloaded, "any"},
		{answer("x", 400, "gone"), llm.NotFound, "empty"},
	}
	for _, tt := range tests {
		if e := c.Error(tt.in); e.Class != tt.want || e.Rule != tt.rule {
			t.Errorf("%s %d %s: %v by %s, want %v by %s",
				tt.in.Provider, tt.in.Evidence.Status, tt.in.Evidence.Body, e.Class, e.Rule, tt.want, tt.rule)
		}
	}
	if e := c.Error(answer("x", 418, "")); e.Owner != llm.OwnerRate {
		t.Errorf("owner %v", e.Owner)
	}
	adapters := Error(answer("x", 418, "")) // the adapter's verdict, without the user's rows
	if e := c.Error(adapters); adapters.Class != llm.Invalid || e.Class != llm.Overloaded {
		t.Errorf("a user's row overrules: %v, then %v", adapters, e)
	}
	if e := c.Error(&llm.Error{Class: llm.Canceled, Evidence: llm.Evidence{Status: 418}}); e.Class != llm.Canceled {
		t.Errorf("the caller's cancel stays: %v", e)
	}
}

func TestAnAnswersOwnWordsAreNoEvidence(t *testing.T) {
	c := New(Rule{Name: "mine", Code: []string{"busy"}, Class: llm.Overloaded})
	in := answer("", 200, `{"type":"busy","choices":[{"message":{"content":"half"}}]}`)
	in.Err = io.ErrUnexpectedEOF
	if e := c.Error(in); e.Class != llm.Interrupted {
		t.Errorf("got %v by %s", e, e.Rule)
	}
}

// Pacing errors advertise upgrades and advise shorter prompts. Whoever reads those words alone stops retrying, or goes
// looking for a larger window.
func TestPacingThatSpeaksOfMoneyOrSize(t *testing.T) {
	for _, pace := range []string{
		"Rate limit reached for m", "limit of 5 requests per minute", "tokens per min (TPM)", "10 requests per min exceeded",
		"5 requests per second", "limited to 20 calls / minute", "20 calls/minute", "quota (5/min) used", "requests (RPM)",
		"requests (RPD)", "tokens (TPD)", "please wait before trying again", "too many within a given time frame",
		"Too many requests",
	} {
		for _, ad := range []string{
			"add a payment method", "purchase credits to raise it", "see your monthly limit", "upgrade to a paid plan",
			"your input tokens exceed it; reduce the length of the prompt", "exceeds the context window budget",
			"it counts toward your usage policy",
		} {
			e := Error(answer("", 429, `{"error":{"message":"`+pace+`; `+ad+`"}}`))
			if e.Class != llm.RateLimited {
				t.Errorf("%q, %q: %v by %s", pace, ad, e.Class, e.Rule)
			}
		}
	}
}

func TestRuleConditions(t *testing.T) {
	with := func(r Rule) *Classifier { r.Class = llm.Cooling; r.Name = "r"; return New(r) }
	in := answer("p", 429, `{"error":{"message":"One two\nthree ‘four’","param":"messages[1]","code":"a.b"}}`)
	in.Evidence.Phase = llm.PhaseHeaders
	in.Evidence.Header = http.Header{"Retry-After": {"9"}}
	for name, tt := range map[string]struct {
		rule Rule
		want bool
	}{
		"status":              {Rule{Status: []int{400, 429}}, true},
		"other status":        {Rule{Status: []int{400}}, false},
		"code, other case":    {Rule{Code: []string{"A_B"}}, true},
		"code, glob":          {Rule{Code: []string{"a*"}}, true},
		"code, part":          {Rule{Code: []string{"a"}}, false},
		"param":               {Rule{Param: []string{"messages*"}}, true},
		"other param":         {Rule{Param: []string{"user"}}, false},
		"phrase over a break": {Rule{Phrase: []string{"two three 'four'"}}, true},
		"phrase, other case":  {Rule{Phrase: []string{"ONE TWO"}}, true},
		"phrase with a gap":   {Rule{Phrase: []string{"one*four"}}, true},
		"gap backwards":       {Rule{Phrase: []string{"four*one"}}, false},
		"short phrase":        {Rule{Phrase: []string{"ne"}}, true},
		"no such phrase":      {Rule{Phrase: []string{"five"}}, false},
		"veto":                {Rule{Phrase: []string{"one"}, Veto: []string{"three"}}, false},
		"veto not met":        {Rule{Phrase: []string{"one"}, Veto: []string{"five"}}, true},
		"veto code":           {Rule{Status: []int{429}, VetoCode: []string{"ab"}}, false},
		"pattern sees case":   {Rule{Pattern: regexp.MustCompile(`One`)}, true},
		"pattern":             {Rule{Pattern: regexp.MustCompile(`^two`)}, false},
		"phase":               {Rule{Phase: []llm.Phase{llm.PhaseHeaders}}, true},
		"other phase":         {Rule{Phase: []llm.Phase{llm.PhaseStream}}, false},
		"wait":                {Rule{MinWait: 9 * time.Second}, true},
		"longer wait":         {Rule{MinWait: 10 * time.Second}, false},
		"no wait":             {Rule{NoWait: true}, false},
		"no body":             {Rule{NoBody: true}, false},
		"all of them": {Rule{Status: []int{429}, Code: []string{"ab"}, Phrase: []string{"one"}, MinWait: 1,
			Phase: []llm.Phase{llm.PhaseHeaders}}, true},
		"all but one": {Rule{Status: []int{429}, Code: []string{"ab"}, Phrase: []string{"five"}}, false},
	} {
		if got := with(tt.rule).Error(in).Class == llm.Cooling; got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	long := answer("p", 400, "one "+strings.Repeat("x", maxGap+10)+" four")
	if with(Rule{Phrase: []string{"one*four"}}).Error(long).Class == llm.Cooling {
		t.Error("a gap has no bound")
	}
}

func TestBadRowsPanicAtConstruction(t *testing.T) {
	for name, r := range map[string]Rule{
		"no condition":     {Name: "r", Provider: "openai", Class: llm.Quota},
		"no class":         {Status: []int{400}, Class: llm.Class(llm.NumClasses)},
		"no status":        {Status: []int{42}},
		"negative wait":    {Status: []int{400}, MinWait: -1},
		"contradiction":    {MinWait: 1, NoWait: true},
		"empty phrase":     {Phrase: []string{" "}},
		"code of stars":    {Code: []string{"*"}},
		"code of no sense": {Code: []string{"--"}},
	} {
		if r.Validate() == nil {
			t.Errorf("%s: valid", name)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			New(r)
		}()
	}
	for _, table := range tables() {
		for _, r := range table {
			if err := r.Validate(); err != nil {
				t.Error(err)
			}
			if r.Name == "" || r.Source == "" {
				t.Errorf("a row without a name or a source: %v", r)
			}
		}
	}
}

func TestRulesComeFromFiles(t *testing.T) {
	const file = `{"name":"r","provider":"acme","status":[400],"phrase":["backend"],"pattern":"(?i)back.?end","class":"unavailable"}`
	var r Rule
	if err := json.Unmarshal([]byte(file), &r); err != nil {
		t.Fatal(err)
	}
	if e := New(r).Error(answer("acme", 400, "Backend lost")); e.Class != llm.Unavailable || e.Rule != "r" {
		t.Errorf("got %v by %s", e, e.Rule)
	}
}

func TestTheTableIsReadable(t *testing.T) {
	var b bytes.Buffer
	c := New(Rule{Name: "mine", Status: []int{400}, Pattern: regexp.MustCompile("x"), Class: llm.Unavailable})
	if err := c.Fprint(&b, "gemini"); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	places := []int{0}
	for _, want := range []string{"user\n", "mine: status 400; pattern x; -> unavailable", "code\n", "google.daily", "code.quota",
		"text\n", "google.quota_untimed", "no wait told", "text.quota", "hint\n", "status\n", "status.429", "vague\n"} {
		i := strings.Index(text, want)
		if i < places[len(places)-1] {
			t.Errorf("%q stands at %d, out of order or not at all", want, i)
		}
		places = append(places, i)
	}
	if strings.Contains(text, "bedrock.daily") {
		t.Error("another family's row is shown")
	}
	if rules := c.Rules("gemini"); len(rules) != strings.Count(text, "\n  ") {
		t.Errorf("%d rules, %d lines", len(rules), strings.Count(text, "\n  "))
	}
}

func TestFamilies(t *testing.T) {
	for provider, want := range map[string]string{
		"": "", "openai": "openai", "OpenAI": "openai", "azure-openai": "azure",
		"my-azure-east": "azure", "vertex": "google", "gemini": "google",
		"google-vertex-anthropic": "google", "aws-bedrock": "bedrock", "openai-compatible": "", "acme": "", "x.ai": "xai",
	} {
		if got := Family(provider); got != want {
			t.Errorf("%q: %q, want %q", provider, got, want)
		}
	}
}

func TestNoKeysInErrors(t *testing.T) {
	const key = "AIzaSyFIXTURE0123456789"
	in := answer("gemini", 403, `{"error":{"code":403,"message":`+
		`"Consumer 'api_key:`+key+`' has been suspended.","status":"PERMISSION_DENIED"}}`)
	in.Message = "call with " + key
	in.Err = post(errors.New("https://x/v1?key=" + key))
	in.Evidence.Header = http.Header{"Set-Cookie": {"s=1"}, "Date": {"x"}}
	e := Error(in)
	if e.Class != llm.Auth {
		t.Errorf("got %v", e)
	}
	blob, err := json.Marshal(e.Evidence)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{e.Error(), e.Message, e.Evidence.Message, e.Evidence.Body, string(blob)} {
		if strings.Contains(s, key) || strings.Contains(s, "s=1") {
			t.Errorf("a secret in %q", s)
		}
	}
	if !errors.Is(e, in.Err) || in.Evidence.Header.Get("Set-Cookie") == "" {
		t.Error("the chain or the caller's header was lost")
	}
	e = Err(canceled(post(errors.New("https://x/v1?key="+key))), errors.New("x"))
	if strings.Contains(e.Error(), key) {
		t.Errorf("a secret in %q", e)
	}
}

func TestLongBodiesAreKeptShort(t *testing.T) {
	in := answer("", 500, strings.Repeat("x", 1<<20))
	in.Evidence.Message = strings.Repeat("rate limit ", 1<<17)
	start := time.Now()
	e := Error(in)
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	if len(e.Evidence.Body) > 64<<10 {
		t.Errorf("%d bytes of body", len(e.Evidence.Body))
	}
	deep := answer("", 400, strings.Repeat(`{"error":`, 100_000))
	if e = Error(deep); e.Class != llm.Invalid {
		t.Errorf("deep: %v", e)
	}
}

func TestWorseSpellingsOfTheSameFailures(t *testing.T) {
	wrap := map[string]func(string) string{
		"as it is":  func(s string) string { return s },
		"in a list": func(s string) string { return "[" + s + "]" },
		"in a text": func(s string) string { b, _ := json.Marshal(map[string]string{"error": s}); return string(b) },
		"after prose": func(s string) string {
			b, _ := json.Marshal(map[string]string{"message": "upstream said: " + s})
			return string(b)
		},
		"as an event": func(s string) string { return "data: " + s + "\n\n" },
		"in a detail": func(s string) string { b, _ := json.Marshal(map[string]string{"detail": s}); return string(b) },
		"in a body":   func(s string) string { return `{"error":{"message":"failed","cause":` + s + `}}` },
		"with a crlf": func(s string) string { return "\r\n" + s + "\r\n" },
		"without end": func(s string) string { return strings.TrimRight(s, "}]") },
		"spread out":  func(s string) string { return strings.ReplaceAll(s, `":`, "\" :\n\t ") },
		"by python": func(s string) string {
			return "Error code: 400 - " + strings.NewReplacer(`"`, `'`, "null", "None").Replace(s)
		},
		"twice quoted": func(s string) string { b, _ := json.Marshal(s); c, _ := json.Marshal(string(b)); return string(c) },
	}
	for body, want := range map[string]llm.Class{
		`{"error":{"message":"m","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`:  llm.Quota,
		`{"error":{"message":"m","type":null,"code":"context_length_exceeded"}}`:                          llm.TooLong,
		`{"error":{"message":"m","code":"content_filter"}}`:                                               llm.Refused,
		`{"error":{"message":"m","code":"model_not_found"}}`:                                              llm.NotFound,
		`{"error":{"message":"prompt is too long: 9 tokens > 8 maximum","type":"invalid_request_error"}}`: llm.TooLong,
	} {
		for name, f := range wrap {
			if e := Error(answer("", 400, f(body))); e.Class != want {
				t.Errorf("%s, %s: %v by %s", body, name, e.Class, e.Rule)
			}
		}
	}
}

// A row for one provider is not listed for another, against whose failures it is not held.
func TestRowsOfOtherProvidersAreNotListed(t *testing.T) {
	c := New(
		Rule{Name: "one", Provider: "Acme", Code: []string{"tokens_gone"}, Class: llm.Quota},
		Rule{Name: "all", Code: []string{"all_gone"}, Class: llm.Quota},
		Rule{Name: "family", Provider: "google", Code: []string{"units_gone"}, Class: llm.Quota},
	)
	for provider, want := range map[string]string{"acme": "one all ", "openai": "all ", "gemini": "all family ", "": "all "} {
		var b strings.Builder
		if err := c.Fprint(&b, provider); err != nil {
			t.Fatal(err)
		}
		names := ""
		for _, r := range c.Rules(provider) {
			if r.Step == StepUser {
				names += r.Name + " "
			}
		}
		if names != want {
			t.Errorf("%q has the rows %q, want %q", provider, names, want)
		}
		for _, name := range []string{"one", "all", "family"} {
			if strings.Contains(b.String(), "\n  "+name+": ") != strings.Contains(want, name) {
				t.Errorf("printed for %q, with or without %s: %.200s", provider, name, b.String())
			}
		}
	}
}
