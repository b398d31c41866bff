package classify

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/modelchain/llm"
)

func TestTransport(t *testing.T) {
	dial := func(err error) error { return post(&net.OpError{Op: "dial", Net: "tcp", Err: err}) }
	read := func(err error) error { return &net.OpError{Op: "read", Net: "tcp", Err: err} }
	goaway := errors.New(`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=""`)
	tests := []struct {
		name   string
		err    error
		phase  llm.Phase
		class  llm.Class
		commit llm.CommitState
		rule   string
	}{
		{"refused", dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)),
			0, llm.Unavailable, llm.CommitNone, "transport.dial"},
		{"refused, as text", errors.New("dial tcp 192.0.2.1:443: connect: connection refused"),
			0, llm.Unavailable, llm.CommitNone, ""},
		{"proxy", errors.New("proxyconnect tcp: dial tcp 192.0.2.9:3128: connect: connection refused"),
			0, llm.Unavailable, llm.CommitNone, ""},
		{"dial timeout", dial(os.ErrDeadlineExceeded), 0, llm.Unavailable, llm.CommitNone, "transport.dial"},
		{"dns", post(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}),
			0, llm.Unavailable, llm.CommitNone, "transport.dns"},
		{"certificate", post(&tls.CertificateVerificationError{Err: errors.New("x509: unknown")}),
			0, llm.Unsupported, llm.CommitNone, "transport.certificate"},
		{"certificate, as text", errors.New("tls: failed to verify certificate: x509: certificate has expired"),
			0, llm.Unsupported, llm.CommitNone, ""},
		{"plain http", post(errors.New("http: server gave HTTP response to HTTPS client")),
			0, llm.Unsupported, llm.CommitNone, "transport.not_tls"},
		{"alert", post(tls.AlertError(40)), 0, llm.Unavailable, llm.CommitNone, "transport.handshake"},
		{"handshake timeout", post(errors.New("net/http: TLS handshake timeout")),
			0, llm.Unavailable, llm.CommitNone, "transport.handshake"},
		{"bad url", post(errors.New(`unsupported protocol scheme ""`)), 0, llm.Invalid, llm.CommitNone, "transport.url"},
		{"eof before an answer", post(io.EOF), 0, llm.Unavailable, llm.CommitUnknown, "transport.eof"},
		{"eof while sending", post(io.EOF), llm.PhaseSend, llm.Unavailable, llm.CommitUnknown, "transport.eof"},
		{"cut while connecting", post(io.ErrUnexpectedEOF),
			llm.PhaseConnect, llm.Unavailable, llm.CommitNone, "transport.cut"},
		{"cut body", io.ErrUnexpectedEOF, 0, llm.Interrupted, llm.CommitUnknown, "transport.cut"},
		{"cut stream", io.ErrUnexpectedEOF, llm.PhaseStream, llm.Interrupted, llm.CommitUnknown, "transport.cut"},
		{"cut before headers", io.ErrUnexpectedEOF, llm.PhaseSend, llm.Unavailable, llm.CommitUnknown, "transport.cut"},
		{"reset", read(os.NewSyscallError("read", syscall.ECONNRESET)),
			0, llm.Unavailable, llm.CommitUnknown, "transport.reset"},
		{"reset of a stream", read(os.NewSyscallError("read", syscall.ECONNRESET)),
			llm.PhaseStream, llm.Interrupted, llm.CommitUnknown, "transport.reset"},
		{"broken pipe", read(syscall.EPIPE), llm.PhaseSend, llm.Unavailable, llm.CommitUnknown, "transport.reset"},
		{"closed under us", read(net.ErrClosed), llm.PhaseBody, llm.Interrupted, llm.CommitUnknown, "transport.reset"},
		{"headers late", post(errors.New("net/http: timeout awaiting response headers")),
			0, llm.Timeout, llm.CommitUnknown, "transport.header_timeout"},
		{"client timeout", post(errors.New("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")),
			0, llm.Timeout, llm.CommitUnknown, "transport.timeout"},
		{"read timeout", read(os.ErrDeadlineExceeded), llm.PhaseBody, llm.Timeout, llm.CommitUnknown, "transport.timeout"},
		{"idle", post(errors.New("http: server closed idle connection")),
			0, llm.Unavailable, llm.CommitUnknown, "transport.idle_closed"},
		{"garbage", post(errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "x"`)),
			0, llm.Unavailable, llm.CommitUnknown, "transport.malformed"},
		{"calm down", errors.New(`http2: server sent GOAWAY and closed the connection; ErrCode=ENHANCE_YOUR_CALM`),
			0, llm.RateLimited, llm.CommitUnknown, "transport.http2_calm"},
		{"goaway", goaway, 0, llm.Unavailable, llm.CommitUnknown, "transport.http2"},
		{"goaway in a stream", goaway, llm.PhaseStream, llm.Interrupted, llm.CommitUnknown, "transport.http2"},
		{"refused stream", errors.New("stream error: stream ID 5; REFUSED_STREAM"),
			0, llm.Unavailable, llm.CommitNone, "transport.http2_refused"},
		{"stream error", errors.New("stream error: stream ID 5; INTERNAL_ERROR; received from peer"),
			llm.PhaseStream, llm.Interrupted, llm.CommitUnknown, "transport.http2"},
		{"no json", &json.SyntaxError{}, llm.PhaseBody, llm.BadOutput, llm.CommitUnknown, "transport.not_json"},
		{"half a json", errors.New("unexpected end of JSON input"),
			llm.PhaseBody, llm.BadOutput, llm.CommitUnknown, "transport.not_json"},
		{"canceled elsewhere", post(context.Canceled), 0, llm.Unavailable, llm.CommitUnknown, "transport.foreign_cancel"},
		{"some network error", &net.AddrError{Err: "odd", Addr: "x"},
			0, llm.Unavailable, llm.CommitUnknown, "transport.other"},
	}
	decided := map[string]bool{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, err := range []error{tt.err, &llm.Error{Err: tt.err}} {
				in, ok := err.(*llm.Error) //nolint:errorlint // one of the two
				if ok {
					in.Evidence.Phase = tt.phase
				} else if tt.phase != 0 {
					continue
				}
				e := Err(t.Context(), err)
				decided[e.Rule] = true
				if e.Class != tt.class || e.Commit != tt.commit || tt.rule != "" && e.Rule != tt.rule {
					t.Errorf("got %v by %s, commit %v: %v", e.Class, e.Rule, e.Commit, e)
				}
				if e.Owner != tt.class.Owner() || !errors.Is(e, tt.err) {
					t.Errorf("owner %v, chain %v", e.Owner, e)
				}
				if tt.commit == llm.CommitNone && e.Evidence.Phase != llm.PhaseConnect && tt.rule != "transport.http2_refused" {
					t.Errorf("phase %v of what was not sent", e.Evidence.Phase)
				}
			}
		})
	}
	for _, r := range transportRules() {
		if !decided[r.name] {
			t.Errorf("%s never decides", r.name)
		}
	}
}

// What the real client returns, not what we think it does.
func TestTransportOfTheRealClient(t *testing.T) {
	hang := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hang":
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		case "/drop":
			panic(http.ErrAbortHandler)
		}
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	defer close(hang)
	get := func(c *http.Client, url string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			t.Fatalf("%s answered", url)
		}
		return err
	}
	tests := []struct {
		name string
		err  error
		want llm.Class
	}{
		{"unknown authority", get(&http.Client{}, srv.URL), llm.Unsupported},
		{"dropped", get(srv.Client(), srv.URL+"/drop"), llm.Unavailable},
		{"timeout", get(&http.Client{Transport: srv.Client().Transport, Timeout: 10 * time.Millisecond}, srv.URL+"/hang"),
			llm.Timeout},
		{"nobody there", get(&http.Client{}, "http://127.0.0.1:1/"), llm.Unavailable},
	}
	for _, tt := range tests {
		if e := Err(t.Context(), tt.err); e.Class != tt.want {
			t.Errorf("%s: %v by %s, want %v (%v)", tt.name, e.Class, e.Rule, tt.want, tt.err)
		}
	}
}

func TestAnswerWithATransportError(t *testing.T) {
	e := Error(&llm.Error{Err: io.ErrUnexpectedEOF, Evidence: llm.Evidence{Status: 200, Phase: llm.PhaseStream}})
	if e.Class != llm.Interrupted || e.Commit != llm.CommitUnknown {
		t.Errorf("cut stream: %v, %v", e, e.Commit)
	}
	e = Error(&llm.Error{Err: io.ErrUnexpectedEOF, Evidence: llm.Evidence{Status: 500, Phase: llm.PhaseBody, Body: `{"err`}})
	if e.Class != llm.Unavailable || e.Rule != "status.500" {
		t.Errorf("a failing answer whose body was cut is still that answer: %v by %s", e, e.Rule)
	}
	e = Error(&llm.Error{Evidence: llm.Evidence{Status: 200, Phase: llm.PhaseBody}})
	if e.Class != llm.BadOutput || e.Commit != llm.Committed {
		t.Errorf("empty answer: %v, %v", e, e.Commit)
	}
}

type statusError struct{ status int }

func (statusError) Error() string {
	return `400 Bad Request {"error":{"code":"context_length_exceeded"}}`
}
func (e statusError) HTTPStatusCode() int { return e.status }

type codedError struct{}

func (codedError) Error() string     { return "operation error: ThrottlingException" }
func (codedError) ErrorCode() string { return "ThrottlingException" }
func (codedError) ErrorMessage() string {
	return "Too many tokens per day, please wait before trying again."
}
func (codedError) StatusCode() int { return 429 }

func TestErrorsOfSDKs(t *testing.T) {
	e := Err(t.Context(), post(statusError{400}))
	if e.Class != llm.TooLong || e.Evidence.Status != 400 {
		t.Errorf("status by method: %v", e)
	}
	e = Err(t.Context(), codedError{})
	if e.Class != llm.RateLimited || e.Evidence.Code != "ThrottlingException" || e.Evidence.Status != 429 {
		t.Errorf("code by method: %v", e)
	}
	wrapped := &llm.Error{Provider: "bedrock", Err: codedError{}}
	wrapped.Evidence = llm.Evidence{Status: 429, Code: "ThrottlingException", Message: codedError{}.ErrorMessage()}
	if e = Error(wrapped); e.Class != llm.Quota {
		t.Errorf("fields without a body: %v by %s", e, e.Rule)
	}
}
