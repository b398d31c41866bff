package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestUnwrap(t *testing.T) {
	tests := []struct {
		name, body string
		want       Facts // only what is set is compared
		codes      []string
		text       []string
	}{
		{"openai", `{"error":{"message":"m","type":"t","param":"p","code":"c"}}`,
			Facts{Code: "c", Type: "t", Param: "p", Message: "m", Error: true}, []string{"c", "t"}, nil},
		{"null fields", `{"error":{"message":"m","type":null,"param":null,"code":null}}`,
			Facts{Message: "m", Error: true}, nil, nil},
		{"python's None as text", `{"error":{"message":"m","type":"None","param":"None","code":"429"}}`,
			Facts{Message: "m", Code: "429", Status: 429, Error: true}, nil, nil},
		{"number as code", `{"error":{"message":"m","code":429}}`, Facts{Code: "429", Status: 429, Error: true}, nil, nil},
		{"flat", `{"object":"error","message":"m","type":"rate_limited","code":"1300","raw_status_code":429}`,
			Facts{Message: "m", Type: "rate_limited", Code: "1300", Status: 429, Error: true},
			[]string{"1300", "ratelimited"}, nil},
		{"text as error", `{"error":"m"}`, Facts{Message: "m", Error: true}, nil, nil},
		{"sentence as code", `{"code":"No such permission here","error":"m"}`,
			Facts{Message: "m", Code: "No such permission here", Error: true}, nil, []string{"No such permission", "m"}},
		{"list", `[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]`,
			Facts{Message: "m", Type: "UNAVAILABLE", Status: 503, Error: true}, []string{"unavailable"}, nil},
		{"json in a message", `{"error":{"message":"Outer: {\"error\":{\"message\":\"inner\",\"code\":400}}","code":502}}`,
			Facts{Message: "inner", Status: 400, Error: true}, nil, []string{"Outer", "inner"}},
		{"metadata.raw",
			`{"error":{"message":"Provider returned error","code":429,` +
				`"metadata":{"raw":"{\"error\":{\"type\":\"x_y\",\"message\":\"inner\"}}","provider_name":"P"}}}`,
			Facts{Message: "inner", Type: "x_y", Upstream: "P", Status: 429, Error: true},
			[]string{"xy"}, []string{"Provider returned error"}},
		{"the inner code stays",
			`{"error":{"message":"Outer: {\"error\":{\"message\":\"m\",\"code\":\"in_n\"}}","code":"out_r"}}`,
			Facts{Message: "m", Code: "in_n", Error: true}, []string{"outr", "inn"}, nil},
		{"the inner message stays", `{"error":{"message":"{\"error\":{\"message\":\"inner\"}}","msg":"outer"}}`,
			Facts{Message: "inner", Error: true}, nil, []string{"outer"}},
		{"metadata.raw as text", `{"error":{"message":"outer","metadata":{"raw":"inner words"}}}`,
			Facts{Message: "inner words", Error: true}, nil, []string{"outer"}},
		{"python repr",
			`Error code: 429 - {'error': {'message': "it's 'full'", 'type': None, 'ok': True, 'code': 'busy_now'}}`,
			Facts{Message: "it's 'full'", Code: "busy_now", Error: true}, []string{"busynow"}, []string{"Error code: 429"}},
		{"python bytes", `b'{"error":{"message":"m","code":"c_d"}}'`,
			Facts{Message: "m", Code: "c_d", Error: true}, nil, nil},
		{"fastapi",
			`{"detail":[{"loc":["body","messages",0],"msg":"Field required","type":"missing","input":{"error":{"code":"stolen"}}}]}`,
			Facts{Message: "Field required", Type: "missing", Param: "body.messages.0", Error: true},
			[]string{"missing"}, nil},
		{"detail as text", `{"detail":"m"}`, Facts{Message: "m", Error: true}, nil, nil},
		{"detail as json text", `{"detail":"{\"error\":{\"message\":\"m\",\"type\":\"t_t\"}}"}`,
			Facts{Message: "m", Type: "t_t", Error: true}, nil, nil},
		{"problem json", `{"title":"Too Many","detail":"m","status":429}`,
			Facts{Message: "m", Status: 429, Error: true}, nil, []string{"Too Many"}},
		{"azure", `{"error":{"code":"content_filter","message":"m","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`,
			Facts{Code: "content_filter", Message: "m", Error: true},
			[]string{"contentfilter", "responsibleaipolicyviolation"}, nil},
		{"keys with a leading blank",
			`{" error":{" message":"m"," details":[{" @type":"type.googleapis.com/google.rpc.RetryInfo"," retryDelay":"3s"}]}}`,
			Facts{Message: "m", Delay: 3 * time.Second, HasDelay: true, Error: true}, nil, nil},
		{"google details", `{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[
			{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"PerDayX","quotaValue":"0"}]},
			{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"WHY","metadata":{"quota_limit_value":"0"}},
			{"@type":"type.googleapis.com/google.rpc.DebugInfo","detail":"generic::x: secret words"}]}}`,
			Facts{Message: "m", Type: "RESOURCE_EXHAUSTED", Status: 429, Error: true},
			[]string{"perdayx", "why", "quotavaluezero"}, nil},
		{"aws", `{"__type":"com.amazon.coral#ThrottlingException","message":"m"}`,
			Facts{Message: "m"}, []string{"throttlingexception"}, nil},
		{"aws event", `{":exception-type":"throttlingException","payload":{"message":"m"}}`,
			Facts{Message: "m", Error: true}, []string{"throttlingexception"}, nil},
		{"responses event",
			`{"type":"response.failed","response":{"status":"failed",` +
				`"error":{"code":"server_error","message":"m"},"output":[{"content":"x"}]}}`,
			Facts{Message: "m", Code: "server_error", Error: true}, []string{"servererror"}, nil},
		{"tgi's stream status is not one", `{"error":{"message":"m","http_status_code":422,"error_type":"generation"}}`,
			Facts{Message: "m", Type: "generation", Error: true}, nil, nil},
		{"moderation", `{"error":{"message":"m","metadata":{"reasons":["violence"],"flagged_input":"insufficient_quota"}}}`,
			Facts{Message: "m", Error: true}, []string{"moderationreasons", "flaggedinput"}, nil},
		{"model's own words are none", `{"error":{"message":"m","failed_generation":"{\"error\":{\"code\":\"stolen\"}}"}}`,
			Facts{Message: "m", Error: true}, nil, nil},
		{"html", "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>x</body></html>",
			Facts{Message: "502 Bad Gateway", HTML: true}, nil, nil},
		{"html without a title", "<html><body><p>No <b>upstream</b></p></body></html>",
			Facts{Message: "No upstream", HTML: true}, nil, nil},
		{"xml", "<Error><Code>SlowDown</Code><Message>m</Message></Error>",
			Facts{Message: "m", Code: "SlowDown", Error: true}, []string{"slowdown"}, nil},
		{"text", "no healthy upstream", Facts{Message: "no healthy upstream"}, nil, nil},
		{"code before text", "ThrottlingException: Rate exceeded",
			Facts{Message: "ThrottlingException: Rate exceeded"}, []string{"throttlingexception"}, nil},
		{"event stream lines",
			"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n",
			Facts{Message: "m", Type: "overloaded_error", Error: true}, nil, nil},
		{"json text", `"just words"`, Facts{Message: `"just words"`}, nil, nil},
		{"empty", " \n", Facts{Empty: true}, nil, nil},
		{"byte order mark", "\ufeff{\"error\":\"m\"}", Facts{Message: "m", Error: true}, nil, nil},
		{"cut in a text", `{"error":{"code":"c_c","message":"it was cu`,
			Facts{Code: "c_c", Message: "it was cu", Error: true}, nil, nil},
		{"cut in a key", `{"error":{"code":"c_c","mess`, Facts{Code: "c_c", Error: true}, nil, nil},
		{"escapes", `{"error":"a\n\u00e9\ud83d\ude00\"\\\/\q\u12"}`,
			Facts{Message: "a\né😀\"\\/\\q\ufffd12", Error: true}, nil, nil},
		{"null error is no error", `{"error":null,"choices":[]}`, Facts{}, nil, nil},
		{"an answer is no error",
			`{"id":"x","object":"chat.completion","choices":[{"message":{"role":"assistant","content":"error"}}]}`,
			Facts{}, nil, nil},
		{"every minimax answer has a status", `{"choices":[],"base_resp":{"status_code":0,"status_msg":"success"}}`,
			Facts{}, nil, nil},
		{"litellm",
			`{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: AzureException - m"}}`,
			Facts{Upstream: "Azure", Error: true}, []string{"contextwindowexceedederror", "badrequesterror"}, nil},
		{"braces in prose", `{"error":{"message":"the schema {a: b} is bad: {\"foo\": {\"code\": \"stolen\"}}"}}`,
			Facts{Error: true}, nil, []string{"the schema"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := Unwrap(tt.body)
			for _, p := range []struct{ name, got, want string }{
				{"code", f.Code, tt.want.Code}, {"type", f.Type, tt.want.Type}, {"param", f.Param, tt.want.Param},
				{"message", f.Message, tt.want.Message}, {"upstream", f.Upstream, tt.want.Upstream},
			} {
				if p.want != "" && p.got != p.want {
					t.Errorf("%s: got %q, want %q", p.name, p.got, p.want)
				}
			}
			if f.Error != tt.want.Error || f.HTML != tt.want.HTML || f.Empty != tt.want.Empty {
				t.Errorf("error %v html %v empty %v", f.Error, f.HTML, f.Empty)
			}
			if f.Status != tt.want.Status || f.HasDelay != tt.want.HasDelay || f.Delay != tt.want.Delay {
				t.Errorf("status %d, delay %v", f.Status, f.Delay)
			}
			for _, c := range tt.codes {
				if !slices.Contains(f.Codes, c) {
					t.Errorf("no code %q in %q", c, f.Codes)
				}
			}
			if slices.Contains(f.Codes, "stolen") || slices.Contains(f.Codes, "insufficientquota") ||
				strings.Contains(f.Text, "secret words") {
				t.Errorf("echoed words were taken for the error: %q %q", f.Codes, f.Text)
			}
			for _, s := range tt.text {
				if !strings.Contains(f.Text, s) {
					t.Errorf("no %q in %q", s, f.Text)
				}
			}
		})
	}
}

