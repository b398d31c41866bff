package wire

import (
	"net/http"
	"strings"
	"time"
)

// Limits of what is read from one failing answer.
const (
	MaxBody   = 64 << 10 // bytes of a body
	maxLayers = 8        // error inside error inside error
	maxCodes  = 32
	maxText   = 16 << 10 // bytes of messages kept for reading

	maxMessages = 128 // messages looked at, as each is compared with those before it
)

// Facts are what a failing answer's body says.
type Facts struct {
	// Code, Type, Param and Message are the fields of the innermost error object that has them.
	Code, Type, Param, Message string
	// Status is the innermost number from 100 to 599 that stands as a code or a status. 0: none.
	Status int
	// Codes lists every code, type, status word, reason and quota id of every layer as [Norm] writes them,
	// outermost first.
	Codes []string
	// Text joins the messages of every layer, one a line, outermost first.
	Text string
	// Upstream is the provider that a gateway names as the one that failed.
	Upstream string
	// Delay is a wait that stands in a field of its own, such as Google's RetryInfo. HasDelay: there is one.
	Delay    time.Duration
	HasDelay bool
	// Header holds headers that the body quotes.
	Header http.Header
	// Error says that the body has the form of an error, and is not an answer.
	Error bool
	// Empty and HTML describe bodies that are no JSON.
	Empty, HTML bool
	// Inside says that some of it was read from within a message: JSON, or the code before it. Quoted says that this stood
	// in quotes or behind other words, so that it may be a value of the request.
	Inside, Quoted bool

	plain bool // messages are not looked into
}

// Norm writes a code so that its spellings meet: lower case, letters and digits only, without the prefix and the
// address that AWS puts around its types. "com.amazon#ThrottlingException:http://…" and "throttling_exception" both
// begin alike.
func Norm(code string) string {
	if i := strings.Index(code, ":http"); i > 0 {
		code = code[:i]
	}
	if i := strings.LastIndexByte(code, '#'); i >= 0 {
		code = code[i+1:]
	}
	plain := true
	for i := range len(code) {
		if c := code[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			plain = false
			break
		}
	}
	if plain {
		return code
	}
	b := make([]byte, 0, len(code))
	for i := range len(code) {
		switch c := code[i]; {
		case c >= 'A' && c <= 'Z':
			b = append(b, c|0x20)
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c >= 0x80:
			b = append(b, c)
		}
	}
	return string(b)
}

// Unwrap reads the start of an error's body, whatever its form: JSON, JSON inside a string of JSON, a list, prose
// around JSON, Python's print of a dict, HTML, XML, plain text, nothing, or any of them cut short. It takes time
// linear in the body, of which it reads [MaxBody] bytes.
func Unwrap(body string) Facts { return unwrap(body, false) }

// UnwrapPlain is [Unwrap] without looking into messages, for answers that quote the request in them: prose may stand before
// the JSON of a body, but what stands within it after prose or in quotes, and the code before a message, is text.
func UnwrapPlain(body string) Facts { return unwrap(body, true) }

func unwrap(body string, plain bool) Facts {
	f := Facts{plain: plain}
	if len(body) > MaxBody {
		body = body[:MaxBody]
	}
	body = strings.TrimSpace(strings.TrimPrefix(body, "\ufeff"))
	if body == "" {
		f.Empty = true
		return f
	}
	w := walker{f: &f, left: maxValues}
	switch body[0] {
	case '<':
		w.markup(body)
	default:
		w.text(body, 0)
	}
	return f
}

// Add puts what is known apart from the body, such as the fields an SDK kept, beside it.
func (f *Facts) Add(code, typ, param, message string) {
	w := walker{f: f, left: maxValues, field: true}
	w.code(code, &f.Code, 0)
	w.code(typ, &f.Type, 0)
	if f.Param == "" {
		f.Param = param
	}
	if message != "" && !strings.Contains(f.Text, message) {
		if len(message) > MaxBody {
			message = message[:MaxBody]
		}
		w.text(message, 0)
	}
}

// AddHeader puts what the answer's headers say about the failure beside the body.
func (f *Facts) AddHeader(h http.Header) {
	if len(h) == 0 {
		return
	}
	w := walker{f: f}
	for _, name := range [...]string{"X-Amzn-Errortype", "X-Ms-Error-Code", "X-Error-Code"} {
		if v := h[name]; len(v) > 0 {
			var none string
			w.code(v[0], &none, 0)
			if f.Type == "" || strings.HasPrefix(name, "X-Amzn") {
				f.Type, _, _ = strings.Cut(v[0], ":")
			}
		}
	}
}
