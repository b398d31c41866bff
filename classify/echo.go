package classify

import (
	"net/http"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// An answer that finds fault with the request mostly says with what, and so quotes it: a URL, a value, a name. Those are
// the user's words, and they must not speak for the provider: who asks for "https://example/insufficient_quota.png" would
// rest the account that all users share. So, where an answer finds fault with the request,
//
//   - a code, a type or a field of the request that it names decides before all phrases about the account, its pace, its
//     key, the service, the model and the policy;
//   - phrases of these kinds count only outside of quotes and URLs, and those about the account and the service not
//     behind "got" and "input:" either;
//   - JSON in quotes is a value, and codes inside of messages are none beside a code that blames the request.
//
// Sizes and abilities are about the request themselves, so their phrases may stand in quotes where no code blames it.

// faultStatuses are those of an answer that finds fault with what the request says.
var faultStatuses = [...]int{
	http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
	http.StatusLengthRequired, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
	http.StatusUnsupportedMediaType, http.StatusRequestedRangeNotSatisfiable, http.StatusUnprocessableEntity,
	http.StatusRequestHeaderFieldsTooLarge,
}

var (
	// blaming are codes and types that name what is wrong with a request; beside vagueCodes they say no more than the
	// status does, or are about something else.
	blaming = globs(
		"invalid*", "malformed*", "missing*", "unsupported*", "unrecognized*", "extra_forbidden*",
		"empty_array", "empty_string", "empty_content*", "empty_image*", "empty_input*", "empty_message*",
		"unknown_parameter*", "unknown_field*", "unknown_name*", "unknown_argument*", "unknown_tool*", "unknown_variant*",
		"*above_max*", "*below_min*", "*download_failed", "failed_to_download*", "failed_to_fetch*", "image_parse_error",
		"image_too_*", "image_file_*", "file_too_*", "file_not_found", "bad_image*", "bad_url*", "wrong_type",
		// Pydantic's, which FastAPI servers send.
		"value_error*", "type_error*", "json_invalid", "json_type", "*_parsing", "*_parsing_size", "string_type", "int_type",
		"float_type", "bool_type", "bytes_type", "list_type", "dict_type", "tuple_type", "set_type", "none_required",
		"literal_error", "enum", "union_tag_*", "string_pattern_mismatch", "string_too_*", "too_short", "too_long",
		"less_than*", "greater_than*", "multiple_of", "finite_number", "is_instance_of", "assertion_error",
	)
	vagueCodes = globs(
		"invalid_request*", "invalid_argument*", "invalid_param*", "invalid_operation*", "invalid_state*", "invalid_user",
		"invalid_response", "invalid_response_error", "invalid_upstream*", "missing_response*", "invalid_status*",
		"invalid_service*", "invalid_endpoint*", "*key*", "*token*", "*auth*", "*credential*", "*account*",
		"*organization*", "*project*", "*subscription*", "*billing*", "*payment*", "*quota*", "*credit*", "*balance*",
		"*license*", "*signature*", "*permission*", "*country*", "*region*", "*client*", "*model*", "*prompt*", "*policy*",
		"*safety*", "*moderation*",
	)
	// faultTypes say without a status that the request is at fault.
	faultTypes = globs(
		"invalid_request*", "invalid_argument*", "invalid_param*", "bad_request*", "validation*", "unprocessable_entity*",
	)
	// exactTypes are types of makers that have others for the account and its pace.
	exactTypes = globs("validation_exception")
	// otherParams are no fields of what the user wrote.
	otherParams = globs("model", "body.model", "*api_key*", "authorization*", "quota*", "billing*", "credit*")
	modelParams = globs("model", "body.model")
)

func globs(codes ...string) []glob {
	gs := make([]glob, len(codes))
	for i, s := range codes {
		gs[i] = newGlob(s)
	}
	return gs
}

// A trust is how much of a message a row believes where the request is at fault.
type trust uint8

const (
	trustAll  trust = iota
	trustOwn        // not what is quoted
	trustSure       // nor what may be quoted
)

// trustOf is the trust of a built-in row of phrases, by what a false verdict would do: the last rest more than the call.
func trustOf(r *Rule) trust {
	if r.Step != StepText {
		return trustAll
	}
	switch r.Class {
	case llm.Quota, llm.RateLimited, llm.Overloaded, llm.Auth, llm.Unavailable, llm.Timeout, llm.Canceled:
		return trustSure
	case llm.NotFound, llm.Refused:
		return trustOwn
	}
	return trustAll
}

// faults reports whether an answer finds fault with what the request says.
func faults(status int, codes []string) bool {
	for _, s := range faultStatuses {
		if s == status {
			return true
		}
	}
	return (status == 0 || status >= 200 && status < 300) && (anyCode(faultTypes, codes) || blames(codes))
}

// blames reports whether one of codes names what is wrong with the request.
func blames(codes []string) bool {
	for _, c := range codes {
		one := []string{c}
		if anyCode(blaming, one) && !anyCode(vagueCodes, one) {
			return true
		}
	}
	return false
}

// A hearing is what is known of how far a message may be believed, found out when the first row asks.
type hearing struct {
	begun          bool
	faults, blames bool
	texts          [trustSure + 1]string
}

// believes reports whether the row's phrases may speak for the provider. It is asked when all else of the row holds.
func (f *finding) believes(r *row) bool {
	h := &f.hearing
	if !h.begun {
		h.begun = true
		h.faults = faults(f.status, f.facts.Codes)
		h.blames = h.faults && blames(f.facts.Codes)
	}
	if len(r.phrases) == 0 || !h.faults {
		return true
	}
	level := r.trust
	param := []string{f.param()}
	switch {
	case h.blames:
		if level != trustAll && (r.Class != llm.NotFound || !anyCode(modelParams, param)) {
			return false
		}
		level = max(level, trustOwn)
	case level == trustSure && (param[0] != "" && !anyCode(otherParams, param) || anyCode(exactTypes, f.facts.Codes)):
		return false
	}
	if level == trustAll {
		return true
	}
	if h.texts[level] == "" {
		h.texts[level] = unquoted(f.text, level)
	}
	return holds(h.texts[level], r.phrases)
}

// echoes are words before something of the request.
var echoes = [...]string{
	"but got ", ", got ", "; got ", "got: ", "but received ", "received: ", "input: ", "input_value=", "value: ", "given: ",
}

// unquoted is a folded text without what stands in quotes and without URLs. With trustSure it is also without what stands
// between two quotes, as who is quoted may close the quotes himself, and without what follows an echo.
func unquoted(text string, level trust) string {
	text = strings.TrimSpace(text)
	if n := len(text); n > 1 && quote(text[0]) && text[n-1] == text[0] && strings.Count(text, text[:1]) == 2 {
		text = text[1 : n-1] // all of it is one text of JSON
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote(c) && opens(text, i):
			b = append(b, c)
			i = closing(text, i, level)
			if i < len(text) {
				b = append(b, c)
			}
		case c == ':' && strings.HasPrefix(text[i:], "://"):
			for len(b) > 0 && letter(b[len(b)-1]) {
				b = b[:len(b)-1]
			}
			for i+1 < len(text) && text[i+1] != ' ' && text[i+1] != '"' {
				i++
			}
		default:
			b = append(b, c)
		}
	}
	s := string(b)
	if level == trustSure {
		for _, e := range echoes {
			if i := strings.Index(s, e); i >= 0 {
				s = s[:i]
			}
		}
	}
	return s
}