func TestWhatStandsWithinAMessageIsTold(t *testing.T) {
	const inner = `{"error":{"code":"in_n","message":"m"}}`
	quote := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	for _, tt := range []struct {
		name, body             string
		inside, quoted, stands bool // stands: the inner code is read without looking into messages too
	}{
		{"a body", inner, false, false, true},
		{"prose before a body", "HTTP 400: " + inner, false, false, true},
		{"bytes of Python", "b'" + inner + "'", false, false, true},
		{"a body as a text", quote(inner), false, false, true},
		{"a message that is JSON", `{"error":` + quote(inner) + `}`, false, false, true},
		{"a field for what a server said", `{"error":{"message":"x","metadata":{"raw":` + quote(inner) + `}}}`, false, false, true},
		{"prose before JSON in a message", `{"error":` + quote("it said: "+inner) + `}`, true, false, false},
		{"JSON in quotes", `{"error":` + quote("bad value '"+inner+"'") + `}`, true, true, false},
		{"a body with JSON in quotes", "bad value '" + inner + "'", true, true, false},
		{"JSON within quotes", `{"error":` + quote("bad value 'it said "+inner+"'") + `}`, true, true, false},
		{"JSON in typographic quotes", `{"error":` + quote("bad value “"+inner+"”") + `}`, true, true, false},
		{"JSON behind quotes", `{"error":` + quote("bad value 'a' "+inner+" 'b'") + `}`, true, true, false},
		{"an apostrophe", `{"error":` + quote("it isn't right, the users' own: "+inner) + `}`, true, false, false},
		{"a relay's quotes", `{"error":` + quote("upstream returned '"+inner+"'") + `}`, true, false, false},
		{"bytes in a message", `{"error":` + quote("AcmeException - b'"+inner+"'") + `}`, true, false, false},
		{"a code before a message", "in_n: m", true, false, false},
		{"LiteLLM's class", "litellm.in_n: m", true, false, false},
		{"LiteLLM's class in prose", "bad value litellm.inn", true, true, false},
	} {
		f, plain := Unwrap(tt.body), UnwrapPlain(tt.body)
		has := slices.Contains(f.Codes, "inn") || slices.Contains(f.Codes, "in") // of litellm's, the letters
		if f.Inside != tt.inside || f.Quoted != tt.quoted || !has {
			t.Errorf("%s: inside %v, quoted %v, codes %q", tt.name, f.Inside, f.Quoted, f.Codes)
		}
		if slices.Contains(plain.Codes, "inn") != tt.stands || plain.Text == "" || plain.Inside || plain.Quoted {
			t.Errorf("%s: plain has %+v", tt.name, plain)
		}
	}
	f := UnwrapPlain(`{"error":{"code":"o"}}`)
	if f.Add("", "", "", "it said: "+inner); slices.Contains(f.Codes, "inn") || !strings.Contains(f.Text, "it said") {
		t.Errorf("an added message: %+v", f)
	}
}

