package wire

import (
	"net/http"
	"net/textproto"
	"strings"
	"time"
)

// A walker collects facts from values. depth counts layers of errors; fields of deeper layers replace those of
// outer ones.
type walker struct {
	f        *Facts
	left     int
	messages int  // so far
	field    bool // a text is a field's even at depth 0, and not a body
	// The depths at which the fields were found.
	msgAt, statusAt, codeAt, typeAt, otherAt int
	aside                                    int // above 0: inside details, which add facts but are not the message
}

// text reads a text that may hold JSON.
func (w *walker) text(s string, depth int) {
	s = strings.TrimSpace(s)
	if s == "" {
		return
	}
	if depth <= maxLayers {
		if v, before, ok := find(s, &w.left); ok && looksLikeError(v, before) && w.inside(before, depth) {
			before = strings.TrimRight(strings.TrimSpace(before), ":- ")
			if before != "" {
				w.litellm(before)
				w.message(before, depth)
			}
			w.value(v, depth+1)
			if w.f.Message == "" {
				w.message(s, depth)
			}
			return
		}
	}
	if depth <= maxLayers && strings.Contains(s, `\"`) && strings.ContainsAny(s, "{[") { // quoted once too often
		w.text(strings.Trim(unquote.Replace(s), `"`), depth+1)
		return
	}
	w.litellm(s)
	w.message(s, depth)
}

// inside reports whether JSON behind the prose before it is to be read, and notes that it was.
func (w *walker) inside(before string, depth int) bool {
	if before = strings.TrimSpace(before); before == "" {
		return true
	}
	q := quoted(before)
	if w.f.plain {
		return !q && depth == 0 && !w.field
	}
	w.f.Inside = w.f.Inside || q || depth > 0 || w.field
	w.f.Quoted = w.f.Quoted || q
	return true
}

// quoted reports whether something is quoted before JSON, which then may be within it or stand behind quotes that who is
// quoted closed himself. Python's mark of bytes is no quote, and what another server answered is quoted by that server.
func quoted(prose string) bool {
	word := func(i int) bool { return i >= 0 && (wordByte[prose[i]] || prose[i] >= 0x80) }
	for i := range len(prose) {
		switch c := prose[i]; {
		case c == '\'' && word(i-1): // an apostrophe
		case c == '"' && word(i-1) && prose[i-1] == 'b' && !word(i-2):
		case c == '"', c == '\'', c == '`', strings.HasPrefix(prose[i:], "“"), strings.HasPrefix(prose[i:], "‘"):
			lead := strings.ToLower(prose[max(0, i-40):i])
			for _, word := range [...]string{"upstream", "provider", "exception", "returned", "error code", "status code"} {
				if strings.Contains(lead, word) {
					return false
				}
			}
			return true
		}
	}
	return false
}

