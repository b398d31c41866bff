package wire

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Failure names why a request fails.
type Failure string

// The failures.
const (
	RateLimited Failure = "rate_limited"
	Quota       Failure = "quota"
	Overloaded  Failure = "overloaded"
	Unavailable Failure = "unavailable"
	ServerError Failure = "server_error"
	Timeout     Failure = "timeout"
	Auth        Failure = "auth"
	Forbidden   Failure = "forbidden"
	NotFound    Failure = "not_found"
	TooLong     Failure = "too_long"
	Policy      Failure = "content_policy"
	Invalid     Failure = "invalid"
	ToolSchema  Failure = "tool_schema"
)

// Failures are all of them, in order.
func Failures() []Failure { return slices.Sorted(maps.Keys(openaiFailures)) }

// Facts are what a failure tells.
type Facts struct {
	Model string
	// Status is told in the place of the failure's own. 0: its own.
	Status int
	// Wait is how long the client is to wait. 0: the failure does not say.
	Wait time.Duration
	// Tokens: it is the tokens that are used up, not the requests; Max is the limit. 0: 60 requests, 30,000 tokens.
	Tokens bool
	Max    int
	// Per is the window of the limit. 0: a minute.
	Per time.Duration
	// Tool is the first tool of the request.
	Tool string
}

// A Reply is an HTTP answer.
type Reply struct {
	Status int
	Header http.Header
	Body   string
}

// A told is what an API says of a failure. Type, code and message may have {model}, {tool}, {max}, {unit}, {minute} (the window
// of the limit) and {min} (the same in short) in them.
type told struct {
	status    int
	typ, code string // of OpenAI's and Bedrock's errors; status and reason of Google's
	param     string
	message   string
}

func (t told) fill(f Facts) told {
	unit, most := "requests", 60
	if f.Tokens {
		unit, most = "tokens", 30_000
	}
	if f.Max > 0 {
		most = f.Max
	}
	tool := f.Tool
	if tool == "" {
		tool = "f"
	}
	minute := window(f.Per)
	short := strings.NewReplacer("minute", "min", "second", "sec").Replace(minute)
	r := strings.NewReplacer("{model}", f.Model, "{tool}", tool, "{max}", strconv.Itoa(most), "{unit}", unit, "{minute}", minute,
		"{min}", short)
	t.typ, t.code, t.message = r.Replace(t.typ), r.Replace(t.code), r.Replace(t.message)
	if f.Status != 0 {
		t.status = f.Status
	}
	return t
}

// window is what a limit is told to be per.
func window(d time.Duration) string {
	switch d {
	case 0, time.Minute:
		return "minute"
	case time.Second:
		return "second"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	}
	return d.String()
}

// Fail is a failure as the API of the request tells it. An API tells a status that its edge made as a page.
func (q Request) Fail(kind Failure, f Facts) Reply {
	if f.Model == "" {
		f.Model = q.Model
	}
	t := q.told(kind).fill(f)
	atGateway := t.status == http.StatusBadGateway || t.status == http.StatusGatewayTimeout && q.openai()
	if t.status >= 520 && t.status <= 526 || atGateway {
		return Page(t.status)
	}
	r := Reply{Status: t.status, Header: http.Header{"Content-Type": {Request{API: q.API}.Media()}}}
	r.Body = text(q.fault(kind, t, f))
	if q.Vertex && q.Stream { // Vertex AI tells failures of its streams in a list
		r.Body = "[" + r.Body + "]"
	}
	if q.API == Bedrock {
		r.Header.Set("X-Amzn-Errortype", t.typ)
	}
	q.wait(r.Header, f.Wait)
	return r
}

func (q Request) openai() bool { return q.API == Chat || q.API == Responses }

