package classify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/modelchain/llm"
)

// A transportRule tells one failure of the transport, by type where Go has one and by its text where it has none.
type transportRule struct {
	name    string
	is      func(error) bool
	phrases []phrase
	class   llm.Class
	phase   llm.Phase // where it breaks. PhaseUnknown: that depends
	unsent  bool
	reading bool // breaks while an answer is read: Interrupted there, class elsewhere
}

// transportRules are asked in order: what is permanent, what never left this machine, what the peer said, what time
// did, and what merely broke.
func transportRules() []transportRule {
	return []transportRule{
		// No retry clears a certificate, but another deployment has its own, so this is not Invalid.
		{name: "transport.certificate", is: certificate, class: llm.Unsupported, phase: llm.PhaseConnect, unsent: true,
			phrases: phrases("x509:", "tls: failed to verify certificate")},
		{name: "transport.not_tls", class: llm.Unsupported, phase: llm.PhaseConnect, unsent: true,
			phrases: phrases("server gave http response to https client",
				"first record does not look like a tls handshake")},
		{name: "transport.url", class: llm.Invalid, phase: llm.PhaseConnect, unsent: true,
			phrases: phrases("unsupported protocol scheme", "no host in request url", "missing protocol scheme",
				"invalid url", "invalid control character in url", "invalid header field", "invalid method",
				"stopped after 10 redirects")},
		{name: "transport.dns", is: as[*net.DNSError], class: llm.Unavailable, phase: llm.PhaseConnect, unsent: true,
			phrases: phrases("no such host", "server misbehaving", "lookup * on * i/o timeout")},
		{name: "transport.dial", is: dialing, class: llm.Unavailable, phase: llm.PhaseConnect, unsent: true,
			phrases: phrases("dial tcp", "dial unix", "proxyconnect tcp", "socks connect", "connection refused",
				"no route to host", "network is unreachable", "host is down")},
		{name: "transport.handshake", is: as[tls.AlertError], class: llm.Unavailable, phase: llm.PhaseConnect,
			unsent:  true,
			phrases: phrases("tls handshake timeout", "handshake failure", "remote error: tls:", "tls: ")},
		// HTTP/2's own 429, without a status and without a wait.
		{name: "transport.http2_calm", phrases: phrases("enhance_your_calm"), class: llm.RateLimited},
		{name: "transport.http2_refused", class: llm.Unavailable, unsent: true,
			phrases: phrases("refused_stream", "http2: client conn not usable", "http2: no cached connection")},
		{name: "transport.http2", class: llm.Unavailable, reading: true,
			phrases: phrases("goaway", "stream error: stream id", "connection error: ", "http2: client connection lost",
				"http2: client connection force closed", "http2: response body closed")},
		{name: "transport.header_timeout", class: llm.Timeout, phase: llm.PhaseSend,
			phrases: phrases("timeout awaiting response headers")},
		{name: "transport.timeout", is: timedOut, class: llm.Timeout,
			phrases: phrases("client.timeout", "i/o timeout", "deadline exceeded", "operation timed out",
				"connection timed out")},
		{name: "transport.idle_closed", class: llm.Unavailable, phase: llm.PhaseSend,
			phrases: phrases("server closed idle connection")},
		{name: "transport.malformed", class: llm.Unavailable, reading: true,
			phrases: phrases("malformed http", "transport connection broken", "malformed mime header",
				"malformed chunked encoding", "bad content-length", "server replied with more than declared")},
		{name: "transport.not_json", is: notJSON, class: llm.BadOutput,
			phrases: phrases("unexpected end of json input", "invalid character '", "cannot unmarshal", "gzip: invalid")},
		{name: "transport.cut", is: is(io.ErrUnexpectedEOF), class: llm.Interrupted, reading: true,
			phrases: phrases("unexpected eof")},
		{name: "transport.reset", is: broken, class: llm.Unavailable, reading: true,
			phrases: phrases("connection reset by peer", "broken pipe", "connection aborted",
				"forcibly closed by the remote host", "use of closed network connection", "connection closed")},
		{name: "transport.eof", is: is(io.EOF), class: llm.Unavailable, reading: true, phrases: phrases(": eof")},
		{name: "transport.foreign_cancel", is: is(context.Canceled), class: llm.Unavailable,
			phrases: phrases("context canceled", "request canceled")},
		{name: "transport.other", is: as[net.Error], class: llm.Unavailable, reading: true},
	}
}

var transportTable = transportRules()

// transport classifies an error of the HTTP client or of a connection.
func transport(err error, phase llm.Phase) (verdict, bool) {
	if err == nil {
		return verdict{}, false
	}
	text := fold(err.Error())
	for _, r := range transportTable {
		if r.is != nil && r.is(err) || holds(text, r.phrases) {
			v := verdict{class: r.class, rule: r.name, phase: r.phase, unsent: r.unsent}
			if r.reading {
				switch phase {
				case llm.PhaseBody, llm.PhaseStream:
					v.class = llm.Interrupted
				case llm.PhaseConnect:
					v.class, v.unsent = llm.Unavailable, true
				case llm.PhaseSend, llm.PhaseHeaders:
					v.class = llm.Unavailable
				}
			}
			v.owner = v.class.Owner()
			return v, true
		}
	}
	return verdict{}, false
}

func phrases(texts ...string) []phrase {
	ps := make([]phrase, len(texts))
	for i, s := range texts {
		ps[i] = newPhrase(s)
	}
	return ps
}

func holds(text string, ps []phrase) bool {
	for i := range ps {
		if ps[i].in(text) {
			return true
		}
	}
	return false
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func certificate(err error) bool {
	return as[*tls.CertificateVerificationError](err) || as[x509.UnknownAuthorityError](err) ||
		as[x509.HostnameError](err) || as[x509.CertificateInvalidError](err)
}

func dialing(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		switch op.Op {
		case "dial", "proxyconnect", "socks connect":
			return true
		}
	}
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETUNREACH)
}

func broken(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed)
}

// timedOut asks for the timeouts of net/http, whose errors are context.DeadlineExceeded although no context ended.
func timedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, http.ErrHandlerTimeout) {
		return true
	}
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

func notJSON(err error) bool {
	return as[*json.SyntaxError](err) || as[*json.UnmarshalTypeError](err)
}

// evidenceOf reads what errors of SDKs tell through methods that several of them share: AWS's response error and
// API error, and those that name their status so.
func evidenceOf(err error, ev *llm.Evidence) {
	if status, ok := errors.AsType[interface {
		HTTPStatusCode() int
		error
	}](err); ok {
		ev.Status = status.HTTPStatusCode()
	} else if plain, ok := errors.AsType[interface {
		StatusCode() int
		error
	}](err); ok {
		ev.Status = plain.StatusCode()
	}
	if coded, ok := errors.AsType[interface {
		ErrorCode() string
		ErrorMessage() string
		error
	}](err); ok {
		ev.Code, ev.Message = coded.ErrorCode(), coded.ErrorMessage()
	} else if ev.Status != 0 {
		text := err.Error()
		if i := strings.IndexByte(text, '{'); i >= 0 { // SDKs print the body they got
			ev.Body = text[i:]
		} else {
			ev.Message = text
		}
	}
	if ev.Status != 0 && ev.Phase == llm.PhaseUnknown {
		ev.Phase = llm.PhaseHeaders
	}
}