func TestNormMeetsSpellings(t *testing.T) {
	for _, s := range []string{"ThrottlingException", "throttling_exception", "com.amazon#ThrottlingException",
		"ThrottlingException:http://internal/x", "THROTTLING-EXCEPTION"} {
		if got := Norm(s); got != "throttlingexception" {
			t.Errorf("%q: %q", s, got)
		}
	}
}

// numbered is 64 KiB of the format, with numbers from 0.
func numbered(format string) string {
	var b strings.Builder
	for i := 0; b.Len() < MaxBody; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// hostile bodies are deep, long or repetitive. None may cost more than reading them.
func hostile() map[string]string {
	quoted := "x"
	for range 12 {
		b, _ := json.Marshal(map[string]string{"message": quoted})
		quoted = string(b)
	}
	return map[string]string{
		"deep lists":             strings.Repeat("[", 100_000),
		"deep objects":           strings.Repeat(`{"error":`, 100_000),
		"deep and closed":        strings.Repeat(`{"a":[`, 50_000) + strings.Repeat("]}", 50_000),
		"deep under an error":    `{"error":{"details":` + strings.Repeat("[", 100_000),
		"many braces":            strings.Repeat("{", 1<<20),
		"many broken objects":    strings.Repeat(`{"a"`, 1<<18),
		"many keys":              "{" + strings.Repeat(`"error":{"message":"m"},`, 1<<16),
		"many codes":             "[" + strings.Repeat(`{"code":"c"},`, 1<<16),
		"many different details": `{"error":{"details":[` + strings.Repeat(`{"reason":"r","message":"m m m"},`, 1<<15),
		"long text":              strings.Repeat("try again in 5 s ", 1<<17),
		"many messages":          `{"error":{` + numbered(`"msg":"a%d",`),
		"many codes of words":    `{"error":{` + numbered(`"code":"a %d",`),
		"many messages of json":  `{"error":{` + numbered(`"msg":"{%d {[{",`),
		"long escape":            `{"error":"` + strings.Repeat(`\\`, 1<<20),
		"one long message":       `{"error":{"message":"` + strings.Repeat("rate limit ", 1<<18) + `"}}`,
		"quoted again and again": quoted,
		"markup":                 strings.Repeat("<a", 1<<20),
		"digits":                 strings.Repeat("1", 1<<20),
		"nul":                    strings.Repeat("\x00", 1<<16),
		"bad utf-8":              `{"error":"` + strings.Repeat("\xff\xfe", 1<<15),
	}
}

func TestHostileBodies(t *testing.T) {
	for name, body := range hostile() {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			f := Unwrap(body)
			f.Add("c", "t", "p", body)
			_ = RetryAfter(nil, &f, noon)
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
			if len(f.Codes) > maxCodes || len(f.Text) > maxText+maxLayers || len(f.Message) > MaxBody {
				t.Errorf("%d codes, %d bytes of text, message of %d", len(f.Codes), len(f.Text), len(f.Message))
			}
		})
	}
}