func (q Request) told(kind Failure) told {
	switch q.API {
	case Anthropic:
		return anthropicFailures[kind]
	case Gemini:
		if t, ok := vertexFailures[kind]; ok && q.Vertex {
			return t
		}
		return geminiFailures[kind]
	case Bedrock:
		return bedrockFailures[kind]
	}
	if t, ok := responsesFailures[kind]; ok && q.API == Responses {
		return t
	}
	return openaiFailures[kind]
}

// Told is the body of a failure that comes with status 200, in the place of an answer.
func (q Request) Told(kind Failure, f Facts) string {
	if f.Model == "" {
		f.Model = q.Model
	}
	t := q.told(kind).fill(f)
	v := q.fault(kind, t, f)
	if q.API == Bedrock { // no header tells what it is
		v["__type"] = "com.amazon.coral.service#" + t.typ
	}
	return text(v)
}

// fault is the body of a failure.
func (q Request) fault(kind Failure, t told, f Facts) m {
	switch q.API {
	case Anthropic:
		return m{"type": "error", "error": m{"type": t.typ, "message": t.message}}
	case Gemini:
		return q.googleFault(t, f)
	case Bedrock:
		return m{"message": t.message}
	}
	e := m{"message": t.message, "type": t.typ, "param": nil, "code": nil}
	if t.param != "" {
		e["param"] = t.param
	}
	if t.code != "" {
		e["code"] = t.code
	}
	if kind == RateLimited && f.Wait > 0 {
		e["message"] = t.message + " Please try again in " + f.Wait.String() + "."
	}
	return m{"error": e}
}