func quote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 0x80 }

// opens reports whether the quote at i begins something: an apostrophe stands within a word or ends one.
func opens(text string, i int) bool { return text[i] != '\'' || i == 0 || !letter(text[i-1]) }

// closing is where what the quote at i begins ends: at the next such quote or, with trustSure, at the last. Without an end
// all that follows is quoted.
func closing(text string, i int, level trust) int {
	ends := func(at int) bool { return text[i] != '\'' || at+1 == len(text) || !letter(text[at+1]) }
	if level == trustSure {
		for at := len(text) - 1; at > i; at-- {
			if text[at] == text[i] && ends(at) {
				return at
			}
		}
		return len(text)
	}
	for at := i + 1; at < len(text); at++ {
		if text[at] == text[i] && ends(at) {
			return at
		}
	}
	return len(text)
}

// read gathers the facts of e. Those from within messages do not count where the request is at fault and either they stand
// in quotes or a code outside of them blames the request.
func (f *finding) read(ev *llm.Evidence) {
	f.facts = wire.Unwrap(ev.Body)
	gather(ev, &f.facts)
	if !f.facts.Inside {
		return
	}
	plain := wire.UnwrapPlain(ev.Body)
	gather(ev, &plain)
	if faults(effective(ev.Status, plain.Status), plain.Codes) && (f.facts.Quoted || blames(plain.Codes)) {
		f.facts = plain
	}
}

func gather(ev *llm.Evidence, facts *wire.Facts) {
	if ev.Code != "" || ev.Type != "" || ev.Message != "" {
		facts.Add(ev.Code, ev.Type, ev.Param, ev.Message)
		facts.Error = true
		facts.Empty = false
	}
	facts.AddHeader(ev.Header)
}