// Each message is looked for among those before it and added to them, so it is their number that must not grow.
func TestFewMessagesOfABodyAreKept(t *testing.T) {
	for name, body := range hostile() {
		if f := Unwrap(body); strings.Count(f.Text, "\n") > maxMessages {
			t.Errorf("%s: %d messages", name, strings.Count(f.Text, "\n"))
		}
	}
}

func TestTheReaderIsBounded(t *testing.T) {
	var size func(v value) (depth, count int)
	size = func(v value) (depth, count int) {
		count = 1
		for _, kid := range v.kids {
			d, c := size(kid)
			depth, count = max(depth, d), count+c
		}
		return depth + 1, count
	}
	for name, body := range hostile() {
		left := maxValues
		r := reader{s: body, left: &left}
		if depth, count := size(r.value(0)); depth > 30 || count > 5000 {
			t.Errorf("%s: depth %d, %d values", name, depth, count)
		}
	}
}

func TestMarkersBehindTheLimitAreNotRead(t *testing.T) {
	body := `{"error":{"pad":"` + strings.Repeat("x", MaxBody) + `","code":"late"}}`
	if f := Unwrap(body); f.Code != "" {
		t.Errorf("read beyond %d bytes: %q", MaxBody, f.Code)
	}
}

func FuzzUnwrap(f *testing.F) {
	for _, s := range []string{`{"error":{"message":"m","code":429}}`, `[{"error":{}}]`, `{'a': "b'", 'c': None}`, `b'{"x"`,
		"<html><title>x", `{"error":{"message":"p {\"error\":{\"code\":\"c\"}}"}}`, `{"detail":[{"loc":["a",1],"msg":"m"}]}`,
		`"\ud800\u00"`, "{{{{[[[[((((", `{"error":{"metadata":{"raw":"x","headers":{"a":"b"}}}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		facts := Unwrap(body)
		if len(facts.Codes) > maxCodes {
			t.Fatalf("%d codes", len(facts.Codes))
		}
		if facts.Status != 0 && (facts.Status < 100 || facts.Status > 599) {
			t.Fatalf("status %d", facts.Status)
		}
		if facts.Delay < 0 {
			t.Fatalf("delay %v", facts.Delay)
		}
		again := Unwrap(body)
		if again.Message != facts.Message || again.Code != facts.Code {
			t.Fatal("the same body reads differently")
		}
	})
}

func BenchmarkUnwrap(b *testing.B) {
	const body = `{"error":{"message":"Rate limit reached for m on tokens per min (TPM): Limit 1, Used 1, Requested 1. ` +
		`Please try again in 494ms.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`
	b.ReportAllocs()
	for b.Loop() {
		_ = Unwrap(body)
	}
}