func (q Request) googleFault(t told, f Facts) m {
	e := m{"code": t.status, "status": t.typ, "message": t.message}
	var details []m
	if t.code != "" {
		details = append(details, m{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": t.code, "domain": "googleapis.com"})
	}
	if id := t.param; id != "" {
		details = append(details, m{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []m{{"quotaId": id}}})
	}
	if f.Wait > 0 && !q.Vertex {
		seconds := strconv.FormatFloat(f.Wait.Seconds(), 'f', -1, 64) + "s"
		e["message"] = t.message + "\nPlease retry in " + seconds + "."
		details = append(details, m{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": seconds})
	}
	if details != nil {
		e["details"] = details
	}
	return m{"error": e}
}

// wait asks for a wait in the headers that the API has for it. The Developer API has none: the body asks.
func (q Request) wait(h http.Header, d time.Duration) {
	if d <= 0 || q.API == Gemini && !q.Vertex {
		return
	}
	if q.API == Bedrock {
		h.Set("X-Amz-Retry-After", strconv.FormatInt(d.Milliseconds(), 10))
		return
	}
	h.Set("Retry-After", strconv.Itoa(seconds(d)))
	if q.openai() {
		h.Set("Retry-After-Ms", strconv.FormatInt(d.Milliseconds(), 10))
	}
	if q.API == Anthropic {
		h.Set("X-Should-Retry", "true")
	}
}

// seconds are those of d, of which the last may have begun.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// A Bucket is what is left of a limit.
type Bucket struct {
	Max, Left int
	// Reset is when it is full again, from now.
	Reset time.Duration
}

// Tell writes how much of the limits is left, in the headers that the API has for it. nil: there is no such limit.
func (a API) Tell(h http.Header, requests, tokens *Bucket, now time.Time) {
	for kind, b := range map[string]*Bucket{"Requests": requests, "Tokens": tokens} {
		if b == nil {
			continue
		}
		most, left := strconv.Itoa(b.Max), strconv.Itoa(b.Left)
		switch a {
		case Chat, Responses:
			h.Set("X-Ratelimit-Limit-"+kind, most)
			h.Set("X-Ratelimit-Remaining-"+kind, left)
			h.Set("X-Ratelimit-Reset-"+kind, b.Reset.Round(time.Millisecond).String())
		case Anthropic:
			h.Set("Anthropic-Ratelimit-"+kind+"-Limit", most)
			h.Set("Anthropic-Ratelimit-"+kind+"-Remaining", left)
			reset := now.Add(b.Reset + time.Second - 1).UTC().Truncate(time.Second)
			h.Set("Anthropic-Ratelimit-"+kind+"-Reset", reset.Format(time.RFC3339))
		}
	}
}

// InBand is a failure in the midst of a stream, seq events after its beginning.
func (q Request) InBand(kind Failure, f Facts, seq int) string {
	if f.Model == "" {
		f.Model = q.Model
	}
	t := q.told(kind).fill(f)
	v := q.fault(kind, t, f)
	switch q.API {
	case Responses:
		failed := Answer{ID: "failed", Model: f.Model, NoUsage: true}
		r := failed.response("failed", nil)
		r["error"] = m{"code": cmp.Or(t.code, t.typ), "message": t.message}
		return sse("error", m{"type": "error", "sequence_number": seq, "error": v["error"]}) +
			sse("response.failed", m{"type": "response.failed", "sequence_number": seq + 1, "response": r})
	case Anthropic:
		return sse("error", v)
	case Gemini:
		s := stream{q: q, n: seq}
		return s.geminiEvent(text(v))
	case Bedrock:
		name := t.typ
		if !slices.Contains(bedrockInBand, name) {
			name = "ModelStreamErrorException"
		}
		return bedrockFrame("exception", strings.ToLower(name[:1])+name[1:], text(v))
	}
	return sse("", v)
}

// Garbage is an event in the midst of a stream that is no JSON. truncated: it is one of content that lost its end.
func (q Request) Garbage(truncated bool, seq int) string {
	data := "{what is this}"
	if truncated {
		data = map[API]string{
			Chat: `{"choices":[{"index":0,"delta":{"content":"lo`, Responses: `{"type":"response.output_text.delta","delta":"lo`,
			Anthropic: `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo`,
			Gemini:    `{"candidates":[{"content":{"parts":[{"text":"lo`, Bedrock: `{"contentBlockIndex":0,"delta":{"text":"lo`,
		}[q.API]
	}
	switch q.API {
	case Gemini:
		s := stream{q: q, n: seq}
		return s.geminiEvent(data)
	case Bedrock:
		return bedrockFrame("event", "contentBlockDelta", data)
	case Responses:
		return "event: response.output_text.delta\ndata: " + data + "\n\n"
	case Anthropic:
		return "event: content_block_delta\ndata: " + data + "\n\n"
	}
	return "data: " + data + "\n\n"
}

// Page is what a proxy answers in the place of the provider: Cloudflare's page for its own statuses, nginx's for the rest.
func Page(status int) Reply {
	name := map[int]string{
		502: "Bad Gateway", 503: "Service Temporarily Unavailable", 504: "Gateway Time-out",
		520: "Web server is returning an unknown error",
		521: "Web server is down", 522: "Connection timed out", 523: "Origin is unreachable", 524: "A timeout occurred",
		525: "SSL handshake failed", 526: "Invalid SSL certificate",
	}[status]
	if name == "" {
		name = http.StatusText(status)
	}
	h := http.Header{"Content-Type": {HTML}, "Server": {"nginx"}}
	body := fmt.Sprintf("<html>\r\n<head><title>%d %s</title></head>\r\n<body>\r\n<center><h1>%[1]d %[2]s</h1></center>\r\n"+
		"<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n", status, name)
	if status >= 520 && status <= 526 {
		h = http.Header{"Content-Type": {HTML + "; charset=UTF-8"}, "Server": {"cloudflare"}, "Cf-Ray": {"made-up-FRA"}}
		body = fmt.Sprintf("<!DOCTYPE html>\n<html lang=\"en-US\"><head><title>api.example.com | %d: %s</title></head>\n"+
			"<body><h1>%[2]s <span>Error code %[1]d</span></h1><p>Cloudflare Ray ID: made-up</p></body></html>\n", status, name)
	}
	return Reply{status, h, body}
}