var unquote = strings.NewReplacer(`\"`, `"`, `\\`, `\`)

// looksLikeError tells a quoted error from other braces in a message, such as an echoed schema: prose may stand before
// anything, so what follows it must have a field that errors have.
func looksLikeError(v value, before string) bool {
	if before == "" {
		return true
	}
	if v.kind == list {
		for _, kid := range v.kids {
			if kid.kind == object && looksLikeError(kid, before) {
				return true
			}
		}
		return false
	}
	for _, k := range v.keys {
		switch field(k) {
		case "error", "errors", "message", "detail", "code", "type", "status", "reason", "retrydelay", "violations",
			"errormessage", "errorcode", "statuscode":
			return true
		}
	}
	return false
}

func (w *walker) value(v value, depth int) {
	if depth > maxLayers*2 {
		return
	}
	switch v.kind {
	case list:
		for i := range v.kids {
			if i == 16 {
				return
			}
			w.value(v.kids[i], depth)
		}
	case text:
		w.text(v.s, depth)
	case object:
		// Plain fields first, so that what is nested comes deeper.
		var few [12]string
		keys := append(few[:0], v.keys...)
		for i := range keys {
			keys[i] = field(keys[i])
			w.plain(keys[i], v.kids[i], depth)
		}
		for i, k := range keys {
			w.nested(k, v.kids[i], depth)
		}
	}
}

// field writes a key so that its spellings meet: error_message, errorMessage, " @type".
func field(k string) string { return Norm(k) }

// plain takes the fields that are texts and numbers.
func (w *walker) plain(k string, v value, depth int) {
	f := w.f
	if v.kind != text && v.kind != number && v.kind != flag {
		return
	}
	switch k {
	case "message", "msg", "errormessage", "errormsg", "errordescription", "detail", "title", "statusmsg", "error", "err",
		"description", "displaymessage", "faultstring", "errortext":
		if v.kind != text {
			if v.kind == number {
				w.code(v.s, &f.Code, depth)
			}
			f.Error = f.Error || k == "error" && v.s == "true"
			return
		}
		if k == "errormsg" || k == "errormessage" || k == "error" || k == "err" || k == "detail" {
			f.Error = true
		}
		if k == "title" || k == "description" {
			w.aside++
			w.text(v.s, depth)
			w.aside--
			return
		}
		w.text(v.s, depth)
	case "code", "errorcode", "errcode", "statuscode", "rawstatuscode", "httpstatus", "reason", "reasoncode",
		"limitsource",
		"quotaid", "quotalimit", "subcode", "internalcode", "blockreason":
		if k == "blockreason" {
			f.Error = true
		}
		if k == "code" || k == "errorcode" || k == "errcode" {
			w.code(v.s, &f.Code, depth)
			return
		}
		var none string
		w.code(v.s, &none, depth)
		if f.Code == "" && none != "" && !strings.HasPrefix(k, "quota") {
			f.Code = none
		}
	case "type", "errortype", "exceptiontype", "status", "exception":
		if k == "exceptiontype" || k == "type" && v.s == "error" || k == "errortype" {
			f.Error = true
		}
		if k == "status" && v.kind == number {
			var none string
			w.code(v.s, &none, depth)
			return
		}
		if k == "type" && w.aside > 0 && strings.Contains(v.s, "/google.rpc.") {
			return
		}
		if k == "status" && f.Type != "" {
			var none string
			w.code(v.s, &none, depth)
			return
		}
		w.code(v.s, &f.Type, depth)
	case "object":
		if v.s == "error" {
			f.Error = true
		}
	case "param", "field", "parameter":
		if v.s != "None" {
			f.Param = v.s
		}
	case "providername":
		f.Upstream = v.s
	case "quotametric":
		w.note(Norm(v.s))
	case "quotavalue", "quotalimitvalue":
		if v.s == "0" {
			w.note("quotavaluezero")
		}
	case "flaggedinput":
		w.note("flaggedinput")
	case "retrydelay", "quotaresetdelay", "retryafter", "retryafterseconds", "retryaftersecs", "estimatedtime",
		"resetsinseconds":
		w.delay(v.s, time.Second, k == "retrydelay")
	case "retryafterms", "retryaftermilliseconds":
		w.delay(v.s, time.Millisecond, true)
	}
}

// nested takes the fields that hold more.
func (w *walker) nested(k string, v value, depth int) {
	f := w.f
	switch k {
	case "error", "err":
		if v.kind == object || v.kind == list {
			f.Error = true
			w.value(v, depth+1)
		}
	case "innererror", "inner":
		w.aside++
		w.value(v, depth+1)
		w.aside--
	case "cause", "upstream", "upstreamerror", "originalerror", "rawerror", "raw", "body",
		"response", "value", "payload", "data", "exception", "fault", "providererror", "lasterror", "errordata",
		"incompletedetails":
		if v.kind == text {
			if k == "raw" || k == "body" || k == "originalerror" || k == "rawerror" || k == "upstreamerror" {
				w.text(v.s, depth+1)
			}
			return
		}
		w.value(v, depth+1)
	case "baseresp": // MiniMax: every answer has one
		for i, key := range v.keys {
			if field(key) == "statuscode" && v.kids[i].s != "0" {
				f.Error = true
				w.value(v, depth+1)
			}
		}
	case "detail", "message": // FastAPI's list of complaints; a gateway's error as an object
		if v.kind == list || v.kind == object {
			f.Error = true
			w.value(v, depth+1)
		}
	case "errors", "details", "errordetails", "violations", "fieldviolations", "metadata":
		if k == "metadata" {
			w.metadata(v, depth)
			return
		}
		if k == "errors" {
			f.Error = true
		}
		if debugInfo(v) {
			return
		}
		w.aside++
		if v.kind == list {
			for i := range v.kids {
				if i < 16 && !debugInfo(v.kids[i]) {
					w.value(v.kids[i], depth+1)
				}
			}
		} else {
			w.value(v, depth+1)
		}
		w.aside--
	case "loc":
		if v.kind == list && f.Param == "" {
			parts := make([]string, 0, len(v.kids))
			for _, kid := range v.kids {
				parts = append(parts, kid.s)
			}
			f.Param = strings.Join(parts, ".")
		}
	case "retrydelay": // {"seconds":34,"nanos":400000000}
		if v.kind == object {
			var sum time.Duration
			for i, key := range v.keys {
				unit := time.Second
				if key == "nanos" {
					unit = time.Nanosecond
				}
				d, ok := units(v.kids[i].s, unit)
				if !ok {
					return
				}
				sum = min(sum+d, longest)
			}
			w.delay(sum.String(), time.Second, true)
		}
	}
}

// metadata reads what gateways put beside an error. An upstream's raw error inside it is the deciding layer.
func (w *walker) metadata(v value, depth int) {
	for i, k := range v.keys {
		kid := v.kids[i]
		switch k := field(k); k {
		case "reasons":
			if kid.kind == list && len(kid.kids) > 0 {
				w.note("moderationreasons")
			}
		case "headers":
			if kid.kind == object {
				w.f.Header = make(http.Header, len(kid.keys))
				for j, name := range kid.keys {
					if kid.kids[j].kind == text || kid.kids[j].kind == number {
						w.f.Header[textproto.CanonicalMIMEHeaderKey(name)] = []string{kid.kids[j].s}
					}
				}
			}
		case "message", "error", "raw", "upstreamerror", "previouserrors":
			w.value(kid, depth+1)
		default:
			w.aside++
			w.plain(k, kid, depth)
			w.aside--
		}
	}
}

// debugInfo reports whether v repeats the error for developers, or links to help.
func debugInfo(v value) bool {
	for i, k := range v.keys {
		if field(k) == "type" {
			s := v.kids[i].s
			return strings.HasSuffix(s, ".DebugInfo") || strings.HasSuffix(s, ".Help")
		}
	}
	return false
}
